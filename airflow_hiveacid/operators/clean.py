"""HiveAcidCleanOperator: a CleanJob as an Airflow task."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.worker import HiveAcidWorkerOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs.compaction_need import parse_needs
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.rules.quantities import bytes_in_words

if TYPE_CHECKING:
    from airflow.sdk import Context


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

    def _run(self, job: CleanJob, context: "Context") -> dict[str, Any]:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.upkeep.table_cleaning import clean

        with MetastoreClient(job.connection) as client:
            report = clean(client, job, phases=self._phases())
        for removed in report.removed:
            self.log.info(
                "%s %s (%s): %s",
                "Would remove" if job.dry_run else "Removed",
                removed.path,
                bytes_in_words(removed.bytes),
                removed.why,
            )
        for kept in report.kept:
            self.log.info("Kept %s: %s", kept.path, kept.reason)
        for warning in report.warnings:
            self.log.warning("%s", warning)
        return report.to_dict()
