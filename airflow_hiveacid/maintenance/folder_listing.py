"""The files of a folder as a cleaning looks at them: what is read, what waits, what notes tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_hiveacid.acid.cleaning import ReaderNote
from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus
from airflow_hiveacid.acid.names import (
    READER_NOTE_FILE,
    SIDECAR_FILE,
    UNFINISHED_PREFIX,
    Base,
    Delta,
    is_hidden,
    parse_directory,
)
from airflow_hiveacid.acid.retention import Replacement
from airflow_hiveacid.acid.sidecar import parse_note, replaced_by, written_at
from airflow_hiveacid.maintenance.partition_folders import PartitionFolder
from airflow_hiveacid.records.reader_notes import read_reader_note
from airflow_hiveacid.storage.folder import ReadOnlyStorage


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of a folder, and what a new reader makes of them.

    Attributes:
        folder: Where it is.
        storage: The same, opened.
        files: All files.
        state: What a new reader sees.
    """

    folder: PartitionFolder
    storage: ReadOnlyStorage
    files: Sequence[FileStatus]
    state: AcidDirectory

    @property
    def names(self) -> set[str]:
        """The directories in the folder."""
        return {file.path.partition("/")[0] for file in self.files if "/" in file.path}

    @property
    def useless(self) -> set[str]:
        """What waits to be removed."""
        return {*self.state.obsolete, *self.state.aborted}

    @property
    def unread(self) -> set[str]:
        """What a new reader does not look at."""
        shown = {name for name in self.names if not is_hidden(name)}
        originals = {path.partition("/")[0] for path in self.state.originals}
        return (shown | self.useless) - {self.state.base, *self.state.deltas, *originals}

    @property
    def unfinished(self) -> list[FileStatus]:
        """Beginnings of notes in directories; who may still be at one does without it."""
        return [
            file
            for file in self.files
            if file.path.rpartition("/")[2].startswith(UNFINISHED_PREFIX)
            and file.path.endswith(READER_NOTE_FILE)
            and parse_directory(file.path.partition("/")[0]) is not None
        ]

    def reader_notes(self) -> dict[str, ReaderNote]:
        """The notes in the directories on who was there when they appeared."""
        paths = [file.path for file in self.files if file.path.endswith(f"/{READER_NOTE_FILE}")]
        directories = [path.removesuffix(f"/{READER_NOTE_FILE}") for path in paths]
        notes = {directory: read_reader_note(self.storage, directory) for directory in directories}
        return {directory: note for directory, note in notes.items() if note is not None}

    @property
    def paths(self) -> set[str]:
        """All files and directories."""
        return {file.path.rstrip("/") for file in self.files} | self.names

    def replacements(self) -> list[Replacement]:
        """What tells which directories it has replaced, read or not."""
        noted = {file.path for file in self.files if file.path.endswith(f"/{SIDECAR_FILE}")}
        known = filter(None, (self.state.base, *self.state.deltas, *self.state.obsolete))
        found = []
        for name in known:
            parsed = None if f"{name}/{SIDECAR_FILE}" not in noted else parse_directory(name)
            if isinstance(parsed, Base) or (
                isinstance(parsed, Delta) and parsed.statement_id is None
            ):
                content = self.storage.read_small(f"{name}/{SIDECAR_FILE}")
                note = None if content is None else parse_note(content)
                replaced = None if note is None else replaced_by(note)
                if note is not None and replaced is not None:
                    found.append(Replacement(name, replaced, written_at(note)))
        return found

    def modified(self, directory: str) -> datetime | None:
        """When the newest file of a directory was written, if the storage knows."""
        times = [time for _, _, time in self.storage.walk(directory) if time is not None]
        try:
            return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None
        except (ValueError, OverflowError, OSError):
            return None
