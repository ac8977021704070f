"""Comparisons that cannot be made, and jobs that are invalid."""

from pathlib import Path

import pytest

from hiveacid.errors import (
    CheckFailed,
    CorruptFile,
    IcebergRefused,
    InvalidJob,
    SoftwareMissing,
    TableNotFound,
    WrongTableKind,
)
from hiveacid.jobs import IcebergCompareJob
from hiveacid.jobs.iceberg_job import ComparedPartition, IcebergCompareReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.compaction.written_table import WrittenTable
from tests.iceberg.test_comparison import compare, fake
from tests.iceberg.test_mirror import Mirror


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    found = Mirror(table, tmp_path)
    found.run()
    return found


@fake
def test_missing_tables_and_files_are_named(mirror: Mirror, database: str) -> None:
    with pytest.raises(TableNotFound, match=r"ns\.none does not exist in the catalog lake"):
        compare(mirror, table="ns.none")
    with pytest.raises(TableNotFound, match="nowhere"):
        compare(mirror, target=f"{database}.nowhere")
    plain = HiveTable.new(
        TableRef(database, "plain"), [HiveColumn("id", "int")], kind=TableKind.NOT_ACID
    )
    mirror.client.create_table(plain)
    with pytest.raises(WrongTableKind):
        compare(mirror, target=f"{database}.plain")
    (file,) = mirror.iceberg.scan().plan_files()
    Path(file.file.file_path.removeprefix("file:").replace("//", "/")).unlink()
    with pytest.raises(IcebergRefused, match=r"pyiceberg cannot read .* of ns\.t: ") as raised:
        compare(mirror)
    assert f"cannot read {file.file.file_path} of" in raised.value.what
    assert "with Spark" in raised.value.remedy


@fake
def test_damaged_files_are_errors(mirror: Mirror) -> None:
    (file,) = mirror.iceberg.scan().plan_files()
    path = Path(file.file.file_path.removeprefix("file:").replace("//", "/"))
    path.write_bytes(path.read_bytes()[:-20] + b"\0" * 20)
    with pytest.raises(CorruptFile, match="This is not an ORC file") as raised:
        compare(mirror)
    assert file.file.file_path in raised.value.what
    assert not mirror.client.show_locks()


def test_the_job_is_validated() -> None:
    for fields in (
        {"table": "t"},
        {"table": "a.t", "catalog_options": {"a": 1}},
        {"table": "a.t", "as_of_write_id": -1},
        {"table": "a.t", "as_of_write_id": "1"},
    ):
        with pytest.raises(InvalidJob):
            IcebergCompareJob(target="db.t", **fields).validate()  # type: ignore[arg-type]


@fake
def test_a_missing_library_is_an_error(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SoftwareMissing, match="The comparison of"):
        compare(mirror)


def test_an_error_names_a_few_partitions() -> None:
    partitions = [
        ComparedPartition(partition=f"p={n}", hive_rows=2, iceberg_rows=n) for n in range(9)
    ]
    report = IcebergCompareReport(
        target="a.b", table="c.d", equal=False, different=tuple(partitions), partitions=20
    )
    with pytest.raises(CheckFailed) as raised:
        report.require_equal()
    assert "in 9 of 20 partitions" in raised.value.what
    assert "p=1 (1 instead of 2 rows), p=2 (other values)" in raised.value.what
    assert raised.value.what.endswith("and 4 more.")
    assert "look for the program" in raised.value.remedy
