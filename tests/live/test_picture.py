"""The figures in the picture of a table's history, in a real Chromium."""

import json
from pathlib import Path

import pytest

import airflow_hiveacid.plugin
from tests.live.chromium import Chromium, needs_chromium

pytestmark = [
    pytest.mark.live,
    needs_chromium,
]
PROGRAM = (Path(airflow_hiveacid.plugin.__file__).parent / "picture.js").read_text()
NAMES = ("kind", "partition", "first_write_id", "last_write_id", "state")


def test_cleaned_directories_had_no_readers_since_their_compaction(tmp_path: Path) -> None:
    # The partitions of the writes 2 and 3 are unknown.
    written = [
        ("insert", None, 2, 2, "cleaned"),
        ("insert", None, 3, 3, "cleaned"),
        ("minor", "day=1", 2, 3, "current"),
        ("insert", "day=1", 4, 4, "current"),
    ]
    entries = [
        {**dict(zip(NAMES, each, strict=True)), "compaction": each[0] == "minor"}
        for each in written
    ]
    counted = f"deltas({{ positions: [2, 3, 4] }}, {json.dumps(entries)})"
    with Chromium(tmp_path / "profile") as browser:
        assert browser.evaluate(f"(() => {{ {PROGRAM}; return {counted}; }})()") == [1, 2, 2, 2]
