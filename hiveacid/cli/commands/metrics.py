"""`hiveacid metrics`: metrics for Prometheus, once or by HTTP."""

import argparse
import ipaddress
import re
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hiveacid.cli import target
from hiveacid.cli.command import Command, until_ended
from hiveacid.errors import HiveAcidError, MetastoreError, UserError
from hiveacid.foreign.budget import Threads
from hiveacid.metastore.authorizer import system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import print_lines
from hiveacid.upkeep import metrics
from hiveacid.upkeep.metrics import CONTENT_TYPE, Sample, prometheus_text

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.health import HealthMeter


# HTTP server of `hiveacid metrics --listen`, for scrapes by Prometheus


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
        self._worker = Threads(1)
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
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{self.server_address[1]}{_PATH}"

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
            host_address = ipaddress.ip_address(host)
        except ValueError:
            return host.rstrip(".") in self._names
        return host_address.is_loopback or host_address == ipaddress.ip_address(address)

    def server_close(self) -> None:
        """Release the address."""
        super().server_close()
        self._worker.shutdown(wait=False, cancel_futures=True)


def parse_address(text: str) -> tuple[str, int]:
    """Parse "PORT", "HOST:PORT" or "[IPv6]:PORT"; without a host it is this machine only.

    Raises:
        UserError: The text is not an address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise UserError(
            f"{text!r} is not an address.", remedy="Use PORT, HOST:PORT or [IPv6 address]:PORT."
        )
    return match["ipv6"] or match["host"] or _LOCAL, int(match["port"])


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


# The newest entries of a history, among which the last run of each operation is searched.
_ENTRIES = 50
_LEAST_SECONDS = 1.0
# Prometheus waits for 10 s by default.
_SCRAPE_SECONDS = 8.0


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="also measure DB.TABLE, a pattern like DB.TABLE*, or DB for all transactional tables of "
        "a database; it lists their folders (default: no table)",
    )
    target.add_metastore(parser)
    parser.add_argument(
        "--runs",
        action="store_true",
        help="also show the last run of each operation on these tables, and the lag of their mirrors "
        "and consumers, which reads notes in their folders",
    )
    parser.add_argument(
        "--erasures",
        metavar="URI",
        help="also show the open requests to erase keys in this folder, and the time until the earliest "
        "deadline",
    )
    parser.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        help="answer GET /metrics until Ctrl-C instead of printing once; without HOST only for this "
        "machine. There is no authentication: everyone who can connect sees names of tables",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="with --listen: a name by which Prometheus reaches this machine, besides its addresses and "
        "localhost; requests for other names are refused (may be repeated)",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="with --listen: from one measurement of the tables to the next (default: %(default)g); "
        "the other metrics are collected for each scrape",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics, or answer scrapes until stopped.

    Returns:
        0, or the exit code of the metastore's error when metrics are printed once.
    """
    from hiveacid.metastore.client import MetastoreClient

    if arguments.every < _LEAST_SECONDS:
        raise UserError(f"--every must be at least {_LEAST_SECONDS:g}, not {arguments.every:g}.")
    address = None if arguments.listen is None else parse_address(arguments.listen)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        tables = _Tables(client, arguments.names, runs=arguments.runs)
        if address is None:
            samples = [*_metastore(client), *_erasures(client, arguments.erasures)]
            samples += tables.measure()
            print_lines(prometheus_text(samples).splitlines())
            return 0

        def scrape() -> str:
            try:
                with client.within(_SCRAPE_SECONDS):
                    samples = [*_metastore(client), *_erasures(client, arguments.erasures)]
            except HiveAcidError as error:
                print(f"hiveacid: {error}", file=sys.stderr, flush=True)
                samples = [Sample(metrics.UP, 0)]
            return prometheus_text([*samples, *tables.latest])

        with MetricsServer(address, scrape, arguments.host) as server, until_ended():
            print(f"Metrics are at {server.url}", flush=True)
            Thread(target=tables.measure_every, args=(arguments.every,), daemon=True).start()
            server.serve_forever()
        tables.stop()
    return 0


COMMAND = Command(
    name="metrics",
    help="print metrics for Prometheus, or answer its scrapes",
    description="Print metrics in the text format of Prometheus: the compaction queue, the "
    "transactions, and the locks, by four calls of the metastore, and the health of the named tables. "
    "Metrics that Hive also exports have Hive's names.",
    configure=_configure,
    run=run,
    asks=True,
)


