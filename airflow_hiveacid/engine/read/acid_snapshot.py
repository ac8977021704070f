"""Reading a snapshot of a full-ACID table with Spark's own ORC reader."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import NamedTuple, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.engine.failures import CORRUPT
from airflow_hiveacid.engine.own_columns import own_column
from airflow_hiveacid.engine.read.delete_events import MOST_EVENTS, DeletedBits, read_events
from airflow_hiveacid.engine.read.files import AcidFile, FileTails, KeyRange, PartitionFiles
from airflow_hiveacid.engine.read.originals import numbered_rows
from airflow_hiveacid.engine.read.search_argument import SearchArgument
from airflow_hiveacid.engine.rows.columns import (
    FileColumns,
    Stored,
    all_columns,
    layout,
    quoted,
    spark_struct,
)
from airflow_hiveacid.engine.rows.frames import read_files, select_texts
from airflow_hiveacid.engine.rows.partition_values import (
    FILE_PATH,
    PARTITION,
    PATH,
    PartitionedFile,
    keys_in_paths,
    of_one_partition,
    with_partition,
)
from airflow_hiveacid.engine.spark_versions import from_rows, metadata_column
from airflow_hiveacid.metastore.catalog import HiveTable

# The parts of a row id and the partition's number, beside the user's columns.
WRITE_ID, BUCKET, ROW = map(own_column, ("write_id", "bucket", "row"))
KEY = (WRITE_ID, BUCKET, ROW, PARTITION)
# Whether a row is in a file that delete events may apply to, if they are not applied yet.
TOUCHED = own_column("touched")
# All parts of a row id in one number.
_PACKED = own_column("packed")
# A tail costs a request, and a pair of files a microsecond: at most some seconds for these limits.
_MOST_TAILS, _MOST_PAIRS = 1000, 1_000_000

_ROW_ID = [
    f"originalTransaction AS {WRITE_ID}",
    f"bucket AS {BUCKET}",
    f"rowId AS {ROW}",
]

# A file, and the number of its partition.
_NumberedFile = tuple[int, AcidFile]

# The operations that row files may contain (older files also updates), and those that delete files
# must contain.
ROWS, DELETES = (0, 1), (2,)
ACID_FIELDS = [
    StructField("operation", IntegerType()),
    StructField("originalTransaction", LongType()),
    StructField("bucket", IntegerType()),
    StructField("rowId", LongType()),
    StructField("currentTransaction", LongType()),
]
# ORC recognizes the columns of an ACID file by their names in any case, and Java's comparison takes
# a dotless i for an i. Spark compares lower-case letters and does not find such a column in a file:
# it is not decoded, and all of its values are null. The bucket, whose name has no i, is a constant.
_UNREAD = str.maketrans("iI", "\u0131\u0131")
_ID_PARTS, _CURRENT = ("originalTransaction", "bucket", "rowId"), ("currentTransaction",)


class _Group(NamedTuple):
    """Properties of files that are read together.

    Attributes:
        touched: Whether delete events may apply to them.
        exact: Whether rows need no filter by write id.
        raw: Whether they have no row ids of their own.
        stored: Their names for the columns of the table; see ``FileColumns``.
    """

    touched: bool
    exact: bool
    raw: bool
    stored: Stored


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
        self,
        spark: SparkSession,
        search: SearchArgument | None = None,
        with_key: bool = True,
        *,
        with_deleted: bool = False,
    ) -> DataFrame:
        """Return every visible row, optionally with the columns of its row id.

        Args:
            spark: A session made by ``scan_session``.
            search: The search argument that ORC may use to skip row groups; the result may still
                contain rows that do not match it.
            with_key: Whether to add the row id and the partition's number.
            with_deleted: Keep deleted rows, which the caller must filter out, and add TOUCHED; see
                ``engine.read.deleted_rows``.
        """
        parts = []
        for group, files in self._groups():
            frame = self._group(spark, files, group, search, with_key or with_deleted)
            if group.touched and not with_deleted:
                frame = self._without_deleted(spark, frame, files)
            touched = [f"{group.touched} AS {TOUCHED}"] if with_deleted else []
            parts.append(select_texts(frame, [*self._names(with_key), *touched]))
        if not parts:
            empty = StructType(spark_struct(all_columns(self.table)).fields + _key_fields())
            nothing = from_rows(spark, [], empty).withColumn(TOUCHED, F.lit(False))
            return nothing.select(*self._names(with_key), *([TOUCHED] if with_deleted else []))
        return reduce(DataFrame.unionByName, parts)

    def deletes(self) -> list[_NumberedFile] | None:
        """The delete files of all TOUCHED rows; None if they differ between groups of rows."""
        touched = [files for group, files in self._groups() if group.touched]
        if len(touched) > 1:
            return None
        return self._deletes_of_all(touched[0]) if touched else []

    def _names(self, with_key: bool) -> list[str]:
        names = [quoted(column.name) for column in all_columns(self.table)]
        return [*names, *KEY] if with_key else names

    def _group(
        self,
        spark: SparkSession,
        files: Sequence[_NumberedFile],
        group: _Group,
        search: SearchArgument | None,
        with_key: bool,
    ) -> DataFrame:
        keyed = group.touched or with_key
        columns = self._file_columns(group.stored)
        if group.stored:
            # The table's column names are used.
            search = None
        if not group.raw:
            return self._scan(spark, files, columns, group.exact, search, keyed)
        if keyed:
            return self._numbered(spark, files, columns)
        return self._raw(spark, files, columns, search)

    def _groups(self) -> list[tuple[_Group, list[_NumberedFile]]]:
        """Group files that are read in the same way."""
        groups: dict[_Group, list[_NumberedFile]] = {}
        for number, partition in enumerate(self.partitions):
            for file in partition.inserts:
                touched = bool(self._deletes_of(number, file))
                group = _Group(touched, file.exact, file.raw, self._stored[file])
                groups.setdefault(group, []).append((number, file))
        return sorted(groups.items())

    @cached_property
    def _stored(self) -> Mapping[AcidFile, Stored]:
        """The names of the table's columns in each file with rows."""
        columns, files = self.table.mapped_columns, self._inserts
        return {
            file: layout(columns, tail.column_names)
            for file, tail in zip(files, self.tails.of(files), strict=True)
        }

    @property
    def _inserts(self) -> list[AcidFile]:
        return [file for partition in self.partitions for file in partition.inserts]

    def _file_columns(self, stored: Stored = ()) -> FileColumns:
        mapping = self.table.mapped_columns.mapping
        return FileColumns.of(self.table.columns, self.table.stored_columns, mapping, stored)

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file that was read depend on the column mapping."""
        stored = {tail.column_names for tail in self.tails.known(self._inserts)}
        return any(map(self.table.mapped_columns.is_ambiguous, stored))

    def _deletes_of(self, number: int, file: AcidFile) -> list[AcidFile]:
        """The delete files that may contain events for rows of a file, judged by their tails."""
        deletes = self.partitions[number].deletes_of(file)
        own = self._key_ranges.get(file) if deletes else None
        if own is None:
            return deletes
        ranges = [(delete, self._key_ranges[delete]) for delete in deletes]
        return [delete for delete, keys in ranges if keys is None or own.may_share(keys)]

    @cached_property
    def _key_ranges(self) -> Mapping[AcidFile, KeyRange | None]:
        """The row id ranges of delete files and, if they are few enough, of the affected files."""
        deletes: list[AcidFile] = []
        inserts: list[AcidFile] = []
        for partition in self.partitions:
            deletes += partition.deletes
            inserts += [
                file for file in partition.inserts if not file.raw and partition.deletes_of(file)
            ]
        few = len(inserts) <= _MOST_TAILS and len(inserts) * len(deletes) <= _MOST_PAIRS
        files = [*deletes, *inserts] if few else deletes
        return dict(zip(files, map(KeyRange.of, self.tails.of(files)), strict=True))

    def _scan(
        self,
        spark: SparkSession,
        files: Sequence[_NumberedFile],
        stored: FileColumns,
        exact: bool,
        search: SearchArgument | None,
        keyed: bool,
    ) -> DataFrame:
        partitioned, keys = self._in_partitions(files), spark_struct(self.table.partition_keys)
        in_paths = keys_in_paths(self.table.folder, self.table.partition_keys, partitioned)
        paths = [file.path for _, file in files]
        used = [*(_ID_PARTS if keyed else ()), *(() if exact else _CURRENT)]
        frame = read_acid_files(
            spark, stored, paths, search, ROWS, ids=used, prunes=in_paths is not None
        )
        if not exact:
            frame = frame.where(self._is_visible())
        columns = [*(_ROW_ID if keyed else ()), *stored.shown("row.")]
        # Every step costs driver time, and every path costs task time.
        if not keys and len(self.partitions) == 1:
            return select_texts(frame, [*columns, f"0 AS {PARTITION}"])
        if (one := of_one_partition(partitioned, keys)) is not None:
            return select_texts(frame, columns).select("*", *one)
        if in_paths is not None:
            columns += in_paths
            keys = StructType([])
            if not keyed:
                return select_texts(frame, columns)
        frame = select_texts(frame, [f"{FILE_PATH} AS {PATH}", *columns])
        return with_partition(spark, frame, partitioned, keys)

    def _numbered(
        self, spark: SparkSession, files: Sequence[_NumberedFile], stored: FileColumns
    ) -> DataFrame:
        """Read files without row ids, and add the row ids that Hive assigns to their rows."""
        frame = numbered_rows(spark, spark_struct(stored.read), self.partitions, files)
        frame = frame.selectExpr(PATH, *_ROW_ID, *stored.shown("row."))
        return self._with_values(spark, frame, files)

    def _raw(
        self,
        spark: SparkSession,
        files: Sequence[_NumberedFile],
        stored: FileColumns,
        search: SearchArgument | None,
    ) -> DataFrame:
        """Read files without row ids, if row ids are not needed."""
        frame = read_orc_files(spark, spark_struct(stored.read), [f.path for _, f in files], search)
        path = metadata_column(frame, "_metadata").getField("file_path").alias(PATH)
        frame = frame.select(path, *map(F.expr, stored.shown()))
        return self._with_values(spark, frame, files)

    def _with_values(
        self, spark: SparkSession, frame: DataFrame, files: Sequence[_NumberedFile]
    ) -> DataFrame:
        keys = spark_struct(self.table.partition_keys)
        return with_partition(spark, frame, self._in_partitions(files), keys)

    def _is_visible(self) -> str:
        visible = f"currentTransaction <= {self.write_ids.high_watermark}L"
        hidden = sorted({*self.write_ids.open, *self.write_ids.aborted})
        listed = ", ".join(f"{write_id}L" for write_id in hidden)
        return f"{visible} AND currentTransaction NOT IN ({listed})" if hidden else visible

    def _in_partitions(self, files: Sequence[_NumberedFile]) -> list[PartitionedFile]:
        return [
            PartitionedFile(file.path, number, self.partitions[number].values)
            for number, file in files
        ]

    def _deletes_of_all(self, files: Sequence[_NumberedFile]) -> list[_NumberedFile]:
        deletes = {
            (number, delete) for number, file in files for delete in self._deletes_of(number, file)
        }
        return sorted(deletes, key=lambda numbered: numbered[1].path)

    def events(self, spark: SparkSession, deleted_by: str) -> DataFrame:
        """The visible events of all delete files.

        Args:
            spark: A session made by ``scan_session``.
            deleted_by: The name of the column for the write id of an event, beside KEY.
        """
        deletes = [(at, file) for at, own in enumerate(self.partitions) for file in own.deletes]
        return self._events(spark, deletes, f"currentTransaction AS {deleted_by}")

    def _events(
        self, spark: SparkSession, deletes: Sequence[_NumberedFile], *more: str
    ) -> DataFrame:
        """The visible events of some delete files, with KEY."""
        columns = self._file_columns()
        events = read_acid_files(spark, columns, [file.path for _, file in deletes], None, DELETES)
        if any(not file.exact for _, file in deletes):
            events = events.where(self._is_visible())
        partitioned = self._in_partitions(deletes)
        if (one := of_one_partition(partitioned, StructType([]))) is not None:
            return events.selectExpr(*_ROW_ID, *more).select("*", *one)
        events = events.selectExpr(*_ROW_ID, *more, f"{FILE_PATH} AS {PATH}")
        return with_partition(spark, events, partitioned, StructType([]))

    def _without_deleted(
        self, spark: SparkSession, frame: DataFrame, files: Sequence[_NumberedFile]
    ) -> DataFrame:
        deletes = self._deletes_of_all(files)
        few = sum(tail.rows for tail in self.tails.of([file for _, file in deletes])) <= MOST_EVENTS
        if few:
            events = read_events(deletes, self.write_ids)
            if not len(events[0]):
                return frame
            if (bits := DeletedBits.of(events, KEY)) is not None:
                return bits.without(frame)
        return self._without_joined(spark, frame, deletes, few)

    def _without_joined(
        self, spark: SparkSession, frame: DataFrame, deletes: Sequence[_NumberedFile], few: bool
    ) -> DataFrame:
        """Filter out deleted rows by a join with delete events, which may be many."""
        events = self._events(spark, deletes)
        ranges = [self._key_ranges[file] for _, file in deletes]
        known = [range_ for range_ in ranges if range_ is not None]
        keys = reduce(KeyRange.joined, known) if len(known) == len(ranges) else None
        several = len({number for number, _ in deletes}) > 1
        packed = _pack(keys, max(number for number, _ in deletes) if several else 0)
        key = [packed.alias(_PACKED)] if packed is not None else [F.col(part) for part in KEY]
        # Spark itself estimates the size of the events by that of their files, and would broadcast
        # millions that compress to some kilobytes: they exhaust the memory of the driver.
        events = events.select(*key).hint("broadcast" if few else "merge")
        if packed is not None:
            frame = frame.withColumn(_PACKED, packed)
            return frame.join(events, _PACKED, "left_anti").drop(_PACKED)
        return frame.join(events, list(KEY), "left_anti")


def _pack(keys: KeyRange | None, last_partition: int) -> Column | None:
    """Pack a key into a single long that identifies it, if the parts fit.

    One long is compared faster than four columns. A row outside of the ranges of all events has the
    value null, which equals no value.
    """
    if keys is None:
        return None
    ranges = [(0, last_partition), keys.write_ids, keys.buckets, (0, keys.row_numbers[1])]
    if sum((high - low).bit_length() for low, high in ranges) > 63:
        return None
    parts = [PARTITION, WRITE_ID, BUCKET, ROW]
    if not last_partition:
        ranges, parts = ranges[1:], parts[1:]
    packed = "0L"
    for part, (low, high) in zip(parts, ranges, strict=True):
        bits = (high - low).bit_length()
        packed = f"(shiftleft({packed}, {bits}) | (CAST({part} AS BIGINT) - ({low}L)))"
    within = " AND ".join(
        f"{part} BETWEEN {low}L AND {high}L"
        for part, (low, high) in zip(parts, ranges, strict=True)
    )
    return F.expr(f"CASE WHEN {within} THEN {packed} END")


def _key_fields() -> list[StructField]:
    types = (LongType(), IntegerType(), LongType(), IntegerType())
    return [StructField(name, type_) for name, type_ in zip(KEY, types, strict=True)]


def read_acid_files(
    spark: SparkSession,
    columns: FileColumns,
    paths: Sequence[str],
    search: SearchArgument | None,
    operations: Sequence[int],
    *,
    ids: Collection[str] = (*_ID_PARTS, *_CURRENT),
    prunes: bool = False,
) -> DataFrame:
    """Scan files of full ACID tables, with the columns of the envelope and the struct ``row``.

    Args:
        spark: A session made by ``scan_session``.
        columns: The columns of the row to read.
        paths: The files.
        search: The search argument that ORC uses to skip row groups.
        operations: The valid operations of the rows; other operations are an error.
        ids: The columns of the envelope to read besides the operation; others may be null.
        prunes: Whether Spark must be able to apply filters of queries to the paths of the files.
    """
    row = spark_struct(columns.read)
    envelope = [
        field if field.name in ids else StructField(field.name.translate(_UNREAD), field.dataType)
        for field in ACID_FIELDS[1:]
    ]
    schema = StructType([ACID_FIELDS[0], *envelope, StructField("row", row)])
    frame = read_orc_files(spark, schema, paths, search)
    # ORC wraps the read schema of an ACID file unless it has all six columns, and then reads wrong
    # columns. This condition is always true and names all six columns, so that no column is pruned.
    # The first column is decisive; inside of CASE no other condition can replace it.
    cheapest = min(row.fields, key=lambda column: column.dataType != IntegerType()).name
    # By position, ORC must not be given a part of the columns, either.
    needed = row.names if columns.whole else [cheapest]
    names = [*map(quoted, schema.names[:-1]), *[f"row.{quoted(name)}" for name in needed]]
    always = " OR ".join(f"{name} IS NOT NULL" for name in names)
    # A delete file among row files would yield rows of nulls. The function reads the name only in
    # this case, but as it is not deterministic, Spark applies no other filter before this one.
    name = FILE_PATH if prunes else "input_file_name()"
    strange = (
        f"concat('{CORRUPT}', {name}, ' holds events of operation ', operation,"
        " ', which do not belong into its directory.')"
    )
    fits = f"operation IN ({', '.join(map(str, operations))})"
    return frame.where(
        f"CASE WHEN {fits} THEN {always} ELSE CAST(raise_error({strange}) AS BOOLEAN) END"
    )


def read_orc_files(
    spark: SparkSession, schema: StructType, paths: Sequence[str], search: SearchArgument | None
) -> DataFrame:
    """Scan ORC files of any kind.

    Args:
        spark: A session made by ``scan_session``.
        schema: The columns, found by their names.
        paths: The files.
        search: The search argument that ORC uses to skip row groups.
    """
    options = {} if search is None else search.read_options()
    return read_files(spark, "orc", paths, schema, **options)
