"""Note in a directory that replaced others, on transactions and locks that could still read them.

A compaction writes it right after its commit. If the note is missing (Hive compacted, a table was
overwritten, a driver was killed), the first cleaning that finds a blocker writes one. That note
names later readers as well, so it is equally safe.
"""

from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.names import READER_NOTE_FILE, TableRef
from hiveacid.storage.folder import ReadOnlyStorage, Storage


def note_readers(client: MetastoreClient, storage: Storage, directory: str, ref: TableRef) -> None:
    """Record the possible readers of the directories that a directory has replaced.

    Args:
        client: The metastore.
        storage: The folder of the directory.
        directory: A base or a delta that every new reader sees by now. A directory that has been
            removed, or has a note, is not changed.
        ref: Its table.
    """
    # In this order, every lock that belongs to a transaction belongs to one up to the watermark.
    locks = {lock.lock_id for lock in client.show_locks(ref)}
    since = ReaderNote(client.get_open_txns().high_watermark, tuple(sorted(locks)))
    # Last: a note must not bring back a directory, because an empty base hides all rows.
    if not storage.exists(directory) or read_reader_note(storage, directory) is not None:
        return
    storage.write_file(f"{directory}/{READER_NOTE_FILE}", since.to_json().encode(), replace=True)


def read_reader_note(storage: ReadOnlyStorage, directory: str) -> ReaderNote | None:
    """Return the note in a directory; None if it is missing or incomplete.

    Args:
        storage: The folder of the directory.
        directory: A base or a delta.
    """
    content = storage.read_small(f"{directory}/{READER_NOTE_FILE}")
    return None if content is None else ReaderNote.parse(content)
