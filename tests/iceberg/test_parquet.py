"""Exports as Parquet files, which engines without a reader of ORC read."""

import io
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.expressions import EqualTo

from hiveacid.errors import IcebergRefused, InvalidJob, UnsupportedFile
from hiveacid.iceberg import data_file as parquet_data_file
from hiveacid.iceberg.mirror_state import PROVENANCE
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.orc.orc_tables import SCHEMA, flat_file, table
from tests.orc.test_flatten import julian

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

TYPES = {
    "flag": "boolean",
    "tiny": "tinyint",
    "number": "bigint",
    "real": "double",
    "text": "string",
    "blob": "binary",
    "day": "date",
    "moment": "timestamp",
    "price": "decimal(15,2)",
    "tags": "array<string>",
    "counts": "map<string,int>",
    "place": "struct<x:int,inner:struct<names:array<string>>>",
}


class FlatCase(LakeCase):
    """An insert-only table, to which a file is added for each write."""

    format = "parquet"

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        super().__init__(client, f"{database}.t", folder)
        self._database = database

    def create(self, **columns: str) -> None:
        ref = TableRef.parse(self.target)
        described = [HiveColumn(name, type_) for name, type_ in columns.items()]
        self.client.create_table(HiveTable.new(ref, described, kind=TableKind.INSERT_ONLY))
        self._written = WrittenTable(self.client, ref)

    def add(self, content: io.BytesIO) -> None:
        write_id = self._written._spend_write_id()
        folder = self._written.root / f"delta_{write_id:07d}_{write_id:07d}_0000"
        folder.mkdir()
        (folder / "000000_0").write_bytes(content.getvalue())

    def parquet_files(self) -> list[str]:
        found = self.table()
        assert found is not None
        return [task.file.file_path.removeprefix("file://") for task in found.scan().plan_files()]


@pytest.fixture
def case(client: MetastoreClient, database: str, tmp_path: Path) -> FlatCase:
    return FlatCase(client, database, tmp_path)


def microseconds(rows: int) -> pa.Table:
    """Random rows whose timestamps are whole microseconds."""
    found = table(rows)
    place = found.schema.get_field_index("moment")
    moments = found["moment"].cast(pa.timestamp("us"), safe=False).cast(pa.timestamp("ns"))
    return found.set_column(place, "moment", moments)


def comparable(rows: pa.Table) -> list[str]:
    names = list(TYPES)
    return sorted(str(list(row.values())) for row in rows.select(names).to_pylist())


def test_duckdb_reads_the_files_with_all_types(case: FlatCase) -> None:
    rows = microseconds(500)
    case.create(**TYPES)
    case.add(flat_file(rows))
    report = case.run()
    assert (report.rows, report.stripes_copied, report.files) == (500, 0, 1)
    assert report.stripes_encoded > 0
    (file,) = case.parquet_files()
    found = duckdb.sql(f"SELECT * FROM read_parquet('{file}')").to_arrow_table()
    wanted = rows.set_column(
        SCHEMA.get_field_index("moment"), "moment", rows["moment"].cast(pa.timestamp("us"))
    )
    assert comparable(found) == comparable(wanted)


def test_files_have_field_ids_on_all_levels_and_name_their_origin(case: FlatCase) -> None:
    case.create(**TYPES)
    case.add(flat_file(microseconds(3)))
    case.run()
    found = case.table()
    assert found is not None
    (file,) = case.parquet_files()
    opened = parquet.ParquetFile(file)
    ids = [field.metadata[b"PARQUET:field_id"] for field in fields_of(opened.schema_arrow)]
    assert sorted(map(int, ids)) == sorted(found.schema()._lazy_id_to_name)
    assert PROVENANCE.encode() in opened.metadata.metadata
    assert not [key for key in opened.metadata.metadata if key.startswith(b"hive.acid")]


def fields_of(parent: Any) -> Iterator[pa.Field]:
    inside = (
        [parent.key_field, parent.item_field]
        if isinstance(parent, pa.MapType)
        else [parent.field(place) for place in range(parent.num_fields)]
        if isinstance(parent, pa.DataType)
        else list(parent)
    )
    for field in inside:
        yield field
        yield from fields_of(field.type)


