"""A golden table made once more, with us as the writer, the compactor or both."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid import AcidTable
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.cli.main import main
from airflow_hiveacid.engine.run import run
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.sql.script import to_jobs
from tests.golden import GoldenSnapshot, GoldenTable
from tests.interop.engines import EngineError, Hive, Trino
from tests.interop.making import Making

_OURS = ("insert", "update", "delete", "merge", "truncate")
_NULL = ("NULL", "__HIVE_DEFAULT_PARTITION__")

Rows = list[list[str | None]]


class CheckedMaking(Making):
    """Follows the steps of a golden table; whoever looks must see the golden rows.

    Attributes:
        seen_by_trino: What Trino said at each look: "ok", "other rows" or the text of its error.
    """

    def __init__(
        self,
        make: Callable[[Making], None],
        name: str,
        hive: Hive,
        client: MetastoreClient,
        trino: Trino,
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
        self.seen_by_trino: list[str] = []

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
        assert _sorted([_text(value) for value in row] for row in ours) == expected
        assert _sorted(self._hive(columns)) == expected
        assert self.hive.sql(f"select count(*) from {self.ref.full_name}") == [
            (str(len(expected)),)
        ]
        if described.kind is TableKind.FULL_ACID:
            parts = "row__id.writeid, row__id.bucketid, row__id.rowid"
            assert self._row_ids(names) == _sorted(self._hive(f"{parts}, {columns}"))
        self.seen_by_trino.append(self._compare_trino(columns, expected))

    def _is_ours(self, statement: str) -> bool:
        """Whether we write it: not before the table is transactional."""
        return (
            self._we_write
            and statement.startswith(_OURS)
            and self.client.get_table(self.ref).kind is not TableKind.NOT_ACID
        )

    @property
    def _options(self) -> MetastoreOptions:
        return MetastoreOptions(uris=self.hive.metastore_uri)

    def _table(self) -> AcidTable:
        return AcidTable(self.ref.full_name, self.hive.metastore_uri, spark=self._spark)

    def _hive(self, columns: str) -> Rows:
        rows = self.hive.sql(f"select {columns} from {self.ref.full_name}")
        return [[_text(value) for value in row] for row in rows]

    def _row_ids(self, names: list[str]) -> Rows:
        """What `hiveacid cat` prints of every row, its id first."""
        self._capsys.readouterr()
        where = [self.ref.full_name, "--metastore", self.hive.metastore_uri]
        assert main(["cat", *where, "--json", "--row-ids"]) == 0
        rows = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        return _sorted(
            [_text(value) for value in [*row["row_id"].values(), *map(row.get, names)]]
            for row in rows
        )

    def _compare_trino(self, columns: str, expected: Rows) -> str:
        try:
            rows = self._trino.sql(f"select {columns} from hive.{self.ref.full_name}")
        except EngineError as error:
            return str(error).partition("\n")[2]
        same = _sorted([_text(value) for value in row] for row in rows) == expected
        return "ok" if same else "other rows"


def _text(value: object) -> str | None:
    return None if value is None or value in _NULL else str(value)


def _sorted(rows: Iterator[list[str | None]] | Rows) -> Rows:
    return sorted(rows, key=str)
