"""A REST catalog that answers whatever a test requests."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class RestServer:
    """The server.

    Attributes:
        config: The properties that it returns for the catalog.
        table: The answer with the table.
        redirect: The address that it redirects requests for the table to.
        body: The answer with the table as bytes, in place of the table.
        error: The text of an answer with an error.
        delay: Called before each answer.
        tokens: The values of the header Authorization.
    """

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.table: dict[str, Any] = {}
        self.body: bytes | None = None
        self.redirect: str | None = None
        self.error: str | None = None
        self.delay: Callable[[], object] = lambda: None
        self.tokens: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.answer(self)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.delay()
        self.tokens += [
            request.headers[name] for name in request.headers if name == "Authorization"
        ]
        path = request.path.partition("?")[0]
        if path.endswith("/v1/config"):
            return self._send(request, {"defaults": self.config, "overrides": self.config})
        if self.redirect is not None:
            request.send_response(307)
            request.send_header("Location", self.redirect)
            request.end_headers()
            return None
        if self.error is not None:
            request.send_response(400)
            request.send_header("Content-Length", str(len(self.error)))
            request.end_headers()
            request.wfile.write(self.error.encode())
            return None
        return self._send(request, self.table, self.body)

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, content: object, data: bytes | None = None) -> None:
        data = json.dumps(content).encode() if data is None else data
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
