"""The door: transactional tables in the SQL and the frames of any client of Spark.

`AcidExtensions.java` extends the sessions of Spark. It asks the engine here, which is in the driver
if that is a program of Python, and otherwise in a process that the driver starts: `Door.java`.
"""

import gc
import json
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    JobFailed,
    SqlError,
    UserError,
)
from hiveacid.jobs.checks import Passes
from hiveacid.jobs.definition_jobs import (
    ConvertJob,
    CreateTableAsJob,
    CreateTableJob,
    CreateTableLikeJob,
    DatabaseJob,
    DropDatabaseJob,
)
from hiveacid.jobs.job import Job, ScriptedJob, paths_of
from hiveacid.jobs.job_json import from_json
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions, settings_of_environment
from hiveacid.jobs.report import (
    CompactReport,
    ErrorReport,
    Report,
    RunReport,
    ScriptReport,
    TableReport,
)
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.metastore.authorizer import acting_for, program_user
from hiveacid.metastore.cancellation import cancelled_if
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Lease, end_all_reads
from hiveacid.parser import questions
from hiveacid.parser.calls import Call, read_call
from hiveacid.parser.questions import Question, is_question
from hiveacid.parser.script import is_use, statements, step_of
from hiveacid.parser.statements import declares_transactional, is_of_spark, target_of
from hiveacid.progress import PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.sql_tokens import is_qualified, names_in, without_catalog
from hiveacid.spark.catalog_answers import forget_database, know_database, spark_answer
from hiveacid.spark.failures import client_error, translate, translated_spark_errors
from hiveacid.spark.frame_writes import ROWS, job_of, rows_of, text_of
from hiveacid.spark.java_objects import (
    attached_context,
    java_class,
    java_context,
    java_frame,
    java_session,
    kept_objects,
    start_callbacks,
)
from hiveacid.spark.java_scan import java_scan
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.session import cloned_session
from hiveacid.spark.spark_versions import java_datasets
from hiveacid.spark.sql_session import AcidSession
from hiveacid.tables.definitions.answers import Answer
from hiveacid.tables.locations import require_job_access

EXTENSIONS = "org.hiveacid.spark.AcidExtensions"
_SETTINGS = "spark.hiveacid."
# The setting of a session that `install` has made.
_INSTALLED = f"{_SETTINGS}installed"
# Among the objects that are kept for a context: its engine, and that new sessions have the door.
_ENGINE, _EXTENDED = "engine of the door", "sessions with the door"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Java sessions are kept by those of Python.
_MOST_SESSIONS = 100
_CATALOG = "spark_catalog"
# The columns of reports.
_CHANGE = (
    "`statement` string,`target` string,`rows_inserted` bigint,`rows_updated` bigint,"
    "`rows_deleted` bigint,`files` bigint,`bytes` bigint,`txn_id` bigint,`write_id` bigint,"
    "`warnings` string"
)
_FIGURES = ("rows_inserted", "rows_updated", "rows_deleted", "files", "bytes")
_COMPACTION = (
    "`target` string,`partition` string,`type` string,`outcome` string,`reason` string,"
    "`rows` bigint,`deletes` bigint,`bytes_read` bigint,`bytes_written` bigint,`txn_id` bigint"
)
_PARTITION = tuple(column.split("`")[1] for column in _COMPACTION.split(","))[1:]
# A query that begins with WITH has none of these names, and needs no parser.
_CHANGING = frozenset({"delete", "insert", "merge", "update"})


def install(
    spark: SparkSession | None = None, metastore: str | MetastoreOptions | None = None
) -> SparkSession:
    """Return a session in which transactional tables are like those of Spark.

    A session that was started with ``spark.sql.extensions=org.hiveacid.spark.AcidExtensions``, or that
    this function has returned, is returned itself. Of another one a copy is returned, with its settings
    and current views: Spark extends sessions only when they begin.

    Example::

        spark = hiveacid.install(spark, "thrift://hms:9083")
        spark.sql("SELECT status, count(*) FROM sales.orders GROUP BY status").show()
        spark.sql("UPDATE sales.orders SET status = 'late' WHERE id = 7").show()

    Args:
        spark: The session; by default the active one, or a new one.
        metastore: The metastore's uri, or all its options, for all sessions of this Spark; by default
            the settings ``spark.hiveacid.*``.

    Raises:
        UserError: No metastore is named.
        SoftwareMissing: Spark cannot load the classes, or has those of another version.
    """
    spark = spark or SparkSession.Builder().getOrCreate()
    options = options_of(spark) if metastore is None else MetastoreOptions.of(metastore)
    _open_door(spark, options)
    started_with = spark.conf.get("spark.sql.extensions", "") or ""
    if EXTENSIONS in started_with or spark.conf.get(_INSTALLED, "") == "true":
        return spark
    objects = kept_objects(spark)
    if _EXTENDED not in objects:
        java_scan(spark).extensions().apply(java_session(spark).extensions())
        objects[_EXTENDED] = True
    session = cloned_session(spark)
    session.conf.set(_INSTALLED, "true")
    return session


