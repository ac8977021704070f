"""Comparison of a Hive table with its Iceberg table by counts and hashes of the rows of partitions.

Each side is read by a reader of its own: the Hive table by ``scan``, and the Iceberg table by
pyiceberg. So the comparison also finds errors of the export that has written the Iceberg table.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from threading import Event
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg.io.pyarrow
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    HiveAcidError,
    IcebergRefused,
    TableExists,
    TableNotFound,
    VersionGone,
)
from hiveacid.foreign.budget import Threads
from hiveacid.iceberg.catalog_files import files_of
from hiveacid.iceberg.data_limits import DataLimits
from hiveacid.iceberg.guarded_catalog import locked_table
from hiveacid.iceberg.lake import Failure, Lake
from hiveacid.iceberg.mirror_state import MirrorState, read_state
from hiveacid.iceberg.row_hash import PartitionSum, TableSum, described
from hiveacid.jobs.iceberg_job import (
    MIRRORED,
    NEWEST,
    REQUESTED,
    ComparedPartition,
    IcebergCompareJob,
    IcebergCompareReport,
)
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.cleaning import DroppedPartitions
from hiveacid.rules.location import split
from hiveacid.rules.names import TableRef, partition_name
from hiveacid.rules.versions import without
from hiveacid.rules.write_ids import AsOf, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile
from hiveacid.tables.locations import require_files_access
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.visible_table import VisibleTable, see_table

# The rows of an Iceberg table, as pyiceberg reads them, summed up batch by batch


Batches = Iterable[pa.RecordBatch]

# Arrow, which pyiceberg uses, counts the timestamps of ORC files in nanoseconds.
_OWN_READER = (
    "pyiceberg cannot read some ORC files, for example timestamps before 1677 or after 2262, or stripes"
    " that need much memory: the reader of Hive tables has read them instead."
)


class TableRows:
    """The rows of the current snapshot of an Iceberg table.

    Args:
        table: The Iceberg table.
        hive: The Hive table with the same columns.

    Attributes:
        notices: Remarks on files that were read.
    """

    def __init__(self, table: Table, hive: HiveTable) -> None:
        self.notices: list[str] = []
        self._table = table
        self._name = ".".join(table.name())
        self._columns = TableColumns(hive.columns, hive.partition_keys)
        self._scan = table.scan()
        # The method for several files would keep all rows of a file in memory.
        self._files = files_of(table.io).data_files()
        self._limits = DataLimits(self._files)
        self._reader = ArrowScan(table.metadata, self._files, self._scan.projection(), AlwaysTrue())

    def files(self) -> list[FileScanTask]:
        """List the data files, with the files that delete some of their rows.

        Raises:
            IcebergRefused: pyiceberg cannot read the metadata, or a file is outside of the folders of
                the catalog.
        """
        with self._errors():
            scan_tasks = list(self._scan.plan_files())
        for file in scan_tasks:
            for content_file in (file.file, *file.delete_files):
                self._files.require(content_file.file_path)
        return scan_tasks

    @staticmethod
    def folders(files: Iterable[FileScanTask]) -> set[str]:
        """Return the folders of data files, and of the files that delete some of their rows."""
        content_files = (
            content_file for file in files for content_file in (file.file, *file.delete_files)
        )
        return {file.file_path.rpartition("/")[0] for file in content_files}

    def sum_of(
        self, file: FileScanTask, keys: Sequence[str], observed: Callable[[Batches], Batches]
    ) -> TableSum:
        """Sum up the rows of a data file.

        Args:
            file: The file.
            keys: The names of the partition keys.
            observed: Passes batches on.

        Raises:
            IcebergRefused: pyiceberg cannot read the file.
            DataError: The file is damaged.
        """
        with self._errors(file):
            fits = self._limits.fit(file.file)
            for deletes in file.delete_files:
                self._limits.fit(deletes)
        try:
            if fits:
                with self._errors(file), _quiet_casts():
                    return _sum(keys, observed(self._batches(file)))
        except IcebergRefused as error:
            is_own = file.file.file_format is FileFormat.ORC and _deletes_positions_only(file)
            if not is_own or not isinstance(error.__cause__, pa.ArrowInvalid):
                raise
        table_sum = _sum(keys, observed(self._own_batches(file)))
        self.notices = [_OWN_READER]
        return table_sum

    def _batches(self, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        deletes = _read_all_delete_files(self._files, [file])
        return self._reader._record_batches_from_scan_tasks_and_deletes([file], deletes)

    def _own_batches(self, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Read an ORC file by the reader of Hive tables, which supports timestamps of all years."""
        folder, name = split(self._files.require(file.file.file_path))
        data = DataFile(name, file.file.file_size_in_bytes, None, None, raw=True)
        keys = self._key_values(file)
        deleted = self._deleted(file)
        first = 0
        for rows in OrcFile(ReadOnlyStorage.of(folder), data).flat():
            batch = self._columns.batch(rows, keys)
            numbers = pa.array(np.arange(first, first + len(batch)))
            first += len(batch)
            yield batch.filter(pc.invert(pc.is_in(numbers, value_set=deleted)))

    def _deleted(self, file: FileScanTask) -> pa.ChunkedArray:
        """Read the positions of the deleted rows of a file."""
        with self._errors(file):
            deleted_positions = _read_all_delete_files(self._files, [file]).get(
                file.file.file_path, []
            )
        chunks = [chunk for positions in deleted_positions for chunk in positions.chunks]
        return pa.chunked_array(chunks, pa.int64())

    def _key_values(self, file: FileScanTask) -> list[pa.Scalar]:
        spec = self._table.specs()[file.file.spec_id]
        schema = self._table.schema()
        values: dict[str, Any] = {
            schema.find_field(field.source_id).name.lower(): file.file.partition[place]
            for place, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
        }
        kinds = self._columns.schema
        return [
            pa.scalar(values.get(key.name.lower()), kinds.field(key.name).type)
            for key in self._columns.keys
        ]

    @contextmanager
    def _errors(self, file: FileScanTask | None = None) -> Iterator[None]:
        read = self._name if file is None else f"{file.file.file_path} of {self._name}"
        try:
            yield
        except HiveAcidError:
            raise
        except Exception as error:  # noqa: BLE001 - its message may contain a secret
            failure = Failure.of(error, self._table.catalog.properties)
            raise IcebergRefused(
                f"pyiceberg cannot read {read}: {failure.text}",
                remedy="Compare the rows of both tables with Spark.",
            ) from failure.cause


