"""Pairs of rows of a MERGE: the values that ON makes equal, and the rows that have them."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types
from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.parser.hive_expression import PARAMETER
from hiveacid.plan.partitions import conjuncts
from hiveacid.rules.schema import Primitive
from hiveacid.worker.expressions import (
    ONE_ROW,
    Expression,
    Scope,
    as_condition,
    bare_column,
    common_type,
    condition,
    literal,
    may_fail,
    of_tree,
    owners_of,
    tree_of,
    widened,
)
from hiveacid.worker.files import MOST_HELD
from hiveacid.worker.needed_stripes import is_ordered

# The type of the key that stands for a condition without columns.
_KEY = Primitive("int")


@dataclass(frozen=True)
class EqualSides:
    """Two expressions that are equal in pairs of rows.

    Attributes:
        target: That of the target.
        source: That of the source.
        names: The columns of the target in it.
        column: The column of the target, if it is one whose bounds can be compared.
    """

    target: Expression
    source: Expression
    names: Sequence[str]
    column: str | None


def equal_sides(
    on: str, scope: Scope, target: str, source: str
) -> tuple[list[EqualSides], Expression | None]:
    """Return the columns that are equal in pairs, and the rest of the condition.

    Args:
        on: The condition.
        scope: The names of both sides.
        target: The alias of the target, in lower case.
        source: That of the source.

    Raises:
        SparkNeeded: The condition compares no columns of both sides, or is not evaluated here.
    """
    pairs, conditions, tree = [], [], tree_of(on, scope)
    condition(tree, scope)
    for node in conjuncts(tree):
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        owners = [owners_of(side, scope) for side in sides]
        if not owners_of(node, scope):
            # All rows have the key of a true condition, and no row that of another one.
            truth = as_condition(of_tree(node, scope)).holds(ONE_ROW)[0].as_py()
            key = widened(literal(0 if truth else None), _KEY)
            pairs.append(EqualSides(key, key, [], None))
            continue
        if owners not in ([{target}, {source}], [{source}, {target}]):
            # Spark may evaluate it for rows that are in no pair.
            if may_fail(node):
                raise SparkNeeded("arithmetic within ON")
            conditions.append(as_condition(of_tree(node, scope)))
            continue
        if owners[0] == {source}:
            sides.reverse()
        target_side, right = (of_tree(side, scope) for side in sides)
        wide = common_type(target_side.type, right.type)
        if str(wide) in ("float", "double"):
            raise SparkNeeded("ON with fractions")
        bare = bare_column(sides[0], scope)
        name = None
        if bare is not None and bare[1] == wide and is_ordered(wide):
            name = bare[0].removeprefix(f"{target}.")
        names = columns_in(scope, target, [sides[0]])
        pairs.append(EqualSides(widened(target_side, wide), widened(right, wide), names, name))
    if not pairs:
        raise SparkNeeded("ON without an equal column")
    if not conditions:
        return pairs, None
    return pairs, Expression(
        conditions[0].type,
        lambda rows: reduce(pc.and_kleene, [part.values(rows) for part in conditions]),
    )


def columns_in(scope: Scope, alias: str, trees: Sequence[exp.Expr]) -> list[str]:
    """Return the columns of a table that expressions name.

    Args:
        scope: The names.
        alias: The alias of the table, in lower case.
        trees: The expressions.
    """
    names = (
        scope.column([part.name for part in node.parts])[0]
        for tree in trees
        for node in tree.find_all(exp.Column)
        if not node.parts[0].name.startswith(PARAMETER)
    )
    return sorted({name.partition(".")[2] for name in names if name.startswith(f"{alias}.")})


# Pairs are counted before they are built, and built some at a time


# More are shuffled faster by Spark.
MOST_PAIRS = 10_000_000
# The limits of the pairs that are built at once.
_PAIRS, _BYTES = 1 << 17, 8 << 20
# The bytes of keys whose hash table is worth the time to return its memory.
_LARGE = 4 << 20
# An offset, and the share of a validity bitmap.
_OF_A_TEXT = 5
Numbers = np.ndarray[Any, Any]


class Partners:
    """The rows of a source by their keys; null equals no key.

    Args:
        keys: The keys of the rows, column by column.
        sizes: The bytes of the rows.

    Attributes:
        values: The different values of each column of keys.
    """

    def __init__(self, keys: Sequence[pa.ChunkedArray], sizes: Numbers) -> None:
        self.values: list[pa.Array] = []
        # For each column the numbers of its values together with those before it.
        self._known: list[Numbers] = []
        groups = np.zeros(len(sizes), np.int64)
        for column in keys:
            self.values.append(pc.unique(column).drop_null())
            numbers = _joined(groups, column, self.values[-1])
            self._known.append(np.unique(numbers[numbers >= 0]))
            groups = _places(numbers, self._known[-1])
        count = len(self._known[-1])
        self._rows = np.argsort(groups, kind="stable")[np.sum(groups < 0) :]
        self._counts = np.bincount(groups[self._rows], minlength=count)
        self._starts = np.cumsum(self._counts) - self._counts
        self._bytes = np.bincount(groups[self._rows], sizes[self._rows], minlength=count)
        self._seen = 0

    def have(self, keys: Sequence[pa.ChunkedArray]) -> Numbers:
        """Return a mask of the rows of a target that have partners.

        Args:
            keys: The keys of the rows, column by column.
        """
        return self._groups(keys) >= 0

    def of(
        self, keys: Sequence[pa.ChunkedArray], sizes: Numbers, subject: str
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the pairs of some rows of a target: all pairs of a row together.

        Args:
            keys: The keys of the rows, column by column.
            sizes: The bytes of the rows.
            subject: The change that they belong to.

        Returns:
            The numbers of the rows of the target, and those of the source.

        Raises:
            SparkNeeded: There are too many, or those of a row are too large.
        """
        groups = self._groups(keys)
        positions = np.flatnonzero(groups >= 0)
        groups = groups[positions]
        counts = self._counts[groups]
        costs = counts * sizes[positions] + self._bytes[groups]
        if len(costs) and costs.max() > MOST_HELD:
            raise SparkNeeded(f"{subject} has a row with more than {MOST_HELD >> 20} MB of pairs.")
        share = np.maximum(np.cumsum(counts) / _PAIRS, np.cumsum(costs) / _BYTES)
        cuts = np.flatnonzero(np.diff(np.floor(share))) + 1
        for part in np.split(np.arange(len(positions)), cuts) if len(positions) else ():
            pair_counts = counts[part]
            self._seen += int(pair_counts.sum())
            if self._seen > MOST_PAIRS:
                raise SparkNeeded(f"{subject} has more than {MOST_PAIRS:,} pairs of equal keys.")
            within = np.arange(pair_counts.sum()) - np.repeat(
                np.cumsum(pair_counts) - pair_counts, pair_counts
            )
            of = self._rows[np.repeat(self._starts[groups[part]], pair_counts) + within]
            yield np.repeat(positions[part], pair_counts), of

    def _groups(self, keys: Sequence[pa.ChunkedArray]) -> Numbers:
        """Return the number of the keys of each row among those of the source, or -1."""
        groups = np.zeros(len(keys[0]), np.int64)
        for column, values, key_numbers in zip(keys, self.values, self._known, strict=True):
            groups = _places(_joined(groups, column, values), key_numbers)
        return groups


