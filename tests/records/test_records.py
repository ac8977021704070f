"""Records that programs leave for one another: a golden file of each, and possible records of other
versions.

Some small notes have theirs beside the tests of their own.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from hiveacid.drivers.run_files import Started
from hiveacid.erasure.certificate import Certificate
from hiveacid.errors import InvalidJob, NewerRecord
from hiveacid.iceberg.attempt import AttemptNote
from hiveacid.jobs import codec
from hiveacid.jobs.erase_job import EraseReport
from hiveacid.jobs.maintenance_jobs import CompactionNeed
from hiveacid.jobs.report import (
    ChangesRange,
    CleanReport,
    CompactReport,
    RunReport,
    ScriptReport,
    StatementReport,
)
from hiveacid.jobs.stage_jobs import StageReport
from hiveacid.jobs.stream_job import StreamReport
from hiveacid.records.consumers import Cursor
from hiveacid.records.erasures import Erasure
from hiveacid.records.exported_ranges import ExportedRange
from hiveacid.records.mirror_notes import MirrorNote
from hiveacid.records.run_notes import RunNote
from hiveacid.records.staged_changes import StagedChange
from hiveacid.records.stream_places import StreamPlace, StreamState
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.formats import Obligation

GOLDEN = Path(__file__).parents[1] / "data" / "records"
# Each class of records, except reports, which are evidence like their base. Who adds one decides here.
EVIDENCE = {
    "ErrorReport",
    "MaintenanceReport",
    "Report",
    "Started",
    "StreamProgress",
    "StreamState",
}
OBLIGATIONS = {
    "Certificate",
    "ChangesRange",
    "CompactionNeed",
    "MirroredColumns",
    "Provenance",
    "ReaderNote",
    "Record",
}
UNSIGNED = {"AttemptNote", "ExportedRange", "RunNote", "SignedRecord"}
SIGNED = {"Cursor", "Erasure", "MirrorNote", "StagedChange", "StreamPlace"}
RECORDS: dict[str, type[Any]] = {
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
    "reader_note": ReaderNote,
    "run_note": RunNote,
    "stream_place": StreamPlace,
    "changes_range": ChangesRange,
    "certificate": Certificate,
}


def read(name: str, data: Any) -> Any:
    class_ = RECORDS[name]
    known = codec.read_obligation if issubclass(class_, Obligation) else codec.read_evidence
    return known(class_, data, name)


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
    record = read(name, golden)
    assert golden["format"] == 1
    assert json.loads(json.dumps(codec.to_record(record))) == golden


def test_a_golden_file_has_something_in_every_field(name: str, golden: dict[str, Any]) -> None:
    """A field with its default value would be read correctly under any name."""
    assert not list(_left_out(read(name, golden)))


def test_each_kind_of_record_is_an_obligation_or_evidence() -> None:
    found: dict[str, set[str]] = {
        base: set() for base in ("Evidence", "Obligation", "Record", "SignedRecord")
    }
    root = Path(__file__).parents[2]
    for path in (*root.glob("hiveacid/**/*.py"), *root.glob("airflow_hiveacid/**/*.py")):
        text = path.read_text()
        if any(f"({base})" in text for base in found):
            for class_ in ast.walk(ast.parse(text)):
                for base in class_.bases if isinstance(class_, ast.ClassDef) else ():
                    if isinstance(base, ast.Name) and base.id in found:
                        found[base.id].add(class_.name)
    assert found == {
        "Evidence": EVIDENCE,
        "Obligation": OBLIGATIONS,
        "Record": UNSIGNED,
        "SignedRecord": SIGNED,
    }


LATER = [{"new": [1]}, {"format": 2}, {"format": 2, "new": {"a": 1}}]


@pytest.mark.parametrize("later", LATER)
def test_evidence_of_a_later_version_is_read_and_an_obligation_is_refused(
    name: str, golden: dict[str, Any], later: dict[str, Any]
) -> None:
    record = read(name, golden)
    if not isinstance(record, Obligation):
        assert read(name, golden | later) == record
        return
    number = later.get("format", 1)
    with pytest.raises(NewerRecord, match=f"{name} has the format {number}") as raised:
        read(name, golden | later)
    assert "Upgrade this package" in raised.value.remedy


def test_no_part_of_an_obligation_may_be_unknown(name: str, golden: dict[str, Any]) -> None:
    record = read(name, golden)
    for changed in _with_a_part(golden):
        if isinstance(record, Obligation):
            with pytest.raises(NewerRecord, match="the unknown key 'a_new_part'"):
                read(name, changed)
        else:
            assert read(name, changed) == record


def test_missing_fields_are_reported_by_name(name: str, golden: dict[str, Any]) -> None:
    required = next(field.name for field in fields(RECORDS[name]) if _is_required(field))
    del golden[required]
    with pytest.raises(InvalidJob, match=f"{name} lacks the key '{required}'"):
        read(name, golden)


@pytest.mark.parametrize("number", [0, -1, "1", True, None, 1.0])
def test_an_obligation_states_its_format(name: str, golden: dict[str, Any], number: object) -> None:
    if issubclass(RECORDS[name], Obligation):
        with pytest.raises(InvalidJob, match="format must be a whole number from 1 on"):
            read(name, golden | {"format": number})


@pytest.mark.parametrize("data", [None, [], "x", 7])
def test_a_record_is_an_object(name: str, data: object) -> None:
    with pytest.raises(InvalidJob, match=f"{name} must be an object"):
        read(name, data)


def _with_a_part(value: Any) -> Iterator[Any]:
    """Yield the data with another key in one of its objects, which have names as keys."""
    if isinstance(value, dict):
        if value and all(key.isidentifier() for key in value):
            yield value | {"a_new_part": 1}
        for key, part in value.items():
            if key not in ("seconds", "latency"):  # Their keys are data.
                yield from (value | {key: changed} for changed in _with_a_part(part))
    if isinstance(value, list):
        for place, part in enumerate(value):
            yield from (
                [*value[:place], changed, *value[place + 1 :]] for changed in _with_a_part(part)
            )


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
