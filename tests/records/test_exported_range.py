"""The file that describes a folder of exported changes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import ConsumerMismatch, CorruptFile
from hiveacid.jobs import codec
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.records.consumers import ExportedRange
from hiveacid.rules.names import LocatedTable, TableIdentity

IDENTITY = TableIdentity(created=7, id=3)
TABLE = LocatedTable(name="a.t", location="file:/w/a.db/t", identity=IDENTITY)
RANGE = ChangesRange(table="a.t", after=3, up_to=9)
REPORT = RunReport(job="export", target="a.t", changes=(RANGE,))
EXPORTED = ExportedRange(table=TABLE, consumer="lake", report=REPORT)
PATH = "s3a://lake/feed/changes_after_3/_range.json"


def test_a_range_is_read_as_it_was_written() -> None:
    exported = ExportedRange.parse(codec.to_bytes(EXPORTED), PATH)
    assert exported == EXPORTED
    exported.require_of(TABLE, "lake", 3, PATH)


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
    with pytest.raises(ConsumerMismatch, match=says) as raised:
        EXPORTED.require_of(replace(TABLE, **table), consumer, 3, PATH)
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
        changed(report=codec.encode(replace(REPORT, changes=()))),
        changed(report=codec.encode(replace(REPORT, changes=(replace(RANGE, table="a.u"),)))),
    ],
)
def test_a_range_without_its_owner_is_an_error(content: bytes) -> None:
    with pytest.raises(CorruptFile, match=f"{PATH} does not identify") as raised:
        ExportedRange.parse(content, PATH)
    assert "another path" in raised.value.remedy


def test_a_range_of_another_folder_is_an_error() -> None:
    with pytest.raises(CorruptFile, match="do not begin after version 4"):
        EXPORTED.require_of(TABLE, "lake", 4, PATH)
