"""Checks of written rows that Arrow evaluates in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import SparkNeeded, UnsupportedFile, UnsupportedTable
from hiveacid.jobs.checks import MOST_SHOWN, Check, QueryCheck, RowCheck
from hiveacid.jobs.sources import BatchSource, Source, TableSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.plan.checks import Absent, Apart, Keys, Repeated, Returned, TooOld, meaning_of
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
        match meaning_of(check, _named(check)):
            case Repeated(keys):
                return self._repeated(keys)
            case Absent(keys, known):
                return self._absent(keys, known)
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
            found = _keys(keys.columns, columns, source.evaluate(reader))
            counted = found.group_by([*keys.columns]).aggregate([([], "count_all")])
            counted = counted.rename_columns([*keys.columns, "copies"])
            # By its place: a column of the table may have the same name.
            return counted.filter(pc.greater(counted.column(len(keys.columns)), 1))

        return evaluate

    def _absent(self, keys: Keys, known: Keys) -> Evaluation:
        (source, own), (other, its) = self._columns(keys), self._columns(known)
        types = [common_type(a.type, b.type) for a, b in zip(own, its, strict=True)]
        own = [widened(each, type_) for each, type_ in zip(own, types, strict=True)]
        its = [widened(each, type_) for each, type_ in zip(its, types, strict=True)]
        names = [*keys.columns]

        def evaluate(reader: FilesReader) -> pa.Table:
            found = _keys(names, own, source.evaluate(reader))
            there = _keys(names, its, other.evaluate(reader))
            return found.join(there, names, join_type="left anti")

        return evaluate

    def _too_old(self, meaning: TooOld) -> Evaluation:
        source, (column,) = self._columns(Keys(meaning.rows, [meaning.column]))
        if str(column.type) not in ("date", "timestamp"):
            raise SparkNeeded(f"the age of a {column.type}")

        def evaluate(reader: FilesReader) -> pa.Table:
            newest = pc.max(column.values(_named_rows(source.evaluate(reader)))).as_py()
            is_day = newest is not None and not isinstance(newest, datetime)
            at = datetime.combine(newest, time()) if is_day else newest
            return pa.table({"newest": [newest] if meaning.is_violated(at) else []})

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
                found = value.values(_named_rows(source.evaluate(reader)))
                sums.append(sum_of([part_of_sum(found)], found.type))
            shown = zip(meaning.totals, map(str, sums), strict=True)
            return pa.table({n: [s] if meaning.is_violated(sums) else [] for n, s in shown})

        return evaluate


def _named(check: Check) -> str:
    assert check.table is not None, "Jobs give each check its table."
    return TableRef.parse(check.table).full_name


def _named_rows(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([f"{_ROWS}.{name}" for name in rows.column_names])


def _keys(names: Sequence[str], columns: Sequence[Expression], rows: pa.Table) -> pa.Table:
    """Return the keys of rows, with one form of each value: Arrow compares floats by their bits."""
    named = _named_rows(rows)
    values = [of_one_form(column.values(named)) for column in columns]
    return pa.table(dict(zip(names, values, strict=True))).drop_null()


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
