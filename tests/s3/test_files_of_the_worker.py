"""Files of a store that the worker reads by their paths."""

import pytest

from hiveacid.errors import SparkNeeded, StorageError
from hiveacid.jobs.sources import PathSource
from hiveacid.storage.folder import Storage
from hiveacid.worker.files import rows_of_files

pytestmark = pytest.mark.s3


def test_paths_of_a_store(s3_folder: str) -> None:
    storage = Storage.of(s3_folder)
    for number, name in enumerate(("a/1.csv", "a/2.csv", "a/_SUCCESS", "b/k=1/3.csv")):
        storage.write_file(name, f"{number}\n".encode())

    def numbers(path: str) -> list[int]:
        source = PathSource(f"{s3_folder}/{path}", "csv", schema="i int")
        return sorted(rows_of_files(source)[0]["i"].to_pylist())

    assert numbers("a") == numbers("a/") == numbers("a/*.csv") == [0, 1]
    assert numbers("a/2.csv") == [1]
    assert numbers("b/k=1") == numbers("b/k=1/*") == [3]
    for path in ("b", "*/*/3.csv", "a/*"):
        with pytest.raises(SparkNeeded):
            numbers(path)
    for path in ("none", "a/*.txt", "none/*.csv"):
        with pytest.raises(StorageError, match="no file was found"):
            numbers(path)
