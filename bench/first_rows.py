"""Seconds until a command or a page shows its first row in a large installation.

    PYTHONPATH=. python bench/first_rows.py --json out.json
    PYTHONPATH=. python bench/first_rows.py --tables 500 --partitions 10000

By default 5,000 tables with 100,000 partitions: half of the partitions are those of one table, and
the others are distributed over a thousand tables. Each partition has a base and a delta. The
metastore is the one of the tests, in a process of its own, which answers as fast as the wire. The
seconds of a command include the start of Python.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scale import COLUMNS, DAY, PER_CALL, Write, _fill, _folder, metastore

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient

LARGE = TableRef("large", "facts")
OTHERS = 1000


def build(client: MetastoreClient, write: Write, tables: int, partitions: int) -> None:
    """Create the tables and their partitions, each with a base and a delta."""
    client.create_database(LARGE.database)
    client.create_database("many")
    others = min(OTHERS, tables - 1)
    _create(client, write, LARGE, partitions // 2)
    for number in range(tables - 1):
        per_table = partitions // 2 // others if number < others else 0
        _create(client, write, TableRef("many", f"t{number:05}"), per_table)


def _create(client: MetastoreClient, write: Write, ref: TableRef, partitions: int) -> None:
    keys = DAY if partitions else []
    client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys))
    table = client.get_table(ref)
    named = [HivePartition.new(table, [str(number)]) for number in range(partitions)]
    for start in range(0, len(named), PER_CALL):
        client.add_partitions(ref, named[start : start + PER_CALL])
    for folder in [_folder(table) / each.name for each in named] or [_folder(table)]:
        _fill(folder, Base(1).name, Delta(2, 2, 0).name)
    write(ref, 2, 0)


def first_row(uri: str, *words: str) -> dict[str, float]:
    """Return the seconds until the first row of a command, its first line of any kind, and its end.

    A row is a line of the standard output that names a table or a partition.
    """
    command = [sys.executable, "-m", "airflow_hiveacid.cli.main", *words, "--metastore", uri]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    seconds: dict[str, float] = {}
    assert process.stdout is not None
    for line in process.stdout:
        now = round(time.perf_counter() - began, 2)
        seconds.setdefault("first_line", now)
        if "many.t" in line or "large.facts" in line or "day=" in line:
            seconds.setdefault("first_row", now)
    process.wait()
    return seconds | {"end": round(time.perf_counter() - began, 2)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    measured: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, metastore("fake", Path(folder)) as (at, write):
        assert write is not None
        with MetastoreClient(at) as client:
            build(client, write, options.tables, options.partitions)
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
    if options.json:
        options.json.write_text(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
