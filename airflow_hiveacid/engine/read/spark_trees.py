"""Trees of expressions and plans, as Spark's parser and optimizer build them."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.engine.failures import translated_spark_errors


def parsed(spark: SparkSession, condition: str, what: str = "The condition") -> Any:
    """Parse a condition, or any expression, into a tree.

    Args:
        spark: A session.
        condition: The text.
        what: The beginning of an error message.

    Raises:
        BadCondition: The text is invalid.
    """
    session: Any = spark._jsparkSession
    with translated_spark_errors(f"{what} {condition!r}"):
        return session.sessionState().sqlParser().parseExpression(condition)


def nodes(tree: Any) -> Iterator[Any]:
    """A tree and all trees below it, from the top."""
    yield tree
    children = tree.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


def kind(node: Any) -> str:
    """The name of a node's class."""
    name: str = node.getClass().getSimpleName()
    return name


def conjuncts(condition: Any) -> Iterator[Any]:
    """The parts of a condition that are connected by AND, in their order."""
    pending = [condition]
    while pending:
        expression = pending.pop()
        if kind(expression) == "And":
            pending += [expression.right(), expression.left()]
        else:
            yield expression


def column_names(expression: Any) -> list[tuple[str, ...]]:
    """The names of columns in an expression, split at their dots."""
    names = []
    for node in nodes(expression):
        if kind(node) == "UnresolvedAttribute":
            parts = node.nameParts()
            names.append(tuple(parts.apply(index) for index in range(parts.size())))
    return names


def has_subquery(expression: Any) -> bool:
    """Whether an expression contains a subquery."""
    kinds = map(kind, nodes(expression))
    return any("Subquery" in name or name in ("Exists", "ListQuery") for name in kinds)