def options_of(spark: SparkSession) -> MetastoreOptions:
    """Return the options of the metastore: those of Spark, of Hadoop, or of the environment.

    Raises:
        UserError: No metastore is named, or an option is invalid.
    """
    configured = dict(spark.sparkContext.getConf().getAll())
    options: dict[str, Any] = {
        field.name: _value(field.default, configured[f"{_SETTINGS}{field.name}"])
        for field in fields(MetastoreOptions)
        if f"{_SETTINGS}{field.name}" in configured
    }
    uris = java_context(spark).hadoopConfiguration().get("hive.metastore.uris")
    if "uris" not in options and uris:
        options["uris"] = uris
    if "uris" not in options:
        return MetastoreOptions.of(replace(MetastoreOptions.of_environment(), **options))
    return MetastoreOptions.of(MetastoreOptions(**settings_of_environment() | options))


def _value(default: object, text: str) -> object:
    if isinstance(default, bool):
        return text.lower() == "true"
    try:
        return float(text) if isinstance(default, int | float) else text
    except ValueError as error:
        raise InvalidJob(f"{text!r} in {_SETTINGS}* is no number.") from error


def _open_door(spark: SparkSession, options: MetastoreOptions) -> None:
    start_callbacks(spark)
    engine = Engine(spark, options)
    kept_objects(spark)[_ENGINE] = engine
    java_scan(spark).door().open(engine)


