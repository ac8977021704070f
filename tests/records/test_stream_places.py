"""The files with the position of a stream: a complete one exists at any moment."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import CorruptFile, PositionMismatch, StorageError, StreamOvertaken
from hiveacid.jobs import codec
from hiveacid.jobs.stream_job import StreamProgress
from hiveacid.records.proofs import NoteName
from hiveacid.records.stream_places import (
    StreamPlace,
    StreamPlaces,
    StreamState,
    digests_of_next_batches,
    stream_states,
)
from hiveacid.storage.folder import LocalStorage, Storage

FIRST = StreamPlace(name="s", query_id="q", batch_id=-1, number=0)
LAST = StreamProgress(name="s", query_id="q", batch_id=3, rows=7, latency=1.5)
STATE = StreamState(name="s", started_at=1.0, told_at=2.0, tables=("a.b",), last=LAST)


@pytest.fixture
def places(tmp_path: Path) -> StreamPlaces:
    return StreamPlaces(Storage.of(str(tmp_path)), "s")


def test_the_newest_place_counts_and_takes_that_of_the_others(
    places: StreamPlaces, tmp_path: Path
) -> None:
    assert places.read() is None
    with pytest.raises(PositionMismatch, match="has vanished"):
        places.required()
    places.write(FIRST)
    folder = tmp_path / "_hiveacid_streams" / "s"
    (folder / "_unfinished_1.json").write_text("{")
    for number in range(1, 12):
        places.write(replace(FIRST, batch_id=number, number=number))
    assert [path.name for path in folder.iterdir()] == ["11.json"]
    assert places.required() == replace(FIRST, batch_id=11, number=11)


@pytest.mark.parametrize("content", ["", "{}", " " * (2 << 20)], ids=len)
def test_an_unreadable_place_keeps_all_notes_on_batches(
    places: StreamPlaces, tmp_path: Path, content: str
) -> None:
    place = replace(FIRST, batch_id=4)
    places.write(place)
    notes = tmp_path / "_hiveacid_runs"
    notes.mkdir()
    names = [NoteName.of(token, 7) for token in (place.next_token, "another run")]
    for name in names:
        (notes / name.name).write_text("{}")
    storage = Storage.of(str(tmp_path))
    assert digests_of_next_batches(storage) == {names[0].digest}
    (tmp_path / "_hiveacid_streams" / "s" / "0.json").write_text(content)
    assert digests_of_next_batches(storage) == {name.digest for name in names}


def test_of_two_drivers_one_writes_a_place(places: StreamPlaces) -> None:
    places.write(FIRST)
    with pytest.raises(StreamOvertaken, match=r"s/0\.json"):
        places.write(replace(FIRST, query_id="another"))
    assert places.required() == FIRST


@pytest.mark.parametrize("places_ahead", [1, 2])
def test_a_driver_that_loses_the_race_for_a_place_is_overtaken(
    places: StreamPlaces, tmp_path: Path, places_ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other driver writes after this one has looked, and removes its unfinished file."""
    places.write(FIRST)
    another = StreamPlaces(Storage.of(str(tmp_path)), "s")
    link = os.link

    def overtaken(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        for number in range(1, places_ahead + 1):
            another.write(replace(FIRST, batch_id=number, number=number))
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    with pytest.raises(StreamOvertaken, match=r"s/1\.json"):
        places.write(replace(FIRST, number=1))
    assert places.required().batch_id == places_ahead


@pytest.mark.parametrize(
    ("owner", "moment"), [(LocalStorage, "exists"), (LocalStorage, "create"), (os, "link")]
)
def test_a_place_is_not_written_into_a_table_that_was_created_again(
    places: StreamPlaces,
    tmp_path: Path,
    owner: object,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder of the table is replaced at any moment of the write."""
    places.write(FIRST)
    original = getattr(owner, moment)

    def replaced(*arguments: object) -> object:
        monkeypatch.setattr(owner, moment, original)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        return original(*arguments)

    monkeypatch.setattr(owner, moment, replaced)
    with pytest.raises(PositionMismatch, match="has vanished"):
        places.write(replace(FIRST, batch_id=0, number=1))
    assert places.read() is None


def test_a_place_that_cannot_be_written_is_an_error_of_the_storage(
    places: StreamPlaces, tmp_path: Path
) -> None:
    (tmp_path / "_hiveacid_streams").write_text("")
    with pytest.raises(StorageError):
        places.write(FIRST)


def test_a_place_that_cannot_be_read_is_no_new_stream(places: StreamPlaces, tmp_path: Path) -> None:
    places.write(FIRST)
    (tmp_path / "_hiveacid_streams" / "s" / "7.json").write_text('{"format": 1')
    with pytest.raises(CorruptFile, match=r"7\.json cannot be read as the place of a stream"):
        places.read()


def test_a_stream_is_asked_to_stop_until_the_next_one_begins(places: StreamPlaces) -> None:
    places.write(FIRST)
    places.ask_to_stop()
    places.write(replace(FIRST, number=1))
    assert places.is_asked_to_stop()
    places.begin()
    assert not places.is_asked_to_stop()


def test_the_state_of_a_stream_survives_its_positions_in_the_table(
    places: StreamPlaces, tmp_path: Path
) -> None:
    storage = Storage.of(str(tmp_path))
    assert (places.read_state(), stream_states(storage)) == (None, [])
    places.write_state(replace(STATE, told_at=1.5))
    places.write_state(STATE)
    places.write(FIRST)
    places.write(replace(FIRST, number=1))
    another = replace(STATE, name="another", ended="failed", error="UnknownColumn")
    StreamPlaces(storage, "another").write_state(another)
    assert places.read_state() == STATE
    assert stream_states(storage) == [another, STATE]


def test_invalid_states_of_streams_are_not_shown(places: StreamPlaces, tmp_path: Path) -> None:
    places.write_state(STATE)
    folder = tmp_path / "_hiveacid_streams"
    unfinished = folder / "_unfinished_1_s.json"
    unfinished.write_bytes(codec.to_bytes(replace(STATE, batches=9)))
    for number, content in enumerate(("", "[]", "[" * 100_000, '{"name": "x"}', '{"name": NaN}')):
        (folder / f"{number}.json").write_text(content)
    (folder / "large.json").write_bytes(codec.to_bytes(replace(STATE, name="x" * 2_000_000)))
    assert stream_states(Storage.of(str(tmp_path))) == [STATE]
    places.begin()
    assert not unfinished.exists()
    assert places.read_state() == STATE
