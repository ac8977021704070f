"""HiveAcidCompactOperator: a CompactJob as an Airflow task."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.worker import HiveAcidWorkerOrSparkOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import is_pattern
from hiveacid.jobs.maintenance_jobs import CompactJob, parse_needs, partitions_of
from hiveacid.jobs.report import CompactReport

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.metastore.client import MetastoreClient


class HiveAcidCompactOperator(HiveAcidWorkerOrSparkOperator[CompactJob]):
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

    The parameters below come on top of those of every Spark job, see HiveAcidSparkOperator.

    :param job: The compaction job. (templated)
    :param need: The result of a compaction sensor: one element of its output, or several of one
        table and type. It determines the table, partitions and type; all other settings are the
        job's. (templated)
    """

    job_type = CompactJob

    template_fields: Sequence[str] = (*HiveAcidWorkerOrSparkOperator.template_fields, "need")

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

    def _without_spark(
        self, job: CompactJob, context: "Context"
    ) -> tuple[CompactReport | None, CompactJob | None]:
        if job.run_in != "worker" and self._is_at_work(job, context):
            return None, job
        self._push_links(job, context)
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.upkeep.compaction.placement import rest_for_spark, why_spark
        from hiveacid.upkeep.compaction.table import idle_report

        with MetastoreClient(job.connection).patient() as client:
            report = idle_report(client, job)
            if report is not None:
                for each in report.partitions:
                    self.log.info("%s: %s", each.partition or each.table, each.reason)
                return report, None
            self._check_in_worker(client, job)
            reason = why_spark(client, job)
            if reason is not None:
                self.log.info("On Spark: %s", reason)
                return None, job
            report = self._compacted(client, job, context)
        return report, self._rest(rest_for_spark(job, report))

    def _joined(
        self, job: CompactJob, in_worker: CompactReport, on_spark: CompactReport
    ) -> CompactReport:
        # Thrift is heavy, and this module is imported while DAGs are parsed.
        from hiveacid.upkeep.compaction.placement import joined

        return joined(in_worker, on_spark)

    def _compacted(
        self, client: "MetastoreClient", job: CompactJob, context: "Context"
    ) -> CompactReport:
        from hiveacid.upkeep.compaction.table import TableCompactor

        with self._working(context) as (scheduler, observers):
            return TableCompactor(scheduler, client, job, observers).run()
