"""Every public reader, which sleeps once: at an answer of the metastore, or before or after a file call.

Meanwhile others act: its transaction expires, all is compacted and cleaned, or a table is created again.
It may return the rows of its snapshot, or raise an error; never fewer, older, or other rows. It runs in
this process: a pause is a call of the others from the middle of its work. The oracle is `outside.py`.
"""

import argparse
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow.compute as pc
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.cli.commands.tables import CAT
from hiveacid.erasure.keys import keys_of
from hiveacid.errors import HiveAcidError, TransactionAborted
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.stage_jobs import StageJob
from hiveacid.jobs.write_jobs import DeleteJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.thrift.transport import Connection
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.python.registered_tables import read_together, register_views
from hiveacid.spark.run import query_rows
from hiveacid.spark.sql_session import AcidSession
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage
from hiveacid.tables.scan.differences import count_differences
from hiveacid.tables.scan.queries import QueryConnection
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.writes.staged_rows import read_staged_rows
from tests.faults.operations import Tables
from tests.faults.outside import Outsider
from tests.faults.rows import Row
from tests.faults.run import silently
from tests.places import place_of

_MINUTES = 600
STRANGERS = [Row(90, "another writer", "b"), Row(91, "another writer", "c")]


class Others(StrEnum):
    """What others do while a reader sleeps."""

    ABORT = "its transaction expires"
    COMPACT = "its transaction expires, others write, and all is compacted and cleaned"
    RECREATE = "its transaction expires, and its tables are created again"
    REPLACE = "its tables are created again, by a client without locks"


