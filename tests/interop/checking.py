"""A golden table made once more, with us as the writer, the compactor or both."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid import AcidTable
from hiveacid.cli.main import main
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from tests.golden import GoldenSnapshot, GoldenTable
from tests.interop.engines import EngineError, Hive, Trino
from tests.interop.making import Making

_OURS = ("insert", "update", "delete", "merge", "truncate")
_NULL = ("NULL", "__HIVE_DEFAULT_PARTITION__")

Rows = list[list[str | None]]


class CheckedMaking(Making):
    """Repeat the steps of a golden table; each check must return the golden rows.

    Attributes:
        said_by_hive: Hive's rows at each check: "ok", "other rows" or the text of its error.
        said_by_trino: The same of Trino, where it is asked.
    """

    def __init__(
        self,
        make: Callable[[Making], None],
        name: str,
        hive: Hive,
        client: MetastoreClient,
        trino: Trino | None,
        spark: SparkSession,
        capsys: pytest.CaptureFixture[str],
        *,
        we_write: bool,
    ) -> None:
        super().__init__(name, "", hive, client)
        self._make = make
        self._expected: Iterator[GoldenSnapshot] = iter(GoldenTable.read(make.__name__).snapshots)
        self._trino = trino
        self._spark = spark
        self._capsys = capsys
        self._we_write = we_write
        self.said_by_hive: list[str] = []
        self.said_by_trino: list[str] = []

    def check(self) -> None:
        """Take all steps; each look of them compares."""
        self._make(self)
        assert next(self._expected, None) is None

    def run(self, *statements: str) -> None:
        for statement in statements:
            if self._is_ours(statement):
                for job in to_jobs(self._named(statement)):
                    run(self._spark, replace(job, metastore=self._options))
            else:
                super().run(statement)

    def compact(self, kind: str, partition: str = "") -> None:
        with self._table() as table:
            report = table.compact(kind, partitions=[partition] if partition else None)
        assert [each.outcome for each in report.partitions] == ["compacted"]

    def look(self) -> None:
        expected = sorted((row[1:] for row in next(self._expected).rows), key=str)
        described = self.client.get_table(self.ref)
        names = [each.name for each in [*described.columns, *described.partition_keys]]
        columns = ", ".join(names)
        with self._table() as table:
            ours = table.to_df().select(names).collect()
        assert _texts(ours) == expected
        if described.kind is TableKind.FULL_ACID:
            parts = "row__id.writeid, row__id.bucketid, row__id.rowid"
            rows = self.hive.sql(f"select {parts}, {columns} from {self.ref.full_name}")
            assert _texts(row[3:] for row in rows) == expected
            assert self._row_ids(names[0]) == _texts(row[:4] for row in rows)
        self.said_by_hive.append(self._ask(self.hive, self.ref.full_name, columns, expected))
        if self._trino:
            name = f"hive.{self.ref.full_name}"
            self.said_by_trino.append(self._ask(self._trino, name, columns, expected))

    @staticmethod
    def _ask(engine: Hive | Trino, table: str, columns: str, expected: Rows) -> str:
        """Select and count like a user, without row ids."""
        try:
            same = _texts(engine.sql(f"select {columns} from {table}")) == expected
            same &= engine.sql(f"select count(*) from {table}") == [(str(len(expected)),)]
        except EngineError as error:
            return str(error).partition("\n")[2]
        return "ok" if same else "other rows"

    def _is_ours(self, statement: str) -> bool:
        """Return whether this package writes it: not before the table is transactional."""
        return (
            self._we_write
            and statement.startswith(_OURS)
            and self.client.get_table(self.ref).kind is not TableKind.NOT_ACID
        )

    @property
    def _options(self) -> MetastoreOptions:
        return MetastoreOptions(uris=self.hive.metastore_uri)

    def _table(self) -> AcidTable:
        return AcidTable(
            self.ref.full_name, self.hive.metastore_uri, spark=self._spark, run_in="spark"
        )

    def _row_ids(self, name: str) -> Rows:
        """Return the output of `hiveacid cat` for every row: its id and a column."""
        self._capsys.readouterr()
        where = [self.ref.full_name, "--metastore", self.hive.metastore_uri]
        assert main(["cat", *where, "--json", "--row-ids"]) == 0
        rows = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        return _texts([*row["row_id"].values(), row[name]] for row in rows)


def _texts(rows: Iterable[Iterable[object]]) -> Rows:
    """Values as text, rows in order."""
    texts = (
        [None if value is None or value in _NULL else str(value) for value in row] for row in rows
    )
    return sorted(texts, key=str)
