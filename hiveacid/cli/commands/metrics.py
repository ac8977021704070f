"""`hiveacid metrics`: metrics for Prometheus, once or by HTTP."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TYPE_CHECKING

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.foreground import until_ended
from hiveacid.cli.metrics_server import MetricsServer, parse_address
from hiveacid.errors import HiveAcidError, MetastoreError, UserError
from hiveacid.jobs.job import SHOW, Access
from hiveacid.metastore.authorizer import may_access, system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.printable import print_lines
from hiveacid.upkeep import metrics
from hiveacid.upkeep.metrics import Sample
from hiveacid.upkeep.prometheus_text import prometheus_text

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.entries import HistoryEntry
    from hiveacid.upkeep.health import HealthMeter

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
        help="also show the last run of each operation on these tables, which reads notes in their "
        "folders",
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
            samples = [*_metastore(client), *tables.measure()]
            print_lines(prometheus_text(samples).splitlines())
            return 0

        def scrape() -> str:
            try:
                with client.within(_SCRAPE_SECONDS):
                    samples = _metastore(client)
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
        from hiveacid.upkeep.metric_collection import last_run_samples, table_samples

        # A meter lists only tables that may have changed since its last measurement.
        self._meter = meter = self._meter or HealthMeter(self._client)
        healths = (
            meter.measure(tables=self._tables_of(name)) if "." in name else meter.measure(name)
        )
        for health in healths:
            if not may_access(system_user(), Access(health.table, (), SHOW)):
                continue
            yield from table_samples(health)
            if self._runs and health.error is None:
                yield from last_run_samples(health.table, self._history(health.table))

    def _tables_of(self, pattern: str) -> list[str]:
        from hiveacid.metastore.many_tables import tables_of

        return [ref.full_name for ref in tables_of(self._client, pattern)]

    def _history(self, table: str) -> "Sequence[HistoryEntry]":
        from hiveacid.records.table_history import table_history

        try:
            return table_history(self._client, TableRef.parse(table), limit=_ENTRIES)
        except MetastoreError:
            raise
        except HiveAcidError as error:
            print(f"hiveacid: {error}", file=sys.stderr, flush=True)
            return ()