@dataclass
class Sleeper:
    """Lets one reader of this process sleep at a place.

    Attributes:
        place: The number of the place, from 0; None only counts.
        act: The work of the others.
        places: The number of places so far.
        txn_ids: The transactions that the reader has opened.
        looked_again: Whether it has taken a snapshot since then.
    """

    place: int | None = None
    act: Callable[[], None] = lambda: None
    places: int = 0
    txn_ids: list[int] = field(default_factory=list)
    looked_again: bool = False
    _acting: bool = False
    _lock: Any = field(default_factory=threading.RLock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the places of the work in the body, and sleep at one of them."""
        with pytest.MonkeyPatch.context() as patch:
            invoke = Connection.invoke

            def watched(connection: Connection, call: Any, *arguments: Any, **how: Any) -> Any:
                answer = invoke(connection, call, *arguments, **how)
                if not self._is_own():
                    return answer
                if call.name == "open_txns":
                    self.txn_ids.append(answer)
                if call.name == "get_valid_write_ids":
                    self.looked_again = self.place is not None and self.places > self.place
                self._pass()
                return answer

            patch.setattr(Connection, "invoke", watched)
            for owner, names in {
                ReadOnlyStorage: ("_list", "open_input"),
                LocalStorage: ("open_input", "exists", "read_small"),
            }.items():
                for name in names:
                    patch.setattr(owner, name, self._watched(getattr(owner, name)))
            yield

    def sleep_here(self) -> None:
        """Count a place between two calls of the reader."""
        self._pass()

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **how: Any) -> Any:
            self._pass()
            answer = call(*arguments, **how)
            self._pass()
            return answer

        return watched

    def _is_own(self) -> bool:
        return not self._acting and not threading.current_thread().name.startswith("heartbeat")

    def _pass(self) -> None:
        if not self._is_own():
            return
        with self._lock:
            number, self.places = self.places, self.places + 1
            if number == self.place:
                self._acting = True
                try:
                    self.act()
                finally:
                    self._acting = False


@dataclass(frozen=True)
class Reader:
    """A public reader.

    Attributes:
        read: Reads the main table; returns something that is comparable.
        expected: Returns the same of the rows of a table.
        is_part: Whether it may return any part of the expected rows of this length.
        kind: The kind of the table.
        build: Does something before it is read.
    """

    read: Callable[["Scene"], Any]
    expected: Callable[[list[Row]], Any]
    is_part: int | None = None
    kind: TableKind = TableKind.FULL_ACID
    build: Callable[["Scene"], None] = lambda _: None

    def accepts(self, result: Any, rows: list[Row]) -> bool:
        """Return whether a result is that of some rows."""
        wanted = self.expected(rows)
        if self.is_part is None:
            return bool(result == wanted)
        return len(result) == min(self.is_part, len(wanted)) and {*result} <= {*wanted}


class Scene:
    """A table that is read, and the others.

    Attributes:
        tables: The tables.
        sleeper: Lets the reader sleep.
        spark: The session of readers with Spark.
        kept: Anything that a reader needs.
    """

    def __init__(
        self,
        client: MetastoreClient,
        tables: Tables,
        reader: Reader,
        *,
        spark: Any = None,
        let_age: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.tables = tables
        self.spark = spark
        self.kept: dict[str, Any] = {}
        self.sleeper = Sleeper()
        self._reader = reader
        with silently():
            self._build(tables.main)
            let_age()
            reader.build(self)

    @property
    def name(self) -> str:
        """The name of the main table."""
        return str(self.tables.main)

    @property
    def metastore(self) -> Any:
        """The options of the metastore."""
        return self.client.options

    def count(self) -> int:
        """Return the number of places of the reader, which returns the right rows without a pause."""
        with self.sleeper.watching():
            result = self._reader.read(self)
        rows = Outsider(self.client, self.tables.main).rows()
        assert self._reader.accepts(result, rows), result
        return self.sleeper.places

    def judge(self, place: int, others: Others) -> str | None:
        """Let the reader sleep at a place; return the description of wrong rows, if any."""
        before = Outsider(self.client, self.tables.main).rows()
        self.sleeper = Sleeper(place, lambda: self._let(others))
        try:
            with self.sleeper.watching():
                result = self._reader.read(self)
        except Exception as error:  # noqa: BLE001 - judged here
            return None if _is_explained(error) else f"{type(error).__name__}: {error}"
        allowed = [before]
        if self.sleeper.looked_again:
            allowed.append(Outsider(self.client, self.tables.main).rows())
        if any(self._reader.accepts(result, rows) for rows in allowed):
            return None
        return f"it returned {result} of {allowed}"

    def _build(self, ref: TableRef) -> None:
        self.tables.create(ref, self._reader.kind)
        self.tables.fill(ref, delete=self._reader.kind is TableKind.FULL_ACID)
        # A reader sleeps for minutes before a table is created again.
        later = time.time() + _MINUTES * self.tables.creations
        for path in place_of(self.client.get_table(ref).folder).rglob("*"):
            os.utime(path, (later, later))

    def _let(self, others: Others) -> None:
        with silently():
            if others is not Others.REPLACE:
                for txn_id in self.sleeper.txn_ids:
                    with suppress(TransactionAborted):
                        self.client.abort_txn(txn_id)
            if others is Others.COMPACT:
                main = self.name
                if self._reader.kind is TableKind.FULL_ACID:
                    self.tables.run(DeleteJob(target=main, where="id IN (3)"))
                insert = self.tables.insert(self.tables.main, STRANGERS)
                clean = CleanJob(target=main, retention="0")
                compact = CompactJob(target=main, type="major", parallel=1)
                for job in (insert, compact, clean, clean):
                    self.tables.run(job)
            if others in (Others.RECREATE, Others.REPLACE):
                self.client.drop_table(self.tables.main)
                self.tables.creations += 1
                self._build(self.tables.main)


def _is_explained(error: BaseException) -> bool:
    """Whether an error is one of this package, or of the engine that reads by it."""
    from duckdb import Error as DuckError
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return isinstance(error, HiveAcidError | DuckError | PySparkException | Py4JJavaError)


def _rows(table: Any) -> list[Row]:
    return sorted(Row(each["id"], each["v"], each["p"]) for each in table.to_pylist())


def _same(rows: list[Row]) -> list[Row]:
    return sorted(rows)


def _query(sql: str) -> Callable[[Scene], Any]:
    def read(scene: Scene) -> Any:
        cursor = QueryConnection(scene.metastore).cursor()
        cursor.execute(sql.format(scene.name))
        return sorted(cursor.fetchall())

    return read


def _scan(scene: Scene, **how: Any) -> TableScan:
    return TableScan(scene.name, scene.metastore, **how)


def _one_batch(scene: Scene) -> list[Row]:
    """Read until the first rows, and release the rest."""
    with _scan(scene).batches() as reader:
        return _rows(reader.read_next_batch())[:1]


def _polars(scene: Scene) -> list[Row]:
    import polars as pl

    frame = pl.scan_pyarrow_dataset(_scan(scene)).filter(pl.col("id") > 1).collect()
    return _rows(frame.to_arrow())


def _duck(scene: Scene) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as duck:
        duck.register("orders", _scan(scene))
        return sorted(duck.execute("SELECT id, v, p FROM orders LIMIT 2").fetchall())


def _cat(scene: Scene) -> list[Row]:
    parser = argparse.ArgumentParser()
    CAT.configure(parser)
    arguments = parser.parse_args([scene.name, "--metastore", scene.metastore.uris, "--json"])
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert CAT.run(arguments) == 0
    return sorted(Row(**json.loads(line)) for line in printed.getvalue().splitlines())


def _staged(scene: Scene) -> list[Row]:
    return _rows(read_staged_rows(scene.client, scene.tables.main, scene.kept["staged"]))


def _stage(scene: Scene) -> None:
    delete = DeleteJob(target=scene.name, where="id IN (1, 3)")
    with silently():
        report = scene.tables.run(StageJob(change=delete, run_token="a staging"))
    scene.kept["staged"] = report.staged


def _keys(scene: Scene) -> list[str]:
    """Read the keys of an erasure from a table with one column."""
    source = QuerySource("SELECT v FROM s", {"s": TableSource(scene.name)})
    return keys_of(scene.client, source, "reader of keys")


def _diff(scene: Scene) -> tuple[int, int]:
    """Count the inserted and the deleted rows since the first write."""
    with MetastoreClient(scene.metastore) as client:
        table = existing_table(client, scene.tables.main)
        with Transaction(client, reads=[table.ref]) as txn:
            versions = (AsOf(write_id=1), None)
            found = count_differences(client, txn, table, versions, lambda *_: 0)
    return sum(each.inserted for each in found), sum(each.deleted for each in found)


READERS: dict[str, Reader] = {
    "TableScan.to_arrow": Reader(lambda s: _rows(_scan(s).to_arrow()), _same),
    "TableScan.to_pandas": Reader(lambda s: len(_scan(s).to_pandas()), len),
    "TableScan.count_rows": Reader(lambda s: _scan(s).scanner().count_rows(), len),
    "TableScan of a filter": Reader(
        lambda s: _scan(s, filter=pc.field("id") > 3).scanner().count_rows(),
        lambda rows: sum(row.id > 3 for row in rows),
    ),
    "TableScan.head": Reader(lambda s: _rows(_scan(s).head(2)), _same, is_part=2),
    "TableScan.batches": Reader(_one_batch, _same, is_part=1),
    "an insert-only table": Reader(
        lambda s: _rows(_scan(s).to_arrow()), _same, kind=TableKind.INSERT_ONLY
    ),
    "polars": Reader(_polars, lambda rows: [row for row in sorted(rows) if row.id > 1]),
    "duckdb": Reader(_duck, lambda rows: [tuple(row) for row in rows], is_part=2),
    "QueryConnection": Reader(
        _query("SELECT id, v, p FROM {}"), lambda rows: sorted(map(tuple, rows))
    ),
    "hiveacid cat": Reader(_cat, _same),
    "an earlier version": Reader(
        lambda s: [row for row in _rows(_scan(s, as_of_write_id=1).to_arrow()) if row.id != 2],
        lambda rows: sorted(row for row in rows if row.id <= 4),
    ),
    "diff": Reader(
        _diff,
        lambda rows: (sum(row.id > 4 for row in rows), 4 - sum(row.id <= 4 for row in rows)),
    ),
    "staged rows": Reader(
        _staged, lambda rows: sorted(row for row in rows if row.id in (1, 3)), build=_stage
    ),
    "keys of an erasure": Reader(_keys, lambda rows: sorted({row.v for row in rows})),
}


def _collected(frame: Any) -> list[Row]:
    return sorted(Row(each["id"], each["v"], each["p"]) for each in frame.collect())


def _frame(scene: Scene) -> list[Row]:
    with AcidTable(scene.name, scene.metastore, spark=scene.spark, run_in="spark") as table:
        frame = table.to_df()
        scene.sleeper.sleep_here()
        return _collected(frame)


def _frame_without_end(scene: Scene) -> list[Row]:
    """Read a frame whose table is never closed, so that nothing verifies its end."""
    frame = AcidTable(scene.name, scene.metastore, spark=scene.spark, run_in="spark").to_df()
    scene.sleeper.sleep_here()
    return _collected(frame)


def _second_frame(scene: Scene) -> list[Row]:
    """Read a frame that shares the transaction of an earlier one."""
    table = AcidTable(scene.name, scene.metastore, spark=scene.spark, run_in="spark")
    first = table.to_df()
    rows = _collected(table.to_df("t.id > 0"))
    assert first is not None
    return rows


def _changes(scene: Scene) -> list[Row]:
    """Read the rows that were inserted and not deleted since the table was empty."""
    with AcidTable(scene.name, scene.metastore, spark=scene.spark, run_in="spark") as table:
        changes = table.changes(0, net=True)
        scene.sleeper.sleep_here()
        return _collected(changes)


def _sql(scene: Scene) -> list[Row]:
    with AcidSession(scene.spark, scene.metastore) as session:
        return _collected(session.sql(f"SELECT id, v, p FROM {scene.name}"))


def _registered(scene: Scene) -> list[Row]:
    with register_views(scene.metastore, {"read_by_a_sleeper": scene.name}, spark=scene.spark):
        scene.sleeper.sleep_here()
        return _collected(scene.spark.table("read_by_a_sleeper"))


def _together(scene: Scene) -> list[Row]:
    with read_together([scene.name], scene.metastore, spark=scene.spark) as frames:
        scene.sleeper.sleep_here()
        return _collected(frames[scene.name])


def _selected(scene: Scene) -> list[Row]:
    """Read the rows of `hiveacid sql`."""
    query = QuerySource("SELECT id, v, p FROM s", {"s": TableSource(scene.name)})
    return _rows(query_rows(scene.spark, scene.metastore, query, 100))


def _staged_frame(scene: Scene) -> list[Row]:
    with AcidTable(scene.name, scene.metastore, spark=scene.spark, run_in="spark") as table:
        return _rows(table.staged(scene.kept["staged"]))


SPARK_READERS: dict[str, Reader] = {
    "AcidTable.to_df": Reader(_frame, _same),
    "AcidTable.to_df without an end": Reader(_frame_without_end, _same),
    "AcidTable.to_df of an insert-only table": Reader(_frame, _same, kind=TableKind.INSERT_ONLY),
    "a second frame": Reader(_second_frame, _same),
    "AcidTable.changes": Reader(_changes, _same),
    "session.sql": Reader(_sql, _same),
    "register_views": Reader(_registered, _same),
    "read_together": Reader(_together, _same),
    "hiveacid sql": Reader(_selected, _same),
    "AcidTable.staged": Reader(
        _staged_frame, lambda rows: sorted(row for row in rows if row.id in (1, 3)), build=_stage
    ),
}
