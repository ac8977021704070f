"""The partitions that a compaction names, as people spell them."""

from collections.abc import Iterator

import pytest

from hiveacid.errors import HiveAcidError, UserError
from hiveacid.jobs.report import CompactReport, PartitionReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import requested_partitions
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.worker.script import run_script_in_worker
from tests.fakes.metastore import FakeMetastore

REF = TableRef("default", "p")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreClient]:
    """A metastore with an empty table, where another engine has added n=010."""
    with (
        FakeMetastore("4.0.1", directory=tmp_path_factory.mktemp("metastore")) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        columns = [HiveColumn("id", "int")]
        keys = [HiveColumn("n", "int"), HiveColumn("d", "date")]
        client.create_table(HiveTable.new(REF, columns, partition_keys=keys))
        client.create_table(HiveTable.new(TableRef("default", "whole"), columns))
        table = client.get_table(REF)
        values = [["7", "2026-01-01"], ["010", "2026-01-01"]]
        client.add_partitions(REF, [HivePartition.new(table, each) for each in values])
        yield client


def _compacted(client: MetastoreClient, sql: str) -> PartitionReport:
    with WorkerScheduler() as scheduler:
        (done,) = run_script_in_worker(client, to_script(sql), scheduler).statements
    assert isinstance(done.report, CompactReport)
    (partition,) = done.report.partitions
    return partition


@pytest.mark.parametrize("sql", ["OPTIMIZE p {}", "ALTER TABLE p {} COMPACT 'major'"])
@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("PARTITION (n = 7, d = '2026-01-01')", "n=7/d=2026-01-01"),
        ("PARTITION (D = DATE '2026-01-01', n = 007)", "n=7/d=2026-01-01"),
        ("PARTITION (n = 010, d = '2026-01-01')", "n=010/d=2026-01-01"),
    ],
)
def test_a_partition_is_found_by_its_values(
    client: MetastoreClient, sql: str, clause: str, name: str
) -> None:
    report = _compacted(client, sql.format(clause))
    assert (report.partition, report.outcome) == (name, "skipped")


@pytest.mark.parametrize("sql", ["OPTIMIZE p {}", "ALTER TABLE p {} COMPACT 'major'"])
def test_a_missing_partition_is_an_error(client: MetastoreClient, sql: str) -> None:
    report = _compacted(client, sql.format("PARTITION (n = 8, d = '2026-01-01')"))
    assert report.outcome == "failed"
    assert "has no partition n=8/d=2026-01-01" in report.reason


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("OPTIMIZE p PARTITION (n = 7)", "The value of the partition key d is missing"),
        ("OPTIMIZE p PARTITION (n = 7, dd = '2026-01-01')", "dd is not a partition key"),
        ("OPTIMIZE p PARTITION (n = 'x', d = '2026-01-01')", "'x' is not a value of"),
        ("OPTIMIZE whole PARTITION (n = 7)", "whole has no partitions"),
        ("ALTER TABLE whole PARTITION (n = 7) COMPACT 'major'", "whole has no partitions"),
    ],
)
def test_a_clause_that_does_not_fit_the_table_is_refused(
    client: MetastoreClient, statement: str, message: str
) -> None:
    with pytest.raises(HiveAcidError, match=message), WorkerScheduler() as scheduler:
        run_script_in_worker(client, to_script(statement), scheduler)


def test_a_repeated_partition_is_requested_once(client: MetastoreClient) -> None:
    table = client.get_table(REF)
    names = ["d=2026-01-01/n=7", "n=07/d=2026-01-01", "n=7/d=2026-01-01"]
    assert requested_partitions(client, table, names) == ["n=7/d=2026-01-01"]
    with pytest.raises(UserError, match="names a partition key twice"):
        requested_partitions(client, table, ["n=7/N=8/d=2026-01-01"])
