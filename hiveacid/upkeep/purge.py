"""Removal of everything that this package has left in a table, for an uninstallation.

Directories and files of Hive, and the rows in them, are never touched. As in a cleaning, folders are
hidden first, and deleted after the metastore confirmed the table and the lock once more.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import LockTimeout, StorageError, UserError
from hiveacid.metastore.alteration import alter_table, mark_changed
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import other_locations, partition_locations
from hiveacid.metastore.table_rules import existing_table, require_same_table
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.records.store import table_folders
from hiveacid.rules.cleaning import stale_staging
from hiveacid.rules.names import (
    ACID_PREFIXES,
    READER_NOTE_FILE,
    REMOVAL_PREFIX,
    SIDECAR_FILE,
    STAGING_PREFIX,
    UNFINISHED_PREFIX,
    TableRef,
    removal_identity,
    staging_txn,
)
from hiveacid.rules.run_tokens import marked_token
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import Removal
from hiveacid.tables.locations import PartitionFolder, TableFolders
from hiveacid.upkeep.table_cleaning import Confirmation

_PREFIX = "hiveacid."
_LOCK_WAIT_SECONDS = 60
_STAGED = "nothing: files of transactions that have ended"
_OF_DIRECTORIES = "earlier versions, users and tasks of writes, the detection of lost files"
_OF_PROPERTIES = "settings, such as the retention of earlier versions"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Files, or a property, that this package has left in a table.

    Attributes:
        path: The path below the table's folder, or the name of the property.
        loss: The consequence of its removal.
        files: The number of files.
        bytes: Their size.
    """

    path: str
    loss: str
    files: int = 0
    bytes: int = 0


@dataclass
class _Folder:
    """The files of this package in one folder of a table.

    Attributes:
        folder: The folder.
        names: The names of files and folders, by the directory of Hive that they are in, or "".
        listed: The entries for the user, by their paths.
    """

    folder: PartitionFolder
    names: dict[str, set[str]] = field(default_factory=dict)
    listed: dict[str, Leftover] = field(default_factory=dict)

    def add(self, directory: str, name: str, loss: str, size: int | None) -> None:
        self.names.setdefault(directory, set()).add(name)
        path = self.folder.show(f"*/{SIDECAR_FILE}" if directory else name)
        leftover = self.listed.get(path, Leftover(path, loss))
        self.listed[path] = replace(
            leftover, files=leftover.files + (size is not None), bytes=leftover.bytes + (size or 0)
        )


def leftovers(client: MetastoreClient, ref: TableRef) -> list[Leftover]:
    """List everything that this package has left in a table.

    Args:
        client: The metastore.
        ref: The table.

    Raises:
        LockTimeout: A job of this package works on the table.
        SharedLocation: Another table has, or may have, files in its folders.
    """
    table = existing_table(client, ref)
    return _listed(table, _Purge(client, table).find())


def purge(
    client: MetastoreClient, ref: TableRef, *, lock_wait_seconds: float = _LOCK_WAIT_SECONDS
) -> list[Leftover]:
    """Remove everything that this package has left in a table.

    Args:
        client: The metastore.
        ref: The table.
        lock_wait_seconds: The longest wait for users of the table.

    Returns:
        The removed files and properties.

    Raises:
        LockTimeout: A job works on the table.
        SharedLocation: Another table has, or may have, files in its folders.
        TableReplaced: The table was dropped, moved, or created again meanwhile.
        TransactionAborted: The lock was lost.
    """
    table = existing_table(client, ref)
    _Purge(client, table).find()  # Refuses before it makes others wait.
    with ExclusiveTable(client, ref, None, lock_wait_seconds) as lock:
        confirm = Confirmation(client, table, lock)
        current = require_same_table(client, table)
        work = _Purge(client, current)
        contents = work.find()
        work.remove(contents, confirm, lock.txn_id)
        alter_table(client, current, _forget_properties, lock.confirm_alive)
        removed = _listed(current, contents)
        if leftovers := _listed(require_same_table(client, current), work.left()):
            raise StorageError(
                f"{len(leftovers)} of {len(removed)} leftovers in {ref} were not removed: {leftovers[0].path}",
                remedy="Stop the jobs that write the table, and run the command again.",
            )
    return removed


