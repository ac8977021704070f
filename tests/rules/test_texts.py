"""Texts for people: lines that are folded below their last column."""

import pytest

from hiveacid.rules.texts import folded


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ""),
        ("short enough", "short enough"),
        ("one two three four five", "one two three four\nfive"),
        ("  state  one two three four", "  state  one two\n         three\n         four"),
        ("     one two three four", "     one two three\n     four"),
        ("  at a time  file:/a/path/of/a/file", "  at a time\n    file:/a/path/of/a/file"),
    ],
)
def test_a_line_is_folded_below_its_last_column(line: str, expected: str) -> None:
    assert folded(line, 18) == expected


def test_a_hyphen_is_no_place_to_fold() -> None:
    assert folded("on 2026-03-01", 8) == "on\n2026-03-01"
