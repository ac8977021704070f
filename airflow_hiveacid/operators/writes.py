"""Changes of rows as Airflow tasks: HiveAcidInsertOperator to HiveAcidStreamOperator."""

from typing import TYPE_CHECKING, Any, TypeVar

from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from airflow_hiveacid.operators.worker import HiveAcidWorkerOrSparkOperator
from hiveacid.errors import HiveAcidError, SparkNeeded
from hiveacid.jobs.options import source_token
from hiveacid.jobs.stream_job import StreamJob
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
    from hiveacid.records.stream_places import StreamPlaces

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


# HiveAcidStreamOperator: a StreamJob as an Airflow task


class HiveAcidStreamOperator(HiveAcidSparkOperator[StreamJob]):
    """Writes a stream into tables, exactly once: each micro-batch is one transaction.

    With ``trigger="available_now"`` it processes the data since the last run, and ends; otherwise
    it runs until ``run_for`` is over, or until the task is stopped. The next attempt, or the next
    run of the DAG, continues after the last committed batch.

    The XCom ``stream`` contains the stream's progress after every batch: batch, rows, rows per
    second, latency and backlog.

    Example::

        HiveAcidStreamOperator(
            task_id="orders",
            job=StreamJob(
                name="orders",
                source=StreamSource("json", {"path": "s3a://landing/orders"}, "id bigint, status string"),
                statements=[InsertJob(target="shop.orders", source=BatchSource())],
                checkpoint="s3a://checkpoints/orders",
                trigger="available_now",
            ),
        )

    The parameters below come on top of those of every Spark job, see HiveAcidSparkOperator.

    :param job: The source, and the statements for every batch. (templated)
    :param stop_seconds: Time for the current batch to end when the task is stopped; then the
        application is killed, which is safe too. Airflow kills the process of a task 5 seconds
        after its stop. With a longer time, a driver in a cluster then continues until its batch ends.
    """

    job_type = StreamJob

    def __init__(self, *, stop_seconds: float = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stop_seconds = stop_seconds

    def _end_work(self) -> None:
        """End the stream after its batch; kill it if that takes too long."""
        if self._spark_run is None or self._running is None:
            return
        tokens: tuple[str, ...] = ()
        try:
            places = _places_of(self._running)
            places.ask_to_stop()
            if self._spark_run.ends_within(self.stop_seconds):
                return
            place = places.read()
            tokens = () if place is None else (place.next_token, source_token(place.next_token))
        except HiveAcidError as error:
            self.log.warning("The stream could not be asked to stop: %s", error)
        abort_run(self._spark_run, self._running.metastore, tokens, self.log)


def _places_of(job: StreamJob) -> "StreamPlaces":
    # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.stream_places import StreamPlaces
    from hiveacid.rules.names import TableRef
    from hiveacid.storage.folder import Storage

    with MetastoreClient(job.connection) as client:
        folder = client.get_table(TableRef.parse(job.target)).folder
    return StreamPlaces(Storage.of(folder), job.name)