def _joined(groups: Numbers, column: pa.ChunkedArray, values: pa.Array) -> Numbers:
    """Return a number for each pair of a group and a value, or -1 if one of them is unknown."""
    positions = np.asarray(pc.fill_null(pc.index_in(column, value_set=values), -1)).astype(np.int64)
    # The hash table of long texts is as large as they are.
    if values.nbytes > _LARGE:
        return_memory()
    numbers: Numbers = np.where(
        (groups < 0) | (positions < 0), -1, groups * len(values) + positions
    )
    return numbers


def _places(numbers: Numbers, key_numbers: Numbers) -> Numbers:
    """Return the places of numbers among known ones, or -1."""
    if not len(key_numbers):
        return np.full(len(numbers), -1)
    positions = np.minimum(np.searchsorted(key_numbers, numbers), len(key_numbers) - 1)
    places: Numbers = np.where(key_numbers[positions] == numbers, positions, -1)
    return places


def row_sizes(rows: pa.Table) -> Numbers:
    """Return the bytes of each row."""
    sizes = np.zeros(rows.num_rows)
    for column in rows.columns:
        sizes += np.concatenate([np.zeros(0), *map(_sizes, column.chunks)])
    return sizes


def _sizes(values: pa.Array) -> Numbers:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _sizes(values.storage)
    if types.is_struct(kind):
        parts = [_sizes(values.field(number)) for number in range(kind.num_fields)]
        total: Numbers = np.sum([np.zeros(len(values)), *parts], axis=0)
        return total
    if types.is_list(kind) or types.is_map(kind):
        inner = (
            values.values
            if types.is_list(kind)
            else pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        )
        until = np.concatenate([np.zeros(1), np.cumsum(_sizes(inner))])
        sizes: Numbers = _OF_A_TEXT + np.diff(until[np.asarray(values.offsets)])
        return sizes
    if types.is_string(kind) or types.is_binary(kind):
        return _OF_A_TEXT + np.asarray(pc.fill_null(pc.binary_length(values), 0))
    return np.full(len(values), values.nbytes / max(len(values), 1))
