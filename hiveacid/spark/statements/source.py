"""The rows of a job's source, as a Spark frame."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Protocol

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, InvalidJob, UnsupportedTable
from hiveacid.jobs.fields import header_options
from hiveacid.jobs.job import paths_of
from hiveacid.jobs.sources import (
    BatchSource,
    ChangesSource,
    Input,
    PathSource,
    QuerySource,
    Source,
    TableSource,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import database_of, existing_table, outputs_of, require_versions
from hiveacid.parser.views import view_query
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import LINE_REMEDY, MALFORMED, translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.changes import no_changes
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.read.kept_rows import SharedRows
from hiveacid.spark.read.table_reader import RowQuery
from hiveacid.spark.rows.columns import all_columns, spark_struct
from hiveacid.spark.rows.json_bytes import load_json
from hiveacid.spark.session import in_session, scan_session
from hiveacid.spark.spark_versions import from_rows
from hiveacid.spark.statements.conditions import bound_query
from hiveacid.spark.statements.merge_join import MergeJoin
from hiveacid.spark.statements.refused_sql import check_query, check_view
from hiveacid.spark.write.row_ids import RowIds
from hiveacid.storage.hidden_folder import HiddenFolder, ReadingTransaction
from hiveacid.storage.staging import FlatFile, Folder
from hiveacid.writes.statement import WriteContext

# Rows of a merge's source, evaluated once before they are compared with the target


# A source whose rows are smaller than this is broadcast instead of shuffling the target.
BROADCAST_BYTES = 64 << 20
# Files that Spark wrote are combined up to this size: a Spark task may have few rows.
_FILE_BYTES = 32 << 20
# A larger scan has so many tasks that its few changed rows per task should be combined.
_SCATTERING_BYTES = 8 << 30


class SourceRows(ABC):
    """Evaluated rows.

    Attributes:
        join: The merge.
        partitions: The names of the partitions that the rows can change; None if unknown.
    """

    join: MergeJoin
    partitions: Sequence[str] | None

    @abstractmethod
    def has_rows(self) -> bool:
        """Whether the source had rows when it was evaluated."""

    @abstractmethod
    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and the source rows with a match."""

    @abstractmethod
    def pairs(self, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""

    @abstractmethod
    def write(self, context: WriteContext, matches: RowIds) -> None:
        """Stage the new rows."""


def hidden_folder(table: HiveTable, txn: ReadingTransaction) -> Folder:
    """Create a folder for Spark's files that is removed when a transaction ends."""
    return Folder(table.folder, HiddenFolder.until_the_end_of(txn, table.folder).name)


def is_scattered(snapshot: AcidSnapshot) -> bool:
    """Whether the changed rows of a snapshot come in small parts from many tasks."""
    files = [file for partition in snapshot.partitions for file in partition.inserts]
    return sum(file.size for file in files) > _SCATTERING_BYTES


def grouped(files: Iterable[FlatFile]) -> list[list[FlatFile]]:
    """Group files that become one: those of a bucket, and small files of a partition."""

    def goes_into(file: FlatFile) -> tuple[str, int]:
        return file.partition or "", -1 if file.bucket is None else file.bucket

    groups: list[list[FlatFile]] = []
    in_order = sorted(files, key=lambda file: (goes_into(file), file.path))
    for (_, bucket), files_of_group in groupby(in_order, key=goes_into):
        group: list[FlatFile] = []
        for file in files_of_group:
            large = sum(group_file.bytes for group_file in group) + file.bytes > _FILE_BYTES
            if not group or (large and bucket < 0):
                group = []
                groups.append(group)
            group.append(file)
    return groups


# The rows of files that a job names by a path; malformed lines of CSV and JSON are errors


_WITH_LINES = ("csv", "json")
_MALFORMED = own_column("malformed")
_DEFAULT_COLUMN = "spark.sql.columnNameOfCorruptRecord"
_MOST_SHOWN = 200


def path_rows(spark: SparkSession, source: PathSource) -> DataFrame:
    """Return the rows of files.

    By default, Spark reads the values of a malformed line as nulls. Here this is an error that shows
    the line, unless the options or the schema of the source decide otherwise.

    Args:
        spark: The session.
        source: The files.

    Raises:
        CorruptFile: There are lines, and all of them are malformed.
        HiveAcidError: The files do not exist, or the schema is not valid.
    """
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        with translated_spark_errors(f"The schema of {source.path}"):
            reader = reader.schema(source.schema)
            reader = reader.options(**header_options(source.format, source.options))
    with translated_spark_errors(f"The source {source.path}"):
        if source.format.lower() not in _WITH_LINES:
            return reader.load(source.path)
        options = {name.lower(): value for name, value in source.options.items()}
        default = spark.conf.get(_DEFAULT_COLUMN) or ""
        line_column = options.get("columnnameofcorruptrecord", default)
        if "mode" in options:
            return _lines(reader, source, line_column, options["mode"])
        if "columnnameofcorruptrecord" in options:
            return _parsed(_lines(reader, source, line_column))
        rows = reader.option("columnNameOfCorruptRecord", _MALFORMED).load(source.path)
        if source.schema is not None and default in rows.columns:
            reader = reader.option("columnNameOfCorruptRecord", default)
            return _parsed(_lines(reader, source, default))
        return _checked(reader, source, rows.schema)


def has_bytes(spark: SparkSession, source: PathSource) -> bool:
    """Whether any file of a source has content, which may be no row."""
    reader = spark.read.format("binaryFile").options(**source.options)
    with translated_spark_errors(f"The source {source.path}"):
        return bool(reader.load(source.path).where("length > 0").select("length").take(1))


def _lines(reader: DataFrameReader, source: PathSource, line: str, mode: str = "") -> DataFrame:
    """Return the rows, with their malformed lines in a column of this name, if there is one."""
    if source.format.lower() == "json":
        return load_json(reader, source.path, line, mode)
    return reader.load(source.path)


def _parsed(rows: DataFrame) -> DataFrame:
    """Return rows of which each query parses all columns: otherwise it finds fewer malformed lines."""
    columns = [F.col(quoted(name)) for name in rows.columns]
    return rows.where(F.to_json(F.struct(*columns)).isNotNull())


def _checked(reader: DataFrameReader, source: PathSource, schema: StructType) -> DataFrame:
    """Return the rows, of which a malformed one is an error."""
    fields = [field for field in schema.fields if field.name != _MALFORMED]
    if not fields and schema.fields:
        raise CorruptFile(
            f"{source.path} has no line of valid {source.format}.", remedy=LINE_REMEDY
        )
    columns = [F.col(quoted(field.name)) for field in fields]
    line = F.col(_MALFORMED)
    message = F.concat(
        F.lit(f"{MALFORMED} {source.path} has a malformed line: "),
        F.substring(line, 1, _MOST_SHOWN),
        # All columns are named, or Spark would not parse those that a query does not need.
        F.lit(" (read as "),
        F.substring(F.to_json(F.struct(*columns)), 1, _MOST_SHOWN),
        F.lit(")."),
    )
    with_lines = StructType([*fields, StructField(_MALFORMED, StringType())])
    reader = reader.option("columnNameOfCorruptRecord", _MALFORMED).schema(with_lines)
    rows = _lines(reader, source, _MALFORMED)
    is_valid = F.when(line.isNull(), F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    return rows.where(is_valid).select(*columns)


# The internal name of a source that is not a query.
_ONLY = "source"
# Limits for nested views, and for the tables and views that a query reads after all views are
# expanded.
_MOST_NESTED, _MOST_READS = 20, 1000
Frames = dict[TableSource, DataFrame]


class AcidReader(Protocol):
    """Reads transactional tables under the snapshot of the source's caller."""

    def confirmed(self, table: HiveTable) -> HiveTable:
        """Return the definition of a table or a view that still describes its rows."""

    def rows(self, spark: SparkSession, table: HiveTable, query: RowQuery) -> DataFrame:
        """Return the visible rows of a table for a query."""

    def changes(self, spark: SparkSession, table: HiveTable, source: ChangesSource) -> DataFrame:
        """Return the changes of a table between two versions."""


@dataclass
class _Definitions:
    """Tables and views of the metastore, each looked up once for a source."""

    client: MetastoreClient
    tables: dict[str, HiveTable] = field(default_factory=dict)
    views: dict[str, "HiveView"] = field(default_factory=dict)

    def table(self, name: str) -> HiveTable:
        if name not in self.tables:
            self.tables[name] = existing_table(self.client, TableRef.parse(name))
        return self.tables[name]


class SourceInputs:
    """Tables and files that a query reads by names, looked up and ready to become views.

    Attributes:
        acid_tables: The transactional tables among them, also below views, which need a snapshot.
        reads: The number of tables and views that are read, with every use of a view counted.
    """

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        inputs: Mapping[str, Input],
        within: Sequence[str] = (),
        batches: Mapping[str, DataFrame] | None = None,
        *,
        lengths: bool = False,
        definitions: _Definitions | None = None,
    ) -> None:
        """Look up the inputs.

        Args:
            spark: The session that gets the views.
            client: The metastore.
            inputs: View name to input.
            within: The views of Hive that are being expanded.
            batches: The rows of a stream's batch, or tables and views of a session by their names.
            lengths: Give tables their char and varchar columns, and no rows.
            definitions: The definitions that were looked up for the same source.
        """
        self._spark = spark
        self._lengths = lengths
        self._client = client
        self._inputs = inputs
        self._batches = batches or {}
        for path in paths_of(tuple(inputs.values())):
            client.allowed_locations.require(path)
        known_definitions = definitions or _Definitions(client)
        self._tables = {
            input_.name: known_definitions.table(input_.name)
            for input_ in inputs.values()
            if isinstance(input_, TableSource | ChangesSource)
        }
        for name, table in self._tables.items():
            if table.is_view and name not in known_definitions.views:
                known_definitions.views[name] = HiveView(
                    spark, table, within, known_definitions, lengths=lengths
                )
        self._views = {
            name: known_definitions.views[name]
            for name in self._tables
            if name in known_definitions.views
        }
        self.reads: int = len(inputs) + sum(view.reads for view in self._views.values())
        if self.reads > _MOST_READS:
            raise UnsupportedTable(
                f"The query reads {self.reads} tables and views, those of views counted each time; "
                f"at most {_MOST_READS} are allowed.",
                remedy="Store the rows that the views have in common in a table.",
            )
        for input_ in inputs.values():
            if isinstance(input_, ChangesSource) or (
                isinstance(input_, TableSource) and input_.version is not None
            ):
                require_versions(self._tables[input_.name])
        tables = [t.ref for t in self._tables.values() if t.kind is not TableKind.NOT_ACID]
        refs_in_views = [ref for view in self._views.values() for ref in view.acid_tables]
        self.acid_tables = list(dict.fromkeys(tables + refs_in_views))

    def files_without_bytes(self) -> list[str]:
        """Return the paths whose files have no bytes."""
        paths = (input_ for input_ in self._inputs.values() if isinstance(input_, PathSource))
        return [source.path for source in paths if not has_bytes(self._spark, source)]

    def register(
        self,
        reader: AcidReader | None,
        shared: SharedRows | None = None,
        frames: Frames | None = None,
    ) -> None:
        """Create a view of each input in the session; see ``frame``."""
        frames = {} if frames is None else frames
        # All of them first: the inputs of a view among them may have the same names.
        rows = {name: self.frame(name, reader, shared, frames) for name in self._inputs}
        for name, frame in rows.items():
            frame.createOrReplaceTempView(name)

    def frame(
        self,
        name: str,
        reader: AcidReader | None,
        shared: SharedRows | None = None,
        frames: Frames | None = None,
    ) -> DataFrame:
        """Return the rows of an input.

        Args:
            name: One of the inputs.
            reader: Reads transactional tables under the caller's snapshot; None without such
                tables.
            shared: The rows that other statements of the transaction have read.
            frames: The frames of tables and views that the same query reads elsewhere.
        """
        input_ = self._inputs[name]
        if not isinstance(input_, TableSource):
            return self._frame(input_, reader, shared, {})
        frames = {} if frames is None else frames
        if input_ not in frames:
            frames[input_] = self._frame(input_, reader, shared, frames)
        return frames[input_]

    def _frame(
        self, input_: Input, reader: AcidReader | None, shared: SharedRows | None, frames: Frames
    ) -> DataFrame:
        if isinstance(input_, ChangesSource):
            assert reader is not None, f"{input_.name} was not looked up as transactional"
            return reader.changes(self._spark, self._tables[input_.name], input_)
        if isinstance(input_, TableSource) and input_.name in self._views:
            return self._views[input_.name].frame(reader, shared, frames)
        if isinstance(input_, TableSource) and self._lengths:
            columns = all_columns(self._tables[input_.name])
            return from_rows(self._spark, [], spark_struct(columns, lengths=True))
        if isinstance(input_, TableSource) and self._is_acid(input_):
            assert reader is not None, f"{input_.name} was not looked up as transactional"
            query = RowQuery(as_of=input_.version)
            return reader.rows(self._spark, self._tables[input_.name], query)
        if shared is None:
            return self._files(input_, reader)
        rows = shared.earlier(input_, self._spark)
        if rows is None:
            rows = self._files(input_, reader)
            shared.remember(input_, rows)
        return rows

    def _is_acid(self, input_: TableSource) -> bool:
        return self._tables[input_.name].kind is not TableKind.NOT_ACID

    def _files(
        self, source: TableSource | PathSource | BatchSource, reader: AcidReader | None
    ) -> DataFrame:
        """Read a batch, or the current rows of files that may change."""
        if isinstance(source, BatchSource):
            if source.name not in self._batches:
                raise InvalidJob("There is a BatchSource, but no batch outside of a StreamJob.")
            return in_session(self._batches[source.name], self._spark)
        if isinstance(source, PathSource):
            return path_rows(self._spark, source)
        table = self._tables[source.name]
        table = table if reader is None else reader.confirmed(table)
        partitions = self._client.get_partitions(table) if table.partition_keys else []
        with translated_spark_errors(f"The source table {table.ref.full_name}"):
            return FlatSnapshot.of_plain(table, partitions).rows(self._spark)


class HiveView:
    """A view of Hive: a query that is stored in the metastore.

    Attributes:
        acid_tables: The transactional tables that it reads.
        reads: The number of tables and views that it reads, with every use of a view counted.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: HiveTable,
        within: Sequence[str],
        definitions: _Definitions,
        *,
        lengths: bool,
    ) -> None:
        name = table.ref.full_name
        if name in within:
            raise UnsupportedTable(f"The view {name} reads itself: {' > '.join(within)}.")
        if len(within) >= _MOST_NESTED:
            raise UnsupportedTable(
                f"The view {name} is in more than {_MOST_NESTED} others: {' > '.join(within)}.",
                remedy="Store the rows that one of them reads in a table.",
            )
        query = self._query = view_query(table.view_text, database_of(table), name)
        self._spark = spark
        self._table = table
        self._lengths = lengths
        self._inputs = SourceInputs(
            self._spark,
            definitions.client,
            query.inputs,
            (*within, name),
            lengths=lengths,
            definitions=definitions,
        )
        self.acid_tables: Sequence[TableRef] = self._inputs.acid_tables
        self.reads: int = self._inputs.reads

    def frame(
        self, reader: AcidReader | None, shared: SharedRows | None, frames: Frames
    ) -> DataFrame:
        """Return the rows of the view, with the columns as defined in the metastore."""
        if reader is not None:
            reader.confirmed(self._table)
        name = self._table.ref.full_name
        check_view(self._spark, name, self._query)
        self._inputs.register(reader, shared, frames)
        fields = spark_struct(self._table.columns, lengths=self._lengths).fields
        with translated_spark_errors(f"The view {name}"):
            rows = self._spark.sql(self._query.sql)
            places = self._places(rows.columns)
            rows = rows.toDF(*[f"c{number}" for number in range(len(rows.columns))])
            return rows.select(
                *[
                    F.col(f"c{place}").cast(field.dataType).alias(field.name)
                    for place, field in zip(places, fields, strict=True)
                ]
            )

    def _places(self, columns: Sequence[str]) -> Sequence[int]:
        """Return the places of the view's columns among those of its query.

        Hive takes them by their places, and Spark by their names, of which several may be equal.
        """
        names = [name.lower() for name in outputs_of(self._table)]
        lower_names = [name.lower() for name in columns]
        column_count = len(self._table.columns)
        if not names and len(lower_names) == column_count:
            return range(column_count)
        if len(names) != column_count or any(
            lower_names.count(name) != names.count(name) for name in names
        ):
            raise UnsupportedTable(
                f"The view {self._table.ref.full_name} has other columns than its query, "
                f"which returns {', '.join(columns)}.",
                remedy="Create the view again.",
            )
        places = {
            name: [position for position, column in enumerate(lower_names) if column == name]
            for name in names
        }
        return [places[name].pop(0) for name in names]


class SourceFrame:
    """A source with its tables, which are looked up once.

    Attributes:
        acid_tables: The transactional tables it reads, which need a snapshot.
    """

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        source: Source | DataFrame,
        batches: Mapping[str, DataFrame] | None = None,
        *,
        lengths: bool = False,
    ) -> None:
        """Look up the inputs of the source.

        Args:
            spark: The session, which is not changed.
            client: The metastore.
            source: The source.
            batches: The rows of a stream's batch, or tables and views of a session by their names.
            lengths: Prepare only an empty frame with char and varchar columns.
        """
        # Views belong to a session: a separate one isolates equally named views of two jobs.
        self._spark = spark if isinstance(source, DataFrame) else scan_session(spark)
        if lengths:
            self._spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
        self._source = source
        inputs: Mapping[str, Input] = {}
        if isinstance(source, QuerySource):
            source = self._source = self._bound(source)
            inputs = source.inputs
        elif not isinstance(source, DataFrame):
            inputs = {_ONLY: source}
        self._inputs = SourceInputs(self._spark, client, inputs, batches=batches, lengths=lengths)
        self.acid_tables = self._inputs.acid_tables

    def frame(self, reader: AcidReader | None, shared: SharedRows | None = None) -> DataFrame:
        """Return the rows of the source.

        Args:
            reader: Reads transactional tables under the caller's snapshot; None without such
                tables.
            shared: The rows that other statements of the transaction have read.
        """
        if isinstance(self._source, DataFrame):
            return self._source
        if not isinstance(self._source, QuerySource):
            return self._inputs.frame(_ONLY, reader, shared)
        self._inputs.register(reader, shared)
        with translated_spark_errors("The source query"):
            for name, sql in self._source.common.items():
                rows = self._spark.sql(sql)
                if shared is not None:
                    rows = shared.kept((sql, self._source.inputs), self._spark, rows)
                rows.createOrReplaceTempView(name)
            return self._spark.sql(self._source.sql)

    def _bound(self, source: QuerySource) -> QuerySource:
        """Bind the parameters of a query; refuse an untrusted query that does more than read."""
        bound = replace(
            source,
            sql=bound_query(self._spark, source.sql, source.params),
            common={
                name: bound_query(self._spark, sql, source.params)
                for name, sql in source.common.items()
            },
            params={},
        )
        if not bound.trusted:
            for sql in (bound.sql, *bound.common.values()):
                check_query(self._spark, sql)
        return bound

    def files_without_bytes(self) -> list[str]:
        """Return the paths whose files have no bytes."""
        return self._inputs.files_without_bytes()

    def empty(self) -> DataFrame:
        """Return an empty frame with the same columns, without reading transactional tables."""
        return self.frame(_EmptyTables())


class _EmptyTables:
    """Returns every transactional table without rows."""

    def confirmed(self, table: HiveTable) -> HiveTable:
        return table

    def rows(self, spark: SparkSession, table: HiveTable, query: RowQuery) -> DataFrame:
        return from_rows(spark, [], spark_struct(all_columns(table)))

    def changes(self, spark: SparkSession, table: HiveTable, source: ChangesSource) -> DataFrame:
        return no_changes(spark, table)
