"""The memory of statements at the limits of the worker, each in a process of its own.

    PYTHONPATH=. python bench/worker_bounds.py --json build/worker_bounds.json

Each statement has as many rows, bytes, pairs, deletes, or literals as the worker accepts, or more: then
the worker refuses it before it holds them. Fails if one of them takes more than 500 MB.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore

MOST_MEGABYTES = 500
RUN = """\
import sys, time
from dataclasses import replace
from pathlib import Path
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.worker.run import change_rows
from tests.memory import peak_megabytes
with MetastoreClient(MetastoreOptions(uris=sys.argv[1])) as client:
    (job,) = to_jobs(Path(sys.argv[2]).read_text())
    begun = time.monotonic()
    try:
        change_rows(client, replace(job, run_in="worker"))
        result = "done"
    except HiveAcidError as error:
        result = type(error).__name__
    print(peak_megabytes(), time.monotonic() - begun, result)
"""
ROWS, TARGET_ROWS = 200_000, 1_000_000
MERGE = (
    "MERGE INTO {} t USING {} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT *"
)


def texts(count: int, width: int) -> pa.Array:
    """Return texts that do not compress."""
    letters = np.random.default_rng(0).integers(97, 123, count * width, dtype=np.uint8)
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))


class Bench:
    """Tables in a metastore of the tests."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._tables = 0

    def table(self, rows: pa.Table) -> str:
        """Create a table with some rows, in files of as many as the worker writes at once."""
        self._tables += 1
        ref = TableRef("default", f"t{self._tables}")
        names = {pa.int64(): "bigint", pa.string(): "string"}
        columns = [HiveColumn(field.name, names[field.type]) for field in rows.schema]
        self._client.create_table(HiveTable.new(ref, columns))
        with AcidTable(ref.full_name, self._client.options, run_in="worker") as table:
            for at in range(0, rows.num_rows, ROWS // 4):
                table.append(rows.slice(at, ROWS // 4))
        return ref.full_name

    def deleted(self, rows: int) -> str:
        """Create a table of which nearly all rows are deleted."""
        name = self.table(pa.table({"k": np.arange(rows)}))
        with AcidTable(name, self._client.options, run_in="worker") as table:
            for at in range(0, rows, ROWS):
                table.delete(f"k >= {at} AND k < {min(at + ROWS, rows - 1)}")
        return name


def statements(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield each statement after its name."""
    keys = np.arange(ROWS)
    wide = {"k": keys, **{f"c{n}": texts(ROWS, 14) for n in range(8)}}
    target, source = bench.table(pa.table(wide)), bench.table(pa.table(wide))
    yield "merge of 200,000 rows of 160 bytes", MERGE.format(target, source)
    yield "update of them", f"UPDATE {target} SET c0 = 'x' WHERE k >= 0"
    yield "insert of them", f"INSERT INTO {target} SELECT * FROM {source}"
    long = texts(ROWS, 150)
    target, source = (bench.table(pa.table({"k": long, "v": keys})) for _ in range(2))
    yield "merge by keys of 150 bytes", MERGE.format(target, source)
    for count in (3000, 6000):
        one, other = (bench.table(pa.table({"k": np.ones(count, np.int64)})) for _ in range(2))
        yield f"merge of {count:,} x {count:,} equal keys", MERGE.format(one, other)
    large = bench.table(pa.table({"k": np.arange(TARGET_ROWS), "v": texts(TARGET_ROWS, 8)}))
    for count in (1000, 3000, 10_000, 30_000):
        listed = ", ".join(str(-n) for n in range(1, count))
        yield (
            f"IN with {count:,} literals, 1 million rows",
            f"DELETE FROM {large} WHERE k IN ({listed})",
        )
    chain = " OR ".join(f"k = {-n}" for n in range(1, 3000))
    yield "OR of 3,000 comparisons, 1 million rows", f"DELETE FROM {large} WHERE {chain}"
    rows = ", ".join(f"({n}, 'v{n}')" for n in range(50_000))
    yield "VALUES with 100,000 values", f"INSERT INTO {large} VALUES {rows}"
    yield "1 million deletes in a table", f"DELETE FROM {bench.deleted(1_000_000)} WHERE k = -1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as name:
        folder = Path(name)
        with (
            FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            for what, text in statements(Bench(client)):
                (folder / "statement.sql").write_text(text)
                command = [sys.executable, "-c", RUN, metastore.uri, str(folder / "statement.sql")]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                megabytes, seconds, result = done.stdout.split()
                found[what] = (int(megabytes), round(float(seconds), 1), result)
                print(f"{what}: {megabytes} MB, {float(seconds):.1f} s, {result}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    wrong = [what for what, (megabytes, *_) in found.items() if megabytes > MOST_MEGABYTES]
    if wrong:
        raise SystemExit(f"More than {MOST_MEGABYTES} MB: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
