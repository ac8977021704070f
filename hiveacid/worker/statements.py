"""Statements whose rows Arrow evaluates in this process: what they share, UPDATE, DELETE, and INSERT."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded
from hiveacid.jobs.fields import Parameters
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import (
    names_of_partitions,
    partitions_of_insert,
    partitions_to_empty,
)
from hiveacid.orc.row_keys.row_id_set import RowIds
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.partitions import partitions_to_change, selected_partitions
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.values import assigned
from hiveacid.progress import Phase
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.schema import HiveType, Primitive, parse_type
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.bucketing import writer_numbers
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.row_filter import RowFilter
from hiveacid.tables.scan.times import TIMESTAMP
from hiveacid.worker.constraints import require_compiled
from hiveacid.worker.engine import (
    FoundRows,
    TableRows,
    require_few,
    require_writable,
    write_flat,
)
from hiveacid.worker.expressions import (
    Expression,
    Scope,
    bare_column,
    condition,
    of_tree,
    tree_of,
    with_alias,
)
from hiveacid.worker.needed_stripes import row_filter, simple_parts
from hiveacid.worker.pairs import columns_in
from hiveacid.worker.sources import ArrowSource, types_of
from hiveacid.worker.stored_values import stored
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext

_KEYS = ["partition", "bucket_number", "write_id", "bucket", "row"]
Mask = np.ndarray[Any, Any]


class WorkerStatement(Statement):
    """A statement whose rows Arrow evaluates."""

    def look_up(self, preparation: Preparation) -> None:
        """See the base class.

        Raises:
            SparkNeeded: The table, or the policy for conflicts, needs Spark.
        """
        super().look_up(preparation)
        if self.operation is Operation.OVERWRITE:
            # It would create the folder, also on a machine that lacks the disk of the table.
            ReadOnlyStorage.of(self.table.folder).require_folder()
        require_writable(self.table)
        if keeps_checksums(self.table.folder) and preparation.client.listeners.want_events:
            raise SparkNeeded(f"The write events of {self.target} have checksums of HDFS.")
        if self.adds_rows:
            self.declared.look_up(preparation.client, self.table)
        if preparation.options.conflict_policy == "rows" and self.depends_on_new_rows:
            raise SparkNeeded("conflict_policy='rows' compares the rows of others.")

    @property
    def what(self) -> str:
        """The operation and its table, at the beginning of messages."""
        return f"The {self.name} of {self.table.ref.full_name}"


@dataclass(eq=False)
class SourceStatement(WorkerStatement):
    """A statement that compares or writes the rows of a source.

    Attributes:
        make_source: Looks up the source.
    """

    make_source: Callable[[MetastoreClient], ArrowSource]
    _source: ArrowSource = field(init=False, repr=False)
    _rows: int = field(init=False, repr=False, default=0)

    def look_up(self, preparation: Preparation) -> None:
        """Look up the target and the source."""
        super().look_up(preparation)
        self._source = self.make_source(preparation.client)
        self.reads = self._source.reads

    def files_without_bytes(self) -> Sequence[str]:
        """See the base class."""
        return self._source.without_bytes

    def has_source_rows(self, counts: Counts) -> bool:
        """See the base class."""
        return self._rows > 0

    def _evaluated(self, context: WriteContext) -> pa.Table:
        """Return the rows of the source."""
        rows = self._source.evaluate(context.reader)
        self._rows = rows.num_rows
        return rows


# The deletes and the new rows of a statement


class DeleteKeys:
    """The row ids of rows to delete, collected batch by batch."""

    def __init__(self) -> None:
        self._parts: list[Mask] = []

    def add(self, found: FoundRows) -> None:
        """Add some rows."""
        write_ids, buckets, rows = found.ids
        numbers = writer_numbers(buckets)
        partition = np.full(len(rows), found.partition)
        self._parts.append(np.vstack([partition, numbers, write_ids, buckets, rows]))

    def __len__(self) -> int:
        return sum(part.shape[1] for part in self._parts)

    def stage(self, context: WriteContext, files: TableRows) -> int:
        """Stage the delete events and return their number."""
        if len(self):
            keys = np.hstack(self._parts)
            keys = keys[:, np.lexsort(keys[::-1])]
            events = pa.table(dict(zip(_KEYS, keys, strict=True)))
            context.output.write_deletes(events, files.files.partitions)
        return len(self)


class NewRows:
    """Rows to write, in the columns of a table, collected batch by batch."""

    def __init__(self, subject: str) -> None:
        self._parts: list[pa.Table] = []
        self._what = subject

    def __len__(self) -> int:
        return sum(part.num_rows for part in self._parts)

    def add(self, values: Mapping[str, Expression], rows: pa.Table) -> int:
        """Evaluate the columns for some rows, and return the number of the rows."""
        if rows.num_rows:
            columns = {name: _exact(of.values(rows)) for name, of in values.items()}
            self._parts.append(pa.table(columns))
            require_few(len(self), self._what, sum(part.nbytes for part in self._parts))
        return int(rows.num_rows)

    def stage(self, context: WriteContext, *, replace: bool = False) -> None:
        """Stage the rows.

        Raises:
            CheckFailed: A row violates a constraint.
        """
        if not self._parts:
            return
        rows = pa.concat_tables(self._parts)
        flat = write_flat(rows, context.output.flat_target(replace=replace))
        width = len(context.table.columns)
        context.output.take([(file,) for file in flat], replace=replace, width=width)


def _exact(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return timestamps in the type that holds those of files."""
    if not pa.types.is_timestamp(values.type):
        return values
    micros = values.cast(pa.timestamp("us")).combine_chunks()
    micros = micros.chunk(0) if isinstance(micros, pa.ChunkedArray) else micros
    numbers = np.asarray(micros.cast(pa.int64()).fill_null(0))
    parts = [pa.array(numbers // 10**6), pa.array((numbers % 10**6 * 1000).astype(np.int32))]
    mask = micros.is_null()
    return pa.chunked_array(
        [pa.StructArray.from_arrays(parts, fields=list(TIMESTAMP), mask=mask)], TIMESTAMP
    )


def compiled_row(
    table: HiveTable, texts: Mapping[str, str], scope: Scope, subject: str, alias: str = ""
) -> dict[str, Expression]:
    """Compile the values of all columns of a table, by the names of the columns.

    Args:
        table: The table.
        texts: The expressions, by the names of the columns.
        scope: The names that they use.
        subject: The name of the operation.
        alias: The alias of the rows whose other columns are kept as they are.

    Raises:
        SparkNeeded: One of them is not evaluated here.
    """
    return {
        column.name: _compiled_value(column, texts[column.name], scope, subject)
        if column.name in texts
        else _as_stored(f"{alias}.{column.name.lower()}", parse_type(column.type))
        for column in (*table.columns, *table.partition_keys)
    }


def _as_stored(name: str, type_: HiveType) -> Expression:
    return Expression(type_, lambda rows: rows.column(name))


def _compiled_value(column: HiveColumn, text: str, scope: Scope, subject: str) -> Expression:
    tree, type_ = tree_of(text, scope), parse_type(column.type)
    if isinstance(tree, exp.Null):
        (kind,) = TableColumns([column], unit=None).schema.types
        return Expression(type_, lambda rows: pa.chunked_array([pa.nulls(rows.num_rows, kind)]))
    source = bare_column(tree, scope)
    if source is not None and source[1] == type_ != Primitive("timestamp"):
        # A value of any type is stored as it is, but a timestamp that is named has microseconds.
        return _as_stored(*source)
    return stored(of_tree(tree, scope), column, subject)


# Rows for which a condition is true


def matching(
    rows: TableRows,
    names: Sequence[str],
    choice: RowFilter | None,
    holds: Callable[[pa.Table], Mask],
) -> list[FoundRows]:
    """Find rows, without their columns: one entry for each file that has some."""
    matches: dict[tuple[int, Any], list[FoundRows]] = {}
    count = 0
    for batch in rows.found(names, choice):
        mask = holds(batch.columns)
        if mask.any():
            matching_rows = batch.only(mask)
            count += len(matching_rows)
            require_few(count, f"The change of {rows.files.table.ref.full_name}")
            matches.setdefault((batch.partition, batch.file), []).append(matching_rows)
    return [
        FoundRows(
            partition, file, RowIds.joined(part.ids for part in parts), parts[0].columns.slice(0, 0)
        )
        for (partition, file), parts in matches.items()
    ]


@dataclass(eq=False)
class _RowChange(WorkerStatement):
    """A change of the rows for which a condition is true."""

    where: str | None
    params: Parameters = field(default_factory=dict)
    target_alias: str = "t"

    @property
    def changes_single_rows(self) -> bool:
        """See the base class."""
        return True

    @property
    def assigned(self) -> Collection[str]:
        """The columns that get new values."""
        return ()

    def prepare(self, preparation: Preparation) -> None:
        """Compile the condition, and determine the partitions that can match."""
        self.look_up(preparation)
        self._alias = self.target_alias.lower()
        self._scope = Scope({self._alias: types_of(self.table)}, self.params)
        self._tree = None if self.where is None else tree_of(self.where, self._scope)
        self._condition = None if self._tree is None else condition(self._tree, self._scope)
        self._keys = ChangeScope(self.table, self.target_alias, params=self.params)
        existing = partial(preparation.client.get_partition_names, self.target)
        selection = partitions_to_change(self.where, self.assigned, self._keys, existing)
        if selection is not None and selection.certain:
            self.partitions = selection.names

    def _rows(self, context: WriteContext) -> TableRows:
        names = selected_partitions(self.where, self._keys, context.partition_names()).names
        if self.table.partition_keys and self.partitions is not None:
            context.require_locked(names)
        return TableRows(context.files(names), Rules.of(context.client.features.hides_compactions))

    def _matches(self, rows: TableRows) -> list[FoundRows]:
        parts = [*simple_parts(self._tree, self._scope, self._alias)]
        names = columns_in(self._scope, self._alias, [self._tree] if self._tree else [])
        return matching(rows, names, row_filter(self.table, parts), self._holds)

    def _holds(self, rows: pa.Table) -> Mask:
        if self._condition is None:
            return np.ones(rows.num_rows, np.bool_)
        return np.asarray(self._condition.holds(with_alias(self._alias, rows)))


class DeleteRows(_RowChange):
    """Delete the rows for which a condition is true."""

    @property
    def operation(self) -> Operation:
        """DELETE."""
        return Operation.DELETE

    @property
    def adds_rows(self) -> bool:
        """A delete adds no rows."""
        return False

    def stage(self, context: WriteContext) -> Counts:
        """Stage a delete event for each row."""
        keys = DeleteKeys()
        with context.phases(Phase.READ, "the rows that match"):
            rows = self._rows(context)
            for match in self._matches(rows):
                keys.add(match)
        with context.phases(Phase.WRITE, "the deletes"):
            return Counts(deleted=keys.stage(context, rows))


@dataclass(eq=False)
class UpdateRows(_RowChange):
    """Change the rows for which a condition is true."""

    set: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """UPDATE."""
        return Operation.UPDATE

    @property
    def assigned(self) -> Collection[str]:
        """See the base class."""
        return [*self.set]

    def prepare(self, preparation: Preparation) -> None:
        """Compile the condition and the values."""
        super().prepare(preparation)
        require_compiled(self.rules)
        texts = assigned(self.table, self.set, self.rules, self.what)
        self._values = compiled_row(self.table, texts, self._scope, self.what, self._alias)

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the new rows."""
        keys, new = DeleteKeys(), NewRows(self.what)
        with context.phases(Phase.READ, "the rows that match"):
            rows = self._rows(context)
            for batch in rows.again(self._matches(rows)):
                keys.add(batch)
                new.add(self._values, with_alias(self._alias, batch.columns))
        with context.phases(Phase.WRITE, "the changes"):
            keys.stage(context, rows)
            new.stage(context)
        return Counts(updated=len(new))


@dataclass(eq=False)
class InsertRows(SourceStatement):
    """Add the rows of a source, or replace all rows of the table or of partitions.

    Attributes:
        mapping: The mapping of the columns of the source.
        overwrite: Replace all rows of the table, or of the partitions that are named or written.
        whole_table: Replace also the rows of partitions for which the source has none.
    """

    mapping: InsertMapping
    overwrite: bool = False
    whole_table: bool = False

    @property
    def operation(self) -> Operation:
        """Overwrite or insert."""
        return Operation.OVERWRITE if self.overwrite else Operation.INSERT

    def prepare(self, preparation: Preparation) -> None:
        """Look up the source, convert its columns, and determine the partitions to write."""
        self.look_up(preparation)
        require_compiled(self.rules)
        if (specified := self.mapping.specified(self.table)) is not None:
            names = names_of_partitions(self.table, specified)
            if names is None:
                raise SparkNeeded("values of partition keys with several texts")
            self.partitions = partitions_of_insert(
                preparation.client, self.table, names, replaces=self.overwrite
            )
        self._values = self._compiled()

    def _compiled(self) -> dict[str, Expression]:
        source, rules = self._source, self.declared.of(self.table)
        row = self.mapping.row(self.table, source.names, rules)
        names = [name.lower() for name in row.names]
        if len({*names}) < len(names):
            raise SparkNeeded("a source with two columns of one name")
        scope = Scope({"#": dict(zip(names, source.types, strict=True))})
        types = self.table.key_types
        keys = {key: _key_literal(text, types[key.lower()]) for key, text in row.keys.items()}
        self._names = [f"#.{name}" for name in names]
        return compiled_row(self.table, {**row.values, **keys}, scope, self.what)

    def stage(self, context: WriteContext) -> Counts:
        """Stage the rows of the source."""
        new = NewRows(self.what)
        with context.phases(Phase.READ, "the source"):
            rows = self._evaluated(context).rename_columns(self._names)
            new.add(self._values, rows)
        with context.phases(Phase.WRITE, "the new rows"):
            new.stage(context, replace=self.overwrite)
            self.refuse_other_partitions(context)
            if self.overwrite:
                emptied = partitions_to_empty(
                    context.client,
                    context.table,
                    self.partitions,
                    whole_table=self.whole_table,
                )
                context.output.write_empty_bases(emptied)
        return Counts(inserted=len(new))


def _key_literal(text: str | None, type_: str) -> str:
    if text is None:
        return "NULL"
    if type_ == "date":
        return f"DATE '{text}'"
    if type_ in ("tinyint", "smallint", "int", "bigint"):
        return text
    if "'" in text or "\\" in text:
        raise SparkNeeded(f"the value {text} of a partition key")
    return f"'{text}'"
