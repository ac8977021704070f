"""The door: transactional tables in the SQL and the frames of any client of Spark.

`AcidExtensions.java` extends the sessions of Spark. It asks the engine here, which is in the driver
if that is a program of Python, and otherwise in a process that the driver starts: `Door.java`.
"""

import json
import os
import re
import sys
import traceback
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import count
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import HiveAcidError, InvalidJob, SqlError, UserError
from hiveacid.jobs.definition_jobs import CreateTableAsJob, CreateTableJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions, settings_of_environment
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport, TableReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Lease, end_all_reads
from hiveacid.rules.names import TableRef
from hiveacid.spark.java_scan import java_scan
from hiveacid.spark.session import cloned_session
from hiveacid.spark.spark_versions import java_class, java_datasets
from hiveacid.spark.sql_session import AcidSession
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.spark.statements.methods import TableChanges
from hiveacid.sql.script import statements, step_of
from hiveacid.sql.statements import is_of_spark
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import Statement, WriteOptions, require_statement_access

EXTENSIONS = "org.hiveacid.spark.AcidExtensions"
_SETTINGS = "spark.hiveacid."
# The setting of a session that `install` has made.
_INSTALLED = f"{_SETTINGS}installed"
# The attributes of a context with its engine, and with the mark that new sessions have the door.
_ENGINE, _EXTENDED = "_hiveacid_engine", "_hiveacid_extended"
# Java sessions are kept by those of Python.
_MOST_SESSIONS = 100
_CATALOG = "spark_catalog"
# The columns of reports.
_CHANGE = (
    "`statement`:string,`target`:string,`rows_inserted`:bigint,`rows_updated`:bigint,"
    "`rows_deleted`:bigint,`files`:bigint,`bytes`:bigint,`txn_id`:bigint,`write_id`:bigint,"
    "`warnings`:string"
)
_FIGURES = ("rows_inserted", "rows_updated", "rows_deleted", "files", "bytes")
_COMPACTION = (
    "`target`:string,`partition`:string,`type`:string,`outcome`:string,`reason`:string,"
    "`rows`:bigint,`deletes`:bigint,`bytes_read`:bigint,`bytes_written`:bigint,`txn_id`:bigint"
)
_PARTITION = tuple(re.findall(r"`(\w+)`", _COMPACTION))[1:]
_CHANGING = re.compile(r"\b(?:DELETE|INSERT|MERGE|UPDATE)\b", re.IGNORECASE)
_TRANSACTIONAL = re.compile(r"""(['"])transactional\1\s*=\s*(['"])true\2""", re.IGNORECASE)
# The target of a statement that this package cannot read.
_TARGET = re.compile(
    r"\b(?:MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|UPDATE|DELETE\s+FROM"
    r"|(?:ALTER|ANALYZE|DROP|TRUNCATE|RESTORE)\s+TABLE(?:\s+IF\s+EXISTS)?|OPTIMIZE)\s+([\w`.]+)",
    re.IGNORECASE,
)


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
        UnsupportedSpark: Spark cannot load the classes, or has those of another version.
    """
    spark = spark or SparkSession.Builder().getOrCreate()
    options = options_of(spark) if metastore is None else MetastoreOptions.of(metastore)
    _open_door(spark, options)
    started_with = spark.conf.get("spark.sql.extensions", "") or ""
    if EXTENSIONS in started_with or spark.conf.get(_INSTALLED, "") == "true":
        return spark
    kept = vars(spark.sparkContext)
    if _EXTENDED not in kept:
        java_scan(spark).extensions().apply(spark._jsparkSession.extensions())
        kept[_EXTENDED] = True
    session = cloned_session(spark)
    session.conf.set(_INSTALLED, "true")
    return session


def options_of(spark: SparkSession) -> MetastoreOptions:
    """Return the options of the metastore: those of Spark, of Hadoop, or of the environment.

    Raises:
        UserError: No metastore is named, or an option is invalid.
    """
    configured = dict(spark.sparkContext.getConf().getAll())
    given: dict[str, Any] = {
        field.name: _value(field.default, configured[f"{_SETTINGS}{field.name}"])
        for field in fields(MetastoreOptions)
        if f"{_SETTINGS}{field.name}" in configured
    }
    context: Any = spark.sparkContext
    uris = context._jsc.hadoopConfiguration().get("hive.metastore.uris")
    if "uris" not in given and uris:
        given["uris"] = uris
    if "uris" not in given:
        return MetastoreOptions.of(replace(MetastoreOptions.of_environment(), **given))
    return MetastoreOptions.of(MetastoreOptions(**settings_of_environment() | given))


def _value(default: object, text: str) -> object:
    if isinstance(default, bool):
        return text.lower() == "true"
    try:
        return float(text) if isinstance(default, int | float) else text
    except ValueError as error:
        raise InvalidJob(f"{text!r} in {_SETTINGS}* is no number.") from error


def _open_door(spark: SparkSession, options: MetastoreOptions) -> None:
    context: Any = spark.sparkContext
    gateway = context._gateway
    # Spark lets any process on this machine call its program of Python: Java loses the secret.
    secret = gateway.gateway_parameters.auth_token
    gateway.callback_server_parameters.auth_token = secret
    start: Any = ensure_callback_server_started
    start(gateway)
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = java_class(spark, "java.lang.Class").forName("py4j.CallbackClient")
    field = field.getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, secret)
    engine = Engine(spark.sparkContext, options)
    vars(context)[_ENGINE] = engine
    java_scan(spark).door().open(engine)


def main() -> None:
    """Serve the driver that has started this process, until the driver ends."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        sys.exit("A driver of Spark starts this program; see spark.hiveacid.python in the docs.")
    launch: Any = launch_gateway
    gateway = launch()
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java.getConf())
    SparkContext(gateway=gateway, jsc=java, conf=conf)
    spark = SparkSession.Builder().getOrCreate()
    _open_door(spark, options_of(spark))
    # The driver closes it, also if it is killed.
    sys.stdin.buffer.read()
    end_all_reads()
    # Not the threads of Spark's client, which wait for the driver.
    os._exit(0)


