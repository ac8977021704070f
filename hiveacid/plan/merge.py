"""A merge for one table and the columns of one source: the actions of its clauses."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names
from hiveacid.plan.columns import columns_of_row, require_full_row
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.values import assigned, completed, of_source
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)


@dataclass(frozen=True, slots=True)
class MergeText:
    """The texts of a merge, as its engine evaluates them; the fields are those of ``MergeJob``."""

    on: str
    when: Sequence[Clause]
    source_alias: str = "s"
    target_alias: str = "t"
    exclude: Sequence[str] = ()
    merge_schema: bool = False

    @classmethod
    def of(cls, job: MergeJob) -> Self:
        """Return the texts of a job."""
        return cls(**{field.name: getattr(job, field.name) for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class RowAction:
    """Action of a clause on the rows that it takes.

    Attributes:
        what: The clause, at the beginning of messages.
        condition: The condition on rows that no earlier clause takes; None means all of them.
        values: The expression of each column that is written: of all columns for a new row, of the
            changed ones for an update. None deletes the row.
    """

    what: str
    condition: str | None
    values: Mapping[str, str] | None


@dataclass(frozen=True)
class MergeChange:
    """The clauses of a merge with the expression of each column.

    Of the clauses of each kind, the first one whose condition is true applies to a row.

    Attributes:
        table: The target.
        on: The condition on pairs of rows.
        target_alias: The name of the target in expressions.
        source_alias: The name of the source in expressions.
        source: The columns of the source; None if they are not known.
        matched: Actions on pairs of a row of the target and one of the source.
        not_matched: Actions on rows of the source without a row of the target.
        not_matched_by_source: Actions on rows of the target without a row of the source.
    """

    table: HiveTable
    on: str
    target_alias: str
    source_alias: str
    source: Sequence[str] | None
    matched: Sequence[RowAction]
    not_matched: Sequence[RowAction]
    not_matched_by_source: Sequence[RowAction]

    @classmethod
    def of(
        cls,
        merge: MergeText | MergeJob,
        table: HiveTable,
        source: Sequence[str] | None,
        rules: WriteRules | None = None,
    ) -> Self:
        """Resolve the names of a merge.

        Args:
            merge: The merge, with valid clauses.
            table: The target.
            source: The columns of the source; None if they are not known.
            rules: The constraints of the table; without them, default values are null.

        Raises:
            UnknownColumn: A clause names a column that the table lacks, or takes all columns from a
                source that lacks one, or an excluded column does not exist.
        """
        if source is not None:
            columns_of_row(source, merge.exclude, "The merge")

        def actions(*kinds: type[Clause]) -> list[RowAction]:
            return [
                _action(clause, merge, table, source, rules)
                for clause in merge.when
                if isinstance(clause, kinds)
            ]

        return cls(
            table,
            merge.on,
            merge.target_alias,
            merge.source_alias,
            source,
            actions(MatchedUpdate, MatchedDelete),
            actions(NotMatchedInsert),
            actions(NotMatchedBySourceUpdate, NotMatchedBySourceDelete),
        )

    @cached_property
    def scope(self) -> ChangeScope:
        """The columns that ON and the clauses can name."""
        return ChangeScope(self.table, self.target_alias, self.source_alias, self.source)

    @property
    def deletes_all_matched(self) -> bool:
        """Whether each row with a match is deleted, however many rows of the source match it.

        Otherwise a row that more than one pair acts on is refused.
        """
        return [(action.condition, action.values) for action in self.matched] == [(None, None)]

    @property
    def writes_rows(self) -> bool:
        """Whether the merge can write rows."""
        every = (*self.matched, *self.not_matched, *self.not_matched_by_source)
        return any(action.values is not None for action in every)

    @property
    def updating(self) -> list[int]:
        """The numbers of the updates, where the clauses by source follow those of pairs."""
        changes = (*self.matched, *self.not_matched_by_source)
        return [number for number, change in enumerate(changes) if change.values is not None]

    @property
    def kept_columns(self) -> set[str]:
        """The columns, in lower case, that an update does not change."""
        names = {name.lower() for name in column_names(self.table)}
        kept_names: set[str] = set()
        for action in (*self.matched, *self.not_matched_by_source):
            if action.values is not None:
                kept_names |= names - {name.lower() for name in action.values}
        return kept_names


def _action(
    clause: Clause,
    merge: MergeText | MergeJob,
    table: HiveTable,
    source: Sequence[str] | None,
    rules: WriteRules | None,
) -> RowAction:
    if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
        return RowAction("A delete clause of the merge", clause.condition, None)
    inserts = isinstance(clause, NotMatchedInsert)
    subject = f"An {'insert' if inserts else 'update'} clause of the merge"
    expressions = clause.values if isinstance(clause, NotMatchedInsert) else clause.set
    if isinstance(clause, NotMatchedInsert) and clause.row is not None:
        require_full_row(table, clause.row)
        expressions = dict(zip(column_names(table), clause.row, strict=True))
    if expressions is None:
        # An update keeps the columns that the source lacks; a new row gets their default values.
        keys_only = merge.merge_schema
        values = of_source(table, source, merge.source_alias, merge.exclude, keys_only=keys_only)
    else:
        values = assigned(table, expressions, rules, subject)
    return RowAction(
        subject, clause.condition, completed(table, values, rules) if inserts else values
    )
