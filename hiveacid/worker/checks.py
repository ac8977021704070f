"""Checks of written rows that Arrow evaluates in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import SparkNeeded, UnsupportedFile, UnsupportedTable
from hiveacid.jobs.checks import (
    MOST_SHOWN,
    Absent,
    Apart,
    Check,
    Keys,
    QueryCheck,
    Repeated,
    Returned,
    RowCheck,
    TooOld,
)
from hiveacid.jobs.sources import BatchSource, Source, TableSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted
from hiveacid.storage.listing import DataFile
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.visible_table import see_table
from hiveacid.tables.visible_files import FilesReader
from hiveacid.worker.expressions import (
    Expression,
    Scope,
    common_type,
    compiled,
    condition,
    of_one_form,
    require_number,
    widened,
)
from hiveacid.worker.files import MOST_EVENTS, bounded
from hiveacid.worker.sources import ArrowSource, source_of, types_of
from hiveacid.writes.engine import CheckEvaluator, Violations, Written
from hiveacid.writes.sums import part_of_sum, sum_of

_ROWS = "#"
# Evaluates the violations of a check.
Evaluation = Callable[[FilesReader], pa.Table]


class ArrowChecks(CheckEvaluator):
    """Evaluates the checks of one write."""

    def __init__(self, client: MetastoreClient) -> None:
        """Begin.

        Args:
            client: The metastore.
        """
        self._client = client
        self._batches: dict[str, ArrowSource] = {}
        self._conditions: dict[int, Expression] = {}
        self._queries: dict[int, Evaluation] = {}
        self._read: dict[str, pa.Table] = {}
        self._reads: list[TableRef] = []

    def prepare(self, tables: Mapping[str, HiveTable], checks: Sequence[Check]) -> list[TableRef]:
        """See the base class.

        Raises:
            SparkNeeded: A check is not evaluated here.
        """
        for name, table in tables.items():
            types = types_of(table)
            read = self._reading(name)
            self._batches[name] = ArrowSource([*types], [*types.values()], read)
        for check in checks:
            try:
                if isinstance(check, RowCheck):
                    scope = self._scope(self._source(BatchSource(_named(check))), check.values)
                    self._conditions[id(check)] = condition(f"NOT ({check.condition})", scope)
                elif isinstance(check, QueryCheck):
                    self._queries[id(check)] = self._compiled(check)
            except SparkNeeded as error:
                raise SparkNeeded(f"the check {check.label}: {error.what}") from error
        return [*dict.fromkeys(self._reads)]

    def begin(self, txn: Transaction, tables: Mapping[str, Written]) -> None:
        """See the base class."""
        self._reader, self._written = FilesReader(self._client, txn), tables
        self._read.clear()

    def count(self, table: Written) -> int:
        """See the base class."""
        visible = see_table(self._client, self._reader.txn, table.table)
        return sum(visible.part(partition).count() for partition in visible.partitions)

    def violating_rows(self, table: Written, checks: Sequence[RowCheck]) -> list[Violations]:
        """See the base class."""
        if checks[0].whole_table:
            name = table.table.ref.full_name
            rows = self._source(TableSource(name)).evaluate(self._reader)
        else:
            rows = self.arrow(table)
        aliased = _named_rows(rows)
        return [
            _violations(rows.filter(self._conditions[id(check)].holds(aliased))) for check in checks
        ]

    def returned_rows(self, check: QueryCheck) -> Violations:
        """See the base class."""
        return _violations(self._queries[id(check)](self._reader))

    def arrow(self, table: Written) -> pa.Table:
        """See the base class."""
        return self._batches[table.table.ref.full_name].evaluate(self._reader)

    def frame(self, table: Written) -> Any:
        """See the base class.

        Raises:
            SparkNeeded: Always.
        """
        raise SparkNeeded(f"a check takes the rows of {table.table.ref.full_name} as a frame")

    def _reading(self, name: str) -> Callable[[Any], pa.Table]:
        """Return a function that reads the written rows of a table once."""

        def read(reader: FilesReader) -> pa.Table:
            if name not in self._read:
                self._read[name] = _written_rows(self._client, reader.txn, self._written[name])
            return self._read[name]

        return read

    def _source(self, source: Source) -> ArrowSource:
        input_source = source_of(self._client, source, {}, self._batches)
        self._reads += input_source.reads
        return input_source

    def _scope(self, source: ArrowSource, params: Mapping[str, Any]) -> Scope:
        return Scope({_ROWS: dict(zip(source.names, source.types, strict=True))}, params)

    def _compiled(self, check: QueryCheck) -> Evaluation:
        match check.meaning(_named(check)):
            case Repeated(keys):
                return self._repeated(keys)
            case Absent(keys, references):
                return self._absent(keys, references)
            case TooOld() as meaning:
                return self._too_old(meaning)
            case Apart() as meaning:
                return self._apart(meaning)
            case Returned(query):
                return self._source(query).evaluate

    def _columns(self, keys: Keys) -> tuple[ArrowSource, list[Expression]]:
        source = self._source(keys.rows)
        scope = self._scope(source, {})
        return source, [compiled(quoted(name), scope) for name in keys.columns]

    def _repeated(self, keys: Keys) -> Evaluation:
        source, columns = self._columns(keys)

        def evaluate(reader: FilesReader) -> pa.Table:
            keys_of_rows = _keys(keys.columns, columns, source.evaluate(reader))
            groups = keys_of_rows.group_by([*keys.columns]).aggregate([([], "count_all")])
            groups = groups.rename_columns([*keys.columns, "copies"])
            # By its place: a column of the table may have the same name.
            return groups.filter(pc.greater(groups.column(len(keys.columns)), 1))

        return evaluate

    def _absent(self, keys: Keys, references: Keys) -> Evaluation:
        (source, own_values), (other_source, other_values) = (
            self._columns(keys),
            self._columns(references),
        )
        types = [common_type(a.type, b.type) for a, b in zip(own_values, other_values, strict=True)]
        own_values = [widened(value, type_) for value, type_ in zip(own_values, types, strict=True)]
        other_values = [
            widened(value, type_) for value, type_ in zip(other_values, types, strict=True)
        ]
        names = [*keys.columns]

        def evaluate(reader: FilesReader) -> pa.Table:
            own_keys = _keys(names, own_values, source.evaluate(reader))
            other_keys = _keys(names, other_values, other_source.evaluate(reader))
            return own_keys.join(other_keys, names, join_type="left anti")

        return evaluate

    def _too_old(self, meaning: TooOld) -> Evaluation:
        source, (column,) = self._columns(Keys(meaning.rows, [meaning.column]))
        if str(column.type) not in ("date", "timestamp"):
            raise SparkNeeded(f"the age of a {column.type}")

        def evaluate(reader: FilesReader) -> pa.Table:
            newest = pc.max(column.values(_named_rows(source.evaluate(reader)))).as_py()
            is_day = newest is not None and not isinstance(newest, datetime)
            moment = datetime.combine(newest, time()) if is_day else newest
            return pa.table({"newest": [newest] if meaning.is_violated(moment) else []})

        return evaluate

    def _apart(self, meaning: Apart) -> Evaluation:
        sources = [self._source(rows) for rows, _ in meaning.totals.values()]
        values = [
            compiled(text, self._scope(source, {}))
            for (_, text), source in zip(meaning.totals.values(), sources, strict=True)
        ]
        for each in values:
            require_number(each)

        def evaluate(reader: FilesReader) -> pa.Table:
            sums = []
            for value, source in zip(values, sources, strict=True):
                numbers = value.values(_named_rows(source.evaluate(reader)))
                sums.append(sum_of([part_of_sum(numbers)], numbers.type))
            totals = zip(meaning.totals, map(str, sums), strict=True)
            return pa.table({n: [s] if meaning.is_violated(sums) else [] for n, s in totals})

        return evaluate


def _named(check: Check) -> str:
    assert check.table is not None, "Jobs give each check its table."
    return TableRef.parse(check.table).full_name


def _named_rows(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([f"{_ROWS}.{name}" for name in rows.column_names])


def _keys(names: Sequence[str], columns: Sequence[Expression], rows: pa.Table) -> pa.Table:
    """Return the keys of rows, with one form of each value: Arrow compares floats by their bits."""
    aliased = _named_rows(rows)
    values = [of_one_form(column.values(aliased)) for column in columns]
    return pa.table(dict(zip(names, values, strict=True))).drop_null()


def _violations(rows: pa.Table) -> Violations:
    return Violations(rows.num_rows, rows.slice(0, MOST_SHOWN).to_pylist())


def _written_rows(client: MetastoreClient, txn: Transaction, tables: Written) -> pa.Table:
    """Read the rows of published directories."""
    table = tables.table
    visible = see_table(client, txn, table, partitions=lambda _, names: tables.partitions)
    # Without a unit, timestamps keep all their digits.
    table_columns = TableColumns(table.columns, table.partition_keys, unit=None)
    schema = pa.schema(
        [*zip(types_of(table), [field.type for field in table_columns.schema], strict=True)]
    )
    try:
        parts = [visible.part(partition) for partition in visible.partitions]
        own = [
            replace(
                part,
                files=tuple(f for f in part.files if tables.has(_path(part, f))),
                most_events=MOST_EVENTS,
            )
            for part in parts
        ]
        batches = chain.from_iterable(part.rows(table_columns, needs_ids=False) for part in own)
        return bounded(
            schema, (batch for _, batch in batches), f"the rows for {table.ref.full_name}"
        )
    except (UnsupportedFile, UnsupportedTable) as error:
        raise SparkNeeded(error.what) from error


def _path(part: TablePart, file: DataFile) -> str:
    return f"{part.location.rstrip('/')}/{file.path}"
