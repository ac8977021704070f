"""A proxy of an S3 store: it counts the requests, and refuses some like a busy store."""

import http.client
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from hiveacid.metastore.dev.loopback import HOST
from tests.places import place_of

_ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'
)


@dataclass(frozen=True)
class Fate:
    """The fate of a request.

    Attributes:
        status: The status of the error that it is answered with; 0 lets it go on to the store.
        code: The code of that error.
        is_answered: Whether the store's answer returns.
    """

    status: int = 0
    code: str = ""
    is_answered: bool = True


ARRIVES = Fate()
BUSY = Fate(503, "SlowDown")


class CountingProxy:
    """Forwards requests to a store.

    Attributes:
        uri: The address of the proxy.
        requests: The number of requests of each kind, by the names of the store's own API.
        paths: The kinds and paths of all of them, in their order.
        refused: The number of refused ones.
        sent: The number of bytes that clients have sent as the content of objects.
        copied: The number of bytes that the store has copied.
    """

    def __init__(self, port: int) -> None:
        """Describe it.

        Args:
            port: The address of the store.
        """
        self.port = port
        self._lock = threading.Lock()
        self._every: dict[str, int] = {}
        self._server = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self.uri = f"http://{HOST}:{self._server.server_address[1]}"
        self.reset()

    def reset(self) -> None:
        """Begin to count again, and refuse nothing."""
        with self._lock:
            self.requests: Counter[str] = Counter()
            self.paths: list[tuple[str, str]] = []
            self.refused = 0
            self.sent = self.copied = 0
            self._every = {}

    def refuse(self, kind: str, every: int) -> None:
        """Refuse each so-manieth request of a kind from now on, the first one included."""
        self._every[kind] = every

    def arrived(self, kind: str, path: str, size: int) -> Fate:
        """Count a request, and decide upon it."""
        with self._lock:
            before = self.requests[kind]
            self.requests[kind] += 1
            self.paths.append((kind, path))
            if kind in ("PutObject", "UploadPart"):
                self.sent += size
            if kind == "UploadPartCopy":
                self.copied += size
            if kind in self._every and before % self._every[kind] == 0:
                self.refused += 1
                return BUSY
            return ARRIVES

    def carried_out(self, kind: str, path: str, query: Mapping[str, Sequence[str]]) -> None:
        """Whether the store has executed a request."""
        if kind == "CopyObject":
            with self._lock:
                self.copied += place_of(f"s3a:/{unquote(path)}").stat().st_size

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    proxy: CountingProxy
    protocol_version = "HTTP/1.1"
    # Answers are written in two pieces, and the second one must not wait for the first.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._store = http.client.HTTPConnection(HOST, self.proxy.port)

    def finish(self) -> None:
        self._store.close()
        super().finish()

    def _forward(self) -> None:
        content = self._content()
        kind, url = self._kind(), urlsplit(self.path)
        part = self.headers.get("x-amz-copy-source-range", "").removeprefix("bytes=")
        first, _, last = part.partition("-")
        size = int(last) - int(first) + 1 if part else len(content)
        fate = self.proxy.arrived(kind, url.path, size)
        if fate.status:
            error = _ERROR.format(fate.code, "A test wants it so.").encode()
            self._answer(fate.status, [("Content-Type", "application/xml")], error)
            return
        self._store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("transfer-encoding", "expect", "connection"):
                self._store.putheader(name, value)
        if "Transfer-Encoding" in self.headers:
            self._store.putheader("Content-Length", str(len(content)))
        self._store.endheaders(content or None)
        answer = self._store.getresponse()
        body = answer.read()
        if answer.status < 300:
            self.proxy.carried_out(kind, url.path, parse_qs(url.query))
        if not fate.is_answered:
            self.close_connection = True
            return
        headers = [
            (name, value)
            for name, value in answer.getheaders()
            if name.lower() not in ("transfer-encoding", "connection", "content-length")
        ]
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, body, length)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815

    def _kind(self) -> str:
        """The name of the request in the store's own API."""
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        is_object = "/" in url.path.strip("/")
        if "partNumber" in query:
            return "UploadPartCopy" if "x-amz-copy-source" in self.headers else "UploadPart"
        if "uploads" in query:
            return "CreateMultipartUpload" if self.command == "POST" else "ListMultipartUploads"
        if "uploadId" in query:
            return {
                "POST": "CompleteMultipartUpload",
                "DELETE": "AbortMultipartUpload",
            }.get(self.command, "ListParts")
        if "delete" in query:
            return "DeleteObjects"
        if self.command == "GET" and not is_object:
            return "ListObjects"
        if self.command == "PUT" and "x-amz-copy-source" in self.headers:
            return "CopyObject"
        return f"{self.command.capitalize()}{'Object' if is_object else 'Bucket'}"

    def _content(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return content

    def _answer(
        self,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes,
        length: str | None = None,
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Every request would be a line."""
