"""Clauses of a merge, their rules, and their possible effects.

A merge may have any number of clauses of each kind; for each row the first matching clause applies.
Conditions and expressions are SQL text over the aliases of target and source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import CheckFailed, InvalidJob
from hiveacid.rules.sql_names import unquoted


@dataclass(frozen=True, slots=True)
class MatchedUpdate:
    """Change the target row of a matching pair.

    Attributes:
        set: Target column to expression, or DEFAULT; None takes every column from the source by name.
        condition: The condition on pairs; None means all pairs.
    """

    kind: ClassVar[str] = "matched_update"

    set: Mapping[str, str] | None = None
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class MatchedDelete:
    """Delete the target row of a matching pair."""

    kind: ClassVar[str] = "matched_delete"

    condition: str | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedInsert:
    """Insert a source row that matches no target row.

    Attributes:
        values: Target column to expression, or DEFAULT; other columns get their default value, or
            null. None takes every column from the source by name.
        condition: The condition on source rows; None means all rows.
        row: Instead of values: an expression for every column of the target, in their order, with
            the partition keys last.
    """

    kind: ClassVar[str] = "not_matched_insert"

    values: Mapping[str, str] | None = None
    condition: str | None = None
    row: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceUpdate:
    """Change a target row that no source row matches; expressions see the target only."""

    kind: ClassVar[str] = "not_matched_by_source_update"

    set: Mapping[str, str]
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceDelete:
    """Delete a target row that no source row matches."""

    kind: ClassVar[str] = "not_matched_by_source_delete"

    condition: str | None = None


Matched = MatchedUpdate | MatchedDelete
NotMatchedBySource = NotMatchedBySourceUpdate | NotMatchedBySourceDelete
Clause = Matched | NotMatchedInsert | NotMatchedBySource


def columns_taken(clauses: Sequence[Clause]) -> set[str] | None:
    """Return the target's columns in clauses, in lower case; None if a clause uses all columns."""
    column_names: set[str] = set()
    for clause in clauses:
        if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
            continue
        assignments = assignments_of(clause)
        if assignments is None and not (
            isinstance(clause, NotMatchedInsert) and clause.row is not None
        ):
            return None
        column_names |= {unquoted(name).lower() for name in assignments or ()}
    return column_names


def adds_rows(clauses: Sequence[Clause]) -> bool:
    """Return whether a clause writes rows, which must satisfy the constraints of the target."""
    return not all(
        isinstance(clause, MatchedDelete | NotMatchedBySourceDelete) for clause in clauses
    )


def depends_on_new_rows(clauses: Sequence[Clause]) -> bool:
    """Whether more rows in the target matter: to inserts, or as rows without a source."""
    return any(isinstance(clause, NotMatchedInsert | NotMatchedBySource) for clause in clauses)


def validate_clauses(when: Sequence[Clause]) -> None:
    """Check clauses without access to their tables.

    Raises:
        InvalidJob: Clauses are missing, or one is empty, repeats a column or can never be reached.
    """
    if isinstance(when, Clause):
        raise InvalidJob(
            f"when is a single {type(when).__name__}; it must be a list of clauses.",
            remedy=f"Write when=[{type(when).__name__}(...)].",
        )
    if isinstance(when, str | Mapping) or not isinstance(when, Sequence):
        raise InvalidJob(
            f"when must be a list of clauses, not {when!r}.",
            remedy="Write when=[MatchedUpdate(), NotMatchedInsert()], for example.",
        )
    if not when:
        raise InvalidJob("A merge needs at least one clause.")
    unconditional: dict[object, int] = {}
    for index, clause in enumerate(when):
        where = f"when[{index}] ({type(clause).__name__})"
        kind = _kind(clause, where)
        if kind in unconditional:
            raise InvalidJob(
                f"{where} can never be reached: when[{unconditional[kind]}] takes every row.",
                remedy="Put the clause without a condition last of its kind.",
            )
        if clause.condition is None:
            unconditional[kind] = index
        elif not isinstance(clause.condition, str):
            raise InvalidJob(f"{where}: the condition must be a text, not {clause.condition!r}.")
        elif not clause.condition.strip():
            raise InvalidJob(f"{where}: the condition is empty.")
        if (assignments := assignments_of(clause)) is not None:
            validate_assignments(assignments, where)
        if isinstance(clause, NotMatchedInsert) and clause.row is not None:
            if clause.values is not None:
                raise InvalidJob(f"{where} has both values and a row.")
            if isinstance(clause.row, str):
                raise InvalidJob(f"{where}: the row must be a list of expressions, not a text.")
            if not clause.row or not all(value.strip() for value in clause.row):
                raise InvalidJob(f"{where}: the row has no expression, or an empty one.")


