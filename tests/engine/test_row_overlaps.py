"""Changes of one partition side by side, under the policy rows: those of different rows succeed."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import LockTimeout, OverlapRefused, TransactionAborted
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import SIDECAR_FILE, STAGING_PREFIX
from hiveacid.writes.statement import WriteOptions
from tests.contract.other_engines import OtherEngine
from tests.engine.acid_tables import create, everything, folder, problems_of_keys
from tests.engine.compaction_case import Case
from tests.observers import At

Change = Callable[[AcidTable], Any]
CONFLICTS = pytest.mark.conflicts
FAKES = pytest.mark.parametrize(
    "hms", ["fake 4.0.1", pytest.param("fake 3.1.3", marks=CONFLICTS)], indirect=True
)
ALL = pytest.mark.parametrize(
    "hms",
    [
        "fake 4.0.1",
        *[pytest.param(more, marks=CONFLICTS) for more in ("fake 3.1.3", "4.0.1", "3.1.3")],
    ],
    indirect=True,
)
OLD = [(number, "old", "x") for number in range(1, 7)]


class Beside:
    """A table of one partition, and jobs on it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        # Of other tests, which share the metastore.
        self._others = self._at_work()

    def job(self, *observers: At, policy: str = "rows", **options: Any) -> AcidTable:
        # No writer waits: a wait would be an error.
        known = WriteOptions(conflict_policy=policy, lock_wait_seconds=0, **options)
        return AcidTable(
            self.case.name,
            self.case.uri,
            spark=self.case.spark,
            run_in="spark",
            options=known,
            observers=observers,
        )

    def run(self, change: Change, *observers: At, **options: Any) -> Any:
        with self.job(*observers, **options) as table:
            return change(table)

    def overlapped(self, change: Change, *others: Change, policy: str = "rows", **more: Any) -> Any:
        """Make a change, while others are made from beginning to end."""

        def between() -> None:
            for other in others:
                self.run(other, policy=policy)

        at = At(Phase.WRITE, between)
        report = self.run(change, at, **more)
        assert at.times == 0
        return report

    def merge(self, *rows: tuple[Any, ...]) -> Change:
        source = self.case.frame(*[(*row, "x") for row in rows])
        return lambda table: (
            table.merge(source, "t.id = s.id")
            .when_matched_delete("s.v = 'gone'")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def check_sound(self) -> None:
        table = self.case.client.get_table(self.case.ref)
        assert problems_of_keys(table) == []
        assert self.case.problems() == []
        assert [path for path in everything(table) if STAGING_PREFIX in path] == []
        assert self._at_work() <= self._others
        assert self.case.client.show_locks() == []

    def _at_work(self) -> set[int]:
        txns = self.case.client.get_open_txns_info()
        return {txn.txn_id for txn in txns if txn.state is TxnState.OPEN}


def update(condition: str, value: str = "new") -> Change:
    return lambda table: table.update({"v": f"'{value}'"}, condition)


def delete(condition: str) -> Change:
    return lambda table: table.delete(condition)


def changed(*rows: tuple[int, str]) -> list[tuple[int, str, str]]:
    """The rows of OLD with others of the same number; an empty text is none."""
    known = {number: (number, value, p) for number, value, p in OLD}
    known |= {number: (number, value, "x") for number, value in rows}
    return sorted(row for row in known.values() if row[1])


@pytest.fixture
def beside(spark, hms, client, database) -> Beside:
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"})
    case = Case(spark, client, hms.uri, f"{database}.t")
    case.append(*OLD)
    return Beside(case)


@ALL
def test_merges_of_different_rows_and_new_keys_succeed_side_by_side(beside):
    report = beside.overlapped(
        beside.merge((1, "one"), (2, "gone"), (10, "ten")),
        beside.merge((3, "three"), (4, "gone"), (11, "eleven")),
        update("id = 5", "five"),
    )
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 1)
    assert beside.case.rows() == changed(
        (1, "one"), (2, ""), (10, "ten"), (3, "three"), (4, ""), (11, "eleven"), (5, "five")
    )
    beside.check_sound()


