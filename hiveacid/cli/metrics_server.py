"""HTTP server of `hiveacid metrics --listen`, for scrapes by Prometheus."""

import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import urlsplit

from hiveacid.errors import UserError
from hiveacid.upkeep.prometheus_text import CONTENT_TYPE

_LOCAL = "127.0.0.1"
_LOCAL_NAME = "localhost"
_PATH = "/metrics"
_LARGEST_PORT = 65535
_ADDRESS = re.compile(
    r"(?:(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]+)):)?(?P<port>[0-9]{1,5})"
)
# A client that sends nothing must not occupy a thread forever.
_TIMEOUT_SECONDS = 10.0


class MetricsServer(ThreadingHTTPServer):
    """Answers GET /metrics, if the request names this server.

    A page in a browser can give its own name the address of this machine, and then read answers: the
    request still contains that name.

    Attributes:
        url: The address of the metrics.
    """

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], scrape: Callable[[], str], names: Collection[str] = ()
    ) -> None:
        """Bind the address.

        Args:
            address: The host and the port; port 0 is any free one.
            scrape: Returns the metrics. One thread calls it, and so needs one connection.
            names: Names of this server, besides its addresses, that requests may contain.

        Raises:
            UserError: The address cannot be bound.
        """
        host, port = address
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._scrape = scrape
        self._names = {_LOCAL_NAME, host.lower(), *map(str.lower, names)}
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1)
        self._running: Future[str] | None = None
        try:
            super().__init__(address, _Handler)
        except (OSError, UnicodeError) as error:
            self._worker.shutdown()
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"{host}:{port} cannot be listened on: {reason}.",
                remedy="Choose another port, or an address of this machine.",
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}{_PATH}"

    def metrics(self) -> bytes:
        """Return the metrics; requests during a scrape receive its result."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._worker.submit(self._scrape)
            running = self._running
        return running.result().encode(errors="backslashreplace")

    def answers_to(self, header: str | None, address: str) -> bool:
        """Whether a request names this server.

        Args:
            header: Its header Host; a browser always sends one.
            address: The address of this machine at which it arrived.
        """
        try:
            host = urlsplit(f"//{header or ''}").hostname or ""
        except ValueError:
            return False
        try:
            named = ipaddress.ip_address(host)
        except ValueError:
            return host.rstrip(".") in self._names
        return named.is_loopback or named == ipaddress.ip_address(address)

    def server_close(self) -> None:
        """Release the address."""
        super().server_close()
        self._worker.shutdown(wait=False, cancel_futures=True)


def parse_address(text: str) -> tuple[str, int]:
    """Parse "PORT", "HOST:PORT" or "[IPv6]:PORT"; without a host it is this machine only.

    Raises:
        UserError: The text is not an address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _LARGEST_PORT:
        raise UserError(
            f"{text!r} is not an address.", remedy="Use PORT, HOST:PORT or [IPv6 address]:PORT."
        )
    return found["ipv6"] or found["host"] or _LOCAL, int(found["port"])


class _Handler(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        """Answer a scrape."""
        hosts = self.headers.get_all("Host", [])
        # Without the zone of a local IPv6 address.
        arrived = str(self.connection.getsockname()[0]).partition("%")[0]
        if len(hosts) != 1 or not self.server.answers_to(hosts[0], arrived):
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST,
                explain="The header Host is not a name of this server: --host adds names.",
            )
            return
        if self.path.partition("?")[0] != _PATH:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"The metrics are at {_PATH}.")
            return
        content = self.server.metrics()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: a scrape comes every few seconds."""
