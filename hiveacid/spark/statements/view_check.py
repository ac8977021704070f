"""The check of a view by the tree that Spark's parser has made of its text.

The texts of views are written by other users. SQL has many readers, and a text that another parser
finds harmless may be something else to Spark. So the decision is about the tree that Spark runs: all
of its nodes are on a list, and all of its relations are inputs of the view.
"""

from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from hiveacid.errors import BadCondition, SqlError
from hiveacid.jobs.sources import QuerySource
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.session import sql_parser
from hiveacid.spark.statements.refused_sql import (
    builtin_functions,
    class_of,
    elements,
    parts_of,
)
from hiveacid.sql.view_syntax import FUNCTIONS

# The last two have a syntax of their own.
_FUNCTIONS = FUNCTIONS | {"between", "extract"}
_TREE_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"
# Spark's names of plans and expressions. They compute something from rows, and run nothing else;
# the names of functions and relations are checked apart.
_NODES_TEXT = """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LocalLimit LocalRelation
    Offset OneRowRelation Project RepartitionByExpression Sort SubqueryAlias Union UnresolvedHaving
    UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedWith
    WithWindowDefinition

    Add AggregateExpression Alias And AnyValue AttributeReference BitwiseAnd BitwiseNot BitwiseOr
    BitwiseXor CaseWhen Cast Coalesce Concat CreateNamedStruct Cube CurrentDate CurrentRow$ CurrentTimestamp Divide
    EqualNullSafe EqualTo Exists First GreaterThan GreaterThanOrEqual GroupingSets ILike In InSubquery
    IntegralDivide IsNotNull IsNotUnknown IsNull IsUnknown LambdaFunction Last LessThan
    LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower MultiAlias Multiply Not NotLikeAll
    NotLikeAny Or Overlay PercentileCont PercentileDisc RLike Remainder Rollup ScalarSubquery
    SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame
    StringLocate StringTrim StringTrimLeft StringTrimRight Substring Subtract TimestampAdd
    TimestampDiff UnaryMinus UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias
    UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator
    UnresolvedNamedLambdaVariable UnresolvedOrdinal UnresolvedStar UnresolvedStarExceptOrReplace
    UnresolvedWindowExpression UnspecifiedFrame$ WindowExpression WindowSpecDefinition
    WindowSpecReference
"""
_NODES = frozenset(_NODES_TEXT.split())


def check_view(spark: SparkSession, view: str, query: QuerySource) -> None:
    """Refuse a view that does more than compute something from the rows of its inputs.

    Args:
        spark: The session that will run the query.
        view: The name of the view.
        query: The query, whose inputs are the only relations that it may read.

    Raises:
        SqlError: Spark cannot parse the query, or it contains something that is invalid in a view.
    """
    try:
        with translated_spark_errors("It"), sql_parser(spark) as parser:
            tree = parser.parsePlan(query.sql)
    except BadCondition as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error
    gateway = spark.sparkContext._gateway
    pending: list[tuple[Any, frozenset[str]]] = [(tree, frozenset(map(str.lower, query.inputs)))]
    while pending:
        node, relations = pending.pop()
        kind = class_of(node).rpartition(".")[2]
        if kind == "UnresolvedWith":
            # Each query of a WITH sees those before it.
            is_recursive = node.productArity() > 2 and node.allowRecursion()
            for definition in elements(node.cteRelations().iterator()):
                extended = relations | {definition._1().lower()}
                pending.append((definition._2(), extended if is_recursive else relations))
                relations = extended
            pending.append((node.child(), relations))
            continue
        is_node = kind and is_instance_of(gateway, node, _TREE_NODE)
        if is_node and (what := _refused(spark, node, kind, relations)) is not None:
            raise SqlError(
                f"The query of the view {view} cannot be read. {what}, which is not allowed in a view.",
                remedy="Read the tables of the view by a query of your own.",
            )
        pending += [(part, relations) for part in parts_of(spark, node)]


def _refused(spark: SparkSession, node: Any, kind: str, relations: frozenset[str]) -> str | None:
    """Describe a node that a view may not contain."""
    if kind not in _NODES:
        return f"It contains {kind}"
    if kind == "UnresolvedRelation":
        parts = node.multipartIdentifier()
        known = parts.size() == 1 and parts.head().lower() in relations
        if not known or node.isStreaming() or not node.options().isEmpty():
            return f"It reads {node.name()} in another way than by the name of a table"
    if kind in ("UnresolvedFunction", "UnresolvedGenerator"):
        is_value = kind == "UnresolvedFunction"
        name = str(node.nameParts().mkString(".") if is_value else node.name().unquotedString())
        # A function that this version of Spark lacks could be one of a catalog.
        if name.lower() not in _FUNCTIONS or name.lower() not in builtin_functions(spark):
            return f"It calls {name}()"
    return None
