"""Exports of insert-only tables of Parquet files, whose pages are copied."""

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.expressions import EqualTo, IsNull

from hiveacid.errors import CorruptFile, UnsupportedFile, UnsupportedTable
from hiveacid.iceberg.mirror_state import PROVENANCE
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.iceberg.test_comparison import require_equal
from tests.iceberg.test_parquet import fields_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

TYPES = {
    "flag": "boolean",
    "tiny": "tinyint",
    "small": "smallint",
    "number": "int",
    "large": "bigint",
    "single": "float",
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
ARROW = pa.schema(
    {
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "small": pa.int16(),
        "number": pa.int32(),
        "large": pa.int64(),
        "single": pa.float32(),
        "real": pa.float64(),
        "text": pa.string(),
        "blob": pa.binary(),
        "day": pa.date32(),
        "moment": pa.timestamp("us"),
        "price": pa.decimal128(15, 2),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int32()),
        "place": pa.struct({"x": pa.int32(), "inner": pa.struct({"names": pa.list_(pa.string())})}),
    }
)
ROW: dict[str, Any] = {
    "flag": True,
    "tiny": -5,
    "small": 300,
    "number": 7,
    "large": 1 << 40,
    "single": 0.5,
    "real": float("inf"),
    "text": "größer",
    "blob": b"\0\xff",
    "day": date(2026, 1, 2),
    "moment": datetime(2026, 1, 2, 3, 4, 5, 678),
    "price": Decimal("-12.50"),
    "tags": ["a", None],
    "counts": [("k", 1)],
    "place": {"x": 1, "inner": {"names": ["n"]}},
}
ROWS = [ROW, dict.fromkeys(ROW), {**ROW, "number": 8, "text": ""}]


