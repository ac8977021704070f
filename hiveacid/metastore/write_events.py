"""Write events: reporting the files that a transaction adds to the metastore's listeners.

The metastore keeps an event for each partition until the transaction commits. Incremental
replication copies only files of such events, and Impala refreshes by them.
"""

from collections.abc import Sequence
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import MetastoreCallFailed, UnsupportedMetastore
from hiveacid.jobs.options import ALWAYS, AUTO, NEVER
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.thrift.idl import Call
from hiveacid.rules.names import TableRef

_PARTITIONS_PER_CALL = 500
_DEFAULT_CATALOG = "hive"
_ONE = idl_txns.add_write_notification_log
_IN_BATCH = idl_txns.add_write_notification_log_in_batch
_UNKNOWN_CALL = "Invalid method name"


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a transaction adds.

    Attributes:
        location: Its full location.
        directory: The name of the base or delta directory that it is in.
        checksum: The checksum that its file system keeps, in hexadecimal digits; empty if missing.
    """

    location: str
    directory: str
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """The files that a transaction adds to one partition.

    Attributes:
        partition: The partition; null for an unpartitioned table.
        files: At least one file.
    """

    partition: HivePartition | None
    files: Sequence[AddedFile]


def add_write_events(
    client: MetastoreClient,
    table: HiveTable,
    txn_id: int,
    write_id: int,
    added_files: Sequence[AddedFiles],
) -> None:
    """Report the files that a transaction adds to a table, before it commits.

    The metastore of Hive 3.1 has no such events; releases of vendors that are based on it have.

    Args:
        client: The metastore.
        table: The table.
        txn_id: The transaction, which is open.
        write_id: Its write id for the table.
        added_files: The files, with each partition once: a metastore refuses a batch that names one
            twice.

    Raises:
        UnsupportedMetastore: Its options require events, which the metastore does not support.
    """
    ref = table.ref
    requests = [
        idl_txns.WriteNotificationLogRequest(
            txnId=txn_id,
            writeId=write_id,
            db=ref.database,
            table=ref.name,
            fileInfo=_described(partition_files.files),
            partitionVals=None
            if partition_files.partition is None
            else list(partition_files.partition.raw.values),
        )
        for partition_files in added_files
    ]
    batches = [
        idl_txns.WriteNotificationLogBatchRequest(
            catalog=table.raw.catName or _DEFAULT_CATALOG,
            db=ref.database,
            table=ref.name,
            requestList=requests[start : start + _PARTITIONS_PER_CALL],
        )
        for start in range(0, len(requests), _PARTITIONS_PER_CALL)
    ]
    # Hive itself reports a table without partitions by the call for one event.
    if table.partition_keys and _send(client, _IN_BATCH, batches, ref):
        return
    if not _send(client, _ONE, requests, ref) and client.options.write_events == ALWAYS:
        raise UnsupportedMetastore(
            f"The metastore has no write events, which the write to {ref} is to send.",
            remedy=f'Set write_events to "{AUTO}" or "{NEVER}".',
        )


def _send(client: MetastoreClient, call: Call, requests: Sequence[Any], ref: TableRef) -> bool:
    """Make a call for each request.

    Returns:
        Whether the metastore supports the call; it is checked once.
    """
    for request in requests:
        if call.name in client.listeners.unknown_calls:
            return False
        try:
            client.call(call, request, about=ref.full_name)
        except MetastoreCallFailed as refused:
            if _UNKNOWN_CALL not in refused.what:
                raise
            client.listeners.unknown_calls.add(call.name)
            return False
    return True


def _described(files: Sequence[AddedFile]) -> Any:
    # The lists must have one length. Hive sets `replace` for all writes of transactional tables.
    return idl_txns.InsertEventRequestData(
        replace=True,
        filesAdded=[file.location for file in files],
        filesAddedChecksum=[file.checksum for file in files],
        subDirectoryList=[file.directory for file in files],
    )


# Rules for cleaning on replicated databases: files that no dump has copied yet must stay


# The property of a database that has a policy of replication.
_SOURCE = "repl.source.for"


def is_replicated(client: MetastoreClient, ref: TableRef) -> bool:
    """Return whether a table belongs to a database that is the source of a replication."""
    return bool(client.get_database(ref.database).parameters.get(_SOURCE, "").strip())


def recycle(client: MetastoreClient, location: str) -> None:
    """Make the metastore move removed files to a place that the next dump reads.

    The metastore does nothing unless `hive.repl.cm.enabled` is set there.

    Args:
        client: The metastore.
        location: The directory or the file that will be removed.
    """
    request = idl_txns.CmRecycleRequest(dataPath=location, purge=True)
    client.call(idl_txns.cm_recycle, request, about=location)
