"""Changes of rows as Airflow tasks: HiveAcidInsertOperator to HiveAcidRestoreOperator."""

from typing import TYPE_CHECKING, TypeVar

from airflow_hiveacid.operators.worker import HiveAcidWorkerOrSparkOperator
from hiveacid.errors import SparkNeeded
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    RowJob,
    TransactionJob,
    UpdateJob,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.jobs.report import RunReport

# The base of them all


ChangeT = TypeVar("ChangeT", bound=RowJob | TransactionJob)


class _HiveAcidChangeOperator(HiveAcidWorkerOrSparkOperator[ChangeT]):
    """Changes rows in the worker or on Spark, as ``run_in`` of the job determines."""

    def _without_spark(
        self, job: ChangeT, context: "Context"
    ) -> "tuple[RunReport | None, ChangeT | None]":
        if job.run_in == "spark" or (job.run_in == "auto" and self._is_at_work(job, context)):
            return None, job
        self._push_links(job, context)
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.worker.run import change_rows

        with (
            MetastoreClient(job.connection).patient() as client,
            self._working(context) as (_, observers),
        ):
            self._check_in_worker(client, job)
            try:
                return change_rows(client, job, observers), None
            except SparkNeeded as error:
                if job.run_in == "worker":
                    raise
                self.log.info("On Spark: %s", error.what)
        return None, job


# HiveAcidInsertOperator: an InsertJob as an Airflow task


class HiveAcidInsertOperator(_HiveAcidChangeOperator[InsertJob]):
    """Appends rows to an ACID table, or overwrites the table or partitions of it.

    Example::

        HiveAcidInsertOperator(
            task_id="load_orders",
            job=InsertJob(
                target="sales.orders",
                source=PathSource(path="/landing/orders", format="parquet"),
            ),
        )
    """

    job_type = InsertJob


class HiveAcidUpdateOperator(_HiveAcidChangeOperator[UpdateJob]):
    """Updates the rows of a full-ACID table that meet a condition.

    Example::

        HiveAcidUpdateOperator(
            task_id="close_orders",
            job=UpdateJob(
                target="sales.orders",
                set={"status": "'closed'"},
                where="delivered_at < date '2026-01-01'",
            ),
        )
    """

    job_type = UpdateJob


class HiveAcidDeleteOperator(_HiveAcidChangeOperator[DeleteJob]):
    """Deletes the rows of a full-ACID table that meet a condition.

    Example::

        HiveAcidDeleteOperator(
            task_id="forget_customer",
            job=DeleteJob(
                target="sales.orders",
                where="customer_id = :id",
                params={"id": "{{ params.customer_id }}"},
            ),
        )
    """

    job_type = DeleteJob


class HiveAcidMergeOperator(_HiveAcidChangeOperator[MergeJob]):
    """Merges a source into a full-ACID table by ordered clauses.

    Example::

        HiveAcidMergeOperator(
            task_id="merge_orders",
            job=MergeJob(
                target="sales.orders",
                source=PathSource(path="/feeds/orders/{{ ds }}", format="json"),
                on="t.id = s.id",
                when=(
                    MatchedDelete(condition="s.op = 'delete'"),
                    MatchedUpdate(),
                    NotMatchedInsert(condition="s.op <> 'delete'"),
                ),
            ),
        )
    """

    job_type = MergeJob


class HiveAcidTransactionOperator(_HiveAcidChangeOperator[TransactionJob]):
    """Changes several tables in one transaction: all of it becomes visible, or nothing.

    All statements read their sources as of one moment, and do not see each other's writes.

    Example::

        HiveAcidTransactionOperator(
            task_id="load_sales",
            job=TransactionJob(
                statements=(
                    MergeJob(
                        target="dw.customers",
                        source=TableSource("stage.customers"),
                        on="t.id = s.id",
                        when=(MatchedUpdate(), NotMatchedInsert()),
                    ),
                    InsertJob(target="dw.sales", source=TableSource("stage.sales")),
                ),
            ),
        )
    """

    job_type = TransactionJob


class HiveAcidRestoreOperator(_HiveAcidChangeOperator[RestoreJob]):
    """Writes a new version of a table that is equal to an earlier one.

    Only the rows that differ are deleted and inserted; no version is lost.

    Example::

        HiveAcidRestoreOperator(
            task_id="undo_today",
            job=RestoreJob(target="sales.orders", as_of="{{ data_interval_start }}"),
        )
    """

    job_type = RestoreJob
