"""The builder of a merge, with the clauses that Delta's users know."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from airflow_hiveacid.acid.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    validate_clauses,
)
from airflow_hiveacid.engine.statements.merge import MergeStatement

R = TypeVar("R")


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """Collects clauses; nothing happens before ``execute``.

    Of each kind of clause the first one whose condition is true wins. Conditions and expressions
    are SQL over the aliases of target and source, ``t`` and ``s`` unless the merge said otherwise.
    """

    run: Callable[[MergeStatement], R]
    statement: MergeStatement

    @property
    def clauses(self) -> Sequence[Clause]:
        """What was collected so far."""
        return self.statement.clauses

    def when_matched_update(self, set: Mapping[str, str], condition: str | None = None) -> Self:
        """Update the target row of a pair: column to expression."""
        return self._with(MatchedUpdate(set, condition))

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update every column of the target row from the source's column of the same name."""
        return self._with(MatchedUpdate(None, condition))

    def when_matched_delete(self, condition: str | None = None) -> Self:
        """Delete the target row of a pair."""
        return self._with(MatchedDelete(condition))

    def when_not_matched_insert(
        self, values: Mapping[str, str], condition: str | None = None
    ) -> Self:
        """Insert a source row without a partner: column to expression, null for the others."""
        return self._with(NotMatchedInsert(values, condition))

    def when_not_matched_insert_all(self, condition: str | None = None) -> Self:
        """Insert a source row without a partner, every column by its name."""
        return self._with(NotMatchedInsert(None, condition))

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, str],
        condition: str | None = None,
    ) -> Self:
        """Update a target row without a partner; expressions can name the target only."""
        return self._with(NotMatchedBySourceUpdate(set, condition))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Self:
        """Delete a target row without a partner."""
        return self._with(NotMatchedBySourceDelete(condition))

    def execute(self) -> R:
        """Run the merge: at once, or with the other changes of its transaction."""
        validate_clauses(self.clauses)
        return self.run(self.statement)

    def _with(self, clause: Clause) -> Self:
        clauses = (*self.clauses, clause)
        return replace(self, statement=replace(self.statement, clauses=clauses))
