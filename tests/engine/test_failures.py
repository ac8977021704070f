"""What Spark says, in our words; no session is needed to translate it."""

from pathlib import Path

import pytest

from airflow_hiveacid.engine.failures import translate
from airflow_hiveacid.errors import ClusterUnreachable, CorruptFile, InvalidConnection

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
def test_a_file_that_spark_cannot_read_is_told_by_its_first_bytes(
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


def test_a_context_that_was_stopped_is_told_by_its_cause() -> None:
    said = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x"
    error = translate(RuntimeError(said), "MergeJob")
    assert type(error) is ClusterUnreachable
    assert error.what.startswith("MergeJob: Spark was stopped from outside: its master does not")
    assert "master in the Spark connection" in error.remedy


def test_a_master_that_is_none_is_told() -> None:
    said = f"{FAILED}Could not parse Master URL: 'local[x]'\n\tat org.apache"
    error = translate(RuntimeError(said), "MergeJob")
    assert type(error) is InvalidConnection
    assert error.what == "MergeJob: Could not parse Master URL: 'local[x]'."
