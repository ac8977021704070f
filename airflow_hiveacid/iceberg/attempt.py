"""The files of one attempt of an export, and the removal of those of failed attempts.

All data files of an attempt are in a folder of its own, with a note until the attempt has ended.
An attempt may be killed at any time, or may continue without its knowledge, so a folder with a note
belongs to a failed attempt only if no snapshot names the attempt and no further commit can succeed:
the catalog refuses to create a table that exists, and an update of another snapshot than the current
one. So leftovers are removed after a commit, not before.
"""

import json
import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_hiveacid.errors import StorageError
from airflow_hiveacid.storage.folder import Storage

# Properties of a snapshot.
RUN, ATTEMPT = "hiveacid.run", "hiveacid.attempt"
SOURCE, SOURCE_ID = "hiveacid.table", "hiveacid.table-id"
WRITE_ID, WRITE_IDS, TIME = "hiveacid.write-id", "hiveacid.write-ids", "hiveacid.time"
COLUMNS, FORMAT = "hiveacid.columns", "hiveacid.format"

_DATA, _METADATA = "data", "metadata"
_PREFIX = "hiveacid-"
_FOLDER = re.compile(rf"{_PREFIX}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")
_NOTE = "_attempt.json"
_TABLE_METADATA = ".metadata.json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of an export.

    Attributes:
        location: The folder of the Iceberg table.
        id: Its identity, which is also part of the names of manifests.
        parent: The snapshot that its commit must follow; None if it creates the table.
    """

    location: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    parent: int | None = None

    @property
    def folder(self) -> str:
        """The folder of its data files."""
        return f"{self.location.rstrip('/')}/{_DATA}/{_PREFIX}{self.id}"

    def begin(self, about: Mapping[str, Any]) -> None:
        """Write the note."""
        note = json.dumps({"format": 1, "parent": self.parent, **about}).encode()
        Storage.of(self.folder).write_file(_NOTE, note)

    def end(self) -> None:
        """Remove the note after the commit."""
        Storage.of(self.folder).delete_file(_NOTE)

    def undo(self) -> None:
        """Remove all files of an attempt whose commit has surely not taken place."""
        _remove(Storage.of(self.location), str(self.id), keep=())


def remove_leftovers(
    location: str,
    attempts: Collection[str],
    metadata_files: Collection[str],
    current: int | None,
) -> list[str]:
    """Remove the files of failed attempts.

    Args:
        location: The folder of an Iceberg table that an export has created.
        attempts: The attempts that the snapshots of the table name.
        metadata_files: The locations of the metadata files that the table uses.
        current: The current snapshot of the table, which a running attempt may yet follow.

    Returns:
        Failures, which a later run can mend.
    """
    storage = Storage.of(location)
    keep = {name.rpartition("/")[2] for name in metadata_files}
    failures: list[str] = []
    try:
        for folder in storage.list_directories(_DATA, missing_ok=True):
            match = _FOLDER.fullmatch(folder)
            if match is None or not storage.exists(f"{_DATA}/{folder}/{_NOTE}"):
                continue
            if match[1] in attempts:
                storage.delete_file(f"{_DATA}/{folder}/{_NOTE}")
            elif not _may_follow(storage.read_small(f"{_DATA}/{folder}/{_NOTE}"), current):
                _remove(storage, match[1], keep)
    except StorageError as error:
        failures.append(f"Files of a failed attempt remain: {error}")
    return failures


def _may_follow(note: bytes | None, current: int | None) -> bool:
    """Return whether the commit of an attempt can still succeed."""
    try:
        parent = json.loads(note or b"{}").get("parent")
    except (ValueError, AttributeError):
        # Killed while it wrote its note, before any other file.
        return False
    return parent is not None and parent == current


def _remove(storage: Storage, attempt: str, keep: Collection[str]) -> None:
    """Remove the metadata and the data files of an attempt, and its note at the end."""
    for file in storage.list_files(_METADATA, missing_ok=True):
        path = f"{_METADATA}/{file.path}"
        if file.path in keep:
            continue
        is_named = attempt in file.path and file.path.endswith(".avro")
        if is_named or (
            file.path.endswith(_TABLE_METADATA) and _names(storage.read_small(path), attempt)
        ):
            storage.delete_file(path)
    folder = f"{_DATA}/{_PREFIX}{attempt}"
    for file in storage.list_files(folder, missing_ok=True):
        if file.path != _NOTE:
            storage.delete_file(f"{folder}/{file.path}")
    storage.delete_directory(folder)


def _names(content: bytes | None, attempt: str) -> bool:
    return content is not None and attempt.encode() in content