@contextmanager
def _quiet_casts() -> Iterator[None]:
    """Omit pyiceberg's warnings about the precision of timestamps.

    Arrow reads the timestamps of all ORC files as nanoseconds, although those of Iceberg's tables
    have microseconds.
    """
    log = logging.getLogger(pyiceberg.io.pyarrow.__name__)
    log.addFilter(_is_no_cast)
    try:
        yield
    finally:
        log.removeFilter(_is_no_cast)


def _is_no_cast(record: logging.LogRecord) -> bool:
    return "Downcasting to 'us'" not in record.getMessage()


def _deletes_positions_only(file: FileScanTask) -> bool:
    kinds = {deletes.content for deletes in file.delete_files}
    return kinds <= {DataFileContent.POSITION_DELETES}


def _sum(keys: Sequence[str], batches: Batches) -> TableSum:
    total = TableSum(keys)
    for batch in batches:
        total.add(batch)
    return total


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
        self._require_access([iceberg.location()])
        with locked_table(self._client, self._job, self._phases) as (txn, table):
            as_of = AsOf.of(self._job.as_of_write_id, None)
            visible_table = see_table(self._client, txn, table, as_of=as_of)
            version = self._version(iceberg, table, visible_table)
            columns = TableColumns(table.columns, table.partition_keys)
            notices = list(_differing_columns(columns.schema, schema_to_pyarrow(iceberg.schema())))
            rows = TableRows(iceberg, table)
            with self._phases(Phase.READ, f"{self._ref} and {self._job.table}"):
                sides = self._both(
                    lambda: self._hive_rows(version, columns),
                    lambda: self._iceberg_rows(rows, columns),
                )
        report = self._report(version, sides, columns)
        return replace(
            report,
            snapshot_id=iceberg.metadata.current_snapshot_id,
            seconds=self._phases.seconds,
            warnings=(*version.notices, *notices, *rows.notices, *txn.warnings),
        )

    def _version(self, iceberg: Table, table: HiveTable, visible_table: VisibleTable) -> "_Version":
        """Choose the version of the Hive table to compare with."""
        if self._job.as_of_write_id is not None:
            return _Version(visible_table, self._job.as_of_write_id, REQUESTED)
        now = visible_table.write_ids
        assert isinstance(now, ValidWriteIdList)
        try:
            state = read_state(iceberg)
            state.require_follows(table, now)
        except (TableExists, IcebergRefused) as error:
            notice = f"{error.what} It was compared with the newest version of the Hive table."
            return _Version(visible_table, now.high_watermark, NEWEST, (notice,))
        mirror_write_id = state.write_ids.high_watermark
        with _at_mirror():
            return _Version(
                _as_mirrored(visible_table, table, state, now), mirror_write_id, MIRRORED
            )

    def _require_access(self, locations: Iterable[str]) -> None:
        """Ask for the tables that have their files where the Iceberg table says that it has its own."""
        table_names = (self._job.table.lower(), self._ref.full_name)
        require_files_access(self._client, program_user(), locations, table_names)

    def _hive_rows(self, version: "_Version", columns: TableColumns) -> TableSum:
        total = TableSum(_names(columns))
        with _at_mirror() if version.origin == MIRRORED else nullcontext():
            for partition in version.table.partitions:
                for _, batch in self._until_stopped(version.table.part(partition).rows(columns)):
                    total.add(batch)
        return total

    def _iceberg_rows(self, rows: TableRows, columns: TableColumns) -> TableSum:
        total, files = TableSum(_names(columns)), rows.files()
        self._require_access(rows.folders(files))
        for file in self._until_stopped(files):
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

        with Threads(1) as pool:
            iceberg_future = pool.submit(guarded)
            try:
                return hive(), iceberg_future.result()
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
            different=tuple(sorted(different, key=lambda partition: partition.partition or "")),
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
    visible_table: VisibleTable, table: HiveTable, state: MirrorState, now: ValidWriteIdList
) -> VisibleTable:
    """Return the view of the reader that has written the current snapshot of a mirror.

    Raises:
        VersionGone: Partitions were dropped later.
    """
    mirror_write_ids = state.write_ids
    later_ids = [
        *mirror_write_ids.open,
        *range(mirror_write_ids.high_watermark + 1, now.high_watermark + 1),
    ]
    unseen = [write_id for write_id in later_ids if now.is_valid(write_id)]
    if not unseen:
        # The files of the newest version are complete, even if earlier ones were cleaned.
        return visible_table
    if dropped_partitions := DroppedPartitions.of(table.parameters):
        dropped_partitions.require_later(table.ref.full_name, AsOf(mirror_write_ids.high_watermark))
    version = without(now, unseen)
    # The metastore may have forgotten that some were aborted.
    recorded_aborts = (
        write_id for write_id in mirror_write_ids.aborted if write_id <= version.high_watermark
    )
    aborted_ids = tuple(sorted({*version.aborted, *recorded_aborts}))
    return replace(visible_table, write_ids=replace(version, aborted=aborted_ids))


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
        {field.name.lower(): described(field.type) for field in schema}
        for schema in (hive, iceberg)
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
    partition_sum = hive or iceberg
    assert partition_sum is not None
    return ComparedPartition(
        partition=partition_name(keys, [_text(value) for value in partition_sum.values])
        if keys
        else None,
        hive_rows=0 if hive is None else hive.rows,
        iceberg_rows=0 if iceberg is None else iceberg.rows,
        hive_hash=None if hive is None else hive.digest,
        iceberg_hash=None if iceberg is None else iceberg.digest,
    )


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
