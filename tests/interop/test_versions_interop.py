"""History, time travel, changes and restore over tables that Hive, Trino and we write in turn.

Hive's rows after a write, with their row ids, remain the content of that version.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Any

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import VersionGone
from hiveacid.metastore.txn.owner import Snapshot
from tests.interop.checked import DAYS, NAMES, Checked, as_null, as_text, customer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

DAY = DAYS[0]
# A row's day, which its partition has the name of, and its row id.
Address = tuple[str, str, str, str]
Row = tuple[str, ...]
Rows = dict[Address, Row]


class Versions:
    """The rows of other engines in a table after each write, and the expected results of this
    package.

    Attributes:
        seen: The rows of each version, by its write id.
        times: The rows without newer versions.
        writers: The writer of each: "Hive", "Trino", or None for us.
        rolled_back: Those that were aborted.
    """

    def __init__(self, table: Checked) -> None:
        self.table = table
        self.seen: dict[int, Rows] = {0: {}}
        self.times: dict[int, datetime] = {}
        self.writers: dict[int, str | None] = {}
        self.rolled_back: set[int] = set()

    @property
    def newest(self) -> int:
        return max(self.seen)

    @property
    def trino_name(self) -> str:
        return f"hive.{self.table.name}"

    def write(self, by: str | None, work: Callable[[], Any]) -> Any:
        """Write with an engine, and record Hive's rows."""
        done = work()
        with self.table.client() as client:
            now = Snapshot.take(client, [self.table.ref]).write_ids[self.table.name]
        write_id = now.high_watermark
        assert write_id not in self.seen
        self.seen[write_id] = self.read_by_hive()
        self.times[write_id] = datetime.now(UTC)
        self.writers[write_id] = by
        return done

    def hive(self, statement: str) -> None:
        self.write(
            "Hive", lambda: self.table.hive.sql(statement.replace("T ", f"{self.table.name} "))
        )

    def trino(self, statement: str) -> None:
        self.write(
            "Trino", lambda: self.table.trino.sql(statement.replace("T ", f"{self.trino_name} "))
        )

    def ours(self, work: Callable[[Any], Any]) -> Any:
        with self.table.table() as table:
            return self.write(None, lambda: work(table))

    def read_by_hive(self) -> Rows:
        parts = "row__id.writeid, row__id.bucketid, row__id.rowid"
        answer = self.table.hive.sql(f"select {parts}, {', '.join(NAMES)} from {self.table.name}")
        rows = [(row[:3], tuple(map(as_null, row[3:]))) for row in answer]
        found = {(row[-1], *row_id): row for row_id, row in rows}
        assert len(found) == len(rows)
        return found

    def check_newest(self) -> None:
        """Hive and Trino read the rows of Hive at the last write."""
        assert self.read_by_hive() == self.seen[self.newest]
        self.check_trino(self.newest)

    def check_trino(self, version: int) -> None:
        read = self.table.select(self.table.trino, self.trino_name)
        assert read == sorted(self.seen[version].values())

    def check(self) -> None:
        """All versions have their rows, and so have the differences between them."""
        versions = sorted(self.seen)
        with self.table.table() as table:
            for version in versions:
                assert self._cat(version) == self.seen[version], version
            steps = [step for pair in pairwise(versions) for step in self._steps(*pair)]
            told = table.changes(versions[0], versions[-1])
            assert self._told(told, with_version=True) == sorted(steps)

    def check_pairs(self) -> None:
        """The changes between each two versions are their difference."""
        versions = sorted(self.seen)
        with self.table.table() as table:
            for version in versions:
                rows = table.to_df(as_of_write_id=version).select(NAMES).collect()
                assert texts(rows) == sorted(self.seen[version].values()), version
                different = [change for _, change, *_ in self._steps(version, self.newest)]
                counts = table.diff(version)
                assert sum(each.inserted for each in counts) == different.count("insert")
                assert sum(each.deleted for each in counts) == different.count("delete")
            for then, later in combinations(versions, 2):
                wanted = [step[1:] for step in self._steps(then, later)]
                told = table.changes(then, later, net=True)
                assert self._told(told) == sorted(wanted), (then, later)

    def check_times(self) -> None:
        """A request for a moment returns the version of that moment."""
        for version, time in self.times.items():
            rows = self.table.table().to_arrow(as_of_time=time, columns=NAMES).to_pylist()
            assert texts(row.values() for row in rows) == sorted(self.seen[version].values())

    def check_gone(self, *, oldest: int) -> None:
        """No version before one is shown, and the error lists the available ones."""
        with self.table.table() as table:
            assert (table.detail().oldest_version, table.detail().newest_version) == (
                oldest,
                self.newest,
            )
            for version in (own for own in self.seen if own < oldest):
                for ask in (
                    lambda version=version: table.to_df(as_of_write_id=version),
                    lambda version=version: table.to_arrow(as_of_write_id=version),
                    lambda version=version: table.changes(version),
                ):
                    with pytest.raises(VersionGone) as gone:
                        ask()
                    left = re.search(r"version is (\d+), the newest (\d+)", str(gone.value))
                    assert left
                    assert (int(left[1]), int(left[2])) == (oldest, self.newest)
        assert self.read_by_hive() == self.seen[self.newest]

    def check_history(self, counts: dict[int, tuple[int, int, int]], *, gone: int = 0) -> None:
        """Each write appears once, without figures for other engines.

        Args:
            counts: The figures of our own writes.
            gone: The last write whose only remaining directory is a compaction of Hive's.
        """
        with self.table.table() as table:
            entries = {
                entry.write_id: entry
                for entry in table.history(limit=1000, directories=True)
                if entry.write_id is not None
            }
        known = {own for own in self.writers if own > gone}
        # A cleaning removes the files of rollbacks.
        assert known - self.rolled_back <= set(entries) <= set(self.writers)
        for write_id in known & set(entries):
            entry = entries[write_id]
            told = (entry.rows_inserted, entry.rows_updated, entry.rows_deleted)
            assert told == counts.get(write_id, (None, None, None)), write_id
            engines = {each.engine for each in entry.directories}
            assert engines <= {self.writers[write_id]}, write_id
            assert (entry.operation is None) == (self.writers[write_id] is not None)
            assert (entry.state.value == "aborted") == (write_id in self.rolled_back)

    def _steps(self, then: int, later: int) -> list[tuple[Any, ...]]:
        """Return the rows that Hive read only later, and only earlier."""
        before, after = self.seen[then], self.seen[later]
        inserted = [(later, "insert", key, after[key]) for key in after.keys() - before.keys()]
        deleted = [(later, "delete", key, before[key]) for key in before.keys() - after.keys()]
        return inserted + deleted

    def _told(self, changes: Any, *, with_version: bool = False) -> list[tuple[Any, ...]]:
        told = []
        for row in changes.collect():
            values = as_text([row[name] for name in NAMES])
            step = row["_change_type"], (values[-1], *map(str, row["_row_id"])), values
            told.append((row["_write_id"], *step) if with_version else step)
        return sorted(told)

    def _cat(self, version: int) -> Rows:
        capture = self.table.capsys
        capture.readouterr()
        where = [self.table.name, "--metastore", self.table.uri, "--as-of", str(version)]
        assert main(["cat", *where, "--json", "--row-ids"]) == 0
        rows = [json.loads(line) for line in capture.readouterr().out.splitlines()]
        found = {}
        for row in rows:
            values = as_text([row[name] for name in NAMES])
            found[values[-1], *map(str, row["row_id"].values())] = values
        assert len(found) == len(rows)
        return found


