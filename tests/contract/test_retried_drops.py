"""Retries of a drop whose partitions others have created again, and compacted, since."""

import json

import pytest

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.errors import UnprovenRun
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.contract import test_partitions
from tests.contract.test_partitions import DAYS, FAKE, killed, records, run, write
from tests.fakes.metastore import REAL_AND_FAKE

table = test_partitions.table


def create_again(client: MetastoreClient, ref: TableRef, name: str, created: int) -> None:
    """Create a partition in another second than before, as metastores keep the time."""
    while True:
        new = HivePartition.new(client.get_table(ref), [name.partition("=")[2]])
        client.add_partitions(ref, [new])
        if client.get_partitions(client.get_table(ref), [name])[0].raw.createTime != created:
            return
        client.drop_partitions(ref, [name], lambda: None)


@REAL_AND_FAKE
@pytest.mark.parametrize("base", ["base_{0}", "base_{0}_v0000099"])
def test_a_retry_keeps_a_partition_that_was_created_and_compacted_since(
    client, table, monkeypatch, base: str
) -> None:
    """The base covers all write ids, also those from before the first attempt."""
    drop = f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-03')"
    (before,) = client.get_partitions(client.get_table(table), [DAYS[0]])
    with killed(client, monkeypatch, after=1):
        run(client, drop, run_token="d/r/t/-1")
    create_again(client, table, DAYS[0], before.raw.createTime)
    written = write(client, table, DAYS[0], base)
    (report,) = run(client, drop, run_token="d/r/t/-1")
    assert report.partitions == (DAYS[1],)
    assert report.warnings == (f"{DAYS[0]} was created after an earlier attempt dropped it.",)
    assert written.exists()


@FAKE
def test_a_record_without_times_proves_no_creation(client, table, monkeypatch) -> None:
    drop = f"ALTER TABLE {table} DROP PARTITION (day = '2026-01-01')"
    with killed(client, monkeypatch, after=1):
        run(client, drop, run_token="d/r/t/-1")
    (record,) = records(client, table)
    content = json.loads(record.read_text())
    del content["created"]
    record.write_text(json.dumps(content))
    written = write(client, table, DAYS[0], "base_{0}")
    with pytest.raises(UnprovenRun):
        run(client, drop, run_token="d/r/t/-1")
    assert written.exists()
