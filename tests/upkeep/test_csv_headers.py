"""Headers of CSV files, which are compared with the schema of a source before Spark starts."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.drivers.checks import Preflight
from hiveacid.drivers.driver_files import DriverFiles
from hiveacid.errors import UnknownColumn
from hiveacid.jobs.sources import BatchSource, PathSource
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.tables.definitions.run import run_ddl

FILES = DriverFiles(here=True)
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("id,statsu", "has no column status, which is in the schema. Did you mean statsu?"),
        ("id", "has no column status, which is in the schema."),
        ("id,status,day", "has the column 'day', which is not in the schema."),
        ("status,id", "has the columns status, id, unlike the schema."),
    ],
)
def test_a_header_of_csv_other_than_the_schema_is_refused(
    tmp_path: Path, header: str, error: str
) -> None:
    file = tmp_path / "part.csv"
    file.write_text(f"{header}\n1,a\n")
    source = PathSource(f"file:{tmp_path}", "csv", {"header": "true"}, "id int, status string")
    with pytest.raises(UnknownColumn, match=re.escape(f"The header of {file} {error}")):
        FILES.check(source)
    for options in ({}, {"header": "true", "enforceSchema": "true"}):
        FILES.check(replace(source, options=options))


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"ID,Status\r\n1,a\r\n", {}),
        (b'\xef\xbb\xbf\n"id",status', {}),
        (b"id|status\n", {"sep": "|"}),
        (b"id\tstatus\n", {"sep": "\t"}),
        (b"", {}),
        (b"\x1f\x8b\x08", {}),
        # Spark alone decides these.
        (b"#\nid,status\n", {"comment": "#"}),
        (b'"i\nd",status\n', {}),
        ("id,status\n".encode("utf-16"), {"encoding": "utf-16"}),
    ],
)
def test_a_header_that_is_the_schema_or_is_uncertain_passes(
    tmp_path: Path, content: bytes, options: dict[str, str]
) -> None:
    (tmp_path / "part.csv").write_bytes(content)
    schema = "id int, status string, _corrupt_record string"
    source = PathSource(f"file:{tmp_path}", "csv", {"header": "true", **options}, schema)
    FILES.check(source)


@FAKE
def test_a_stream_is_checked_before_its_first_run_only(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    run_ddl(client, *to_jobs(f"CREATE TABLE {database}.t (id int, status string)"))
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "part.csv").write_text("id,statsu\n1,a\n")
    options = {"path": f"file:{tmp_path}/feed", "header": "true", "maxFilesPerTrigger": "1"}
    job = StreamJob(
        name="feed",
        source=StreamSource("csv", options, "id int, status string"),
        statements=[InsertJob(target=f"{database}.t", source=BatchSource())],
        checkpoint=f"file:{tmp_path}/checkpoint",
    )
    preflight = Preflight(client, FILES, [].append)
    with pytest.raises(UnknownColumn, match="has no column status"):
        preflight.check(job)
    # Files that earlier runs have read need not have the columns that the schema has now.
    (tmp_path / "checkpoint").mkdir()
    preflight.check(job)
