"""A table, and all engines that must see the same rows of it."""

import io
import itertools
import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

from airflow_hiveacid import AcidTable
from hiveacid.cli.main import main
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.names import TableRef
from hiveacid.spark.compaction import compact_table
from hiveacid.upkeep.table_cleaning import clean

COLUMNS = [
    HiveColumn("id", "int"),
    HiveColumn("name", "string"),
    HiveColumn("amount", "decimal(12,2)"),
    HiveColumn("since", "date"),
]
DAY = HiveColumn("day", "string")
NAMES = [column.name for column in [*COLUMNS, DAY]]
SCHEMA = "id int, name string, amount decimal(12,2), since date, day string"
DAYS = ("2024-01-01", "a b/c=d:%", None)
# Hive does not touch the only row of this one.
OTHER_DAY = "é"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

SHAPES = {
    "unpartitioned": {"columns": [*COLUMNS, DAY]},
    "partitioned": {"columns": COLUMNS, "partition_keys": [DAY]},
    "bucketed": {"columns": [*COLUMNS, DAY], "bucket_columns": ["id"], "num_buckets": 3},
    "partitioned_bucketed": {
        "columns": COLUMNS,
        "partition_keys": [DAY],
        "bucket_columns": ["id", "name"],
        "num_buckets": 2,
    },
    # Hive 3 could not read it; Hive 4 and Trino have to.
    "zstd": {"columns": [*COLUMNS, DAY], "parameters": {"orc.compress": "ZSTD"}},
}


_NUMBERS = itertools.count(1)


class Checked:
    """A table, its expected rows, and all engines that must see exactly those."""

    def __init__(self, shape, spark, hive, trino, capsys):
        self.ref = TableRef("default", f"{shape}_{next(_NUMBERS)}")
        self.name = self.ref.full_name
        self.partitioned = "partition_keys" in SHAPES[shape]
        self.codec = Codec.ZSTD if shape == "zstd" else Codec.ZLIB
        self.rows = {}
        self.spark = spark
        self.uri = hive.metastore_uri
        self.hive = hive
        self.trino = trino
        self.capsys = capsys
        with self.client() as client:
            client.create_table(HiveTable.new(self.ref, **SHAPES[shape]))

    def client(self):
        return MetastoreClient(MetastoreOptions(uris=self.uri))

    def frame(self, rows):
        return self.spark.createDataFrame(rows, SCHEMA)

    def table(self):
        return AcidTable(self.name, self.uri, spark=self.spark, run_in="spark")

    def put(self, rows):
        """Expect these rows, too; those of the same id are replaced."""
        self.rows |= {row[0]: row for row in rows}

    def take(self, *ids):
        """Expect these rows no longer."""
        for id_ in ids:
            del self.rows[id_]

    def compact(self, kind, **more):
        with self.table() as table:
            return table.compact(kind, **more)

    def serve(self):
        """Serve the requests that wait in the queue."""
        with self.client() as client:
            job = CompactJob(target=self.name, mode="serve")
            return compact_table(lambda: self.spark, client, job)

    def clean(self):
        with self.client() as client:
            return clean(client, CleanJob(target=self.name, retention="0"))

    def compact_with_hive(self, kind):
        """Have Hive compact, too; it then trusts its statistics of a major compaction."""
        with self.client() as client:
            # Hive 4.0.1 loses all rows of a partition whose name is not ASCII.
            partitions = [name for name in client.get_partition_names(self.ref) if name.isascii()]
            for partition in partitions or [""]:
                self.hive.compact(self.name, kind, partition)
            # Nor does it manage to analyze one whose name has escapes.
            analyzed = [name for name in partitions if "%" not in name]
            table = client.get_table(self.ref)
            described = client.get_partitions(table, analyzed) or [table]
        assert all("COLUMN_STATS_ACCURATE" in each.parameters for each in described)

    def ask_for_rebalance(self, order_by, partition=""):
        """Ask in Hive for a rebalance of the table, or of one of its partitions."""
        compact = f"compact 'rebalance' order by {order_by}"
        self.hive.sql(f"alter table {self.name} {partition} {compact}")

    def directories(self):
        """The names of all ACID directories, in each partition's folder."""
        root = self._folder()
        kinds = ("base_", "delta_", "delete_delta_")
        found = [path for path in root.rglob("*_*") if path.name.startswith(kinds)]
        return {str(path.relative_to(root)) for path in found}

    def codecs(self):
        """Return the compressions of all files of rows and deletes, by any writer."""
        files = [path.read_bytes() for path in self._folder().rglob("bucket_*")]
        return {OrcTail.read(io.BytesIO(file)).compression.codec for file in files}

    def _folder(self):
        with self.client() as client:
            return Path(client.get_table(self.ref).folder.removeprefix("file:"))

    def requests(self):
        """Return the queue as Hive shows it: partition, kind, state and error of each request."""
        shown = self.hive.sql("show compactions")[1:]
        return [(row[3], row[4], row[5], row[12]) for row in shown if row[2] == self.ref.name]

    def expected(self):
        return sorted(map(as_text, self.rows.values()))

    def seen_by_us(self):
        with self.table() as table:
            return sorted(as_text(tuple(row)) for row in table.to_df().select(NAMES).collect())

    def select(self, engine, table):
        answer = engine.sql(f"select {', '.join(NAMES)} from {table}")
        return sorted(tuple(as_null(value) for value in row) for row in answer)

    def count(self, engine, table):
        return int(engine.sql(f"select count(*) from {table}")[0][0])

    def row_ids_seen_by_us(self):
        capture = self.capsys
        capture.readouterr()
        arguments = [self.name, "--metastore", self.uri, "--json", "--row-ids"]
        assert main(["cat", *arguments]) == 0
        rows = [json.loads(line) for line in capture.readouterr().out.splitlines()]
        return sorted(
            (*(str(part) for part in row["row_id"].values()), str(row["id"])) for row in rows
        )

    def row_ids_seen_by_hive(self):
        parts = "row__id.writeid, row__id.bucketid, row__id.rowid"
        return sorted(self.hive.sql(f"select {parts}, id from {self.name}"))

    def check_with_hive(self):
        assert self.seen_by_us() == self.expected()
        assert self.select(self.hive, self.name) == self.expected()
        assert self.count(self.hive, self.name) == len(self.rows)
        assert self.row_ids_seen_by_us() == self.row_ids_seen_by_hive()

    def check_with_trino(self):
        assert self.select(self.trino, f"hive.{self.name}") == self.expected()
        assert self.count(self.trino, f"hive.{self.name}") == len(self.rows)

    def check(self):
        self.check_with_hive()
        self.check_with_trino()
        # With buckets, both engines open the file of one bucket only to find a row.
        for id_ in sorted(self.rows)[:5]:
            where = f"id = {id_} and name = '{self.rows[id_][1]}'"
            for engine, table in ((self.hive, self.name), (self.trino, f"hive.{self.name}")):
                assert engine.sql(f"select id from {table} where {where}") == [(str(id_),)]


def as_null(value):
    return "NULL" if value == DEFAULT_PARTITION else value


def as_text(row):
    return tuple("NULL" if value is None else str(value) for value in row)


def customer(id_, amount=None):
    since = date(2024, 1, 1) + timedelta(days=id_)
    return id_, f"n{id_}", Decimal(amount or id_).quantize(Decimal("0.01")), since, DAYS[id_ % 3]
