"""The condition ON of a merge: columns that are equal in pairs of rows, and the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyarrow import compute as pc
from sqlglot import exp

from hiveacid.errors import SparkNeeded
from hiveacid.rules.schema import Primitive
from hiveacid.sql.hive_expression import PARAMETER
from hiveacid.sql.partition_conditions import conjuncts
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
from hiveacid.worker.needed_stripes import is_ordered

# The type of the key that stands for a condition without columns.
_KEY = Primitive("int")


@dataclass(frozen=True)
class EqualColumns:
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


def equal_columns(
    on: str, scope: Scope, target: str, source: str
) -> tuple[list[EqualColumns], Expression | None]:
    """Return the columns that are equal in pairs, and the rest of the condition.

    Args:
        on: The condition.
        scope: The names of both sides.
        target: The alias of the target, in lower case.
        source: That of the source.

    Raises:
        SparkNeeded: The condition compares no columns of both sides, or is not evaluated here.
    """
    pairs, rest, tree = [], [], tree_of(on, scope)
    condition(tree, scope)
    for node in conjuncts(tree):
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        owners = [owners_of(side, scope) for side in sides]
        if not owners_of(node, scope):
            # All rows have the key of a true condition, and no row that of another one.
            held = as_condition(of_tree(node, scope)).holds(ONE_ROW)[0].as_py()
            key = widened(literal(0 if held else None), _KEY)
            pairs.append(EqualColumns(key, key, [], None))
            continue
        if owners not in ([{target}, {source}], [{source}, {target}]):
            # Spark may evaluate it for rows that are in no pair.
            if may_fail(node):
                raise SparkNeeded("arithmetic within ON")
            rest.append(as_condition(of_tree(node, scope)))
            continue
        if owners[0] == {source}:
            sides.reverse()
        left, right = (of_tree(side, scope) for side in sides)
        wide = common_type(left.type, right.type)
        if str(wide) in ("float", "double"):
            raise SparkNeeded("ON with fractions")
        bare = bare_column(sides[0], scope)
        name = None
        if bare is not None and bare[1] == wide and is_ordered(wide):
            name = bare[0].removeprefix(f"{target}.")
        names = columns_in(scope, target, [sides[0]])
        pairs.append(EqualColumns(widened(left, wide), widened(right, wide), names, name))
    if not pairs:
        raise SparkNeeded("ON without an equal column")
    if not rest:
        return pairs, None
    return pairs, Expression(
        rest[0].type, lambda rows: reduce(pc.and_kleene, [part.values(rows) for part in rest])
    )


def columns_in(scope: Scope, alias: str, trees: Sequence[exp.Expr]) -> list[str]:
    """Return the columns of a table that expressions name.

    Args:
        scope: The names.
        alias: The alias of the table, in lower case.
        trees: The expressions.
    """
    found = (
        scope.column([part.name for part in node.parts])[0]
        for tree in trees
        for node in tree.find_all(exp.Column)
        if not node.parts[0].name.startswith(PARAMETER)
    )
    return sorted({name.partition(".")[2] for name in found if name.startswith(f"{alias}.")})
