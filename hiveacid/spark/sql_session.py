"""SQL from Python: one session for transactional tables and for those that Spark has itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hiveacid.errors import HiveAcidError, InvalidJob, SqlError, UserError
from hiveacid.jobs.definition_jobs import ConvertJob, DatabaseJob
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.job import Job, ScriptedJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import CompactReport, Report, RunReport, ScriptReport
from hiveacid.jobs.sources import BatchSource, Input, QuerySource, Source, TableSource, inputs_of
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.transaction import Lease
from hiveacid.parser import questions
from hiveacid.parser.script import is_use, statements, step_of
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.statements import is_of_spark
from hiveacid.parser.words import keyword_of
from hiveacid.progress import PhaseObserver
from hiveacid.records.history_entries import History
from hiveacid.records.table_history import table_history
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.sql_tokens import parameters_of
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.python.frames import FrameReads
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import check_readable
from hiveacid.spark.run import Driver, execute
from hiveacid.spark.session import (
    APPLICATION_SETTINGS,
    TIME_ZONE,
    cloned_session,
    in_session,
    scan_session,
    session_holding,
)
from hiveacid.spark.spark_versions import from_rows
from hiveacid.spark.statements.conditions import bound_query
from hiveacid.spark.statements.source import SourceInputs
from hiveacid.tables.definitions.answers import Answer, answer
from hiveacid.tables.definitions.tables import find_table
from hiveacid.tables.locations import require_job_access
from hiveacid.upkeep.table_detail import TableDetail, table_detail
from hiveacid.writes.statement import WriteOptions

JobT = TypeVar("JobT", bound=Job)
SqlResult = DataFrame | RunReport | CompactReport | ScriptReport | History | TableDetail
# Spark has more forms of these, which read no rows and change nothing.
_ASKING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")


def session(
    spark: SparkSession | None = None,
    metastore: str | MetastoreOptions | None = None,
    *,
    options: WriteOptions | None = None,
) -> "AcidSession":
    """Return a session that runs the SQL of this package, and everything else by ``spark.sql``.

    Example::

        sales = session(spark, "thrift://hms:9083")
        sales.sql("SELECT status, count(*) FROM sales.orders GROUP BY status").show()
        sales.sql("UPDATE sales.orders SET status = 'late' WHERE id = :id", {"id": 7})

    Args:
        spark: The session, whose settings are not changed; by default the active one, or a new one.
        metastore: The metastore's uri, or all its options; by default those of the environment, as
            for the command line: HIVEACID_METASTORE, HIVEACID_AUTH_MECHANISM, and so on.
        options: The options of writes.

    Raises:
        UserError: No metastore is named.
    """
    return AcidSession(spark or SparkSession.Builder().getOrCreate(), metastore, options)


class AcidSession:
    """A Spark session with the transactional tables of a metastore; see ``session``.

    As for ``AcidTable``, the frames of a query keep cleaners away from their files until the end of
    the ``with`` statement, or until ``close``; without either, until they are garbage-collected.

    Attributes:
        spark: The session of Spark.
    """

    def __init__(
        self,
        spark: SparkSession,
        metastore: str | MetastoreOptions | MetastoreClient | None = None,
        options: WriteOptions | None = None,
    ) -> None:
        """Use ``session``; only sessions that share a client need this."""
        self.spark = spark
        if not isinstance(metastore, MetastoreClient):
            metastore = MetastoreOptions.of_environment() if metastore is None else metastore
            metastore = MetastoreClient(MetastoreOptions.of(metastore))
        self._client = metastore
        self._options = options or WriteOptions()
        self._reads = FrameReads(self._client)
        self._database: str | None = None

    def __enter__(self) -> Self:
        self._reads.keeps_all = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._reads.close(verified=kind is None)

    def close(self) -> None:
        """End the transactions of the frames that were read, and close the connection.

        Raises:
            TransactionAborted: The metastore has aborted a transaction, so that a frame may have
                returned other rows.
            TableReplaced: A table was replaced before the end of a transaction.
        """
        self._reads.close(verified=True)

    @property
    def database(self) -> str:
        """The database of tables that are named without one; ``USE`` sets it."""
        return self._database or self.spark.catalog.currentDatabase()

    def sql(
        self, text: str, params: Parameters | None = None, *, all_rows: bool = False
    ) -> SqlResult:
        """Run statements, which are separated by semicolons, and return the result of the last one.

        Statements on transactional tables, ``CREATE TABLE`` without ``USING``, and ``SHOW`` of
        databases, tables and views are those of this package, on the metastore. All transactional
        tables of a query are read in one transaction. Sources may also be temporary views, and
        tables that only Spark has; a temporary view precedes a table of the same name. A statement
        without any transactional table, such as ``SET`` or ``CREATE TEMPORARY VIEW``, is run by
        ``spark.sql``. The text is trusted like any text for ``spark.sql``: pass values as parameters.

        Args:
            text: The statements.
            params: The values of parameters: ``{"id": 7}`` for ``:id``.
            all_rows: Let UPDATE and DELETE without WHERE change all rows.

        Returns:
            The report of a change, or of all changes if there is nothing else; a frame of a query,
            ``SHOW``, or ``DESCRIBE``; or what ``AcidTable.history`` and ``detail`` return.

        Raises:
            SqlError: A statement is invalid or unsupported; the message contains its position.
            InvalidJob: A statement of Spark would read a transactional table.
        """
        parsed_statements = [
            *statements(text, self.database, params, trusted=True, all_rows=all_rows)
        ]
        if not parsed_statements:
            raise InvalidJob("The text has no statement.")
        results: list[SqlResult] = []
        for number, statement in enumerate(parsed_statements, start=1):
            try:
                results.append(self._run(replace(statement, of_session=self._is_read_by_spark)))
            except HiveAcidError as error:
                if len(parsed_statements) > 1:
                    error.what = f"Statement {number} of {len(parsed_statements)}: {error.what}"
                raise
        reports = [result for result in results if isinstance(result, RunReport | CompactReport)]
        if 1 < len(reports) == len(results):
            return ScriptReport.of(reports[0].target, reports)
        return results[-1]

    def read(self, names: Mapping[str, TableSource]) -> tuple[dict[str, DataFrame], Lease | None]:
        """Read transactional tables, and views that read such, in one transaction.

        Args:
            names: The sources by the names of their frames; those of other tables, or of none, are
                left out.

        Returns:
            The frames, and the object that keeps the transaction open.
        """
        sources: dict[str, Input] = {
            name: source for name, source in names.items() if self.is_transactional(source.name)
        }
        if not sources:
            return {}, None
        require_job_access(self._client, program_user(), [*sources.values()])
        inputs = SourceInputs(scan_session(self.spark), self._client, sources)
        return self._reads.frame(
            self.spark,
            self._readable_tables(inputs),
            lambda reader, _: {name: inputs.frame(name, reader) for name in sources},
        )

    def change(
        self, job: ScriptedJob, batches: Mapping[str, DataFrame] | None = None
    ) -> RunReport | CompactReport:
        """Run a job.

        Args:
            job: The job, without a metastore.
            batches: The rows of its batches; by default those are views and tables of the session.

        Raises:
            HiveAcidError: The error that the job ends with.
        """
        bound = self._bound_job(replace(job, **self._options.options))
        batches = self._batches(_inputs_of(bound)) if batches is None else batches
        driver = Driver(self.spark, self._client.options, batches=batches, log=False)
        report = execute(bound, driver)
        assert isinstance(report, RunReport | CompactReport)
        if report.error is not None:
            raise report.error.exception()
        return report

    def call(self, job: Job, observers: Sequence[PhaseObserver] = ()) -> Report:
        """Run a job as an application does: with the options of the job, in the time zone UTC.

        Args:
            job: The job, without a metastore.
            observers: Observers of its phases.

        Raises:
            HiveAcidError: The error that the job ends with, unless the report contains it.
        """
        bound = self._bound_job(job)
        session = cloned_session(self.spark)
        session.conf.set(TIME_ZONE, APPLICATION_SETTINGS[TIME_ZONE])
        return execute(bound, Driver(session, self._client.options, observers, log=False))

    def is_transactional(self, name: str) -> bool:
        """Whether a full name is that of a transactional table, or of a view that reads one."""
        table = find_table(self._client, TableRef.parse(name))
        return table is not None and self._is_transactional(table)

    def _bound_job(self, job: JobT) -> JobT:
        """Return a job with the metastore, after its checks."""
        bound = replace(job, metastore=self._client.options)
        bound.validate()
        require_job_access(self._client, program_user(), bound)
        # A later frame sees the files of a compaction.
        self._reads.renew()
        return bound

    def _run(self, statement: SqlStatement) -> SqlResult:
        if is_use(statement):
            return self._use(statement)
        if is_of_spark(statement):
            return self._by_spark(statement)
        try:
            step = step_of(statement)
        except SqlError:
            if keyword_of(statement.tokens[0]) in _ASKING:
                return self._by_spark(statement)
            raise
        if self._is_left_to_spark(step):
            return self._by_spark(statement)
        if isinstance(step, ScriptedJob):
            return self.change(step)
        require_job_access(self._client, program_user(), step)
        match step:
            case questions.Select(query):
                return self._query(query)
            case questions.ShowHistory(ref, limit):
                return History(ref.full_name, table_history(self._client, ref, limit=limit))
            case questions.DescribeDetail(ref):
                return table_detail(self._client, ref)
            case questions.Explain():
                statement.refuse(
                    None,
                    "A session does not explain statements on transactional tables.",
                    "Use `hiveacid sql`, or explain() of a frame.",
                )
        return self._frame(answer(self._client, step))

    # The decision between this package and Spark

    def _is_left_to_spark(self, step: questions.Explained) -> bool:
        """Whether no table of a statement needs this package.

        Raises:
            InvalidJob: Spark would write the rows of a transactional table, which it cannot read.
        """
        match step:
            case questions.Explain(explained):
                return self._is_left_to_spark(explained)
            case questions.Select(query):
                return all(isinstance(input_, BatchSource) for input_ in query.inputs.values())
            case ScriptedJob():
                if step.creates or isinstance(step, DatabaseJob | ConvertJob):
                    return False
                if not all(map(self._is_spark_table, step.tables)):
                    return False
                unread = [tables for tables in _inputs_of(step) if isinstance(tables, TableSource)]
                if unread:
                    raise InvalidJob(
                        f"{step.tables[0]} is a table of Spark, which cannot read {unread[0].name}.",
                        remedy="Write the frame of a query: session.sql('SELECT …').write.",
                    )
                return True
        table = getattr(step, "table", None)
        return table is not None and self._is_spark_table(table.full_name)

    def _is_spark_table(self, name: str) -> bool:
        """Whether the table that a statement changes or describes is one of Spark, or a view."""
        if self._is_read_by_spark(name):
            return True
        ref = TableRef.parse(name)
        is_there = find_table(self._client, ref) is not None
        in_reach = ref.database == self.database.lower()
        return in_reach and not is_there and self._is_read_by_spark(ref.name)

    def _is_read_by_spark(self, name: str) -> bool:
        """Whether Spark reads a table by itself.

        Args:
            name: A name without a database, which may be that of a temporary view, or the full name
                of a table, which must not be transactional.
        """
        catalog = self.spark.catalog
        if "." not in name:
            return (
                catalog.tableExists(_quoted(name)) and catalog.getTable(_quoted(name)).isTemporary
            )
        return not self.is_transactional(name) and catalog.tableExists(_quoted(name))

    def _is_transactional(self, table: HiveTable) -> bool:
        """Whether a table is transactional, or a view that reads one."""
        if not table.is_view:
            return table.kind is not TableKind.NOT_ACID
        view = {"v": TableSource(table.ref.full_name)}
        try:
            return bool(SourceInputs(self.spark, self._client, view).acid_tables)
        except UserError:
            return False  # Only Spark may be able to read it.

    # The statements

    def _by_spark(self, statement: SqlStatement) -> DataFrame:
        self._require_readable_by_spark(statement)
        text = statement.slice(statement.tokens)
        own_batches = {
            name: statement.params[name] for name in parameters_of(text) & statement.params.keys()
        }
        return self.spark.sql(bound_query(self.spark, text, own_batches))

    def _require_readable_by_spark(self, statement: SqlStatement) -> None:
        """Check the query in a statement that Spark runs: ``CREATE TEMPORARY VIEW v AS SELECT …``.

        Raises:
            InvalidJob: It reads a transactional table, whose rows Spark itself reads wrongly.
            SqlError: The tables of the query are unknown, because this package cannot read it.
        """
        words = [*map(keyword_of, statement.tokens)]
        start = 1 + next(
            (index for index, word in enumerate(words) if word in ("AS", "QUERY")), len(words)
        )
        end = len(words)
        while words[start:end][:1] == ["("] and words[end - 1] == ")":
            start, end = start + 1, end - 1
        if words[start:end][:1] not in (["SELECT"], ["WITH"], ["FROM"], ["TABLE"]):
            return
        query = step_of(replace(statement, tokens=statement.tokens[start:end]))
        if isinstance(query, questions.Select) and not self._is_left_to_spark(query):
            raise InvalidJob(
                "Spark cannot read the transactional tables of this statement.",
                remedy="Use the frame of the query: sql('SELECT …').createOrReplaceTempView('name').",
            )

    def _use(self, statement: SqlStatement) -> DataFrame:
        """Set the database, also of Spark if it has one of the name."""
        if self.spark.catalog.databaseExists(statement.database):
            self._database = None
            return self._by_spark(statement)
        database_answer = answer(self._client, questions.DescribeDatabase(statement.database))
        self._database = statement.database
        return self._frame(database_answer)

    def _query(self, query: QuerySource) -> DataFrame:
        """Run a query in a copy of the session, in which the inputs are views."""
        inputs = SourceInputs(
            scan_session(self.spark),
            self._client,
            query.inputs,
            batches=self._batches(query.inputs.values()),
        )
        tables = self._readable_tables(inputs)

        def rows(reader: TableReader | None) -> DataFrame:
            copied = cloned_session(self.spark)
            frames = {name: inputs.frame(name, reader) for name in query.inputs}
            for name, frame in frames.items():
                in_session(frame, copied).createOrReplaceTempView(name)
            with translated_spark_errors("The query"):
                return copied.sql(bound_query(self.spark, query.sql, query.params))

        if not tables:
            return in_session(rows(None), self.spark)
        frame, lease = self._reads.frame(self.spark, tables, lambda reader, _: rows(reader))
        return in_session(frame, session_holding(self.spark, lease))

    def _readable_tables(self, inputs: SourceInputs) -> list[HiveTable]:
        tables = [existing_table(self._client, ref) for ref in inputs.acid_tables]
        for table in tables:
            check_readable(self.spark, table)
        return tables

    def _batches(self, inputs: Iterable[Input]) -> dict[str, DataFrame]:
        """The frames of the inputs that Spark reads by itself."""
        names = [batch.name for batch in inputs if isinstance(batch, BatchSource)]
        return {name: self.spark.table(_quoted(name)) for name in names}

    def _frame(self, result: Answer) -> DataFrame:
        """Return an answer as a frame, with its details as further rows."""
        rows = [*result.rows]
        for topic, values in result.details.items():
            rows += [
                (f"# {topic}", None),
                *((name, _text(value)) for name, value in values.items()),
            ]
        width = len(result.columns)
        padded = [(*row, *[None] * width)[:width] for row in rows]
        fields = []
        for index, name in enumerate(result.columns):
            is_number = any(isinstance(row[index], int) for row in padded)
            fields.append(StructField(name, LongType() if is_number else StringType()))
        return from_rows(self.spark, padded, StructType(fields))


def _inputs_of(job: ScriptedJob) -> list[Input]:
    sources: list[Source] = [source for part in job.parts for source in part.inputs_read.values()]
    return [input_ for source in sources for input_ in inputs_of(source).values()]


def _quoted(name: str) -> str:
    return quoted(*name.split("."))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