@ALL
@pytest.mark.parametrize(
    ("change", "other", "said"),
    [
        pytest.param(
            [(1, "one"), (2, "two")],
            [(2, "other"), (3, "three")],
            "1 of the rows that it changes",
            id="the_same_row",
            marks=CONFLICTS,
        ),
        pytest.param(
            [(1, "one"), (20, "new")],
            [(20, "other")],
            "a row that it would have met",
            id="the_same_new_key",
        ),
    ],
)
def test_of_merges_that_meet_the_first_to_commit_succeeds(beside, change, other, said):
    with pytest.raises(OverlapRefused, match=said) as refused:
        beside.overlapped(beside.merge(*change), beside.merge(*other))
    assert "Committed since it began: update, delete or merge (write id 2 in p=x" in str(
        refused.value
    )
    assert beside.case.rows() == changed(*other)
    beside.check_sound()
    beside.run(beside.merge(*change))
    assert beside.case.rows() == changed(*other, *change)


@FAKES
@pytest.mark.parametrize("key", [10, 11])
def test_rows_of_a_partition_that_had_none_are_compared(beside, key):
    """Neither a partition that is new nor one that is empty has anything that was read."""
    beside.run(delete("id > 0"), policy="hive")
    beside.run(lambda table: table.compact("major"), policy="hive")

    def between() -> None:
        rows = [(10, "theirs", "x"), (20, "theirs", "z")]
        beside.run(lambda table: table.append(beside.case.frame(*rows)), policy="hive")

    source = beside.case.frame((key, "mine", "x"), (key + 10, "mine", "z"))

    def merge(table: AcidTable) -> None:
        table.merge(source, "t.id = s.id").when_not_matched_insert_all().execute()

    if key == 10:
        with pytest.raises(OverlapRefused, match="a row that it would have met"):
            beside.run(merge, At(Phase.WRITE, between))
    else:
        beside.run(merge, At(Phase.WRITE, between))
    assert len(beside.case.rows()) == (2 if key == 10 else 4)


@CONFLICTS
@FAKES
def test_a_job_without_conflicts_writes_its_files_once(beside):
    write_id = beside.run(update("id = 1")).write_ids[beside.case.name]
    assert write_id == 2
    assert beside.case.rows() == changed((1, "new"))
    beside.check_sound()


@CONFLICTS
@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize(
    ("other", "mine", "refused"),
    [
        pytest.param("compact", (1,), False, id="a_compaction"),
        pytest.param("delete and compact", (1,), False, id="a_delete_that_was_compacted_away"),
        pytest.param("delete and compact", (1, 2), True, id="a_row_that_was_compacted_away"),
        pytest.param("overwrite", (1,), True, id="an_overwrite"),
        pytest.param("append", (1,), False, id="an_append"),
    ],
)
def test_possible_concurrent_operations(beside, other, mine, refused):
    others: list[Change] = []
    if "delete" in other:
        others.append(delete("id = 2"))
    if "compact" in other:
        others.append(lambda table: table.compact("major"))
    if other == "overwrite":
        others.append(lambda table: table.overwrite(beside.case.frame((1, "whole", "x"))))
    if other == "append":
        others.append(lambda table: table.append(beside.case.frame((9, "more", "x"))))
    change = update(f"id IN ({', '.join(map(str, mine))})")

    def between() -> None:
        for each in others:
            beside.run(each, policy="hive")

    # An overwrite waits for readers: it comes when the work is done, before that is committed.
    at = _Second(Phase.OPEN, between) if other == "overwrite" else At(Phase.WRITE, between)
    if refused:
        with pytest.raises(OverlapRefused):
            beside.run(change, at)
    else:
        beside.run(change, at)
        rows = {number for number, value, _ in beside.case.rows() if value == "new"}
        assert rows == {*mine}
    assert at.times == 0
    assert beside.case.client.show_locks() == []


@ALL
@pytest.mark.parametrize("proven", [True, False], ids=["with_a_note", "without_a_note"])
@pytest.mark.parametrize("mine", ["update", "merge"])
def test_only_a_note_proves_that_a_compaction_has_kept_row_ids(beside, mine, proven):
    """Other engines leave no note, and theirs may have been a rebalance or an overwrite."""
    beside.run(update("id = 3", "before"), policy="hive")

    def between() -> None:
        beside.run(lambda table: table.append(beside.case.frame((9, "more", "x"))), policy="hive")
        beside.run(lambda table: table.compact("major"), policy="hive")
        (note,) = folder(beside.case.client.get_table(beside.case.ref)).rglob(
            f"base_*/{SIDECAR_FILE}"
        )
        if not proven:
            note.unlink()

    change = update("id = 1") if mine == "update" else beside.merge((10, "new"))
    rows = [*changed((3, "before")), (9, "more", "x")]
    if proven:
        beside.run(change, At(Phase.WRITE, between))
        new = (1, "new", "x") if mine == "update" else (10, "new", "x")
        rows = sorted([new, *(row for row in rows if row[0] != new[0])])
    else:
        with pytest.raises(OverlapRefused, match=r"row ids that may have changed .* base_"):
            beside.run(change, At(Phase.WRITE, between))
    assert beside.case.rows() == rows


