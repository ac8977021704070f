"""Changes of rows as Airflow tasks: HiveAcidInsertOperator to HiveAcidStreamOperator."""

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.operators.job import HiveAcidJobOperator, HiveAcidWorkerOperator
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.stage_jobs import DEFAULT_EXPIRY, DiscardJob, PublishJob, StageJob
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
from hiveacid.rules.run_tokens import source_token

if TYPE_CHECKING:
    from hiveacid.records.stream_places import StreamPlaces


class HiveAcidInsertOperator(HiveAcidJobOperator[InsertJob]):
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


class HiveAcidUpdateOperator(HiveAcidJobOperator[UpdateJob]):
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


class HiveAcidDeleteOperator(HiveAcidJobOperator[DeleteJob]):
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


class HiveAcidMergeOperator(HiveAcidJobOperator[MergeJob]):
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


class HiveAcidTransactionOperator(HiveAcidJobOperator[TransactionJob]):
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


class HiveAcidRestoreOperator(HiveAcidJobOperator[RestoreJob]):
    """Writes a new version of a table that is equal to an earlier one.

    Only the rows that differ are deleted and inserted; no version is lost.

    Example::

        HiveAcidRestoreOperator(
            task_id="undo_today",
            job=RestoreJob(target="sales.orders", as_of="{{ data_interval_start }}"),
        )
    """

    job_type = RestoreJob


# Changes that a person approves: staged, then published or discarded


class HiveAcidStageOperator(HiveAcidJobOperator[StageJob]):
    """Stages a change of rows, which becomes visible only when it is published.

    The files are written, and no lock or transaction is left. The result names the staged change for
    HiveAcidPublishOperator and HiveAcidDiscardOperator, and has the numbers of its rows for the person
    who approves it. The task emits no asset events.

    Example::

        stage = HiveAcidStageOperator(
            task_id="stage",
            job=DeleteJob(target="sales.orders", where="customer_id = 7"),
            expires_after="2 days",
        )
        ask = HITLBranchOperator(
            task_id="ask", subject="Delete the orders?", options=["publish", "discard"]
        )
        publish = HiveAcidPublishOperator(task_id="publish", staged=stage.output)
        discard = HiveAcidDiscardOperator(task_id="discard", staged=stage.output)
        stage >> ask >> [publish, discard]

    :param job: The change: an insert, update, delete, merge, or a transaction. (templated)
    :param expires_after: The time in which it can be published, like "7 days" or "12 h".
    """

    job_type = StageJob
    asset_events = has_lineage = False

    def __init__(
        self,
        *,
        job: "RowJob | TransactionJob | StageJob",
        expires_after: str = DEFAULT_EXPIRY,
        **kwargs: Any,
    ) -> None:
        if isinstance(job, RowJob | TransactionJob):
            job = StageJob(change=job, expires_after=expires_after)
        super().__init__(job=job, **kwargs)


StagedT = TypeVar("StagedT", PublishJob, DiscardJob)


class _HiveAcidStagedOperator(HiveAcidWorkerOperator[StagedT]):
    """Base of the operators that end the time of a staged change."""

    template_fields = (*HiveAcidWorkerOperator.template_fields, "staged")

    def __init__(self, *, staged: object, job: StagedT | None = None, **kwargs: Any) -> None:
        # The table is known when the task runs.
        of_staged = "{{ task.staged }}"
        super().__init__(
            job=job or self.job_type(target=of_staged, staged=of_staged),  # type: ignore[call-arg]
            **kwargs,
        )
        self.staged = staged

    def _complete(self, job: StagedT) -> StagedT:
        staged_job = type(job).of(self.staged)
        return dataclasses.replace(
            job,
            target=staged_job.target,
            staged=staged_job.staged,
            others=staged_job.others,
            of_run=staged_job.of_run,
        )


class HiveAcidPublishOperator(_HiveAcidStagedOperator[PublishJob]):
    """Commits a staged change, exactly once, in the worker.

    It fails if others have changed something since then that matters for the change, by the rules of
    its ``conflict_policy``. The checks of the change run before its rows become visible.

    Example::

        HiveAcidPublishOperator(task_id="publish", staged=stage.output)

    :param staged: The result of HiveAcidStageOperator, or "database.table/name". (templated)
    :param job: Options of the publication, such as ``lock_wait_seconds``. (templated)
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = PublishJob


class HiveAcidDiscardOperator(_HiveAcidStagedOperator[DiscardJob]):
    """Removes a staged change, so that it cannot be published.

    Example::

        HiveAcidDiscardOperator(task_id="discard", staged=stage.output)

    :param staged: The result of HiveAcidStageOperator, or "database.table/name". (templated)
    :param job: Options of the job. (templated)
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = DiscardJob
    asset_events = has_lineage = False


class HiveAcidStreamOperator(HiveAcidJobOperator[StreamJob]):
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

    The parameters below come on top of those of every Spark job, see HiveAcidJobOperator.

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
