"""Draw the predictions of the model of a driver's costs over the measurements of bench/cluster.py.

    PYTHONPATH=. python bench/cluster_chart.py build/cluster.json build/yarn.json docs/images/drivers.svg

Each file becomes a diagram. Points on the diagonal are exact; the grey band is 25 % wide on each side.
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster import WORKS, Point, trials
from svg import STYLE, document

COLORS = dict(zip(WORKS, ("#0b6e4f", "#5b7fb5", "#b58a5b", "#9b59b6"), strict=True))
# In pixels: a diagram, and the margin around it. The axes reach from the least to the most seconds.
SIZE, MARGIN, LEGEND = 340, 48, 28
LEAST, MOST, BAND = 0.01, 100.0, 0.25
BAND_STYLE = """
  .band { fill: #d8dee4; opacity: 0.6 }
"""


def place(seconds: float) -> float:
    """The position of a number of seconds on an axis, from 0 to the size of the diagram."""
    return SIZE * math.log(seconds / LEAST) / math.log(MOST / LEAST)


def diagram(title: str, result: list[dict[str, Any]], left: float) -> Iterator[str]:
    """The title, the axes, the band, and a point for each measurement that the model predicts."""
    top = MARGIN + LEGEND

    def at(measured: float, predicted: float) -> tuple[float, float]:
        return left + place(measured), top + SIZE - place(predicted)

    yield f'<text x="{left}" y="{top - 10}" class="title">{title}</text>'
    seconds = LEAST
    while seconds <= MOST * 1.001:
        x, y = at(seconds, seconds)
        yield f'<line x1="{left}" x2="{left + SIZE}" y1="{y:.0f}" y2="{y:.0f}" class="grid"/>'
        yield f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top}" y2="{top + SIZE}" class="grid"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{seconds:g}</text>'
        yield f'<text x="{x:.0f}" y="{top + SIZE + 18}" text-anchor="middle">{seconds:g}</text>'
        seconds *= 10
    corners = [
        at(LEAST, LEAST),
        at(LEAST, LEAST * (1 + BAND)),
        at(MOST / (1 + BAND), MOST),
        at(MOST, MOST),
        at(MOST, MOST * (1 - BAND)),
        at(LEAST / (1 - BAND), LEAST),
    ]
    yield f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}" class="band"/>'
    for work, trial in trials(result, "driver").items():
        for each in result:
            predicted = trial.model.predicted(Point(**each["point"]).quantities)
            x, y = at(each[work]["driver"], predicted)
            fill = "none" if each["fitted"] else COLORS[work]
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{COLORS[work]}"'
                ' stroke-width="1.5"/>'
            )
    middle = left + SIZE / 2
    yield f'<text x="{middle}" y="{top + SIZE + 38}" text-anchor="middle">measured seconds</text>'


def chart(results: dict[str, list[dict[str, Any]]]) -> str:
    """The diagrams side by side, below the names of the works."""
    parts = []
    x = MARGIN
    for work, color in COLORS.items():
        parts.append(f'<circle cx="{x}" cy="{MARGIN / 2}" r="4" fill="{color}"/>')
        parts.append(f'<text x="{x + 10}" y="{MARGIN / 2 + 4}">{work}</text>')
        x += 26 + 7 * len(work)
    parts.append(
        f'<text x="{x + 10}" y="{MARGIN / 2 + 4}">filled: predicted; empty: the model was fitted to it</text>'
    )
    for number, (name, result) in enumerate(results.items()):
        parts += diagram(
            f"{name}: predicted seconds", result, MARGIN + number * (SIZE + 2 * MARGIN)
        )
    width, height = len(results) * (SIZE + 2 * MARGIN), SIZE + 2 * MARGIN + LEGEND
    title = "Predicted over measured seconds of drivers"
    return document(title, width, height, parts, STYLE + BAND_STYLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, nargs="+", help="results; their names become titles")
    parser.add_argument("svg", type=Path)
    arguments = parser.parse_args()
    results = {path.stem: json.loads(path.read_text()) for path in arguments.json}
    arguments.svg.write_text(chart(results))


if __name__ == "__main__":
    main()
