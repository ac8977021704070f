"""The partitions that EXPLAIN excludes: never one that the engine would read."""

import pytest

from airflow_hiveacid.acid.merge import NotMatchedInsert
from airflow_hiveacid.jobs.sources import TableSource
from airflow_hiveacid.jobs.write_jobs import MergeJob
from airflow_hiveacid.sql.partition_conditions import named_partitions, possible_partitions
from airflow_hiveacid.sql.tied_partitions import ties_partitions

KEYS = {"day": "date", "n": "int", "s": "string"}
PARTITIONS = {
    "a": {"day": "2026-01-01", "n": "1", "s": "x"},
    "b": {"day": "2026-01-02", "n": "02", "s": "2"},
    "c": {"day": "2026-1-2", "n": None, "s": "02"},
}


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (None, "abc"),
        ("id = 7", "abc"),
        ("day = '2026-01-01'", "ac"),
        ("t.day = DATE '2026-01-01' AND id > 1", "ac"),
        ("(day = '2026-01-01') AND (id = 1 OR id = 2)", "ac"),
        ("(day = '2026-01-02' AND id > 1) AND n = 2", "b"),
        ("day = '2026-01-01' OR n = 2", "abc"),
        ("NOT day = '2026-01-01'", "abc"),
        ("day IN ('2026-01-02', '2026-01-03')", "bc"),
        ("day IN (SELECT day FROM u)", "abc"),
        ("DAY = '2026'", "abc"),
        ("2 = n", "b"),
        ("n = '2'", "b"),
        ("n = 2.0", "abc"),
        ("n = -2", "abc"),
        ("n = 1 + 1", "abc"),
        ("n = NULL", "abc"),
        ("s = 'x'", "a"),
        ("s = 2", "abc"),
        ("other.day = '2026-01-01'", "abc"),
        ("n <=> 2", "abc"),
        ("s = 2.0", "abc"),
        ("s = 'a' 'x'", "abc"),
        ("s = DATE '2026-01-01'", "abc"),
        ("s IN ('x', 2)", "abc"),
        ("n = DATE '2026-01-01'", "abc"),
        ("source.t.n = 1", "abc"),
        ("t.n.field = 1", "abc"),
        ("id >>> 2 = 1", "abc"),
        ("v = X 'F0' AND s = 'x'", "a"),
        ("id >>>> 2 = 1 AND s = 'x'", "abc"),
        ("(" * 50 + "n = 1" + ")" * 50, "abc"),
        (" AND ".join(["id > 1"] * 2000 + ["s = 'x'"]), "a"),
    ],
)
def test_only_what_cannot_be_is_ruled_out(condition: str | None, left: str) -> None:
    assert possible_partitions(condition, "t", KEYS, PARTITIONS) == list(left)


def test_a_column_without_a_table_may_be_of_the_source() -> None:
    for condition, left in (("n = 1", "abc"), ("t.n = 1", "a")):
        assert possible_partitions(condition, "t", KEYS, PARTITIONS, qualified=True) == list(left)


@pytest.mark.parametrize(
    ("on", "value", "ties"),
    [
        ("t.day = s.day", "s.day", True),
        ("t.day = s.day AND t.id >>> 2 = 1", "s.day", True),
        ("t.day = s.day AND t.v = X 'F0'", "s.day", True),
        ("t.day = s.day AND t.id >>>> 2 = 1", "s.day", None),
        ("t.day = s.day", "a >>>> 2", None),
        ("t.day = s.a.day", "s.a.day", None),
        ("t.a.day = s.day", "s.day", False),
        ("t.day = s.t.day", "s.day", False),
        ("t.day = s", "s", None),
    ],
)
def test_a_merge_ties_partitions_if_its_text_shows_it(
    on: str, value: str, ties: bool | None
) -> None:
    job = MergeJob(
        target="db.t",
        source=TableSource("db.s"),
        on=on,
        when=(NotMatchedInsert({"day": value}),),
        target_alias="t",
        source_alias="s",
    )
    assert ties_partitions(job, ["id"], {"day": "date"}, {"day": "date"}) is ties


def test_partitions_are_named_by_some_keys_or_all() -> None:
    assert named_partitions([{"N": "2"}, {"s": "x"}], KEYS, PARTITIONS) == ["a", "b"]
    assert named_partitions([{"n": None}], KEYS, PARTITIONS) == ["c"]
    assert named_partitions([{}], KEYS, PARTITIONS) == ["a", "b", "c"]
    assert named_partitions([], KEYS, PARTITIONS) == []
