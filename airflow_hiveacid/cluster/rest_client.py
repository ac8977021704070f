"""HTTP to the services of a cluster, whose answers are not trusted."""

import http.client
import time
import urllib.request
from typing import IO
from urllib.parse import urlsplit

MOST_BYTES = 16 << 20
_PIECE = 1 << 16


def is_page(url: object) -> bool:
    """Whether a text is an address of the web, fit to be a link."""
    return isinstance(url, str) and url.isprintable() and host_of(url) is not None


def host_of(url: str) -> str | None:
    """The host of an address of the web; None for any other text, such as ``file:///etc/passwd``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def ask(request: urllib.request.Request, seconds: float, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the whole answer to a request.

    A redirect is not followed: it may lead to another host.

    Args:
        request: The request, by http or https.
        seconds: How long the whole answer may take.
        most_bytes: How long it may be.

    Raises:
        urllib.error.HTTPError: The status is an error or a redirect.
        OSError: The server does not answer in time, or the address has another scheme.
        http.client.HTTPException: The answer is not HTTP, or too long.
    """
    end = time.monotonic() + seconds
    answer = bytearray()
    with _OPENER.open(request, timeout=seconds) as response:
        while piece := response.read1(_PIECE):
            answer += piece
            if len(answer) > most_bytes:
                raise http.client.HTTPException(f"the answer has more than {most_bytes} bytes")
            if time.monotonic() > end:
                raise TimeoutError("the answer does not end")
    return bytes(answer)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A ResourceManager on standby redirects to the active one, by a name only YARN may know."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    # Not build_opener(), which adds files, FTP and data URLs.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _NoRedirects(),
    ):
        opener.add_handler(handler)
    return opener


_OPENER = _opener()
