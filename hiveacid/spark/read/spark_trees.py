"""Trees of expressions and plans, as Spark's parser and optimizer build them."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.session import PARSED, sql_parser


def parsed(spark: SparkSession, condition: str, what: str = "The condition") -> Any:
    """Parse a condition, or any expression, into a tree.

    Args:
        spark: A session.
        condition: The text.
        what: The beginning of an error message.

    Raises:
        BadCondition: The text is invalid.
    """
    # Other sessions live long, and their settings may change.
    known: dict[str, Any] = vars(spark).get(PARSED, {})
    if condition not in known:
        with translated_spark_errors(f"{what} {condition!r}"), sql_parser(spark) as parser:
            known[condition] = parser.parseExpression(condition)
    return known[condition]


def nodes(tree: Any) -> Iterator[Any]:
    """A tree and all trees below it, from the top."""
    yield tree
    for child in children(tree):
        yield from nodes(child)


def children(node: Any) -> list[Any]:
    """The trees directly below a tree."""

    def look_up(node: Any) -> list[Any]:
        below = node.children()
        return [below.apply(index) for index in range(below.size())]

    found: list[Any] = _remembered(node, "_children", look_up)
    return found


def kind(node: Any) -> str:
    """The name of a node's class."""
    name: str = _remembered(node, "_kind", lambda node: node.getClass().getSimpleName())
    return name


def _remembered(node: Any, name: str, look_up: Callable[[Any], Any]) -> Any:
    """Return a property of a node, which never changes: Java is called once for it."""
    known = vars(node)
    if name not in known:
        known[name] = look_up(node)
    return known[name]


def conjuncts(condition: Any) -> Iterator[Any]:
    """The parts of a condition that are connected by AND, in their order."""
    pending = [condition]
    while pending:
        expression = pending.pop()
        if kind(expression) == "And":
            pending += reversed(children(expression))
        else:
            yield expression


def column_names(expression: Any) -> list[tuple[str, ...]]:
    """The names of columns in an expression, split at their dots."""
    names = []
    for node in nodes(expression):
        if kind(node) == "UnresolvedAttribute":
            names.append(_remembered(node, "_name", _name))
    return names


def _name(attribute: Any) -> tuple[str, ...]:
    parts = attribute.nameParts()
    return tuple(parts.apply(index) for index in range(parts.size()))


def has_subquery(expression: Any) -> bool:
    """Whether an expression contains a subquery."""
    kinds = map(kind, nodes(expression))
    return any("Subquery" in name or name in ("Exists", "ListQuery") for name in kinds)
