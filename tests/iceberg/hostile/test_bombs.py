"""Small data files that describe a lot of memory are refused before they are decoded."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from hiveacid.errors import CorruptFile
from hiveacid.iceberg.catalog_files import CatalogFiles
from hiveacid.iceberg.data_limits import DataLimits
from hiveacid.iceberg.run import compare_with_iceberg
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergCompareReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.format import batches as arrow_memory
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.orc import hostile

_ROWS = 70_000
_FOOTER = 8


def written(column: pa.Array, **options: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table({"id": column}), sink, **options)
    return sink.getvalue()


def varint(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def forged(number: int) -> bytes:
    """Return a file whose footer claims another number of rows and values."""
    file = written(pa.array([1] * _ROWS))
    (length,) = struct.unpack("<I", file[-_FOOTER:-4])
    footer = file[-_FOOTER - length : -_FOOTER].replace(varint(_ROWS), varint(number))
    return file[: -_FOOTER - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def repeated(*, inside: bool = False) -> bytes:
    """Return a file in which each row repeats a long text."""
    texts: Any = pa.DictionaryArray.from_arrays(pa.array([0] * 4096, pa.int32()), ["x" * (1 << 20)])
    if inside:
        texts = pa.ListArray.from_arrays(pa.array(range(4097), pa.int32()), texts)
    return written(texts, dictionary_pagesize_limit=1 << 22)


def wide() -> bytes:
    sink = io.BytesIO()
    schema = pa.schema([(f"c{number}", pa.int8()) for number in range(70_000)])
    parquet.write_table(schema.empty_table(), sink)
    return sink.getvalue()


PARQUET: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"no file of Parquet",
    "footer": lambda: written(pa.array([1]))[:-_FOOTER] + struct.pack("<I", 1 << 31) + b"PAR1",
    "notes": lambda: bytes(32 << 20) + struct.pack("<I", 32 << 20) + b"PAR1",
    "rows": lambda: forged(1 << 50),
    "values": lambda: forged(1 << 30),
    "negative rows": lambda: forged(-1 << 30 & (1 << 62) - 1),
    "columns": wide,
    "dictionary": repeated,
    "dictionary in lists": lambda: repeated(inside=True),
}
ORC: dict[str, Callable[[], bytes]] = {
    "rows": lambda: hostile.rows(1 << 50).getvalue(),
    "nested": lambda: hostile.nested(1000).getvalue(),
    "blocks": lambda: hostile.blocks(1 << 30).getvalue(),
    "stripes": lambda: hostile.twice_the_same_stripe().getvalue(),
}


def fit(folder: Path, content: bytes, kind: FileFormat, *, deletes: bool = False) -> bool:
    path = folder / "x"
    path.write_bytes(content)
    files = CatalogFiles({"warehouse": f"file://{folder}"}).data_files()
    of = DataFileContent.POSITION_DELETES if deletes else DataFileContent.DATA
    file = DataFile.from_args(
        content=of, file_path=f"file://{path}", file_format=kind, partition=Record()
    )
    return DataLimits(files).fit(file)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        *(pytest.param(FileFormat.PARQUET, each, id=name) for name, each in PARQUET.items()),
        *(pytest.param(FileFormat.ORC, each, id=f"orc {name}") for name, each in ORC.items()),
        pytest.param(FileFormat.PUFFIN, lambda: b"PFA1", id="deletion vectors"),
        pytest.param(FileFormat.AVRO, lambda: b"Obj", id="avro"),
    ],
)
def test_a_bomb_is_refused(tmp_path: Path, kind: FileFormat, content: Callable[[], bytes]) -> None:
    with pytest.raises(CorruptFile, match=rf"{tmp_path}"):
        fit(tmp_path, content(), kind)


def test_usual_files_are_read(tmp_path: Path) -> None:
    texts = pa.array(["a", None, "b" * 1000] * 50_000)
    for column in (
        texts,
        pa.array([None] * 10_000, pa.string()),
        pa.array([{"a": ["x"] * 3, "b": {"c": "y"}}] * 10_000),
        pa.array([[("k", "v")]] * 10_000, pa.map_(pa.string(), pa.string())),
        pa.array([b"0" * 16] * 10_000, pa.binary(16)),
    ):
        content = written(column)
        assert fit(tmp_path, content, FileFormat.PARQUET)
        assert fit(tmp_path, content, FileFormat.PARQUET, deletes=True)
    for file in (hostile.texts("zlib"), hostile.dictionary(), hostile.maps()):
        assert fit(tmp_path, file.getvalue(), FileFormat.ORC)


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> LakeCase:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(*range(100))
    return LakeCase(client, str(table.ref), tmp_path)


def compared(mirror: LakeCase) -> IcebergCompareReport:
    job = mirror.job()
    given = {name: getattr(job, name) for name in ("target", "table", "catalog", "metastore")}
    return compare_with_iceberg(
        mirror.client, IcebergCompareJob(**given, catalog_options=mirror.options)
    )


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_a_comparison_decodes_no_bomb(mirror: LakeCase, kind: Any) -> None:
    mirror.run(format=kind)
    assert compared(mirror).equal
    [file] = mirror.lake.rglob(f"data/**/*.{kind}")
    file.write_bytes(hostile.rows(1 << 30).getvalue() if kind == "orc" else forged(1 << 30))
    with pytest.raises(CorruptFile, match=str(file)):
        compared(mirror)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_large_stripe_is_read_in_parts(mirror: LakeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.run()
    monkeypatch.setattr(arrow_memory, "_MEMORY", 500)
    monkeypatch.setattr(arrow_memory._Stripe, "_blocks", lambda _: 0)
    report = compared(mirror)
    assert report.equal
    assert any("stripes that need much memory" in each for each in report.warnings)