def validate_assignments(assignments: Mapping[str, str], where: str) -> None:
    """Check a mapping of target columns to expressions.

    Raises:
        InvalidJob: It is empty, names a column twice, or has an empty name or expression.
    """
    if not isinstance(assignments, Mapping):
        raise InvalidJob(
            f"{where} must be a dict of columns and expressions, not {assignments!r}.",
            remedy="""Write {"status": "'closed'", "total": "s.total"}, for example.""",
        )
    if not assignments:
        raise InvalidJob(f"{where} names no column.")
    names: set[str] = set()
    for column, expression in assignments.items():
        if not column.strip():
            raise InvalidJob(f"{where} has a column without a name.")
        if column.lower() in names:
            raise InvalidJob(f"{where} names the column {column!r} twice.")
        if not isinstance(expression, str):
            raise InvalidJob(
                f"{where}: the expression of the column {column!r} is {expression!r}.",
                remedy=f"Write a text of SQL, like {str(expression)!r}.",
            )
        if not expression.strip():
            raise InvalidJob(f"{where}: the expression of the column {column!r} is empty.")
        names.add(column.lower())


def _kind(clause: Clause, where: str) -> object:
    for kind in (Matched, NotMatchedInsert, NotMatchedBySource):
        if isinstance(clause, kind):
            return kind
    raise InvalidJob(f"{where} is not a clause of a merge.")


# The rows that an error of a merge shows.
SHOWN_DUPLICATES = 5


def duplicates(
    table: str, keys: Sequence[tuple[Mapping[str, object], int]], *, has_more: bool
) -> CheckFailed:
    """Describe a merge in which several source rows match one target row.

    Args:
        table: The target.
        keys: Some of these rows, by the columns that the merge compares, with their number of
            matching source rows.
        has_more: Whether the merge has other such rows.
    """
    keys_in_words = "; ".join(
        ", ".join(f"{name}={_shown(value)}" for name, value in key.items())
        + f" ({count} source rows)"
        for key, count in keys
    )
    return CheckFailed(
        f"Several source rows match one row of {table}: {keys_in_words}{' and more' if has_more else ''}.",
        remedy="Make the source unique on the columns of the merge condition.",
    )


def _shown(value: object) -> str:
    """Write a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex()}'"
    return str(value)


def expressions_of(clause: Clause, where: str) -> Iterator[tuple[str, str]]:
    """Yield every condition and expression of a clause, with its description.

    Args:
        clause: A valid clause.
        where: The name of the clause.
    """
    if clause.condition is not None:
        yield f"{where}: the condition", clause.condition
    for column, expression in (assignments_of(clause) or {}).items():
        yield f"{where}: the expression of {column}", expression
    if isinstance(clause, NotMatchedInsert):
        for number, expression in enumerate(clause.row or (), start=1):
            yield f"{where}: expression {number} of the row", expression


def with_expressions(clause: Clause, change: Callable[[str], str]) -> Clause:
    """Return the clause with every condition and expression changed."""
    changed_fields: dict[str, object] = {}
    if clause.condition is not None:
        changed_fields["condition"] = change(clause.condition)
    if (assignments := assignments_of(clause)) is not None:
        name = "values" if isinstance(clause, NotMatchedInsert) else "set"
        changed_fields[name] = {column: change(value) for column, value in assignments.items()}
    if isinstance(clause, NotMatchedInsert) and clause.row is not None:
        changed_fields["row"] = tuple(map(change, clause.row))
    return replace(clause, **changed_fields)  # type: ignore[arg-type]


def assignments_of(clause: Clause) -> Mapping[str, str] | None:
    """Return the expressions of the columns that a clause names; None if it names none."""
    if isinstance(clause, NotMatchedInsert):
        return clause.values
    if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
        return clause.set
    return None
