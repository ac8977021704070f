"""Files that wait where they will appear: on a real store, also one that is busy."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from hiveacid.errors import StorageError
from hiveacid.storage.folder import Storage
from hiveacid.storage.uploads import UploadedFile, Uploads
from tests.s3.store import S3Store

pytestmark = pytest.mark.s3
# More than two parts.
LARGE = bytes(range(256)) * 4096 * 20


@pytest.fixture
def uploads(s3_folder: str) -> Uploads:
    found = Uploads.of(s3_folder)
    assert found is not None
    return found


def written(uploads: Uploads, path: str, content: bytes) -> UploadedFile:
    with uploads.begin(path) as file:
        for start in range(0, len(content), 999_999):
            file.write(content[start : start + 999_999])
        assert file.tell() == len(content)
    return file


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=len)
def test_a_file_appears_when_its_upload_is_completed(
    uploads: Uploads, s3_folder: str, s3: S3Store, content: bytes
) -> None:
    storage = Storage.of(s3_folder)
    file = written(uploads, "p=%20 1/delta_1_1/bucket_00000", content)
    assert not storage.exists("p=%20 1")
    assert [(each.path, each.id) for each in uploads.pending()] == [
        (file.upload.path, file.upload.id)
    ]
    uploads.complete(file.upload)
    assert storage.read_small("p=%20 1/delta_1_1/bucket_00000", len(LARGE)) == content
    assert uploads.pending() == []
    assert s3.proxy.requests["CopyObject"] == 0


def test_withdrawn_files_never_appear(uploads: Uploads, s3_folder: str) -> None:
    file = written(uploads, "delta_1_1/bucket_00000", b"rows of the aborted")
    (pending,) = uploads.pending()
    uploads.take_back(pending.path, pending.id)
    with pytest.raises(StorageError, match="was taken back"):
        uploads.complete(file.upload)
    assert not Storage.of(s3_folder).exists("delta_1_1")
    uploads.take_back(pending.path, pending.id)


def test_a_file_that_is_completed_twice_is_there(uploads: Uploads, s3_folder: str) -> None:
    file = written(uploads, "delta_1_1/bucket_00000", b"the first answer got lost")
    uploads.complete(file.upload)
    uploads.complete(file.upload)
    assert Storage.of(s3_folder).exists("delta_1_1/bucket_00000")


def test_a_file_that_could_not_be_written_is_taken_back(uploads: Uploads) -> None:
    file = uploads.begin("delta_1_1/bucket_00000")
    file.write(LARGE)
    file.give_up()
    assert uploads.pending() == []


def test_one_of_many_leaves_a_note(s3_folder: str) -> None:
    storage = Storage.of(s3_folder)
    start = Barrier(8)

    def leave(number: int) -> bool:
        start.wait()
        try:
            storage.write_file("_hiveacid_runs/note", b"%d" % number)
        except StorageError:
            return False
        return True

    with ThreadPoolExecutor(8) as racers:
        won = [number for number, wins in enumerate(racers.map(leave, range(8))) if wins]
    assert storage.read_small("_hiveacid_runs/note") == b"%d" % won[0]
    assert len(won) == 1
    storage.write_file("_hiveacid_runs/note", b"%d" % won[0])  # The answer got lost.


def test_a_table_is_listed_by_one_request(s3_folder: str, s3: S3Store) -> None:
    storage = Storage.of(s3_folder)
    for partition in range(20):
        storage.write_file(f"p={partition}/delta_0000001_0000001_0000/bucket_00000", b"1")
    s3.proxy.reset()
    assert len(storage.list_files(recursive=True)) == 20
    assert s3.proxy.requests["ListObjects"] == 1


def test_only_uploads_below_the_folder_are_found(uploads: Uploads, s3_folder: str) -> None:
    beside = Uploads.of(f"{s3_folder}2")
    assert beside is not None
    written(beside, "delta_1_1/bucket_00000", b"of another table")
    assert uploads.pending() == []
    (pending,) = beside.pending()
    beside.take_back(pending.path, pending.id)


def test_a_store_that_is_busy_is_asked_again(uploads: Uploads, s3_folder: str, s3: S3Store) -> None:
    kinds = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListObjects")
    for kind in kinds:
        s3.proxy.refuse(kind, every=2)
    file = written(uploads, "delta_1_1/bucket_00000", LARGE)
    uploads.complete(file.upload)
    storage = Storage.of(s3_folder)
    assert [each.size for each in storage.list_files(recursive=True)] == [len(LARGE)]
    assert s3.proxy.refused >= len(kinds)
