"""The facts that this machine can find on the files of a source."""

from pathlib import Path

import pytest

from hiveacid.drivers.driver_files import DriverFiles
from hiveacid.errors import CorruptFile
from hiveacid.jobs.sources import PathSource

HERE = DriverFiles(here=True, plain_paths=True)


def files(folder: Path, **contents: bytes) -> Path:
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("format_", "content", "message"),
    [
        ("orc", b"PAR1" + bytes(99), "/feed/a is a Parquet file, not an ORC file"),
        ("parquet", b"ORC" + bytes(99), "is an ORC file, not a Parquet file"),
        ("parquet", b"\x1f\x8b" + bytes(99), "is a gzip file"),
        ("orc", b"Obj\x01" + bytes(99), "is an Avro file"),
        ("orc", b'{"id": 1}\n', "is a text file, maybe JSON, not an ORC file"),
        ("orc", "größe;größer".encode(), "is a text file, not"),
    ],
)
def test_files_of_another_format_are_identified_by_their_first_bytes(
    format_: str, content: bytes, message: str, tmp_path: Path
) -> None:
    folder = files(tmp_path / "feed", _SUCCESS=b"", a=content, b=content, _c=b"PAR1ORC")
    with pytest.raises(CorruptFile, match=message):
        HERE.check(PathSource(str(folder), format_))
    with pytest.raises(CorruptFile, match=message):
        HERE.check(PathSource(f"file://{folder}/a", format_))


def test_files_that_may_be_right_are_left_to_spark(tmp_path: Path) -> None:
    mixed = files(tmp_path / "mixed", a=b"PAR1", b=b"ORC")
    unknown = files(tmp_path / "unknown", a=b"\x00\x01")
    empty = files(tmp_path / "empty", a=b"")
    for folder in (mixed, unknown, empty):
        HERE.check(PathSource(str(folder), "orc"))
    HERE.check(PathSource(str(mixed), "json"))
    parquet = files(tmp_path / "parquet", a=b"PAR1")
    HERE.check(PathSource(str(parquet), "orc", {"pathGlobFilter": "*.o"}))
    HERE.check(PathSource(str(parquet), "orc", schema="id int"))
    (parquet / "day=1").mkdir()
    HERE.check(PathSource(str(parquet), "orc"))


@pytest.mark.parametrize(
    ("content", "may"),
    [
        (b'{"id": 1}', False),
        (b'{"id": 1, "T" : {"ref": 1}}', True),
        (b"{'t': {'ref': 1}}", True),
        (b'{"\\u0074": {"ref": 1}}', True),
        (b"\x1f\x8b not a text\x00", True),
    ],
)
def test_a_field_of_json_is_found_however_it_is_spelled(
    content: bytes, may: bool, tmp_path: Path
) -> None:
    folder = files(tmp_path / "feed", a=content)
    assert HERE.may_have_column(PathSource(str(folder), "json"), "t") is may
    assert HERE.may_have_column(PathSource(str(folder), "json", {"multiLine": "true"}), "t")


def test_columns_of_files_are_read_from_their_footers(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import orc, parquet

    table = pa.table({"id": [1], "T": [{"ref": 1}]})
    for format_, write in (("orc", orc.write_table), ("parquet", parquet.write_table)):
        (tmp_path / format_).mkdir()
        write(table, tmp_path / format_ / "a")
        source = PathSource(str(tmp_path / format_), format_)
        assert HERE.may_have_column(source, "t")
        assert not HERE.may_have_column(source, "s")
        assert HERE.may_have_column(PathSource(str(tmp_path), format_), "s")


def test_a_driver_elsewhere_has_other_files() -> None:
    assert DriverFiles().path_of("file:/a") is None
    assert DriverFiles(here=True).path_of("/a") is None
    assert HERE.path_of("/a b") == HERE.path_of("file:///a b") == "/a b"
    assert HERE.path_of("FILE:/a") == "/a"
    for elsewhere in ("a", "s3a://b/a", "/a/{1,2}", "//host/a", "/a\\*"):
        assert HERE.path_of(elsewhere) is None
