"""Writers that overlap under the policy strict: all cells of its matrix, without Spark.

The files of a writer are created manually, with a note like that of a job; the transactions, the
locks and the commits are those of the metastore.
"""

import random
from pathlib import Path

import pytest

from hiveacid.errors import AlreadyCompacting, LockTimeout, OverlapRefused
from hiveacid.rules.locks import WriteKind, succeeds
from hiveacid.rules.names import SIDECAR_FILE
from tests.contract.txn.overlapping_writers import (
    APPEND,
    CHANGE,
    COMPACTIONS,
    DAYS,
    MAJOR,
    ONE,
    TWO,
    Writer,
    meet_at_the_locks,
    remove,
    settle,
)
from tests.fakes.metastore import REAL_AND_FAKE
from tests.versions import NEWER, VERSIONS

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# The real ones take their time for each of a hundred cells.
FAKES_AND_REAL = pytest.mark.parametrize(
    "hms",
    [
        "fake 4.0.1",
        "fake 3.1.3",
        *[pytest.param(real, marks=pytest.mark.conflicts) for real in VERSIONS],
        *NEWER,
    ],
    indirect=True,
)
CELLS = [
    pytest.param(first, later, id=f"{first}_before_{later}")
    for first in WriteKind
    for later in WriteKind
]


@FAKES_AND_REAL
@pytest.mark.parametrize(
    "where",
    [
        pytest.param(ONE, id="the_same_partition"),
        pytest.param(TWO, id="another_partition", marks=pytest.mark.conflicts),
    ],
)
@pytest.mark.parametrize(("first", "later"), CELLS)
def test_a_cell(client, table, writer, first, later, where):
    job = writer(later, token="orders/nightly/merge/-1")
    other = writer(first, where)
    if where == ONE and meet_at_the_locks(first, later):
        other.run()
        if {first, later} <= COMPACTIONS:
            # Otherwise the request in the queue would refuse the next one, under any policy.
            settle(client, table)
        job.begin()
    else:
        job.begin()
        other.run()
    if where == TWO or succeeds(first, later):
        job.commit()
    else:
        with pytest.raises(OverlapRefused) as refused:
            job.commit()
        said = str(refused.value)
        assert f"({first} before {later})" in said
        assert "Airflow task load of DAG orders, run nightly" in said
        assert "Airflow task merge of DAG orders" in said
        assert f"in {ONE}" in said
        assert said.endswith("run the job again on the rows of the other one.")
    assert client.show_locks() == []


@REAL_AND_FAKE
def test_of_two_who_are_about_to_commit_one_waits_until_the_other_has(client, table, writer):
    one, two = writer(APPEND).begin(), writer(APPEND).begin()
    one.txn.commit_alone([table], 0)
    with pytest.raises(LockTimeout, match=r"EXCLUSIVE on .*#commits held since"):
        two.commit()
    assert two.txn.warnings == []
    three = writer(APPEND)
    one.commit()
    with pytest.raises(OverlapRefused):
        three.run()
    assert client.show_locks() == []


@REAL_AND_FAKE
def test_a_death_before_the_commit_blocks_no_writer(client, table, writer):
    dead = writer(APPEND).begin()
    dead.txn.commit_alone([table], 0)
    client.abort_txn(dead.txn.txn_id)
    writer(APPEND).run()
    dead.abort()


@FAKES
def test_transactions_open_at_the_start_count_after_their_commit(writer):
    other = writer(APPEND).begin()
    job = writer(CHANGE).begin()
    other.commit()
    with pytest.raises(OverlapRefused, match="append before change"):
        job.commit()


@FAKES
def test_concurrently_aborted_writes_do_not_count(writer):
    job = writer(CHANGE).begin()
    writer(APPEND).begin().abort()
    job.commit()


@FAKES
def test_the_rows_that_a_compaction_took_over_since_count_as_somebodys(client, table, writer):
    job = writer(APPEND)
    writer(CHANGE).run()
    writer(MAJOR).run()
    (partition,) = client.get_partitions(client.get_table(table), [ONE])
    for path in Path(partition.folder.removeprefix("file:")).glob("*delta_*"):
        remove(path)
    with pytest.raises(
        OverlapRefused, match=r"write id 3 in day=1, the writers of the rows in base_"
    ):
        job.run()


@FAKES
def test_a_compaction_of_visible_rows_is_no_change(client, table, writer):
    job = writer(APPEND)
    writer(MAJOR).run()
    job.run()


@FAKES
@pytest.mark.parametrize("note", ["", "[]", '{"operation": ["x"], "run_token": 1, "user": {}}'])
def test_a_note_that_makes_no_sense_changes_no_decision(client, table, writer, note):
    job = writer(APPEND).begin()
    writer(CHANGE).run()
    (partition,) = client.get_partitions(client.get_table(table), [ONE])
    for path in Path(partition.folder.removeprefix("file:")).glob(f"*delta_*/{SIDECAR_FILE}"):
        path.write_text(note)
    with pytest.raises(OverlapRefused, match="change before append"):
        job.commit()


@FAKES
@pytest.mark.parametrize(
    "seed", [0, 1, *[pytest.param(more, marks=pytest.mark.conflicts) for more in range(2, 6)]]
)
def test_random_writers_are_refused_exactly_where_the_matrix_says_so(client, table, writer, seed):
    """Jobs that begin, work and commit in any order, against a list of who committed when."""
    dice = random.Random(seed)
    now, committed = 0, []
    jobs: list[tuple[Writer, int]] = []
    for _ in range(60):
        now += 1
        step = dice.random()
        if step < 0.4 and len(jobs) < 4:
            kind = dice.choice(list(WriteKind))
            days = (
                [dice.choice(DAYS)]
                if kind in COMPACTIONS
                else dice.sample(DAYS, dice.choice([1, 2]))
            )
            jobs.append((writer(kind, *days), now))
            continue
        if not jobs:
            continue
        job, began = dice.choice(jobs)
        if not job.at_work:
            try:
                job.begin()
            except (LockTimeout, AlreadyCompacting):
                jobs.remove((job, began))
            continue
        jobs.remove((job, began))
        if step > 0.9:
            job.abort()
            continue
        if job.kind in COMPACTIONS and job.nothing_new():
            job.abort()
            continue
        refused = any(
            began < at and not succeeds(kind, job.kind) and {*days} & {*job.partitions}
            for kind, days, at in committed
        )
        try:
            job.commit()
        except OverlapRefused:
            assert refused, (job.kind, job.partitions, committed)
        else:
            assert not refused, (job.kind, job.partitions, committed)
            committed.append((job.kind, job.partitions, now))
            if job.kind in COMPACTIONS:
                settle(client, table)
    for job, _ in jobs:
        if job.at_work:
            job.abort()
    assert len(committed) > 3
