"""Seconds until a command or the page shows its first figures in a large installation.

    PYTHONPATH=. python bench/first_rows.py --json out.json
    PYTHONPATH=. python bench/first_rows.py --largest 50000

By default 5,000 tables with 100,000 partitions: the largest table has 2,000 partitions, and the
others are distributed over a thousand tables. Each partition has a base and a delta. The metastore
is the one of the tests, in a process of its own, which answers as fast as the wire. The commands
print to a terminal; their seconds include the start of Python. Those of the page begin with the
first request to an Airflow that has measured nothing yet.
"""

import argparse
import io
import json
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
from pyarrow import orc
from scale import COLUMNS, DAY, PER_CALL, Write, _folder, metastore

from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.names import ACID_VERSION_FILE, Base, BucketFile, Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from tests.live.page_airflow import PageAirflow

LARGE = TableRef("large", "facts")
OTHERS = 1000


class Installation:
    """The tables of an installation, whose files hold one row each."""

    def __init__(self, client: MetastoreClient, write: Write, folder: Path) -> None:
        self._client = client
        self._write = write
        flat = folder / "flat.orc"
        orc.write_table(pa.table({"id": pa.array([1]), "v": pa.array([1], pa.int32())}), str(flat))
        self._contents = {}
        for write_id in (1, 2):
            sink = io.BytesIO()
            with flat.open("rb") as source:
                transplant([source], sink, write_id=write_id, bucket=encode_bucket(0))
            self._contents[write_id] = sink.getvalue()

    def build(self, tables: int, partitions: int, largest: int) -> None:
        """Create the tables and their partitions, each with a base and a delta."""
        self._client.create_database(LARGE.database)
        self._client.create_database("many")
        others = min(OTHERS, tables - 1)
        self._create(LARGE, largest)
        for number in range(tables - 1):
            per_table = (partitions - largest) // others if number < others else 0
            self._create(TableRef("many", f"t{number:05}"), per_table)

    def _create(self, ref: TableRef, partitions: int) -> None:
        keys = DAY if partitions else []
        self._client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys))
        table = self._client.get_table(ref)
        named = [HivePartition.new(table, [str(number)]) for number in range(partitions)]
        for start in range(0, len(named), PER_CALL):
            self._client.add_partitions(ref, named[start : start + PER_CALL])
        for folder in [_folder(table) / each.name for each in named] or [_folder(table)]:
            for write_id, name in ((1, Base(1).name), (2, Delta(2, 2, 0).name)):
                (folder / name).mkdir(parents=True)
                (folder / name / BucketFile(0).name).write_bytes(self._contents[write_id])
                (folder / name / ACID_VERSION_FILE).write_text("2")
        self._write(ref, 2, 0)


def first_row(uri: str, *words: str) -> dict[str, float]:
    """Return the seconds until a terminal shows the first table or partition, and until the end."""
    command = [sys.executable, "-m", "hiveacid.cli.main", *words, "--metastore", uri]
    ours, theirs = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    first, shown = None, b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # The other end of a terminal is closed.
            break
        # A message that a command prints at its start names its table, too.
        figures = shown.partition(b"...\r\n")[2] if b": measuring " in shown else shown
        if first is None and any(name in figures for name in (b"many.t", b"large.facts", b"day=")):
            first = time.perf_counter() - began
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    assert first is not None, shown.decode()
    return {"first_row": round(first, 2), "end": round(time.perf_counter() - began, 2)}


def page(uri: str, folder: Path, tables: int) -> dict[str, float]:
    """Return the seconds until the page lists the first tables, and all of them."""
    airflow = PageAirflow(folder, SimpleNamespace(uri=uri))
    try:
        airflow.start()
        airflow.token("jane")
        began, first = time.perf_counter(), None
        while True:
            status, answer = airflow.ask("api/tables")
            assert status == 200, answer
            if first is None and answer["rows"]:
                first = time.perf_counter() - began
            if answer["measured"] and answer["counts"]["all"] == tables:
                break
            time.sleep(0.1)
        assert first is not None
        return {"first_row": round(first, 2), "end": round(time.perf_counter() - began, 2)}
    finally:
        airflow.processes.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--largest", type=int, default=2000, help="partitions of the largest table")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    measured: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as home, metastore("fake", Path(home)) as (at, write):
        assert write is not None
        with MetastoreClient(at) as client:
            installation = Installation(client, write, Path(home))
            installation.build(options.tables, options.partitions, options.largest)
        for words in (
            ("tables",),
            ("tables", "many"),
            ("tables", LARGE.full_name),
            ("history", LARGE.full_name),
            ("history", "many.t00001"),
            ("plan", LARGE.full_name),
            ("plan", "many.t00001"),
        ):
            name = " ".join(words)
            measured[name] = first_row(at.uris, *words)
            print(name, measured[name], flush=True)
        measured["page"] = page(at.uris, Path(home) / "airflow", options.tables)
        print("page", measured["page"], flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
