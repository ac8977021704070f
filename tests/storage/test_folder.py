"""The properties of folders of this machine, and of paths anywhere; for the rest see the contract."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from hiveacid.errors import DiskFull, MalformedName, NotAFile, PermissionRefused, StorageError
from hiveacid.rules.directory import FileStatus
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage, Storage
from hiveacid.storage.listing import list_files


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "d=a%2Fb c"
    folder.mkdir()
    return folder


@pytest.fixture(params=["local", "arrow"])
def storage(request: pytest.FixtureRequest, table: Path) -> Storage:
    """The folder through Python's own files, and the way every other file system is used."""
    if request.param == "local":
        return Storage.of(f"file:{table}")
    return Storage(f"file:{table}", fs.LocalFileSystem(), str(table))


def write(storage: Storage, path: str, content: bytes) -> None:
    with storage.create(path) as sink:
        sink.write(content)


def read(storage: Storage, path: str) -> bytes:
    with storage.open_input(path) as source:
        return source.read()


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/"])
def test_a_location_is_taken_literally_in_every_spelling(table: Path, spelling: str) -> None:
    (table / "x%20y").write_bytes(b"1")
    storage = Storage.of(spelling.format(table))
    assert storage.list_files() == [FileStatus("x%20y", 1)]
    assert read(storage, "x%20y") == b"1"


class KeepsDirectories:
    """An object store made of a file system: it refuses to delete directories of one request that
    are not empty at their turn."""

    type_name = "s3"

    def __init__(self, never: str = "") -> None:
        self._local = fs.LocalFileSystem()
        self._never = never
        self.requests = 0

    def get_file_info(self, wanted: str | fs.FileSelector) -> object:
        return self._local.get_file_info(wanted)

    def delete_dir(self, path: str) -> None:
        self.requests += 1
        refused = False
        for entry in sorted([Path(path), *Path(path).rglob("*")]):
            if entry.is_file() and entry.name != self._never:
                entry.unlink()
            elif entry.is_file() or list(entry.iterdir()):
                refused = True
            else:
                entry.rmdir()
        if refused:
            raise OSError("Directory object not empty")


def test_a_directory_goes_also_where_the_store_wants_it_empty_first(table: Path) -> None:
    store = KeepsDirectories()
    (table / "staging" / "flat" / "d=1").mkdir(parents=True)
    (table / "staging" / "flat" / "d=1" / "part").write_bytes(b"1")
    Storage("s3://bucket/t", store, str(table)).delete_directory("staging")
    assert list(table.iterdir()) == []
    assert store.requests == 4


def test_a_store_that_refuses_a_file_is_not_asked_for_ever(table: Path) -> None:
    store = KeepsDirectories(never="kept")
    (table / "staging").mkdir()
    (table / "staging" / "kept").write_bytes(b"1")
    with pytest.raises(StorageError, match="not empty"):
        Storage("s3://bucket/t", store, str(table)).delete_directory("staging")
    assert store.requests == 2


def test_local_files_have_descriptors_for_copies_by_the_kernel(table: Path) -> None:
    storage = Storage.of(str(table))
    write(storage, "f", b"0123456789")
    with storage.open_input("f") as source, storage.create("g") as sink:
        assert os.copy_file_range(source.fileno(), sink.fileno(), 10) == 10
    assert read(storage, "g") == b"0123456789"


def test_a_file_is_written_whole_or_not_at_all(
    storage: Storage, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write_file("notes/a", b"3")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(storage), "_flush", full)
    with pytest.raises(DiskFull):
        storage.write_file("notes/a", b"4", replace=True)
    assert storage.read_small("notes/a") == b"3"
    assert os.listdir(table / "notes") == ["a"]


def test_a_small_file_is_read_only_if_it_is_one(storage: Storage, table: Path) -> None:
    (table / "note").write_bytes(b"12345")
    (table / "folder").mkdir()
    os.mkfifo(table / "pipe")
    assert storage.read_small("note", 5) == b"12345"
    assert storage.read_small("note", 4) is None
    assert storage.read_small("nothing") is None
    for name in ("folder", "pipe"):
        with pytest.raises(NotAFile, match=f"{name} is not a file"):
            storage.read_small(name)


