"""Draw the measurements of bench/peers.py.

    PYTHONPATH=. python bench/chart.py build/peers.json docs/images/benchmarks.svg

A picture for each work, with a bar for each engine: median seconds, shorter is better.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from svg import STYLE, document
from tiny import SIZES
from tiny import WORKS as TINY

WORKS = {
    "append": "Append all rows",
    "merge_spread_first": "Scattered merge, first of a driver",
    "merge_spread": "Scattered merge, warm",
    "merge_neighbours": "Merge 2,000 adjacent rows",
    "delete": "Delete a list of keys",
    "compact": "Compact everything",
    "sum": "Sum of one column",
    "key": "One key",
    "all": "All 17 columns",
    "sum_after": "Sum, after the changes",
    "key_after": "One key, after the changes",
    "all_after": "All columns, after the changes",
    **{
        f"tiny_{work}_{rows}": f"{rows:,} rows: {title.split(', ')[0]}"
        for rows in SIZES
        for work, title in TINY.items()
    },
}
ENGINES = {
    "hiveacid": ("Hive ACID, zlib", "#0b6e4f"),
    "hiveacid_zstd": ("Hive ACID, zstd", "#35a27c"),
    "hive": ("Hive's compactor", "#9467a8"),
    "iceberg": ("Iceberg", "#5b7fb5"),
    "delta": ("Delta Lake", "#b58a5b"),
    "flat": ("flat ORC, zlib", "#8a8f98"),
    "flat_zstd": ("flat ORC, zstd", "#b4b8bf"),
}
LABEL_STYLE = """
  .label { text-anchor: end }
"""
COLUMNS = 3
# In pixels: a bar, the place of names and of numbers, a picture and the margin around it.
BAR, LABEL, NUMBER, WIDTH, MARGIN = 18, 104, 44, 316, 16


def picture(work: str, seconds: dict[str, float], left: int, top: int) -> Iterator[str]:
    """The title, then a bar for each engine, as long as its share of the slowest."""
    yield f'<text x="{left}" y="{top + 14}" class="title">{escape(WORKS[work])}</text>'
    room = WIDTH - LABEL - NUMBER - MARGIN
    slowest = max(seconds.values())
    bars = [(name, *ENGINES[name]) for name in ENGINES if name in seconds]
    for number, (name, label, color) in enumerate(bars):
        y = top + 24 + number * BAR
        taken = seconds[name]
        length = max(1, round(room * taken / slowest))
        yield f'<text x="{left + LABEL - 6}" y="{y + 12}" class="label">{escape(label)}</text>'
        yield (
            f'<rect x="{left + LABEL}" y="{y + 2}" width="{length}" height="{BAR - 5}" '
            f'fill="{color}"/>'
        )
        yield f'<text x="{left + LABEL + length + 5}" y="{y + 12}">{digits(taken)} s</text>'


def digits(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}"


def chart(result: dict[str, Any]) -> str:
    """The whole drawing as SVG."""
    works = [work for work in WORKS if work in result["seconds"]]
    rows = [works[first : first + COLUMNS] for first in range(0, len(works), COLUMNS)]
    lines: list[str] = []
    top = MARGIN
    for row in rows:
        medians = [
            {name: statistics.median(each) for name, each in result["seconds"][work].items()}
            for work in row
        ]
        for column, (work, seconds) in enumerate(zip(row, medians, strict=True)):
            lines += picture(work, seconds, MARGIN + column * WIDTH, top)
        top += 24 + BAR * max(map(len, medians)) + MARGIN
    width = COLUMNS * WIDTH + MARGIN
    text = f"Seconds of {len(works)} operations on {result['rows']:,} rows, by engine; shorter is better"
    return document(text, width, top, lines, STYLE + LABEL_STYLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    parser.add_argument("svg", type=Path)
    arguments = parser.parse_args()
    arguments.svg.write_text(chart(json.loads(arguments.json.read_text())))


if __name__ == "__main__":
    main()
