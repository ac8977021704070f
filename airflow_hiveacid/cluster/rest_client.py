"""HTTP to the services of a cluster, whose answers are not trusted."""

import base64
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from ipaddress import ip_address
from typing import IO, Any
from urllib.parse import urlsplit

from hiveacid.errors import InvalidConnection, KerberosLibraryMissing

MOST_BYTES = 16 << 20
_PIECE = 1 << 16


class KnownHosts:
    """The hosts of a cluster, by its connection alone: answers of servers add no hosts."""

    def __init__(self, addresses: Iterable[str], names: Iterable[str] = ()) -> None:
        """Collect the hosts.

        Args:
            addresses: The addresses of servers. Hosts of the same domains are known, too.
            names: More hosts, and domains with all their hosts: ``*.example.com``.
        """
        hosts = {host for address in addresses if (host := host_of(address))}
        domains = {f".{host.partition('.')[2]}" for host in hosts if not _is_ip_address(host)}
        given = {name.lower() for name in names}
        self._hosts = hosts | given
        self._domains = (
            # A domain with one label may be that of all companies, such as .com.
            *(domain for domain in domains if domain.count(".") > 1),
            *(name[1:] for name in given if name.startswith("*.")),
        )

    def has(self, url: object) -> bool:
        """Return whether a text is a printable http or https address on a known host."""
        host = host_of(url) if isinstance(url, str) and url.isprintable() else None
        return host is not None and (host in self._hosts or host.endswith(self._domains))


def host_of(url: str) -> str | None:
    """Return the host of a web address; None for any other text, such as ``file:///etc/passwd``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def _is_ip_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def ask(request: urllib.request.Request, seconds: float, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the whole answer to a request.

    A redirect is not followed: it may lead to another host. A server that asks for Kerberos gets the
    ticket of this process (SPNEGO), so the host has to be a known one.

    Args:
        request: The request, by http or https.
        seconds: How long the whole answer may take.
        most_bytes: How long it may be.

    Raises:
        urllib.error.HTTPError: The status is an error or a redirect.
        OSError: The server does not answer in time, or the address has another scheme.
        http.client.HTTPException: The answer is not HTTP, or too long.
        InvalidConnection: The server asks for Kerberos, and no ticket is available.
    """
    end = time.monotonic() + seconds
    answer = bytearray()
    with _opened(request, seconds) as response:
        while piece := response.read1(_PIECE):
            answer += piece
            if len(answer) > most_bytes:
                raise http.client.HTTPException(f"the answer has more than {most_bytes} bytes")
            if time.monotonic() > end:
                raise TimeoutError("the answer does not end")
    return bytes(answer)


def _opened(request: urllib.request.Request, seconds: float) -> Any:
    try:
        return _OPENER.open(request, timeout=seconds)
    except urllib.error.HTTPError as error:
        asked = error.headers.get_all("WWW-Authenticate") or []
        if error.code != 401 or not any(each.lower().startswith("negotiate") for each in asked):
            raise
        error.close()
    proof = base64.b64encode(_ticket_for(host_of(request.full_url) or "")).decode()
    request.add_unredirected_header("Authorization", f"Negotiate {proof}")
    return _OPENER.open(request, timeout=seconds)


def _ticket_for(host: str) -> bytes:
    # This module is imported wherever an operator is, and Kerberos is rarely needed.
    from hiveacid.metastore.sasl.gss_failure import GssFailure
    from hiveacid.metastore.sasl.system_gssapi import SystemContext

    try:
        return SystemContext(f"HTTP@{host}", None, {}).step(b"")
    except (GssFailure, KerberosLibraryMissing) as failure:
        raise InvalidConnection(
            f"{host} asks for Kerberos, and there is no ticket for HTTP@{host}: {failure}.",
            remedy="Run airflow kerberos or kinit for the user of this process, with KRB5CCNAME in its "
            "environment.",
        ) from failure


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
