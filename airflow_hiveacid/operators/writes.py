"""HiveAcidTransactionOperator: changes of several tables as one Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)

# HiveAcidInsertOperator: an InsertJob as an Airflow task


class HiveAcidInsertOperator(HiveAcidSparkOperator[InsertJob]):
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


class HiveAcidUpdateOperator(HiveAcidSparkOperator[UpdateJob]):
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


class HiveAcidDeleteOperator(HiveAcidSparkOperator[DeleteJob]):
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


class HiveAcidMergeOperator(HiveAcidSparkOperator[MergeJob]):
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


class HiveAcidTransactionOperator(HiveAcidSparkOperator[TransactionJob]):
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


class HiveAcidRestoreOperator(HiveAcidSparkOperator[RestoreJob]):
    """Writes a new version of a table that is equal to an earlier one.

    Only the rows that differ are deleted and inserted; no version is lost.

    Example::

        HiveAcidRestoreOperator(
            task_id="undo_today",
            job=RestoreJob(target="sales.orders", as_of="{{ data_interval_start }}"),
        )
    """

    job_type = RestoreJob
