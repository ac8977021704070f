"""A snapshot of a full-ACID table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.metastore.catalog import HiveTable
from hiveacid.orc.format.envelope import RowOperation
from hiveacid.rules.directory import SyntheticIds, synthetic_ids, written_by
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_scan import scan_frame
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.files import AcidFile, FileTails, PartitionFiles, read_tails
from hiveacid.spark.rows.columns import (
    has_exact_statistics,
    quoted,
    select_texts,
    shown_columns,
    spark_struct,
)
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage

# The scan of ACID files inside of Spark: its description, and the frame that Java makes of it


# The parts of a row id, beside the user's columns.
WRITE_ID, BUCKET, ROW = map(own_column, ("write_id", "bucket", "row"))
# The number of a row's partition in its snapshot.
PARTITION = own_column("partition")
KEY = (WRITE_ID, BUCKET, ROW, PARTITION)
ACID_FIELDS = (
    StructField("operation", IntegerType()),
    StructField("originalTransaction", LongType()),
    StructField("bucket", IntegerType()),
    StructField("rowId", LongType()),
    StructField("currentTransaction", LongType()),
)
# The write id of the file, or of an event.
CURRENT = own_column("current")
_IDS = StructType(
    [
        StructField(WRITE_ID, LongType()),
        StructField(BUCKET, IntegerType()),
        StructField(ROW, LongType()),
        StructField(CURRENT, LongType()),
    ]
)


@dataclass(frozen=True)
class ScanPlan:
    """The files and rows of a scan.

    Attributes:
        table: The table, with the columns to read.
        write_ids: The visible write ids.
        partitions: The values of the partition keys, as texts.
        files: The files, each with the number of its partition, the number of its delete files or
            -1, and its row ids, if it has none itself.
        deletes: Delete files of rows.
        are_deletes: Whether the files hold delete events, which then are the rows.
    """

    table: HiveTable
    write_ids: ValidWriteIdList
    partitions: Sequence[tuple[str | None, ...]]
    files: Sequence[tuple[int, AcidFile, int, SyntheticIds | None]]
    deletes: Sequence[Sequence[AcidFile]] = ()
    are_deletes: bool = False

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the visible rows: the columns of the table, its keys, KEY, and CURRENT.

        Args:
            spark: A session made by ``scan_session``.
        """
        table, stored = self.table, [column.name for column in self.table.stored_columns]
        keys = spark_struct(table.partition_keys).fields
        with translated_spark_errors(f"Reading {self.table.ref.full_name}"):
            return scan_frame(
                spark,
                columns=spark_struct(table.columns),
                positions=[stored.index(column.name) for column in table.columns],
                by_position=table.mapped_columns.mapping is ColumnMapping.POSITION,
                ids=_IDS,
                keys=StructType([*keys, StructField(PARTITION, IntegerType())]),
                are_deletes=self.are_deletes,
                searchable=[c.name for c in table.columns if has_exact_statistics(c)],
                highest=self.write_ids.high_watermark,
                hidden=sorted({*self.write_ids.open, *self.write_ids.aborted}),
                partitions=[[*own, str(at)] for at, own in enumerate(self.partitions)],
                deletes=[[[f.path, f.size, f.exact] for f in some] for some in self.deletes],
                files=[
                    [file.path, file.size, at, deletes, file.exact, file.raw, _of_first_row(ids)]
                    for at, file, deletes, ids in self.files
                ],
            )


