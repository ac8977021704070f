"""The file that describes a folder of exported changes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import CorruptFile, PositionMismatch
from hiveacid.jobs import codec
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.records.exported_ranges import ExportedRange, range_file
from hiveacid.records.store import RecordStore
from hiveacid.rules.names import LocatedTable, TableIdentity
from hiveacid.storage.folder import Storage

IDENTITY = TableIdentity(created=7, id=3)
TABLE = LocatedTable(name="a.t", location="file:/w/a.db/t", identity=IDENTITY)
RANGE = ChangesRange(table="a.t", after=3, up_to=9)
REPORT = RunReport(job="export", target="a.t", changes=(RANGE,))
EXPORTED = ExportedRange(table=TABLE, consumer="lake", report=REPORT)
PATH = "changes_after_3/_range.json"


@pytest.fixture
def store(tmp_path: Path) -> RecordStore[ExportedRange]:
    return RecordStore(ExportedRange, Storage.of(str(tmp_path)))


def test_a_range_is_read_as_it_was_written(store: RecordStore[ExportedRange]) -> None:
    assert range_file(3) == PATH
    store.write(PATH, EXPORTED)
    assert store.read(PATH) == EXPORTED
    EXPORTED.require_of(TABLE, "lake", PATH)


@pytest.mark.parametrize(
    ("table", "consumer", "says"),
    [
        ({"name": "a.u"}, "lake", r"an export of a\.t .* one of a\.u"),
        (
            {"identity": replace(IDENTITY, created=8)},
            "lake",
            "created 1970-01-01 00:00:07 UTC.* 00:00:08 UTC",
        ),
        ({"identity": replace(IDENTITY, id=4)}, "lake", "id 3.*id 4"),
        ({"location": "file:/w/a.db/u"}, "lake", "a.db/t.*a.db/u"),
        ({}, "other", "consumer 'lake', and this is one of consumer 'other'"),
        ({}, "", "consumer 'lake', and this is one of no consumer"),
    ],
)
def test_a_range_of_another_owner_is_refused(
    table: dict[str, Any], consumer: str, says: str
) -> None:
    with pytest.raises(PositionMismatch, match=says) as raised:
        EXPORTED.require_of(replace(TABLE, **table), consumer, PATH)
    assert PATH in raised.value.what
    assert "Move that folder away" in raised.value.remedy


def changed(**more: Any) -> bytes:
    return json.dumps(json.loads(codec.to_bytes(EXPORTED)) | more).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        changed(table="a.t"),
        changed(consumer=None),
        changed(report=codec.encode(replace(REPORT, changes=(replace(RANGE, after=4),)))),
        changed(report=codec.encode(replace(REPORT, changes=()))),
        changed(report=codec.encode(replace(REPORT, changes=(replace(RANGE, table="a.u"),)))),
    ],
)
def test_a_range_without_its_owner_or_of_another_folder_is_an_error(
    store: RecordStore[ExportedRange], tmp_path: Path, content: bytes
) -> None:
    Storage.of(str(tmp_path)).write_file(PATH, content)
    with pytest.raises(CorruptFile, match=f"{PATH} cannot be read as the description") as raised:
        store.read(PATH)
    assert "another path" in raised.value.remedy
