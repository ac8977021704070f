"""The char and varchar types of a query's columns, which Spark replaces by string by default.

Spark can also keep them while it analyzes a query. But then it gives the result of a function such
as ``upper`` or ``replace`` the type of the argument, although the result can be longer. So a column
keeps its length only if its values come from columns and casts of a known length, through
expressions that return one of their arguments or a part of it.
"""

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import SparkJobFailed, UserError
from hiveacid.jobs.sources import QuerySource
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.spark_trees import kind
from hiveacid.spark.spark_versions import java_class
from hiveacid.spark.statements.schema_growth import new_columns
from hiveacid.spark.statements.source import SourceFrame

# These return one of their arguments, or a part of one, or a nested value of them.
_PASSING = frozenset(
    {
        *("Alias", "Coalesce", "If", "CaseWhen", "Nvl", "Nvl2", "NullIf"),
        *("GetStructField", "GetArrayItem", "GetMapValue", "ElementAt", "GetArrayStructFields"),
        *("CreateArray", "CreateMap", "CreateNamedStruct", "MapKeys", "MapValues"),
        *("AggregateExpression", "Min", "Max", "MinBy", "MaxBy", "First", "Last", "AnyValue"),
        *("CollectList", "CollectSet"),
    }
)
_RELATIONS = frozenset({"LogicalRDD", "LocalRelation", "LogicalRelation", "OneRowRelation"})


def columns_of_query(
    spark: SparkSession, client: MetastoreClient, ref: TableRef, query: QuerySource
) -> tuple[HiveColumn, ...]:
    """The columns of a table that is created for the rows of a query.

    A char or varchar column whose length is not known is a string column.

    Raises:
        TypeMismatch: A column of the query has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
    """
    plain = new_columns(ref, SourceFrame(spark, client, query).empty().schema)
    try:
        frame = SourceFrame(spark, client, query, lengths=True).empty()
        declared = new_columns(ref, frame.schema)
        known = _columns_of_known_length(frame)
    except (UserError, SparkJobFailed, PySparkException, Py4JError):
        # Spark analyzed the query without the lengths, so it is valid.
        return plain
    triples = zip(declared, plain, known, strict=True)
    return tuple(column if is_known else text for column, text, is_known in triples)


def _columns_of_known_length(frame: DataFrame) -> list[bool]:
    """Whether the declared lengths apply to all values, for each column of a frame."""
    analyzed = frame._jdf.queryExecution().analyzed()
    cast = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.expressions.Cast")
    return _Plans(cast.USER_SPECIFIED_CAST()).outputs(analyzed)


class _Plans:
    """The columns of known length in a plan and all plans below it."""

    def __init__(self, by_user: Any) -> None:
        self._by_user = by_user
        self._known: dict[int, bool] = {}
        self._common: dict[int, list[bool]] = {}

    def outputs(self, plan: Any) -> list[bool]:
        """Determine the known lengths for the output of a plan, in its order."""
        match kind(plan):
            case "WithCTE":
                for definition in _listed(plan.cteDefs()):
                    self._common[definition.id()] = self.outputs(definition.child())
                return self.outputs(plan.plan())
            case "CTERelationRef":
                # A recursive query refers to itself before its own columns are known.
                given = self._common.get(plan.cteId())
                return self._noted(plan, given or [False] * plan.output().size())
            case name if name in _RELATIONS:
                return self._noted(plan, [True] * plan.output().size())
        below = [self.outputs(child) for child in _listed(plan.children())]
        match kind(plan):
            case "Union":
                return self._noted(plan, [all(each) for each in zip(*below, strict=True)])
            case "Project":
                self._define(plan.projectList())
            case "Aggregate":
                self._define(plan.aggregateExpressions())
        return [self._is_known(each) for each in _listed(plan.output())]

    def _noted(self, plan: Any, outputs: list[bool]) -> list[bool]:
        for attribute, known in zip(_listed(plan.output()), outputs, strict=True):
            self._known[attribute.exprId().id()] = known
        return outputs

    def _define(self, expressions: Any) -> None:
        for each in _listed(expressions):
            if kind(each) == "Alias":
                self._known[each.exprId().id()] = self._is_known(each)

    def _is_known(self, expression: Any) -> bool:
        if "char(" not in expression.dataType().catalogString():
            return True
        match kind(expression):
            case "AttributeReference":
                return self._known.get(expression.exprId().id(), False)
            case "Cast" if expression.getTagValue(self._by_user).isDefined():
                return True
            case "Cast":
                return self._is_known(expression.child())
            case name if name in _PASSING:
                return all(self._is_known(each) for each in _listed(expression.children()))
        return False


def _listed(sequence: Any) -> Sequence[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
