"""A Spark application that executes a job for a task: its XComs, and its early end."""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hiveacid.links import SparkApplicationLink, spark_application_url
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.progress import PhaseObserver

if TYPE_CHECKING:
    from hiveacid.drivers.run_files import Started


# XComs that a run pushes before its work begins


class TaskXComs(Protocol):
    """The destination of a task's XComs: a task instance, or its substitute in a triggerer."""

    def xcom_push(self, key: str, value: Any) -> None:
        """Set one, in place of an earlier value."""
        ...


def push_application(xcoms: TaskXComs, application_id: str, page: str | None) -> None:
    """Push the application's id, and the page that shows it.

    :param xcoms: The destination.
    :param application_id: The application.
    :param page: A page that shows it, when it has one of its own.
    """
    xcoms.xcom_push(key="application_id", value=application_id)
    url = spark_application_url(application_id, page)
    if url is not None:
        xcoms.xcom_push(key=SparkApplicationLink().xcom_key, value=url)


def push_end_of_driver(xcoms: TaskXComs, application_id: str) -> None:
    """Replace the page of a driver that has ended: by the history server, or by nothing.

    :param xcoms: The destination.
    :param application_id: The application.
    """
    url = spark_application_url(application_id, None) or ""
    xcoms.xcom_push(key=SparkApplicationLink().xcom_key, value=url)


def push_started(xcoms: TaskXComs, started: "Started") -> None:
    """Push the work that an application has begun.

    :param xcoms: The destination.
    :param started: The started work, as the application reports it.
    """
    xcoms.xcom_push(key="application_id", value=started.application_id)
    if started.txn_ids:
        # Of a write the last one counts: those before it were given up when the table moved.
        xcoms.xcom_push(key="txn_id", value=started.txn_ids[-1])
        xcoms.xcom_push(key="txn_ids", value=list(started.txn_ids))
    if started.write_ids:
        xcoms.xcom_push(key="write_ids", value=dict(started.write_ids))
    if started.stream is not None:
        xcoms.xcom_push(key="stream", value=codec.to_record(started.stream))


class StartedXComs(PhaseObserver):
    """Pushes the transactions that the worker itself opens, before they are used.

    :param xcoms: The destination.
    """

    def __init__(self, xcoms: TaskXComs) -> None:
        self._xcoms = xcoms
        self._txn_ids: list[int] = []
        self._write_ids: dict[str, int] = {}
        # Several compactions run concurrently.
        self._one_at_a_time = threading.Lock()

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Push one more transaction."""
        with self._one_at_a_time:
            self._txn_ids.append(txn_id)
            self._xcoms.xcom_push(key="txn_id", value=txn_id)
            self._xcoms.xcom_push(key="txn_ids", value=list(self._txn_ids))
            if write_ids:
                self._write_ids |= write_ids
                self._xcoms.xcom_push(key="write_ids", value=dict(self._write_ids))


# The early end of a run, by its worker or by a triggerer


class EndedRun(Protocol):
    """A run whose application can be ended."""

    def end(self) -> None:
        """End the application."""


def abort_run(
    run: EndedRun | None,
    metastore: MetastoreOptions | None,
    tokens: Sequence[str],
    log: Any,
) -> None:
    """End the application of a run, then abort its transactions, each as far as that is possible.

    Otherwise a running driver would open new transactions.

    :param run: The run; None if no application exists or is reachable.
    :param metastore: The metastore; None if it is unreachable.
    :param tokens: The names of the run's transactions, see ``Job.tokens``.
    :param log: The logger of the task or of the trigger.
    """
    if run is not None:
        try:
            run.end()
        except HiveAcidError as error:
            log.warning("The application could not be ended: %s", error)
    if metastore is None or not tokens:
        return
    try:
        txn_ids = abort_transactions(metastore, tokens)
    except HiveAcidError as error:
        log.warning("The transaction is left to the metastore's timeout: %s", error)
    else:
        log.info("Aborted transactions: %s", txn_ids or "none was open")


def abort_transactions(metastore: MetastoreOptions, tokens: Sequence[str]) -> list[int]:
    """Abort a run's open transactions, so that its locks and queued lock requests end with it.

    :param metastore: The metastore.
    :param tokens: The names of the run's transactions, see ``Job.tokens``.
    :return: The transactions that were open.
    """
    # Thrift is heavy, and this module is imported while DAGs are parsed.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.txn.locks import leave_queues
    from hiveacid.metastore.txn.owner import abort_open_transactions

    with MetastoreClient(metastore) as client:
        txn_ids = abort_open_transactions(client, *tokens)
        leave_queues(client, *tokens)
        return txn_ids