def row_ids(
    partitions: Sequence[PartitionFiles], files: Sequence[tuple[int, AcidFile]]
) -> Mapping[str, SyntheticIds]:
    """Return the row ids that Hive assigns to the rows of files without row ids, by their paths.

    Args:
        partitions: The partitions that the numbers beside the files refer to.
        files: Files without row ids, each with the number of its partition.

    Raises:
        UnsupportedFile: The name of a file has no bucket number, so that its rows have no ids.
    """
    beside = {
        (number, file.directory): partitions[number].raw_beside(file) for number, file in files
    }
    counted = sorted({file for group in beside.values() for file in group}, key=lambda f: f.path)
    tails = dict(zip([file.path for file in counted], read_tails(counted), strict=True))
    known = {
        ids.path: ids
        for (_, directory), group in beside.items()
        for ids in synthetic_ids(
            {file.path: tails[file.path].rows for file in group}, *written_by(directory)
        )
    }
    for _, file in files:
        if known[file.path].bucket is None:
            raise UnsupportedFile(
                f"{file.path} has no bucket number in its name, so that its rows have no row ids.",
                remedy="Overwrite the table, or the partition, with its own rows; then change them.",
            )
    return known


def _of_first_row(ids: SyntheticIds | None) -> list[int | None] | None:
    return None if ids is None else [ids.write_id, ids.bucket, ids.first_row]


@dataclass(frozen=True)
class AcidSnapshot:
    """The files and write ids of a table that one transaction sees.

    In the returned frames, a partition is identified by its index in ``partitions``.

    Attributes:
        table: The table, with the columns to read.
        partitions: Its files.
        write_ids: The visible write ids.
        tails: The file tails read so far, shared with snapshots of fewer files or columns.
    """

    table: HiveTable
    partitions: Sequence[PartitionFiles]
    write_ids: ValidWriteIdList
    tails: FileTails = field(default_factory=FileTails, compare=False, repr=False)

    def of_columns(self, names: Collection[str]) -> Self:
        """Restrict the snapshot to some columns, since the cost of planning depends on them.

        Args:
            names: Columns of the table, in any case. Rows have at least one column, and all
                partition keys.
        """
        wanted = {name.lower() for name in names}
        few = [column for column in self.table.columns if column.name.lower() in wanted]
        table = replace(self.table, columns=tuple(few or self.table.columns[:1]))
        return replace(self, table=table)

    def rows(
        self, spark: SparkSession, with_key: bool = True, *, where: str | None = None
    ) -> DataFrame:
        """Return every visible row, optionally with the columns of its row id.

        Args:
            spark: A session made by ``scan_session``.
            with_key: Whether to add the row id and the partition's number.
            where: A condition that all rows of interest satisfy, on columns with their own names.
        """
        deletes: dict[tuple[AcidFile, ...], int] = {}
        files = []
        for number, partition in enumerate(self.partitions):
            for file, own in partition.inserts_with_deletes():
                files.append((number, file, deletes.setdefault(own, len(deletes)) if own else -1))
        raw = [(at, file) for at, file, own in files if file.raw and (with_key or own >= 0)]
        known = row_ids(self.partitions, raw)
        plan = ScanPlan(
            self.table,
            self.write_ids,
            [partition.values for partition in self.partitions],
            [(at, file, own, known.get(file.path)) for at, file, own in files],
            [*deletes],
        )
        frame = plan.frame(spark)
        if where is not None:
            frame = frame.where(where)
        names = [*KEY] if with_key else []
        return select_texts(frame, [*self._shown(), *names])

    def _shown(self) -> list[str]:
        """The columns of the table as readers show them, in SQL."""
        keys = [quoted(key.name) for key in self.table.partition_keys]
        return [*shown_columns(self.table.columns), *keys]

    @property
    def _inserts(self) -> list[AcidFile]:
        return [file for partition in self.partitions for file in partition.inserts]

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        stored = {tail.column_names for tail in self.tails.of(self._inserts)}
        return any(map(self.table.mapped_columns.is_ambiguous, stored))

    def events(self, spark: SparkSession, deleted_by: str) -> DataFrame:
        """The visible events of all delete files.

        Args:
            spark: A session made by ``scan_session``.
            deleted_by: The name of the column for the write id of an event, beside KEY.
        """
        plan = ScanPlan(
            replace(self.table, columns=()),
            self.write_ids,
            [partition.values for partition in self.partitions],
            [
                (at, file, -1, None)
                for at, own in enumerate(self.partitions)
                for file in own.deletes
            ],
            are_deletes=True,
        )
        return select_texts(plan.frame(spark), [*KEY, f"{CURRENT} AS {deleted_by}"])


