"""SQL of conditions and values: PySpark columns as text, parameters as typed literals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from pyspark.sql import Column, SparkSession

from hiveacid.errors import BadCondition
from hiveacid.jobs.field_checks import require_mapping
from hiveacid.jobs.parameters import Parameters
from hiveacid.rules.merge import Clause, with_expressions
from hiveacid.spark.spark_versions import (
    is_same_expression,
    java_expression,
    java_sessions,
)
from hiveacid.spark.statements.bound_parameters import bound_expression
from hiveacid.spark.statements.refused_sql import check_expression
from hiveacid.spark.statements.row_expressions import require_row_expression

# SQL text, or an equivalent column.
Expression = str | Column

# The text of these functions is an operator, not a call, so that conditions are split as those of a
# text are.
_BETWEEN = frozenset({"and", "or", "=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"})


@dataclass(frozen=True)
class Expressions:
    """Checks the conditions and values of a statement, and binds their parameters.

    Attributes:
        spark: The session that will read them.
        params: The values of their parameters.
        trusted: Whether they may run scripts, call Java and read files by their paths.
    """

    spark: SparkSession
    params: Parameters = field(default_factory=dict)
    trusted: bool = False

    @overload
    def sql(self, given: Expression) -> str: ...
    @overload
    def sql(self, given: Expression | None) -> str | None: ...
    def sql(self, given: Expression | None) -> str | None:
        """Return the text of a condition or a value, with literals for its parameters.

        Raises:
            BadCondition: A column has no equivalent text, a parameter has no value, or the
                expression has no value for each row.
            UntrustedSql: The expression runs a script, calls Java or reads files by their path.
        """
        if given is None:
            return None
        text = as_sql(self.spark, given) if isinstance(given, Column) else given
        text = bound_expression(self.spark, text, self.params)
        if not self.trusted:
            check_expression(self.spark, text)
        require_row_expression(self.spark, text)
        return text

    def all_sql(self, given: Mapping[str, Expression]) -> dict[str, str]:
        """Return the texts for the values of columns; see ``sql``.

        Raises:
            InvalidJob: The argument is not a mapping.
        """
        require_mapping(given, "The values of columns", '{"name": "upper(s.name)"}')
        return {name: self.sql(value) for name, value in given.items()}

    def clause(self, clause: Clause) -> Clause:
        """Replace the expressions of a merge clause by their texts; see ``sql``."""
        return with_expressions(clause, self.sql)


def as_sql(spark: SparkSession, given: Column) -> str:
    """Return the text of a column.

    Raises:
        BadCondition: The column has no equivalent text.
    """
    # Texts of times are written and read in the time zone of the active session.
    sessions = java_sessions(spark)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        tree = java_expression(spark, given)
        if not _means_the_same(spark, tree):
            raise BadCondition(
                f"{given} cannot be expressed in SQL.",
                remedy="Name columns by F.col('t.id') instead of by those of a frame, and call none "
                "of Python's functions; write lambdas and subqueries as a text.",
            )
        return _text(tree)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _means_the_same(spark: SparkSession, tree: Any) -> bool:
    """Whether Spark parses the text of an expression as the same expression.

    This is false if the text is incomplete: a Python function appears only by its name, and a
    column of a frame loses the reference to its frame.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        read = spark._jsparkSession.sessionState().sqlParser().parseExpression(tree.sql())
    except (PySparkException, Py4JJavaError):
        return False
    return is_same_expression(tree, read)


def _text(tree: Any) -> str:
    if tree.getClass().getSimpleName() != "UnresolvedFunction":
        return str(tree.sql())
    name, children = tree.nameParts().mkString("."), tree.children()
    parts = [children.apply(number) for number in range(children.size())]
    if name in _BETWEEN and len(parts) == 2:
        return f"({_text(parts[0])} {name.upper()} {_text(parts[1])})"
    if name == "in":
        return f"({_text(parts[0])} IN ({', '.join(map(_text, parts[1:]))}))"
    if name == "!":
        return f"(NOT {_text(parts[0])})"
    return str(tree.sql())
