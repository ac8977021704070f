"""The names, tokens and turns of consumers, and the identity of the tables that they read."""

from dataclasses import replace

import pytest

from hiveacid.rules.lag import consumer_token, last_final_version
from hiveacid.rules.names import LocatedTable, TableIdentity
from hiveacid.rules.write_ids import ValidWriteIdList

IDENTITY = TableIdentity(created=7, id=3)
TABLE = LocatedTable(name="a.t", location="file:/w/a.db/t", identity=IDENTITY)
WITHOUT_ID = replace(TABLE, identity=replace(IDENTITY, id=None))
LATER = replace(TABLE, identity=replace(IDENTITY, created=8))
OF_THE_SAME_SECOND = replace(TABLE, identity=replace(IDENTITY, id=4))


def test_a_creation_of_a_table_is_one_name_time_number_and_location():
    elsewhere = replace(TABLE, location="file:/w/a.db/u")
    others = [replace(TABLE, name="a.u"), LATER, OF_THE_SAME_SECOND, elsewhere]
    # A record from before an upgrade of the metastore has no number.
    same = [TABLE, WITHOUT_ID]
    assert all(TABLE.is_same_as(each) and each.is_same_as(TABLE) for each in same)
    assert not any(TABLE.is_same_as(each) or each.is_same_as(TABLE) for each in others)
    assert str(TABLE) == "a.t (id 3, created 1970-01-01 00:00:07 UTC, at file:/w/a.db/t)"


def test_each_creation_consumer_and_version_has_a_token_of_its_own():
    tokens = {
        consumer_token(table, consumer, after)
        for table in (TABLE, OF_THE_SAME_SECOND, LATER)
        for consumer in ("log", "mirror")
        for after in (0, 3)
    }
    assert len(tokens) == 12
    assert consumer_token(WITHOUT_ID, "log", 3) == "a.t@7/log/3"


@pytest.mark.parametrize(
    ("open_", "aborted", "last"),
    [((), (), 9), ((4,), (), 3), ((1,), (), 0), ((), (8, 9), 7), ((4,), (1, 2, 3), 0)],
)
def test_nothing_is_final_above_a_write_that_is_open(open_, aborted, last):
    assert last_final_version(ValidWriteIdList("d.t", 9, open=open_, aborted=aborted)) == last