class Engine:
    """Answers the questions of Java, each about a session; several threads may ask at once."""

    def __init__(self, context: SparkContext, metastore: MetastoreOptions) -> None:
        """Begin without sessions.

        Args:
            context: The context of the sessions.
            metastore: The options of the metastore.
        """
        self._context = context
        self._metastore = metastore
        self._sessions: OrderedDict[str, AcidSession] = OrderedDict()
        self._leases: dict[str, Lease] = {}
        self._numbers = count(1)

    def apply(self, what: str, arguments: Any) -> str:
        """Return the answer to a question as JSON.

        Args:
            what: The name of a method.
            arguments: Its arguments, objects of Java; the first one is the session of Spark.
        """
        spark, *others = arguments
        try:
            value = getattr(self, what)(spark, *others)
            return json.dumps({"value": value})
        except (HiveAcidError, PySparkException) as error:
            of_user = isinstance(error, UserError | AnalysisException)
            return json.dumps({"error": str(error), "of_user": of_user})
        except Exception as error:  # noqa: BLE001
            # In the log: a client can do nothing about it.
            traceback.print_exc()
            return json.dumps({"error": f"{type(error).__name__}: {error}", "of_user": False})

    def _acid(self, spark: JavaObject) -> AcidSession:
        java: Any = spark
        key = str(java.sessionUUID())
        acid = self._sessions.get(key)
        if acid is None:
            session = SparkSession(self._context, java)
            acid = self._sessions.setdefault(key, AcidSession(session, self._metastore))
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return acid

    # The statements of SQL

    def claim(self, spark: JavaObject, text: str) -> str | None:
        """Return the columns of the report of a statement; None if it is one of Spark."""
        if text.lstrip()[:4].upper() == "WITH" and not _CHANGING.search(text):
            return None
        acid = self._acid(spark)
        columns = _CHANGE
        try:
            found = [*statements(text, acid.database, trusted=True, all_rows=True)]
            if len(found) != 1 or is_of_spark(found[0]):
                return None
            step = step_of(found[0])
        except SqlError:
            # Running it raises the error.
            target = _TARGET.search(text)
            names = [] if target is None else [_full_name(target[1], acid.database)]
        else:
            if not isinstance(step, ScriptedJob):
                return None
            if isinstance(step, CreateTableJob | CreateTableAsJob):
                return _CHANGE if _TRANSACTIONAL.search(text) else None
            if step.creates:
                return None
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
        if re.search(rf"\.\s*`?{re.escape(ref.name)}\b", text, re.IGNORECASE):
            return not catalogs.isCatalogRegistered(ref.database)
        catalog = acid.spark.catalog
        return not (catalog.tableExists(ref.name) and catalog.getTable(ref.name).isTemporary)

    def run(self, spark: JavaObject, text: str) -> list[dict[str, Any]]:
        """Run a statement that was claimed, and return the rows of its report."""
        report = self._acid(spark).sql(text)
        assert isinstance(report, RunReport | CompactReport | ScriptReport), report
        return _rows(report)

    # The tables that Spark itself reads and writes

    def read(self, spark: JavaObject, names: Any, plans: Any) -> str | None:
        """Add the plans of tables that are transactional, and return the name of their read.

        Args:
            spark: The session.
            names: The full names of tables, or of nothing.
            plans: Receives the plans by the names.
        """
        frames, lease = self._acid(spark).read([*names])
        if lease is None:
            return None
        for name, frame in frames.items():
            plans[name] = frame._jdf.logicalPlan()
        # A read of an engine that was killed must not end one of its successor.
        read = f"{os.getpid()}-{next(self._numbers)}"
        self._leases[read] = lease
        return read

    def end_read(self, _: JavaObject, read: str) -> None:
        """End a read, unless it has ended before."""
        self._leases.pop(read, None)

    def is_transactional(self, spark: JavaObject, name: str) -> bool:
        """Whether a full name is that of a transactional table."""
        return self._acid(spark).is_transactional(name)

    def columns(self, _: JavaObject) -> str:
        """Return the columns of the report on a write."""
        return _CHANGE

    def write(
        self, spark: JavaObject, name: str, plan: JavaObject, overwrites: bool, by_name: bool
    ) -> list[dict[str, Any]]:
        """Write the rows of a plan into a table, and return the rows of the report."""
        session = self._acid(spark).spark
        rows = DataFrame(java_datasets(session).ofRows(spark, plan), session)
        target = _Target(name, session, self._metastore)
        change = target.overwrite if overwrites else target.append
        return _rows(change(rows, by_position=not by_name))

    def refusal(self, _: JavaObject, name: str) -> str:
        """Return the error of a write that has no command."""
        error = InvalidJob(
            f"Spark would write into the transactional table {name} by itself.",
            remedy="Use INSERT, MERGE, UPDATE, or DELETE without EXPLAIN, insertInto(), or"
            " writeTo().append() and overwritePartitions().",
        )
        return str(error)

    class Java:
        """The interface of Java, as Py4J expects it."""

        implements: tuple[str, ...] = ("java.util.function.BiFunction",)


class _Target(TableChanges[RunReport]):
    def __init__(self, name: str, spark: SparkSession, metastore: MetastoreOptions) -> None:
        super().__init__(name, spark)
        self._metastore = metastore

    def _run(self, statement: Statement) -> RunReport:
        with MetastoreClient(self._metastore).patient() as client:
            require_statement_access(client, [statement], ())
            engine = SparkEngine(self._spark)
            return run_statements(engine, client, WriteOptions(), (), [statement])


def _full_name(text: str, database: str) -> str:
    parts = text.replace("`", "").split(".")
    if parts[0].lower() == _CATALOG:
        parts = parts[1:]
    return ".".join([database, *parts] if len(parts) == 1 else parts)


def _rows(report: RunReport | CompactReport | ScriptReport) -> list[dict[str, Any]]:
    if isinstance(report, ScriptReport):
        return [row for each in report.statements for row in _rows_of_one(each.report)]
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
