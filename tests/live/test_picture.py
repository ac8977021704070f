"""The figures in the picture of a table's history, in a real Chromium."""

import json
from pathlib import Path
from typing import Any

import pytest

import airflow_hiveacid.plugin
from tests.live.chromium import Chromium, needs_chromium

pytestmark = [
    pytest.mark.live,
    needs_chromium,
]
FOLDER = Path(airflow_hiveacid.plugin.__file__).parent
PROGRAM = (FOLDER / "picture.js").read_text()
ELEMENTS = (FOLDER / "elements.js").read_text()
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


def test_a_cleaning_changes_no_earlier_point(tmp_path: Path) -> None:
    def written(write_id: int, *partitions: str, named: int, kept: bool) -> dict[str, Any]:
        version = {"first_write_id": write_id, "last_write_id": write_id, "state": "current"}
        directories = [
            {**version, "partition": name, "name": f"d{write_id}", "kind": "insert", "bytes": 5}
            for name in partitions
        ]
        return {
            **version,
            "write_id": write_id,
            "operation": "insert",
            "partitions": partitions[:named],
            "partition_count": len(partitions),
            "directories": directories if kept else [],
            "bytes": 5 * len(partitions),
            "rows_inserted": 1,
        }

    def history(*, kept: bool) -> list[dict[str, Any]]:
        majors = [
            {
                "write_id": None,
                "directories": [
                    dict(
                        zip(
                            (*NAMES, "name", "bytes"),
                            ("major", name, 1, 2, "current", "b", 5),
                            strict=True,
                        )
                    )
                    for name in ("day=1", "day=2")
                ],
            }
        ]
        return [
            written(1, "day=1", "day=2", named=2, kept=kept),
            written(2, "day=1", "day=2", named=1, kept=kept),
            *majors,
            written(3, "day=1", named=1, kept=True),
        ]

    def counted(*, kept: bool) -> str:
        return f"deltas({{ positions: [1, 2, 3] }}, directories({json.dumps(history(kept=kept))}))"

    both = f"[{counted(kept=True)}, {counted(kept=False)}]"
    with Chromium(tmp_path / "profile") as browser:
        before, after = browser.evaluate(f"(() => {{ {PROGRAM}; return {both}; }})()")
    assert before == after == [2, 4, 1, 1]


@pytest.mark.parametrize(
    ("token", "name"),
    [
        ("d/r/load/-1#0123456789ab", "d \u203a load"),
        ("d/r/load/3#0123456789ab.2", "d \u203a load[3]"),
        ("d/r/load/12#7", "d \u203a load[12]"),
        ("air:d/r/g.load/0", "air: d \u203a g.load[0]"),
    ],
)
def test_a_mapped_task_shows_its_index(tmp_path: Path, token: str, name: str) -> None:
    with Chromium(tmp_path / "profile") as browser:
        shown = f"(() => {{ {ELEMENTS}; return taskName({json.dumps(token)}); }})()"
        assert browser.evaluate(shown) == name
