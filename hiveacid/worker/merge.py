"""MERGE whose rows Arrow evaluates in this process: pairs are found by equal columns of both sides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded
from hiveacid.jobs.fields import Parameters
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.plan.merge import MergeChange, MergeText, RowAction
from hiveacid.plan.ties import compared_columns, equals_one_partition, ties_of
from hiveacid.progress import Phase
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.merge import (
    SHOWN_DUPLICATES,
    adds_rows,
    depends_on_new_rows,
    duplicates,
)
from hiveacid.rules.partitions import (
    equal_partitions,
    have_one_text,
    values_by_name,
)
from hiveacid.rules.schema import HiveType, Primitive, Varchar, parse_type
from hiveacid.tables.scan.row_filter import RowFilter
from hiveacid.tables.visible_files import FilesReader
from hiveacid.worker.constraints import require_compiled
from hiveacid.worker.engine import (
    FoundRows,
    TableRows,
    partition_names_of,
    require_few,
)
from hiveacid.worker.expressions import (
    INTEGERS,
    Expression,
    Scope,
    cast,
    compiled,
    condition,
    with_alias,
)
from hiveacid.worker.needed_stripes import among, row_filter
from hiveacid.worker.pairs import Partners, equal_sides, row_sizes
from hiveacid.worker.sources import types_of
from hiveacid.worker.statements import (
    DeleteKeys,
    Mask,
    NewRows,
    SourceStatement,
    compiled_row,
    matching,
)
from hiveacid.writes.statement import Counts, Preparation, WriteContext


@dataclass(frozen=True)
class _Clause:
    """A compiled clause: its condition, and the values of the columns of a new row."""

    condition: Expression | None
    values: Mapping[str, Expression] | None


@dataclass(eq=False)
class MergeRows(SourceStatement):
    """Merge rows of Arrow: pairs are found by equal columns of both sides."""

    merge: MergeText
    params: Parameters = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """MERGE."""
        return Operation.MERGE

    @property
    def changes_single_rows(self) -> bool:
        """A merge changes single rows."""
        return True

    @property
    def adds_rows(self) -> bool:
        """See ``hiveacid.rules.merge``."""
        return adds_rows(self.merge.when)

    @property
    def depends_on_new_rows(self) -> bool:
        """See ``hiveacid.rules.merge``."""
        return depends_on_new_rows(self.merge.when)

    def prepare(self, preparation: Preparation) -> None:
        """Look up the source, compile the condition and the clauses, and determine the partitions."""
        self.look_up(preparation)
        target = types_of(self.table)
        if "" in self._source.names or len({*self._source.names}) < len(self._source.names):
            raise SparkNeeded("a column of the source without a name")
        source = dict(zip(self._source.names, self._source.types, strict=True))
        t, s = self.merge.target_alias.lower(), self.merge.source_alias.lower()
        scope_of_both = Scope({t: target, s: source}, self.params)
        self._keys, self._rest = equal_sides(self.merge.on, scope_of_both, t, s)
        require_compiled(self.rules)
        self._change = MergeChange.of(self.merge, self.table, self._source.names, self.rules)
        of_source, of_target = Scope({s: source}, self.params), Scope({t: target}, self.params)
        self._matched = self._compiled(self._change.matched, scope_of_both)
        self._inserts = self._compiled(self._change.not_matched, of_source)
        self._others = self._compiled(self._change.not_matched_by_source, of_target)
        self._ties = self._compiled_ties(of_source)
        if self._ties is not None:
            self.partitions = self._estimated(preparation)

    def _compiled(self, actions: Sequence[RowAction], scope: Scope) -> list[_Clause]:
        alias = self.merge.target_alias.lower()
        clauses = []
        for action in actions:
            test = None if action.condition is None else condition(action.condition, scope)
            values = None
            if action.values is not None:
                values = compiled_row(self.table, action.values, scope, action.what, alias)
            clauses.append(_Clause(test, values))
        return clauses

    def _compiled_ties(self, scope: Scope) -> dict[str, Expression] | None:
        """Compile the value of the source for each partition key; None if the table is locked.

        Raises:
            SparkNeeded: A value is not evaluated here.
        """
        ties: dict[str, Expression] = {}
        for key, text in (ties_of(self._change) or {}).items():
            value, key_type = compiled(text, scope), parse_type(self.table.key_types[key])
            if not equals_one_partition(str(value.type), str(key_type)):
                return None
            ties[key] = value if _has_text_of(value.type, key_type) else cast(value, key_type)
        return ties or None

    def _estimated(self, preparation: Preparation) -> list[str]:
        """Return the partitions of the source before the locks.

        The final rows of a table are those of the write's own snapshot: if they are in other
        partitions, the write restarts with a lock on the whole table.
        """
        client, source = preparation.client, self._source
        if not source.is_table:
            return self._partitions(source.evaluate(), client)
        token = preparation.options.source_token
        with Transaction(client, reads=source.reads, run_token=token) as estimate:
            return self._partitions(source.evaluate(FilesReader(client, estimate)), client)

    def _partitions(self, source: pa.Table, client: MetastoreClient) -> list[str]:
        """Return the partitions that the rows of the source determine."""
        ties, keys = self._ties or {}, self.table.key_types
        rows = with_alias(self.merge.source_alias.lower(), source)
        values = pa.table({key: value.values(rows) for key, value in ties.items()})
        names = partition_names_of(values, self.table)
        if have_one_text(keys.values()):
            return names
        equal = equal_partitions(names, client.get_partition_names(self.target), keys)
        return sorted(
            {partition for name, partitions in equal.items() for partition in partitions or [name]}
        )

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the new rows."""
        keys, new = DeleteKeys(), NewRows(self.what)
        with context.phases(Phase.READ, "the rows that match"):
            rows, updated = self._read(context, keys, new)
        with context.phases(Phase.WRITE, "the changes"):
            deleted = keys.stage(context, rows)
            new.stage(context)
        return Counts(len(new) - updated, updated, deleted - updated)

    def _read(self, context: WriteContext, keys: DeleteKeys, new: NewRows) -> tuple[TableRows, int]:
        """Collect the deletes and the new rows; return where they are, and the number of updates.

        The source and the rows of the target are gone before the new rows are written.
        """
        s, t = self.merge.source_alias.lower(), self.merge.target_alias.lower()
        source_rows = self._evaluated(context)
        if self.partitions is not None:
            context.require_locked(self._partitions(source_rows, context.client))
        source = with_alias(s, source_rows)
        source_keys = [key.source.values(source) for key in self._keys]
        partners = Partners(source_keys, row_sizes(source))
        choice = row_filter(self.table, [*self._bounds(partners)])
        names = context.partition_names()
        if choice is not None and names and not self._others:
            texts = [*values_by_name(names, self.table.key_types).values()]
            names = [n for n, may in zip(names, choice.partitions(texts), strict=True) if may]
        rows = TableRows(context.files(names), Rules.of(context.client.features.hides_compactions))
        matched = np.zeros(source.num_rows, np.bool_)
        updated = 0
        for candidate in self._candidates(rows, partners, choice):
            target = with_alias(t, candidate.columns)
            target_keys = [key.target.values(target) for key in self._keys]
            if self._only_deletes_matched:
                acting = partners.have(target_keys)
            else:
                paired, acting = (np.zeros(target.num_rows, np.bool_) for _ in range(2))
                for pairs in partners.of(target_keys, row_sizes(target), self.what):
                    places, of, pair_rows = self._held(*pairs, target, source)
                    matched[of] = paired[places] = True
                    updated += self._act(pair_rows, places, acting, new)
                updated += self._act_alone(target, ~paired, acting, new)
            if acting.any():
                keys.add(candidate.only(acting))
                require_few(len(keys), self.what)
        unmatched = source.filter(pa.array(~matched))
        clause = _first(self._inserts, unmatched)
        for number, insert in enumerate(self._inserts):
            assert insert.values is not None
            new.add(insert.values, unmatched.filter(pa.array(clause == number)))
        return rows, updated

    def _candidates(
        self, rows: TableRows, partners: Partners, choice: RowFilter | None
    ) -> Iterator[FoundRows]:
        """Read the rows with keys of the source; all rows if others may change, too."""
        if self._others:
            yield from rows.found([column.name.lower() for column in rows.files.table.columns])
            return
        t = self.merge.target_alias.lower()

        def holds(columns: pa.Table) -> Mask:
            target = with_alias(t, columns)
            return partners.have([key.target.values(target) for key in self._keys])

        names = sorted({name for key in self._keys for name in key.names})
        yield from rows.again(matching(rows, names, choice, holds))

    def _bounds(self, partners: Partners) -> Iterator[Any]:
        """Yield the conditions that the keys of the source set on the columns of the target, for Arrow."""
        for sides, values in zip(self._keys, partners.values, strict=True):
            if not len(values):
                yield pc.scalar(False)
            elif sides.column is not None:
                yield among(pc.field(sides.column), values)

    @property
    def _only_deletes_matched(self) -> bool:
        """Whether it does not matter which rows of the source match a row."""
        has_more = self._rest is not None or self._inserts or self._others
        return self._change.deletes_all_matched and not has_more

    def _held(
        self, places: Mask, of: Mask, target: pa.Table, source: pa.Table
    ) -> tuple[Mask, Mask, pa.Table]:
        """Return the pairs that fulfill the rest of the condition, and their columns."""
        pair_rows = _beside(target.take(places), source.take(of))
        if self._rest is None:
            return places, of, pair_rows
        fulfilled = np.asarray(self._rest.holds(pair_rows))
        return places[fulfilled], of[fulfilled], pair_rows.filter(pa.array(fulfilled))

    def _act(self, pair_rows: pa.Table, places: Mask, deleted: Mask, new: NewRows) -> int:
        """Apply the clauses to pairs, mark the rows to delete, and return the number of updates."""
        clause = _first(self._matched, pair_rows)
        acting = clause >= 0
        if not self._change.deletes_all_matched and len(np.unique(places[acting])) < acting.sum():
            self._refuse(pair_rows.filter(pa.array(acting)), places[acting])
        deleted[places[acting]] = True
        return self._changed(self._matched, clause, pair_rows, new)

    def _act_alone(self, target: pa.Table, alone: Mask, deleted: Mask, new: NewRows) -> int:
        """Apply the clauses to rows without a pair; see ``_act``."""
        if not self._others:
            return 0
        clause = np.where(alone, _first(self._others, target), -1)
        deleted |= clause >= 0
        return self._changed(self._others, clause, target, new)

    def _changed(
        self, clauses: Sequence[_Clause], choice: Mask, rows: pa.Table, new: NewRows
    ) -> int:
        return sum(
            new.add(clause.values, rows.filter(pa.array(choice == number)))
            for number, clause in enumerate(clauses)
            if clause.values is not None
        )

    def _refuse(self, pairs: pa.Table, places: Mask) -> None:
        numbers, first, counts = np.unique(places, return_index=True, return_counts=True)
        repeated = [n for n in range(len(numbers)) if counts[n] > 1]
        alias = self.merge.target_alias.lower()
        columns = {name: f"{alias}.{name.lower()}" for name in compared_columns(self._change)}
        keys = []
        for n in repeated[:SHOWN_DUPLICATES]:
            row = pairs.slice(int(first[n]), 1).to_pylist()[0]
            keys.append(({name: row[column] for name, column in columns.items()}, int(counts[n])))
        raise duplicates(self.table.ref.full_name, keys, has_more=len(repeated) > SHOWN_DUPLICATES)


def _has_text_of(source: HiveType, key: HiveType) -> bool:
    """Whether a value has the text of the equal value of a partition key."""
    if str(source) in INTEGERS and str(key) in INTEGERS:
        return True
    return source == (Primitive("string") if isinstance(key, Varchar) else key)


def _beside(left_rows: pa.Table, right_rows: pa.Table) -> pa.Table:
    columns = {name: left_rows.column(name) for name in left_rows.column_names}
    return pa.table(
        {**columns, **{name: right_rows.column(name) for name in right_rows.column_names}}
    )


def _first(clauses: Sequence[_Clause], rows: pa.Table) -> Mask:
    """The number of the first clause with a true condition for each row, or -1."""
    choice = np.full(rows.num_rows, -1)
    for number, clause in reversed([*enumerate(clauses)]):
        if clause.condition is None:
            choice[:] = number
        elif rows.num_rows:
            choice[np.asarray(clause.condition.holds(rows))] = number
    return choice
