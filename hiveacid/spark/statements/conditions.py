"""SQL of conditions and values: PySpark columns as text, parameters as typed literals."""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, overload

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidConnection, InvalidJob
from hiveacid.jobs.fields import Parameters, ParameterValue, require_mapping, timestamp_text
from hiveacid.rules.merge import Clause, with_expressions
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_objects import java_class, java_session
from hiveacid.spark.read.pruning import kind, nodes, parsed
from hiveacid.spark.spark_versions import (
    bound_text,
    is_same_expression,
    java_expression,
    java_sessions,
)
from hiveacid.spark.statements.refused_sql import check_expression

# Parameters of SQL text, which Spark's own parser replaces by literals


# The parser accepts statements, not bare values.
_SELECT = "SELECT "
_MINUS = re.compile("-:[A-Za-z_]")


def bound_query(spark: SparkSession, text: str, params: Parameters) -> str:
    """Replace the parameters of a query by literals, as ``spark.sql(args=...)`` does.

    Raises:
        InvalidJob: The query is invalid.
    """
    if not params:
        return text
    if _MINUS.search(text):
        raise InvalidJob(
            f"The SQL {text!r} has a minus sign directly before a parameter: with a negative value "
            "they are the beginning of a comment.",
            remedy="Write a blank between them.",
        )
    if spark.conf.get("spark.sql.parser.escapedStringLiterals") == "true":
        raise InvalidConnection(
            "Spark reads texts with other escapes than it writes in parameters.",
            remedy="Set spark.sql.parser.escapedStringLiterals to false.",
        )
    with translated_spark_errors(f"The SQL {text!r}"):
        return bound_text(spark, text, {name: _literal(value) for name, value in params.items()})


def bound_expression(spark: SparkSession, text: str, params: Parameters) -> str:
    """Replace the parameters of an expression by literals.

    This precedes splitting, so that every reader of its text sees the same values.
    """
    if not params or ":" not in text:
        return text
    return bound_query(spark, _SELECT + text, params)[len(_SELECT) :]


def _literal(value: ParameterValue) -> Column:
    match value:
        case datetime():
            # Python's own conversion would use the time zone of this process.
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP_LTZ"
            return F.expr(f"{kind} '{timestamp_text(value)}'")
        case date():
            return F.expr(f"DATE '{value.isoformat()}'")
        case Decimal():
            # Java stores an exponent as a negative scale, which Spark refuses.
            return F.lit(Decimal(f"{value:f}"))
    return F.lit(value)


# Refusal of expressions without a value for each row: aggregates, windows, generators


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
        InvalidJob: The text is invalid, has a name, aggregates rows, depends on other rows,
            returns several rows, or names all columns by a star.
    """
    tree = parsed(spark, text, "The expression")
    if kind(tree) in _NAMED:
        raise InvalidJob(
            f"The expression {text!r} ends with a name for its result, which is not used.",
            remedy="Leave the name out.",
        )
    if "*" in text and any("Star" in kind(node) for node in nodes(tree)):
        # It would also stand for the columns that this package adds to the rows.
        raise InvalidJob(
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


def _refuse(text: str, subject: str, problem: str) -> None:
    raise InvalidJob(
        f"The expression {text!r} cannot be computed for a single row: {subject} {problem}.",
        remedy="Use a subquery, or the query of a MERGE source, such as (SELECT max(a) FROM t).",
    )


def _problem(spark: SparkSession, name: str) -> str | None:
    name = name.lower()
    if name not in _groups:
        registry: Any = java_class(spark, f"{_CATALYST}analysis.FunctionRegistry").builtin()
        function = registry.lookupFunction(
            java_class(spark, f"{_CATALYST}FunctionIdentifier")(name)
        )
        _groups[name] = str(function.get().getGroup()) if function.isDefined() else ""
    return _UNGROUPED.get(name) or _GROUPS.get(_groups[name])


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
    def sql(self, expression: Expression) -> str: ...
    @overload
    def sql(self, expression: Expression | None) -> str | None: ...
    def sql(self, expression: Expression | None) -> str | None:
        """Return the text of a condition or a value, with literals for its parameters.

        Raises:
            InvalidJob: A column has no equivalent text, a parameter has no value, or the expression
                has no value for each row; or the expression runs a script, calls Java or reads
                files by their path.
        """
        if expression is None:
            return None
        text = as_sql(self.spark, expression) if isinstance(expression, Column) else expression
        text = bound_expression(self.spark, text, self.params)
        if not self.trusted:
            check_expression(self.spark, text)
        require_row_expression(self.spark, text)
        return text

    def all_sql(self, expressions: Mapping[str, Expression]) -> dict[str, str]:
        """Return the texts for the values of columns; see ``sql``.

        Raises:
            InvalidJob: The argument is not a mapping.
        """
        require_mapping(expressions, "The values of columns", '{"name": "upper(s.name)"}')
        return {name: self.sql(value) for name, value in expressions.items()}

    def clause(self, clause: Clause) -> Clause:
        """Replace the expressions of a merge clause by their texts; see ``sql``."""
        return with_expressions(clause, self.sql)


def as_sql(spark: SparkSession, column: Column) -> str:
    """Return the text of a column.

    Raises:
        InvalidJob: The column has no equivalent text.
    """
    # Texts of times are written and read in the time zone of the active session.
    sessions = java_sessions(spark)
    session_before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
    try:
        tree = java_expression(spark, column)
        if not _means_the_same(spark, tree):
            raise InvalidJob(
                f"{column} cannot be expressed in SQL.",
                remedy="Name columns by F.col('t.id') instead of by those of a frame, and call none "
                "of Python's functions; write lambdas and subqueries as a text.",
            )
        return _text(tree)
    finally:
        if session_before.isDefined():
            sessions.setActiveSession(session_before.get())
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
        read = java_session(spark).sessionState().sqlParser().parseExpression(tree.sql())
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
