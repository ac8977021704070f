"""Draw the seconds of the single user in each phase of bench/lst.py, by engine.

python bench/lst_chart.py build/lst.json docs/images/longevity.svg
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from lst_tables import NAMES, TITLES
from svg import document

COLORS = {
    "hiveacid": "#0b6e4f",
    "hiveacid_auto": "#35a27c",
    "delta": "#b58a5b",
    "delta_auto": "#d9b98f",
    "iceberg": "#5b7fb5",
}
# In pixels: a diagram, the margin around it, the places of numbers and of names.
WIDTH, HEIGHT, MARGIN, NUMBERS, LABELS = 880, 170, 16, 44, 240
Lines = Mapping[str, list[float]]


def lines_of(phases: Mapping[str, Mapping[str, Mapping[str, float]]]) -> tuple[list[str], Lines]:
    """The phases in which queries run, and the seconds of the queries by engine."""
    engines = list(next(iter(phases.values())))
    queried = [name for name, by in phases.items() if "query" in by[engines[0]]]
    return queried, {name: [phases[phase][name]["query"] for phase in queried] for name in engines}


def diagram(title: str, phases: list[str], lines: Lines, top: int) -> Iterator[str]:
    """The title, the grid, and a line for each engine with its name at the end."""
    largest = max(map(max, lines.values()))
    bottom, room = top + HEIGHT - 24, HEIGHT - 52

    def x(number: int) -> float:
        return NUMBERS + (WIDTH - LABELS - NUMBERS) * number / (len(phases) - 1)

    def y(seconds: float) -> float:
        return bottom - room * seconds / largest

    yield f'<text x="{MARGIN}" y="{top + 14}" class="title">{escape(title)}</text>'
    for share in (0, 0.5, 1):
        at = y(share * largest)
        yield f'<text x="{MARGIN}" y="{at + 4:.0f}">{share * largest:.0f}</text>'
        yield f'<line x1="{NUMBERS}" x2="{x(len(phases) - 1):.0f}" y1="{at:.0f}" y2="{at:.0f}" class="grid"/>'
    for number, phase in enumerate(phases):
        yield f'<text x="{x(number):.0f}" y="{bottom + 18}" text-anchor="middle">{phase}</text>'
    lowest = float("inf")
    # From the bottom, so that names of close lines are moved up.
    for engine in sorted(lines, key=lambda name: lines[name][-1]):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(lines[engine]))
        color = COLORS[engine]
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
        lowest = min(y(lines[engine][-1]), lowest - 14)
        label = f'x="{x(len(phases) - 1) + 8:.0f}" y="{lowest + 4:.0f}"'
        yield f'<text {label} style="fill: {color}">{escape(NAMES[engine])}</text>'


def chart(result: dict[str, Any]) -> str:
    """The diagrams of all workloads, one below the other."""
    parts: list[str] = []
    top = MARGIN
    for pack, found in result["packs"].items():
        names, lines = lines_of(found["phases"])
        title = f"{pack}, {TITLES[pack]}: seconds of twelve queries"
        parts += diagram(title, names, lines, top)
        top += HEIGHT + MARGIN
    return document("Seconds of twelve queries in each phase, by engine", WIDTH, top, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    parser.add_argument("svg", type=Path)
    arguments = parser.parse_args()
    arguments.svg.write_text(chart(json.loads(arguments.json.read_text())))


if __name__ == "__main__":
    main()