def make_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


NOT_FILES = pytest.mark.parametrize(
    "make", [make_link_to_nothing, make_loop, link_to_a_device, os.mkfifo]
)


@NOT_FILES
def test_what_is_no_file_is_not_absent(
    storage: Storage, table: Path, make: Callable[[Path], None]
) -> None:
    """Neither for a look at it, nor in a listing of records, and in no place of rows."""
    (table / "_notes").mkdir()
    make(table / "_notes" / "n")
    assert storage.exists("_notes/n")
    assert not storage.is_directory("_notes/n")
    with pytest.raises(NotAFile):
        storage.read_small("_notes/n")
    assert [file.path for file in storage.list_files("_notes")] == ["n"]
    assert [file.path for file in storage.list_files(recursive=True)] == ["_notes/n"]
    assert {(path, size) for path, size, _ in storage.walk()} == {("_notes", None), ("_notes/n", 0)}
    assert storage.list_directories() == ["_notes"]
    for missing_ok in (False, True):
        with pytest.raises(StorageError):
            storage.list_files("_notes/n", missing_ok=missing_ok)
    storage.delete_file("_notes/n")
    assert not storage.exists("_notes/n")
    (table / "delta_1_1").mkdir()
    make(table / "delta_1_1" / "bucket_00000")
    make(table / "delta_2_2")
    for look in (
        lambda: list_files(storage, None),
        lambda: list(storage.walk()),
        lambda: storage.list_files("delta_1_1", missing_ok=True),
        lambda: storage.list_files(recursive=True),
        storage.list_directories,
    ):
        with pytest.raises(NotAFile, match=r"delta_._. |bucket_00000"):
            look()


def test_what_cannot_be_looked_at_is_not_absent(storage: Storage, table: Path) -> None:
    (table / "file").write_bytes(b"1")
    name = "n" * 300  # Longer than any name of a file.
    for look in (storage.exists, storage.read_small, storage.delete_file):
        with pytest.raises(StorageError):
            look(name)


OPERATIONS: list[Callable[[Storage, str], object]] = [
    Storage.list_files,
    Storage.list_directories,
    Storage.exists,
    Storage.open_input,
    Storage.create,
    Storage.make_directory,
    Storage.delete_file,
    Storage.delete_directory,
    lambda storage, path: storage.rename("inside", path),
    lambda storage, path: storage.rename(path, "other"),
    lambda storage, path: storage.copy("inside", path),
    lambda storage, path: storage.copy(path, "other"),
]


@pytest.mark.parametrize("path", ["..", "../secret", "a/../../secret", "/etc", "a\0b"])
def test_no_operation_leaves_the_folder(storage: Storage, table: Path, path: str) -> None:
    secret = table.parent / "secret"
    secret.write_bytes(b"secret")
    write(storage, "inside", b"1")
    for operation in OPERATIONS:
        with pytest.raises(MalformedName):
            operation(storage, path)
    assert secret.read_bytes() == b"secret"


def test_the_folder_itself_is_not_deleted(storage: Storage) -> None:
    for path in ("", ".", "./"):
        with pytest.raises(MalformedName):
            storage.delete_directory(path)
    assert storage.exists("")


@pytest.mark.parametrize(
    "change",
    [
        lambda storage: storage.delete_directory("link/delta_1_1"),
        lambda storage: storage.delete_file("link/delta_1_1/f"),
        lambda storage: storage.rename("link/delta_1_1", "taken"),
        lambda storage: storage.rename("mine", "link/new"),
        lambda storage: storage.create("link/new"),
        lambda storage: storage.make_directory("link/new"),
    ],
)
def test_nothing_is_changed_through_a_link_that_leads_outside(
    table: Path, change: Callable[[Storage], object]
) -> None:
    outside = table.parent / "other table"
    (outside / "delta_1_1").mkdir(parents=True)
    (outside / "delta_1_1" / "f").write_bytes(b"1")
    (table / "link").symlink_to(outside)
    (table / "mine").write_bytes(b"1")
    with pytest.raises(MalformedName, match="link"):
        change(Storage.of(str(table)))
    assert [path.name for path in outside.rglob("*")] == ["delta_1_1", "f"]


