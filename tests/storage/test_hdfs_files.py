"""Files that are written on HDFS while its NameNode starts: whole, or an error."""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.errors import StorageUnreachable
from hiveacid.storage import hdfs as hdfs_calls
from hiveacid.storage.filesystems import translated_errors
from hiveacid.storage.hdfs import HdfsFileSystem

SAFE_MODE = (
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", '
    '"Cannot add block to /t/f. Name node is in safe mode.")'
)
STANDBY = (
    'RPCError("org.apache.hadoop.ipc.StandbyException", '
    '"Operation category READ is not supported in state standby. Visit https://s.example")'
)
CUT = "RPC listener disconnected"
SMALL, LARGE = b"rows" * 500_000, b"rows" * 5_000_000


@dataclass
class Busy:
    """A client whose NameNode refuses the calls of some numbers, counted from 0, or dies in them."""

    refused: set[int]
    dies: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) - 1 in self.refused:
            raise OSError(CUT) if self.dies else RuntimeError(SAFE_MODE)

    def create(self, path: str, options: Any) -> "Writer":
        if path in self.files and not options.overwrite:
            raise FileExistsError(path)
        self.call("create")
        self.files[path] = b""
        return Writer(self, path)

    def get_file_info(self, path: str) -> Any:
        if path != "/t" and path not in self.files:
            raise FileNotFoundError(path)
        return SimpleNamespace(isdir=path == "/t", permission=0o750)

    def get_acl_status(self, _: str) -> Any:
        raise RuntimeError("AclException")


@dataclass
class Writer:
    """A file without any content before it is closed, and without any after a refusal."""

    client: Busy
    path: str
    content: bytes = b""
    broken: bool = False

    def write(self, data: bytes) -> None:
        self._ask("write")
        self.content += data

    def hsync(self) -> None:
        self._ask("hsync")

    def close(self) -> None:
        self._ask("close")
        self.client.files[self.path] = self.content

    def _ask(self, name: str) -> None:
        assert not self.broken, "the client cannot go on with it"
        try:
            self.client.call(name)
        except (OSError, RuntimeError):
            self.broken = True
            raise


def write(client: Busy, content: bytes) -> None:
    with HdfsFileSystem(client, "/t").open_output_stream("/t/f") as sink:
        for start in range(0, len(content), 999_999):
            sink.write(content[start : start + 999_999])


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_small_file_is_rewritten_after_an_error_of_the_client(place: int, dies: bool) -> None:
    quiet = Busy(set())
    write(quiet, SMALL)
    assert quiet.files == {"/t/f": SMALL}
    busy = Busy({place}, dies)
    write(busy, SMALL)
    assert busy.files == {"/t/f": SMALL}
    assert busy.calls[place : place + 2] == [quiet.calls[place], "create"]
    twice = Busy({place, place + 2}, dies)
    write(twice, SMALL)
    assert twice.files == {"/t/f": SMALL}


def test_a_note_is_written_once_more_when_it_cannot_be_flushed() -> None:
    busy = Busy({2})
    HdfsFileSystem(busy, "/t").write_small("/t/f", b"a note")
    assert busy.calls == ["create", "write", "hsync", "create", "write", "hsync", "close"]
    assert busy.files == {"/t/f": b"a note"}


def test_a_large_file_is_not_buffered_and_fails() -> None:
    quiet = Busy(set())
    write(quiet, LARGE)
    assert quiet.files == {"/t/f": LARGE}
    busy = Busy({len(quiet.calls) - 1})
    with (
        pytest.raises(StorageUnreachable, match="Name node is in safe mode") as failure,
        translated_errors("/t/f"),
    ):
        write(busy, LARGE)
    assert failure.value.retryable
    assert busy.calls.count("create") == 1


@pytest.mark.parametrize("content", [b"", SMALL], ids=["empty", "small"])
def test_an_unclosed_file_is_left_alone(content: bytes) -> None:
    busy = Busy(set())
    sink = HdfsFileSystem(busy, "/t").open_output_stream("/t/f")
    sink.write(content)
    sink.write(b"in the buffer")
    before = list(busy.calls)
    del sink
    assert busy.calls == before
    assert busy.files == {"/t/f": b""}