class _Purge:
    """Finds and removes the files of this package in the folders of one table."""

    def __init__(self, client: MetastoreClient, table: HiveTable) -> None:
        self._client = client
        self._table = table

    def find(self) -> list[_Folder]:
        """Find the files, if nobody else has files in the folders, and no job is at work."""
        folders = self._folders()
        folders.require_unshared(other_locations(self._client, self._table))
        contents = self._found_in(folders)
        self._require_idle(contents)
        return contents

    def left(self) -> list[_Folder]:
        """Find the files that remain."""
        return self._found_in(self._folders())

    def _folders(self) -> TableFolders:
        table = self._table
        return TableFolders(
            table, partition_locations(self._client, table) if table.partition_keys else {}
        )

    def _found_in(self, folders: TableFolders) -> list[_Folder]:
        table = self._table
        contents = [self._find(folder) for folder in folders.folders]
        if table.partition_keys:
            # Partitions may lie in it, and have their own entry.
            root = PartitionFolder(None, table.folder, table.folder, "")
            contents.append(self._find(root, recursive=False))
        return contents

    def remove(self, contents: list[_Folder], confirm: Confirmation, txn_id: int) -> None:
        """Remove the files that were found."""
        removals: list[Removal] = []
        exposed: list[tuple[Storage, str]] = []
        try:
            for content in contents:
                storage = Storage.of(content.folder.location)
                for directory, names in content.names.items():
                    if not storage.renames_at_once:  # No store can hide files.
                        exposed += [(storage, f"{directory}/{name}".lstrip("/")) for name in names]
                        continue
                    removals.append(removal := Removal(storage, self._table.identity, directory))
                    for name in names:
                        confirm()
                        removal.hide(name)
            # From now on, everything hidden is known to be of this table.
            confirm(anew=True)
        except BaseException:
            for removal in removals:
                removal.put_back()
            raise
        for removal in removals:
            removal.delete(txn_id)
        for storage, path in exposed:
            confirm()
            is_directory = storage.is_directory(path)
            (storage.delete_directory if is_directory else storage.delete_file)(path)

    def _find(self, folder: PartitionFolder, *, recursive: bool = True) -> _Folder:
        content = _Folder(folder)
        if folder.leads_through_link():
            return content
        storage = Storage.of(folder.location)
        for name in storage.list_directories(missing_ok=True):
            if storage.is_link(name):
                continue
            if (loss := self._loss(name)) is not None:
                content.add("", name, loss, None)
                for _, size, _ in storage.walk(name):
                    content.add("", name, loss, size)
            elif recursive and name.startswith(ACID_PREFIXES):
                for path, size, _ in storage.walk(name):
                    child = path.split("/")[1]
                    if _is_note(child):
                        content.add(name, child, _OF_DIRECTORIES, size)
        return content

    def _loss(self, name: str) -> str | None:
        """Return the loss with a folder of this package; None for others."""
        if (identity := removal_identity(name)) is not None:
            if not identity.is_same(self._table.identity):
                raise UserError(
                    f"{self._table.ref} has hidden files of an earlier table: {name}.",
                    remedy=f"hiveacid clean {self._table.ref} puts them back.",
                )
            return _STAGED
        return _STAGED if staging_txn(name) is not None else table_folders().get(name)

    def _require_idle(self, contents: list[_Folder]) -> None:
        """Require that no transaction of this package that writes the table is open.

        Called after the listing: a transaction that begins later has not staged what was listed.
        """
        snapshot = Snapshot.take(self._client, [])
        names = {name for content in contents for name in content.names.get("", ())}
        names -= {*stale_staging(names, snapshot.txns, snapshot.min_open)}
        live = {txn for name in names if (txn := staging_txn(name)) is not None}
        mark = marked_token("", [self._table.ref.full_name])
        live |= {
            txn.txn_id
            for txn in self._client.get_open_txns_info()
            if txn.state is TxnState.OPEN and txn.token.endswith(mark)
        }
        if live:
            raise LockTimeout(
                f"A job of this package works on {self._table.ref}: transaction {min(live)}.",
                remedy="Wait for its end, or stop it: hiveacid txns shows its owner.",
            )


def _listed(table: HiveTable, contents: list[_Folder]) -> list[Leftover]:
    return [
        *(leftover for folder in contents for leftover in folder.listed.values()),
        *(Leftover(name, _OF_PROPERTIES) for name in _own_properties(table.parameters)),
    ]


def _own_properties(parameters: Mapping[str, str]) -> list[str]:
    return sorted(name for name in parameters if name.lower().startswith(_PREFIX))


def _forget_properties(raw: Any) -> bool:
    names = _own_properties(raw.parameters)
    for name in names:
        del raw.parameters[name]
    if names:
        mark_changed(raw)
    return bool(names)


def _is_note(name: str) -> bool:
    """Return whether a file, or a folder with such, in a directory of Hive is of this package."""
    notes = (SIDECAR_FILE, READER_NOTE_FILE)
    is_unfinished = name.startswith(UNFINISHED_PREFIX) and name.endswith(notes)
    return name in notes or is_unfinished or name.startswith((REMOVAL_PREFIX, STAGING_PREFIX))
