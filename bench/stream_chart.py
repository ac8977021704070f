"""Draw a stream's run: how soon its rows could be read, and how many directories a reader opened.

STREAM_FIGURES=build make streams
python bench/stream_chart.py build/stream-upsert.json docs/images/upserts.svg
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from svg import STYLE, document

# In pixels: a picture, the margin around it, and the places of numbers.
WIDTH, HEIGHT, MARGIN, NUMBERS = 880, 150, 16, 44
COMPACTION_STYLE = """
  .compaction { stroke: #b5651d }
"""

Points = Sequence[tuple[float, float]]


class Picture:
    """One diagram over time, with a mark for each compaction."""

    def __init__(self, title: str, top: int, seconds: float, largest: float) -> None:
        self._title, self._top = title, top
        self._seconds, self._largest = seconds, largest

    def frame(self, compactions: Sequence[float]) -> Iterator[str]:
        """The title, the grid, and when the table was compacted."""
        yield f'<text x="{MARGIN}" y="{self._top + 14}" class="title">{self._title}</text>'
        for share in (0, 0.5, 1):
            y = self._y(share * self._largest)
            yield f'<text x="{MARGIN}" y="{y + 4:.0f}">{share * self._largest:g}</text>'
            yield f'<line x1="{NUMBERS}" x2="{WIDTH - MARGIN}" y1="{y:.0f}" y2="{y:.0f}" class="grid"/>'
        bottom = self._top + HEIGHT
        for at in compactions:
            x = self._x(at)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" class="compaction"/>'
        for minute in range(0, int(self._seconds // 60) + 1, max(1, int(self._seconds // 600))):
            x = min(self._x(minute * 60), WIDTH - 2 * MARGIN - NUMBERS / 2)
            yield f'<text x="{x:.0f}" y="{bottom + 16}">{minute} min</text>'

    def line(self, points: Points, color: str) -> str:
        """A line through points of seconds and values."""
        path = " ".join(f"{self._x(at):.1f},{self._y(value):.1f}" for at, value in points)
        return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'

    def _x(self, at: float) -> float:
        return NUMBERS + (WIDTH - MARGIN - NUMBERS) * at / self._seconds

    def _y(self, value: float) -> float:
        room = HEIGHT - 30
        return self._top + HEIGHT - room * min(1.0, value / self._largest)


def chart(figures: dict[str, Any]) -> str:
    """Both diagrams, one below the other."""
    waits, deltas = figures["waits"], figures["deltas"]
    seconds = max(at for at, _ in deltas)
    title = (
        "Seconds until the rows of a batch can be read: maximum and median"
        f" (of all rows: p50 {figures['p50']:.1f}, p99 {figures['p99']:.1f})"
    )
    first = Picture(title, 0, seconds, 15)
    most = max(20, figures["most_deltas"])
    second = Picture("Directories that a reader opens", HEIGHT + 40, seconds, most)
    parts = [
        *first.frame(figures["compactions"]),
        first.line([(at, longest) for at, _, longest in waits], "#0b6e4f"),
        first.line([(at, half) for at, half, _ in waits], "#35a27c"),
        *second.frame(figures["compactions"]),
        second.line(deltas, "#5b7fb5"),
        f'<text x="{NUMBERS}" y="{2 * HEIGHT + 78}">Marks below the diagrams: ends of compactions.</text>',
    ]
    height = 2 * HEIGHT + 90
    what = "Seconds until rows can be read, and directories that a reader opens"
    return document(what, WIDTH, height, parts, STYLE + COMPACTION_STYLE)


def main() -> None:
    """Draw the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    arguments.picture.write_text(chart(json.loads(arguments.figures.read_text())))


if __name__ == "__main__":
    main()
