import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from hiveacid.errors import DirectoryMissing
from hiveacid.rules.directory import FileStatus
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import list_files

FILE = "bucket_00000"


class Restless(ReadOnlyStorage):
    """A folder in which something changes after each request of a listing."""

    def __init__(self, folder: Path, *events: Callable[[], object]) -> None:
        super().__init__(str(folder), fs.LocalFileSystem(), str(folder))
        self._events = iter(events)

    def _list(self, path: str, recursive: bool, missing_ok: bool) -> list[Any]:
        found = super()._list(path, recursive, missing_ok)
        next(self._events, lambda: None)()
        return found


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return put(tmp_path / "p=b" / "base_0000507")


def put(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / FILE).write_bytes(b"rows")
    return directory


def directories(files: list[FileStatus]) -> set[str]:
    return {file.path for file in files if file.path.endswith("/")}


@pytest.mark.parametrize("after", range(4))
def test_a_base_that_appears_meanwhile_is_complete_or_not_there(base: Path, after: int) -> None:
    new = put(base.parent / "_staged" / "base_0000567")
    appear = [lambda: None] * after + [lambda: new.rename(base.parent / new.name)]
    files = list_files(Restless(base.parent, *appear), None)
    paths = {file.path for file in files if not file.path.startswith("_")}
    assert paths in ({f"{base.name}/{FILE}"}, {f"{base.name}/{FILE}", f"{new.name}/{FILE}"})


def test_files_that_come_after_their_directory_are_listed(base: Path) -> None:
    later = base.parent / "base_0000567"
    later.mkdir()
    files = list_files(Restless(base.parent, lambda: (later / FILE).write_bytes(b"rows")), None)
    assert FileStatus(f"{later.name}/{FILE}", 4) in files
    assert not directories(files)


def test_a_directory_that_goes_while_it_is_listed_is_not_an_empty_one(base: Path) -> None:
    old = base.parent / "base_0000446"
    old.mkdir()  # Its files are gone already.
    files = list_files(Restless(base.parent, lambda: shutil.rmtree(old)), None)
    assert files == [FileStatus(f"{base.name}/{FILE}", 4)]


def test_a_base_without_a_file_is_listed_by_its_name(base: Path) -> None:
    (base.parent / "base_0000600").mkdir()
    assert directories(list_files(Restless(base.parent), None)) == {"base_0000600/"}


def test_a_missing_folder_is_an_error_unless_it_counts_as_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(DirectoryMissing, match="none does not exist"):
        list_files(Restless(tmp_path / "none"), None)
    assert list_files(Restless(tmp_path / "none"), None, missing_ok=True) == []
