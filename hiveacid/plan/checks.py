"""The meaning of checks of several rows: sets of keys, sums, and the newest value.

An engine reads the rows, evaluates the expressions, and matches the keys. The rules are here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from hiveacid.jobs.checks import (
    NEW_ROWS,
    Balanced,
    Fresh,
    NoRows,
    QueryCheck,
    References,
    Unique,
)
from hiveacid.jobs.sources import BatchSource, Input, QuerySource, TableSource


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Repeated:
    """Each different key of several rows violates the check."""

    keys: Keys


@dataclass(frozen=True)
class Absent:
    """Each row whose key is not among the known ones violates the check."""

    keys: Keys
    known: Keys


@dataclass(frozen=True)
class TooOld:
    """The newest value violates the check if it is too old.

    Attributes:
        rows: The rows.
        column: The column of dates, which are their midnights, or of times in UTC.
        check: The largest permitted age.
    """

    rows: Input
    column: str
    check: Fresh

    def is_violated(self, newest: datetime | None) -> bool:
        """Whether the newest value is too old; a column without values is not."""
        return newest is not None and newest < self.check.oldest


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Returned:
    """Each row that a query returns violates the check."""

    query: QuerySource


Meaning = Repeated | Absent | TooOld | Apart | Returned


def meaning_of(check: QueryCheck, table: str) -> Meaning:
    """Return the meaning of a check.

    Args:
        check: The check.
        table: The full name of the table whose rows are checked.
    """

    def rows(name: str) -> Input:
        return TableSource(name) if check.whole_table else BatchSource(name.lower())

    match check:
        case Unique():
            return Repeated(Keys(rows(table), check.columns))
        case References():
            referenced_keys = Keys(TableSource(check.to), check.to_columns or check.columns)
            return Absent(Keys(rows(table), check.columns), referenced_keys)
        case Fresh():
            return TooOld(rows(table), check.column, check)
        case Balanced():
            totals = {name: (rows(name), text) for name, text in check.totals.items()}
            return Apart(totals, check.tolerance)
        case NoRows():
            inputs = {
                view: BatchSource(source.name.lower())
                if isinstance(source, BatchSource)
                else source
                for view, source in check.inputs.items()
            }
            all_inputs = {NEW_ROWS: rows(table), **inputs}
            return Returned(
                QuerySource(check.sql, all_inputs, params=check.params, trusted=check.trusted)
            )
    raise TypeError(f"{type(check).__name__} has no meaning.")
