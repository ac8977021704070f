"""Write skew, provoked: two transactions that each read an object that the other one changes.

The cases that each policy allows; and the detection of an engine that allows more.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hiveacid.errors import HiveAcidError, LockTimeout, OverlapRefused, TransactionAborted
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.progress import Phase
from hiveacid.records.overlaps import Overlaps
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidTxnList
from hiveacid.writes.row_overlaps import RowOverlaps
from tests.faults.without_spark import without_spark
from tests.isolation.campaign import Campaign
from tests.isolation.checker import SERIALIZABILITY, Checker
from tests.isolation.cycles import RW
from tests.isolation.transactions import Append, Outcome, Txn
from tests.isolation.verdict import notes_in
from tests.isolation.with_spark import SparkClient
from tests.isolation.without_spark import PlainClient
from tests.isolation.work import JOURNAL, Work, reads_of
from tests.isolation.workers import Place
from tests.observers import At

ISOLATION = pytest.mark.isolation
REALLY = [pytest.param(version, marks=ISOLATION) for version in ("4.0.1", "3.1.3")]
# The changes of the first and of the second transaction; both read both.
TABLES = ("one/0", "two/0")
PARTITIONS = ("one/0", "one/1")
ROWS = ("alone/0", "alone/1")
SETS = ("alone/1000", "alone/1001")
TABLES_OF_ROWS = ("alone", JOURNAL)


@dataclass
class Overlapping:
    """Two transactions; the second one begins and ends during the first.

    Attributes:
        client: The metastore.
        place: The location of the tables.
        runner: Runs a transaction.
        history: The known facts on them.
        failed: Why transactions have failed.
    """

    client: MetastoreClient
    place: Place
    runner: Any
    history: list[Txn] = field(default_factory=list)
    failed: dict[str, type[HiveAcidError]] = field(default_factory=dict)

    def run(self, keys: tuple[str, str], policy: str, at: Phase) -> Checker:
        """Run both, and a later reader."""
        first, second = (
            Work(name, number, policy, keys, [Append(key, f"{name}.0")])
            for number, (name, key) in enumerate(zip("AB", keys, strict=True))
        )
        between = At(at, lambda: self.run_one(second))
        self.run_one(first, between)
        assert between.times == 0
        self.read("C", keys)
        return Checker(self.history)

    def read(self, name: str, keys: tuple[str, ...]) -> None:
        """Read as a new reader."""
        began = time.monotonic()
        rows = [{"k": k, "v": v} for k, v in self.runner.read(keys)]
        reads = tuple(reads_of(keys, rows))
        self.history.append(Txn(name, reads, (), Outcome.OK, began, time.monotonic()))

    def run_one(self, work: Work, *observers: At) -> None:
        """Run a transaction, and record its outcome."""
        began, outcome = time.monotonic(), Outcome.OK
        try:
            replace(self.runner, observers=observers).run(work)
        except HiveAcidError as error:
            self.failed[work.name] = type(error)
            outcome = Outcome.FAILED
        rows = notes_in(PlainClient(self.client, self.place.database), self.place).get(work.name)
        assert (rows is None) == (outcome is Outcome.FAILED)
        reads = tuple(reads_of(work.keys, rows[0])) if rows else ()
        ended = time.monotonic()
        self.history.append(Txn(work.name, reads, (*work.appends,), outcome, began, ended))


@pytest.fixture(params=["plain"])
def overlapping(
    request: pytest.FixtureRequest, client: MetastoreClient, database: str, tmp_path: Path
) -> Iterator[Overlapping]:
    place = Place(client.options, database, tmp_path, lists=2, clients=2)
    Campaign(client, place, Random(0)).begin()
    if request.param == "plain":
        with without_spark():
            yield Overlapping(client, place, PlainClient(client, database, lock_wait_seconds=0))
    else:
        spark = request.getfixturevalue("spark")
        runner = SparkClient(spark, client.options, database, lock_wait_seconds=0)
        yield Overlapping(client, place, runner)


def carriers(test: Callable[..., None]) -> Callable[..., None]:
    """Without Spark on the fake metastore; on the real ones with Spark."""
    pairs = [
        pytest.param("fake 4.0.1", "plain"),
        *[pytest.param(each, "spark", marks=ISOLATION) for each in ("4.0.1", "3.1.3")],
    ]
    return pytest.mark.parametrize(("hms", "overlapping"), pairs, indirect=True)(test)


@carriers
@pytest.mark.parametrize(
    ("keys", "policy"),
    [
        pytest.param(TABLES, "hive", id="tables-hive", marks=ISOLATION),
        pytest.param(TABLES, "strict", id="tables-strict", marks=ISOLATION),
        pytest.param(TABLES, "rows", id="tables-rows", marks=ISOLATION),
        pytest.param(PARTITIONS, "hive", id="partitions-hive"),
        pytest.param(PARTITIONS, "strict", id="partitions-strict"),
        pytest.param(PARTITIONS, "rows", id="partitions-rows", marks=ISOLATION),
        pytest.param(ROWS, "rows", id="rows_of_a_partition-rows"),
        pytest.param(SETS, "hive", id="inserts_into_a_partition-hive"),
        pytest.param(SETS, "rows", id="inserts_into_a_partition-rows", marks=ISOLATION),
    ],
)
def test_write_skew_is_possible_and_nothing_worse(overlapping, keys, policy):
    checker = overlapping.run(keys, policy, Phase.WRITE)
    assert overlapping.failed == {}
    assert checker.forbidden() == []
    (skew,) = checker.anomalies()
    assert skew.name == "G2-item"
    assert [edge.kind for edge in skew.cycle] == [RW, RW]
    assert {edge.source for edge in skew.cycle} == {"A", "B"}


@carriers
@pytest.mark.parametrize(
    ("keys", "policy", "at", "failed"),
    [
        pytest.param(SETS, "strict", Phase.WRITE, {"A": OverlapRefused}, id="strict_inserts"),
        pytest.param(ROWS, "strict", Phase.OPEN, {"A": OverlapRefused}, id="strict_changes"),
        # The second would wait, which it must not here.
        pytest.param(ROWS, "strict", Phase.WRITE, {"B": LockTimeout}, id="strict_changes_wait"),
        pytest.param(ROWS, "hive", Phase.WRITE, {"B": LockTimeout}, id="hive_changes_wait"),
        # It has seen the other one's change.
        pytest.param(ROWS, "hive", Phase.OPEN, {}, id="hive_changes_see_each_other"),
    ],
)
def test_within_a_partition_there_is_no_write_skew(overlapping, keys, policy, at, failed):
    checker = overlapping.run(keys, policy, at)
    assert overlapping.failed == failed
    assert checker.forbidden(SERIALIZABILITY) == []


@ISOLATION
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_an_engine_that_takes_its_snapshot_before_it_locks_is_found_out(overlapping, monkeypatch):
    take, refs = Snapshot.take, [TableRef(overlapping.place.database, t) for t in TABLES_OF_ROWS]
    early = take(overlapping.client, refs)

    def taken(client: MetastoreClient, tables: Any, txn_id: int = 0) -> Snapshot:
        # After the second one, the first reads its objects again.
        late = overlapping.history and {*refs} <= {*tables}
        return early if late else take(client, tables, txn_id)

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "take", taken)
        overlapping.run(("alone/0", "alone/0"), "hive", Phase.OPEN)
    overlapping.read("D", ("alone/0",))
    found = {anomaly.name for anomaly in Checker(overlapping.history).forbidden()}
    assert {"lost update", "G-single"} <= found


@ISOLATION
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_an_engine_that_reads_what_is_not_committed_is_found_out(overlapping, monkeypatch):
    def seen(high: int, open_txns: Any, aborted: bytes, txn_id: int = 0) -> ValidTxnList:
        return from_open_txns(high, [], b"", txn_id)

    from_open_txns = ValidTxnList.from_open_txns

    def look_and_fail() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ValidTxnList, "from_open_txns", seen)
            overlapping.read("R", TABLES)
        raise TransactionAborted("It is as if the connection was gone.")

    work = Work("A", 0, "hive", TABLES, [Append(key, f"A.{key}") for key in TABLES])
    overlapping.run_one(work, At(Phase.COMMIT, look_and_fail))
    assert {each.name for each in Checker(overlapping.history).forbidden()} == {"G1a"}


# The defect of the engine, its effect, and the name of the anomaly.
_BROKEN = {
    "rows are not compared": (RowOverlaps, "require_none", ("alone/0", "alone/0"), "rows"),
    "the matrix is not looked at": (Overlaps, "require_none_at_commit", SETS, "strict"),
}


@ISOLATION
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
@pytest.mark.parametrize("broken", _BROKEN)
def test_an_engine_that_does_not_compare_is_found_out(overlapping, monkeypatch, broken):
    owner, name, keys, policy = _BROKEN[broken]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lambda *_: None)
        checker = overlapping.run(keys, policy, Phase.WRITE)
    found = {anomaly.name for anomaly in checker.forbidden(SERIALIZABILITY)}
    assert found >= ({"lost update"} if policy == "rows" else {"G2-item"})
    assert ("lost update" in found) == (policy == "rows")
