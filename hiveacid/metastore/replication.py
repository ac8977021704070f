"""Rules for cleaning on replicated databases: files that no dump has copied yet must stay."""

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_events
from hiveacid.rules.names import TableRef

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
    request = idl_events.CmRecycleRequest(dataPath=location, purge=True)
    client.call(idl_events.cm_recycle, request, about=location)
