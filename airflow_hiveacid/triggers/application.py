"""HiveAcidApplicationTrigger: the waiting for an application in the cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.cluster.spark_submission import spark_connection
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.triggers.base import THREADS, StoredTrigger, ask_airflow
from hiveacid.errors import ClusterUnreachable, HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import ErrorReport

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_hiveacid.cluster.applications import Application
    from airflow_hiveacid.cluster.runs import ClusterRun

ResultT = TypeVar("ResultT")

# The time limit of a poll, and of the end of a run.
_SECONDS = 300


def require_patience(patience: Patience, error: HiveAcidError, log: Any) -> None:
    """Tolerate a failed poll of an application, which continues independently of the polls.

    A right or a ticket that is missing for a while must not fail its task, so that an error of any
    kind counts only if it lasts.

    :param patience: The tolerance for errors of this run.
    :param error: The error of the poll.
    :param log: The logger of the task or of the trigger.
    :raises HiveAcidError: The polls have failed for too long.
    """
    if not patience.lasts():
        raise error
    log.warning("%s", error)


class HiveAcidApplicationTrigger(StoredTrigger):
    """Fires once an application has ended or has disappeared.

    Meanwhile, it pushes the application's open transactions to the task's XComs.

    :param application_id: The application.
    :param tag: The tag that identifies the applications of the run.
    :param tokens: The names of the run's transactions.
    :param report: The location of the application's report.
    :param spark_conn_id: The Spark connection.
    :param metastore_conn_id: The metastore, if the job does not name one.
    :param metastore: The metastore that the job names, as plain values.
    :param poll_seconds: Seconds between two polls.
    :param adopted: Whether an earlier attempt has submitted the application.
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
        self.tokens = list(tokens)
        self.report = report
        self.spark_conn_id = spark_conn_id
        self.metastore_conn_id = metastore_conn_id
        self.metastore = metastore
        self.poll_seconds = poll_seconds
        self.adopted = adopted

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll repeatedly, in a thread: the cluster and the storage make us wait."""
        event: dict[str, Any] = {
            "application_id": self.application_id,
            "report": self.report,
            "adopted": self.adopted,
        }
        try:
            run = await self._cluster_run()
            patience = Patience(PATIENCE)
            while (application := await self._poll_once(run, patience)) is None:
                await asyncio.sleep(self.poll_seconds)
            event |= {"state": application.state.value, "diagnostics": application.diagnostics}
        except HiveAcidError as error:
            event["error"] = codec.encode(ErrorReport.of(error))
        except asyncio.CancelledError:
            # From 3.3 on, Airflow calls on_kill by itself.
            if not hasattr(BaseTrigger, "on_kill"):
                try:
                    if await self._ended_by_user():
                        await self.on_kill()
                except Exception as error:  # noqa: BLE001 - Airflow fails the task for any other
                    self.log.warning("The application may continue: %s", error)
            raise
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _poll_once(self, run: "ClusterRun", patience: Patience) -> "Application | None":
        try:
            application = await self._in_thread(run.poll)
        except HiveAcidError as error:
            require_patience(patience, error, self.log)
            return None
        patience.answered()
        return application

    async def _in_thread(self, work: Callable[[], ResultT], purpose: str = "") -> ResultT:
        # A poll reads the report, too, and anybody may choose the storage of a table.
        storage = urlsplit(self.report).netloc
        name = f"{purpose}applications of {self.spark_conn_id}, with reports on {storage or 'disk'}"
        return await THREADS.run(self.server(name), work, _SECONDS, ClusterUnreachable)

    async def on_kill(self) -> None:
        """End the application and abort its transactions: a user has ended the task."""
        run = await self._if_known(self._cluster_run())
        metastore = await self._if_known(ask_airflow(self._metastore))
        end = partial(abort_run, run, metastore, self.tokens, self.log)
        # Polls that hang must not prevent the end.
        await self._if_known(self._in_thread(end, "the end of "))

    async def _ended_by_user(self) -> bool:
        """Whether the wait ended because the task ended, and not because this triggerer stops."""
        # Heavy, and DAG files import this module.
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti = self.task_instance
        if ti is None:
            return False
        states = await ask_airflow(
            RuntimeTaskInstance.get_task_states,
            ti.dag_id,
            ti.map_index,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
        )
        # A retried task continues with the same application.
        return any(state in ("failed", "success") for state in states[ti.run_id].values())

    async def _cluster_run(self) -> "ClusterRun":
        connection = await ask_airflow(spark_connection, self.spark_conn_id)
        xcoms = _TaskXComs(self.task_instance, self.log, asyncio.get_running_loop())
        return await self._in_thread(partial(self._build_run, connection, xcoms), "the start of ")

    def _build_run(self, connection: "Connection", xcoms: "_TaskXComs") -> "ClusterRun":
        # Arrow takes a second to import, and DAG files import this module.
        from airflow_hiveacid.cluster.runs import ClusterRun, Submitted

        submitted = Submitted(self.application_id, self.report, self.adopted)
        return ClusterRun(connection, self.tag, xcoms, self.log, submitted)

    def _metastore(self) -> MetastoreOptions:
        if self.metastore is None:
            return HiveAcidMetastoreHook(self.metastore_conn_id).options()
        options: MetastoreOptions = codec.decode(MetastoreOptions, self.metastore, "metastore")
        return options

    async def _if_known(self, coroutine: Awaitable[ResultT]) -> ResultT | None:
        """Return the awaited object; None after an error, so that the other is still used."""
        try:
            return await coroutine
        except HiveAcidError as error:
            self.log.warning("A part of the application may continue: %s", error)
            return None


class _TaskXComs:
    """The XComs of a deferred task, which a thread of the triggerer pushes.

    :param ti: The task instance; None if no task waits.
    :param log: The logger of the trigger.
    :param loop: The event loop of the triggerer.
    """

    def __init__(self, ti: Any, log: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._ti = ti
        self._log = log
        self._loop = loop

    def xcom_push(self, key: str, value: Any) -> None:
        """Set one, and wait until it is there."""
        ti = self._ti
        if ti is None:
            return
        self._log.info("%s: %s", key, value)
        pushed = ask_airflow(
            XCom.set,
            key,
            value,
            dag_id=ti.dag_id,
            task_id=ti.task_id,
            run_id=ti.run_id,
            map_index=-1 if ti.map_index is None else ti.map_index,
        )
        asyncio.run_coroutine_threadsafe(pushed, self._loop).result()