def main() -> None:
    """Serve the driver that has started this process, until the driver ends."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        sys.exit("A driver of Spark starts this program; see spark.hiveacid.python in the docs.")
    attached_context()
    spark = SparkSession.Builder().getOrCreate()
    _open_door(spark, options_of(spark))
    # The driver closes it, also if it is killed.
    sys.stdin.buffer.read()
    end_all_reads()
    # Not the threads of Spark's client, which wait for the driver.
    os._exit(0)


class Engine:
    """Answers the questions of Java, each about a session; several threads may ask at once."""

    def __init__(self, spark: SparkSession, metastore: MetastoreOptions) -> None:
        """Begin without sessions.

        Args:
            spark: Any session of the context.
            metastore: The options of the metastore.
        """
        self._context = spark.sparkContext
        self._thread = java_class(spark, "java.lang.Thread")
        self._client = MetastoreClient(metastore)
        self._sessions: OrderedDict[str, AcidSession] = OrderedDict()
        self._leases: dict[str, Lease] = {}
        self._numbers = count(1)

    def apply(self, question: str, arguments: Any) -> str:
        """Return the answer to a question as JSON.

        Args:
            question: The name of a method.
            arguments: The session of Spark, its user or nothing, and the arguments of the method,
                objects of Java.
        """
        spark, user, *parameters = arguments
        try:
            with acting_for(user), cancelled_if(self._is_cancelled):
                value = getattr(self, question)(spark, *parameters)
            return json.dumps({"value": value})
        except (HiveAcidError, PySparkException) as error:
            return json.dumps({"error": client_error(error)})
        except Exception as error:  # noqa: BLE001
            # In the log: a client can do nothing about it.
            traceback.print_exc()
            return json.dumps({"error": client_error(error)})
        finally:
            # Java calls from many threads, some of which never call again.
            self._client.hand_back()

    def _is_cancelled(self) -> bool:
        """Whether the thread of Java that asks was interrupted, as by the end of a session."""
        return bool(self._thread.interrupted())

    def _acid(self, spark: Any) -> AcidSession:
        java: Any = spark
        key = str(java.sessionUUID())
        acid = self._sessions.get(key)
        if acid is None:
            session = SparkSession(self._context, java)
            acid = self._sessions.setdefault(key, AcidSession(session, self._client))
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return acid

    # The statements of SQL

    def claim(self, spark: Any, text: str) -> str | None:
        """Return the columns of the report of a statement; None if it is one of Spark."""
        if text.lstrip()[:4].upper() == "WITH" and _CHANGING.isdisjoint(names_in(text)):
            return None
        if (call := read_call(text)) is not None:
            return "`report` string" if call.for_program else _columns_of(from_json(call.job))
        acid = self._acid(spark)
        text = without_catalog(text, _CATALOG)
        columns = _CHANGE
        try:
            parsed_statements = [*statements(text, acid.database, trusted=True, all_rows=True)]
            if len(parsed_statements) == 1 and is_use(parsed_statements[0]):
                self._let_use(spark, acid, parsed_statements[0].database)
                return None
            if len(parsed_statements) != 1 or is_of_spark(parsed_statements[0]):
                return None
            step = step_of(parsed_statements[0])
        except SqlError:
            # Running it raises the error.
            target = target_of(text)
            names = [] if target is None else [_full_name(target, acid.database)]
        else:
            if not isinstance(step, ScriptedJob):
                is_answered = self._is_answered(spark, acid, step, text)
                return _columns_of_answer(self._answer(acid, step)) if is_answered else None
            if isinstance(step, CreateTableJob | CreateTableAsJob):
                return _CHANGE if declares_transactional(parsed_statements[0]) else None
            is_database = isinstance(step, DatabaseJob) and _needs_answers(spark)
            if is_database or isinstance(step, ConvertJob):
                return _CHANGE
            if isinstance(step, CreateTableLikeJob):
                names = [step.like]
            elif step.creates:
                return None
            else:
                names = [*step.tables]
            columns = _COMPACTION if isinstance(step, CompactJob) else _CHANGE
        return columns if any(self._is_target(spark, acid, name, text) for name in names) else None

    def _is_target(self, spark: Any, acid: AcidSession, name: str, text: str) -> bool:
        try:
            ref = TableRef.parse(name)
        except UserError:
            return False
        catalogs = spark.sessionState().catalogManager()
        if not acid.is_transactional(name) or catalogs.currentCatalog().name() != _CATALOG:
            return False
        if is_qualified(text, ref.name):
            return not catalogs.isCatalogRegistered(ref.database)
        return not spark.sessionState().catalog().getTempView(ref.name).isDefined()

    def _is_answered(self, spark: Any, acid: AcidSession, question: Question, text: str) -> bool:
        """Whether a question is one about the metastore that Spark itself cannot answer."""
        match question:
            case questions.ShowTransactions() | questions.ShowLocks() | questions.ShowCompactions():
                return True
            case questions.ShowCreateTable(table):
                return self._is_target(spark, acid, table.full_name, text)
            case questions.ShowHistory() | questions.DescribeDetail():
                return False
        needs_answers = _needs_answers(spark)
        match question:
            case questions.ShowDatabases():
                return needs_answers
            case (
                questions.ShowTables(database)
                | questions.ShowViews(database)
                | questions.DescribeDatabase(database)
            ):
                return needs_answers and database in self._client.get_databases()
        ref = getattr(question, "table", None)
        if not (isinstance(ref, TableRef) and self._is_target(spark, acid, ref.full_name, text)):
            return False
        # Spark's client of the metastore does not declare that it knows insert-only tables.
        return needs_answers or self._client.get_table(ref).kind is TableKind.INSERT_ONLY

    def _answer(self, acid: AcidSession, question: Question) -> Answer:
        require_job_access(self._client, program_user(), question)
        return spark_answer(acid.spark, self._client, question)

    def _let_use(self, spark: Any, acid: AcidSession, database: str) -> None:
        """Let Spark know a database of the metastore, in memory, before a session uses it."""
        catalogs = spark.sessionState().catalogManager()
        if not _needs_answers(spark) or catalogs.isCatalogRegistered(database):
            return
        require_job_access(self._client, program_user(), questions.DescribeDatabase(database))
        know_database(self._client, acid.spark, spark, database)

    def run(self, spark: Any, text: str, thread: Any) -> list[dict[str, Any]]:
        """Run a statement that was claimed, and return the rows of its report.

        Args:
            spark: The session.
            text: The statement.
            thread: The thread of Java that waits for the rows.
        """
        acid = self._acid(spark)
        call = read_call(text)
        if call is None:
            text = without_catalog(text, _CATALOG)
            (statement,) = statements(text, acid.database, trusted=True, all_rows=True)
            if is_question(statement):
                question = step_of(statement)
                assert not isinstance(question, ScriptedJob)
                told = self._answer(acid, question)
                return [dict(zip(told.columns, row, strict=True)) for row in told.rows]
            rows = _rows(_report_of(acid.sql(text)))
            if rows and rows[0].get("statement") == DropDatabaseJob.tag:
                forget_database(acid.spark, spark, rows[0]["target"])
            return rows
        report = _report_of_call(acid, call, _Cancellation(thread))
        if call.for_program:
            return [{"report": json.dumps(report.to_dict())}]
        if report.error is not None:
            raise report.error.exception()
        return _rows(_report_of(report))

    # The tables that Spark itself reads and writes

    def read(self, spark: Any, names: Any, plans: Any) -> str | None:
        """Add the plans of tables that are transactional, and return the name of their read.

        Args:
            spark: The session.
            names: The full names of tables, or of nothing, some with a version after an @.
            plans: Receives the plans by the names.
        """
        acid = self._acid(spark)
        tables = {}
        for text in names:
            name, _, version = text.partition("@")
            tables[text] = TableSource(name, _as_of(acid.spark, version))
        frames, lease = acid.read(tables)
        if lease is None:
            return None
        for name, frame in frames.items():
            plans[name] = java_frame(frame).logicalPlan()
        # A read of an engine that was killed must not end one of its successor.
        read = f"{os.getpid()}-{next(self._numbers)}"
        self._leases[read] = lease
        return read

    def end_read(self, _: Any, read: str) -> None:
        """End a read, unless it has ended before."""
        self._leases.pop(read, None)

    def collect_garbage(self, _: Any) -> None:
        """Forget the plans to which nothing refers any more: those of Java have waited for that."""
        gc.collect()

    def is_transactional(self, spark: Any, name: str) -> bool:
        """Whether a full name is that of a transactional table."""
        return self._acid(spark).is_transactional(name)

    def columns(self, _: Any) -> str:
        """Return the columns of the report on a write."""
        return _CHANGE

    def write(self, spark: Any, name: str, plan: Any) -> list[dict[str, Any]]:
        """Do what a plan of Spark would do with a table, and return the rows of the report."""
        acid = self._acid(spark)
        job = job_of(plan, name, acid.is_transactional(name))
        view = f"{own_column('source')}_{next(self._numbers)}"
        text = text_of(plan, name, view) if job is None else None
        if job is None and text is None:
            self.refuse_access(spark, name)
        rows = DataFrame(java_datasets(acid.spark).ofRows(spark, rows_of(plan)), acid.spark)
        if text is None:
            assert job is not None
            return _rows(acid.change(job, {ROWS: rows}))
        rows.createOrReplaceTempView(view)
        try:
            return _rows(_report_of(acid.sql(text)))
        finally:
            acid.spark.catalog.dropTempView(view)

    def refuse_access(self, _: Any, name: str) -> NoReturn:
        """Refuse an access for which there is no plan or command.

        Raises:
            InvalidJob: Always.
        """
        raise InvalidJob(
            f"Spark would access the transactional table {name} by itself.",
            remedy="Use a statement of SQL, insertInto() or writeTo(), and for streams a StreamJob, or"
            " foreachBatch with one of them.",
        )

    def refuse_table(self, _: Any, name: str) -> NoReturn:
        """Refuse a transactional table that only Spark's own catalog has.

        Raises:
            InvalidJob: Always.
        """
        raise InvalidJob(
            f"The transactional table {name} of Spark's catalog is not in the metastore of this"
            f" package, {self._client.options.uris}.",
            remedy="Let hive.metastore.uris and spark.hiveacid.uris name one metastore.",
        )

    class Java:
        """The interface of Java, as Py4J expects it."""

        implements: tuple[str, ...] = ("java.util.function.BiFunction",)


def _as_of(spark: SparkSession, text: str) -> str | None:
    """Return the version that SQL names, by a text, or by an expression of a time; empty is none."""
    if not text.startswith("CAST"):
        return text[1:-1] or None
    with translated_spark_errors("The time of a version"):
        (row,) = spark.sql(f"SELECT unix_micros({text})").collect()
    if row[0] is None:
        raise InvalidJob(f"{text} is no time.")
    return (_EPOCH + timedelta(microseconds=row[0])).isoformat()


def _needs_answers(spark: Any) -> bool:
    """Return whether a session uses Spark's own catalog, and that does not read the metastore."""
    catalogs = spark.sessionState().catalogManager()
    kind = spark.conf().get("spark.sql.catalogImplementation")
    return bool(kind == "in-memory" and catalogs.currentCatalog().name() == _CATALOG)


