"""The cursors of consumers as files."""

from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import CorruptFile
from hiveacid.jobs import codec
from hiveacid.records.consumers import Cursor
from hiveacid.records.store import RecordStore
from hiveacid.rules.names import CONSUMER_CURSORS, LocatedTable, TableIdentity
from hiveacid.storage.folder import Storage

TABLE = LocatedTable(name="a.t", location="file:/w/a.db/t", identity=TableIdentity(created=7))
AT = Cursor(consumer="log", table=TABLE, targets=("a.copy",), version=3)
BEGINS = replace(AT, version=5, begins=True)


@pytest.fixture
def store(tmp_path: Path) -> RecordStore[Cursor]:
    return RecordStore(Cursor, Storage.of(str(tmp_path)))


@pytest.mark.parametrize("cursor", [AT, BEGINS])
def test_a_cursor_is_read_as_it_was_written(store: RecordStore[Cursor], cursor: Cursor) -> None:
    store.write(cursor.path, cursor)
    assert store.read(cursor.path) == cursor


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"7",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        codec.to_bytes(AT)[:-2],
        codec.to_bytes(replace(AT, version=4)),
        codec.to_bytes(replace(AT, begins=True)),
        codec.to_bytes(replace(AT, consumer="other")),
        codec.to_bytes(AT).replace(b'"version": 3', b'"version": "x"'),
    ],
)
def test_another_content_than_that_of_the_path_is_no_cursor(
    store: RecordStore[Cursor], tmp_path: Path, content: bytes
) -> None:
    Storage.of(str(tmp_path)).write_file(f"{CONSUMER_CURSORS}/{AT.path}", content)
    with pytest.raises(CorruptFile, match=r"log/3\.json cannot be read as the cursor"):
        store.read(AT.path)


def test_each_version_has_a_file_of_its_own() -> None:
    assert AT.path == "log/3.json"
    assert BEGINS.path == "log/begin.json"


def test_a_cursor_never_goes_back() -> None:
    for known in (None, BEGINS, replace(AT, version=2)):
        assert AT.is_news_after(known)
    # The job has another beginning by now, and nothing was copied yet.
    assert replace(BEGINS, version=2).is_news_after(BEGINS)
    for known, other in ((AT, AT), (AT, replace(AT, version=2)), (AT, BEGINS), (BEGINS, BEGINS)):
        assert not other.is_news_after(known)
