"""Spark's errors, translated; the translation needs no session."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import (
    ClusterUnreachable,
    CorruptFile,
    DiskFull,
    InvalidConnection,
    StorageUnreachable,
    UnknownColumn,
)
from hiveacid.spark.failures import translate
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail

FAILED = "An error occurred while calling o31.load.\n: org.apache.spark.SparkException: "


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PAR1" + bytes(99), ": by its first bytes it is a Parquet file."),
        (b"\x1f\x8b\x08", ": by its first bytes it is a gzip file."),
        (b"", ": by its first bytes it is empty."),
        (b"id,name\n", ": by its first bytes it is a text file."),
        (b"\x00\x01", "."),
        (None, "."),
    ],
)
def test_a_file_that_spark_cannot_read_is_identified_by_its_first_bytes(
    content: bytes | None, kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "part.gz"
    if content is not None:
        file.write_bytes(content)
    for location in (f"file:{file}", f"file://{file}"):
        said = (
            f"{FAILED}[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {location}. "
        )
        error = translate(RuntimeError(f"{said} SQLSTATE: KD001\n\tat org"), "The source /feed")
        assert type(error) is CorruptFile
        assert error.what == f"The source /feed: {location} cannot be read{kind}"


@pytest.mark.parametrize(
    ("keep", "why"),
    [
        (0.5, r"cannot be read as ORC: \S+ .*"),
        (1.0, r"cannot be read as ORC: java.util.zip.DataFormatException: invalid block"),
    ],
)
def test_a_damaged_orc_file_has_the_message_of_the_worker(
    keep: float, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "bucket_00000"
    orc.write_table(pa.table({"id": range(9999)}), file)
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])
    said = (
        f"{FAILED}[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:{file}.  "
        "SQLSTATE: KD001\n\tat org.apache\nCaused by: java.util.zip.DataFormatException: invalid block"
    )
    error = translate(RuntimeError(said), "Writing rows")
    assert type(error) is CorruptFile
    assert re.fullmatch(rf"Writing rows: file:{file} {why}\.", error.what)
    assert error.remedy.startswith(CorruptFile.default_remedy)
    if keep < 1:
        with pytest.raises(CorruptFile) as worker:
            read_tail(ReadOnlyStorage.of(f"file:{tmp_path}"), file.name)
        assert worker.value.what in error.what


def test_a_damaged_file_is_recognized_where_spark_does_not_name_it() -> None:
    said = f"{FAILED}Job aborted.\nCaused by: org.apache.orc.protobuf.InvalidProtocolBufferException: x"
    error = translate(RuntimeError(said), "Writing rows")
    assert type(error) is CorruptFile
    assert error.what == "Writing rows: org.apache.orc.protobuf.InvalidProtocolBufferException: x."


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            "CSV header does not conform to the schema.\n Header: id, label\n Schema: id, name\n"
            "Expected: name but found: label",
            ": it has label instead of name.",
        ),
        (
            "Number of column in CSV header is not equal to number of fields in the schema:\n"
            " Header length: 1, schema size: 2",
            " in the number of columns.",
        ),
    ],
)
def test_a_header_other_than_the_schema_is_reported_with_its_file(said: str, found: str) -> None:
    text = (
        f"{FAILED}[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a b.csv. "
        f"SQLSTATE: KD001\nCaused by: java.lang.IllegalArgumentException: {said}\n"
        "CSV file: file:///a b.csv\n\tat org"
    )
    error = translate(RuntimeError(text), "The source /feed")
    assert type(error) is UnknownColumn
    assert error.what == (
        f"The source /feed: the header of file:///a b.csv differs from the schema{found}"
    )
    assert "enforceSchema" in error.remedy


def test_a_stopped_context_is_reported_with_its_cause() -> None:
    said = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x"
    error = translate(RuntimeError(said), "MergeJob")
    assert type(error) is ClusterUnreachable
    assert error.what.startswith("MergeJob: Spark was stopped from outside: its master does not")
    assert "master in the Spark connection" in error.remedy


def test_an_invalid_master_is_reported() -> None:
    said = f"{FAILED}Could not parse Master URL: 'local[x]'\n\tat org.apache"
    error = translate(RuntimeError(said), "MergeJob")
    assert type(error) is InvalidConnection
    assert error.what == "MergeJob: Could not parse Master URL: 'local[x]'."


@pytest.mark.parametrize(
    "said",
    [
        "The NameSpace quota (directories and files) of directory /w/t is exceeded: quota=5 file"
        " count=6",
        "The DiskSpace quota of /w/t is exceeded: quota = 1048576 B = 1 MB but diskspace consumed"
        " = 134217728 B = 128 MB",
        "Quota by storage type : SSD on path : /w/t is exceeded. quota = 1 KB but space consumed"
        " = 1 MB",
    ],
)
@pytest.mark.parametrize("around", ["{}\n\tat org.apache.hadoop", 'RPCError("x", "{}\\n\\tat")'])
def test_a_quota_of_hdfs_is_reported_with_its_numbers(said: str, around: str) -> None:
    error = translate(RuntimeError(FAILED + around.format(said)), "Writing rows")
    assert type(error) is DiskFull
    assert error.what == f"Writing rows: {said}."


@pytest.mark.parametrize(
    "said",
    [
        "Call From etl1/10.0.0.5 to nn1:8020 failed on connection exception: java.net.ConnectException"
        ": Connection refused",
        "SafeModeException): Cannot create file/t/f. Name node is in safe mode",
        "StorageUnreachable: hdfs://nn1:8020/t/f cannot be reached: Connection refused",
    ],
)
def test_an_unreachable_namenode_is_reported_as_retryable(said: str) -> None:
    around = (
        f"java.net.ConnectException: {said}; For more details see:  http://wiki\n\tat org.apache"
    )
    error = translate(RuntimeError(FAILED + around), "Writing rows")
    assert type(error) is StorageUnreachable
    assert error.retryable
    assert error.what.startswith(f"Writing rows: {said}")
