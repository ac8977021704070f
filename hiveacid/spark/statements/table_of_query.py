"""CREATE VIEW, and the empty table of CREATE TABLE ... AS SELECT, from a query's columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import InvalidJob, JobFailed, TableExists, UserError
from hiveacid.jobs.definition_jobs import ColumnSpec, CreateTableAsJob, CreateViewJob
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.table_properties import RUN_PROPERTY
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.views import view_query, with_names
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import is_same_run
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.sql_tokens import names_in
from hiveacid.spark.java_objects import java_class, java_frame
from hiveacid.spark.read.pruning import kind
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.insert import new_columns
from hiveacid.spark.statements.refused_sql import check_view
from hiveacid.spark.statements.source import SourceFrame, SourceInputs
from hiveacid.tables.definitions.tables import create_table, find_table
from hiveacid.tables.definitions.views import create_view, existing_view

# The char and varchar types of a query's columns, which Spark replaces by string by default.
#
# Spark can also keep them while it analyzes a query. But then it gives the result of a function
# such as ``upper`` or ``replace`` the type of the argument, although the result can be longer. So
# a column keeps its length only if its values come from columns and casts of a known length,
# through expressions that return one of their arguments or a part of it.


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
    spark: SparkSession,
    client: MetastoreClient,
    ref: TableRef,
    query: QuerySource,
    batches: Mapping[str, DataFrame] | None = None,
) -> tuple[HiveColumn, ...]:
    """The columns of a table that is created for the rows of a query.

    A char or varchar column whose length is not known is a string column.

    Raises:
        TypeMismatch: A column of the query has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
    """
    plain = new_columns(ref, SourceFrame(spark, client, query, batches).empty().schema)
    try:
        frame = SourceFrame(spark, client, query, batches, lengths=True).empty()
        declared = new_columns(ref, frame.schema)
        lengths = _columns_of_known_length(frame)
    except (UserError, JobFailed, PySparkException, Py4JError):
        # Spark analyzed the query without the lengths, so it is valid.
        return plain
    triples = zip(declared, plain, lengths, strict=True)
    return tuple(column if is_known else text for column, text, is_known in triples)


def _columns_of_known_length(frame: DataFrame) -> list[bool]:
    """Whether the declared lengths apply to all values, for each column of a frame."""
    analyzed = java_frame(frame).queryExecution().analyzed()
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
                outputs_of_cte = self._common.get(plan.cteId())
                return self._noted(plan, outputs_of_cte or [False] * plan.output().size())
            case name if name in _RELATIONS:
                return self._noted(plan, [True] * plan.output().size())
        outputs_below = [self.outputs(child) for child in _listed(plan.children())]
        match kind(plan):
            case "Union":
                return self._noted(
                    plan,
                    [
                        all(outputs_at_place)
                        for outputs_at_place in zip(*outputs_below, strict=True)
                    ],
                )
            case "Project":
                self._define(plan.projectList())
            case "Aggregate":
                self._define(plan.aggregateExpressions())
        return [self._is_known(attribute) for attribute in _listed(plan.output())]

    def _noted(self, plan: Any, outputs: list[bool]) -> list[bool]:
        for attribute, is_known in zip(_listed(plan.output()), outputs, strict=True):
            self._known[attribute.exprId().id()] = is_known
        return outputs

    def _define(self, expressions: Any) -> None:
        for expression in _listed(expressions):
            if kind(expression) == "Alias":
                self._known[expression.exprId().id()] = self._is_known(expression)

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
                return all(self._is_known(child) for child in _listed(expression.children()))
        return False


def _listed(sequence: Any) -> Sequence[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def create_view_of(spark: SparkSession, client: MetastoreClient, job: CreateViewJob) -> RunReport:
    """Create a view, or replace its query.

    The stored query names the current columns, so that a ``*`` in it has the same meaning after a
    table gets more columns.

    Raises:
        SqlError: The query contains a construct that is invalid in a view.
        InvalidJob: Two columns have the same name, or the job omits a table that the query reads.
        TypeMismatch: A column of the query has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
        UnsupportedTable: The view would read itself.
    """
    ref = TableRef.parse(job.target)
    text = job.expanded
    query = view_query(text, ref.database, ref.full_name)
    read = {input_.name for input_ in query.inputs.values() if isinstance(input_, TableSource)}
    if read != {name.lower() for name in job.reads}:
        raise InvalidJob(f"reads must name the tables of the query: {', '.join(sorted(read))}.")
    existing_view(client, ref, job.mode)
    session = scan_session(spark)
    check_view(session, ref.full_name, query)
    # Also detects recursion through other views.
    SourceInputs(session, client, query.inputs, (ref.full_name,))
    if job.columns:
        text = _with_different_names(text, SourceFrame(spark, client, query).empty().columns)
        query = view_query(text, ref.database, ref.full_name)
    found = columns_of_query(spark, client, ref, query)
    names = [name.lower() for name in job.columns] or [column.name for column in found]
    if len(names) != len(found) or len(set(names)) < len(names):
        raise InvalidJob(
            f"The view {ref} needs {len(found)} columns of different names, not {', '.join(names)}."
        )
    aliases = ", ".join(
        f"{quoted(column.name)} AS {quoted(name)}"
        for column, name in zip(found, names, strict=True)
    )
    expanded = f"SELECT {aliases} FROM ({text}) {quoted(ref.name)}"
    check_view(session, ref.full_name, view_query(expanded, ref.database, ref.full_name))
    comments = {name.lower(): comment for name, comment in job.column_comments.items()}
    columns = [
        replace(column, name=name, comment=comments.get(name))
        for column, name in zip(found, names, strict=True)
    ]
    warnings = create_view(client, ref, job, columns, expanded)
    return RunReport(job="create_view", target=ref.full_name, warnings=warnings)


def _with_different_names(text: str, names: Sequence[str]) -> str:
    """Return a query whose columns can be named from outside.

    Columns without a plain name, and those with equal names, get an alias that occurs nowhere else in
    the query. Other names stay: ORDER BY and GROUP BY may refer to them.
    """
    lower = [name.lower() for name in names]
    used_names = {*lower, *names_in(text)}
    new_names = (name for name in map("column_{}".format, count()) if name not in used_names)
    aliases = [
        None if lower.count(name) == 1 and re.fullmatch(r"\w+", name) else next(new_names)
        for name in lower
    ]
    if not any(aliases):
        return text
    different = with_names(text, aliases)
    if different is None:
        raise InvalidJob(
            f"The query returns columns without different names: {', '.join(names)}.",
            remedy="Give each of them a name by AS, in place of a *.",
        )
    return different


def create_table_of(
    spark: SparkSession,
    client: MetastoreClient,
    job: CreateTableAsJob,
    batches: Mapping[str, DataFrame] | None = None,
) -> RunReport | None:
    """Create the table of a query, unless an earlier attempt of the run has created it.

    Args:
        spark: The session, which is not changed.
        client: The metastore.
        job: The table to create.
        batches: Tables and views of a session that the query reads, by their names.

    Returns:
        The report, if another table of the name exists and must not be changed; None if rows must
        still be inserted.

    Raises:
        TableExists: Another table of the name exists.
        TypeMismatch: A column of the query has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
    """
    ref = TableRef.parse(job.target)
    ours = False
    try:
        table = find_table(client, ref)
        if table is None:
            found = columns_of_query(spark, client, ref, job.source, batches)
            columns = [ColumnSpec(column.name, column.type) for column in found]
            create_table(client, ref, job.creation(columns))
        elif not job.run_token or (by := table.parameters.get(RUN_PROPERTY)) != job.run_token:
            # The table may lack the rows that the other statement was to insert.
            ours = bool(job.run_token and by and is_same_run(by, job.run_token))
            remedy = "Drop it: another statement of this run has created it." if ours else None
            raise TableExists(f"{ref.full_name} is there already.", remedy=remedy)
    except TableExists:
        if ours or not job.if_not_exists:
            raise
        warning = f"{ref.full_name} was there already, and is left as it was."
        return RunReport(job=job.tag, target=ref.full_name, warnings=(warning,))
    return None
