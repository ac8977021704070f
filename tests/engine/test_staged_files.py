"""Files that are written to two places when one of these refuses."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from hiveacid.errors import StorageError
from hiveacid.storage.folder import LocalStorage
from hiveacid.storage.staging import Folder, staged_file
from hiveacid.storage.uploads import Upload, UploadedFile, Uploads

FINAL = "delta_0000001_0000001_0000"


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> Mock:
    uploads = Mock(spec=Uploads)
    uploads.begin.side_effect = lambda path: UploadedFile(uploads, Upload(path, "an upload"))
    uploads.send.return_value = "a part"
    monkeypatch.setattr(Uploads, "of", lambda _: uploads)
    return uploads


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path.as_uri(), ".staging", FINAL, is_read=True)


def write(folder: Folder) -> None:
    with staged_file(folder, "bucket_00000") as file:
        file.sink.write(b"rows")


def files(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_same_is_written_to_both(uploads: Mock, folder: Folder, tmp_path: Path) -> None:
    write(folder)
    assert [path.read_bytes() for path in files(tmp_path)] == [b"rows"]
    assert [call.args[2] for call in uploads.send.mock_calls] == [b"rows"]


def test_an_upload_that_is_refused_leaves_no_copy(
    uploads: Mock, folder: Folder, tmp_path: Path
) -> None:
    uploads.begin.side_effect = StorageError("There is no room.")
    with pytest.raises(StorageError, match="no room"):
        write(folder)
    assert files(tmp_path) == []


def test_a_copy_that_is_refused_takes_the_upload_back(
    uploads: Mock, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "create", Mock(side_effect=StorageError("There is no room.")))
    with pytest.raises(StorageError, match="no room"):
        write(folder)
    uploads.take_back.assert_called_once_with(f"{FINAL}/bucket_00000", "an upload")


def test_a_part_that_is_refused_leaves_neither(
    uploads: Mock, folder: Folder, tmp_path: Path
) -> None:
    uploads.send.side_effect = StorageError("There is no room.")
    with pytest.raises(StorageError, match="no room"):
        write(folder)
    assert files(tmp_path) == []
    uploads.take_back.assert_called_once_with(f"{FINAL}/bucket_00000", "an upload")


def test_an_unclosed_file_is_not_sent(uploads: Mock) -> None:
    file = uploads.begin("f")
    file.write(b"half of it")
    del file
    uploads.send.assert_not_called()
