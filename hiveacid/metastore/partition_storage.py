"""Locations and storage of partitions, read without their columns and properties."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hiveacid.errors import MetastoreCallFailed
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient, batches
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.locations import plain_location
from hiveacid.rules.names import partition_name

# Version 4 fetches these fields by SQL of its own, at less than half the cost of a complete description.
_FIELDS = [
    "values",
    "createTime",
    "sd.location",
    "sd.inputFormat",
    "sd.numBuckets",
    "sd.bucketCols",
    "sd.serdeInfo.serializationLib",
    "sd.serdeInfo.parameters",
]
# PartitionFilterMode of the metastore.
_BY_NAMES = 0


@dataclass(frozen=True, slots=True)
class PartitionStorage:
    """Everything about a partition that decides where its files are and how they are read.

    Attributes:
        location: Its folder, without redundant slashes.
        created: The time of its creation in seconds; 0 if this process has added it.
        bucket_columns: The columns that its rows are distributed by.
        num_buckets: The number of its buckets; 0 without buckets, also where an engine stores -1.
        input_format: The Java class that reads the partition.
        serde: The Java class of the row format.
        serde_parameters: The properties of the row format.
    """

    location: str | None
    created: int
    bucket_columns: tuple[str, ...]
    num_buckets: int
    input_format: str | None
    serde: str | None
    serde_parameters: Mapping[str, str]

    @classmethod
    def of(cls, partition: HivePartition) -> Self:
        """Take it from a complete description."""
        return cls._from_thrift(partition.raw, partition.raw.sd, partition.location)

    @classmethod
    def _from_thrift(cls, partition: Any, storage: Any, location: str | None) -> Self:
        serde = storage.serdeInfo or idl_tables.SerDeInfo()
        return cls(
            location=location and plain_location(location),
            created=partition.createTime or 0,
            bucket_columns=tuple(storage.bucketCols or ()),
            num_buckets=max(storage.numBuckets or 0, 0),
            input_format=storage.inputFormat,
            serde=serde.serializationLib,
            serde_parameters=dict(serde.parameters or {}),
        )

    @classmethod
    def read(
        cls, client: MetastoreClient, table: HiveTable, names: Sequence[str]
    ) -> dict[str, Self]:
        """Read the storage of those partitions of the given names that exist.

        Args:
            client: The metastore.
            table: The table.
            names: The names of partitions.

        Raises:
            TableNotFound: The table was dropped meanwhile.
        """
        if not client.version.takes_requests:
            return {each.name: cls.of(each) for each in client.get_partitions(table, names)}
        try:
            specs = [
                spec
                for batch in batches(names)
                for spec in client.call(
                    idl_tables.get_partitions_with_specs,
                    _request(table, batch),
                    about=table.ref.full_name,
                ).partitionSpec
            ]
        except MetastoreCallFailed:
            client.get_table(table.ref)  # If it was dropped, the error says so.
            raise
        keys = [key.name for key in table.partition_keys]
        return {
            partition_name(keys, each.values): cls._from_thrift(each, storage, location)
            for spec in specs
            for each, storage, location in partitions_of(spec)
        }


def partitions_of(spec: Any) -> Iterator[tuple[Any, Any, str]]:
    """Yield the partitions of an answer, the storage that some have in common, and their locations."""
    if spec.partitionList is not None:
        for partition in spec.partitionList.partitions:
            yield partition, partition.sd, partition.sd.location
    if spec.sharedSDPartitionSpec is not None:
        storage = spec.sharedSDPartitionSpec.sd
        for partition in spec.sharedSDPartitionSpec.partitions:
            # Without a slash in between: of "/t" and "/t2/p=1" the relative path is "2/p=1".
            yield partition, storage, f"{storage.location}{partition.relativePath}"


def _request(table: HiveTable, names: Sequence[str]) -> Any:
    return idl_tables.GetPartitionsRequest(
        catName=table.raw.catName,
        dbName=table.ref.database,
        tblName=table.ref.name,
        projectionSpec=idl_tables.GetPartitionsProjectionSpec(_FIELDS),
        filterSpec=idl_tables.GetPartitionsFilterSpec(_BY_NAMES, list(names)),
    )
