"""Checks of written rows that Arrow evaluates in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import SparkNeeded, UnsupportedFile, UnsupportedTable
from hiveacid.jobs.checks import (
    MOST_SHOWN,
    Balanced,
    Check,
    Fresh,
    NoRows,
    QueryCheck,
    References,
    RowCheck,
    Unique,
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
    widened,
)
from hiveacid.worker.files import MOST_EVENTS, bounded
from hiveacid.worker.sources import ArrowSource, source_of, types_of
from hiveacid.writes.engine import CheckEvaluator, Violations, Written

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

    def begin(self, txn: Transaction, written: Mapping[str, Written]) -> None:
        """See the base class."""
        self._reader, self._written = FilesReader(self._client, txn), written
        self._read.clear()

    def count(self, written: Written) -> int:
        """See the base class."""
        visible = see_table(self._client, self._reader.txn, written.table)
        return sum(visible.part(each).count() for each in visible.partitions)

    def violating_rows(self, written: Written, checks: Sequence[RowCheck]) -> list[Violations]:
        """See the base class."""
        if checks[0].whole_table:
            name = written.table.ref.full_name
            rows = self._source(TableSource(name)).evaluate(self._reader)
        else:
            rows = self.arrow(written)
        named = _named_rows(rows)
        return [
            _violations(rows.filter(self._conditions[id(each)].holds(named))) for each in checks
        ]

    def returned_rows(self, check: QueryCheck) -> Violations:
        """See the base class."""
        return _violations(self._queries[id(check)](self._reader))

    def arrow(self, written: Written) -> pa.Table:
        """See the base class."""
        return self._batches[written.table.ref.full_name].evaluate(self._reader)

    def frame(self, written: Written) -> Any:
        """See the base class.

        Raises:
            SparkNeeded: Always.
        """
        raise SparkNeeded(f"a check takes the rows of {written.table.ref.full_name} as a frame")

    def _reading(self, name: str) -> Callable[[Any], pa.Table]:
        """Return a function that reads the written rows of a table once."""

        def read(reader: FilesReader) -> pa.Table:
            if name not in self._read:
                self._read[name] = _written_rows(self._client, reader.txn, self._written[name])
            return self._read[name]

        return read

    def _source(self, source: Source) -> ArrowSource:
        found = source_of(self._client, source, {}, self._batches)
        self._reads += found.reads
        return found

    def _scope(self, source: ArrowSource, params: Mapping[str, Any]) -> Scope:
        return Scope({_ROWS: dict(zip(source.names, source.types, strict=True))}, params)

    def _compiled(self, check: QueryCheck) -> Evaluation:
        query = check.query(_named(check))
        if isinstance(check, NoRows):
            return self._source(query).evaluate
        inputs = [self._source(each) for each in query.inputs.values()]
        match check:
            case Unique():
                return self._unique(check, inputs[0])
            case References():
                return self._references(check, *inputs)
            case Fresh():
                return self._fresh(check, inputs[0])
            case Balanced():
                return self._balanced(check, inputs)
        raise SparkNeeded(f"a {type(check).__name__}")

    def _column(self, name: str, source: ArrowSource) -> Expression:
        return compiled(quoted(name), self._scope(source, {}))

    def _unique(self, check: Unique, source: ArrowSource) -> Evaluation:
        names = list(check.columns)
        columns = [self._column(name, source) for name in names]

        def evaluate(reader: FilesReader) -> pa.Table:
            keys = _columns(names, columns, source.evaluate(reader)).drop_null()
            counted = keys.group_by(names).aggregate([([], "count_all")])
            counted = counted.rename_columns([*names, "copies"])
            # By its place: a column of the table may have the same name.
            return counted.filter(pc.greater(counted.column(len(names)), 1))

        return evaluate

    def _references(self, check: References, source: ArrowSource, other: ArrowSource) -> Evaluation:
        names = list(check.columns)
        pairs = [(self._column(a, source), self._column(b, other)) for a, b in check.pairs]
        types = [common_type(own.type, its.type) for own, its in pairs]
        own = [widened(own, type_) for (own, _), type_ in zip(pairs, types, strict=True)]
        its = [widened(its, type_) for (_, its), type_ in zip(pairs, types, strict=True)]

        def evaluate(reader: FilesReader) -> pa.Table:
            keys = _columns(names, own, source.evaluate(reader)).drop_null()
            known = _columns(names, its, other.evaluate(reader)).drop_null()
            return keys.join(known, names, join_type="left anti")

        return evaluate

    def _fresh(self, check: Fresh, source: ArrowSource) -> Evaluation:
        column = self._column(check.column, source)
        if str(column.type) not in ("date", "timestamp"):
            raise SparkNeeded(f"the age of a {column.type}")

        def evaluate(reader: FilesReader) -> pa.Table:
            newest = pc.max(column.values(_named_rows(source.evaluate(reader)))).as_py()
            at = newest
            if newest is not None and not isinstance(newest, datetime):
                at = datetime.combine(newest, time())
            too_old = at is not None and at < check.oldest
            return pa.table({"newest": [newest] if too_old else []})

        return evaluate

    def _balanced(self, check: Balanced, sources: Sequence[ArrowSource]) -> Evaluation:
        totals = [
            compiled(text, self._scope(source, {}))
            for text, source in zip(check.totals.values(), sources, strict=True)
        ]

        def evaluate(reader: FilesReader) -> pa.Table:
            sums = []
            for total, source in zip(totals, sources, strict=True):
                values = total.values(_named_rows(source.evaluate(reader)))
                if pa.types.is_decimal(values.type):
                    values = values.cast(pa.decimal128(38, values.type.scale))
                found = pc.sum(values).as_py() or 0
                sums.append(found)
            exact = not any(isinstance(each, float) for each in sums)
            tolerance = Decimal(str(check.tolerance)) if exact else check.tolerance
            numbers = sums if exact else [float(each) for each in sums]
            apart = any(abs(numbers[0] - each) > tolerance for each in numbers[1:])
            return pa.table(
                {n: [s] if apart else [] for n, s in zip(check.totals, sums, strict=True)}
            )

        return evaluate


def _named(check: Check) -> str:
    assert check.table is not None, "Jobs give each check its table."
    return TableRef.parse(check.table).full_name


def _named_rows(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([f"{_ROWS}.{name}" for name in rows.column_names])


def _columns(names: Sequence[str], columns: Sequence[Expression], rows: pa.Table) -> pa.Table:
    named = _named_rows(rows)
    values = [column.values(named) for column in columns]
    return pa.table(dict(zip(names, values, strict=True)))


def _violations(rows: pa.Table) -> Violations:
    return Violations(rows.num_rows, rows.slice(0, MOST_SHOWN).to_pylist())


def _written_rows(client: MetastoreClient, txn: Transaction, written: Written) -> pa.Table:
    """Read the rows of published directories."""
    table = written.table
    visible = see_table(client, txn, table, partitions=lambda _, names: written.partitions)
    # Without a unit, timestamps keep all their digits.
    wanted = TableColumns(table.columns, table.partition_keys, unit=None)
    schema = pa.schema(
        [*zip(types_of(table), [field.type for field in wanted.schema], strict=True)]
    )
    try:
        parts = [visible.part(each) for each in visible.partitions]
        own = [
            replace(
                part,
                files=tuple(f for f in part.files if written.has(_path(part, f))),
                most_events=MOST_EVENTS,
            )
            for part in parts
        ]
        found = chain.from_iterable(part.rows(wanted, needs_ids=False) for part in own)
        return bounded(schema, (batch for _, batch in found), f"the rows for {table.ref.full_name}")
    except (UnsupportedFile, UnsupportedTable) as error:
        raise SparkNeeded(error.what) from error


def _path(part: TablePart, file: DataFile) -> str:
    return f"{part.location.rstrip('/')}/{file.path}"
