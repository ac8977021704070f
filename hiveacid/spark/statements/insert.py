"""Append and overwrite: rows that do not depend on earlier rows."""

import re
from collections.abc import Collection, Sequence
from dataclasses import field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from hiveacid.dataclass import dataclass
from hiveacid.errors import TypeMismatch, UnknownColumn
from hiveacid.jobs.sources import Source
from hiveacid.jobs.write_jobs import require_names
from hiveacid.metastore.alteration import change_columns
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.table_rules import (
    column_names,
    invalid_value,
    names_of_partitions,
    partitions_of_insert,
    partitions_to_empty,
    partitions_to_truncate,
)
from hiveacid.plan.insert import InsertMapping, PartitionSpec
from hiveacid.progress import Phase
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import named_partition
from hiveacid.rules.schema import is_number, parse_type, wider
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.pruning import canonical_values
from hiveacid.spark.rows.columns import (
    as_operand,
    check_writable,
    hive_type,
    select_as,
    without,
)
from hiveacid.spark.rows.conversion import stored, text_as_sql
from hiveacid.spark.session import evaluating_session, in_session
from hiveacid.spark.statements.engine import SparkStatement, engine_of, reader_of
from hiveacid.spark.statements.source import SourceFrame
from hiveacid.spark.write.flat_rows import write_rows
from hiveacid.writes.statement import Counts, Preparation, WriteContext

# Schema growth: adding a source's columns to a table


def grown_columns(
    table: HiveTable, source: StructType, only: Collection[str] | None = None
) -> tuple[HiveColumn, ...]:
    """Return the columns that a table needs to store all columns of a source.

    New columns are last. Numbers are widened if Hive can read older files as the wider type; no
    column is ever dropped or narrowed.

    Args:
        table: The current table.
        source: The columns of the source.
        only: The columns, in lower case, that get any values from the source: they may be new, and
            are not widened. All by default.

    Raises:
        TypeMismatch: A column of the source has a type that Hive lacks, or a number that the
            table's column cannot be widened to.
        UnknownColumn: A new column has a name that some engines do not support.
    """
    types_by_name = {field.name.lower(): field.dataType for field in source.fields}
    if only is not None:
        types_by_name = {name: type_ for name, type_ in types_by_name.items() if name in only}
    # With another type of a clustering column, rows would belong into other buckets.
    fixed = {name.lower() for name in table.bucket_columns}
    columns = [
        column
        if only is not None
        or column.name.lower() in fixed
        or column.name.lower() not in types_by_name
        else _widened(table, column, types_by_name[column.name.lower()])
        for column in table.columns
    ]
    names = {column.name.lower() for column in (*table.columns, *table.partition_keys)}
    columns += [
        _new(table.ref, name, type_) for name, type_ in types_by_name.items() if name not in names
    ]
    return tuple(columns)


def new_columns(ref: TableRef, source: StructType) -> tuple[HiveColumn, ...]:
    """Return the columns of a new table for all columns of a source.

    Raises:
        TypeMismatch: A column of the source has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
    """
    return tuple(_new(ref, field.name.lower(), field.dataType) for field in source.fields)


