"""Comparisons with Iceberg tables: equal after each export, and different after any other change."""

import json
import subprocess
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from airflow_hiveacid import AcidTable
from hiveacid.errors import (
    AccessRefused,
    CheckFailed,
    CorruptFile,
    IcebergRefused,
    InvalidJob,
    SoftwareMissing,
    TableNotFound,
    VersionGone,
    WrongTableKind,
)
from hiveacid.iceberg.comparison import TableRows
from hiveacid.iceberg.row_hash import TableSum
from hiveacid.iceberg.run import compare_with_iceberg
from hiveacid.jobs import IcebergCompareJob
from hiveacid.jobs.iceberg_job import ComparedPartition, IcebergCompareReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import Delta, TableRef, partition_name
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.table_scan import TableScan
from tests.compaction.written_table import WrittenTable
from tests.golden import by_table
from tests.iceberg.case import ExportCase, LakeCase
from tests.iceberg.lakes import exported, guarded
from tests.iceberg.test_golden_exports import ORC
from tests.iceberg.test_mirror import Mirror
from tests.orc.orc_tables import flat_file
from tests.places import place_of
from tests.scan.test_golden_tables import opened

fake = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
TABLES = by_table(ORC)


def job(case: LakeCase, **fields: Any) -> IcebergCompareJob:
    known = case.job()
    defaults: dict[str, Any] = {
        name: getattr(known, name)
        for name in ("target", "metastore", "table", "catalog", "catalog_options")
    }
    return IcebergCompareJob(**{**defaults, **fields})


def compare(case: LakeCase, **fields: Any) -> IcebergCompareReport:
    report = compare_with_iceberg(case.client, job(case, **fields))
    assert not case.client.show_locks()
    assert IcebergCompareReport.from_dict(report.to_dict()) == report
    return report


def require_equal(case: LakeCase, version: str = "mirrored") -> IcebergCompareReport:
    report = compare(case)
    assert report.equal, report
    assert (report.version, report.different) == (version, ())
    assert report.hive_rows == report.iceberg_rows
    report.require_equal()
    return report


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    found = Mirror(table, tmp_path)
    found.run()
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("table", TABLES)
def test_exported_golden_tables_are_equal(table: str, tmp_path: Path) -> None:
    for number, snapshot in enumerate(TABLES[table]):
        visible = opened(snapshot)
        assert visible.table is not None
        copy, _ = exported(visible, tmp_path / str(number))
        columns = TableColumns(visible.table.columns, visible.table.partition_keys)
        keys = [key.name.lower() for key in columns.keys]
        hive, iceberg = TableSum(keys), TableSum(keys)
        for partition in visible.partitions:
            for _, batch in visible.part(partition).rows(columns):
                hive.add(batch)
        rows = TableRows(guarded(copy), visible.table)
        for file in rows.files():
            iceberg.merge(rows.sum_of(file, keys, lambda batches: batches))
        assert hive.rows == len(snapshot.rows)
        assert hive == iceberg, snapshot
        assert rows.notices == []


@fake
def test_a_mirror_is_equal_after_each_run(mirror: Mirror) -> None:
    first = require_equal(mirror)
    assert (first.write_id, first.hive_rows, first.partitions) == (1, 3, 1)
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    mirror.update()
    mirror.compact("major")
    mirror.hive.clean()
    second = require_equal(mirror)
    assert (second.write_id, second.hive_rows) == (3, 3)
    assert second.snapshot_id == mirror.iceberg.metadata.current_snapshot_id
    mirror.hive.delete((1, 0), (1, 2), (2, 1))
    mirror.update()
    assert require_equal(mirror).partitions == 0


@fake
def test_the_version_of_the_mirror_is_compared(mirror: Mirror) -> None:
    mirror.hive.delete((1, 0))
    mirror.hive.insert(1, 4)
    assert require_equal(mirror).write_id == 1
    newest = compare(mirror, as_of_write_id=3)
    assert (newest.version, newest.write_id, newest.equal) == ("requested", 3, False)
    assert (newest.hive_rows, newest.iceberg_rows) == (4, 3)
    mirror.update()
    assert require_equal(mirror).write_id == 3
    assert not compare(mirror, as_of_write_id=1).equal


@fake
def test_a_write_that_was_open_during_the_run_is_not_part_of_its_version(mirror: Mirror) -> None:
    client, ref = mirror.client, mirror.hive.ref
    late, lost = (client.open_txn("tests", "localhost", None) for _ in range(2))
    own, aborted = (client.allocate_write_id(txn, ref) for txn in (late, lost))
    mirror.hive.insert(4)
    mirror.update()
    row_ids = [(own, encode_bucket(0), 0)]
    mirror.hive._write(mirror.hive.root / Delta(own, own, 0).name, [77], row_ids)
    client.commit_txn(late)
    client.abort_txn(lost)
    assert aborted == 3
    assert require_equal(mirror).write_id == 4
    assert not compare(mirror, as_of_write_id=4).equal
    mirror.update()
    assert require_equal(mirror).hive_rows == 5


