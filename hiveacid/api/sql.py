"""sql: statements of SQL by a program, without Spark where that is possible."""

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from hiveacid.api.engines import Engines
from hiveacid.api.explained import explain
from hiveacid.api.rows import without_zones
from hiveacid.api.selection import scanned
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import CompactReport, RunReport
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser import questions
from hiveacid.parser.script import to_steps
from hiveacid.public_names import requiring_pyspark
from hiveacid.records.history_entries import History
from hiveacid.records.table_history import table_history
from hiveacid.tables.definitions.answers import Answer, answer
from hiveacid.tables.locations import require_job_access
from hiveacid.upkeep.table_detail import TableDetail, table_detail
from hiveacid.writes.statement import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SqlResult: TypeAlias = pa.Table | Answer | RunReport | CompactReport | History | TableDetail


def sql(
    text: str,
    params: Parameters | None = None,
    *,
    metastore: str | MetastoreOptions | None = None,
    database: str = "default",
    run_in: Place | str = "auto",
    spark: "SparkSession | None" = None,
    options: WriteOptions | None = None,
    all_rows: bool = False,
) -> SqlResult:
    """Run statements, which are separated by semicolons, and return the result of the last one.

    Each is a transaction of its own. Small changes, definitions, and queries of the columns of one
    table run in this process; others run on Spark. ``session`` returns frames of Spark instead, and
    also knows the tables and views of Spark.

    Example::

        hiveacid.sql("UPDATE sales.orders SET status = 'late' WHERE id = :id", {"id": 7})
        hiveacid.sql("SELECT id, status FROM sales.orders LIMIT 10").to_pandas()

    Args:
        text: The statements. The text is trusted: pass values as parameters.
        params: The values of parameters: ``{"id": 7}`` for ``:id``.
        metastore: The metastore's uri, or all its options; by default those of the environment, as
            for the command line: HIVEACID_METASTORE, HIVEACID_AUTH_MECHANISM, and so on.
        database: Where tables are that are named without a database.
        run_in: Where changes run; see ``AcidTable``.
        spark: The session; by default the active one, or a new one once it is needed.
        options: The options of writes.
        all_rows: Let UPDATE and DELETE without WHERE change all rows.

    Returns:
        A table of Arrow for a query; the report of a change; for SHOW, DESCRIBE, and EXPLAIN an
        answer, whose ``rows`` and ``details`` are plain values, or what ``AcidTable.history`` and
        ``detail`` return.

    Raises:
        SqlError: A statement is invalid or unsupported; the message contains its position.
        SparkNeeded: A change requires Spark, and ``run_in`` is "worker".
    """
    steps = to_steps(text, database, params or {}, trusted=True, all_rows=all_rows)
    if not steps:
        raise InvalidJob("The text has no statement.")
    given = MetastoreOptions.of_environment() if metastore is None else metastore
    engines = Engines(given, spark, run_in, options, ())
    with engines.client:
        for number, step in enumerate(steps, start=1):
            try:
                result = _result(engines, step)
            except HiveAcidError as error:
                if len(steps) > 1:
                    error.what = f"Statement {number} of {len(steps)}: {error.what}"
                raise
    return result


def _result(engines: Engines, step: "ScriptedJob | questions.Question") -> SqlResult:
    if isinstance(step, ScriptedJob):
        return engines.run(step)
    client = engines.client
    require_job_access(client, program_user(), step)
    match step:
        case questions.Select(query):
            if (rows := scanned(step, client.options, step.limit)) is not None:
                return rows
            with requiring_pyspark("The query"):
                from hiveacid.spark.run import query_rows
            return without_zones(query_rows(engines.spark, client.options, query, None))
        case questions.Explain(explained) if isinstance(explained, ScriptedJob):
            return explain(client, engines.bound(explained))
    return answered(client, step)


def answered(
    client: MetastoreClient, question: questions.Question
) -> Answer | History | TableDetail:
    """Return the answer of a question that is not a query.

    Args:
        client: The metastore.
        question: The question.
    """
    match question:
        case questions.ShowHistory(ref, limit):
            return History(ref.full_name, table_history(client, ref, limit=limit))
        case questions.DescribeDetail(ref):
            return table_detail(client, ref)
        case questions.Explain(explained):
            return explain(client, explained)
    return answer(client, question)
