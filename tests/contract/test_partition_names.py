"""Names of partitions in statements and jobs: other texts of the values of existing partitions."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.api.explained import explain
from hiveacid.errors import TableExists
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import requested_partitions
from hiveacid.parser.questions import Explain
from hiveacid.parser.script import to_jobs, to_steps
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.locations import TableFolders
from hiveacid.upkeep.survey import Survey
from tests.fakes.metastore import REAL_AND_FAKE

pytestmark = REAL_AND_FAKE


def run(client: MetastoreClient, sql: str) -> list[RunReport]:
    return [run_ddl(client, job) for job in to_jobs(sql)]


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    """A table with a partition that an older version has named dc=1.50."""
    ref = TableRef(database, "events")
    run(client, f"CREATE TABLE {ref} (id bigint) PARTITIONED BY (dc decimal(10,2), d date)")
    add(client, ref, "1.50")
    return ref


def add(client: MetastoreClient, ref: TableRef, text: str) -> None:
    new = HivePartition.new(client.get_table(ref), [text, "2026-01-01"])
    client.add_partitions(ref, [new])
    root(client, ref).joinpath(new.name).mkdir(parents=True, exist_ok=True)


def root(client: MetastoreClient, ref: TableRef) -> Path:
    return Path(urlsplit(client.get_table(ref).folder).path)


def names(client: MetastoreClient, ref: TableRef) -> list[str]:
    return sorted(client.get_partition_names(ref))


def name(text: str) -> str:
    return f"dc={text}/d=2026-01-01"


def test_a_value_is_added_once_under_its_canonical_name(client, table) -> None:
    clause = "PARTITION (dc = {}, d = '2026-01-01')"
    with pytest.raises(TableExists, match=r"has the partition dc=1\.50/d=2026-01-01 already"):
        run(client, f"ALTER TABLE {table} ADD {clause.format('1.5')}")
    (step,) = to_steps(f"EXPLAIN ALTER TABLE {table} ADD {clause.format('1.5')}")
    assert isinstance(step, Explain)
    with pytest.raises(TableExists, match=r"has the partition dc=1\.50/d=2026-01-01 already"):
        explain(client, step.job)
    clauses = " ".join(map(clause.format, ("1.500", "'2.00'", "1E+2", "100")))
    (step,) = to_steps(f"EXPLAIN ALTER TABLE {table} ADD IF NOT EXISTS {clauses}")
    assert isinstance(step, Explain)
    explained = [row[0] for row in explain(client, step.job).rows]
    (report,) = run(client, f"ALTER TABLE {table} ADD IF NOT EXISTS {clauses}")
    assert report.partitions == (name("100"), name("2")) == tuple(explained)
    assert names(client, table) == sorted([name("1.50"), *report.partitions])


def test_a_repair_registers_each_value_once(client, table) -> None:
    for text in ("1.5", "3", "3.0", "x"):
        root(client, table).joinpath(name(text)).mkdir(parents=True)
    (report,) = run(client, f"MSCK REPAIR TABLE {table}")
    assert report.partitions == (name("3"), name("x"))
    assert names(client, table) == sorted([name("1.50"), *report.partitions])


@pytest.mark.parametrize("asked", ["1.50", "1.5", "1.500", "15E-1"])
def test_jobs_find_a_partition_by_any_text_of_its_value(client, table, asked) -> None:
    described = client.get_table(table)
    assert requested_partitions(client, described, [name(asked)]) == [name("1.50")]
    folders = TableFolders(described, partition_locations(client, described)).of_partitions(
        [name(asked)]
    )
    assert [folder.partition for folder in folders] == [name("1.50")]
    decisions = Survey(client, CompactionPolicy()).survey([table], [name(asked)])
    assert [decision.size.partition for decision in decisions] == [name("1.50")]
    assert requested_partitions(client, described, [name("02.0")]) == [name("2")]


def test_an_exact_name_means_one_of_several_equal_partitions(client, table) -> None:
    add(client, table, "1.5")
    described = client.get_table(table)
    assert requested_partitions(client, described, [name("1.50")]) == [name("1.50")]
    both = [name("1.5"), name("1.50")]
    assert requested_partitions(client, described, [name("1.500")]) == both
    run(client, f"ALTER TABLE {table} DROP PARTITION (dc = 1.500)")
    assert names(client, table) == []
