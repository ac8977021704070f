"""HiveAcidEraseOperator: erases persons' data, and issues a certificate."""

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cluster.spark_run import StartedXComs
from airflow_hiveacid.operators.worker import HiveAcidWorkerOperator
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.metastore.authorizer import user_of
from hiveacid.rules.texts import plural

if TYPE_CHECKING:
    from airflow.sdk import Context


class HiveAcidEraseOperator(HiveAcidWorkerOperator[EraseJob]):
    """Erases all rows with some keys from tables, their earlier versions, and their files.

    One transaction deletes the rows of all tables. Then the task compacts and cleans what it can,
    and ends with a report of what delays the rest. HiveAcidErasedSensor waits for the certificate. A
    run with the same ``EraseJob.request`` continues the request, also after a kill at any step. The
    operator runs in the worker, without Spark.

    Example::

        erase = HiveAcidEraseOperator(
            task_id="erase",
            job=EraseJob(
                request="{{ ds }}",
                keys=TableSource("privacy.requests_of_today"),
                columns={"sales.orders": "customer", "web.visits": "visitor"},
            ),
        )
        erase >> HiveAcidErasedSensor(task_id="erased", request="{{ ds }}", deferrable=True)

    :param job: The request. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param deferrable: True is refused: HiveAcidErasedSensor waits for the certificate.
    """

    job_type = EraseJob

    def _run(self, job: EraseJob, context: "Context") -> dict[str, Any]:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.erasure.requests import Eraser
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.orc.format.process_memory import use_one_heap

        use_one_heap()
        observers = self._observers(StartedXComs(context["ti"]))
        with MetastoreClient(job.connection).patient() as client:
            user = user_of(self.dag_id)
            report = Eraser(client, job.folder, observers, user=user).run(job)
        for wait in report.waits:
            self.log.info("%s waits for a %s: %s", wait.table, wait.kind, wait.reason)
        if report.certificate is not None:
            self.log.info("The certificate is %s.", report.certificate)
        elif not report.dry_run:
            files = plural(report.files, "file still holds", "files still hold")
            self.log.info("%s keys; the deadline is %s.", files, report.deadline)
        return report.to_dict()

    def get_openlineage_facets_on_complete(self, task_instance: object) -> object:
        """Answer OpenLineage's listener: no column gets values of another one.

        :param task_instance: The task instance.
        """
        return None

    def _publish(self, job: EraseJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report
