"""A table that the tests of compaction write, compact and read."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.names import TableRef
from hiveacid.spark.compaction import compact_table
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import folder
from tests.observers import At

SCHEMA = "id int, v string, p string"
# The visible rows of the table of the fixture `busy`.
LEFT = [(1, "a", "x"), (3, "c", "y"), (4, "d", "y")]


def report_of_compaction(table: AcidTable, type_: str | None = None, **more: Any) -> CompactReport:
    """Compact a table; the report also describes the partitions that failed."""
    options = table._engines.options.options
    job = CompactJob(target=table.ref.full_name, type=type_, **more, **options)  # type: ignore[arg-type]
    return compact_table(lambda: table._spark, table._client, job, table._engines.observers)


class Case:
    """A table; its columns are those of SCHEMA."""

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        uri: str,
        name: str,
        run_in: Place = "auto",
    ) -> None:
        self.spark, self.client, self.uri, self.name = spark, client, uri, name
        self.run_in = run_in
        self.ref = TableRef.parse(name)

    def open(self, *observers: At, wait: float = 30) -> AcidTable:
        options = WriteOptions(lock_wait_seconds=wait)
        return AcidTable(
            self.name,
            self.uri,
            spark=self.spark,
            run_in="spark",
            options=options,
            observers=observers,
        )

    def frame(self, *rows: tuple[Any, ...]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), SCHEMA).coalesce(1)

    def append(self, *rows: tuple[Any, ...]) -> None:
        with self.open() as table:
            table.append(self.frame(*rows))

    def change(self, work: Callable[[AcidTable], Any]) -> None:
        with self.open() as table:
            work(table)

    def compact(self, type_: str | None = None, *observers: At, **more: Any) -> Any:
        with self.open(*observers) as table:
            return report_of_compaction(table, type_, **{"run_in": self.run_in, **more})

    def rows(self) -> list[tuple[Any, ...]]:
        with self.open() as table:
            return sorted(tuple(row) for row in table.to_df().collect())

    def directories(self) -> list[str]:
        root = folder(self.client.get_table(self.ref))
        kinds = ("base_", "delta_", "delete_delta_")
        return sorted(
            str(path.relative_to(root)) for path in root.rglob("*") if path.name.startswith(kinds)
        )

    def problems(self) -> list[str]:
        """Return the errors in the files of a compaction."""
        problems = []
        for path in sorted(folder(self.client.get_table(self.ref)).rglob("bucket_*")):
            kind = "delete" if path.parent.name.startswith("delete_") else "insert"
            with path.open("rb") as source:
                number = int(path.name.removeprefix("bucket_"))
                problems += verify_file(source, kind=kind, bucket=number)
        return problems