@pytest.mark.parametrize("said", ["Connection refused (os error 111)", CUT])
def test_a_namenode_that_is_away_is_worth_another_try(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_calls, "PATIENCE_SECONDS", -1.0)

    def refuse(*_: Any) -> Any:
        raise OSError(said)

    monkeypatch.setattr(Busy, "get_file_info", refuse)
    with (
        pytest.raises(StorageUnreachable, match=re.escape(said)) as failure,
        translated_errors("/t"),
    ):
        HdfsFileSystem(Busy(set()), "/t").get_file_info("/t")
    assert failure.value.retryable


def test_a_file_of_another_writer_is_not_written_again() -> None:
    busy = Busy(set(), files={"/t/f": b"another's"})
    with pytest.raises(FileExistsError):
        write(busy, SMALL)
    assert busy.files == {"/t/f": b"another's"}


@pytest.mark.parametrize("created", [False, True], ids=["was not", "was"])
def test_the_owner_of_a_file_is_unknown_after_a_lost_answer(created: bool) -> None:
    busy = Busy({0}, dies=True)
    if created:
        call = busy.call

        def create(name: str) -> None:
            busy.files["/t/f"] = b""
            call(name)

        busy.call = create  # type: ignore[method-assign]
        with pytest.raises(StorageUnreachable), translated_errors("/t/f"):
            write(busy, SMALL)
    else:
        write(busy, SMALL)
        assert busy.files == {"/t/f": SMALL}


@dataclass
class Renaming(Busy):
    """One that renames before the NameNode dies, or does not."""

    renames: bool = True
    places: dict[str, int] = field(default_factory=lambda: {"/t/a": 1})

    def get_file_info(self, path: str) -> Any:
        if path not in self.places:
            raise FileNotFoundError(path)
        number = self.places[path]
        return SimpleNamespace(
            isdir=True, permission=0o750, length=0, modification_time=number, owner="etl"
        )

    def rename(self, source: str, target: str, _: bool) -> None:
        if source not in self.places:
            raise FileNotFoundError(source)
        if target in self.places:
            raise FileExistsError(target)
        if self.renames or self.calls:
            self.places[target] = self.places.pop(source)
        self.call("rename")


@pytest.mark.parametrize("renames", [False, True])
def test_a_rename_is_done_once_when_the_namenode_dies_in_it(renames: bool) -> None:
    busy = Renaming({0}, dies=True, renames=renames)
    HdfsFileSystem(busy, "/t").move("/t/a", "/t/b")
    assert busy.places == {"/t/b": 1}
    with pytest.raises(FileNotFoundError):
        HdfsFileSystem(busy, "/t").move("/t/a", "/t/b")
    busy.places["/t/a"] = 2
    with pytest.raises(FileExistsError):
        HdfsFileSystem(busy, "/t").move("/t/a", "/t/b")
    assert busy.places == {"/t/b": 1, "/t/a": 2}


def test_where_no_namenode_is_active_it_is_an_error_to_be_tried_again() -> None:
    class AllStandby(Busy):
        def get_file_info(self, _: str) -> Any:
            raise RuntimeError(STANDBY)

    with (
        pytest.raises(StorageUnreachable, match="StandbyException") as failure,
        translated_errors("/t"),
    ):
        HdfsFileSystem(AllStandby(set()), "/t").get_file_info("/t/f")
    assert failure.value.retryable


def test_a_file_that_appears_while_it_is_created_may_be_ours() -> None:
    class LosesAnswer(Busy):
        """Like the client where a NameNode dies after it has created the file."""

        def create(self, path: str, options: Any) -> "Writer":
            super().create(path, options)
            raise FileExistsError(path)

    client = LosesAnswer(set())
    with (
        pytest.raises(StorageUnreachable, match="answer was lost") as failure,
        translated_errors("/t/f"),
    ):
        write(client, SMALL)
    assert failure.value.retryable
    with pytest.raises(FileExistsError):
        write(client, SMALL)
    assert client.calls == ["create"]
