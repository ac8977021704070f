"""Early termination of a run, by its worker or by a triggerer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.options import MetastoreOptions

if TYPE_CHECKING:
    from airflow_hiveacid.cluster.spark_run import SparkRun


def abort_run(
    run: "SparkRun | None",
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
        aborted = abort_transactions(metastore, tokens)
    except HiveAcidError as error:
        log.warning("The transaction is left to the metastore's timeout: %s", error)
    else:
        log.info("Aborted transactions: %s", aborted or "none was open")


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
        aborted = abort_open_transactions(client, *tokens)
        leave_queues(client, *tokens)
        return aborted
