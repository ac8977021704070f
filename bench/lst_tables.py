"""Print the figures of bench/lst.py as the tables of docs/benchmarks.md.

python bench/lst_tables.py build/lst.json
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = {
    "hiveacid": "Hive ACID",
    "hiveacid_auto": "Hive ACID, compacted automatically",
    "delta": "Delta Lake",
    "delta_auto": "Delta Lake, compacted automatically",
    "iceberg": "Iceberg",
}
TITLES = {
    "wp1": "longevity",
    "wp2": "resilience",
    "wp3": "concurrent reads and writes",
    "wp4": "time travel",
}


def markdown(result: dict[str, Any]) -> str:
    """All tables."""
    parts = []
    for pack, found in result["packs"].items():
        phases, title = found["phases"], f"{pack}, {TITLES[pack]}"
        engines = list(next(iter(phases.values())))
        head = [NAMES[engine] for engine in engines]
        cells = [[f"{title}: seconds", *head]]
        cells += [
            [phase, *(_seconds(by[engine]) for engine in engines)] for phase, by in phases.items()
        ]
        parts.append(_table(cells))
        last = [by for by in phases.values() if "files" in next(iter(by.values()))][-1]
        cells = [[f"{title}: S_DR and files", *head]]
        for series, by_engine in found["s_dr"].items():
            for figure in by_engine[engines[0]]:
                rates = (f"{by_engine[engine][figure]:.2f}" for engine in engines)
                cells.append([f"S_DR of {series}, {_figure(figure)}", *rates])
        for figure in ("files", "megabytes", "stored_megabytes"):
            values = (f"{last[engine][figure]:.0f}" for engine in engines)
            cells.append([f"{_figure(figure)} at the end", *values])
        parts.append(_table(cells))
    return "\n\n".join(parts)


def _seconds(figures: dict[str, float]) -> str:
    """The duration of a phase, and of its parts if there are several."""
    text = f"{figures['seconds']:.1f}"
    if "automatic" in figures:
        return f"{text}, of these compaction {figures['automatic']:.1f}"
    parts = [figures[name] for name in ("query", "maintain", "optimize") if name in figures]
    return text if len(parts) < 2 else " / ".join(f"{each:.1f}" for each in parts)


def _figure(name: str) -> str:
    return {
        "cpu": "processor time",
        "query": "seconds of the queries",
        "megabytes": "MB",
        "stored_megabytes": "MB with earlier versions",
    }.get(name, name)


def _table(cells: Sequence[Sequence[str]]) -> str:
    head, *rows = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([head, "|---" * len(cells[0]) + "|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    print(markdown(json.loads(parser.parse_args().json.read_text())))


if __name__ == "__main__":
    main()
