"""The assumptions of publishing, staging, notes and cleaning, on every supported file system.

A store is a fixture that gives the location of an empty folder; further stores are added as
fixtures.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest
from pyarrow import fs

from hiveacid.errors import StorageError
from hiveacid.rules.directory import FileStatus
from hiveacid.storage.folder import Storage

RENAMING = ["local_folder", pytest.param("hdfs_folder", marks=pytest.mark.hdfs)]
# There, a directory is nothing but a common beginning of names.
OBJECT_STORES = [
    pytest.param("s3_folder", marks=pytest.mark.s3),
    pytest.param("gcs_folder", marks=pytest.mark.gcs),
]
RACERS = 8
STRANGE = "d=a%2Fb c/p=#1?é&x=%20+;*[y]{z}'\"\\,~ $"


@pytest.fixture
def local_folder(tmp_path: Path) -> str:
    return tmp_path.as_uri()


@pytest.fixture(params=[*RENAMING, *OBJECT_STORES, "by_arrow"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "by_arrow":
        # The only method for all file systems at once; it does not distinguish two clients that
        # create a file.
        return Storage(tmp_path.as_uri(), fs.LocalFileSystem(), str(tmp_path))
    return Storage.of(request.getfixturevalue(request.param))


def write(storage: Storage, path: str, content: bytes) -> None:
    with storage.create(path) as sink:
        sink.write(content)


def read(storage: Storage, path: str) -> bytes:
    with storage.open_input(path) as source:
        return source.read()


def race(attempt: Callable[[int], object]) -> Iterator[int]:
    """Those of several at the same moment who are not refused."""
    start = Barrier(RACERS)

    def run(number: int) -> int | None:
        start.wait()
        with suppress(StorageError):
            attempt(number)
            return number
        return None

    with ThreadPoolExecutor(RACERS) as racers:
        yield from (winner for winner in racers.map(run, range(RACERS)) if winner is not None)


@pytest.mark.parametrize("storage", RENAMING, indirect=True)
def test_a_directory_appears_with_all_its_files_by_one_rename(storage: Storage) -> None:
    assert storage.renames_at_once
    for name in ("bucket_00000", "bucket_00001", "notes/a"):
        write(storage, f".staging/ready/delta_1_1/{name}", name.encode())
    storage.rename(".staging/ready/delta_1_1", "delta_1_1")
    assert storage.list_files(".staging", recursive=True) == []
    assert [file.path for file in storage.list_files("delta_1_1", recursive=True)] == [
        "bucket_00000", "bucket_00001", "notes/a",
    ]  # fmt: skip
    assert read(storage, "delta_1_1/notes/a") == b"notes/a"


@pytest.mark.parametrize("target", ["empty", "full", "file"])
@pytest.mark.parametrize("source", ["directory", "plain"])
def test_a_rename_refuses_a_target_that_exists(storage: Storage, source: str, target: str) -> None:
    write(storage, "directory/f", b"new")
    write(storage, "plain", b"new")
    write(storage, "full/f", b"old")
    write(storage, "file", b"old")
    storage.make_directory("empty")
    with pytest.raises(StorageError, match=f"/{target} exists already"):
        storage.rename(source, target)
    assert storage.exists(source)
    assert read(storage, "full/f") == read(storage, "file") == b"old"
    assert storage.list_files("empty") == []


def test_a_rename_of_what_is_not_there_is_an_error(storage: Storage) -> None:
    with pytest.raises(StorageError):
        storage.rename("gone", "new")
    assert not storage.exists("new")


def test_a_file_that_exists_is_never_created_again(storage: Storage) -> None:
    write(storage, "f", b"old")
    write(storage, "other", b"new")
    with pytest.raises(StorageError, match=r"exists already|File exists"):
        write(storage, "f", b"new")
    with pytest.raises(StorageError, match=r"exists already|File exists"):
        storage.copy("other", "f")
    with pytest.raises(StorageError, match=r"exists already|File exists"):
        storage.write_file("f", b"new")
    assert read(storage, "f") == b"old"


@pytest.mark.parametrize("storage", RENAMING, indirect=True)
def test_one_of_many_creates_a_file(storage: Storage) -> None:
    storage.make_directory("d")
    [winner] = race(lambda number: write(storage, "d/f", b"%d" % number))
    assert read(storage, "d/f") == b"%d" % winner


def test_a_small_file_appears_whole_and_its_place_is_taken_at_once(storage: Storage) -> None:
    storage.write_file("notes/a", b"1")
    for content in (b"2", b"3" * 100_000):
        storage.write_file("notes/a", content, replace=True)
        assert storage.read_small("notes/a", 1 << 20) == content
    assert [file.path for file in storage.list_files("notes")] == ["a"]


def test_deleting_missing_files_succeeds(storage: Storage) -> None:
    write(storage, "delta_1_1/a/b", b"1")
    write(storage, "f", b"1")
    for _ in range(2):
        storage.delete_directory("delta_1_1")
        storage.delete_file("f")
    assert list(storage.walk()) == []


def test_a_name_is_taken_literally(storage: Storage) -> None:
    write(storage, f"{STRANGE}/f", b"1")
    storage.rename(STRANGE, f"{STRANGE} 2")
    assert storage.list_files(recursive=True) == [FileStatus(f"{STRANGE} 2/f", 1)]
    below = Storage.of(f"{storage.location}/{STRANGE} 2")
    assert read(below, "f") == b"1"
    storage.delete_directory(f"{STRANGE} 2")
    # On stores without real directories, the folder has disappeared, too.
    assert storage.list_files(recursive=True, missing_ok=True) == []


def test_a_listing_is_complete_with_sizes(storage: Storage) -> None:
    names = [f"bucket_{number:05}" for number in range(12)]
    for name in names:
        write(storage, f"base_1/{name}", b"x" * 7)
    assert storage.list_files("base_1") == [FileStatus(name, 7) for name in names]
    assert storage.list_directories() == ["base_1"]
    assert {path for path, _, _ in storage.walk()} == {"base_1", *(f"base_1/{n}" for n in names)}
    for listing in (storage.list_files, storage.list_directories):
        with pytest.raises(StorageError, match="/gone"):
            listing("gone")
        assert listing("gone", missing_ok=True) == []
    assert storage.list_files("gone", recursive=True, missing_ok=True) == []


def test_a_listing_is_relative_to_the_asked_directory_and_hides_nothing(storage: Storage) -> None:
    write(storage, "delta_1_1/bucket_00000", b"12")
    write(storage, "delta_1_1/_orc_acid_version", b"2")
    write(storage, ".staging/a/b", b"")
    assert storage.list_files("delta_1_1") == [
        FileStatus("_orc_acid_version", 1),
        FileStatus("bucket_00000", 2),
    ]
    assert [file.path for file in storage.list_files(recursive=True)] == [
        ".staging/a/b",
        "delta_1_1/_orc_acid_version",
        "delta_1_1/bucket_00000",
    ]
    assert storage.list_files() == []
    assert storage.list_directories() == [".staging", "delta_1_1"]


def test_a_copy_has_the_same_content(storage: Storage) -> None:
    write(storage, "a", b"content")
    storage.copy("a", "b")
    assert read(storage, "b") == read(storage, "a") == b"content"


def test_a_large_file_is_read_from_any_place(storage: Storage) -> None:
    content = bytes(range(256)) * 12_000
    write(storage, "f", content)
    with storage.open_input("f") as source:
        for start, length in ((0, 10), (3_000_000, 5_000), (1, 2_999_999)):
            source.seek(start)
            assert source.read(length) == content[start : start + length]
        source.seek(-3, 2)
        assert source.read(2) == content[-3:-1]
        assert source.tell() == len(content) - 1
        assert source.read(10) == content[-1:]
        source.seek(len(content) + 5)
        assert source.read(10) == b""
