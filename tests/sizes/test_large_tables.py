"""Large tables have the rows of DuckDB, by count and hash, after changes and compactions."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.spark.run import run
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.table_cleaning import clean
from tests.places import place_of
from tests.sizes.large_tables import (
    LargeTable,
    deletes,
    deltas,
    long_arrays,
    long_texts,
    partitions,
    wide,
)

SMALL = [deletes(12_000), deltas(60), partitions(8), wide(40), long_texts(10), long_arrays(30)]
LARGE = [
    deletes(12_000_000),
    deltas(3_000),
    partitions(2_000),
    wide(300),
    long_texts(100),
    long_arrays(2_000),
]


class Comparison:
    """A table of this package, and its model in DuckDB."""

    def __init__(
        self, table: LargeTable, spark: SparkSession, client: MetastoreClient, database: str
    ) -> None:
        self.table = table
        self._spark = spark
        self._client = client
        self._ref = TableRef(database, table.name)
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"{name} {type_}" for name, type_ in table.types.items())
        self._duckdb.execute(f"CREATE TABLE model ({columns})")
        hive = [HiveColumn(name, type_) for name, (type_, _) in table.columns.items()]
        end = len(hive) - table.keys
        made = HiveTable.new(self._ref, hive[:end], partition_keys=hive[end:])
        client.create_table(made)

    def close(self) -> None:
        """Forget the model."""
        self._duckdb.close()

    def append(self, folder: Path) -> None:
        """Append all rows, in deltas of the same number of rows."""
        size = self.table.rows // self.table.appends
        for number in range(self.table.appends):
            query = self.table.query(number * size, (number + 1) * size)
            self._duckdb.execute(f"INSERT INTO model {query}")
            if self.table.appends == 1:
                self._run(InsertJob(target="", source=self._parquet(query, folder / "rows")))
            else:
                self._append_quickly(query)

    def _append_quickly(self, query: str) -> None:
        """Append without Spark, which needs most of the time of a small append."""
        flat = io.BytesIO()
        orc.write_table(self._duckdb.sql(query).to_arrow_table(), flat)
        flat.seek(0)
        root = place_of(self._client.get_table(self._ref).folder)
        with Transaction(self._client, targets=[Target(self._ref, Operation.INSERT)]) as txn:
            write_id = txn.write_ids[self._ref.full_name]
            directory = root / Delta(write_id, write_id, 0).name
            directory.mkdir()
            with (directory / "bucket_00000").open("wb") as sink:
                transplant([flat], sink, write_id=write_id, bucket=encode_bucket(0))
            txn.commit()

    def delete(self) -> None:
        """Delete rows."""
        self._duckdb.execute(f"DELETE FROM model WHERE {self.table.deleted}")
        self._run(DeleteJob(target="", where=self.table.deleted))

    def merge(self, folder: Path) -> None:
        """Update rows, restore deleted ones, and insert new ones."""
        keys = ["id", *self.table.partition_keys]
        self._duckdb.execute(f"CREATE TABLE source AS {self.table.source}")
        assert self._duckdb.execute("SELECT count(*) FROM source").fetchall() != [(0,)]
        key = f"({', '.join(keys)})"
        self._duckdb.execute(f"DELETE FROM model WHERE {key} IN (SELECT {key} FROM source)")
        self._duckdb.execute("INSERT INTO model FROM source")
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        source = self._parquet("FROM source", folder / "source")
        when = (MatchedUpdate(), NotMatchedInsert())
        self._run(MergeJob(target="", source=source, on=on, when=when))

    def compact(self, kind: str) -> None:
        """Compact all partitions, and clean them: version 4 takes no other request before that."""
        report = self._run(CompactJob(target="", type=kind))
        assert report.error is None
        clean(
            self._client,
            CleanJob(target=self._ref.full_name, metastore=self._client.options, retention="0"),
        )
        root = place_of(self._client.get_table(self._ref).folder)
        # A minor compaction on version 3 may have made the base already.
        most = 0 if kind == "major" else 2
        for folder in [root, *root.glob("p=*")]:
            assert len([*folder.glob("*delta_*")]) <= most, report

    def check(self, folder: Path, moment: str) -> None:
        """Compare the rows that Spark and the scan without Spark read with those of the model."""
        expected = self._sum_of("model")
        assert expected[0] > 0
        scanned = TableScan(self._ref.full_name, self._client.options)
        self._duckdb.register("scanned", scanned)
        assert self._sum_of("scanned") == expected, f"{moment}: scan"
        self._duckdb.unregister("scanned")
        written = folder / moment
        with AcidTable(
            self._ref.full_name, self._client.options, spark=self._spark, run_in="spark"
        ) as table:
            table.to_df().write.parquet(str(written))
        assert self._sum_of(f"read_parquet('{written}/*.parquet')") == expected, f"{moment}: Spark"

    def _sum_of(self, rows: str) -> tuple[int, int]:
        """Return the count, and the sum of the hashes of all rows."""
        values = ", ".join(f"CAST({name} AS {type_})" for name, type_ in self.table.types.items())
        asked = f"SELECT count(*), sum(hash({values})::HUGEINT) FROM {rows}"
        (found,) = self._duckdb.execute(asked).fetchall()
        return found

    def _parquet(self, query: str, path: Path) -> PathSource:
        self._duckdb.execute(f"COPY ({query}) TO '{path}.parquet'")
        return PathSource(path=f"file:{path}.parquet", format="parquet")

    def _run(self, job: Job) -> Any:
        addressed: Any = replace(job, target=self._ref.full_name, metastore=self._client.options)
        return run(self._spark, addressed)


@pytest.fixture
def comparison(
    request: pytest.FixtureRequest, spark: SparkSession, client: MetastoreClient, database: str
) -> Iterator[Comparison]:
    compared = Comparison(request.param, spark, client, database)
    yield compared
    compared.close()


def check_changes(comparison: Comparison, folder: Path) -> None:
    comparison.append(folder)
    comparison.check(folder, "appended")
    comparison.delete()
    comparison.check(folder, "deleted")
    comparison.merge(folder)
    comparison.check(folder, "merged")
    comparison.compact("minor")
    comparison.check(folder, "after a minor compaction")
    comparison.compact("major")
    comparison.check(folder, "after a major compaction")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("comparison", SMALL, indirect=True, ids=lambda table: table.name)
def test_a_small_table_has_the_rows_of_duckdb(comparison: Comparison, tmp_path: Path) -> None:
    check_changes(comparison, tmp_path)


@pytest.mark.sizes
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("comparison", LARGE, indirect=True, ids=lambda table: table.name)
def test_a_large_table_has_the_rows_of_duckdb(comparison: Comparison, tmp_path: Path) -> None:
    check_changes(comparison, tmp_path)