def _columns_of_answer(told: Answer) -> str:
    # Spark's own answers have texts, too.
    kinds = {"isTemporary": "boolean"}
    return ",".join(f"{quoted(name)} {kinds.get(name, 'string')}" for name in told.columns)


def _full_name(parts: Sequence[str], database: str) -> str:
    if parts[0].lower() == _CATALOG:
        parts = parts[1:]
    return ".".join([database, *parts] if len(parts) == 1 else parts)


def _report_of(result: object) -> RunReport | CompactReport | ScriptReport:
    assert isinstance(result, RunReport | CompactReport | ScriptReport), result
    return result


def _columns_of(job: Job) -> str:
    """Return the columns of the figures of a job.

    Raises:
        InvalidJob: Its report has other figures.
    """
    if job.report in (RunReport, ScriptReport):
        return _CHANGE
    if job.report is CompactReport:
        return _COMPACTION
    raise InvalidJob(
        f"The report of a {type(job).__name__} has more than figures.",
        remedy="CALL hiveacid.report(…) returns it as JSON.",
    )


class _Cancellation(PhaseObserver):
    """Ends a run before its next step when its statement is cancelled, also while it waits."""

    def __init__(self, thread: Any) -> None:
        self._thread = thread

    def step(self, name: str, seconds: float | None = None) -> None:
        if seconds is None:
            self.statement()

    def note(self, text: str) -> None:
        self.statement()

    def statement(self) -> None:
        if self._thread.isInterrupted():
            raise JobFailed("The statement was cancelled.")


