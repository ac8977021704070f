"""Print the measurements of bench/peers.py as tables; docs/benchmarks.md has a selection of them.

    python bench/tables.py build/peers.json

Only tables that the file has figures for; empty cells where an engine does not do a work.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chart import ENGINES, digits
from growth import KINDS
from partitioned import READS as PARTITION_READS
from partitioned import STATES
from tiny import SIZES
from tiny import WORKS as TINY

Result = dict[str, Any]
# Rows of a table: the first one is its head.
Cells = list[list[str]]

WORKS = {
    "append": "append {rows} rows",
    "merge_spread_first": "merge {updates} updates, {inserts} inserts, all over;"
    " the first of its driver",
    "merge_spread": "the same in a driver that has merged before",
    "merge_neighbours": "merge of 2,000 rows beside each other",
    "delete": "delete of {deletes} rows by a list of keys, all over",
    "compact": "compact everything",
    "sum": "sum of one column",
    "key": "one key",
    "all": "all 17 columns",
    "sum_after": "sum of one column, after the merges and the delete",
    "key_after": "one key, after them",
    "all_after": "all 17 columns, after them",
}
ZSTD = {
    "append": "append of {rows} rows",
    "merge_spread": "merge of {changes} rows, all over",
    "merge_neighbours": "merge of 2,000 rows",
    "compact": "compaction",
    "sum": "sum of one column",
    "all": "all 17 columns",
}
JOBS = {
    "merge_spread": "the merge all over",
    "merge_neighbours": "the merge of neighbours",
    "delete": "the delete",
    "compact": "the compaction",
}
SMALL = {
    "small_merge": "median of all",
    "small_merge_first_tenth": "of the first tenth",
    "small_merge_last_tenth": "of the last tenth",
}
CHANGES = {
    "changes": "changes of one row in a hundred, by the engine's change feed",
    "compare": "the same by comparing two versions",
}
KIND_NAMES = {"neighbours": "2,000 neighbours", "spread": "2,000 rows all over"}


class Tables:
    """The tables of one result."""

    def __init__(self, result: Result) -> None:
        self._result, self._rows = result, result["rows"]
        self._medians = {
            work: {name: statistics.median(each) for name, each in by_engine.items()}
            for work, by_engine in result["seconds"].items()
        }
        self._figures = {
            name: {engine: statistics.median(each) for engine, each in by_engine.items()}
            for name, by_engine in result["figures"].items()
        }

    def markdown(self) -> str:
        """All of them, one below the other."""
        every = [
            *(self._works(), self._ratios(), self._jobs(), self._zstd()),
            *(self._partitions(), self._small(), self._growth(), self._changes()),
            *(self._tiny(rows) for rows in SIZES),
            self._tiny_calls(),
        ]
        return "\n\n".join(_markdown(cells) for cells in every if len(cells) > 1)

    def _works(self) -> Cells:
        engines = self._engines(WORKS)
        lines = [["", *(ENGINES[name][0] for name in engines)]]
        for work, label in WORKS.items():
            if work in self._medians:
                lines.append([label_of(label, self._rows), *self._seconds(work, engines)])
        if sizes := self._figures.get("megabytes"):
            cells = [f"{sizes[name]:.0f}" if name in sizes else "" for name in engines]
            lines.append(["size after the append, MB", *cells])
        return lines

    def _ratios(self) -> Cells:
        peers = [name for name in self._engines(WORKS) if name not in ("hiveacid", "flat_zstd")]
        peers = [name for name in peers if name != "hiveacid_zstd"]
        lines = [["JSON key", *(ENGINES[name][0] for name in peers)]]
        for work in WORKS:
            ratios = [self._result.get(f"ratio_{work}_{name}") for name in peers]
            if any(ratios):
                cells = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
                lines.append([f"`ratio_{work}_…`", *cells])
        return lines

    def _zstd(self) -> Cells:
        lines = [["zstd by zlib", ""]]
        for work, label in ZSTD.items():
            taken = self._medians.get(work, {})
            if {"hiveacid", "hiveacid_zstd"} <= taken.keys():
                ratio = taken["hiveacid_zstd"] / taken["hiveacid"]
                lines.append([label_of(label, self._rows), f"{ratio:.2f}"])
        return lines

    def _jobs(self) -> Cells:
        engines = [name for name in ("hiveacid", "iceberg", "delta") if name in self._engines(JOBS)]
        lines = [["Spark jobs of", *(ENGINES[name][0] for name in engines)]]
        for work, label in JOBS.items():
            if jobs := self._figures.get(f"jobs_{work}"):
                lines.append([label, *(f"{jobs[name]:.0f}" for name in engines)])
        return lines

    def _partitions(self) -> Cells:
        works = {
            f"partitions_{state}_{read}": (label, name)
            for read, label in PARTITION_READS.items()
            for state, name in STATES.items()
        }
        changes = ("append", "delete", "merge", "compact")
        works |= {f"partitions_{work}": (work, "") for work in changes}
        engines = self._engines(works)
        lines = [["", "", *(ENGINES[name][0] for name in engines)]]
        for work, (label, state) in works.items():
            if work in self._medians:
                lines.append([label, state, *self._seconds(work, engines)])
        return lines

    def _small(self) -> Cells:
        engines = self._engines(SMALL)
        lines = [["Seconds of a merge", *(ENGINES[name][0] for name in engines)]]
        for work, label in SMALL.items():
            if work in self._medians:
                lines.append([label, *self._seconds(work, engines)])
        return lines

    def _changes(self) -> Cells:
        engines = self._engines(CHANGES)
        lines = [["", *(ENGINES[name][0] for name in engines)]]
        for work, label in CHANGES.items():
            if work in self._medians:
                lines.append([label, *self._seconds(work, engines)])
        return lines

    def _growth(self) -> Cells:
        sizes = sorted(
            int(work.removeprefix("growth_spread_"))
            for work in self._medians
            if work.startswith("growth_spread_")
        )
        engines = self._engines(f"growth_{kind}_{size}" for kind in KINDS for size in sizes)
        lines = [["", *(ENGINES[name][0] for name in engines)]]
        for kind in KINDS:
            for size in sizes:
                into = f"{KIND_NAMES[kind]} into {_amount(size * self._rows)}"
                work = f"growth_{kind}_{size}"
                lines.append([f"{into}, s", *self._seconds(work, engines)])
                if size != sizes[0]:
                    times = self._figures[work]
                    cells = [f"{times[each]:.2f}" if each in times else "" for each in engines]
                    lines.append([f"times that into {_amount(self._rows)}", *cells])
                jobs = self._figures[f"jobs_{work}"]
                cells = [f"{jobs[each]:.0f}" if each in jobs else "" for each in engines]
                lines.append(["Spark jobs", *cells])
        return lines

    def _tiny(self, rows: int) -> Cells:
        works = {f"tiny_{work}_{rows}": label for work, label in TINY.items()}
        engines = self._engines(works)
        peers = [name for name in engines if name != "hiveacid"]
        names = [ENGINES[name][0] for name in engines]
        ratios = [f"ratio to {ENGINES[name][0]}" for name in peers]
        used = [f"{name}, processor" for name in names]
        lines = [[f"Seconds, {rows:,} rows", *names, *ratios, *used]]
        for work, label in works.items():
            if work in self._medians:
                shares = [f"{self._result[f'ratio_{work}_{name}']:.2f}" for name in peers]
                cpu = self._figures[f"cpu_{work}"]
                processor = [f"{cpu[name]:.2f}" for name in engines]
                lines.append([label, *self._seconds(work, engines), *shares, *processor])
        return lines

    def _tiny_calls(self) -> Cells:
        lines = [["", "rows", "calls of Java", "seconds in Java", "calls of the metastore"]]
        for work, label in TINY.items():
            for rows in SIZES:
                name = f"tiny_{work}_{rows}"
                if f"java_calls_{name}" in self._figures:
                    java, seconds, metastore = (
                        self._figures[f"{figure}_{name}"]["hiveacid"]
                        for figure in ("java_calls", "java_seconds", "metastore_calls")
                    )
                    lines.append(
                        [label, f"{rows:,}", f"{java:.0f}", f"{seconds:.2f}", f"{metastore:.0f}"]
                    )
        return lines

    def _engines(self, works: "Iterator[str] | Sequence[str] | dict[str, str]") -> list[str]:
        """Return the engines with any of these works, in the order of the page."""
        done = {name for work in works for name in self._medians.get(work, ())}
        return [name for name in ENGINES if name in done]

    def _seconds(self, work: str, engines: Sequence[str]) -> list[str]:
        taken = self._medians[work]
        return [digits(taken[name]) if name in taken else "" for name in engines]


def label_of(text: str, rows: int) -> str:
    """Return the label of a work on a table with a number of rows."""
    changes = rows // 20
    return text.format(
        rows=_amount(rows),
        changes=f"{changes:,}",
        updates=_amount(changes - changes // 4),
        inserts=_amount(changes // 4),
        deletes=_amount(rows // 40),
    )


def _amount(number: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size and number % (size // 10) == 0:
            return f"{number / size:g} {unit}"
    return f"{number:,}"


def _markdown(cells: Cells) -> str:
    head, *rows = [
        "|".join(["", *(f" {cell}".rstrip() + " " for cell in line), ""]) for line in cells
    ]
    return "\n".join([head, "|---" * len(cells[0]) + "|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    arguments = parser.parse_args()
    print(Tables(json.loads(arguments.json.read_text())).markdown())


if __name__ == "__main__":
    main()
