"""Duration of ANALYZE TABLE on many small files, compared with reading the same rows with Arrow.

    python bench/analyze.py --json out.json

A table of 10,000 files in 100 partitions, in a real metastore: every file has 1,000 rows of six columns.
Both run in one process, with everything in the page cache; the ratios are of medians. A second table has
as many files and a deletion in every tenth of them.
"""

import argparse
import io
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.tables.statistics import analyze

COLUMNS = {
    "id": "bigint",
    "amount": "decimal(12,2)",
    "day": "date",
    "price": "double",
    "name": "string",
    "open": "boolean",
}
PARTITIONS = 100
ROWS = 1_000
BUCKET = encode_bucket(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.files, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(files: int, rounds: int, folder: Path) -> dict[str, object]:
    with (
        EmbeddedMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        result: dict[str, object] = {"files": files, "rows": files * ROWS}
        for name, deletes in (("inserted", False), ("deleted", True)):
            ref = TableRef("bench", name)
            create(client, ref, files // PARTITIONS, deletes=deletes)
            scan = TableScan(ref.full_name, metastore.options)
            works: dict[str, Callable[[], object]] = {
                "analyze": lambda ref=ref: analyzed(client, ref),
                "rows_only": lambda ref=ref: analyzed(client, ref, rows_only=True),
                "scan": lambda scan=scan: sum(len(batch) for batch in scan.batches()),
            }
            seconds: dict[str, list[float]] = {work: [] for work in works}
            for _ in range(rounds):
                for work, run in works.items():
                    start = time.perf_counter()
                    run()
                    seconds[work].append(time.perf_counter() - start)
            medians = {work: statistics.median(each) for work, each in seconds.items()}
            result[name] = {
                "seconds": {work: round(each, 2) for work, each in medians.items()},
                "analyze_vs_scan": round(medians["analyze"] / medians["scan"], 3),
                "rows_only_vs_scan": round(medians["rows_only"] / medians["scan"], 3),
            }
        return result


def analyzed(client: MetastoreClient, ref: TableRef, **more: bool) -> None:
    report = analyze(client, AnalyzeJob(target=ref.full_name, **more))
    assert not report.warnings, report.warnings
    assert all(partition.accurate for partition in report.partitions)


def create(client: MetastoreClient, ref: TableRef, each: int, *, deletes: bool) -> None:
    if ref.database not in client.get_databases():
        client.create_database(ref.database)
    columns = [HiveColumn(*column) for column in COLUMNS.items()]
    client.create_table(HiveTable.new(ref, columns, partition_keys=[HiveColumn("p", "int")]))
    table = client.get_table(ref)
    partitions = [HivePartition.new(table, [str(number)]) for number in range(PARTITIONS)]
    client.add_partitions(ref, partitions)
    flat = flat_file()
    types = OrcTail.read(flat).types
    for write_id in range(1, each + 1):
        txn = client.open_txn("bench", "localhost", None)
        assert client.allocate_write_id(txn, ref) == write_id
        sink = io.BytesIO()
        transplant([flat], sink, write_id=write_id, bucket=BUCKET)
        for number in range(PARTITIONS):
            root = Path(table.folder.removeprefix("file:")) / f"p={number}"
            write(root / f"delta_{write_id:07d}_{write_id:07d}_0000", sink.getvalue())
            if deletes and write_id % 10 == 0:
                delete = io.BytesIO()
                key = (np.array([write_id - 1]), np.array([BUCKET]), np.array([7]))
                write_delete_file(delete, [Keys.deletes(*key, write_id=write_id)], row_types=types)
                write(root / f"delete_delta_{write_id:07d}_{write_id:07d}_0000", delete.getvalue())
        client.commit_txn(txn)


def flat_file() -> io.BytesIO:
    numbers = np.arange(ROWS)
    rows = pa.table(
        {
            "id": numbers,
            "amount": pa.array([Decimal(n) / 100 for n in range(ROWS)], pa.decimal128(12, 2)),
            "day": pa.array(numbers % 300, pa.int32()).cast(pa.date32()),
            "price": numbers / 7,
            "name": [f"name {n % 97}" for n in range(ROWS)],
            "open": numbers % 2 == 0,
        }
    )
    file = io.BytesIO()
    orc.write_table(rows, file, compression="zlib")
    file.seek(0)
    return file


def write(directory: Path, content: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / "bucket_00000").write_bytes(content)
    (directory / "_orc_acid_version").write_text("2")


if __name__ == "__main__":
    main()
