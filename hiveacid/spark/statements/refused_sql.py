"""Refusal of SQL that runs a script, calls Java or a stored function, or reads files by their paths.

Otherwise any author of a job's condition or query could run programs with the rights of Spark. So
could everybody who may create a function in the metastore, whose Java class Spark would load. The check
uses Spark's own tree, since Spark runs exactly this tree: unknown parts are also refused.
"""

import re
from collections.abc import Container, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob, SqlError
from hiveacid.jobs.sources import QuerySource
from hiveacid.parser.views import FUNCTIONS
from hiveacid.rules.texts import did_you_mean
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_objects import class_of, is_instance, java_class, java_session
from hiveacid.spark.read.pruning import parsed
from hiveacid.spark.session import CALLING_JAVA, scan_session, sql_parser

_REMEDY = (
    "Name the files as a PathSource among the inputs, call functions that are built into Spark, or set"
    " trusted=True where the author of the SQL may run programs with the rights of Spark."
)
# Harmful expressions contain one of these: a script, a Java call, a computed name, or a subquery
# that reads something.
_SUSPECT = re.compile("USING|REFLECT|JAVA_METHOD|IDENTIFIER|SELECT|FROM|TABLE|VALUES|MAP|REDUCE")
_SPARK = "org.apache.spark.sql."
_EXPRESSIONS = f"{_SPARK}catalyst.expressions."
_LOGICAL_PLAN = f"{_SPARK}catalyst.plans.logical.LogicalPlan"
_DATA_SOURCE = f"{_SPARK}execution.datasources.DataSource"
_UNKNOWN_FORMAT = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source")
# Nodes without refusable descendants.
_LEAVES = (".Literal", ".UnresolvedAttribute")
# The parts of queries in the trees of Spark's parser.
_PLANS = frozenset(
    [
        "Aggregate",
        "Distinct",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "LocalRelation",
        "Offset",
        "OneRowRelation",
        "PipeOperator",
        "Pivot",
        "Project",
        "RebalancePartitions",
        "RelationTimeTravel",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "Unpivot",
        "UnresolvedHaving",
        "UnresolvedHint",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTVFAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedWith",
        "WithWindowDefinition",
    ]
)
_ANALYSIS = f"{_SPARK}catalyst.analysis."
_builtin: set[str] = set()
# Words before a bracket that call no function, and signs that no name ends with.
_KEYWORDS = frozenset(
    [
        "all",
        "and",
        "any",
        "between",
        "by",
        "case",
        "else",
        "exists",
        "filter",
        "having",
        "in",
        "is",
        "like",
        "not",
        "on",
        "or",
        "over",
        "rlike",
        "some",
        "then",
        "using",
        "when",
        "where",
        "within",
    ]
)
_SIGNS = frozenset("=<>!+-*/%,(&|^~[:")
_WITH_COMMENTS_OR_QUOTES = re.compile(r"--|/\*|`")
_HIDDEN = frozenset({"ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier"})


def check_expression(spark: SparkSession, text: str) -> None:
    """Refuse a condition or a value that does more than compute.

    Temporary functions of the user's session are permitted, as its owner has registered them.

    Raises:
        InvalidJob: The text runs a script, calls Java or a function that is stored in a catalog, or
            reads files by their path; or the text is invalid.
    """
    harmful = _SUSPECT.search(text.upper()) or any(name in text.lower() for name in CALLING_JAVA)
    if harmful or not _calls_only_known(text, builtin_functions(spark)):
        # Parse it as it will be run, without variables of the user's session.
        session = scan_session(spark)
        _Check(session, f"The expression {text!r}", spark).require(parsed(session, text))


def check_query(session: SparkSession, text: str) -> None:
    """Refuse a query that does more than read tables and compute; see ``check_expression``."""
    with translated_spark_errors("The source query"), sql_parser(session) as parser:
        tree = parser.parsePlan(text)
    _Check(session, "The source query").require(tree)


def _calls_only_known(text: str, functions: Container[str]) -> bool:
    """Return whether each call in a text is surely one of a known function; else a tree decides."""
    if _WITH_COMMENTS_OR_QUOTES.search(text):
        return "(" not in text
    for bracket in (index for index, sign in enumerate(text) if sign == "("):
        end = bracket
        while end and text[end - 1].isspace():
            end -= 1
        start = end
        while start and (text[start - 1].isalnum() or text[start - 1] in "_."):
            start -= 1
        word = text[start:end].lower()
        if word in _KEYWORDS or word in functions:
            continue
        if word or (end and text[end - 1] not in _SIGNS):
            return False
    return True


def parts_of(spark: SparkSession, node: Any) -> list[Any]:
    """Return the parts of an object in a tree of Spark's parser, whether they are nodes or not."""
    name = class_of(node)
    if name.startswith("scala.collection."):
        return [*elements(node.iterator())]
    is_part = name.startswith((_SPARK, "scala.Some", "scala.Tuple"))
    if is_part and is_instance(spark, node, "scala.Product"):
        return [*elements(node.productIterator())]
    return []


