"""Records that programs leave for one another: a golden file of each, and possible records of other
versions.

Notes have theirs beside the tests of their own.
"""

import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from hiveacid.drivers.run_files import Started
from hiveacid.errors import InvalidJob
from hiveacid.iceberg.attempt import AttemptNote
from hiveacid.jobs import codec
from hiveacid.jobs.erase_job import EraseReport
from hiveacid.jobs.maintenance_jobs import CompactionNeed
from hiveacid.jobs.report import (
    CleanReport,
    CompactReport,
    RunReport,
    ScriptReport,
    StatementReport,
)
from hiveacid.jobs.stage_jobs import StageReport
from hiveacid.jobs.stream_job import StreamReport
from hiveacid.records.consumers import Cursor, ExportedRange
from hiveacid.records.erasures import Erasure
from hiveacid.records.mirror_notes import MirrorNote
from hiveacid.records.staged_changes import StagedChange
from hiveacid.records.stream_places import StreamState

GOLDEN = Path(__file__).parents[1] / "data" / "records"
RECORDS = {
    "run_report": RunReport,
    "compact_report": CompactReport,
    "clean_report": CleanReport,
    "script_report": ScriptReport,
    "stream_report": StreamReport,
    "stream_state": StreamState,
    "need": CompactionNeed,
    "exported_range": ExportedRange,
    "consumer_cursor": Cursor,
    "mirror_note": MirrorNote,
    "attempt_note": AttemptNote,
    "started": Started,
    "stage_report": StageReport,
    "erase_report": EraseReport,
    "erasure": Erasure,
    "staged_change": StagedChange,
}


@pytest.fixture(params=RECORDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def golden(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return data


def test_each_kind_has_a_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(RECORDS)


def test_a_golden_file_is_read_and_written_again(name: str, golden: dict[str, Any]) -> None:
    record = codec.from_record(RECORDS[name], golden, name)
    assert golden["format"] == 1
    assert json.loads(json.dumps(codec.to_record(record))) == golden


def test_a_golden_file_has_something_in_every_field(name: str, golden: dict[str, Any]) -> None:
    """A field with its default value would be read correctly under any name."""
    assert not list(_left_out(codec.from_record(RECORDS[name], golden, name)))


@pytest.mark.parametrize("later", [{"new": [1]}, {"format": 2, "new": {"a": 1}}])
def test_fields_of_a_later_version_are_ignored(
    name: str, golden: dict[str, Any], later: dict[str, Any]
) -> None:
    record = codec.from_record(RECORDS[name], golden, name)
    assert codec.from_record(RECORDS[name], golden | later, name) == record


def test_a_record_of_before_there_were_formats_is_read(name: str, golden: dict[str, Any]) -> None:
    record = codec.from_record(RECORDS[name], golden, name)
    del golden["format"]
    assert codec.from_record(RECORDS[name], golden, name) == record


def test_missing_fields_are_reported_by_name(name: str, golden: dict[str, Any]) -> None:
    required = next(field.name for field in fields(RECORDS[name]) if _is_required(field))
    later = {**golden, "format": 2, f"other_{required}": golden.pop(required)}
    del later[required]
    with pytest.raises(InvalidJob, match=f"{name} lacks the key '{required}'"):
        codec.from_record(RECORDS[name], later, name)


@pytest.mark.parametrize("number", [0, -1, "1", True, None, 1.0])
def test_a_format_that_is_no_number_is_refused(
    name: str, golden: dict[str, Any], number: object
) -> None:
    with pytest.raises(InvalidJob, match=rf"{name}\.format must be a whole number from 1 on"):
        codec.from_record(RECORDS[name], golden | {"format": number}, name)


@pytest.mark.parametrize("data", [None, [], "x", 7])
def test_a_record_is_an_object(name: str, data: object) -> None:
    with pytest.raises(InvalidJob, match=f"{name} must be an object"):
        codec.from_record(RECORDS[name], data, name)


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _left_out(record: Any) -> list[str]:
    """The fields of a record that are at their defaults, in all its parts."""
    empty: list[str] = []
    for field in fields(record):
        value = getattr(record, field.name)
        # A statement is either of both.
        optional = isinstance(record, StatementReport) and value is None
        if field.name != "job" and not _is_required(field) and not optional:
            default = field.default_factory() if field.default is MISSING else field.default
            empty += [field.name] if value == default else []
        for part in value if isinstance(value, tuple) else [value]:
            if is_dataclass(part):
                empty += [f"{field.name}.{name}" for name in _left_out(part)]
    return empty
