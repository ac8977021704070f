"""Compactions, statistics and maintenance of many tables as Airflow tasks."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.authorization import audit, require_job_access
from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import emit_failure, emit_success, task_failure
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields, rendered_setting
from airflow_hiveacid.operators.job import (
    HiveAcidJobOperator,
    HiveAcidWorkerOperator,
    task_token,
)
from airflow_hiveacid.operators.kill import TaskKill
from hiveacid.errors import AccessRefused, HiveAcidError, InvalidJob
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.fields import is_pattern, is_template
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import (
    CleanJob,
    CompactJob,
    Maintenance,
    MaintenanceReport,
    parse_needs,
    partitions_of,
    versions_in_words,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import Report
from hiveacid.progress import watching
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import duration_in_words

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.upkeep.compaction.warehouse import JobObserver, WarehouseMaintainer


class HiveAcidCompactOperator(HiveAcidJobOperator[CompactJob]):
    """Compacts a transactional table, or partitions of it.

    The worker checks the table first: if nothing needs compaction, the task ends with a report of
    the reason, in seconds. Work within the limits ``CompactJob.worker`` is done by the worker, without
    Spark and Java; only more work, and sorting, becomes a Spark application. ``CompactJob.run_in``
    fixes the choice: with ``"worker"`` the task needs no Spark connection.

    Example::

        HiveAcidCompactOperator(task_id="compact", job=CompactJob(target="sales.orders"))

    The result of a compaction sensor can be mapped over: one task, and so one Spark application,
    for all partitions of a table that need the same, ``CompactJob.parallel`` of them at a time::

        needed = HiveAcidCompactionNeededSensor(task_id="needed", table="sales.*")
        HiveAcidCompactOperator.partial(
            task_id="compact", max_active_tis_per_dagrun=2
        ).expand(need=needed.output)

    The parameters below come on top of those of every Spark job, see HiveAcidJobOperator.

    :param job: The compaction job. (templated)
    :param need: The result of a compaction sensor: one element of its output, or several of one
        table and type. It determines the table, partitions and type; all other settings are the
        job's. (templated)
    """

    job_type = CompactJob

    template_fields: Sequence[str] = (*HiveAcidJobOperator.template_fields, "need")

    def __init__(
        self, *, job: CompactJob | None = None, need: object = None, **kwargs: Any
    ) -> None:
        # The table is known when the task runs.
        of_need = "{{ task.need }}"
        if job is None:
            if need is None:
                raise InvalidJob("HiveAcidCompactOperator needs a job, or a need of a sensor.")
            job = CompactJob(target=of_need)
        elif need is not None and is_pattern(job.target):
            job = dataclasses.replace(job, target=of_need)
        super().__init__(job=job, **kwargs)
        self.need = need

    def _complete(self, job: CompactJob) -> CompactJob:
        if self.need is None:
            return job
        needs = parse_needs(self.need)
        if len({need.type for need in needs}) > 1:
            raise InvalidJob(
                f"need asks for minor and for major compactions of {needs[0].table}.",
                remedy="Group the result of the sensor by table and type, as compaction_groups does.",
            )
        for need in needs:
            self.log.info("%s, %s: %s", need.name, need.type, need.reason)
        return dataclasses.replace(
            job,
            target=needs[0].table,
            partitions=partitions_of(needs),
            type=needs[0].type,
            reason=job.reason or " ".join(dict.fromkeys(need.reason for need in needs)),
        )


class HiveAcidAnalyzeOperator(HiveAcidWorkerOperator[AnalyzeJob]):
    """Stores statistics of a transactional table, for the planners of Hive and Trino.

    It runs in the worker, without Spark: it needs the metastore, and access to the files. The data do
    not change, so that it emits no asset events.

    Example::

        HiveAcidAnalyzeOperator(task_id="analyze", job=AnalyzeJob(target="sales.orders"))

    :param job: The analysis job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = AnalyzeJob
    asset_events = False