class _Second(At):
    """Does something when a phase is entered for the second time."""

    def __init__(self, phase: Phase, action: Callable[[], Any]) -> None:
        super().__init__(phase, action)
        self.before = 1

    def enter(self, phase: Phase) -> None:
        if phase is self.phase and self.before:
            self.before -= 1
        else:
            super().enter(phase)


@FAKES
def test_a_job_of_the_default_policy_neither_waits_nor_is_overlooked(beside):
    with pytest.raises(OverlapRefused):
        beside.overlapped(update("id = 1"), update("id = 1", "other"), policy="hive")
    assert beside.case.rows() == changed((1, "other"))
    beside.check_sound()


@CONFLICTS
@FAKES
def test_an_update_of_another_engine_is_waited_for(beside):
    """To the metastore the job is a change like any other, from its lock to its commit."""
    engines = []

    def begin() -> None:
        engines.append(OtherEngine(beside.case.client, beside.case.ref, Operation.UPDATE))

    with pytest.raises(LockTimeout, match=r"user hive"):
        beside.run(update("id = 1"), At(Phase.WRITE, begin))
    assert beside.case.rows() == OLD
    engines[0].commit()
    beside.check_sound()


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize(
    "phase",
    [
        *[pytest.param(each, marks=CONFLICTS) for each in (Phase.WRITE, Phase.REGISTER)],
        Phase.PUBLISH,
        pytest.param(Phase.COMMIT, marks=CONFLICTS),
    ],
)
def test_a_job_that_fails_leaves_nothing(beside, phase):
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        beside.run(update("id = 1"), At(phase, fail))
    assert beside.case.rows() == OLD
    assert len(beside.case.directories()) == 1
    beside.check_sound()


@FAKES
def test_a_job_whose_snapshot_was_not_kept_is_refused(beside):
    client = beside.case.client

    def expire() -> None:
        (reading,) = client.show_locks(beside.case.ref)
        client.abort_txn(reading.txn_id)

    with pytest.raises(TransactionAborted):
        beside.run(update("id = 1"), At(Phase.WRITE, expire))
    assert beside.case.rows() == OLD
    beside.check_sound()


@CONFLICTS
@ALL
@pytest.mark.parametrize("seed", range(5))
def test_random_changes_are_refused_exactly_where_they_share_rows(beside, seed):
    """A merge with up to three others beside it, again and again, against a model of the table."""
    dice = random.Random(seed)
    now = {number: (value, 0) for number, value, _ in OLD}
    refusals = 0
    for turn in range(1, 7):
        before = dict(now)
        others = []
        for number in range(dice.randrange(4)):
            rows = [(key, f"{turn}.{number}") for key in dice.sample(range(1, 16), 3)]
            gone = dice.choice(rows)[0]
            rows = [(key, "gone" if key == gone and key in now else value) for key, value in rows]
            others.append(beside.merge(*rows))
            apply(now, rows, (turn, number))
        mine = [(key, f"{turn}") for key in dice.sample(range(1, 16), 3)]
        shares = any(before.get(key) != now.get(key) for key, _ in mine)
        try:
            beside.overlapped(beside.merge(*mine), *others, policy=dice.choice(["rows", "hive"]))
        except OverlapRefused:
            assert shares, (before, now, mine)
            refusals += 1
        else:
            assert not shares, (before, now, mine)
            apply(now, mine, turn)
        assert beside.case.rows() == sorted((key, value, "x") for key, (value, _) in now.items())
    beside.check_sound()
    assert 0 < refusals < 6


def apply(rows: dict[int, tuple[str, object]], changes: list[tuple[int, str]], by: object) -> None:
    """Apply a merge to the model: values, and their writers."""
    for key, value in changes:
        if value == "gone":
            del rows[key]
        else:
            rows[key] = value, by


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_second_try_finds_the_first(beside):
    for already in (False, True):
        report = beside.run(update("v = 'old' AND id < 3"), run_token="d/r/t/-1")
        assert report.already_done is already
        assert report.rows_updated == 2
    beside.check_sound()
