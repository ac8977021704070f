"""HiveAcidApplicationTrigger: the waiting for an application in the cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_hiveacid.cluster.applications import applications_of
from airflow_hiveacid.cluster.submit import spark_connection
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook, abort_transactions
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.report import ErrorReport

if TYPE_CHECKING:
    from airflow_hiveacid.cluster.cluster_run import ClusterRun
    from airflow_hiveacid.cluster.run_files import Started

ResultT = TypeVar("ResultT")


class HiveAcidApplicationTrigger(BaseTrigger):
    """Fires once an application has ended, or is not to be found any more.

    Meanwhile, it lets the task's XComs tell which transactions the application has opened.

    :param application_id: The application.
    :param tag: By which the applications of the run are found.
    :param tokens: The names of the run's transactions.
    :param report: Where the application leaves its report.
    :param spark_conn_id: The Spark connection.
    :param metastore_conn_id: The metastore, where the job does not name one.
    :param metastore: The metastore that the job names, as plain values.
    :param poll_seconds: Seconds between two looks.
    :param adopted: Whether an earlier try has submitted the application.
    """

    def __init__(
        self,
        *,
        application_id: str,
        tag: str,
        tokens: Sequence[str],
        report: str,
        spark_conn_id: str,
        metastore_conn_id: str,
        metastore: dict[str, Any] | None,
        poll_seconds: float,
        adopted: bool,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.tag = tag
        self.tokens = tokens
        self.report = report
        self.spark_conn_id = spark_conn_id
        self.metastore_conn_id = metastore_conn_id
        self.metastore = metastore
        self.poll_seconds = poll_seconds
        self.adopted = adopted

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Say how to build the same trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "application_id": self.application_id,
                "tag": self.tag,
                "tokens": list(self.tokens),
                "report": self.report,
                "spark_conn_id": self.spark_conn_id,
                "metastore_conn_id": self.metastore_conn_id,
                "metastore": self.metastore,
                "poll_seconds": self.poll_seconds,
                "adopted": self.adopted,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, in a thread: the cluster and the storage make us wait."""
        event: dict[str, Any] = {
            "application_id": self.application_id,
            "report": self.report,
            "adopted": self.adopted,
        }
        try:
            run = await self._cluster_run()
            while True:
                look = await asyncio.to_thread(run.look, self.application_id)
                look.log(self.log)
                if look.started is not None:
                    await self._tell(look.started)
                if look.end:
                    event |= look.end
                    break
                await asyncio.sleep(self.poll_seconds)
        except HiveAcidError as error:
            event["error"] = codec.encode(ErrorReport.of(error))
        except asyncio.CancelledError:
            # From 3.3 on, Airflow calls on_kill by itself.
            if not hasattr(BaseTrigger, "on_kill"):
                try:
                    if await self._ended_by_user():
                        await self.on_kill()
                except Exception as error:  # noqa: BLE001 - Airflow fails the task for any other
                    self.log.warning("The application may go on: %s", error)
            raise
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """End the application and abort its transactions: a user has ended the task."""
        try:
            run = await self._cluster_run()
            killed = await asyncio.to_thread(run.kill)
            self.log.info("Ended applications: %s", killed or "none was live")
        except HiveAcidError as error:
            self.log.warning("The application could not be ended: %s", error)
        metastore = await _airflows(self._metastore)
        aborted = await asyncio.to_thread(abort_transactions, metastore, self.tokens)
        self.log.info("Aborted transactions: %s", aborted or "none was open")

    async def _ended_by_user(self) -> bool:
        """Whether the waiting is over because the task is, and not because this triggerer stops."""
        # Heavy, and DAG files import this module.
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti = self.task_instance
        if ti is None:
            return False
        states = await _airflows(
            RuntimeTaskInstance.get_task_states,
            ti.dag_id,
            ti.map_index,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
        )
        # A task that is tried again goes on with the same application.
        return any(state in ("failed", "success") for state in states[ti.run_id].values())

    async def _tell(self, started: "Started") -> None:
        ti = self.task_instance
        if ti is None:
            return
        for key, value in xcoms_of(started).items():
            self.log.info("%s: %s", key, value)
            await _airflows(
                XCom.set,
                key,
                value,
                dag_id=ti.dag_id,
                task_id=ti.task_id,
                run_id=ti.run_id,
                map_index=-1 if ti.map_index is None else ti.map_index,
            )

    async def _cluster_run(self) -> "ClusterRun":
        connection = await _airflows(spark_connection, self.spark_conn_id)
        applications = applications_of(connection)
        return await asyncio.to_thread(cluster_run, applications, self.tag, self.report)

    def _metastore(self) -> MetastoreOptions:
        if self.metastore is None:
            return HiveAcidMetastoreHook(self.metastore_conn_id).options()
        options: MetastoreOptions = codec.decode(MetastoreOptions, self.metastore, "metastore")
        return options


async def _airflows(function: Callable[..., ResultT], *args: Any, **kwargs: Any) -> ResultT:
    """Call what is Airflow's own.

    It must go through sync_to_async: in other threads, calls of 3.1 would wait for an event loop
    that isn't the triggerer's. By itself, that forgets the message of a cancellation, by which
    Airflow knows that on_kill is due.
    """
    return await asyncio.shield(sync_to_async(function)(*args, **kwargs))


def cluster_run(applications: Any, tag: str, report: str) -> "ClusterRun":
    """Return the run of a tag.

    :param applications: The applications of the cluster.
    :param tag: By which the applications of the run are found.
    :param report: Where its application leaves its report.
    """
    # Arrow takes a second to import, and DAG files import this module.
    from airflow_hiveacid.cluster.cluster_run import ClusterRun

    return ClusterRun(applications, tag, report)


def xcoms_of(started: "Started") -> Mapping[str, Any]:
    """Return what a task's XComs say of an application before its work begins.

    :param started: What the application has begun.
    """
    told: dict[str, Any] = {"application_id": started.application_id}
    if started.txn_ids:
        # Of a write the last one counts: those before it were given up when the table moved.
        told["txn_id"] = started.txn_ids[-1]
        told["txn_ids"] = list(started.txn_ids)
    if started.write_ids:
        told["write_ids"] = dict(started.write_ids)
    return told
