"""The figures on memory in docs/sizing.md, measured again: fails if one is wrong by more than 25 %.

    PYTHONPATH=. python bench/memory_figures.py --json out.json

The memory of the driver is that of its Python process during a delete of all rows, divided by their number;
that of a compaction is the peak of the process that encodes a bucket, which the worker and an executor do
alike, or of the task itself, if nothing is left to encode. The metastore is that of the tests, in the process
that measures.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from small_compaction import DELTAS, TASKS, Bench

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore

PAGE = Path(__file__).parents[1] / "docs" / "sizing.md"
TOLERANCE = 0.25
DRIVER_ROWS = 2_000_000
# Deletes the rows of a table in a driver that has deleted before; prints the bytes of each row.
DELETE = """\
import sys
from pathlib import Path
from airflow_hiveacid import AcidTable
from hiveacid.spark.session import application_session
uri, rows = sys.argv[1], int(sys.argv[2])
spark = application_session("memory")

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10

with AcidTable("default.deleted", uri, spark=spark) as table:
    table.append(spark.range(1000))
    table.delete("id >= 0")
    table.append(spark.range(rows).coalesce(1))
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    table.delete("id >= 0")
    print("BYTES", (peak() - before) / rows)
"""


@dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes:
        name: Its name in the results.
        text: The text around it, with a group for the number.
    """

    name: str
    text: str

    def on_page(self) -> int:
        """Return the number on the page."""
        found = re.findall(self.text, " ".join(PAGE.read_text().split()))
        if len(found) != 1:
            raise SystemExit(f"{PAGE} has {len(found)} figures like {self.text!r}.")
        return int(found[0])


FIGURES = (
    Figure("driver, bytes for a row", r"(\d+) bytes for each row that a merge"),
    Figure("2 M of 16 M rows deleted, MB", r"(\d+) MB in a process with 2 million delete events"),
    Figure("16 M of 16 M rows deleted, MB", r"(\d+) MB in the task itself with 16 million of them"),
)


def driver(folder: Path, metastore: FakeMetastore, client: MetastoreClient) -> float:
    """Return the bytes of Python's memory for each deleted row."""
    client.create_table(HiveTable.new(TableRef("default", "deleted"), [HiveColumn("id", "bigint")]))
    (folder / "spark-defaults.conf").write_text(
        "spark.master local[2]\nspark.ui.enabled false\nspark.log.level ERROR\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", DELETE, metastore.uri, str(DRIVER_ROWS)],
        env=os.environ | {"SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": sys.executable},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout.partition("BYTES")[2])


def compaction(bench: Bench, flat: Path, share: float, process: str) -> float:
    """Return the megabytes of the task, or of a process of its own, for a bucket of 16 million rows."""
    name, _ = bench.table(flat=flat, share=share, spread=True)
    return bench.used(TASKS, "worker", name)[process]


def measured(folder: Path) -> dict[str, float]:
    with (
        FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        bench = Bench(client, folder)
        flat = folder / "flat.orc"
        bench.write_flat(flat, 16_000_000 // DELTAS)
        values = (
            driver(folder, metastore, client),
            compaction(bench, flat, 1 / 8, "MB of a child"),
            compaction(bench, flat, 1, "MB"),
        )
    return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pages = {figure.name: figure.on_page() for figure in FIGURES}
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        found = measured(folder)
    finally:
        shutil.rmtree(folder)
    for name, value in found.items():
        print(f"{name}: {value:.0f}, on the page {pages[name]}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    wrong = [name for name in found if abs(found[name] / pages[name] - 1) > TOLERANCE]
    if wrong:
        raise SystemExit(f"Measure again, and correct docs/sizing.md: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