def _report_of_call(acid: AcidSession, call: Call, observer: PhaseObserver) -> Report:
    """Run the job of a call, and return its report, also that of a failure."""
    kind: type[Report] = RunReport
    name, target = "Job", ""
    try:
        job = from_json(call.job)
        kind, name, target = job.report, type(job).__name__, job.target
        _require_remote(job, acid.spark)
        return acid.call(job, [observer])
    except Exception as error:  # noqa: BLE001 - the report must contain any error
        ours = error if isinstance(error, HiveAcidError) else translate(error, name)
        if ours is not error:
            # In the log: a client can do nothing about it.
            traceback.print_exc()
        return kind(job=name, target=target, error=ErrorReport.of(ours))


def _require_remote(job: Job, spark: SparkSession) -> None:
    """Refuse a job that would not mean the same on a server as on the machine of its client.

    Raises:
        InvalidJob: It names a metastore, a function of Python, or a local file, or is a stream.
    """
    if job.metastore is not None:
        raise InvalidJob(
            "The job names a metastore, and a server of Spark has its own.",
            remedy="Leave `metastore` away.",
        )
    if isinstance(job, StreamJob):
        raise InvalidJob(
            "A stream does not run as a statement on a server of Spark.",
            remedy="Use a Spark connection with a master.",
        )
    for check in job.all_checks:
        if isinstance(check, Passes):
            raise InvalidJob(
                f"The check {check.label} is a function of Python, which a server of Spark does not"
                " run for its clients.",
                remedy="Write the check as a query, with NoRows.",
            )
    default = java_context(spark).hadoopConfiguration().get("fs.defaultFS", "file:///")
    for path in paths_of(job):
        if (urlsplit(path).scheme or urlsplit(default).scheme) == "file":
            raise InvalidJob(
                f"{path} would be a file of the server of Spark.",
                remedy="Name a file that the server and its clients share, as in s3a://bucket/file.",
            )


def _rows(report: RunReport | CompactReport | ScriptReport) -> list[dict[str, Any]]:
    if isinstance(report, ScriptReport):
        return [row for statement in report.statements for row in _rows_of_one(statement.report)]
    return _rows_of_one(report)


def _rows_of_one(report: object) -> list[dict[str, Any]]:
    if isinstance(report, CompactReport):
        return [
            {"target": part.table, **{name: getattr(part, name) for name in _PARTITION}}
            for part in report.partitions
        ]
    assert isinstance(report, RunReport), report
    whole: dict[str, Any] = {
        "statement": report.job,
        "txn_id": report.txn_id,
        "warnings": " ".join(report.warnings) or None,
    }
    parts: dict[str, RunReport | TableReport] = {part.table: part for part in report.tables}
    return [
        {
            **whole,
            "target": target,
            "write_id": report.write_ids.get(target),
            **_figures(part),
        }
        for target, part in (parts or {report.target: report}).items()
    ]


def _figures(part: RunReport | TableReport) -> Mapping[str, int]:
    return {name: getattr(part, name) for name in _FIGURES}


if __name__ == "__main__":
    main()
