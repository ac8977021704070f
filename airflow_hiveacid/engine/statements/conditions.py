"""Conditions and values that were given as columns of PySpark, as the SQL that statements work with."""

from collections.abc import Mapping
from typing import Any, overload

from pyspark.sql import Column, SparkSession

from airflow_hiveacid.engine.session import java_class
from airflow_hiveacid.errors import BadCondition
from airflow_hiveacid.jobs.field_checks import require_mapping

# SQL as text, or a column that says the same.
Expression = str | Column

_SESSION = "org.apache.spark.sql.classic.SparkSession"
# Of these the text is not that of a call, so that conditions are taken apart as those of a text are.
_BETWEEN = frozenset({"and", "or", "=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"})


@overload
def as_sql(spark: SparkSession, given: Expression) -> str: ...
@overload
def as_sql(spark: SparkSession, given: Expression | None) -> str | None: ...
def as_sql(spark: SparkSession, given: Expression | None) -> str | None:
    """The text of a condition or a value.

    Args:
        spark: The session that will read the text.
        given: The text, or a column.

    Raises:
        BadCondition: A column cannot be said in a text that means the same.
    """
    if not isinstance(given, Column):
        return given
    # Texts of times are written and read by the zone of the session that is active.
    sessions = java_class(spark, _SESSION)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        tree = spark._jsparkSession.expression(given._jc)
        if not _means_the_same(spark, tree):
            raise BadCondition(
                f"{given} cannot be said in SQL.",
                remedy="Name columns by F.col('t.id') instead of by those of a frame, and call none "
                "of Python's functions; write lambdas and subqueries as a text.",
            )
        return _text(tree)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def all_as_sql(spark: SparkSession, given: Mapping[str, Expression]) -> dict[str, str]:
    """The same for the values of columns.

    Raises:
        InvalidJob: It is no mapping.
    """
    require_mapping(given, "The values of columns", '{"name": "upper(s.name)"}')
    return {name: as_sql(spark, value) for name, value in given.items()}


def _means_the_same(spark: SparkSession, tree: Any) -> bool:
    """Whether Spark reads the text of an expression as that expression.

    It does not where the text is less than the expression: a function of Python has only its name
    there, and a column of a frame loses which frame it is of.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        read = spark._jsparkSession.sessionState().sqlParser().parseExpression(tree.sql())
    except (PySparkException, Py4JJavaError):
        return False
    return bool(read.equals(tree))


def _text(tree: Any) -> str:
    if tree.getClass().getSimpleName() != "UnresolvedFunction":
        return str(tree.sql())
    name, children = tree.nameParts().mkString("."), tree.children()
    parts = [children.apply(number) for number in range(children.size())]
    if name in _BETWEEN and len(parts) == 2:
        return f"({_text(parts[0])} {name} {_text(parts[1])})"
    if name == "in":
        return f"({_text(parts[0])} IN ({', '.join(map(_text, parts[1:]))}))"
    if name == "!":
        return f"(NOT {_text(parts[0])})"
    return str(tree.sql())
