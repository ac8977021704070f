"""Draw how the costs of works grow with the size of a table.

    PYTHONPATH=. python bench/scaling_chart.py docs/images/scaling.svg \
        --deletes build/many_deletes.json --deltas build/small_deltas.json \
        --reads build/works-400k.json build/works-4m.json build/works-16m.json

The files are those of bench/many_deletes.py, bench/small_deltas.py, and of the course "works" of
bench/peers.py with the engines `hiveacid` and `flat`.
"""

import argparse
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chart import WORKS
from svg import document

COLORS = ("#0b6e4f", "#5b7fb5", "#b58a5b", "#9b59b6", "#35a27c", "#8a8f98")
# In pixels: a diagram, the margin around it, the places of numbers and of names.
WIDTH, HEIGHT, MARGIN, NUMBERS, NAMES = 520, 230, 16, 44, 330
READS = ("sum", "key", "all", "sum_after", "key_after", "all_after")
# By name, the size of the table to a cost.
Lines = Mapping[str, Mapping[float, float]]


def of_deletes(result: Sequence[Mapping[str, float]]) -> Lines:
    """The seconds of each work, by millions of deleted rows."""
    works = [name for name in result[0] if name != "millions"]
    return {work: {each["millions"]: each[work] for each in result} for work in works}


def of_deltas(result: Mapping[str, Mapping[str, float]]) -> Lines:
    """The milliseconds per delta of each work, by the number of deltas."""
    lines: dict[str, dict[float, float]] = {}
    for key, cost in result.items():
        work, count, kind = re.fullmatch(r"(\w+) of (\d+) deltas, (.*)", key).groups()
        lines.setdefault(f"{work}, {kind}", {})[int(count)] = cost["ms per delta"]
    return lines


def of_reads(results: Sequence[Mapping[str, Any]]) -> Lines:
    """The times of reads relative to flat files, by the number of rows."""

    def ratio(seconds: Mapping[str, list[float]]) -> float:
        return statistics.median(seconds["hiveacid"]) / statistics.median(seconds["flat"])

    return {
        WORKS[work]: {each["rows"]: ratio(each["seconds"][work]) for each in results}
        for work in READS
    }


def diagram(title: str, lines: Lines, top: int) -> Iterator[str]:
    """The title, the grid, and a line for each work; the sizes are on a logarithmic axis."""
    sizes = sorted({size for line in lines.values() for size in line})
    largest = max(cost for line in lines.values() for cost in line.values())
    bottom, room = top + HEIGHT - 24, HEIGHT - 56
    right = NUMBERS + MARGIN + WIDTH

    def x(size: float) -> float:
        span = math.log(sizes[-1] / sizes[0])
        return NUMBERS + MARGIN + WIDTH * math.log(size / sizes[0]) / span

    def y(cost: float) -> float:
        return bottom - room * cost / largest

    yield f'<text x="{MARGIN}" y="{top + 14}" class="title">{title}</text>'
    for share in (0, 0.5, 1):
        at = y(share * largest)
        yield f'<text x="{NUMBERS}" y="{at + 4:.0f}" text-anchor="end">{share * largest:.3g}</text>'
        yield f'<line x1="{NUMBERS + 6}" x2="{right}" y1="{at:.0f}" y2="{at:.0f}" class="grid"/>'
    for size in sizes:
        yield f'<text x="{x(size):.0f}" y="{bottom + 18}" text-anchor="middle">{size:,}</text>'
    colors = dict(zip(lines, COLORS, strict=False))
    lowest = float("inf")
    # From the bottom, so that names of close lines are moved up.
    for name in sorted(lines, key=lambda name: lines[name][sizes[-1]]):
        points = " ".join(f"{x(size):.1f},{y(cost):.1f}" for size, cost in lines[name].items())
        yield f'<polyline points="{points}" fill="none" stroke="{colors[name]}" stroke-width="2"/>'
        lowest = min(y(lines[name][sizes[-1]]), lowest - 14)
        place = f'x="{right + 8}" y="{lowest + 4:.0f}"'
        yield f'<text {place} style="fill: {colors[name]}">{name}</text>'


def chart(diagrams: Mapping[str, Lines]) -> str:
    """The diagrams, one below the other."""
    parts: list[str] = []
    for number, (title, lines) in enumerate(diagrams.items()):
        parts += diagram(title, lines, MARGIN + number * (HEIGHT + MARGIN))
    height = MARGIN + len(diagrams) * (HEIGHT + MARGIN)
    return document("Costs by the size of a table", NUMBERS + WIDTH + NAMES, height, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--deletes", type=Path, required=True)
    parser.add_argument("--deltas", type=Path, required=True)
    parser.add_argument("--reads", type=Path, nargs="+", required=True)
    arguments = parser.parse_args()

    def load(path: Path) -> Any:
        return json.loads(path.read_text())

    diagrams = {
        "Seconds by millions of deleted rows": of_deletes(load(arguments.deletes)),
        "Milliseconds of processor time per delta, by the number of deltas": of_deltas(
            load(arguments.deltas)
        ),
        "Time of reads relative to flat ORC, by rows": of_reads([*map(load, arguments.reads)]),
    }
    arguments.svg.write_text(chart(diagrams))


if __name__ == "__main__":
    main()
