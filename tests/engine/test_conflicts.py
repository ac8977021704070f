"""Writers that overlap under the policy strict: all cells of its matrix, by jobs of Spark."""

import re

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import OverlapRefused
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.progress import Phase
from hiveacid.rules.locks import WriteKind, succeeds
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import create
from tests.engine.compaction_case import Case
from tests.observers import At

OVERWRITE, APPEND, CHANGE, MINOR, MAJOR = WriteKind
HERE, ELSEWHERE = "p=here", "p=there"
METASTORES = ["fake 4.0.1", "fake 3.1.3", "4.0.1", "3.1.3"]


class Overlap:
    """Two jobs on a table of two partitions."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rebalances = False

    def job(self, *observers: At, policy: str = "strict", token: str | None = None) -> AcidTable:
        options = WriteOptions(conflict_policy=policy, lock_wait_seconds=30, run_token=token)
        return AcidTable(
            self.case.name,
            self.case.uri,
            spark=self.case.spark,
            run_in="spark",
            options=options,
            observers=observers,
        )

    def run(self, table: AcidTable, kind: WriteKind, partition: str) -> object:
        value = partition.partition("=")[2]
        rows = self.case.spark.createDataFrame([(9, "new", value)], "id int, v string, p string")
        if kind is APPEND:
            return table.append(rows)
        if kind is OVERWRITE:
            return table.overwrite(rows)
        if kind is CHANGE:
            return table.update({"v": "'changed'"}, f"p = '{value}' AND id = 1")
        if kind is MAJOR and self.rebalances:
            report = table.compact("rebalance", partitions=[partition], order_by=["v", "id"])
        else:
            report = table.compact(kind.value, partitions=[partition])
        (outcome,) = report.partitions
        # Hive 3 has nothing to do where a minor compaction has left one delta.
        done = outcome.outcome == "compacted" or outcome.reason.endswith("is the only directory.")
        assert done, outcome
        return report

    def earlier(self, kind: WriteKind, partition: str, then: WriteKind) -> None:
        """Commit something, and leave enough deltas for a compaction that follows."""
        with self.job(policy="hive", token="orders/nightly/load/-1") as table:
            self.run(table, kind, partition)
        if {kind, then} <= {MINOR, MAJOR}:
            clean(self.case.client, CleanJob(target=self.case.name, retention="0"))
        # Without its token, or the second would be taken for the first.
        if kind in (OVERWRITE, MAJOR):
            for _ in range({MINOR: 2, MAJOR: 1}.get(then, 0)):
                with self.job(policy="hive") as table:
                    self.run(table, APPEND, partition)
        elif (kind, then) == (MINOR, MINOR):
            with self.job(policy="hive") as table:
                self.run(table, APPEND, partition)


@pytest.fixture
def overlap(spark, hms, client, database) -> Overlap:
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"})
    case = Case(spark, client, hms.uri, f"{database}.t")
    case.append((1, "a", "here"), (1, "b", "there"))
    if not client.features.hides_compactions:
        # This turns a minor compaction with delete events into a major one.
        case.append((2, "c", "here"), (2, "d", "there"))
    else:
        # The output of a minor compaction is still an input for a major one.
        case.change(lambda table: table.update({"v": "'c'"}, "id = 1"))
    return Overlap(case)


def check_cell(overlap: Overlap, first: WriteKind, later: WriteKind, partition: str) -> None:
    case = overlap.case
    # The later job has begun when the other one begins, and commits after it.
    between = At(Phase.OPEN, lambda: overlap.earlier(first, partition, later))
    with overlap.job(between, token="orders/nightly/merge/-1") as table:
        if partition == ELSEWHERE or succeeds(first, later):
            overlap.run(table, later, HERE)
        else:
            with pytest.raises(OverlapRefused) as refused:
                overlap.run(table, later, HERE)
            said = str(refused.value)
            assert f"{first} before {later}" in said
            assert "DAG orders" in said
            assert "task merge" in said
            assert HERE in said
            if first not in (MINOR, MAJOR):
                assert re.search(r"write id \d+ in p=here, .*task load of DAG orders", said)
    assert between.times == 0
    assert case.client.show_locks() == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_merge_is_refused_after_an_append(overlap):
    check_cell(overlap, APPEND, CHANGE, HERE)


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_a_compaction_is_refused_after_a_change(overlap):
    check_cell(overlap, CHANGE, MAJOR, HERE)


@pytest.mark.conflicts
@pytest.mark.parametrize("hms", METASTORES, indirect=True)
@pytest.mark.parametrize(
    "where", [HERE, ELSEWHERE], ids=["the_same_partition", "another_partition"]
)
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(first, later, id=f"{first}_before_{later}")
        for first in WriteKind
        for later in WriteKind
    ],
)
def test_a_cell(overlap, first, later, where):
    check_cell(overlap, first, later, where)


@pytest.mark.conflicts
@pytest.mark.parametrize("hms", ["fake 4.0.1", "4.0.1"], indirect=True)
@pytest.mark.parametrize(
    "where", [HERE, ELSEWHERE], ids=["the_same_partition", "another_partition"]
)
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(first, later, id=f"{first}_before_{later}".replace("major", "rebalance"))
        for first in WriteKind
        for later in WriteKind
        if MAJOR in (first, later)
    ],
)
def test_a_cell_with_a_rebalance(overlap, first, later, where):
    overlap.rebalances = True
    check_cell(overlap, first, later, where)
