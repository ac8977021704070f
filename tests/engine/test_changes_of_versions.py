"""The changes between two versions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import UnknownColumn, VersionGone, VersionUnknown
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.compaction_case import Case

WHOLE, PARTITIONED = None, {"p": "string"}
CASES = [("fake 4.0.1", WHOLE), ("fake 4.0.1", PARTITIONED), ("fake 3.1.3", WHOLE)]
ALL = pytest.mark.parametrize(
    ("hms", "keys"), CASES, ids=["4.0.1", "4.0.1 partitioned", "3.1.3"], indirect=["hms"]
)
ONE = pytest.mark.parametrize(("hms", "keys"), CASES[:1], ids=["4.0.1"], indirect=["hms"])

A, B, C, D, E = (1, "a", "x"), (2, "b", "x"), (3, "c", "y"), (2, "B", "x"), (4, "e", "y")
Change = tuple[Any, ...]


@pytest.fixture
def told(make: Callable[..., Case], keys: dict[str, str] | None) -> Case:
    """1: insert A, B; 2: insert C; 3: update B to D; 4: delete A; 5: insert E; 6: delete E."""
    case = make(keys=keys)
    case.append(A, B)
    case.append(C)
    case.change(lambda table: table.update({"v": "'B'"}, "id = 2"))
    case.change(lambda table: table.delete("id = 1"))
    case.append(E)
    case.change(lambda table: table.delete("id = 4"))
    return case


def changes(case: Case, *versions: Any, **options: Any) -> list[Change]:
    with case.open() as table:
        rows = [row.asDict(recursive=True) for row in table.changes(*versions, **options).collect()]
    return sorted(
        (row["_write_id"], row["_change_type"], row["id"], row["v"], row["p"]) for row in rows
    )


STEPS = [
    (1, "insert", *A),
    (1, "insert", *B),
    (2, "insert", *C),
    (3, "delete", *B),
    (3, "insert", *D),
    (4, "delete", *A),
    (5, "insert", *E),
    (6, "delete", *E),
]


def check_all(case: Case) -> None:
    for then, later in ((0, 6), (0, 1), (2, 3), (1, 5), (4, 4)):
        wanted = [change for change in STEPS if then < change[0] <= later]
        assert changes(case, then, later) == wanted, (then, later)


@pytest.mark.sampled(1)
@ALL
def test_every_step_is_reported(told: Case) -> None:
    check_all(told)
    assert changes(told, 2) == STEPS[3:]


@ONE
def test_only_the_net_difference_is_reported(told: Case) -> None:
    assert changes(told, 0, net=True) == [(2, "insert", *C), (3, "insert", *D)]
    assert changes(told, 1, net=True) == [
        (2, "insert", *C),
        (3, "delete", *B),
        (3, "insert", *D),
        (4, "delete", *A),
    ]
    assert changes(told, 4, net=True) == []


@ONE
def test_keys_identify_updates(told: Case) -> None:
    updated = [(3, "update_after", *D), (3, "update_before", *B)]
    assert changes(told, 2, 3, keys=["ID"]) == updated
    assert changes(told, 2, 3, keys=["id"], net=True) == updated
    assert changes(told, 3, 6, keys=["id"]) == STEPS[5:]
    with pytest.raises(UnknownColumn, match="no column nr"):
        changes(told, 2, 3, keys=["nr"])


@ONE
def test_compactions_change_nothing(told: Case) -> None:
    told.compact("minor")
    check_all(told)
    told.compact("major")
    told.append(A)
    told.compact("major")
    check_all(told)
    clean(told.client, CleanJob(target=told.name, metastore=told.client.options, retention="0"))
    with pytest.raises(VersionGone):
        changes(told, 5, 6)
    told.append(B)
    # The last compaction has ended at version 7.
    assert changes(told, "oldest") == [(8, "insert", *B)]


@pytest.mark.sampled(1)
@ALL
def test_an_overwrite_deletes_what_was_there(told: Case) -> None:
    told.change(lambda table: table.overwrite(told.frame(A, C)))
    steps = [(7, "delete", *D), (7, "delete", *C), (7, "insert", *A), (7, "insert", *C)]
    assert changes(told, 6, 7) == sorted(steps)
    told.append(B)
    told.compact("major")
    assert changes(told, 2) == [*STEPS[3:], *sorted(steps), (8, "insert", *B)]
    assert changes(told, 2, net=True) == sorted(
        [(3, "delete", *B), (4, "delete", *A), (7, "delete", *C), *steps[2:], (8, "insert", *B)]
    )


@ONE
def test_versions_are_named_in_their_order(told: Case) -> None:
    with pytest.raises(VersionUnknown, match="has had version 3 only after version 2"):
        changes(told, 3, 2)


@ONE
def test_row_ids_are_those_of_hive(told: Case) -> None:
    with told.open() as table:
        (row,) = table.changes(1, 2).collect()
    assert row["_row_id"].asDict() == {"writeid": 2, "bucketid": 536870912, "rowid": 0}


@ONE
def test_jobs_and_statements_read_changes(told: Case, make: Callable[..., Case]) -> None:
    copy, metastore = make("copy"), told.client.options
    source = ChangesSource(told.name, after="2", up_to="4")
    query = QuerySource("SELECT id, _change_type AS v, p FROM c", {"c": source})
    run(told.spark, InsertJob(target=copy.name, source=query, metastore=metastore))
    wanted = [(1, "delete", "x"), (2, "delete", "x"), (2, "insert", "x")]
    assert copy.rows() == wanted
    script = to_script(
        "INSERT OVERWRITE TABLE copy SELECT id, _change_type, p FROM TABLE_CHANGES('t', 2, 4)",
        told.ref.database,
    )
    run(told.spark, replace(script, metastore=metastore))
    assert copy.rows() == wanted
