"""HiveAcidSqlOperator: SQL as an Airflow task."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from airflow_hiveacid.assets import emit_assets
from airflow_hiveacid.operators.base import KillObserver
from airflow_hiveacid.operators.worker import HiveAcidWorkerOrSparkOperator
from hiveacid.jobs.checks import Check, checks_of
from hiveacid.jobs.fields import (
    Parameters,
    is_template,
    require_choice,
    require_mapping,
    require_text,
)
from hiveacid.jobs.options import OrcCodec, Place
from hiveacid.jobs.script_job import ScriptJob, checked
from hiveacid.rules.locks import ConflictPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.jobs.report import ScriptReport

_FILE = ".sql"


class HiveAcidSqlOperator(HiveAcidWorkerOrSparkOperator[ScriptJob]):
    """Runs statements of SQL on ACID tables, one after the other.

    Supported are INSERT INTO and OVERWRITE, FROM ... INSERT ... INSERT, UPDATE, DELETE, MERGE,
    TRUNCATE, RESTORE TABLE, CONVERT TABLE, CREATE, DROP and ALTER TABLE, CREATE TABLE ... AS, ALTER
    TABLE ... COMPACT, ANALYZE TABLE, and CREATE and DROP DATABASE. The text is read while the DAG
    is parsed, or when the task runs if it is a template. Statements that change only databases and
    the definitions of tables, and compactions within the limits of ``CompactJob.worker``, run in
    the worker, and so do changes of rows if ``run_in`` permits it; a script with any other
    statement is submitted to Spark.

    Each statement is a transaction. When the task is retried, committed changes of rows are not
    repeated, and definitions run again: of several statements, each definition has ``IF NOT
    EXISTS``, ``IF EXISTS`` or ``OR REPLACE``, or only sets properties or comments, or repairs
    partitions.

    Example::

        HiveAcidSqlOperator(
            task_id="orders",
            sql='''
                MERGE INTO sales.orders t USING landing.orders s ON t.id = s.id
                WHEN MATCHED THEN UPDATE SET *
                WHEN NOT MATCHED THEN INSERT *;
                ALTER TABLE sales.orders COMPACT 'minor'
            ''',
        )

    The parameters below come on top of those of every Spark job, see HiveAcidSparkOperator.

    :param sql: The statements, separated by semicolons, or the name of a file that ends with
        ``.sql``. (templated)
    :param database: The database of tables that are named without a database. (templated)
    :param parameters: The values of parameters in the statements: ``{"id": "{{ params.id }}"}`` for
        ``:id``. They are always typed literals to Spark. (templated)
    :param trusted: Whether the statements may run scripts (TRANSFORM), call Java and read files by
        their paths.
    :param all_rows: Whether UPDATE and DELETE without WHERE change all rows of the table; otherwise
        they are errors.
    :param lock_wait_seconds: How long each statement waits for its locks.
    :param conflict_policy: The handling of concurrent commits in the same partitions: "hive",
        "strict" or "rows".
    :param orc_codec: See InsertJob.
    :param run_in: Where INSERT, UPDATE, DELETE and MERGE run, see UpdateJob: "auto", "worker" or
        "spark". With "worker" no statement runs on Spark, and no Spark connection is needed; with
        "auto" an application runs the statements from the first one that needs Spark.
    :param checks: The checks of each statement that writes their tables; without a table, of every
        statement that changes rows.
    """

    job_type = ScriptJob

    template_fields: Sequence[str] = (
        "sql",
        "database",
        "parameters",
        *(name for name in HiveAcidWorkerOrSparkOperator.template_fields if name != "job"),
    )
    text_fields: ClassVar[Sequence[str]] = (
        *HiveAcidWorkerOrSparkOperator.text_fields,
        "sql",
        "database",
    )
    template_ext: Sequence[str] = (_FILE,)
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql", "conf": "json"}

    def __init__(
        self,
        *,
        sql: str,
        database: str = "default",
        parameters: Parameters | None = None,
        trusted: bool = False,
        all_rows: bool = False,
        lock_wait_seconds: float = 300,
        conflict_policy: ConflictPolicy = "hive",
        orc_codec: OrcCodec | None = None,
        run_in: Place = "auto",
        checks: Sequence[Check | Mapping[str, Any]] = (),
        **kwargs: Any,
    ) -> None:
        if not is_template(sql):
            require_text(sql, "sql")
        # The text is known when the task runs, unless it is already known.
        super().__init__(job=ScriptJob(target="{{ task.sql }}"), **kwargs)
        self.sql = sql
        self.database = database
        self.parameters = parameters or {}
        self.trusted = trusted
        self.all_rows = all_rows
        self.lock_wait_seconds = lock_wait_seconds
        self.conflict_policy = conflict_policy
        self.orc_codec = orc_codec
        require_choice(run_in, get_args(Place), "run_in")
        self.run_in = run_in
        self.checks = checks_of(checks)
        self._read_early()

    def prepare_template(self) -> None:
        """Check the text of a file; Airflow has read it while it parsed the DAG."""
        self._read_early()

    def get_openlineage_facets_on_complete(self, task_instance: object) -> Any:
        """Answer OpenLineage's listener, when the task has ended well or not.

        :param task_instance: The task instance.
        """
        lineage: Any = super().get_openlineage_facets_on_complete(task_instance)
        if lineage is not None:
            from airflow.providers.common.compat.openlineage.facet import SQLJobFacet

            lineage.job_facets["sql"] = SQLJobFacet(query=self.sql)
        return lineage

    def _read_early(self) -> None:
        """Read the text while the DAG is parsed, unless it is a template or a file's name."""
        fields = (self.sql, self.database, self.parameters)
        if not any(map(is_template, fields)) and not self.sql.endswith(_FILE):
            self.job = self._complete(self.job)

    def _complete(self, job: ScriptJob) -> ScriptJob:
        # Reading SQL takes sqlglot, which is only for the DAGs that have some.
        from hiveacid.parser.script import placed, to_script

        require_text(self.sql, "sql")
        require_mapping(self.parameters, "parameters", 'parameters={"id": 7}')
        script = to_script(self.sql, self.database, self.parameters, self.trusted, self.all_rows)
        script.require_repeatable()
        return dataclasses.replace(
            job,
            target=script.target,
            statements=checked(placed(script.statements, self.run_in), self.checks),
            lock_wait_seconds=self.lock_wait_seconds,
            conflict_policy=self.conflict_policy,
            orc_codec=self.orc_codec,
        )

    def _without_spark(
        self, job: ScriptJob, context: "Context"
    ) -> "tuple[ScriptReport | None, ScriptJob | None]":
        if not job.needs_spark:
            return self._define(job), None
        if not job.may_run_in_worker:
            return None, job
        if self.run_in != "worker" and self._is_at_work(job, context):
            return None, job
        return self._in_part(job, context)

    def _define(self, job: ScriptJob) -> "ScriptReport":
        """Run a script that changes nothing but definitions."""
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.tables.definitions.run import run_script_of_ddl

        with MetastoreClient(job.connection).patient() as client:
            return run_script_of_ddl(client, job, [KillObserver(self._require_active)])

    def _in_part(
        self, job: ScriptJob, context: "Context"
    ) -> "tuple[ScriptReport | None, ScriptJob | None]":
        """Run a script as far as possible without Spark."""
        self._push_links(job, context)
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.worker.script import (
            rest_of_script,
            run_script_in_worker,
            why_script_needs_spark,
        )

        with MetastoreClient(job.connection).patient() as client:
            self._check_in_worker(client, job)
            reason = why_script_needs_spark(client, job)
            if reason is not None:
                self.log.info("On Spark: %s", reason)
                return None, job
            with self._working(context) as (scheduler, observers):
                report = run_script_in_worker(client, job, scheduler, observers)
        return report, self._rest(rest_of_script(job, report))

    def _joined(
        self, job: ScriptJob, in_worker: "ScriptReport", on_spark: "ScriptReport"
    ) -> "ScriptReport":
        # Thrift is heavy, and this module is imported while DAGs are parsed.
        from hiveacid.worker.script import joined_script

        return joined_script(in_worker, on_spark)

    def _publish(self, job: ScriptJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report
        written = [
            statement
            for statement in _reports(report)
            # Else it is a database; and statistics are no news of the data.
            if "." in statement["target"] and statement["job"] != "analyze"
        ]
        emit_assets(context, written, job.connection)


def _reports(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reports of the statements."""
    return [part["run"] or part["compaction"] for part in report["statements"]]
