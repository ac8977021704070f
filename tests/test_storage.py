import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pyarrow import fs

from airflow_hiveacid.acid.directory import FileStatus
from airflow_hiveacid.errors import DiskFull, OutsideTable, PermissionRefused, StorageError
from airflow_hiveacid.storage import ReadOnlyStorage, Storage, real_place, storage_error


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


@pytest.mark.parametrize(
    "location", ["relative/path", "file://elsewhere/a", "ftp://host/a", "file:", "abfs://nothing/a"]
)
def test_an_unusable_location_is_refused(location: str) -> None:
    with pytest.raises(StorageError, match=r"location|file system|absolute path"):
        Storage.of(location)


def test_object_stores_are_found_by_their_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    storage = Storage.of("s3a://bucket/warehouse/t")
    assert storage._filesystem.type_name == "s3"
    assert storage._full("delta_1_1/bucket_00000") == "bucket/warehouse/t/delta_1_1/bucket_00000"
    azure = Storage.of("abfs://container@account.dfs.core.windows.net/t")
    assert azure._filesystem.type_name == "abfs"
    assert azure._full("x") == "container/t/x"


class KeepsDirectories:
    """An object store made of a file system: of what one request names, it refuses directories
    that are not empty when it comes to them."""

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
        for each in sorted([Path(path), *Path(path).rglob("*")]):
            if each.is_file() and each.name != self._never:
                each.unlink()
            elif each.is_file() or list(each.iterdir()):
                refused = True
            else:
                each.rmdir()
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


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_s3_store_is_asked_at_the_endpoint_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    asked = []

    class Nothing(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), Nothing) as server:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, daemon=True).start()
        with suppress(StorageError):  # It says 404 to everything, so that it has no bucket either.
            Storage.of("s3a://bucket/warehouse/t").exists("base_1")
        server.shutdown()
    assert asked[0].startswith("/bucket/warehouse/t/base_1")


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


def test_a_directory_that_is_not_there_can_count_as_empty(storage: Storage) -> None:
    assert storage.list_files("gone", recursive=True, missing_ok=True) == []
    assert storage.list_directories("gone", missing_ok=True) == []
    for list_ in (storage.list_files, storage.list_directories):
        with pytest.raises(StorageError, match="/gone"):
            list_("gone")


def test_a_file_can_be_read_from_any_place(storage: Storage) -> None:
    write(storage, "f", b"0123456789")
    with storage.open_input("f") as source:
        source.seek(-4, os.SEEK_END)
        assert source.read(2) == b"67"
        assert source.tell() == 8


def test_local_files_have_descriptors_for_copies_by_the_kernel(table: Path) -> None:
    storage = Storage.of(str(table))
    write(storage, "f", b"0123456789")
    with storage.open_input("f") as source, storage.create("g") as sink:
        assert os.copy_file_range(source.fileno(), sink.fileno(), 10) == 10
    assert read(storage, "g") == b"0123456789"


def test_a_directory_is_renamed_with_its_content(storage: Storage) -> None:
    write(storage, "staging/bucket_00000", b"1")
    storage.rename("staging", "delta_1_1")
    assert not storage.exists("staging")
    assert read(storage, "delta_1_1/bucket_00000") == b"1"


@pytest.mark.parametrize("target", ["empty", "full", "file"])
@pytest.mark.parametrize("source", ["directory", "plain"])
def test_rename_never_overwrites(storage: Storage, source: str, target: str) -> None:
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


@pytest.mark.parametrize("change", [Storage.create, lambda it, path: it.copy("other", path)])
def test_an_existing_file_is_never_written_again(
    storage: Storage, change: Callable[[Storage, str], object]
) -> None:
    write(storage, "f", b"old")
    write(storage, "other", b"new")
    with pytest.raises(StorageError, match=r"exists already|File exists"):
        change(storage, "f")
    assert read(storage, "f") == b"old"


def test_a_file_is_written_whole_or_not_at_all(
    storage: Storage, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write_file("notes/a", b"1")
    with pytest.raises(StorageError, match="exists already"):
        storage.write_file("notes/a", b"2")
    storage.write_file("notes/a", b"3", replace=True)
    assert storage.read_small("notes/a") == b"3"

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
    assert [storage.read_small(name) for name in ("nothing", "folder", "pipe")] == [None] * 3


def test_a_copy_has_the_same_content(storage: Storage) -> None:
    write(storage, "a", b"content")
    storage.copy("a", "b")
    assert read(storage, "b") == read(storage, "a") == b"content"


def test_deleting_can_be_repeated(storage: Storage) -> None:
    write(storage, "delta_1_1/f", b"1")
    write(storage, "f", b"1")
    for _ in range(2):
        storage.delete_directory("delta_1_1")
        storage.delete_file("f")
    assert storage.list_directories() == []
    assert storage.list_files() == []


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


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("path", ["..", "../secret", "a/../../secret", "/etc", "a\0b"])
def test_no_operation_leaves_the_folder(
    storage: Storage, table: Path, operation: Callable[[Storage, str], object], path: str
) -> None:
    secret = table.parent / "secret"
    secret.write_bytes(b"secret")
    write(storage, "inside", b"1")
    with pytest.raises(OutsideTable):
        operation(storage, path)
    assert secret.read_bytes() == b"secret"


def test_the_folder_itself_is_not_deleted(storage: Storage) -> None:
    for path in ("", ".", "./"):
        with pytest.raises(OutsideTable):
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
    with pytest.raises(OutsideTable, match="link"):
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


def test_a_full_disk_is_told_apart() -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError) as caught:  # noqa: PT011
        full.write(b"1")
    assert isinstance(storage_error(caught.value, "t"), DiskFull)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_refused_access_is_told_apart(storage: Storage, table: Path) -> None:
    table.chmod(0o500)
    with pytest.raises(PermissionRefused, match="d=a%2Fb c"):
        storage.make_directory("delta_1_1")


def test_permission_errors_of_every_kind_are_told_apart() -> None:
    for code in (1, 13):
        assert isinstance(storage_error(OSError(code, "no"), "t"), PermissionRefused)
    assert type(storage_error(OSError(5, "broken"), "t")) is StorageError


def test_errors_survive_the_way_back_from_a_worker() -> None:
    error = storage_error(OSError(28, "No space left on device"), "t")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/a/b", "/a/b/"),
        ("file:/a/b", "file:///a//./b"),
        ("s3a://bucket/a", "s3://bucket/a/"),
        ("hdfs://NN:8020/a", "hdfs://nn/a"),
        ("abfss://c@x.dfs.core.windows.net/a", "abfs://c@x.dfs.core.windows.net/a"),
    ],
)
def test_a_place_is_the_same_in_every_spelling(one: str, other: str) -> None:
    assert real_place(one) == real_place(other)


def test_different_places_differ(tmp_path: Path) -> None:
    locations = [
        f"file:{tmp_path}",
        f"file:{tmp_path}/a",
        f"file:{tmp_path}/a%2Fb",
        f"file:{tmp_path}/a/b",
        f"hdfs://nn{tmp_path}",
        f"s3://b{tmp_path}",
        "jdbc:whatever",
        "",
    ]
    assert len({real_place(location) for location in locations}) == len(locations)


def test_a_place_is_where_links_lead(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert real_place(f"file:{tmp_path}/link/x") == real_place(f"file:{tmp_path}/real/x")


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
