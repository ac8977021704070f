"""Changes of definitions as other clients of the metastore make them: files stay as they are."""

from collections.abc import Callable, Sequence
from typing import Any

from hiveacid.metastore.alteration import send_definition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef


def replace_definition(
    client: MetastoreClient, ref: TableRef, change: Callable[[Any], object]
) -> None:
    """Change the definition of a table."""
    raw = client.get_table(ref).raw
    change(raw)
    send_definition(client, ref, raw)


def cluster(
    client: MetastoreClient, ref: TableRef, buckets: int, columns: Sequence[str] = ("id",)
) -> None:
    """``ALTER TABLE ... CLUSTERED BY``: partitions keep their own definitions."""

    def change(raw: Any) -> None:
        raw.sd.numBuckets, raw.sd.bucketCols = buckets, list(columns)

    replace_definition(client, ref, change)


def alter_partition(
    client: MetastoreClient, ref: TableRef, name: str, change: Callable[[Any], None]
) -> None:
    """Change the definition of one partition."""
    (partition,) = client.get_partitions(client.get_table(ref), [name])
    change(partition.raw)
    call = idl_tables.alter_partitions_with_environment_context
    context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    client.call(call, ref.database, ref.name, [partition.raw], context)


def cluster_partition(client: MetastoreClient, ref: TableRef, name: str, buckets: int) -> None:
    """Give a partition other buckets by ``id``, as an insert of Hive 4 that names it does."""

    def change(raw: Any) -> None:
        raw.sd.numBuckets, raw.sd.bucketCols = buckets, ["id"] if buckets > 0 else []

    alter_partition(client, ref, name, change)
