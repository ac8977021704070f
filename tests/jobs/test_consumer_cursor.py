"""The cursors of consumers as files."""

from dataclasses import replace

import pytest

from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.jobs.consumer_cursor import Cursor, CursorPath, newest_cursor

TABLE = TableIdentity(table="a.t", created=7, location="file:/w/a.db/t")
AT = Cursor(consumer="log", table=TABLE, targets=("a.copy",), version=3)
BEGINS = replace(AT, version=5, begins=True)


@pytest.mark.parametrize("cursor", [AT, BEGINS])
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor) -> None:
    assert Cursor.parse(cursor.path, cursor.to_bytes()) == cursor


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"7",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        AT.to_bytes()[:-2],
        replace(AT, version=4).to_bytes(),
        replace(AT, begins=True).to_bytes(),
        replace(AT, consumer="other").to_bytes(),
        AT.to_bytes().replace(b'"table": "a.t"', b'"name": "a.t"'),
    ],
)
def test_another_content_than_that_of_the_path_is_no_cursor(content: bytes) -> None:
    assert Cursor.parse(AT.path, content) is None


def test_each_version_and_each_owner_has_a_file_of_its_own() -> None:
    owners = [AT, replace(AT, targets=("a.d",)), replace(AT, table=replace(TABLE, created=8))]
    cursors = [replace(each, version=n) for each in owners for n in (3, 4)]
    cursors += [replace(each, begins=True) for each in owners]
    assert len({each.path for each in cursors}) == 9
    # That of a consumer that has copied nothing may be replaced.
    assert BEGINS.path == replace(BEGINS, version=0).path


def test_paths_of_cursors() -> None:
    folder, _, name = AT.path.rpartition("/")
    assert CursorPath.parse(AT.path) == CursorPath("log", 3, finished=True)
    assert CursorPath.parse(BEGINS.path) == CursorPath("log", None, finished=True)
    unfinished = f"{folder}/_unfinished_0123abcd_{name}"
    assert CursorPath.parse(unfinished) == CursorPath("log", 3, finished=False)
    for other in (name, f"{folder}/more/{name}", f"{AT.path}~", f"{folder}/3.json", ""):
        assert CursorPath.parse(other) is None


def test_a_cursor_never_goes_back() -> None:
    for known in (None, BEGINS, replace(AT, version=2)):
        assert AT.is_news_after(known)
    # The job says another beginning by now, and nothing was copied yet.
    assert replace(BEGINS, version=2).is_news_after(BEGINS)
    for known, other in ((AT, AT), (AT, replace(AT, version=2)), (AT, BEGINS), (BEGINS, BEGINS)):
        assert not other.is_news_after(known)
    assert newest_cursor([AT, BEGINS, replace(AT, version=11), replace(AT, version=2)]) == replace(
        AT, version=11
    )
    assert newest_cursor([]) is None
