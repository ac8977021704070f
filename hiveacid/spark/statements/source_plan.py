"""Analysis of a merge by its source alone: the written values, and the columns that match rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    TimestampType,
)

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.plan.merge import RowAction
from hiveacid.plan.scope import ChangeScope
from hiveacid.rules.sql_names import quoted, unquoted
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.pruning import (
    children,
    column_names,
    conjuncts,
    has_subquery,
    kind,
    nodes,
    parsed,
    same_expression,
)
from hiveacid.spark.rows.columns import all_columns, spark_struct
from hiveacid.spark.statements.merge_join import MergeJoin

# For these types, equal values are identical in every bit.
_EXACT = (BooleanType, ByteType, ShortType, IntegerType, LongType, DecimalType, DateType)


@dataclass(frozen=True, slots=True)
class JoinedColumn:
    """A source column for matching rows, and its location in the files.

    Attributes:
        field: The column.
        stored_name: The name of the column in the files.
        carried: Whether it is an additional column behind the table's columns.
    """

    field: StructField
    stored_name: str
    carried: bool

    def encoded(self, alias: str) -> str:
        """The expression for the files; days and times become numbers, without calendar or zone."""
        value = f"{quoted(alias)}.{quoted(self.field.name)}"
        match self.field.dataType:
            case DateType():
                value = f"unix_date({value})"
            case TimestampType():
                value = f"unix_micros({value})"
        return value

    def decoded(self) -> str:
        """The expression that restores the source's column."""
        value = quoted(self.stored_name)
        match self.field.dataType if self.carried else None:
            case DateType():
                value = f"date_from_unix_date({value})"
            case TimestampType():
                value = f"timestamp_micros({value})"
        return f"{value} AS {quoted(self.field.name)}"

    def arrow(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert the values of a file to the source's values in Arrow."""
        is_day = self.carried and isinstance(self.field.dataType, DateType)
        return values.cast(pa.date32()) if is_day else values


@dataclass(frozen=True)
class SourcePlan:
    """The plan of a merge whose new rows do not depend on the target.

    Attributes:
        values: The expression of every column of the table, over the source; None if the merge
            writes no row.
        columns: The source columns for matching rows.
        target_columns: The target columns for matching rows, in lower case.
        decided: Whether the source alone determines the clause for a pair.
        equal: Columns of the target with the columns of the source that ``=`` compares them with.
        only_equal: Whether rows are matched only by comparing columns of the same types, which
            cannot fail for any value.
    """

    values: Mapping[str, str] | None
    columns: Sequence[JoinedColumn]
    target_columns: frozenset[str]
    decided: bool
    equal: Sequence[tuple[HiveColumn, JoinedColumn]]
    only_equal: bool

    @classmethod
    def of(cls, join: MergeJoin) -> "SourcePlan | None":
        """Return the plan of a merge; None if its new rows depend on the target."""
        return _Planner(join).plan()


def equal_columns(join: MergeJoin) -> list[tuple[HiveColumn, StructField]]:
    """Columns of the target's files with the columns of the source that ``=`` compares them with.

    The result is empty if target rows without a match are relevant.
    """
    return [] if join.change.not_matched_by_source else _Planner(join).equal()


@dataclass
class _Planner:
    join: MergeJoin
    _named: dict[str, list[tuple[str, str]] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scope = self.join.change.scope
        self._fields = {f.name.lower(): f for f in self.join.source.schema.fields}
        alias = re.escape(self.join.source_alias)
        self._plain = re.compile(rf"`?{alias}`?\.(`(?:[^`]|``)+`|\w+)", re.IGNORECASE)

    def plan(self) -> SourcePlan | None:
        merge = self.join.change
        rests = merge.not_matched_by_source
        if any(action.values is not None for action in rests):
            return None
        if len(self._fields) < len(self.join.source.columns):
            return None
        values: Mapping[str, str] | None = None
        if merge.writes_rows:
            values = self._values()
            if values is None or not all(self._is_of_source(value) for value in values.values()):
                return None
        if not all(self._is_of_source(text) for text in _conditions(merge.not_matched)):
            return None
        conditions = _conditions(merge.matched)
        decided = all(self._is_of_source(text) for text in conditions)
        texts = [self.join.change.on, *([] if decided else conditions)]
        columns_of_texts = [self._names(text) for text in texts]
        target = ChangeScope(self.join.table, self.join.target_alias)
        columns_of_texts += [self._names_in(target, text) for text in _conditions(rests)]
        if None in columns_of_texts:
            return None
        names = [name for columns in columns_of_texts for name in columns or ()]
        has_fate = bool(_conditions((*merge.matched, *merge.not_matched)))
        columns = self._joined({name for side, name in names if side == "source"}, values, has_fate)
        if columns is None or not (columns or values):
            return None
        return SourcePlan(
            values=values,
            columns=columns,
            target_columns=frozenset(name for side, name in names if side == "target"),
            decided=decided,
            equal=[
                (column, column_to_join)
                for column, field in ([] if rests else self.equal())
                for column_to_join in columns
                if column_to_join.field is field
            ],
            only_equal=decided and not rests and self._only_equal(),
        )

    def equal(self) -> list[tuple[HiveColumn, StructField]]:
        """Columns of the target's files with the columns of the source that they must equal."""
        targets = {column.name.lower(): column for column in self.join.table.columns}
        return [
            (targets[target], self._fields[source])
            for target, source, operator in self._equalities
            if operator == "EqualTo" and target in targets and source in self._fields
        ]

    def _values(self) -> dict[str, str] | None:
        """The values of all new rows, if updates and inserts give the same ones."""
        merge = self.join.change
        columns = {column.name.lower(): column for column in all_columns(self.join.table)}
        common: dict[str, str] | None = None
        for action in (*merge.matched, *merge.not_matched):
            if action.values is None:
                continue
            # A new row has all columns.
            expressions = {name.lower(): value for name, value in action.values.items()}
            values = self._tied() | expressions
            if values.keys() != columns.keys() or not self._same(common or values, values):
                return None
            common = common or values
        return common and {column.name: common[name] for name, column in columns.items()}

    def _tied(self) -> dict[str, str]:
        """The target's columns that have the source's value in every matching pair."""
        return {
            target: f"{quoted(self.join.source_alias)}.{quoted(source)}"
            for target, source, _ in self._equalities
            if self._is_same_value(target, source)
        }

    @cached_property
    def _equalities(self) -> list[tuple[str, str, str]]:
        """Columns of target and source that are equal in every matching pair, with the operator."""
        equalities = []
        for conjunct in conjuncts(parsed(self.join.spark, self.join.change.on)):
            operator = kind(conjunct)
            if operator not in ("EqualTo", "EqualNullSafe"):
                continue
            parts = children(conjunct)
            if all(kind(part) == "UnresolvedAttribute" for part in parts):
                columns_of_sides = [self._scope.column(column_names(part)[0]) for part in parts]
                columns = {
                    column.side: column.name
                    for column in columns_of_sides
                    if column and not column.fields
                }
                if columns.keys() == {"source", "target"}:
                    equalities.append((columns["target"], columns["source"], operator))
        return equalities

    def _only_equal(self) -> bool:
        conjunct_count = sum(1 for _ in conjuncts(parsed(self.join.spark, self.join.change.on)))
        return len(self._equalities) == conjunct_count and all(
            self._has_same_type(target, source) for target, source, _ in self._equalities
        )

    def _has_same_type(self, target: str, source: str) -> bool:
        columns = [c for c in all_columns(self.join.table) if c.name.lower() == target]
        source_field = self._fields.get(source)
        types = [field.dataType.simpleString() for field in spark_struct(columns).fields]
        return source_field is not None and types == [source_field.dataType.simpleString()]

    def _is_same_value(self, target: str, source: str) -> bool:
        """Whether a column of the target contains exactly the value of a source column."""
        columns = {column.name.lower(): column for column in all_columns(self.join.table)}
        if not self._has_same_type(target, source):
            return False
        exact = isinstance(self._fields[source].dataType, _EXACT)
        return exact or columns[target].type.lower() == "string"

    def _same(self, expressions: Mapping[str, str], other_expressions: Mapping[str, str]) -> bool:
        return all(
            expressions[name] == other_expressions[name]
            or same_expression(self.join.spark, expressions[name], other_expressions[name])
            for name in expressions
        )

    def _is_of_source(self, text: str) -> bool:
        """Whether an expression depends only on the source."""
        if self._plain_column(text) is not None:
            return True
        names = self._names(text)
        return names is not None and all(side == "source" for side, _ in names)

    def _plain_column(self, text: str) -> str | None:
        """The source column that an expression consists of, in lower case."""
        match = self._plain.fullmatch(text.strip())
        name = match and unquoted(match[1]).lower()
        return name if name in self._fields else None

    def _names(self, text: str) -> list[tuple[str, str]] | None:
        """The columns in an expression, by side; None if ambiguous."""
        if text not in self._named:
            self._named[text] = self._names_in(self._scope, text)
        return self._named[text]

    def _names_in(self, scope: ChangeScope, text: str) -> list[tuple[str, str]] | None:
        tree = parsed(self.join.spark, text)
        columns = [scope.column(name) for name in column_names(tree)]
        unclear = has_subquery(tree) or any("Star" in kind(node) for node in nodes(tree))
        sides_and_names = [(column.side, column.name) for column in columns if column is not None]
        return None if unclear or len(sides_and_names) < len(columns) else sides_and_names

    def _joined(
        self, names: Iterable[str], values: Mapping[str, str] | None, has_fate: bool
    ) -> list[JoinedColumn] | None:
        """The locations of source columns in the files; None if one cannot be stored exactly."""
        standing = {
            self._plain_column(values[column.name]): column
            for column in self.join.table.columns
            if values is not None
        }
        columns = []
        for number, name in enumerate(sorted(names)):
            if name not in self._fields:
                return None
            source_field = self._fields[name]
            column = standing.get(name)
            # Rows that are never written have null values, except in columns that cannot cause
            # errors.
            dated = isinstance(source_field.dataType, DateType) and has_fate
            if column and not dated and self._is_same_value(column.name.lower(), name):
                columns.append(JoinedColumn(source_field, column.name, carried=False))
            elif _can_be_stored(source_field.dataType):
                columns.append(
                    JoinedColumn(source_field, own_column(f"source_{number}"), carried=True)
                )
            else:
                return None
        return columns


def _conditions(actions: Iterable[RowAction]) -> list[str]:
    return [action.condition for action in actions if action.condition is not None]


def _can_be_stored(spark_type: DataType) -> bool:
    """Whether a file stores every value of a type exactly."""
    texts = isinstance(spark_type, StringType) and spark_type.simpleString() == "string"
    return texts or isinstance(spark_type, (*_EXACT, TimestampType))