def _metastore(client: "MetastoreClient") -> list[Sample]:
    from hiveacid.upkeep.metric_collection import metastore_samples

    return metastore_samples(client, datetime.now(UTC))


def _erasures(client: "MetastoreClient", folder: str | None) -> list[Sample]:
    if folder is None:
        return []
    from hiveacid.records.known_erasures import KnownErasures
    from hiveacid.upkeep.metric_collection import erasure_samples

    location = client.allowed_locations.require(folder)
    return [*erasure_samples(KnownErasures(location).read(), datetime.now(UTC))]


class _Tables:
    """The metrics of tables, which are measured less often than they are shown."""

    def __init__(self, client: "MetastoreClient", names: Sequence[str], *, runs: bool) -> None:
        self._client = client
        self._names = names
        self._runs = runs
        self._meter: HealthMeter | None = None
        self._stopped = Event()
        self._latest: dict[str, list[Sample]] = {}

    @property
    def latest(self) -> list[Sample]:
        """The samples of the last measurement."""
        return [sample for name in self._names for sample in self._latest.get(name, ())]

    def measure(self) -> list[Sample]:
        """Measure the tables.

        Raises:
            MetastoreError: The metastore does not answer as it should.
            TableNotFound: A database does not exist.
        """
        return [sample for name in self._names for sample in self._measured(name)]

    def measure_every(self, seconds: float) -> None:
        """Measure the tables again and again, until stopped.

        Args:
            seconds: From one start to the next.
        """
        while not self._stopped.is_set():
            started = time.monotonic()
            for name in self._names:
                try:
                    self._latest[name] = [*self._measured(name)]
                except Exception as error:  # noqa: BLE001 - the thread must outlive any of them
                    kind = "" if isinstance(error, HiveAcidError) else f"{type(error).__name__}: "
                    print(f"hiveacid: {name}: {kind}{error}", file=sys.stderr, flush=True)
                    # The time of the last measurement is one of the metrics.
                    if not isinstance(error, MetastoreError):
                        self._latest.pop(name, None)
            self._stopped.wait(max(_LEAST_SECONDS, seconds - (time.monotonic() - started)))

    def stop(self) -> None:
        """Begin no further measurement."""
        self._stopped.set()

    def _measured(self, name: str) -> Iterator[Sample]:
        from hiveacid.upkeep.health import HealthMeter
        from hiveacid.upkeep.metric_collection import table_samples

        # A meter lists only tables that may have changed since its last measurement.
        self._meter = meter = self._meter or HealthMeter(self._client)
        healths = (
            meter.measure(tables=self._tables_of(name)) if "." in name else meter.measure(name)
        )
        for health in healths:
            if not health.is_shown_to(system_user()):
                continue
            yield from table_samples(health)
            if self._runs and health.error is None:
                yield from self._of_notes(health.table)

    def _tables_of(self, pattern: str) -> list[str]:
        from hiveacid.metastore.table_rules import tables_of

        return [ref.full_name for ref in tables_of(self._client, pattern)]

    def _of_notes(self, name: str) -> list[Sample]:
        """Measure the last runs, the mirrors, and the consumers of a table."""
        from hiveacid.metastore.table_rules import existing_table
        from hiveacid.metastore.txn.owner import Snapshot
        from hiveacid.records.consumers import known_consumers
        from hiveacid.records.mirror_notes import known_mirrors
        from hiveacid.records.signatures import SigningKey
        from hiveacid.records.table_history import table_history
        from hiveacid.upkeep.metric_collection import (
            consumer_samples,
            last_run_samples,
            mirror_samples,
        )

        ref = TableRef.parse(name)
        samples: list[Sample] = []
        try:
            entries = table_history(self._client, ref, limit=_ENTRIES)
            samples += last_run_samples(name, entries)
            table = existing_table(self._client, ref)
            write_ids = Snapshot.take(self._client, [ref]).write_ids[name]
            now, key = datetime.now(UTC), SigningKey.readable()
            for mirror in known_mirrors(table, write_ids, now.timestamp(), key):
                samples += mirror_samples(name, mirror.catalog, mirror.name, mirror.lag)
            for consumer in known_consumers(table, write_ids, key):
                samples += consumer_samples(name, consumer, entries, now)
        except MetastoreError:
            raise
        except HiveAcidError as error:
            print(f"hiveacid: {error}", file=sys.stderr, flush=True)
        return samples