@dataclass(frozen=True)
class SchemaGrowth:
    """A table before and after adding all columns of a source.

    Attributes:
        table: The current table.
        source: The columns of the source.
        only: See ``grown_columns``.
    """

    table: HiveTable
    source: StructType
    only: Collection[str] | None = None

    def grown(self, preparation: Preparation) -> HiveTable:
        """Return the changed table without storing it, to validate the statement first.

        Raises:
            TypeMismatch: The columns are incompatible.
            UnknownColumn: A new column has a name that some engines do not support.
        """
        grown = replace(self.table, columns=self._columns(self.table))
        check_writable(grown, preparation.client.features)
        return grown

    def apply(self, preparation: Preparation) -> tuple[HiveTable, Sequence[str]]:
        """Store the change, if any, and return the changed table and the names of new columns."""
        columns = self._columns(self.table)
        if columns == self.table.columns:
            return self.table, ()
        size = len(self.table.columns)
        wider = [c for c in columns[:size] if c not in self.table.columns]
        for verb, some in (("adds", columns[size:]), ("widens", wider)):
            if some:
                columns_in_words = ", ".join(f"{column.name} {column.type}" for column in some)
                preparation.phases.note(
                    f"merge_schema {verb} columns of {self.table.ref.full_name}: {columns_in_words}"
                )
        names_added: list[Sequence[str]] = []

        def choose(table: HiveTable) -> tuple[HiveColumn, ...]:
            grown = self._columns(table)
            names_added.append([column.name for column in grown[len(table.columns) :]])
            return grown

        table = change_columns(
            preparation.client,
            self.table,
            choose,
            run_token=preparation.options.run_token,
            lock_wait_seconds=preparation.options.lock_wait_seconds,
        )
        # The first table is that under the lock, to which others may have added the same columns.
        return table, names_added[0]

    def _columns(self, table: HiveTable) -> tuple[HiveColumn, ...]:
        return grown_columns(table, self.source, self.only)


def _new(ref: TableRef, name: str, spark_type: DataType) -> HiveColumn:
    if not re.fullmatch(r"\w+", name):
        raise UnknownColumn(
            f"{ref.full_name} gets no column {name!r}: not every engine reads such a name.",
            remedy="Give it a name of letters, digits and underscores in the source.",
        )
    return HiveColumn(name, str(hive_type(spark_type, name)))


def _widened(table: HiveTable, column: HiveColumn, spark_type: DataType) -> HiveColumn:
    current = parse_type(column.type)
    if not is_number(current):
        return column
    try:
        source_type = hive_type(spark_type, column.name)
    except TypeMismatch:
        return column  # Its values are converted or refused, as without schema growth.
    if not is_number(source_type):
        return column
    common = wider(current, source_type)
    if common is None:
        raise TypeMismatch(
            f"Column {column.name} of {table.ref.full_name} is {current}, the source has {source_type}: "
            "no type that Hive reads the older files as holds both.",
            remedy="Cast it in the source.",
        )
    return column if common == current else replace(column, type=str(common))


# Columns that are true in the rows that get the default value of another column.
_DEFAULT = own_column("default")


@dataclass(eq=False)
class InsertStatement(SparkStatement):
    """Add rows in a new delta, or replace all rows of the table or of partitions by a base.

    Attributes:
        rows: The source of the rows.
        mapping: The mapping of the source's columns.
        replaces: Replace all rows of the table, or of the partitions that are named or written.
        whole_table: Replace also the rows of partitions for which the source has none.
        merge_schema: Add the columns to the table that only the source has, and widen numbers.
    """

    rows: DataFrame | Source
    mapping: InsertMapping
    replaces: bool
    whole_table: bool = False
    merge_schema: bool = False
    _source: SourceFrame = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.mapping.by_position:
            require_names(self.merge_schema, self.mapping.exclude)

    @property
    def operation(self) -> Operation:
        """Overwrite or insert."""
        return Operation.OVERWRITE if self.replaces else Operation.INSERT

    def prepare(self, preparation: Preparation) -> None:
        """Look up the source, and determine the partitions that can be written."""
        engine = engine_of(preparation)
        self._source = SourceFrame(engine.spark, preparation.client, self.rows, engine.batches)
        self.look_up(preparation)
        self.reads = self._source.acid_tables
        if (specified := self.mapping.specified(self.table)) is not None:
            partition_names = _partition_names(self.spark, self.table, specified)
            self.partitions = partitions_of_insert(
                preparation.client, self.table, partition_names, replaces=self.replaces
            )
        if self.merge_schema:
            empty, subject = self._source.empty(), f"The insert into {self.target.full_name}"
            growth = SchemaGrowth(self.table, without(empty, self.mapping.exclude, subject).schema)
            rows_for(growth.grown(preparation), empty, self.mapping)
            self.table, self.columns_added = growth.apply(preparation)

    def files_without_bytes(self) -> Sequence[str]:
        """See the base class."""
        return self._source.files_without_bytes()

    def has_source_rows(self, counts: Counts) -> bool:
        """See the base class."""
        return counts.inserted > 0

    def stage(self, context: WriteContext) -> Counts:
        """Stage the rows of the source."""
        source = self._source.frame(reader_of(context), reader_of(context).shared)
        self.check_times(context, source)
        with context.phases(Phase.WRITE, "the new rows"):
            rows = rows_for(context.table, source, self.mapping, self.rules)
            rows = in_session(rows, evaluating_session(rows.sparkSession))
            write_rows(context.output, rows, replace=self.replaces)
            self.refuse_other_partitions(context)
            if self.replaces:
                emptied = partitions_to_empty(
                    context.client,
                    context.table,
                    self.partitions,
                    whole_table=self.whole_table,
                )
                context.output.write_empty_bases(emptied)
        return Counts(inserted=context.output.rows)