def texts(rows: Any) -> list[Row]:
    return sorted(as_text(tuple(row)) for row in rows)


def test_versions_of_a_table_that_all_engines_write(create_table, eventually):
    table = create_table("unpartitioned")
    told = Versions(table)
    frame = table.frame
    counts = {}

    told.ours(lambda ours: ours.append(frame([*map(customer, range(30))])))
    counts[told.newest] = 30, 0, 0
    told.hive(
        "insert into T select id + 300, concat('h', id), amount, since, day "
        f"from {table.name} where id < 9"
    )
    told.trino(
        "merge into T t using (values (1, 4.00), (2, 4.00), (5, 4.00), (303, 4.00), (700, 4.00)) "
        "s(id, amount) on t.id = s.id when matched and s.id < 3 then delete "
        "when matched then update set amount = s.amount when not matched then insert "
        f"values (s.id, 'trino', s.amount, date '2024-05-01', '{DAY}')"
    )
    merged = [customer(id_, 50) for id_ in (4, 5, 6, 700, 800)]
    done = told.ours(
        lambda ours: (
            ours.merge(frame(merged), "t.id = s.id")
            .when_matched_delete("s.id = 4")
            .when_matched_update({"amount": "s.amount"})
            .when_not_matched_insert_all()
            .execute()
        )
    )
    counts[told.newest] = done.rows_inserted, done.rows_updated, done.rows_deleted
    assert counts[told.newest] == (1, 3, 1)
    told.trino("delete from T where id in (7, 300, 700)")
    told.check_newest()
    told.write("Hive", lambda: table.hive.roll_back(f"update {table.name} set amount = 0"))
    told.rolled_back.add(told.newest)
    told.hive("update T set amount = amount + 1 where id % 4 = 0")
    told.hive("delete from T where id % 5 = 3")
    told.trino("delete from T where id in (9, 19)")
    told.trino("update T set amount = decimal '9.00' where id in (10, 14)")
    # Trino does not see Hive 4's deletes, and repeats them. Of several such rows Hive would show
    # others again that it has deleted together with them.
    told.hive("delete from T where id = 15")
    told.trino("delete from T where id = 15")
    told.check()
    told.check_times()
    told.check_history(counts)

    minor = told.newest
    table.compact_with_hive("minor")
    told.check_newest()
    told.check()

    def cleaned():
        table.hive.clean()
        return {state for _, _, state, _ in table.requests()} == {"succeeded"}

    eventually("Hive has cleaned after the minor compaction", cleaned)
    told.check()
    told.check_history(counts, gone=minor)

    done = told.ours(lambda ours: ours.restore(3))
    counts[told.newest] = done.rows_inserted, 0, done.rows_deleted
    assert sorted(told.seen[told.newest].values()) == sorted(told.seen[3].values())
    told.check_newest()
    told.trino("delete from T where id = 10")
    done = told.ours(lambda ours: ours.delete("id = 11"))
    counts[told.newest] = 0, 0, 1
    told.check_newest()
    assert {each.outcome for each in table.compact("major").partitions} == {"compacted"}
    told.check_newest()
    told.check()
    told.check_pairs()

    told.hive("update T set amount = 1 where id < 20")
    done = told.ours(lambda ours: ours.restore(3))
    counts[told.newest] = done.rows_inserted, 0, done.rows_deleted
    assert sorted(told.seen[told.newest].values()) == sorted(told.seen[3].values())
    told.check()

    table.clean()
    table.compact_with_hive("major")
    told.check_newest()
    told.check_gone(oldest=told.newest)


def test_rows_deleted_by_two_engines_are_deleted_once(create_table):
    table = create_table("unpartitioned")
    told = Versions(table)
    told.ours(lambda ours: ours.append(table.frame([*map(customer, range(20))])))
    told.hive("delete from T where id % 5 = 3")
    # Trino does not find the deletes of Hive 4, and deletes some of the rows once more.
    table.trino.sql(f"delete from {told.trino_name} where id in (3, 13)")
    # Of two files that begin with the same row Hive forgets the rest of one.
    back = {row[0] for row in told.read_by_hive().values()} - {
        row[0] for row in told.seen[2].values()
    }
    assert back == {"8", "18"}

    told.seen[3] = told.seen[2]
    told.check()
    told.check_pairs()
    assert {each.outcome for each in table.compact("minor").partitions} == {"compacted"}
    told.check_newest()
    told.check()
    told.check_pairs()