# The row ids in delete events, read and compared in the driver


_COLUMNS = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
# Numbers up to the first limit, multiplied by the number of events, are below the second.
_WIDEST_PART, _LONGEST_CODE = 1 << 40, 1 << 62

Ids = NDArray[np.int64]


def read_events(
    files: Sequence[tuple[int, AcidFile]], write_ids: ValidWriteIdList
) -> tuple[Ids, ...]:
    """The row ids in the events of some files: write ids, buckets, rows and partitions.

    Args:
        files: Files of delete events, each with the number of its partition.
        write_ids: The write ids that the snapshot sees.
    """

    def read(numbered: tuple[int, AcidFile]) -> Ids:
        number, file = numbered
        events = _read(file, write_ids)
        return np.vstack([events, np.full(events.shape[1], number)])

    return tuple(np.hstack([np.zeros((4, 0), np.int64), *in_threads(read, files)]))


def _read(file: AcidFile, write_ids: ValidWriteIdList) -> Ids:
    folder, _, name = file.path.rpartition("/")
    with Storage.of(folder).open_input(name) as source:
        try:
            # The file may go on after its valid part.
            known: Any = orc.ORCFile(pa.BufferReader(source.read(file.size)))
            # Some compactions of Hive write all names in lower case.
            by_lower = {name.lower(): name for name in known.schema.names}
            names = [by_lower.get(name.lower(), name) for name in _COLUMNS]
            table = known.read(columns=names)
            columns = [table[name].cast(pa.int64()) for name in names]
        except (OSError, pa.ArrowException) as error:
            raise CorruptFile(f"{file.path} cannot be read as ORC: {error}") from error
    if any(column.null_count for column in columns):
        raise CorruptFile(f"{file.path} holds events without a row id.")
    operation, *parts, current = map(np.asarray, columns)
    strange = np.flatnonzero(operation != RowOperation.DELETE)
    if len(strange):
        raise CorruptFile(
            f"{file.path} holds events of operation {operation[strange[0]]}, which do not belong "
            "into its directory."
        )
    events = np.vstack(parts)
    if file.exact:
        return events
    hidden = [*write_ids.open, *write_ids.aborted]
    visible = (current <= write_ids.high_watermark) & ~np.isin(current, hidden)
    return events[:, visible]


def are_in(known: Sequence[Ids], given: Sequence[Ids]) -> NDArray[np.bool_]:
    """Return a mask of the given row ids that are known.

    Args:
        known: The parts of the known row ids.
        given: The same parts of the row ids to look up.
    """
    possible = np.full(len(given[0]), len(known[0]) > 0)
    if not len(known[0]):
        return possible
    codes, wanted, count = np.zeros(len(known[0]), np.int64), np.zeros(len(given[0]), np.int64), 1
    for ours, theirs in zip(known, given, strict=True):
        first, last = int(ours.min()), int(ours.max())
        if last - first < _WIDEST_PART:
            width, parts, others = last - first + 1, ours - first, theirs - first
            possible &= (theirs >= first) & (theirs <= last)
        else:
            parts, others, is_value, width = _densely(ours, theirs)
            possible &= is_value
        if count * width > _LONGEST_CODE:
            codes, wanted, is_code, count = _densely(codes, wanted)
            possible &= is_code
        codes, wanted = codes * width + parts, wanted * width + others
        count *= width
    _, is_known = _places(np.sort(codes), wanted)
    return possible & is_known


def _densely(ours: Ids, theirs: Ids) -> tuple[Ids, Ids, NDArray[np.bool_], int]:
    """Map values to consecutive numbers; also return the mask of known values and their count."""
    values, numbers = np.unique(ours, return_inverse=True)
    at, is_value = _places(values, theirs)
    return numbers, at, is_value, len(values)


def _places(values: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """The positions of numbers in a sorted array, and the mask of numbers that are present."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return at, values[at] == wanted