def test_deleting_a_directory_leaves_alone_what_its_links_lead_to(table: Path) -> None:
    outside = table.parent / "other table"
    outside.mkdir()
    (outside / "f").write_bytes(b"1")
    (table / "delta_1_1").mkdir()
    (table / "delta_1_1" / "link").symlink_to(outside)
    Storage.of(str(table)).delete_directory("delta_1_1")
    assert not (table / "delta_1_1").exists()
    assert (outside / "f").read_bytes() == b"1"


def test_the_notes_of_a_directory_go_after_all_that_they_describe(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_metadata_acid", "_hiveacid.json", "bucket_00000", "sub/bucket_00001"):
        file = table / "base_0000001" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    remove = shutil.rmtree

    def killed(path: str, **options: object) -> None:
        if os.path.basename(path) == "base_0000001":
            raise KeyboardInterrupt
        remove(path, **options)  # type: ignore[arg-type]

    storage = Storage.of(f"file:{table}")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            storage.delete_directory("base_0000001")
    notes = [file.path for file in storage.list_files(recursive=True)]
    assert notes == ["base_0000001/_hiveacid.json", "base_0000001/_metadata_acid"]
    storage.delete_directory("base_0000001")
    assert storage.list_directories() == []


def test_a_folder_reached_through_a_link_is_still_the_folder(table: Path) -> None:
    (table.parent / "warehouse").symlink_to(table)
    storage = Storage.of(str(table.parent / "warehouse"))
    write(storage, "delta_1_1/f", b"1")
    storage.delete_directory("delta_1_1")
    assert storage.list_directories() == []


def test_a_missing_file_is_named(storage: Storage) -> None:
    for operation in (storage.open_input, storage.list_files):
        with pytest.raises(StorageError, match=r"d=a%2Fb c/nothing.*[Nn]o such file|not exist"):
            operation("nothing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_refused_access_has_its_own_error(storage: Storage, table: Path) -> None:
    table.chmod(0o500)
    with pytest.raises(PermissionRefused, match="d=a%2Fb c"):
        storage.make_directory("delta_1_1")


def test_a_link_is_seen_wherever_it_is_on_the_way(table: Path) -> None:
    (table / "a" / "b").mkdir(parents=True)
    (table / "a" / "link").symlink_to(table / "a" / "b")
    (table / "a" / "nowhere").symlink_to(table / "none")
    (table / "a" / "b" / "c").mkdir()
    (table.parent / "root").symlink_to(table)
    storage = ReadOnlyStorage.of(f"file:{table}")
    links = [path for path in ("", "a", "a/b", "a/link", "a/link/c", "a/nowhere", "gone")
             if storage.is_link(path)]  # fmt: skip
    assert links == ["a/link", "a/link/c", "a/nowhere"]
    assert ReadOnlyStorage.of(f"file:{table.parent}/root").is_link("a")


def test_there_is_no_way_to_change_a_folder_that_is_only_looked_at() -> None:
    changes = {name for name in vars(Storage) if not name.startswith("_")} - {"of"}
    assert {"create", "rename", "delete_directory", "delete_file"} <= changes
    assert not [name for name in changes if hasattr(ReadOnlyStorage, name)]


class Overtaken(LocalStorage):
    """A folder where another process names each file between the check and the naming."""

    def _name(self, source: str, target: str) -> None:
        Path(self._full(target)).write_bytes(b"theirs")
        super()._name(source, target)


def test_only_one_of_two_processes_names_a_file(table: Path) -> None:
    with pytest.raises(StorageError, match=r"place\.json"):
        Overtaken(f"file:{table}", fs.LocalFileSystem(), str(table)).write_file("place.json", b"")
    assert {file.name: file.read_bytes() for file in table.iterdir()} == {"place.json": b"theirs"}


def test_file_systems_without_hard_links_are_written(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: str) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", link)
    Storage.of(f"file:{table}").write_file("place.json", b"1")
    assert {file.name: file.read_bytes() for file in table.iterdir()} == {"place.json": b"1"}
