"""Draw the resources of the processes of a soak test over time.

SOAK_FOLDER=build/soak make soak
python bench/soak_chart.py build/soak/4.0.1/samples.jsonl docs/images/soak.svg
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stream_chart import HEIGHT, NUMBERS, WIDTH, Picture
from svg import document

FIGURES = {
    "megabytes": "Memory, MB",
    "threads": "Threads",
    "files": "Open files",
    "connections": "Connections",
}
COLORS = ("#0b6e4f", "#5b7fb5", "#b5651d", "#8250df", "#57606a")


def chart(samples: Sequence[dict[str, Any]]) -> str:
    """One diagram for each resource, below each other."""
    names = sorted({sample["name"] for sample in samples})
    seconds = max(sample["seconds"] for sample in samples)
    parts = []
    for number, (figure, title) in enumerate(FIGURES.items()):
        largest = max(sample[figure] for sample in samples)
        picture = Picture(title, number * (HEIGHT + 40), seconds, largest)
        parts += picture.frame([])
        for name, color in zip(names, COLORS, strict=False):
            points = [
                (sample["seconds"], float(sample[figure]))
                for sample in samples
                if sample["name"] == name
            ]
            parts.append(picture.line(points, color))
    bottom = len(FIGURES) * (HEIGHT + 40)
    for number, (name, color) in enumerate(zip(names, COLORS, strict=False)):
        parts.append(
            f'<text x="{NUMBERS + 160 * number}" y="{bottom + 4}" style="fill: {color}">{name}</text>'
        )
    return document("Resources of processes over time", WIDTH, bottom + 16, parts)


def main() -> None:
    """Draw the samples of a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    lines = arguments.samples.read_text().splitlines()
    arguments.picture.write_text(chart([json.loads(line) for line in lines]))


if __name__ == "__main__":
    main()
