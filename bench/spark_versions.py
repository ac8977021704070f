"""The works of this package and of Iceberg on different versions of Spark, on the same rows.

    PYTHONPATH=. python bench/spark_versions.py --rows 4000000 --json out.json

Each turn runs bench/peers.py once on each version, another one first in every turn. At the end come
the table of docs/benchmarks.md, with medians of all turns, and the ratios of the first version to
the last.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chart import ENGINES as LABELS
from chart import digits
from tables import WORKS, ZSTD, label_of

from tests.spark_versions.versions import OTHERS, packages

PEERS = Path(__file__).with_name("peers.py")
ENGINES = ("hiveacid", "iceberg")
NEWEST = "4.1"


def measure(version: str, rows: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each work and engine on a version of Spark."""
    path = [str(PEERS.parents[1])]
    if version in OTHERS:
        path.insert(0, str(packages(version)))
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as folder:
        file = Path(folder) / "peers.json"
        arguments = ["--courses", "works", "--engines", *ENGINES, "--json", str(file)]
        subprocess.run(
            [sys.executable, PEERS, *arguments, "--rows", str(rows), "--rounds", str(rounds)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        result: dict[str, Any] = json.loads(file.read_text())
    return result["seconds"]


def table(
    medians: dict[str, dict[str, dict[str, float]]], versions: Sequence[str], rows: int
) -> str:
    """Return the medians in Markdown."""
    names = [f"{LABELS[engine][0]} on {version}" for engine in ENGINES for version in versions]
    lines = [
        f"| | {' | '.join(names)} | {versions[0]} / {versions[-1]} |",
        "|---" * (len(names) + 2) + "|",
    ]
    # Without the first merge of a driver, the label of the other one has no reference.
    for work, text in (WORKS | {"merge_spread": ZSTD["merge_spread"]}).items():
        if work not in medians[versions[0]]:
            continue
        cells = [medians[version][work][engine] for engine in ENGINES for version in versions]
        ratio = cells[0] / cells[len(versions) - 1]
        lines.append(f"| {label_of(text, rows)} | {' | '.join(map(digits, cells))} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--versions", nargs="+", choices=[*OTHERS, NEWEST], default=["3.5", NEWEST])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seconds: dict[str, dict[str, dict[str, list[float]]]] = {
        version: defaultdict(lambda: defaultdict(list)) for version in arguments.versions
    }
    for turn in range(arguments.turns):
        order = arguments.versions if turn % 2 == 0 else arguments.versions[::-1]
        for version in order:
            for work, engines in measure(version, arguments.rows, arguments.rounds).items():
                for engine, values in engines.items():
                    seconds[version][work][engine] += values
    medians = {
        version: {
            work: {engine: statistics.median(values) for engine, values in engines.items()}
            for work, engines in works.items()
        }
        for version, works in seconds.items()
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(seconds, indent=2) + "\n")
    print(table(medians, arguments.versions, arguments.rows))


if __name__ == "__main__":
    main()
