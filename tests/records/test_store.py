"""The store of records, by a kind of its own."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hiveacid.errors import CorruptFile, NewerRecord, StorageError
from hiveacid.jobs import codec
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import (
    NUMBERED,
    Kind,
    RecordStore,
    SignedRecord,
    number_of,
    table_folders,
)
from hiveacid.rules.names import (
    CONSUMER_CURSORS,
    MIRROR_NOTES,
    RUN_NOTES,
    STAGED_CHANGES,
    STREAM_PLACES,
)
from hiveacid.storage.folder import Storage

KEY = SigningKey(b"a secret of thirty two characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(SignedRecord):
    record_kind = Kind(
        title="a sample",
        folder="_samples",
        files=rf"[a-z]+/{NUMBERED}",
        is_numbered=True,
        largest=1000,
        most=3,
        remedy="Take another one.",
    )

    owner: str
    value: int = 0

    def require_sound(self, place: str) -> None:
        if place.split("/")[-2] != self.owner:
            raise ValueError("a reason that nobody reads")


A = Sample(owner="a", value=7)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of(str(tmp_path))


@pytest.fixture
def store(storage: Storage) -> RecordStore[Sample]:
    return RecordStore(Sample, storage)


@pytest.fixture
def signing(storage: Storage) -> RecordStore[Sample]:
    return RecordStore(Sample, storage, KEY)


def test_a_record_is_written_once(store: RecordStore[Sample]) -> None:
    assert store.read("a/1.json") is None
    store.write("a/1.json", A)
    with pytest.raises(StorageError, match="exists already"):
        store.write("a/1.json", replace(A, value=8))
    assert store.read("a/1.json") == A
    store.write("a/1.json", replace(A, value=8), replaces=True)
    assert store.read("a/1.json") == replace(A, value=8)
    store.remove("a/1.json")
    assert store.read("a/1.json") is None


def damaged(text: str) -> dict[str, bytes]:
    return {
        "empty": b"",
        "half": text[: len(text) // 2].encode(),
        "no object": b"[]",
        "deep": b"[" * 900,
        "large": text.encode() + b" " * 1000,
        "no format": text.replace('"format": 1', '"format": "1"').encode(),
        "another type": text.replace("7", '"secret"').encode(),
        "another owner": text.replace('"a"', '"b"').encode(),
    }


@pytest.mark.parametrize("damage", damaged(""))
def test_a_damaged_or_foreign_record_is_an_error_without_its_text(
    store: RecordStore[Sample], storage: Storage, damage: str
) -> None:
    text = codec.to_bytes(A).decode()
    storage.write_file("_samples/a/1.json", damaged(text)[damage])
    with pytest.raises(CorruptFile) as raised:
        store.read("a/1.json")
    assert raised.value.what == f"{store.place('a/1.json')} cannot be read as a sample."
    assert raised.value.remedy == "Take another one."


def test_another_object_in_the_place_of_a_record_is_an_error(
    store: RecordStore[Sample], tmp_path: Path
) -> None:
    (tmp_path / "_samples" / "a" / "1.json").mkdir(parents=True)
    with pytest.raises(CorruptFile):
        store.read("a/1.json")


@pytest.mark.parametrize("part", [{"format": 2}, {"condition": "the moon is full"}])
def test_a_record_of_a_newer_version_is_refused(
    store: RecordStore[Sample], storage: Storage, part: dict[str, object]
) -> None:
    newer = codec.to_record(A) | part
    storage.write_file("_samples/a/1.json", json.dumps(newer).encode())
    with pytest.raises(NewerRecord, match=r"a/1\.json has the format"):
        store.read("a/1.json")


def test_a_signature_is_valid_in_one_place(
    store: RecordStore[Sample], signing: RecordStore[Sample], storage: Storage
) -> None:
    signing.write("a/1.json", A)
    read = signing.read("a/1.json")
    assert read == A
    assert read.signature is not None
    storage.copy("_samples/a/1.json", "_samples/a/2.json")
    store.write("a/3.json", A)
    for path in ("a/2.json", "a/3.json"):
        with pytest.raises(CorruptFile, match="with the signature of this installation"):
            signing.read(path)
        assert store.read(path) == A


def test_no_entry_hides_the_others(store: RecordStore[Sample], storage: Storage) -> None:
    storage.write_file("_samples/a/1.json", b"{")
    storage.write_file("_samples/b/1.json", b'{"format": 2}')
    store.write("c/1.json", replace(A, owner="c"))
    for foreign in ("a/0x.json", "a/01.json", "a/note.txt", "A/1.json", "a/b/1.json"):
        storage.write_file(f"_samples/{foreign}", b"{}")
    kinds = {path: type(entry) for path, entry in store.entries().items()}
    assert kinds == {"a/1.json": CorruptFile, "b/1.json": NewerRecord, "c/1.json": Sample}
    assert [*store.entries("a")] == ["a/1.json"]


def test_a_list_has_the_newest_records_up_to_a_number(store: RecordStore[Sample]) -> None:
    for owner in "edcba":
        for number in (9, 10):
            store.write(f"{owner}/{number}.json", replace(A, owner=owner))
    assert store.paths() == ["a/10.json", "b/10.json", "c/10.json"]
    assert store.newest("e") == (10, replace(A, owner="e"))
    assert store.newest("f") is None


def test_a_record_that_is_replaced_while_a_list_is_read_is_not_missing(
    store: RecordStore[Sample], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("a/1.json", A)
    original = storage.read_small

    def overtaken(path: str, limit: int) -> bytes | None:
        monkeypatch.setattr(storage, "read_small", original)
        assert store.succeed(2, replace(A, value=2), "a", follows=True)
        return original(path, limit)

    reads: list[Callable[[], object]] = [
        lambda: store.entries()["a/2.json"],
        lambda: store.newest("a"),
    ]
    for read, known in zip(reads, (replace(A, value=2), (2, replace(A, value=2))), strict=True):
        store.remove_folder("a")
        store.write("a/1.json", A)
        monkeypatch.setattr(storage, "read_small", overtaken)
        assert read() == known


def test_a_successor_removes_the_records_before_it(
    store: RecordStore[Sample], storage: Storage
) -> None:
    assert store.succeed(0, A, "a")
    storage.write_file("_samples/a/_unfinished_0123abcd_0.json", b"{")
    storage.write_file("_samples/a/_unfinished_0123abcd_7.json", b"{")
    assert store.succeed(1, A, "a", follows=True)
    names = [file.path for file in storage.list_files("_samples/a")]
    assert names == ["1.json", "_unfinished_0123abcd_7.json"]


def test_of_two_successors_one_is_written(store: RecordStore[Sample]) -> None:
    assert store.succeed(5, A, "a")
    for number in (4, 5):
        assert not store.succeed(number, replace(A, value=8), "a")
    assert store.newest("a") == (5, A)


def test_a_successor_needs_its_predecessor(store: RecordStore[Sample]) -> None:
    assert not store.succeed(1, A, "a", follows=True)
    assert store.paths() == []


def test_records_before_a_number_are_removed(store: RecordStore[Sample], storage: Storage) -> None:
    for number in (1, 2, 3):
        store.write(f"a/{number}.json", A)
    storage.write_file("_samples/a/_unfinished_0123abcd_2.json", b"{")
    storage.write_file("_samples/a/stop", b"")
    store.remove_before(3, "a")
    assert [file.path for file in storage.list_files("_samples/a")] == ["3.json", "stop"]


def test_the_number_of_a_path() -> None:
    assert [number_of(path) for path in ("12.json", "a/0.json", "a/begin.json")] == [12, 0, -1]


def test_kinds_declare_their_folders_in_tables() -> None:
    folders = {CONSUMER_CURSORS, MIRROR_NOTES, RUN_NOTES, STAGED_CHANGES, STREAM_PLACES}
    assert set(table_folders()) == folders