def test_readers_skip_files_by_their_bounds(case: FlatCase) -> None:
    case.create(id="int", text="string")
    for first in (1, 11):
        ids = list(range(first, first + 10))
        rows = {
            "id": pa.array(ids, pa.int32()),
            "text": [f"text {number:03}" * 9 for number in ids],
        }
        case.add(flat_file(pa.table(rows)))
        case.run()
    found = case.table()
    assert found is not None
    assert len(case.parquet_files()) == 2
    for condition in (EqualTo("id", 13), EqualTo("text", "text 013" * 9)):  # type: ignore[call-arg]
        scan = found.scan(condition)
        assert len(list(scan.plan_files())) == 1
        assert scan.to_arrow()["id"].to_pylist() == [13]


def test_large_files_have_several_row_groups(
    case: FlatCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_data_file, "_ROW_GROUP_BYTES", 1)
    case.create(id="int")
    ids = list(range(200_000))
    case.add(flat_file(pa.table({"id": pa.array(ids, pa.int32())})))
    case.run()
    found = case.table()
    assert found is not None
    (task,) = found.scan().plan_files()
    groups = parquet.read_metadata(case.parquet_files()[0])
    assert groups.num_row_groups == len(task.file.split_offsets) > 1
    offsets = [groups.row_group(n).column(0).dictionary_page_offset for n in range(2)]
    assert task.file.split_offsets[:2] == offsets
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == ids


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_timestamps_with_more_digits_are_refused(case: FlatCase, format: Any) -> None:
    case.create(moment="timestamp")
    case.add(flat_file(pa.table({"moment": pa.array([1_000, 1_001], pa.timestamp("ns"))})))
    with pytest.raises(UnsupportedFile, match="000000_0 has timestamps of more digits"):
        case.run(format=format)
    assert not case.files()


def test_a_value_without_a_conversion_is_an_error_with_its_file(case: FlatCase) -> None:
    case.create(id="int")
    case.add(flat_file(pa.table({"id": ["a text"]})))
    with pytest.raises(UnsupportedFile, match="000000_0: A column was string and has become int"):
        case.run()
    assert not case.files()


def test_a_mirror_keeps_its_format(case: FlatCase) -> None:
    case.create(id="int")
    case.add(flat_file(pa.table({"id": pa.array([1], pa.int32())})))
    case.run()
    case.add(flat_file(pa.table({"id": pa.array([2], pa.int32())})))
    with pytest.raises(IcebergRefused, match="have the format parquet, and the job asks for orc"):
        case.run(format="orc")
    assert case.run(format=None).outcome == "updated"
    assert all(file.endswith(".parquet") for file in case.parquet_files())
    found = case.table()
    assert found is not None
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_deleted_rows_do_not_return_with_a_file_that_is_joined_again(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    hive = WrittenTable.create(client, f"{database}.t")
    case = FlatCase(client, database, tmp_path)
    first, second = hive.insert(1, 2), hive.insert(3, 4)
    hive.delete((second, 0))
    assert case.run().files == 1
    hive.delete((first, 0))
    assert case.run().files_removed == 1
    found = case.table()
    assert found is not None
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == hive.rows() == [2, 4]


def test_an_unknown_format_is_refused(case: FlatCase) -> None:
    with pytest.raises(InvalidJob, match="format must be orc or parquet, not 'avro'"):
        case.job(format="avro").validate()


def test_days_in_the_julian_calendar_are_converted(case: FlatCase) -> None:
    case.create(day="date")
    # The number of days of 4 October 1582, the last Julian day, is the one of 14 October today.
    case.add(julian(flat_file(pa.table({"day": pa.array([date(1582, 10, 14)])}))))
    with pytest.raises(UnsupportedFile, match="Julian"):
        case.run(format="orc")
    case.run()
    found = case.table()
    assert found is not None
    assert found.scan().to_arrow()["day"].to_pylist() == [date(1582, 10, 4)]
