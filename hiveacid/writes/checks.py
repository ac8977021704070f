"""Evaluation of checks: after the files are published, and before the commit makes them visible.

At this point, the transaction reads its own rows, and the state of all tables as they will be, by the
ordinary readers, and no other transaction can. If it fails, its files are removed as those of any
other failed write.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from statistics import mean
from typing import Any

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import CheckFailed, HiveAcidError, InvalidJob, UnknownColumn
from hiveacid.jobs.checks import Check, Passes, QueryCheck, RowCheck, RowCount, require_checks
from hiveacid.jobs.report import CheckResult
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.history_entries import HistoryState
from hiveacid.records.table_history import table_history
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural
from hiveacid.writes.check_footers import WrittenFooters
from hiveacid.writes.engine import CheckEvaluator, Violations, Written
from hiveacid.writes.statement import Part, Statement

_SHOWN_CHARACTERS = 500
# Among so many entries of the history, the versions of one kind of job are searched.
_ENTRIES_PER_VERSION = 10


@dataclass(frozen=True)
class WrittenRows:
    """The rows that a transaction writes into a table, for a function of Python.

    Attributes:
        table: "database.table".
        rows: The number of the rows.
    """

    table: str
    rows: int
    _evaluator: CheckEvaluator = field(repr=False)
    _written: Written = field(repr=False)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the rows.

        Args:
            columns: Their columns; by default all.
        """
        rows = self._evaluator.arrow(self._written)
        return rows if columns is None else rows.select([name.lower() for name in columns])

    def to_spark(self) -> Any:
        """Return a frame of the rows.

        Raises:
            SparkNeeded: Spark does not run here; with ``run_in="auto"`` the job runs on Spark then.
        """
        return self._evaluator.frame(self._written)


