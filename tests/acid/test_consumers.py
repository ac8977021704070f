"""The names, tokens and turns of consumers, and the identity of the tables that they read."""

from dataclasses import replace

import pytest

from airflow_hiveacid.acid.consumers import consumer_targets, consumer_token, last_final_version
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.acid.write_ids import ValidWriteIdList

TABLE = TableIdentity(table="a.t", created=7, location="file:/w/a.db/t", id=3)


def test_a_creation_of_a_table_is_one_name_time_number_and_location():
    same = [TABLE, replace(TABLE, location="file:///w//a.db/t/"), replace(TABLE, id=None)]
    others = [
        replace(TABLE, table="a.u"),
        replace(TABLE, created=8),
        replace(TABLE, id=4),
        replace(TABLE, location="file:/w/a.db/u"),
    ]
    assert all(TABLE.is_same_as(each) and each.is_same_as(TABLE) for each in same)
    assert not any(TABLE.is_same_as(each) or each.is_same_as(TABLE) for each in others)
    assert str(TABLE) == "a.t (id 3, created 1970-01-01 00:00:07 UTC, at file:/w/a.db/t)"


def test_each_creation_consumer_and_version_has_a_token_of_its_own():
    tokens = {
        consumer_token(table, consumer, after)
        for table in (TABLE, replace(TABLE, id=4), replace(TABLE, created=8))
        for consumer in ("log", "mirror")
        for after in (0, 3)
    }
    assert len(tokens) == 12
    assert consumer_token(replace(TABLE, id=None), "log", 3) == "a.t@7/log/3"


def test_targets_are_the_same_however_they_are_spelled():
    assert consumer_targets(["B.t", "a.T", "b.t"]) == ("a.t", "b.t")
    assert consumer_targets(["file:///Lake//feed/"]) == ("file:/Lake/feed",)


@pytest.mark.parametrize(
    ("open_", "aborted", "last"),
    [((), (), 9), ((4,), (), 3), ((1,), (), 0), ((), (8, 9), 7), ((4,), (1, 2, 3), 0)],
)
def test_nothing_is_final_above_a_write_that_is_open(open_, aborted, last):
    assert last_final_version(ValidWriteIdList("d.t", 9, open=open_, aborted=aborted)) == last