@fake
def test_a_version_that_is_gone_is_an_error_with_a_remedy(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    mirror.compact("major")
    assert require_equal(mirror).write_id == 1
    mirror.hive.clean()
    with pytest.raises(VersionGone, match="version of the mirror") as raised:
        compare(mirror)
    assert raised.value.remedy == "Run the mirror again, and compare the tables then."
    mirror.update()
    require_equal(mirror)


def _removed(table: Table) -> None:
    table.delete(EqualTo("id", 2))  # type: ignore[call-arg]


def _duplicated(table: Table) -> None:
    table.append(table.scan(row_filter=EqualTo("id", 2)).to_arrow())  # type: ignore[call-arg]


def _replaced(table: Table) -> None:
    rows = table.scan().to_arrow()
    ids = pa.array([7 if each == 2 else each for each in rows["id"].to_pylist()], pa.int32())
    table.overwrite(rows.set_column(0, rows.schema.field("id"), ids))


def _nulled(table: Table) -> None:
    rows = table.scan().to_arrow()
    ids = pa.array([None if each == 2 else each for each in rows["id"].to_pylist()], pa.int32())
    table.overwrite(rows.set_column(0, rows.schema.field("id"), ids))


@fake
@pytest.mark.parametrize("change", [_removed, _duplicated, _replaced, _nulled])
def test_a_change_of_the_iceberg_table_is_found(
    mirror: Mirror, change: Callable[[Table], None]
) -> None:
    change(mirror.iceberg)
    report = compare(mirror)
    assert not report.equal
    assert report.version == "newest"
    assert any("Another program has changed" in each for each in report.warnings)
    (different,) = report.different
    assert different.partition is None
    assert different.hive_hash != different.iceberg_hash
    assert (different.hive_rows, different.iceberg_rows) == (3, mirror.iceberg.scan().count())
    with pytest.raises(CheckFailed, match="the table"):
        report.require_equal()


@fake
def test_a_table_that_iceberg_has_written_again_is_equal(mirror: Mirror) -> None:
    # As `rewrite_data_files` does after the switch: Parquet files, and another order of the rows.
    mirror.iceberg.overwrite(mirror.iceberg.scan().to_arrow().sort_by([("id", "descending")]))
    report = require_equal(mirror, "newest")
    assert report.write_id == 1


@fake
def test_the_rows_of_another_table_are_compared_with_the_newest_version(
    mirror: Mirror, database: str
) -> None:
    other = WrittenTable.create(mirror.client, f"{database}.other")
    other.insert(1, 2)
    other.insert(3)
    report = compare(mirror, target=str(other.ref))
    assert (report.equal, report.version, report.write_id) == (True, "newest", 2)
    assert any("rows of another table" in each for each in report.warnings)


@fake
def test_added_and_widened_columns_are_equal(mirror: Mirror) -> None:
    mirror.change_columns(("id", "bigint"), ("v", "struct<a:int>"))
    # Before the next run of the mirror, the column has no values.
    report = require_equal(mirror)
    assert report.warnings == ("The Iceberg table has no column v: it counts as null there.",)
    mirror.update()
    mirror.hive.insert(4)
    mirror.change_columns(("id", "bigint"), ("v", "struct<a:bigint,b:string>"), ("w", "string"))
    mirror.update()
    assert require_equal(mirror).warnings == ()


@fake
def test_columns_of_another_kind_are_named(mirror: Mirror) -> None:
    rows = pa.table({"id": ["1", "2", "3"]})
    mirror.catalog.create_table("ns.texts", rows.schema).append(rows)
    report = compare(mirror, table="ns.texts")
    assert not report.equal
    assert any("no mirror of a Hive table" in each for each in report.warnings)
    kinds = "The column id is integer in the Hive table, and text in the Iceberg table."
    assert kinds in report.warnings


STRUCT = pa.struct({"x": pa.int32(), "at": pa.timestamp("us"), "names": pa.list_(pa.string())})
TYPES = {
    "flag": ("boolean", pa.bool_()),
    "tiny": ("tinyint", pa.int8()),
    "small": ("smallint", pa.int16()),
    "number": ("int", pa.int32()),
    "big": ("bigint", pa.int64()),
    "single": ("float", pa.float32()),
    "real": ("double", pa.float64()),
    "text": ("string", pa.string()),
    "code": ("varchar(20)", pa.string()),
    "blob": ("binary", pa.binary()),
    "day": ("date", pa.date32()),
    "moment": ("timestamp", pa.timestamp("us")),
    "price": ("decimal(18,2)", pa.decimal128(18, 2)),
    "wide": ("decimal(38,10)", pa.decimal128(38, 10)),
    "tags": ("array<string>", pa.list_(pa.string())),
    "counts": ("map<string,int>", pa.map_(pa.string(), pa.int32())),
    "place": ("struct<x:int,at:timestamp,names:array<string>>", STRUCT),
    "places": ("array<struct<x:int,at:timestamp,names:array<string>>>", pa.list_(STRUCT)),
    "named": (
        "map<string,struct<x:int,at:timestamp,names:array<string>>>",
        pa.map_(pa.string(), STRUCT),
    ),
}


def values(n: int, year: int) -> dict[str, Any]:
    moment = datetime(year, 12, 31, 23, 59, 59, 123456 + n)
    place = {"x": n, "at": moment, "names": [f"n{n}", None][: n % 3]}
    row = {
        "flag": n % 2 == 0,
        "tiny": n - 50,
        "small": -n,
        "number": n,
        "big": n << 40,
        "single": [float("nan"), -0.0, 0.25][n % 3],
        "real": [float("-inf"), float("nan"), n / 7][n % 3],
        "text": ["", "ü" * n, "\U0001f600"][n % 3],
        "code": f"code {n}",
        "blob": b"b\0" * (n % 4),
        "day": date(year, 1, 1 + n % 31),
        "moment": moment,
        "price": Decimal(n - 20) / 4,
        "wide": Decimal(f"99999999999999999999999999{99 - n}.9999999999"),
        "tags": ["a", None, f"t{n}"][: n % 4],
        "counts": {"k": n, "n": None} if n % 3 else {},
        "place": place,
        "places": [place, None][: n % 3],
        "named": {"p": place, "q": None} if n % 3 else {},
    }
    # A null at each place, and a row of nulls.
    names = [*row, *row]
    return {name: None if n in (40, names.index(name)) else row[name] for name in row}


@fake
@pytest.mark.parametrize(("year", "notices"), [(2020, 0), (9999, 1)])
def test_all_types_are_equal(
    client: MetastoreClient, database: str, tmp_path: Path, year: int, notices: int
) -> None:
    ref = TableRef(database, "types")
    columns = [HiveColumn(name, type_) for name, (type_, _) in TYPES.items()]
    client.create_table(HiveTable.new(ref, columns, kind=TableKind.INSERT_ONLY))
    txn = client.open_txn("tests", "localhost", None)
    write_id = client.allocate_write_id(txn, ref)
    schema = pa.schema([(name, type_) for name, (_, type_) in TYPES.items()])
    rows = pa.Table.from_pylist([values(n, year) for n in range(60)], schema=schema)
    folder = place_of(client.get_table(ref).folder) / Delta(write_id, write_id, 0).name
    folder.mkdir()
    (folder / "000000_0").write_bytes(flat_file(rows).getvalue())
    client.commit_txn(txn)
    case = LakeCase(client, str(ref), tmp_path)
    case.run()
    report = require_equal(case)
    assert report.hive_rows == 60
    # Newer versions of Arrow do not read years after 2262 in ORC files.
    assert len(report.warnings) <= notices
    table = case.table()
    assert table is not None
    # Each column takes part.
    found = TableScan(str(ref), client.options).to_arrow()
    for name in found.schema.names:
        first = found[name].combine_chunks()
        others = pa.concat_arrays([first[1:2], first[:1], first[2:]])
        place = found.schema.get_field_index(name)
        before, after = TableSum([]), TableSum([])
        for batch in found.to_batches():
            before.add(batch)
        for batch in found.set_column(place, name, others).to_batches():
            after.add(batch)
        assert before != after, name


@fake
def test_deleted_rows_of_files_that_arrow_cannot_read_are_omitted(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    ref = TableRef(database, "moments")
    columns = [HiveColumn("id", "int"), HiveColumn("moment", "timestamp")]
    client.create_table(HiveTable.new(ref, columns, kind=TableKind.FULL_ACID))
    # Files from before the conversion of the table, which are two stripes in Iceberg.
    for place, name in enumerate(("000000_0", "000000_0_copy_1")):
        rows = pa.table(
            {
                "id": pa.array(range(place * 60, place * 60 + 60), pa.int32()),
                "moment": pa.array([datetime(9999, 12, 31)] * 60, pa.timestamp("us")),
            }
        )
        (place_of(client.get_table(ref).folder) / name).write_bytes(flat_file(rows).getvalue())
    mirror = Mirror(WrittenTable(client, ref), tmp_path)
    mirror.deletes = "positions"
    mirror.run()
    mirror.hive.delete((0, 3), (0, 70))
    assert mirror.run().delete_files == 1
    mirror.hive.delete((0, 119))
    assert mirror.run().delete_files == 1
    assert require_equal(mirror).hive_rows == 117


@fake
def test_timestamps_are_compared_without_warnings(
    client: MetastoreClient, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ref = TableRef(database, "moments")
    columns = [HiveColumn("id", "int"), HiveColumn("moment", "timestamp")]
    client.create_table(HiveTable.new(ref, columns, kind=TableKind.FULL_ACID))
    moments = pa.array([datetime(2026, 11, 20, 12)], pa.timestamp("us"))
    rows = pa.table({"id": pa.array([1], pa.int32()), "moment": moments})
    (place_of(client.get_table(ref).folder) / "000000_0").write_bytes(flat_file(rows).getvalue())
    mirror = Mirror(WrittenTable(client, ref), tmp_path)
    mirror.run()
    caplog.clear()
    assert require_equal(mirror).hive_rows == 1
    assert "Downcasting" not in caplog.text


@pytest.fixture
def partitioned(tmp_path: Path) -> Any:
    from tests.golden_versions import adopted

    with adopted("part_dyn", None, tmp_path / "hive") as hive:  # type: ignore[arg-type]
        case = ExportCase(hive, tmp_path)
        case.run()
        yield case


def test_a_row_that_was_moved_to_another_partition_is_found(partitioned: ExportCase) -> None:
    report = require_equal(partitioned)
    assert report.partitions > 1
    table = partitioned.table()
    assert table is not None
    rows = table.scan().to_arrow()
    names = [field.name for field in table.spec().fields]
    first, *others = zip(*(rows[name].to_pylist() for name in names), strict=True)
    other = next(each for each in others if each != first)
    for name, value in zip(names, other, strict=True):
        place, type_ = rows.schema.get_field_index(name), rows.schema.field(name).type
        moved = pa.array([value, *rows[name].to_pylist()[1:]], type_)
        rows = rows.set_column(place, name, moved)
    table.overwrite(rows)
    found = compare(partitioned)
    assert (found.equal, found.version) == (False, "newest")
    assert found.hive_rows == found.iceberg_rows
    assert [each.partition for each in found.different] == sorted(
        partition_name(names, list(map(str, values))) for values in (first, other)
    )
    assert sum(each.hive_rows - each.iceberg_rows for each in found.different) == 0


def command(case: LakeCase, *more: str) -> "subprocess.CompletedProcess[str]":
    return case.command(*more, name="compare-iceberg")


@fake
def test_the_command_reports_the_result_by_its_exit_code(mirror: Mirror) -> None:
    equal = command(mirror)
    assert equal.returncode == 0, equal.stderr
    assert "at version 1 (mirrored) equals ns.t at snapshot" in equal.stdout
    _removed(mirror.iceberg)
    different = command(mirror)
    assert different.returncode == 1
    assert "differs from ns.t" in different.stdout
    assert "Another program has changed" in different.stderr
    found = command(mirror, "--json", "--as-of-write-id=1")
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert (report["equal"], report["version"]) == (False, "requested")
    assert report["different"][0]["iceberg_rows"] == 2
    without = command(mirror, "--limit=0").stdout
    assert "1 more partition differs" in without
    assert "Hive hash" not in without
    assert command(mirror, "--as-of-write-id=9").returncode == 20


@fake
def test_the_method_compares_without_spark(mirror: Mirror) -> None:
    known = job(mirror)
    options = {"catalog": known.catalog, "catalog_options": known.catalog_options}
    with AcidTable(mirror.target, mirror.client.options) as table:
        assert table.compare_iceberg("ns.t", **options).equal
        with pytest.raises(InvalidJob, match="no field 'catalogue'"):
            table.compare_iceberg("ns.t", catalogue="lake")


PERMITTED: set[str] = set()


def permit(*, table: str, **_: object) -> bool:
    return table in PERMITTED


@fake
@pytest.mark.parametrize("folder", ["ns/t", "ns/t/data", "elsewhere"])
def test_an_iceberg_table_leads_to_no_table_that_is_refused(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """A comparison would answer guesses about its rows."""
    home = place_of(mirror.iceberg.location()).parent.parent
    if folder == "elsewhere":
        (home / folder).mkdir()
        pq.write_table(mirror.iceberg.scan().to_arrow(), home / folder / "rows.parquet")
        mirror.iceberg.add_files([f"file://{home}/{folder}/rows.parquet"])
    secret = TableRef(mirror.hive.ref.database, "secret")
    columns = [HiveColumn("id", "int")]
    mirror.client.create_table(HiveTable.new(secret, columns, location=f"file:{home}/{folder}"))
    compare(mirror)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.permit")
    PERMITTED.clear()
    with pytest.raises(AccessRefused, match=f"may not read {secret}"):
        compare(mirror)
    PERMITTED.add(secret.full_name)
    compare(mirror)


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
