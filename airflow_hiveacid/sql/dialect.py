"""The SQL that is read and that Spark is given: Spark's own, with every function left as it is."""

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

# Those whose arguments are no list: CAST(a AS int), EXTRACT(year FROM a).
_OWN_SYNTAX = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")


class HiveAcidSql(Spark):
    """Spark's SQL, read only to be written again.

    sqlglot translates between databases: it knows what functions mean, and writes some of them in
    other words. Between Spark and Spark that could only change a meaning, so it is told of none.
    """

    class Parser(SparkParser):
        """Takes every function for one that it does not know."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        # Else the elements of array(1, 2)[0] get lost: it is taken for the literal of a list.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        }

    class Generator(SparkGenerator):
        """Leaves a WITH where it stands, so that two of one name stay apart."""

        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[Any]] = set()


def to_spark(tree: exp.Expr) -> str:
    """A tree as text for Spark.

    Raises:
        sqlglot.errors.UnsupportedError: Spark has no words for it.
    """
    return tree.sql(
        dialect=HiveAcidSql,
        normalize_functions=False,
        comments=False,
        unsupported_level=ErrorLevel.RAISE,
    )
