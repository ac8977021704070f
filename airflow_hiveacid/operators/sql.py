"""HiveAcidSqlOperator: SQL as an Airflow task."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

from airflow_hiveacid.operators.job import HiveAcidJobOperator
from hiveacid.jobs.checks import Check, checks_of
from hiveacid.jobs.fields import (
    Parameters,
    is_template,
    require_choice,
    require_mapping,
    require_text,
)
from hiveacid.jobs.run_options import OrcCodec, Place
from hiveacid.jobs.script_job import ScriptJob, checked
from hiveacid.rules.locks import ConflictPolicy

_FILE = ".sql"


class HiveAcidSqlOperator(HiveAcidJobOperator[ScriptJob]):
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

    The parameters below come on top of those of every Spark job, see HiveAcidJobOperator.

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
        *(name for name in HiveAcidJobOperator.template_fields if name != "job"),
    )
    text_fields: ClassVar[Sequence[str]] = (
        *HiveAcidJobOperator.text_fields,
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

    def _news(self, report: dict[str, Any]) -> list[dict[str, Any]]:
        statements = [part["run"] or part["compaction"] for part in report["statements"]]
        # Others change databases or statistics, and no data.
        return [
            statement
            for statement in statements
            if "." in statement["target"] and statement["job"] != "analyze"
        ]
