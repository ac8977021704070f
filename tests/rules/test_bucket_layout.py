"""Buckets in notes, and the possible files of delete events."""

from typing import Any

import pytest

from hiveacid.rules.names import may_delete
from hiveacid.rules.schema import BucketColumn, BucketLayout, common_layout

LAYOUT = BucketLayout((BucketColumn(2, "id", "int"), BucketColumn(0, "name", "string")), 4, 2)
NOTED: dict[str, Any] = {
    "columns": [
        {"position": 2, "name": "id", "type": "int"},
        {"position": 0, "name": "name", "type": "string"},
    ],
    "count": 4,
    "version": 2,
}
FILES: dict[str, Any] = {"format": 1, "files": {"bucket_00000": {"rows": 1, "bytes": 2}}}
OTHER = BucketLayout(LAYOUT.columns, 8, 2)


def test_a_note_holds_a_layout() -> None:
    assert LAYOUT.to_note() == {"buckets": NOTED}
    assert BucketLayout.of_note({"buckets": NOTED, "more": 1}) == LAYOUT


@pytest.mark.parametrize(
    "noted",
    [
        None,
        [],
        "4",
        {},
        {"count": True},
        {"count": 0},
        {"count": "4"},
        {"version": 3},
        {"version": None},
        {"columns": None},
        {"columns": []},
        {"columns": ["id"]},
        {"columns": [*NOTED["columns"], {"position": 1, "name": "v"}]},
        {"columns": [{"position": True, "name": "id", "type": "int"}]},
        {"columns": [{"position": 2, "name": None, "type": "int"}]},
    ],
)
def test_invalid_values_are_no_layout(noted: Any) -> None:
    whole = {**NOTED, **noted} if isinstance(noted, dict) and noted else noted
    assert BucketLayout.of_note({"buckets": whole}) is None


def test_a_compaction_keeps_the_layout_of_all_that_it_replaces() -> None:
    one, other = {**FILES, **LAYOUT.to_note()}, {**FILES, **OTHER.to_note()}
    assert common_layout([one, one]) == LAYOUT
    assert common_layout([one, other]) is None
    assert common_layout([one, FILES]) is None
    # The files cannot be compared with anything: any user may have added one.
    assert common_layout([one, LAYOUT.to_note()]) is None
    assert common_layout([one, {}]) is None
    assert common_layout([]) is None


@pytest.mark.parametrize(
    ("delete", "row", "clustered", "expected"),
    [
        (1, 1, True, True),
        (2, 1, True, False),
        # Trino's row ids in tables without buckets have the number 0, regardless of their file.
        (0, 1, True, True),
        (1, 0, True, False),
        (2, 1, False, True),
        (0, None, True, False),
        (0, None, False, False),
    ],
)
def test_deletes_are_where_an_engine_puts_them(
    delete: int, row: int | None, clustered: bool, expected: bool
) -> None:
    assert may_delete(delete, row, clustered=clustered) is expected
