"""Checks of rows inside the transaction that writes them, before these are visible.

A check tests the rows that a job writes, or with ``whole_table`` all rows of a table as they will be
after the commit. Like a CHECK constraint, the condition of a row is not violated by a null.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.codec import decode
from hiveacid.jobs.fields import (
    Parameters,
    ParameterValue,
    awaits_rendering,
    freeze,
    require_choice,
    require_list,
    require_mapping,
    require_parameters,
    require_sql,
    require_table,
    require_text,
)
from hiveacid.jobs.sources import (
    BatchSource,
    Input,
    QuerySource,
    TableSource,
    require_inputs,
)
from hiveacid.rules.sql_names import quoted

Severity = Literal["error", "warn", "quarantine"]
QUARANTINE = "quarantine"
Counted = Literal["written", "inserted", "updated", "deleted", "table"]

# The most rows of a failed check that a message shows.
MOST_SHOWN = 10
# The view of the checked rows in queries.
NEW_ROWS = "new_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Base of all checks.

    Attributes:
        name: The name in reports and errors; by default a description.
        table: The table whose rows are checked; by default the target of the job.
        severity: "error" fails the job, and no change becomes visible; "warn" commits, and reports;
            "quarantine", of a check of single rows, lets the job write the rows of its source that
            violate it into its table ``quarantine`` instead.
        shown: The number of failing rows that messages and logs show, at most 10; 0 hides all values.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type["Check"]]] = {}

    name: str | None = None
    table: str | None = None
    severity: Severity | str = "error"
    shown: int = MOST_SHOWN

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is defined twice; the second class has the same kind.
        if "kind" in vars(cls):
            Check._kinds[cls.kind] = cls

    @classmethod
    def kinds(cls) -> list[type["Check"]]:
        """Return all kinds of checks."""
        return [*Check._kinds.values()]

    @property
    def label(self) -> str:
        """The name, or a description."""
        return self.name or f"{self.kind}({self._about()})"

    @property
    def columns_needed(self) -> Sequence[str]:
        """The columns that the table must have."""
        return ()

    @property
    def tables_written(self) -> tuple[str, ...]:
        """The tables that the job must write, as far as the check names them."""
        return () if self.table is None else (self.table,)

    @property
    def reads_table(self) -> bool:
        """Whether it reads rows of the table that the job does not write."""
        return False

    def tables_read(self, target: str, changed_tables: Collection[str]) -> tuple[str, ...]:
        """Return the tables whose rows its result can show, although the job did not bring them.

        Args:
            target: The table of checks without a table.
            changed_tables: The tables, in lower case, with changed rows, which have values from before.
        """
        names = tuple(name.lower() for name in self.tables_written or (target,))
        return tuple(name for name in names if self.reads_table or name in changed_tables)

    def validate(self) -> None:
        """Raise InvalidJob if the check is malformed."""
        if self.name is not None:
            require_text(self.name, "checks: name")
        if self.table is not None:
            require_table(self.table, f"checks: {self.label}.table")
        require_choice(self.severity, get_args(Severity), f"checks: {self.label}.severity")
        if not 0 <= self.shown <= MOST_SHOWN:
            raise InvalidJob(f"checks: {self.label}.shown must be from 0 to {MOST_SHOWN}.")
        self._validate_own(f"checks: {self.label}")

    def _about(self) -> str:
        return ", ".join(self.columns_needed)

    def _validate_own(self, subject: str) -> None:
        """Check the fields of this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount(Check):
    """Number of rows, between two bounds, or beside the mean of earlier versions.

    Attributes:
        of: "written" rows are the inserted and the updated ones; "table" counts all rows of the
            table as they will be after the commit.
        min: The smallest permitted number.
        max: The largest permitted number.
        last: The number of earlier versions of the table by jobs of the same kind whose mean
            ``min_ratio`` and ``max_ratio`` are factors of. Without earlier versions they do not apply.
        min_ratio: The smallest permitted part of that mean.
        max_ratio: The largest permitted multiple of that mean.
    """

    kind: ClassVar[str] = "row_count"

    of: Counted | str = "written"
    min: int | None = None
    max: int | None = None
    last: int | None = None
    min_ratio: float | None = None
    max_ratio: float | None = None

    @property
    def reads_table(self) -> bool:
        """Whether all rows of the table are counted."""
        return self.of == "table"

    def tables_read(self, target: str, changed_tables: Collection[str]) -> tuple[str, ...]:
        """See the base class; the report has the numbers of changed rows anyway."""
        return Check.tables_read(self, target, ())

    def _about(self) -> str:
        return str(self.of)

    def _validate_own(self, subject: str) -> None:
        require_choice(self.of, get_args(Counted), f"{subject}.of")
        ratios = (self.min_ratio, self.max_ratio)
        if (self.min, self.max, *ratios) == (None, None, None, None):
            raise InvalidJob(f"{subject} has no bound.", remedy="Give min or max.")
        if (self.last is None) != (ratios == (None, None)):
            raise InvalidJob(f"{subject}: last, and min_ratio or max_ratio, belong together.")
        if self.last is not None and (self.last < 1 or self.of == "table"):
            raise InvalidJob(f"{subject}: last must be at least 1, and is not for of='table'.")
        for low, high in ((self.min, self.max), ratios):
            if (low or 0) < 0 or (low is not None and high is not None and low > high):
                raise InvalidJob(f"{subject} has a negative bound, or one above the other.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck(Check):
    """Base of the checks that each row satisfies or violates by itself.

    Attributes:
        whole_table: Check all rows of the table, and not only the written ones.
    """

    whole_table: bool = False

    @property
    def reads_table(self) -> bool:
        """Whether all rows of the table are checked."""
        return self.whole_table

    @property
    def condition(self) -> str:
        """The condition in SQL, which is false for the rows that violate the check."""
        raise NotImplementedError

    @property
    def values(self) -> Parameters:
        """The values of the parameters of the condition."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull(RowCheck):
    """Columns without nulls.

    Attributes:
        columns: The columns.
    """

    kind: ClassVar[str] = "not_null"

    columns: Sequence[str]

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def columns_needed(self) -> Sequence[str]:
        """The columns."""
        return self.columns

    @property
    def condition(self) -> str:
        """No column is null."""
        return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.columns)

    def _validate_own(self, subject: str) -> None:
        _require_columns(self.columns, subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues(RowCheck):
    """Column with one of some values.

    Attributes:
        column: The column.
        accepted: The values.
    """

    kind: ClassVar[str] = "accepted_values"

    column: str
    accepted: Sequence[ParameterValue]

    def __post_init__(self) -> None:
        freeze(self, "accepted")

    @property
    def columns_needed(self) -> Sequence[str]:
        """The column."""
        return (self.column,)

    @property
    def condition(self) -> str:
        """The column has one of the values."""
        return f"{quoted(self.column)} IN ({', '.join(f':{name}' for name in self.values)})"

    @property
    def values(self) -> Parameters:
        """The values."""
        return {f"value_{number}": value for number, value in enumerate(self.accepted)}

    def _validate_own(self, subject: str) -> None:
        require_text(self.column, f"{subject}.column")
        require_list(self.accepted, f"{subject}.accepted", 'accepted=["new", "paid"]')
        if not self.accepted or None in self.accepted:
            raise InvalidJob(
                f"{subject}.accepted is empty, or has None; nulls are always accepted."
            )
        require_parameters(self.values, [self.condition], f"{subject}.accepted")


@dataclass(frozen=True, slots=True, kw_only=True)
class InRange(RowCheck):
    """Column between two values, which are permitted themselves.

    Attributes:
        column: The column.
        min: The smallest permitted value.
        max: The largest permitted value.
    """

    kind: ClassVar[str] = "in_range"

    column: str
    min: ParameterValue = None
    max: ParameterValue = None

    @property
    def columns_needed(self) -> Sequence[str]:
        """The column."""
        return (self.column,)

    @property
    def condition(self) -> str:
        """The column is in the range."""
        name = quoted(self.column)
        signs = {"low": ">=", "high": "<="}
        return " AND ".join(f"{name} {signs[bound]} :{bound}" for bound in self.values)

    @property
    def values(self) -> Parameters:
        """The bounds."""
        bounds = {"low": self.min, "high": self.max}
        return {name: value for name, value in bounds.items() if value is not None}

    def _validate_own(self, subject: str) -> None:
        require_text(self.column, f"{subject}.column")
        if not self.values:
            raise InvalidJob(f"{subject} has no bound.", remedy="Give min or max.")
        require_parameters(self.values, [self.condition], subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches(RowCheck):
    """Text with a part that matches a regular expression of Java; it needs Spark.

    Attributes:
        column: The column.
        pattern: The expression, "^[A-Z]{2}[0-9]+$".
    """

    kind: ClassVar[str] = "matches"

    column: str
    pattern: str

    @property
    def columns_needed(self) -> Sequence[str]:
        """The column."""
        return (self.column,)

    @property
    def condition(self) -> str:
        """The column matches."""
        return f"{quoted(self.column)} RLIKE :pattern"

    @property
    def values(self) -> Parameters:
        """The expression."""
        return {"pattern": self.pattern}

    def _validate_own(self, subject: str) -> None:
        require_text(self.column, f"{subject}.column")
        require_text(self.pattern, f"{subject}.pattern")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds(RowCheck):
    """Condition in SQL that is not false for any row.

    Attributes:
        sql: The condition, on the columns of the table.
        params: The values of its parameters: ``{"limit": 7}`` for ``:limit``.
        trusted: Whether it may run scripts (TRANSFORM), call Java and read files by their paths.
    """

    kind: ClassVar[str] = "holds"

    sql: str
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False

    @property
    def condition(self) -> str:
        """The condition."""
        return self.sql

    @property
    def values(self) -> Parameters:
        """The values of its parameters."""
        return self.params

    def _about(self) -> str:
        return self.sql

    def _validate_own(self, subject: str) -> None:
        require_sql(self.sql, f"{subject}.sql")
        require_parameters(self.params, [self.sql], f"{subject}.params")


# The meanings of checks of several rows: an engine reads the rows, evaluates, and matches the keys


@dataclass(frozen=True, slots=True)
class Keys:
    """The values of some columns of each row, but of no row with a null in one of them.

    Two keys are equal if SQL says so of their values, which Spark converts to one type: 0.0 equals
    -0.0, and NaN equals itself.

    Attributes:
        rows: The rows.
        columns: The columns.
    """

    rows: Input
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Repeated:
    """Each different key of several rows violates the check."""

    keys: Keys


@dataclass(frozen=True, slots=True)
class Absent:
    """Each row whose key is not among the known ones violates the check."""

    keys: Keys
    known: Keys


@dataclass(frozen=True, slots=True)
class TooOld:
    """The newest value violates the check if it is too old.

    Attributes:
        rows: The rows.
        column: The column of dates, which are their midnights, or of times in UTC.
        within_hours: The largest permitted age.
    """

    rows: Input
    column: str
    within_hours: float

    def is_violated(self, newest: datetime | None) -> bool:
        """Whether the newest value is too old; a column without values is not."""
        oldest = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=self.within_hours)
        return newest is not None and newest < oldest


@dataclass(frozen=True, slots=True)
class Apart:
    """Sums violate the check if one of them is too far from the first one.

    A sum is exact, whatever the order and the number of its values, and rounded once if these are
    floats. Nulls are left out, so that a sum of nothing is 0.

    Attributes:
        totals: The rows and the expression of each sum, by names to show.
        tolerance: The largest permitted distance.
    """

    totals: Mapping[str, tuple[Input, str]]
    tolerance: float

    def is_violated(self, sums: Sequence[int | Decimal | float]) -> bool:
        """Whether the sums are too far apart; NaN and infinity are so of every number."""
        if any(isinstance(sum, float) for sum in sums):
            first, *other_sums = map(float, sums)
            return not all(abs(first - other_sum) <= self.tolerance for other_sum in other_sums)
        exact, *exact_sums = map(Fraction, sums)
        limit = Fraction(str(self.tolerance)) if math.isfinite(self.tolerance) else None
        return limit is not None and any(abs(exact - exact_sum) > limit for exact_sum in exact_sums)


@dataclass(frozen=True, slots=True)
class Returned:
    """Each row that a query returns violates the check."""

    query: QuerySource


Meaning = Repeated | Absent | TooOld | Apart | Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck(Check):
    """Base of the checks that rows violate together.

    Attributes:
        whole_table: Check all rows of the table, and not only the written ones.
    """

    whole_table: bool = False

    @property
    def reads_table(self) -> bool:
        """Whether all rows of the table are checked."""
        return self.whole_table

    def meaning(self, table: str) -> Meaning:
        """Return the meaning, which both engines evaluate.

        Args:
            table: The full name of the table whose rows are checked.
        """
        raise NotImplementedError

    def _rows(self, table: str) -> Input:
        return TableSource(table) if self.whole_table else BatchSource(table.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique(QueryCheck):
    """Columns whose values identify a row; rows with a null in them are not compared.

    Attributes:
        columns: The columns.
    """

    kind: ClassVar[str] = "unique"

    columns: Sequence[str]

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def columns_needed(self) -> Sequence[str]:
        """The columns."""
        return self.columns

    def meaning(self, table: str) -> Repeated:
        """No key is repeated."""
        return Repeated(Keys(self._rows(table), self.columns))

    def _validate_own(self, subject: str) -> None:
        _require_columns(self.columns, subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class References(QueryCheck):
    """Columns whose values are in another table, as it will be after the commit.

    Rows with a null in the columns are not compared.

    Attributes:
        columns: The columns.
        to: The other table.
        to_columns: Its columns; by default those with the same names.
    """

    kind: ClassVar[str] = "references"

    columns: Sequence[str]
    to: str
    to_columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        freeze(self, "columns")
        freeze(self, "to_columns")

    @property
    def columns_needed(self) -> Sequence[str]:
        """The columns."""
        return self.columns

    @property
    def columns_read(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the other table, by its name."""
        return {self.to: tuple(self.to_columns or self.columns)}

    def meaning(self, table: str) -> Absent:
        """No key is absent from the other table."""
        known_keys = Keys(TableSource(self.to), self.to_columns or self.columns)
        return Absent(Keys(self._rows(table), self.columns), known_keys)

    def _about(self) -> str:
        return f"{', '.join(self.columns)} in {self.to}"

    def _validate_own(self, subject: str) -> None:
        _require_columns(self.columns, subject)
        require_table(self.to, f"{subject}.to")
        if self.to_columns is not None:
            _require_columns(self.to_columns, subject, "to_columns")
            if len(self.to_columns) != len(self.columns):
                raise InvalidJob(f"{subject}: columns and to_columns differ in number.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh(QueryCheck):
    """Column of dates or times whose largest value is not too old; without values it passes.

    Attributes:
        column: The column; times without a zone are in UTC.
        within_hours: The largest permitted age.
    """

    kind: ClassVar[str] = "fresh"

    column: str
    within_hours: float

    @property
    def columns_needed(self) -> Sequence[str]:
        """The column."""
        return (self.column,)

    def meaning(self, table: str) -> TooOld:
        """The newest value is not too old."""
        return TooOld(self._rows(table), self.column, self.within_hours)

    def _validate_own(self, subject: str) -> None:
        require_text(self.column, f"{subject}.column")
        if self.within_hours <= 0:
            raise InvalidJob(f"{subject}.within_hours must be above 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Balanced(QueryCheck):
    """Sums that are equal in several tables of a transaction.

    Example::

        Balanced(totals={"bank.debits": "amount", "bank.credits": "amount"})

    Attributes:
        totals: Each table with the expression whose sum is compared.
        tolerance: The largest permitted difference between two sums.
    """

    kind: ClassVar[str] = "balanced"

    totals: Mapping[str, str]
    tolerance: float = 0

    @property
    def tables_written(self) -> tuple[str, ...]:
        """All tables."""
        return tuple(self.totals)

    def meaning(self, table: str) -> Apart:
        """No sum is too far from the first one."""
        totals = {name: (self._rows(name), text) for name, text in self.totals.items()}
        return Apart(totals, self.tolerance)

    def _about(self) -> str:
        return ", ".join(f"{name}: {text}" for name, text in self.totals.items())

    def _validate_own(self, subject: str) -> None:
        require_mapping(self.totals, f"{subject}.totals", '{"bank.debits": "amount"}')
        if len(self.totals) < 2:
            raise InvalidJob(f"{subject}.totals has fewer than two tables.")
        for name, text in self.totals.items():
            require_table(name, f"{subject}.totals")
            require_sql(text, f"{subject}.totals")
        if self.tolerance < 0:
            raise InvalidJob(f"{subject}.tolerance must not be negative.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRows(QueryCheck):
    """Query that returns no row.

    Example::

        NoRows(
            sql="SELECT n.id FROM new_rows n JOIN closed c ON n.day = c.day",
            inputs={"closed": TableSource("finance.closed_days")},
        )

    Attributes:
        sql: The query. ``new_rows`` are the checked rows.
        inputs: View name to table or files. A ``TableSource`` is the table as it will be after the
            commit, ``BatchSource("database.table")`` the rows that the transaction writes into it.
        params: The values of parameters: ``{"limit": 7}`` for ``:limit``.
        trusted: Whether it may run scripts (TRANSFORM), call Java and read files by their paths.
    """

    kind: ClassVar[str] = "no_rows"

    sql: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False

    def meaning(self, table: str) -> Returned:
        """The query returns no row."""
        inputs = {
            view: BatchSource(source.name.lower()) if isinstance(source, BatchSource) else source
            for view, source in self.inputs.items()
        }
        inputs = {NEW_ROWS: self._rows(table), **inputs}
        return Returned(QuerySource(self.sql, inputs, params=self.params, trusted=self.trusted))

    def _about(self) -> str:
        return self.sql

    def _validate_own(self, subject: str) -> None:
        require_sql(self.sql, f"{subject}.sql", query=True)
        require_inputs(self.inputs, f"{subject}.inputs")
        if NEW_ROWS in self.inputs:
            raise InvalidJob(
                f"{subject}.inputs has the name {NEW_ROWS!r}, that of the checked rows."
            )
        require_parameters(self.params, [self.sql], f"{subject}.params")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes(Check):
    """Function of Python that accepts the written rows.

    It receives a ``WrittenRows`` (``hiveacid.writes.checks``), whose rows are read only on demand,
    and returns None or True if they pass. A text that it returns, or an AssertionError, is the reason
    why they do not.

    Attributes:
        function: The function, "package.module:name", which the driver can import.
    """

    kind: ClassVar[str] = "passes"

    function: str

    def _about(self) -> str:
        return self.function

    def _validate_own(self, subject: str) -> None:
        require_text(self.function, f"{subject}.function")
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.function):
            raise InvalidJob(f'{subject}.function is not of the form "package.module:name".')


def require_checks(checks: object, tables: Sequence[str], *, divides: bool = True) -> None:
    """Raise InvalidJob unless all values are valid checks with different names.

    Args:
        checks: The checks of a job.
        tables: The tables that the job writes.
        divides: Whether the job can write some rows of its source into a quarantine.
    """
    require_list(checks, "checks", 'checks=[NotNull(columns=["id"])]')
    assert isinstance(checks, Sequence)
    written_names = {name.lower() for name in tables}
    is_known = not any(map(awaits_rendering, tables))
    labels = []
    for check in checks:
        if not isinstance(check, Check):
            raise InvalidJob(
                f"checks: {check!r} is no check.",
                remedy=f"Use one of {', '.join(kind.__name__ for kind in Check.kinds())}.",
            )
        check.validate()
        rows = isinstance(check, RowCheck) and not check.whole_table
        if check.severity == QUARANTINE and not (divides and rows):
            raise InvalidJob(
                f"checks: {check.label} has the severity {QUARANTINE!r}, which is for checks of single"
                " rows of an insert or a merge.",
                remedy='Use "error" or "warn".',
            )
        for name in check.tables_written:
            if is_known and not awaits_rendering(name) and name.lower() not in written_names:
                raise InvalidJob(f"checks: {check.label}: the job does not write {name}.")
        labels.append((check.label, check.table))
    if len(set(labels)) < len(labels):
        raise InvalidJob(
            "checks has two checks with one name.", remedy="Give them different names."
        )


def checks_of(data: object) -> tuple[Check, ...]:
    """Return checks that are given as plain values, as in JSON or YAML, or as objects.

    Example::

        checks_of([{"kind": "not_null", "columns": ["id"]}])

    Args:
        data: A list; each plain value has the kind of the check, and the fields of its class.

    Raises:
        InvalidJob: A value has another form.
    """
    require_list(data, "checks", 'checks=[NotNull(columns=["id"])]')
    assert isinstance(data, Sequence)
    return tuple(
        decode(Check, entry, f"checks[{number}]") if isinstance(entry, Mapping) else entry
        for number, entry in enumerate(data)
    )


def _require_columns(columns: Sequence[str], subject: str, name: str = "columns") -> None:
    require_list(columns, f"{subject}.{name}", f'{name}=["id"]')
    for column in columns:
        require_text(column, f"{subject}.{name}")
    if not columns or len({column.lower() for column in columns}) < len(columns):
        raise InvalidJob(f"{subject}.{name} is empty, or has a column twice.")
