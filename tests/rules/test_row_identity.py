"""Row ids identify rows until a partition is renumbered; notes of compactions prove that it was not."""

from collections.abc import Mapping, Set
from typing import Any

import pytest

from hiveacid.rules.notes import trace_row_ids

D1, D2, D3 = (f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3))
GONE3 = "delete_delta_0000003_0000003_0000"
BASE2, BASE3, MINOR = (
    "base_0000002_v0000008",
    "base_0000003_v0000009",
    "delta_0000001_0000003_v0000007",
)


def compaction(operation: str, *replaced: str) -> dict[str, Any]:
    return {"format": 1, "operation": operation, "replaces": list(replaced), "aborted": []}


def unproven(read: Set[str], current: Set[str], notes: Mapping[str, Any]) -> frozenset[str]:
    return trace_row_ids(read, current, notes.get).unproven


@pytest.mark.parametrize(
    ("read", "current", "notes"),
    [
        pytest.param({D1, D2}, {D1, D2}, {}, id="nothing_has_changed"),
        pytest.param({D1}, {D1, D2, GONE3}, {}, id="others_have_written"),
        pytest.param({D1, D2}, {BASE2}, {BASE2: compaction("major", D1, D2)}, id="major"),
        pytest.param(
            {"000000_0"}, {BASE2}, {BASE2: compaction("major", "000000_0")}, id="originals"
        ),
        pytest.param(
            {D1, D2},
            {MINOR},
            {MINOR: compaction("minor", D1, D2, D3)},
            id="minor_with_a_later_write",
        ),
        pytest.param(
            {D1, D2},
            {BASE3},
            {BASE3: compaction("major", BASE2, D3), BASE2: compaction("major", D1, D2)},
            id="one_after_the_other",
        ),
        pytest.param(
            {BASE2, D3}, {BASE3}, {BASE3: compaction("major", BASE2, D3)}, id="a_base_that_was_read"
        ),
    ],
)
def test_only_compactions_keep_row_ids(read, current, notes):
    assert not unproven(read, current, notes)


@pytest.mark.parametrize(
    ("read", "current", "notes", "names"),
    [
        pytest.param({D1}, set(), {}, {D1}, id="removed"),
        pytest.param({D1, D2}, {BASE2}, {}, {D1, D2, BASE2}, id="no_note"),
        pytest.param(
            {D1, D2}, {BASE2}, {BASE2: {"operation": "major"}}, {D1, D2, BASE2}, id="no_list"
        ),
        pytest.param(
            {D1, D2},
            {BASE2},
            {BASE2: compaction("rebalance", D1, D2)},
            {D1, D2, BASE2},
            id="rebalance",
        ),
        pytest.param(
            {D1, D2},
            {"base_0000003"},
            {"base_0000003": compaction("overwrite", D1, D2)},
            {D1, D2, "base_0000003"},
            id="overwrite",
        ),
        pytest.param(
            {D1, D2},
            {BASE3},
            {BASE3: compaction("major", BASE2, D3), BASE2: compaction("rebalance", D1, D2)},
            {D1, D2, BASE2},
            id="rebalance_and_major",
        ),
        pytest.param(
            {D1, D2},
            {BASE3},
            {BASE3: compaction("major", BASE2, D3)},
            {D1, D2, BASE2},
            id="a_link_that_was_removed",
        ),
        pytest.param({D1, D2}, {MINOR, D3}, {}, {D1, D2}, id="minor_of_an_engine_without_notes"),
        pytest.param(
            set(),
            {BASE3},
            {BASE3: compaction("major", "base_0000002", D3)},
            {"base_0000002"},
            id="nothing_was_read_and_an_overwrite_was_compacted",
        ),
    ],
)
def test_directories_without_a_proof_are_listed(read, current, notes, names):
    assert unproven(read, current, notes) == names


def test_directories_replaced_by_compactions_are_listed():
    notes = {
        BASE3: compaction("major", MINOR, "delete_delta_0000001_0000003_v0000007"),
        MINOR: compaction("minor", D1, D2, D3, GONE3),
    }
    trace = trace_row_ids({D1, D2}, {BASE3}, notes.get)
    assert not trace.unproven
    assert trace.replaced >= {D1, D2, GONE3}


def test_notes_that_list_each_other_end():
    notes = {BASE2: compaction("major", BASE3, D1), BASE3: compaction("major", BASE2)}
    assert not unproven({D1}, {BASE3}, notes)
