"""The clock of a storage.

Clocks of machines differ, and jump. So an age is the difference of two times of one clock: the time of
a file is compared with the time that its storage gives to a file now.
"""

import uuid
from datetime import datetime

from hiveacid.errors import StorageError
from hiveacid.rules.location import Location
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder
from hiveacid.storage.uploads import Uploads


def storage_now(location: Location, txn_id: int) -> datetime:
    """Return the present time by the clock of a storage.

    Args:
        location: The folder of a table or a partition.
        txn_id: An open transaction of the caller: a cleaning removes the leftovers of a killed process.
    """
    folder = HiddenFolder(location, txn_id)
    try:
        return storage_now_in(folder.storage, folder.name)
    finally:
        folder.remove()


def storage_now_in(storage: Storage, folder: str) -> datetime:
    """Return the present time by the clock of a storage.

    Args:
        storage: The storage.
        folder: A folder in it; a killed process may leave an empty file there.
    """
    if (uploads := Uploads.of(storage.location)) is not None:
        return uploads.now()
    path = f"{folder}/_now_{uuid.uuid4().hex[:8]}"
    storage.create(path).close()
    try:
        now = storage.modified(path)
    finally:
        storage.delete_file(path)
    if now is None:
        raise StorageError(f"{storage.location}/{path} was removed by another process.")
    return now
