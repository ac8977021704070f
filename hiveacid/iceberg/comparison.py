"""Comparison of a Hive table with its Iceberg table by counts and hashes of the rows of partitions.

Each side is read by a reader of its own: the Hive table by ``scan``, and the Iceberg table by
pyiceberg. So the comparison also finds errors of the export that has written the Iceberg table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from hiveacid.errors import (
    MirrorRefused,
    TableExists,
    TableNotFound,
    VersionGone,
)
from hiveacid.iceberg.lake import Lake
from hiveacid.iceberg.locked_table import confirm, locked_table
from hiveacid.iceberg.mirror_state import MirrorState, read_state
from hiveacid.iceberg.row_hash import PartitionSum, TableSum, described
from hiveacid.iceberg.table_rows import TableRows
from hiveacid.jobs.iceberg_job import IcebergCompareJob
from hiveacid.jobs.reports.iceberg_report import (
    MIRRORED,
    NEWEST,
    REQUESTED,
    ComparedPartition,
    IcebergCompareReport,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.as_of import AsOf
from hiveacid.rules.dropped_partitions import DroppedPartitions
from hiveacid.rules.names import TableRef, partition_name
from hiveacid.rules.versions import without
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import VisibleTable, see_table

T = TypeVar("T")


class Comparison:
    """One run of a comparison.

    Args:
        client: The metastore of the Hive table.
        job: The comparison.
        phases: Receives the phases of the run.
    """

    def __init__(self, client: MetastoreClient, job: IcebergCompareJob, phases: PhaseClock) -> None:
        self._client = client
        self._job = job
        self._phases = phases
        self._ref = TableRef.parse(job.target)
        self._stop = Event()

    def run(self) -> IcebergCompareReport:
        """Read both tables, and compare the counts and hashes of their partitions."""
        # Before the snapshot of the Hive table, which is therefore not older than the mirror.
        with self._phases(Phase.OPEN, f"the catalog of {self._job.table}"):
            iceberg = Lake(self._job).table()
        if iceberg is None:
            raise TableNotFound(
                f"The Iceberg table {self._job.table} does not exist in the catalog"
                f" {self._job.catalog}.",
                remedy="Check the options of the catalog, or export the Hive table first.",
            )
        with locked_table(self._client, self._job, self._phases) as (txn, table):
            as_of = AsOf.of(self._job.as_of_write_id, None)
            seen = see_table(self._client, txn, table, as_of=as_of)
            version = self._version(iceberg, table, seen)
            columns = TableColumns(table.columns, table.partition_keys)
            notices = list(_differing_columns(columns.schema, schema_to_pyarrow(iceberg.schema())))
            rows = TableRows(iceberg, table)
            with self._phases(Phase.READ, f"{self._ref} and {self._job.table}"):
                sides = self._both(
                    lambda: self._hive_rows(version, columns),
                    lambda: self._iceberg_rows(rows, columns),
                )
            # Otherwise a cleaner may have removed files of the Hive table.
            confirm(txn)
        report = self._report(version, sides, columns)
        return replace(
            report,
            snapshot_id=iceberg.metadata.current_snapshot_id,
            seconds=self._phases.seconds,
            warnings=(*version.notices, *notices, *rows.notices, *txn.warnings),
        )

    def _version(self, iceberg: Table, table: HiveTable, seen: VisibleTable) -> "_Version":
        """Choose the version of the Hive table to compare with."""
        if self._job.as_of_write_id is not None:
            return _Version(seen, self._job.as_of_write_id, REQUESTED)
        now = seen.write_ids
        assert isinstance(now, ValidWriteIdList)
        try:
            state = read_state(iceberg)
            state.require_follows(table, now)
        except (TableExists, MirrorRefused) as error:
            notice = f"{error.what} It was compared with the newest version of the Hive table."
            return _Version(seen, now.high_watermark, NEWEST, (notice,))
        own = state.write_ids.high_watermark
        with _at_mirror():
            return _Version(_as_mirrored(seen, table, state, now), own, MIRRORED)

    def _hive_rows(self, version: "_Version", columns: TableColumns) -> TableSum:
        total = TableSum(_names(columns))
        with _at_mirror() if version.origin == MIRRORED else nullcontext():
            for partition in version.table.partitions:
                for _, batch in self._until_stopped(version.table.part(partition).rows(columns)):
                    total.add(batch)
        return total

    def _iceberg_rows(self, rows: TableRows, columns: TableColumns) -> TableSum:
        total = TableSum(_names(columns))
        for file in self._until_stopped(rows.files()):
            total.merge(rows.sum_of(file, _names(columns), self._until_stopped))
        return total

    def _both(
        self, hive: Callable[[], TableSum], iceberg: Callable[[], TableSum]
    ) -> tuple[TableSum, TableSum]:
        """Read both tables at the same time; an error ends both."""

        def guarded() -> TableSum:
            try:
                return iceberg()
            except BaseException:
                self._stop.set()
                raise

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(guarded)
            try:
                return hive(), other.result()
            finally:
                self._stop.set()

    def _until_stopped(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            if self._stop.is_set():
                return
            yield item

    def _report(
        self, version: "_Version", sides: tuple[TableSum, TableSum], columns: TableColumns
    ) -> IcebergCompareReport:
        hive, iceberg = (side.parts for side in sides)
        names = _names(columns)
        pairs = [(hive.get(key), iceberg.get(key)) for key in {**hive, **iceberg}]
        different = [_compared(names, *pair) for pair in pairs if not _is_equal(*pair)]
        return IcebergCompareReport(
            target=self._ref.full_name,
            table=self._job.table,
            equal=not different,
            version=version.origin,
            write_id=version.write_id,
            hive_rows=sides[0].rows,
            iceberg_rows=sides[1].rows,
            partitions=len(pairs),
            different=tuple(sorted(different, key=lambda each: each.partition or "")),
        )


@dataclass(frozen=True, slots=True)
class _Version:
    """The compared version of the Hive table.

    Attributes:
        table: The table as a reader of the version sees it.
        write_id: The number of the version.
        origin: The reason for the choice of the version.
        notices: Remarks on the choice.
    """

    table: VisibleTable
    write_id: int
    origin: str
    notices: tuple[str, ...] = ()


def _as_mirrored(
    seen: VisibleTable, table: HiveTable, state: MirrorState, now: ValidWriteIdList
) -> VisibleTable:
    """Return the view of the reader that has written the current snapshot of a mirror.

    Raises:
        VersionGone: Partitions were dropped later.
    """
    then = state.write_ids
    later = [*then.open, *range(then.high_watermark + 1, now.high_watermark + 1)]
    unseen = [write_id for write_id in later if now.is_valid(write_id)]
    if not unseen:
        # The files of the newest version are complete, even if earlier ones were cleaned.
        return seen
    if dropped := DroppedPartitions.of(table.parameters):
        dropped.require_later(table.ref.full_name, AsOf(then.high_watermark))
    version = without(now, unseen)
    # The metastore may have forgotten that some were aborted.
    known = (own for own in then.aborted if own <= version.high_watermark)
    aborted = tuple(sorted({*version.aborted, *known}))
    return replace(seen, write_ids=replace(version, aborted=aborted))


@contextmanager
def _at_mirror() -> Iterator[None]:
    """Describe the remedy if the version of a mirror is gone."""
    try:
        yield
    except VersionGone as error:
        raise VersionGone(
            f"The version of the mirror cannot be read any more. {error.what}",
            remedy="Run the mirror again, and compare the tables then.",
        ) from error


def _differing_columns(hive: pa.Schema, iceberg: pa.Schema) -> Iterator[str]:
    """Describe columns that only one table has, and those of another kind."""
    sides = [
        {each.name.lower(): described(each.type) for each in schema} for schema in (hive, iceberg)
    ]
    ours, theirs = sides
    for name in {**ours, **theirs}:
        if name not in theirs:
            yield f"The Iceberg table has no column {name}: it counts as null there."
        elif name not in ours:
            yield f"The Hive table has no column {name}: it counts as null there."
        elif ours[name] != theirs[name]:
            yield (
                f"The column {name} is {ours[name]} in the Hive table, and {theirs[name]} in the"
                " Iceberg table."
            )


def _names(columns: TableColumns) -> list[str]:
    return [key.name.lower() for key in columns.keys]


def _is_equal(hive: PartitionSum | None, iceberg: PartitionSum | None) -> bool:
    return hive is not None and iceberg is not None and hive.is_equal(iceberg)


def _compared(
    keys: Sequence[str], hive: PartitionSum | None, iceberg: PartitionSum | None
) -> ComparedPartition:
    known = hive or iceberg
    assert known is not None
    return ComparedPartition(
        partition=partition_name(keys, [_text(each) for each in known.values]) if keys else None,
        hive_rows=0 if hive is None else hive.rows,
        iceberg_rows=0 if iceberg is None else iceberg.rows,
        hive_hash=None if hive is None else hive.digest,
        iceberg_hash=None if iceberg is None else iceberg.digest,
    )


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