@dataclass(eq=False)
class TruncateStatement(SparkStatement):
    """Remove all rows of a table, or of some of its partitions, by empty bases.

    Attributes:
        partition: Some or all partition keys with their values.
    """

    partition: PartitionSpec | None = None

    @property
    def operation(self) -> Operation:
        """An overwrite without rows."""
        return Operation.OVERWRITE

    @property
    def adds_rows(self) -> bool:
        """Truncation adds no rows."""
        return False

    def prepare(self, preparation: Preparation) -> None:
        """Determine the partitions to truncate."""
        self.look_up(preparation)
        names = partitions_to_truncate(preparation.client, self.table, self.partition)
        if self.partition is not None:
            self.partitions = names

    def stage(self, context: WriteContext) -> Counts:
        """Stage the empty bases."""
        with context.phases(Phase.WRITE, "the empty bases"):
            # Repeated under the locks, since others may have added a partition.
            names = partitions_to_truncate(context.client, context.table, self.partition)
            keys = context.table.partition_keys
            context.output.write_empty_bases(names if keys else [None])
        return Counts()


def _partition_names(
    spark: SparkSession, table: HiveTable, partitions: Sequence[PartitionSpec]
) -> list[str]:
    """The names of partitions that are given by the values of all their keys.

    Rows get their partition from values in the types of the keys: ``hour=1``, also for ``01``.
    """
    if (known := names_of_partitions(table, partitions)) is not None:
        return known
    lower = [{key.lower(): value for key, value in spec.items()} for spec in partitions]
    values_by_spec = [[spec[key] for key in table.key_types] for spec in lower]
    names = []
    for texts, canonical in zip(
        values_by_spec, canonical_values(spark, table, values_by_spec), strict=True
    ):
        for key, text, value in zip(table.partition_keys, texts, canonical, strict=True):
            if text and value is None:
                raise invalid_value(table, key.name, text)
        names.append(named_partition(canonical, table.key_types))
    return list(dict.fromkeys(names))


def rows_for(
    table: HiveTable, source: DataFrame, mapping: InsertMapping, rules: WriteRules | None = None
) -> DataFrame:
    """Convert a source's rows to the columns of a table."""
    row = mapping.row(table, source.columns, rules)
    wants_default = {name: f"{_DEFAULT}{number}" for name, number in row.wants_default.items()}
    if mapping.by_position:
        source = source.toDF(*row.names, *wants_default.values())
    fixed = {key: "NULL" if text is None else text_as_sql(text) for key, text in row.keys.items()}
    expressions = {**row.values, **fixed}
    subject = f"The insert into {table.ref.full_name}"
    values = stored(
        source, {name: expressions[name] for name in column_names(table)}, table, subject
    )
    defaults = stored(source, row.defaults, table, subject) if row.defaults else {}
    for name, default in defaults.items():
        values[name] = (
            f"CASE WHEN {wants_default[name]} THEN {as_operand(default)} "
            f"ELSE {as_operand(values[name])} END"
        )
    return select_as(source, values)