class _Check:
    def __init__(self, spark: SparkSession, subject: str, user: SparkSession | None = None) -> None:
        self._spark = spark
        self._user = user or spark
        self._session = java_session(spark)
        self._what = subject

    def require(self, tree: Any) -> None:
        pending = [tree]
        while pending:
            node = pending.pop()
            name = class_of(node)
            if name.startswith(_SPARK):
                if name.endswith(_LEAVES):
                    continue
                self._require_node(node, name)
            pending += parts_of(self._spark, node)

    def _require_node(self, node: Any, name: str) -> None:
        kind = name.rpartition(".")[2]
        match kind:
            case "ScriptTransformation":
                self._refuse("runs a script by TRANSFORM")
            case "UnresolvedFunction" | "UnresolvedTableValuedFunction" | "UnresolvedGenerator":
                self._require_function(node, kind)
            case "UnresolvedRelation":
                self._require_table(node)
            case _ if kind in _HIDDEN:
                self._refuse("computes a name by IDENTIFIER()")
            case _ if kind not in _PLANS and self._is_plan(node, name):
                self._refuse(f"contains {kind}, which is no part of a query")

    def _is_plan(self, node: Any, name: str) -> bool:
        return not name.startswith(_EXPRESSIONS) and is_instance(self._spark, node, _LOGICAL_PLAN)

    def _require_function(self, node: Any, kind: str) -> None:
        if kind == "UnresolvedGenerator":
            parts = str(node.name().unquotedString()).split(".")
        else:
            names = node.nameParts() if kind == "UnresolvedFunction" else node.name()
            parts = [str(name) for name in elements(names.iterator())]
        *where, function = parts
        if function.lower() in CALLING_JAVA:
            self._refuse(f"calls Java by {function}()")
        functions = builtin_functions(self._spark)
        if where or not (
            function.lower() in functions
            or _is_temporary(self._spark, function)
            or _is_temporary(self._user, function)
        ):
            name = ".".join(parts)
            self._refuse(
                f"calls {name}(), which is no function of Spark", did_you_mean(name, functions)
            )

    def _require_table(self, node: Any) -> None:
        """Refuse names that Spark resolves as files: a format, then a path."""
        parts = node.multipartIdentifier()
        if parts.size() != 2:
            return
        source = java_class(self._spark, _DATA_SOURCE)
        try:
            source.lookupDataSource(parts.head(), self._session.sessionState().conf())
        except (PySparkException, Py4JError) as error:
            if any(mark in str(error) for mark in _UNKNOWN_FORMAT):
                return  # It is the name of a database.
        self._refuse(f"reads files by their path, {node.name()}")

    def _refuse(self, problem: str, similar: str = "") -> None:
        raise InvalidJob(f"{self._what} {problem}.", remedy=similar or _REMEDY)


def builtin_functions(spark: SparkSession) -> frozenset[str]:
    """Return the names of Spark's functions, in lower case; they are the same in every session."""
    if not _builtin:
        for registry in ("FunctionRegistry", "TableFunctionRegistry"):
            functions = java_class(spark, f"{_ANALYSIS}{registry}").builtin().listFunction()
            names = str(functions.mkString("\n")).lower()
            # Spark 4.2 lists them with their place.
            _builtin.update(names.replace("system.builtin.", "").split("\n"))
    return frozenset(_builtin)


def _is_temporary(spark: SparkSession, function: str) -> bool:
    name = java_class(spark, f"{_SPARK}catalyst.FunctionIdentifier")(function)
    session = java_session(spark)
    return bool(session.sessionState().catalog().isTemporaryFunction(name))


def elements(iterator: Any) -> Iterator[Any]:
    """Yield the elements of an iterator of Scala."""
    while iterator.hasNext():
        yield iterator.next()


# The check of a view by the tree that Spark's parser has made of its text.
#
# The texts of views are written by other users. SQL has many readers, and a text that another
# parser finds harmless may be something else to Spark. So the decision is about the tree that
# Spark runs: all of its nodes are on a list, and all of its relations are inputs of the view.


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
    except InvalidJob as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error
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
        is_node = kind and is_instance(spark, node, _TREE_NODE)
        if is_node and (problem := _refused(spark, node, kind, relations)) is not None:
            raise SqlError(
                f"The query of the view {view} cannot be read. {problem}, which is not allowed in a view.",
                remedy="Read the tables of the view by a query of your own.",
            )
        pending += [(part, relations) for part in parts_of(spark, node)]


def _refused(spark: SparkSession, node: Any, kind: str, relations: frozenset[str]) -> str | None:
    """Describe a node that a view may not contain."""
    if kind not in _NODES:
        return f"It contains {kind}"
    if kind == "UnresolvedRelation":
        parts = node.multipartIdentifier()
        is_input = parts.size() == 1 and parts.head().lower() in relations
        if not is_input or node.isStreaming() or not node.options().isEmpty():
            return f"It reads {node.name()} in another way than by the name of a table"
    if kind in ("UnresolvedFunction", "UnresolvedGenerator"):
        is_value = kind == "UnresolvedFunction"
        name = str(node.nameParts().mkString(".") if is_value else node.name().unquotedString())
        # A function that this version of Spark lacks could be one of a catalog.
        if name.lower() not in _FUNCTIONS or name.lower() not in builtin_functions(spark):
            return f"It calls {name}()"
    return None
