"""Files that a streaming writer still appends to, or was killed over.

Such a file counts up to a length that its writer notes beside it. Spark reads files as a whole, so
it is given a copy of the part that counts, which goes when the transaction that reads it ends.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from airflow_hiveacid.acid.errors import CorruptFile
from airflow_hiveacid.acid.names import STAGING_PREFIX
from airflow_hiveacid.engine.files import AcidFile, PartitionFiles, in_threads
from airflow_hiveacid.storage import Storage, storage_error

_CHUNK = 1 << 20


class Reading(Protocol):
    """The transaction that a snapshot is read under."""

    @property
    def txn_id(self) -> int:
        """Its id."""

    def own_temporarily(self, remove: Callable[[], None], what: str) -> None:
        """Register what must go when it ends."""


def with_copies(partitions: Sequence[PartitionFiles], txn: Reading) -> list[PartitionFiles]:
    """The same files, with copies in place of those that end before their file does.

    The copies lie in a hidden folder of the partition that any cleaner knows for what it is.
    """
    return in_threads(lambda partition: _with_copies(partition, txn), partitions)


def _with_copies(partition: PartitionFiles, txn: Reading) -> PartitionFiles:
    if not any(file.cut_off for file in partition.inserts):
        return partition
    storage = Storage.of(partition.location)
    folder = f"{STAGING_PREFIX}{txn.txn_id}_{uuid.uuid4().hex[:8]}"
    txn.own_temporarily(
        lambda: storage.delete_directory(folder), f"{storage.location.rstrip('/')}/{folder}"
    )
    inserts = [_copy(storage, folder, file) if file.cut_off else file for file in partition.inserts]
    return replace(partition, inserts=tuple(inserts))


def _copy(storage: Storage, folder: str, file: AcidFile) -> AcidFile:
    root = storage.location.rstrip("/")
    path = file.path[len(root) + 1 :]
    with storage.open_input(path) as source, storage.create(f"{folder}/{path}") as copy:
        left = file.size
        while left and (chunk := source.read(min(left, _CHUNK))):
            try:
                copy.write(chunk)
            except OSError as error:
                raise storage_error(error, f"{root}/{folder}/{path}") from error
            left -= len(chunk)
    if left:
        raise CorruptFile(
            f"{file.path} has {file.size - left} bytes; its writer says that {file.size} count."
        )
    return replace(file, path=f"{root}/{folder}/{path}", cut_off=False)