class WriteChecks:
    """The checks of one write."""

    def __init__(
        self,
        client: MetastoreClient,
        evaluator: CheckEvaluator,
        checks: Sequence[Check],
        statements: Sequence[Statement],
    ) -> None:
        """Prepare the checks of statements that are prepared.

        Args:
            client: The metastore.
            evaluator: Evaluates them.
            checks: The checks.
            statements: The statements.

        Raises:
            InvalidJob: A check is for a table that no statement writes, or cannot be evaluated.
            UnknownColumn: A table lacks a column of a check.
        """
        self._client = client
        self._evaluator = evaluator
        self._tables = {s.table.ref.full_name: s.table for s in statements}
        first = statements[0].table.ref.full_name
        self._checks = [replace(check, table=check.table or first) for check in checks]
        require_checks(self._checks, [*self._tables])
        for check in self._checks:
            table = self._table_of(check)
            column_names = {
                column.name.lower() for column in (*table.columns, *table.partition_keys)
            }
            if missing := [
                name for name in check.columns_needed if name.lower() not in column_names
            ]:
                raise UnknownColumn(
                    f"The check {check.label}: {table.ref.full_name} has no column {missing[0]}."
                )
            if isinstance(check, Passes):
                _function(check)
        self.reads: Sequence[TableRef] = ()
        if checks:
            self.reads = evaluator.prepare(self._tables, self._checks)

    def require_counts(self, parts: Sequence[Part]) -> list[CheckResult]:
        """Compare the numbers of written rows, which are known before anything is published.

        Raises:
            CheckFailed: A check of severity "error" fails.
        """
        counts = [c for c in self._checks if isinstance(c, RowCount) and c.of != "table"]
        results = []
        for check in counts:
            name = self._table_of(check).ref.full_name
            parts_of_table = [part for part in parts if part.name == name]
            results.append(
                self._counted(check, name, _number(check, parts_of_table), parts_of_table)
            )
        return _settled(results)

    def require_rows(
        self, txn: Transaction, parts: Sequence[Part], phases: PhaseClock
    ) -> list[CheckResult]:
        """Evaluate all other checks, on published files.

        Args:
            txn: The transaction that is about to commit.
            parts: Its statements.
            phases: The clock of the run.

        Raises:
            CheckFailed: A check of severity "error" fails.
        """
        row_checks = [c for c in self._checks if not isinstance(c, RowCount) or c.of == "table"]
        if not row_checks:
            return []
        with phases(Phase.READ, f"{plural(len(row_checks), 'check')} of the written rows"):
            written_tables = {
                name: _written([part for part in parts if part.name == name])
                for name in self._tables
            }
            self._evaluator.begin(txn, written_tables)
            # Cleaners may have removed files that a lost transaction had yet to read: then neither an
            # error nor a violation is that of the rows.
            try:
                results = [*self._evaluated(row_checks, written_tables, parts)]
            except HiveAcidError:
                txn.confirm_alive()
                raise
            if any(result.result.fails for result in results):
                txn.confirm_alive()
        return _settled(results)

    def _evaluated(
        self, checks: Sequence[Check], written_tables: Mapping[str, Written], parts: Sequence[Part]
    ) -> Iterator["_Judged"]:
        violations = self._row_checks(
            [c for c in checks if isinstance(c, RowCheck)], written_tables, parts
        )
        for check in checks:
            name = self._table_of(check).ref.full_name
            if isinstance(check, RowCount):
                number = self._evaluator.count(written_tables[name])
                parts_of_table = [part for part in parts if part.name == name]
                yield self._counted(check, name, number, parts_of_table)
            elif isinstance(check, Passes):
                yield self._passes(check, name, written_tables[name], parts)
            elif isinstance(check, QueryCheck):
                yield _result(check, name, self._evaluator.returned_rows(check))
            else:
                yield _result(check, name, violations[check.label, name])

    def _row_checks(
        self,
        checks: Sequence[RowCheck],
        written_tables: Mapping[str, Written],
        parts: Sequence[Part],
    ) -> dict[tuple[str, str], Violations]:
        """Evaluate the conditions of each table together."""
        groups: dict[tuple[str, bool], list[RowCheck]] = {}
        violations_by_footers: dict[tuple[str, str], Violations] = {}
        footers = {
            name: WrittenFooters([part for part in parts if part.name == name])
            for name in written_tables
        }
        for check in checks:
            name = self._table_of(check).ref.full_name
            if footers[name].prove(check):
                violations_by_footers[check.label, name] = Violations(0)
            else:
                groups.setdefault((name, check.whole_table), []).append(check)
        return violations_by_footers | {
            (check.label, name): violations
            for (name, _), group in groups.items()
            for check, violations in zip(
                group, self._evaluator.violating_rows(written_tables[name], group), strict=True
            )
        }

    def _counted(self, check: RowCount, name: str, number: int, parts: Sequence[Part]) -> "_Judged":
        low, high = check.min, check.max
        context = ""
        if check.last is not None:
            earlier = self._earlier_counts(check, TableRef.parse(name), parts)
            if earlier:
                usual = mean(earlier)
                context = f"; the mean of {plural(len(earlier), 'earlier version')} is {usual:g}"
                if check.min_ratio is not None:
                    low = max(low or 0, int(-(-usual * check.min_ratio // 1)))
                if check.max_ratio is not None:
                    highest = int(usual * check.max_ratio)
                    high = highest if high is None else min(high, highest)
        problem = ""
        if low is not None and number < low:
            problem = f", fewer than {low}"
        elif high is not None and number > high:
            problem = f", more than {high}"
        return _judged(check, name, not problem, f"{plural(number, 'row')}{problem}{context}")

    def _earlier_counts(
        self, check: RowCount, ref: TableRef, parts: Sequence[Part]
    ) -> Sequence[int]:
        """Return the numbers of the last versions by the same kind of job."""
        assert check.last is not None
        kinds = {part.statement.name for part in parts}
        kind = kinds.pop() if len(parts) == 1 else "transaction"
        entries = table_history(self._client, ref, limit=_ENTRIES_PER_VERSION * check.last)
        counts_of_entries = [
            [entry.rows_inserted or 0, entry.rows_updated or 0, entry.rows_deleted or 0]
            for entry in entries
            if entry.operation == kind
            and entry.state not in (HistoryState.OPEN, HistoryState.ABORTED)
        ]
        return [_counted_as(check, *counts) for counts in counts_of_entries[: check.last]]

    def _passes(self, check: Passes, name: str, table: Written, parts: Sequence[Part]) -> "_Judged":
        rows = sum(part.output.rows for part in parts if part.name == name)
        try:
            answer = _function(check)(WrittenRows(name, rows, self._evaluator, table))
        except AssertionError as error:
            answer = str(error)
        passed = answer is None or answer is True
        return _judged(check, name, passed, "" if passed or answer is False else str(answer))

    def _table_of(self, check: Check) -> HiveTable:
        assert check.table is not None
        return self._tables[TableRef.parse(check.table).full_name]


@dataclass(frozen=True)
class _Judged:
    """A result with the rows that only messages show."""

    result: CheckResult
    shown: Sequence[Mapping[str, Any]] = ()

    @property
    def text(self) -> str:
        result = self.result
        text = f"{result.check} of {result.table}"
        if result.found:
            text += f": {result.found}"
        rows = [json.dumps(row, default=str)[:_SHOWN_CHARACTERS] for row in self.shown]
        return text + (f", such as {'; '.join(rows)}" if rows else "")


def _judged(
    check: Check,
    table: str,
    passed: bool,
    detail: str,
    violations: Violations | None = None,
) -> _Judged:
    count = 0 if violations is None else violations.count
    result = CheckResult(
        check=check.label,
        table=table,
        severity=str(check.severity),
        passed=passed,
        found=detail,
        failed_rows=count,
    )
    return _Judged(result, () if violations is None else violations.shown[: check.shown])


def _result(check: Check, table: str, violations: Violations) -> _Judged:
    passed = not violations.count
    detail = (
        ""
        if passed
        else f"{plural(violations.count, 'row')} violate{'s' * (violations.count == 1)} it"
    )
    return _judged(check, table, passed, detail, violations)


def _settled(judged: Iterable[_Judged]) -> list[CheckResult]:
    """Return the results.

    Raises:
        CheckFailed: Checks of severity "error" fail.
    """
    judged = [*judged]
    failed = [verdict.text for verdict in judged if verdict.result.fails]
    if failed:
        count = "A check fails" if len(failed) == 1 else f"{len(failed)} checks fail"
        raise CheckFailed(f"{count}: {'. '.join(failed)}.")
    return [verdict.result for verdict in judged]


def _number(check: RowCount, parts: Sequence[Part]) -> int:
    counts = [part.counts for part in parts]
    return _counted_as(
        check,
        sum(count.inserted for count in counts),
        sum(count.updated for count in counts),
        sum(count.deleted for count in counts),
    )


def _counted_as(check: RowCount, inserted: int, updated: int, deleted: int) -> int:
    by_name = {"inserted": inserted, "updated": updated, "deleted": deleted}
    return by_name.get(str(check.of), inserted + updated)


def _function(check: Passes) -> Any:
    module, _, name = check.function.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidJob(
            f"The check {check.label}: {check.function} cannot be imported: {error}."
        ) from error


def _written(parts: Sequence[Part]) -> Written:
    """Return what all statements on one table have written."""
    return Written(
        parts[0].statement.table,
        sorted({name for part in parts for name in part.output.partitions}),
        frozenset(path for part in parts for path in part.output.directories),
    )
