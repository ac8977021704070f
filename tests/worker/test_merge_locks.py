"""A merge in the worker requests the locks that EXPLAIN names, and that Spark requests."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.cli.main import main
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from hiveacid.worker.run import change_rows
from tests.observers import At
from tests.worker.staging import BOTH, FAKE4

TABLES = """
    CREATE TABLE t (id int, v string) PARTITIONED BY (k int);
    CREATE TABLE u (id int, v string, k int);
    INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
    INSERT INTO u VALUES (2, 'B', 2), (7, 'D', 4);
"""
WIDE = "CREATE TABLE wide (id int, v string, k bigint); INSERT INTO wide SELECT * FROM u"
UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
OF_SOURCE = ["k=2", "k=4"]


class Tables:
    """Tables of a database, and the locks on one of them."""

    def __init__(self, client: MetastoreClient, database: str) -> None:
        self.client, self.database = client, database
        self._run(TABLES)

    def _run(self, script: str, *more: str) -> None:
        arguments = ["sql", script, "--database", self.database, "--run-in", "worker", *more]
        assert main([*arguments, "--metastore", self.client.options.uris]) == 0

    def explained(self, statement: str, printed: Callable[[], Any]) -> str:
        """Where EXPLAIN says that the statement locks the table."""
        printed()
        self._run(f"EXPLAIN {statement}", "--json")
        told = json.loads(printed().out.splitlines()[-1])
        return str(told["locks"][f"{self.database}.t"]).partition(" ")[2]

    def locked(self, statement: str, then: Callable[[], Any] = lambda: None) -> list[str | None]:
        """The parts of the table that are locked while the statement writes."""
        held: list[str | None] = []

        def look() -> None:
            locks = self.client.show_locks(TableRef(self.database, "t"))
            held[:] = sorted({lock.partition for lock in locks}, key=str)

        (job,) = to_jobs(statement, self.database)
        options = {"metastore": self.client.options, "run_in": "worker"}
        observers = [At(Phase.OPEN, then), At(Phase.WRITE, look, times=9)]
        change_rows(self.client, replace(job, **options), observers)
        return held


@pytest.fixture
def tables(client: MetastoreClient, database: str) -> Tables:
    return Tables(client, database)


@FAKE4
@pytest.mark.parametrize(
    ("source", "on", "clauses", "locked"),
    [
        ("u", "t.k = s.k AND t.id = s.id", UPSERT, OF_SOURCE),
        ("(SELECT id, v, k FROM u WHERE id > 1)", "s.k = t.k AND t.id = s.id", UPSERT, OF_SOURCE),
        ("u", "t.k = s.k", "WHEN MATCHED THEN DELETE", OF_SOURCE),
        ("u", "t.k = s.k AND t.id = s.id", "WHEN MATCHED THEN UPDATE SET v = s.v", OF_SOURCE),
        ("wide", "t.k = s.k AND t.id = s.id", UPSERT, OF_SOURCE),
        ("u", "t.k = CAST(s.k AS bigint)", "WHEN MATCHED THEN DELETE", OF_SOURCE),
        ("u", "t.id = s.id AND t.k = 2", "WHEN MATCHED THEN DELETE", ["k=2"]),
        ("u", "t.id = s.id", UPSERT, [None]),
        ("u", "t.k = s.k AND t.id = s.id", "WHEN MATCHED THEN UPDATE SET k = s.id", [None]),
        ("u", "t.k = s.k", "WHEN NOT MATCHED BY SOURCE THEN DELETE", [None]),
        ("u", "t.k = s.k", "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.id)", [None]),
    ],
)
def test_the_locks_are_those_of_the_explanation(
    tables: Tables, capsys: Any, source: str, on: str, clauses: str, locked: list[str | None]
) -> None:
    if source == "wide":
        tables._run(WIDE)
    statement = f"MERGE INTO t USING {source} s ON {on} {clauses}"
    explained = tables.explained(statement, capsys.readouterr)
    if "if its types allow it" not in explained:
        assert ("the partitions that the source has rows for" in explained) == (locked != [None])
        assert ("on the table" in explained) == (locked == [None])
    assert tables.locked(statement) == locked


@BOTH
def test_a_source_that_gets_other_partitions_before_the_lock_locks_the_table(
    tables: Tables,
) -> None:
    statement = f"MERGE INTO t USING u s ON t.k = s.k AND t.id = s.id {UPSERT}"
    held = tables.locked(statement, lambda: tables._run("INSERT INTO u VALUES (3, 'C', 3)"))
    assert held == [None]
