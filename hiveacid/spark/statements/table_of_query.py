"""CREATE VIEW, and the empty table of CREATE TABLE ... AS SELECT, from a query's columns."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob, TableExists
from hiveacid.jobs.definitions.create_table_as import CreateTableAsJob
from hiveacid.jobs.definitions.ddl_jobs import ColumnSpec
from hiveacid.jobs.definitions.table_properties import RUN_PROPERTY
from hiveacid.jobs.definitions.view_job import CreateViewJob
from hiveacid.jobs.options.run_token import is_same_run
from hiveacid.jobs.reports.report import RunReport
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_tokens import names_in
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.source import SourceFrame, SourceInputs
from hiveacid.spark.statements.text_types import columns_of_query
from hiveacid.spark.statements.view_check import check_view
from hiveacid.sql.outputs import with_names
from hiveacid.sql.views import view_query
from hiveacid.tables.definitions.tables import create_table, find_table
from hiveacid.tables.definitions.views import create_view, existing_view


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
    read = {each.name for each in query.inputs.values() if isinstance(each, TableSource)}
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
    listed = ", ".join(
        f"`{column.name}` AS `{name}`" for column, name in zip(found, names, strict=True)
    )
    expanded = f"SELECT {listed} FROM ({text}) `{ref.name}`"
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
    taken = {*lower, *names_in(text)}
    others = (name for name in map("column_{}".format, count()) if name not in taken)
    aliases = [
        None if lower.count(name) == 1 and re.fullmatch(r"\w+", name) else next(others)
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
    spark: SparkSession, client: MetastoreClient, job: CreateTableAsJob
) -> RunReport | None:
    """Create the table of a query, unless an earlier attempt of the run has created it.

    Args:
        spark: The session, which is not changed.
        client: The metastore.
        job: The table to create.

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
            found = columns_of_query(spark, client, ref, job.source)
            columns = [ColumnSpec(each.name, each.type) for each in found]
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
