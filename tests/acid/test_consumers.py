"""How far consumers of a table's changes are."""

import pytest

from airflow_hiveacid.acid.consumers import Cursor, last_final_version, registered
from airflow_hiveacid.acid.write_ids import ValidWriteIdList


@pytest.mark.parametrize("cursor", [Cursor(7, 1700000000), Cursor(0, 1, begins=True)])
def test_a_cursor_is_read_as_it_was_written(cursor):
    assert Cursor.parse(str(cursor), cursor.created) == cursor
    assert Cursor.parse(str(cursor), cursor.created + 1) is None


@pytest.mark.parametrize(
    "text",
    [None, 7, "", "7", "7@", "-1@5", "7@5 ", "7@5 begin", "7@5\n", "\u0667@5", "7" * 19 + "@5"],
)
def test_what_is_no_cursor_is_none(text):
    assert Cursor.parse(text, 5) is None


def test_a_cursor_never_goes_back_and_what_only_begins_takes_no_other_place():
    at, begins = Cursor(3, 1), Cursor(5, 1, begins=True)
    assert at.is_news_after(None)
    assert begins.is_news_after(None)
    assert at.is_news_after(begins)
    assert Cursor(4, 1).is_news_after(at)
    # The DAG says another beginning by now, and nothing was copied yet.
    assert Cursor(2, 1, begins=True).is_news_after(begins)
    for known, other in ((at, at), (at, Cursor(2, 1)), (at, begins), (begins, begins)):
        assert not other.is_news_after(known)


def test_the_cursors_of_a_table_are_among_its_properties():
    properties = {
        "hiveacid.consumer.log": "3@5",
        "hiveacid.consumer.new": "0@5 begins",
        "hiveacid.consumer.of-another-table": "9@4",
        "hiveacid.consumer.strange": "soon",
        "hiveacid.consumer.two\nlines": "3@5",
        "hiveacid.consumer_retention": "7 days",
        "hiveacid.retention": "7@5",
    }
    cursors = {"log": Cursor(3, 5), "new": Cursor(0, 5, begins=True)}
    assert registered(properties, 5) == cursors


@pytest.mark.parametrize(
    ("open_", "aborted", "last"),
    [((), (), 9), ((4,), (), 3), ((1,), (), 0), ((), (8, 9), 7), ((4,), (1, 2, 3), 0)],
)
def test_nothing_is_final_above_a_write_that_is_open(open_, aborted, last):
    assert last_final_version(ValidWriteIdList("d.t", 9, open=open_, aborted=aborted)) == last
