"""Where all tables lie, and where the partitions of one lie, in few calls and small answers."""

from typing import Any

from airflow_hiveacid.acid.locks import MetastoreVersion, TableRef
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.many_tables import projected_tables
from airflow_hiveacid.metastore.thrift import idl_tables

_WANTED = ("dbName", "tableName", "sd.location")


def table_locations(client: MetastoreClient) -> list[tuple[TableRef, str]]:
    """Where every table of every database has its folder; views have none.

    Args:
        client: Whom to ask: two calls per database, and more only for a very large one.
    """
    return [
        (TableRef(table.dbName, table.tableName), table.sd.location)
        for database in client.get_databases()
        for table in projected_tables(client, database, client.get_tables(database), _WANTED)
        if table.sd.location
    ]


def partition_locations(client: MetastoreClient, table: HiveTable) -> dict[str, str]:
    """The location of each partition of a table, by the partition's name.

    Args:
        client: Whom to ask; version 3 answers more slowly, because it always sends everything.
        table: A table with partitions.
    """
    ref, keys = table.ref, [key.name for key in table.partition_keys]
    if client.version is MetastoreVersion.HMS3:
        specs = client.call(
            idl_tables.get_partitions_pspec, ref.database, ref.name, -1, about=ref.full_name
        )
    else:
        request = idl_tables.GetPartitionsRequest(
            catName=table.raw.catName,
            dbName=ref.database,
            tblName=ref.name,
            projectionSpec=idl_tables.GetPartitionsProjectionSpec(["values", "sd.location"]),
            filterSpec=idl_tables.GetPartitionsFilterSpec(),
        )
        answer = client.call(idl_tables.get_partitions_with_specs, request, about=ref.full_name)
        specs = answer.partitionSpec
    return {
        partition_name(keys, values): location
        for spec in specs
        for values, location in _locations(spec)
    }


def _locations(spec: Any) -> list[tuple[list[str], str]]:
    locations = []
    if spec.partitionList is not None:
        locations += [
            (partition.values, partition.sd.location) for partition in spec.partitionList.partitions
        ]
    if spec.sharedSDPartitionSpec is not None:
        # Without a slash in between: of "/t" and "/t2/p=1" the relative path is "2/p=1".
        root = spec.sharedSDPartitionSpec.sd.location
        locations += [
            (partition.values, f"{root}{partition.relativePath}")
            for partition in spec.sharedSDPartitionSpec.partitions
        ]
    return locations