class CopyCase(LakeCase):
    """An insert-only table, to which a file is added for each write."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        super().__init__(client, f"{database}.t", folder)

    def create(
        self, *, keys: dict[str, str] | None = None, form: str = "PARQUET", **columns: str
    ) -> None:
        ref = TableRef.parse(self.target)
        self.client.create_table(
            HiveTable.new(
                ref,
                [HiveColumn(*column) for column in columns.items()],
                partition_keys=[HiveColumn(*key) for key in (keys or {}).items()],
                kind=TableKind.INSERT_ONLY,
                format=StorageFormat[form],
            )
        )
        self._written = WrittenTable(self.client, ref)

    def add(self, rows: pa.Table | bytes, partition: str | None = None, **options: Any) -> Path:
        """Write a file, and return it."""
        content = rows if isinstance(rows, bytes) else parquet_file(rows, **options)
        if partition is not None:
            table = self.client.get_table(self._written.ref)
            value = partition.partition("=")[2]
            self.client.add_partitions(table.ref, [HivePartition.new(table, [value])])
        write_id = self._written._spend_write_id()
        folder = (
            self._written.root / (partition or "") / f"delta_{write_id:07d}_{write_id:07d}_0000"
        )
        folder.mkdir(parents=True)
        (folder / "000000_0").write_bytes(content)
        return folder / "000000_0"

    def data_files(self) -> list[Path]:
        found = self.table()
        assert found is not None
        paths = [task.file.file_path for task in found.scan().plan_files()]
        return [Path(path.removeprefix("file://")) for path in paths]

    def rows(self) -> list[dict[str, Any]]:
        found = self.table()
        assert found is not None
        rows: list[dict[str, Any]] = found.scan().to_arrow().to_pylist()
        return sorted(rows, key=str)


def parquet_file(rows: pa.Table, **options: Any) -> bytes:
    content = io.BytesIO()
    parquet.write_table(rows, content, **options)
    return content.getvalue()


def pages(path: Path) -> bytes:
    """The bytes of a file before its footer."""
    content = path.read_bytes()
    return content[: -8 - int.from_bytes(content[-8:-4], "little")]


def ids(*numbers: int | None) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int32())})


@pytest.fixture
def case(client: MetastoreClient, database: str, tmp_path: Path) -> CopyCase:
    return CopyCase(client, database, tmp_path)


def test_pages_are_copied_and_columns_of_all_types_get_their_ids(case: CopyCase) -> None:
    case.create(**TYPES)
    rows = pa.Table.from_pylist(ROWS, schema=ARROW)
    source = case.add(rows, row_group_size=2)
    report = case.run()
    assert (report.rows, report.files, report.stripes_encoded) == (3, 1, 0)
    assert (report.stripes_copied, report.bytes_copied) == (2, len(pages(source)))
    (copied,) = case.data_files()
    assert pages(copied) == pages(source)
    found = case.table()
    assert found is not None
    opened = parquet.ParquetFile(copied)
    numbers = [field.metadata[b"PARQUET:field_id"] for field in fields_of(opened.schema_arrow)]
    assert sorted(map(int, numbers)) == sorted(found.schema()._lazy_id_to_name)
    assert [*opened.metadata.metadata] == [PROVENANCE.encode()]
    assert case.rows() == sorted(rows.to_pylist(), key=str)
    in_duckdb = duckdb.sql(f"SELECT * FROM read_parquet('{copied}')").to_arrow_table()
    assert sorted(map(str, in_duckdb.to_pylist())) == sorted(map(str, rows.to_pylist()))


def test_readers_skip_copied_files_by_their_bounds_and_partitions(case: CopyCase) -> None:
    case.create(keys={"p": "string"}, id="int")
    case.add(ids(1, 2), "p=a")
    case.add(ids(11, None), "p=b")
    assert case.run().stripes_encoded == 0
    found = case.table()
    assert found is not None
    for condition, value in (
        (EqualTo("id", 11), 11),  # type: ignore[call-arg]
        (EqualTo("p", "b"), 11),  # type: ignore[call-arg]
        (IsNull("id"), None),  # type: ignore[call-arg]
    ):
        scan = found.scan(condition)
        assert len(list(scan.plan_files())) == 1
        assert value in scan.to_arrow()["id"].to_pylist()
    assert {row["p"] for row in case.rows()} == {"a", "b"}


@pytest.mark.parametrize("column", ["single", "real"])
def test_bounds_of_floats_are_unknown_because_old_writers_ignore_nan(
    case: CopyCase, column: str
) -> None:
    case.create(**{column: TYPES[column]})
    case.add(pa.table({column: pa.array([1.0, float("nan")], ARROW.field(column).type)}))
    case.run()
    found = case.table()
    assert found is not None
    (task,) = found.scan().plan_files()
    assert task.file.lower_bounds == task.file.upper_bounds == {}
    assert task.file.null_value_counts == {1: 0}


def test_counts_of_chunks_without_statistics_are_unknown(case: CopyCase) -> None:
    case.create(id="int")
    case.add(ids(1, None), write_statistics=False)
    case.run()
    found = case.table()
    assert found is not None
    (task,) = found.scan().plan_files()
    assert (task.file.null_value_counts, task.file.lower_bounds) == ({}, {})
    assert found.scan(IsNull("id")).to_arrow().num_rows == 1  # type: ignore[call-arg]


def written(type_: pa.DataType, value: Any, **options: Any) -> Callable[[str], bytes]:
    """Return a function that writes a file with one value."""
    return lambda name: parquet_file(pa.table({name: pa.array([value], type_)}), **options)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
NAIVE = MOMENT.replace(tzinfo=None)
DECODED: dict[str, tuple[str, Callable[[str], bytes], Any]] = {
    "timestamps of 96 bits": (
        "timestamp",
        written(pa.timestamp("us"), NAIVE, use_deprecated_int96_timestamps=True),
        NAIVE,
    ),
    "milliseconds": (
        "timestamp",
        written(pa.timestamp("ms"), NAIVE.replace(microsecond=5000)),
        NAIVE.replace(microsecond=5000),
    ),
    "instants": ("timestamp", written(pa.timestamp("us", "UTC"), MOMENT), NAIVE),
    "a narrower type": ("bigint", written(pa.int32(), 7), 7),
    "integers without their width": ("tinyint", written(pa.int32(), 7), 7),
    "decimals of other digits": (
        "decimal(9,2)",
        written(pa.decimal128(7, 2), Decimal("1.50")),
        Decimal("1.50"),
    ),
    # Hive cuts longer texts, and the file does not tell their lengths.
    "a varchar": ("varchar(3)", written(pa.string(), "abcdef"), "abc"),
    # The number of days of the last Julian day is the one of 14 October 1582 today.
    "dates in the hybrid calendar": (
        "date",
        written(pa.date32(), date(1582, 10, 14)),
        date(1582, 10, 4),
    ),
    "dates without bounds": (
        "date",
        written(pa.date32(), date(2026, 1, 2), write_statistics=False),
        date(2026, 1, 2),
    ),
    "an encoding that not all readers have": (
        "int",
        written(pa.int32(), 7, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED"),
        7,
    ),
    "a codec that not all readers have": (
        "string",
        written(pa.string(), "abc" * 99, compression="brotli"),
        "abc" * 99,
    ),
    "a name in capitals": ("int", lambda name: written(pa.int32(), 7)(name.upper()), 7),
    "a field that the table lacks": (
        "struct<x:int>",
        written(pa.struct({"x": pa.int32(), "y": pa.int32()}), {"x": 1, "y": 2}),
        {"x": 1},
    ),
}


@pytest.mark.parametrize("form", DECODED)
def test_values_in_another_form_are_decoded(case: CopyCase, form: str) -> None:
    type_, write, expected = DECODED[form]
    case.create(value=type_)
    case.add(write("value"))
    report = case.run()
    assert (report.stripes_copied, report.stripes_encoded) == (0, 1)
    assert case.rows() == [{"value": expected}]


def test_nanoseconds_are_refused(case: CopyCase) -> None:
    case.create(moment="timestamp")
    rows = pa.table({"moment": pa.array([1_000, 1_001], pa.timestamp("ns"))})
    case.add(rows, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedFile, match="000000_0 has timestamps of more digits"):
        case.run()
    assert not case.files()


def test_a_dry_run_tells_which_files_are_copied(case: CopyCase) -> None:
    case.create(id="int")
    case.add(ids(1))
    case.add(pa.table({"id": pa.array([1], pa.int32()), "more": ["x"]}))
    report = case.run(dry_run=True)
    assert (report.files, report.stripes_copied, report.stripes_encoded) == (2, 1, 1)


def test_a_mirror_copies_new_files_only(case: CopyCase) -> None:
    case.create(keys={"p": "string"}, id="int")
    case.add(ids(1), "p=a")
    assert case.run().outcome == "created"
    (first,) = case.data_files()
    case.add(ids(2), "p=b")
    report = case.run()
    assert (report.outcome, report.files, report.files_kept) == ("updated", 1, 1)
    assert first in case.data_files()
    assert case.run().outcome == "unchanged"
    case.client.drop_partitions(TableRef.parse(case.target), ["p=a"], lambda: None)
    assert case.run().files_removed == 1
    assert case.rows() == [{"id": 2, "p": "b"}]


def test_an_overwrite_replaces_copied_files(case: CopyCase) -> None:
    case.create(id="int")
    source = case.add(ids(1))
    case.run()
    write_id = case._written._spend_write_id()
    base = source.parent.with_name(f"base_{write_id:07d}")
    base.mkdir()
    (base / "000000_0").write_bytes(parquet_file(ids(2)))
    assert case.run().files_removed == 1
    assert case.rows() == [{"id": 2}]


def test_a_file_without_rows_is_left_out(case: CopyCase) -> None:
    case.create(id="int")
    case.add(ids())
    report = case.run()
    assert (report.rows, report.files) == (0, 0)


@pytest.mark.parametrize(
    ("form", "format", "message"),
    [
        ("PARQUET", "orc", "has Parquet files, which are not exported to ORC files"),
        ("TEXTFILE", None, "has files of the format TEXTFILE"),
    ],
)
def test_other_formats_are_refused(case: CopyCase, form: str, format: Any, message: str) -> None:
    case.create(form=form, id="int")
    case.add(ids(1))
    with pytest.raises(UnsupportedTable, match=message):
        case.run(format=format)
    assert not case.files()


def test_a_broken_file_is_an_error_with_its_name(case: CopyCase) -> None:
    case.create(id="int")
    case.add(b"PAR1 and no footer")
    with pytest.raises(CorruptFile, match="000000_0 cannot be read as Parquet"):
        case.run()
    assert not case.files()


def test_a_comparison_finds_equal_rows(case: CopyCase) -> None:
    case.create(**TYPES)
    case.add(pa.Table.from_pylist(ROWS, schema=ARROW))
    case.run()
    assert require_equal(case).iceberg_rows == 3
