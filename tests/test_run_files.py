"""The reports of an application to its submitter, and invalid content in their place."""

import json
from pathlib import Path

import pytest

from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.jobs.report import RunReport

REPORT = RunReport(job="insert", target="a.b", rows_inserted=3)
STARTED = Started(application_id="app", txn_ids=(7,), write_ids={"a.b": 2})


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(f"{tmp_path}/report.json")


def test_reported_values_are_read(files: RunFiles) -> None:
    assert files.read_started() is None
    assert files.read_report(RunReport) is None
    files.write_started(Started(application_id="app"))
    files.write_started(STARTED)
    files.write_report(REPORT)
    assert files.read_started() == STARTED
    assert files.read_report(RunReport) == REPORT


def test_records_of_a_later_version_are_read(files: RunFiles, tmp_path: Path) -> None:
    files.write_started(STARTED)
    files.write_report(REPORT)
    for path in tmp_path.iterdir():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2, "new": [1]}))
    assert files.read_started() == STARTED
    assert files.read_report(RunReport) == REPORT


@pytest.mark.parametrize(
    "content",
    [b"", b'{"job"', b"[]", b"7", b"\xff", b"[" * 100_000, b'{"job": 7}', b'{"txn_ids": "x"}'],
)
def test_half_a_file_and_garbage_are_ignored(
    files: RunFiles, tmp_path: Path, content: bytes
) -> None:
    for name in ("report.json", "report.json.started"):
        (tmp_path / name).write_bytes(content)
    assert files.read_started() is None
    assert files.read_report(RunReport) is None
