"""A partition that another client has changed meanwhile is no longer the one that files were written for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import TableReplaced
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_definition
from hiveacid.rules.names import TableRef
from tests.engine.definitions import alter_partition, cluster_partition
from tests.fakes.metastore import REAL_AND_FAKE

pytestmark = REAL_AND_FAKE


@pytest.fixture
def table(client: MetastoreClient, database: str) -> HiveTable:
    ref, keys = TableRef(database, "t"), [HiveColumn("p", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys))
    return client.get_table(ref)


@pytest.fixture
def partition(client: MetastoreClient, table: HiveTable) -> HivePartition:
    new = HivePartition.new(table, ["y"])
    client.add_partitions(table.ref, [new])
    require_same_definition(client, table, [new])
    (added,) = client.get_partitions(table)
    return added


def _parameter(raw: Any) -> None:
    raw.sd.serdeInfo.parameters = {"field.delim": ";"}


def _format(raw: Any) -> None:
    raw.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"


@pytest.mark.parametrize("change", [_parameter, _format])
def test_another_storage_is_refused(
    client: MetastoreClient,
    table: HiveTable,
    partition: HivePartition,
    change: Callable[[Any], None],
) -> None:
    require_same_definition(client, table, [partition])
    alter_partition(client, table.ref, partition.name, change)
    with pytest.raises(TableReplaced, match=r"p=y of .* has other buckets"):
        require_same_definition(client, table, [partition])


def test_other_buckets_are_refused(
    client: MetastoreClient, table: HiveTable, partition: HivePartition
) -> None:
    cluster_partition(client, table.ref, partition.name, 4)
    with pytest.raises(TableReplaced, match=r"p=y of .* has other buckets"):
        require_same_definition(client, table, [partition])


def test_other_properties_of_the_partition_are_accepted(
    client: MetastoreClient, table: HiveTable, partition: HivePartition
) -> None:
    def change(raw: Any) -> None:
        raw.parameters = {**raw.parameters, "note": "x"}

    alter_partition(client, table.ref, partition.name, change)
    require_same_definition(client, table, [partition])


def test_one_changed_partition_of_several_is_found(
    client: MetastoreClient, table: HiveTable, tmp_path: Path
) -> None:
    """The metastore describes the storage that partitions have in common only once."""
    names = [None, "a/b=c", "Ü", "plain"]
    client.add_partitions(table.ref, [HivePartition.new(table, [name]) for name in names])
    far = HivePartition.new(table, ["far"])
    far.raw.sd.location = f"file:{tmp_path}/far"
    client.add_partitions(table.ref, [far])
    partitions = client.get_partitions(table)
    require_same_definition(client, table, partitions)
    for change in (_parameter, _format):
        alter_partition(client, table.ref, "p=plain", change)
        with pytest.raises(TableReplaced, match=r"p=plain of .* has other buckets"):
            require_same_definition(client, table, partitions)
        partitions = client.get_partitions(table)
        require_same_definition(client, table, partitions)
    for name, number in (("p=far", 4), ("p=a%2Fb%3Dc", 8)):
        cluster_partition(client, table.ref, name, number)
        with pytest.raises(TableReplaced, match=rf"{name} of .* has other buckets"):
            require_same_definition(client, table, partitions)
        partitions = client.get_partitions(table)
        require_same_definition(client, table, partitions)


def test_a_dropped_partition_is_found(
    client: MetastoreClient, table: HiveTable, partition: HivePartition
) -> None:
    client.add_partitions(table.ref, [HivePartition.new(table, ["other"])])
    client.drop_partitions(table.ref, [partition.name], lambda: None)
    with pytest.raises(TableReplaced, match=r"p=y of .* was dropped"):
        require_same_definition(client, table, [partition])
