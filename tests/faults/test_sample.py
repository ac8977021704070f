"""A few of the faults that `make faults` lets strike by the thousand."""

from random import Random

import pytest

from tests.faults.effects import Kind, Strike
from tests.faults.judge import judge_on_fake
from tests.faults.operations import OPERATIONS
from tests.faults.scenario import Scenario
from tests.versions import VERSIONS

SEEDS = range(24)
RECREATED = "its transactions expire and a table is created again"
# Scenarios that have failed once.
FAILED = [
    "3.1.3/two tables/read only/127/all is compacted, cleaned and forgotten/fail question/34",
    "4.0.1/two tables/full/145/a table is dropped and created again/kill/57",
    "3.1.3/export/pause/7/a table is dropped and created again",
    "3.1.3/script/limit/89/nothing/cut answer/52",
    "4.0.1/stream/kill/47/a copy of the checkpoint goes on",
    "4.0.1/minor compaction/pause/38/nothing/lose answer/31",
    "3.1.3/merge/lose questions/25/all is compacted, cleaned and forgotten/pause/54",
    "4.0.1/stream/pause/39/all is compacted, cleaned and forgotten/pause/79",
    "4.0.1/stream/pause reading/6/a copy of the checkpoint goes on",
    "4.0.1/insert-only restore/pause/58/all is compacted, cleaned and forgotten/pause/63",
    "4.0.1/script/pause/85/nothing",
    "4.0.1/export/pause reading/7/a table is dropped and created again/kill/5",
    "3.1.3/stream/pause/80/a table is dropped and created again/kill/3",
    "3.1.3/stream/pause/81/a table is dropped and created again/spoil answer/40",
    # Each violates one rule: alive after the last read, renumbered rows, one table for each cleaning.
    "4.0.1/restore of deltas/pause reading/4/its transactions expire and all is compacted and cleaned",
    pytest.param(
        "4.0.1/update of rows/pause/8/others rebalance",
        marks=pytest.mark.needs("CompactionRequest.orderByClause"),
    ),
    *(
        f"{version}/cleaning/pause and kill/{place}/{RECREATED}"
        for version, place in (("4.0.1", 145), ("4.0.1", 289), ("3.1.3", 145))
    ),
    "4.0.1/cleaning/pause/3/a table is dropped and created again",
    "4.0.1/stream/pause/11/a copy of the checkpoint goes on/hold question/1",
    "4.0.1/major compaction in the worker/pause after an answer/36/"
    "its transactions expire and all is compacted and cleaned",
    "4.0.1/drop partition/kill/6/others write",
    "3.1.3/drop partition/pause/5/others write",
    "4.0.1/drop partition/pause/5/its transactions expire and others write/pause/3",
    "4.0.1/script/pause/217/nothing",
    "4.0.1/insert-only restore/lose question of commit_txn/0/its transactions expire",
    "3.1.3/stream/pause/52/a copy of the checkpoint goes on",
    "3.1.3/cleaning/pause twice/721/its transactions expire and all is compacted and cleaned/pause/34",
    # An answer is as old as the pause after it: of a cleaner, of a writer that withdraws its rows, of
    # mirrors, and of statements that change definitions.
    "4.0.1/cleaning/pause after an answer/40/its transactions expire and a table is created again",
    *(
        f"4.0.1/insert/pause twice/{place}/its transactions expire and a table is created again"
        for place in (2000, 2005, 2009)
    ),
    "4.0.1/mirror/pause after an answer/47/another run mirrors the table/pause/14",
    "4.0.1/mirror/pause after an answer/10/its transactions expire and a table is created again",
    "4.0.1/add partitions/pause after an answer/11/its transactions expire and others add a column",
    "3.1.3/add partitions/pause after an answer/12/its transactions expire and others add a column",
    # A data file is lost before the commit that names it.
    "4.0.1/mirror/lose/15/nothing",
    # The locks of a killed attempt end with the next one, even if nothing is left to do.
    *(
        f"{version}/drop partition/lose questions/12/its transactions expire and others write/kill/15"
        for version in ("4.0.1", "3.1.3")
    ),
    # A conversion is refused late, so that the table keeps write ids.
    "4.0.1/conversion/pause/3/all is compacted, cleaned and forgotten/pause twice/65",
    "4.0.1/conversion/pause/3/all is compacted, cleaned and forgotten/pause/3",
    "4.0.1/conversion/pause/3/others write/kill/3",
    # A note that cannot be read is not absent.
    *(f"4.0.1/insert/kill/{place}/the notes of its run are damaged" for place in range(84, 89)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_fault_reports_are_true_a_retry_completes_and_no_file_is_left(
    seed, places, tmp_path
):
    judge_on_fake(places.draw(seed), tmp_path)


@pytest.mark.parametrize("scenario", FAILED)
def test_earlier_failures_are_fixed(scenario, tmp_path):
    judge_on_fake(Scenario.parse(scenario), tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [Kind.KILL, Kind.PAUSE])
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name.endswith("the worker")])
def test_a_compaction_in_the_worker_survives_a_fault_at_some_place(
    version, kind, operation, places, tmp_path
):
    random = Random(f"{version} {kind} {operation}")
    place = random.randrange(places.changes(version, operation))
    after = random.choice(OPERATIONS[operation].afters(version))
    judge_on_fake(Scenario(version, operation, Strike(kind, place), after), tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_places_in_every_operation(version, places):
    known = [name for name, each in OPERATIONS.items() if version in each.versions]
    counts = {operation: places.changes(version, operation) for operation in known}
    assert min(counts.values()) >= 4, counts
    assert sum(counts.values()) >= 600, counts
