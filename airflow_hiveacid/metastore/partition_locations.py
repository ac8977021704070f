"""Where the partitions of a table lie, in one call: a full description of each is far too much."""

from typing import Any

from airflow_hiveacid.acid.locks import MetastoreVersion
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.idl import call, struct

PartitionWithoutSD = struct(
    "PartitionWithoutSD",
    """1:list<string> values, 2:i32 createTime, 3:i32 lastAccessTime, 4:string relativePath,
    5:map<string,string> parameters""",
)
PartitionSpecWithSharedSD = struct(
    "PartitionSpecWithSharedSD", "1:list<PartitionWithoutSD> partitions, 2:StorageDescriptor sd"
)
PartitionListComposingSpec = struct("PartitionListComposingSpec", "1:list<Partition> partitions")
PartitionSpec = struct(
    "PartitionSpec",
    """1:string dbName, 2:string tableName, 3:string rootPath,
    4:PartitionSpecWithSharedSD sharedSDPartitionSpec,
    5:PartitionListComposingSpec partitionList""",
)
GetPartitionsProjectionSpec = struct("GetPartitionsProjectionSpec", "1:list<string> fieldList")
GetPartitionsFilterSpec = struct(
    "GetPartitionsFilterSpec", "7:i32 filterMode, 8:list<string> filters"
)
GetPartitionsRequest = struct(
    "GetPartitionsRequest",
    """1:string catName, 2:string dbName, 3:string tblName, 4:bool withAuth, 5:string user,
    6:list<string> groupNames, 7:GetPartitionsProjectionSpec projectionSpec,
    8:GetPartitionsFilterSpec filterSpec""",
)
GetPartitionsResponse = struct("GetPartitionsResponse", "1:list<PartitionSpec> partitionSpec")

get_partitions_with_specs = call(
    "get_partitions_with_specs",
    "1:GetPartitionsRequest request",
    returns="GetPartitionsResponse",
    throws="1:MetaException",
)
get_partitions_pspec = call(
    "get_partitions_pspec",
    "1:string db_name, 2:string tbl_name, 3:i32 max_parts",
    returns="list<PartitionSpec>",
    throws="1:NoSuchObjectException, 2:MetaException",
)


def partition_locations(client: MetastoreClient, table: HiveTable) -> dict[str, str]:
    """The location of each partition of a table, by the partition's name.

    Args:
        client: Whom to ask; version 3 answers more slowly, because it always sends everything.
        table: A table with partitions.
    """
    ref, keys = table.ref, [key.name for key in table.partition_keys]
    if client.version is MetastoreVersion.HMS3:
        specs = client.call(get_partitions_pspec, ref.database, ref.name, -1, about=ref.full_name)
    else:
        request = GetPartitionsRequest(
            catName=table.raw.catName,
            dbName=ref.database,
            tblName=ref.name,
            projectionSpec=GetPartitionsProjectionSpec(["values", "sd.location"]),
            filterSpec=GetPartitionsFilterSpec(),
        )
        answer = client.call(get_partitions_with_specs, request, about=ref.full_name)
        specs = answer.partitionSpec
    return {
        partition_name(keys, values): location
        for spec in specs
        for values, location in _locations(spec)
    }


def _locations(spec: Any) -> list[tuple[list[str], str]]:
    found = []
    if spec.partitionList is not None:
        found += [(each.values, each.sd.location) for each in spec.partitionList.partitions]
    if spec.sharedSDPartitionSpec is not None:
        # Without a slash in between: of "/t" and "/t2/p=1" the relative path is "2/p=1".
        root = spec.sharedSDPartitionSpec.sd.location
        found += [
            (each.values, f"{root}{each.relativePath}")
            for each in spec.sharedSDPartitionSpec.partitions
        ]
    return found
