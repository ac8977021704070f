"""HiveAcidEraseOperator: erases persons' data, and issues a certificate."""

from airflow_hiveacid.operators.job import HiveAcidWorkerOperator
from hiveacid.jobs.erase_job import EraseJob


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
    asset_events = has_lineage = False
