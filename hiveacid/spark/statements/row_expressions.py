"""Refusal of expressions without a value for each row: aggregates, windows, generators."""

import re
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.errors import BadCondition
from hiveacid.spark.read.spark_trees import kind, nodes, parsed
from hiveacid.spark.spark_versions import java_class

_CATALYST = "org.apache.spark.sql.catalyst."
_CALL = re.compile(r"\b(\w+)`?\s*\(|\bOVER\b", re.IGNORECASE)
_AGGREGATES, _RETURNS_ROWS = "combines several rows", "may return several rows or none"
_GROUPS = {
    "agg_funcs": _AGGREGATES,
    "window_funcs": "depends on other rows",
    "generator_funcs": _RETURNS_ROWS,
}
# Spark lists these functions in other groups.
_UNGROUPED = {
    "json_tuple": _RETURNS_ROWS,
    "schema_of_variant_agg": _AGGREGATES,
    "session_window": _RETURNS_ROWS,
    "window": _RETURNS_ROWS,
}
# The groups of the functions that were looked up; they are the same in every Spark session.
_groups: dict[str, str] = {}
_NAMED = ("Alias", "MultiAlias")
_WINDOWS = ("WindowExpression", "UnresolvedWindowExpression")


def require_row_expression(spark: SparkSession, text: str) -> None:
    """Refuse a condition or a value that Spark cannot compute from one row.

    Subqueries may contain anything.

    Raises:
        BadCondition: The text is invalid, has a name, aggregates rows, depends on other rows,
            returns several rows, or names all columns by a star.
    """
    tree = parsed(spark, text, "The expression")
    if kind(tree) in _NAMED:
        raise BadCondition(
            f"The expression {text!r} ends with a name for its result, which is not used.",
            remedy="Leave the name out.",
        )
    if "*" in text and any("Star" in kind(node) for node in nodes(tree)):
        # It would also stand for the columns that this package adds to the rows.
        raise BadCondition(
            f"The expression {text!r} names all columns by *.", remedy="Name each column."
        )
    calls = [match[1] for match in _CALL.finditer(text)]
    if not any(name is None or _problem(spark, name) for name in calls):
        return
    for node in nodes(tree):
        if kind(node) in _WINDOWS:
            _refuse(text, "OVER", "depends on other rows")
        if kind(node) == "AggregateExpression":
            _refuse(text, f"{node.aggregateFunction().prettyName()}()", _AGGREGATES)
        if kind(node) == "UnresolvedFunction":
            name = str(node.nameParts().last())
            if problem := _problem(spark, name):
                _refuse(text, f"{name}()", problem)


def _refuse(text: str, what: str, problem: str) -> None:
    raise BadCondition(
        f"The expression {text!r} cannot be computed for a single row: {what} {problem}.",
        remedy="Use a subquery, or the query of a MERGE source, such as (SELECT max(a) FROM t).",
    )


def _problem(spark: SparkSession, name: str) -> str | None:
    name = name.lower()
    if name not in _groups:
        registry: Any = java_class(spark, f"{_CATALYST}analysis.FunctionRegistry").builtin()
        found = registry.lookupFunction(java_class(spark, f"{_CATALYST}FunctionIdentifier")(name))
        _groups[name] = str(found.get().getGroup()) if found.isDefined() else ""
    return _UNGROUPED.get(name) or _GROUPS.get(_groups[name])
