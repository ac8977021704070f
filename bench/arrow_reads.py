"""Reads into Arrow without Spark, compared with pyiceberg and deltalake on the same rows.

    PYTHONPATH=. python bench/arrow_reads.py --rows 4000000 --rounds 3 --json build/arrow_reads.json

All tables have two files compressed with zstd, and the rows are in the order of the key. The peer
deltalake takes part where it is installed. Each read is made in turn, another one first in every
round, after one that warms up; the rows of all engines are compared.
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
from abc import ABC, abstractmethod
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from engines import KEY
from lineitem import TYPES, lineitem
from session import TASKS, seconds_of, session

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan

SOME = [KEY, "l_quantity", "l_shipdate"]


class Peer(ABC):
    """One reader of the rows."""

    @abstractmethod
    def read(self, columns: list[str] | None, key: int | None) -> pa.Table:
        """Read some columns of all rows, or of the row with a key."""


class HiveAcid(Peer):
    def __init__(self, name: str, uri: str) -> None:
        self._table = name, uri

    def read(self, columns: list[str] | None, key: int | None) -> pa.Table:
        condition = None if key is None else pc.field(KEY) == key
        return TableScan(*self._table, columns=columns, filter=condition).to_arrow()


class Iceberg(Peer):
    def __init__(self, rows: pa.Table, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        folder.mkdir()
        catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        catalog.create_namespace("d")
        self._table = catalog.create_table("d.t", rows.schema)
        for half in halves(rows):
            self._table.append(half)

    def read(self, columns: list[str] | None, key: int | None) -> pa.Table:
        chosen: Any = {} if key is None else {"row_filter": f"{KEY} = {key}"}
        return self._table.scan(selected_fields=tuple(columns or "*"), **chosen).to_arrow()


class Delta(Peer):
    def __init__(self, rows: pa.Table, folder: Path) -> None:
        import deltalake

        properties = deltalake.WriterProperties(compression="ZSTD")
        for half in halves(rows):
            deltalake.write_deltalake(
                folder, half, mode="append", writer_properties=properties, target_file_size=1 << 40
            )
        self._open = lambda: deltalake.DeltaTable(folder)

    def read(self, columns: list[str] | None, key: int | None) -> pa.Table:
        from deltalake import QueryBuilder

        names = ", ".join(columns) if columns else "*"
        where = "" if key is None else f" WHERE {KEY} = {key}"
        query = QueryBuilder().register("t", self._open())
        return pa.table(query.execute(f"SELECT {names} FROM t{where}").read_all())


def halves(rows: pa.Table) -> list[pa.Table]:
    half = len(rows) // 2
    return [rows.slice(0, half), rows.slice(half)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        EmbeddedMetastore(directory=Path(temporary) / "hms") as metastore,
    ):
        folder = Path(temporary)
        peers: dict[str, Peer] = {"hiveacid": acid_table(asked.rows, folder, metastore)}
        rows = peers["hiveacid"].read(None, None)
        peers["iceberg"] = Iceberg(rows, folder / "iceberg")
        if importlib.util.find_spec("deltalake"):
            peers["delta"] = Delta(rows, folder / "delta")
        del rows
        report(measure(peers, asked.rows, asked.rounds), asked.json)


def acid_table(count: int, folder: Path, metastore: EmbeddedMetastore) -> HiveAcid:
    spark = session(folder)
    ref = TableRef("default", "t")
    with MetastoreClient(metastore.options) as client:
        columns = [HiveColumn(*column) for column in TYPES.items()]
        client.create_table(HiveTable.new(ref, columns, parameters={"orc.compress": "ZSTD"}))
    with AcidTable(ref.full_name, metastore.uri, spark=spark, run_in="spark") as table:
        table.append(lineitem(spark, 0, count, TASKS))
    spark.stop()
    return HiveAcid(ref.full_name, metastore.uri)


def measure(peers: dict[str, Peer], count: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    works = {"all": (None, None), "some": (SOME, None), "one key": (None, count // 2 + 77)}
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = list(peers)
    for number in range(rounds + 1):
        for work, arguments in works.items():
            found = {}
            for name in names[number % len(names) :] + names[: number % len(names)]:
                rows: list[pa.Table] = []
                took = seconds_of(lambda: rows.append(peers[name].read(*arguments)))  # noqa: B023
                found[name] = fingerprint(rows[0])
                if number:
                    seconds[work][name].append(took)
            assert len(set(found.values())) == 1, (work, found)
    return seconds


def fingerprint(rows: pa.Table) -> tuple[Any, ...]:
    quantity = rows["l_quantity"].cast(pa.decimal128(38, 2))
    return len(rows), pc.sum(rows[KEY]).as_py(), pc.sum(quantity).as_py()


def report(seconds: dict[str, dict[str, list[float]]], path: Path | None) -> None:
    medians = {
        work: {name: round(statistics.median(each), 3) for name, each in of.items()}
        for work, of in seconds.items()
    }
    for work, of in medians.items():
        print(work, of)
    if path:
        path.write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