class HiveAcidCleanOperator(HiveAcidWorkerOperator[CleanJob]):
    """Removes files that no reader of a table needs; reports the reasons for the rest.

    It works on transactional tables and runs in the worker, without Spark: it needs the metastore,
    and access to the files.

    Example::

        HiveAcidCleanOperator(task_id="clean", job=CleanJob(target="sales.orders"))

    :param job: The cleaning job. Every text in it is a template. (templated)
    :param need: The result of a compaction sensor: one element of its output, or several of one
        table. It determines the table, which is cleaned completely: files that were still read
        after an earlier compaction may be removable now. All other settings are the job's.
        (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = CleanJob

    template_fields: Sequence[str] = (*HiveAcidWorkerOperator.template_fields, "need")

    def __init__(
        self,
        *,
        job: CleanJob | None = None,
        need: object = None,
        **kwargs: Any,
    ) -> None:
        if job is None:
            if need is None:
                raise InvalidJob("HiveAcidCleanOperator needs a job, or a need of a sensor.")
            # The table is known when the task runs.
            job = CleanJob(target="{{ task.need }}")
        super().__init__(job=job, **kwargs)
        self.need = need

    def _complete(self, job: CleanJob) -> CleanJob:
        if self.need is None:
            return job
        return dataclasses.replace(job, target=parse_needs(self.need)[0].table)


class HiveAcidMaintainOperator(NamedTemplateFields):
    """Compacts and cleans all tables that need it, in one task.

    The worker surveys the tables, selects compactions within the budget, runs small ones itself
    without Spark and Java, and removes files that no reader needs. Compactions that require Spark are
    returned for ``.expand(need=...)`` of HiveAcidCompactOperator.

    The failure of a table does not stop the others. The task then fails at its end, and its report is
    available in the XCom all the same; a retry maintains the tables that still need it.

    Example::

        maintain = HiveAcidMaintainOperator(task_id="maintain", tables="sales.*")

        @task(trigger_rule="all_done")
        def on_spark(report): return report["on_spark"]

        HiveAcidCompactOperator.partial(task_id="compact").expand(need=on_spark(maintain.output))

    :param tables: Names or patterns of tables, ``database.table`` or ``database.*``. (templated)
    :param policy: The rules for partitions that are worth compacting, or a mapping. (templated)
    :param budget: The limits for all tables together, or a mapping. (templated)
    :param worker: The limits of one compaction in the worker, or a mapping. (templated)
    :param parallel: The number of tables that are maintained concurrently.
    :param lock_wait_seconds: The maximum waiting time for each lock.
    :param metastore_conn_id: The metastore. (templated)
    """

    template_fields: Sequence[str] = ("tables", "policy", "budget", "worker", "metastore_conn_id")
    text_fields: ClassVar[Sequence[str]] = ("metastore_conn_id",)
    ui_color = "#fde8c9"

    def __init__(
        self,
        *,
        tables: str | Sequence[str],
        policy: CompactionPolicy | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        worker: WorkerLimits | Mapping[str, Any] | None = None,
        parallel: int = 2,
        lock_wait_seconds: float = 300,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.policy = policy or CompactionPolicy()
        self.budget = budget or Budget()
        self.worker = worker or WorkerLimits()
        self.parallel = parallel
        self.lock_wait_seconds = lock_wait_seconds
        self.metastore_conn_id = metastore_conn_id
        self._kill = TaskKill(self.task_id)
        self._maintainer: WarehouseMaintainer | None = None
        self._metastore: MetastoreOptions | None = None
        patterns = [tables] if isinstance(tables, str) else tables
        settings = (self.policy, self.budget, self.worker)
        # Values of mappings may become numbers when they are rendered, as native objects.
        rendered_later = any(
            isinstance(setting, Mapping) or is_template(setting) for setting in settings
        )
        if not rendered_later and not is_template(patterns) and not any(map(is_template, patterns)):
            self._maintenance().validate()

    def execute(self, context: "Context") -> dict[str, Any]:
        """Maintain the tables, and return the report."""
        began = time.time()
        try:
            report = self._maintain(context)
        except HiveAcidError as error:
            raise task_failure(self._kill.cause_of(error)) from None
        except KeyboardInterrupt:
            self.on_kill()
            raise
        self._log(report, time.time() - began)
        plain = report.to_dict()
        if report.error is not None:
            # The tasks that follow need the results of the other tables.
            context["ti"].xcom_push(key="return_value", value=plain)
            raise task_failure(report.error)
        return plain

    def on_kill(self) -> None:
        """Stop the work, and abort its transactions, so that their locks don't outlive the task."""
        self._kill.happen()
        if self._maintainer is not None:
            tokens = self._maintainer.tokens
            self._maintainer.stop()
            abort_run(None, self._metastore, tokens, self.log)

    def _maintain(self, context: "Context") -> MaintenanceReport:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.orc.format.process_memory import use_one_heap
        from hiveacid.upkeep.compaction.warehouse import WarehouseMaintainer
        from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

        use_one_heap()
        maintenance = self._maintenance()
        maintenance.validate()
        ti = context["ti"]
        self._metastore = HiveAcidMetastoreHook(self.metastore_conn_id).options()
        with MetastoreClient(self._metastore).patient() as client, WorkerScheduler() as scheduler:
            self._maintainer = WarehouseMaintainer(
                scheduler,
                client,
                maintenance,
                watching([self._kill]),
                _audited_jobs(context, self._metastore),
                task_token(ti, ti.run_id),
            )
            self._kill.require_active()
            report = self._maintainer.run()
        # The report of a killed task lacks the tables that it has not begun.
        self._kill.require_active()
        return report

    def _maintenance(self) -> Maintenance:
        return Maintenance(
            tables=[self.tables] if isinstance(self.tables, str) else self.tables,
            policy=rendered_setting(CompactionPolicy, self.policy, "policy"),
            budget=rendered_setting(Budget, self.budget, "budget"),
            worker=rendered_setting(WorkerLimits, self.worker, "worker"),
            parallel=self.parallel,
            lock_wait_seconds=self.lock_wait_seconds,
        )

    def _log(self, report: MaintenanceReport, seconds: float) -> None:
        for skipped_table in report.skipped:
            self.log.info(
                "Skipped %s: %s",
                "/".join(filter(None, (skipped_table.table, skipped_table.partition))),
                skipped_table.reason,
            )
        for group in report.on_spark:
            self.log.info(
                "On Spark: %s compaction of %s",
                group[0].type,
                ", ".join(need.name for need in group),
            )
        for table in report.tables:
            if table.bytes_retained:
                self.log.info("%s: %s", table.table, versions_in_words(table))
            for warning in table.warnings:
                self.log.warning("%s: %s", table.table, warning)
            if table.error is not None:
                self.log.error("%s failed: %s", table.table, table.error)
        self.log.info("%s, %s", report.summary, duration_in_words(seconds))


def _audited_jobs(context: "Context", metastore: MetastoreOptions) -> "JobObserver":
    """Return an observer that checks the accesses of each job, and writes its audit record."""
    from hiveacid.upkeep.compaction.warehouse import JobObserver

    class AuditedJobs(JobObserver):
        """Checks accesses, writes audit records, and emits metrics."""

        def admit(self, table: TableRef) -> None:
            for kind in (CompactJob, CleanJob):
                job = kind(target=table.full_name, metastore=metastore)
                try:
                    require_job_access(job, context)
                except AccessRefused as error:
                    audit(job, context, error=error)
                    raise

        def begin(self, job: Job) -> None:
            require_job_access(job, context)

        def end(
            self, job: Job, report: Report | None, error: HiveAcidError | None, seconds: float
        ) -> None:
            plain = None if report is None else report.to_dict()
            if error is None and plain is not None:
                audit(job, context, report=plain)
                emit_success(plain, seconds)
            elif error is not None:
                audit(job, context, report=plain, error=error)
                emit_failure(job.tag, job.target, error.id, seconds)

    return AuditedJobs()
