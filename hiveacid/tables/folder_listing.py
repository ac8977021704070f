"""The files of a folder as a cleaning sees them: read, pending removal, and described by notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hiveacid.records.reader_notes import read_reader_note
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.directory import AcidDirectory, FileStatus
from hiveacid.rules.names import (
    READER_NOTE_FILE,
    SIDECAR_FILE,
    UNFINISHED_PREFIX,
    Base,
    Delta,
    is_hidden,
    parse_directory,
    removal_identity,
)
from hiveacid.rules.retention import Replacement
from hiveacid.rules.sidecar import parse_note, replaced_by, written_at
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.partition_folders import PartitionFolder


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of a folder, and their state for a new reader.

    Attributes:
        folder: The folder's location.
        storage: The opened folder.
        files: All files.
        state: The ACID state for a new reader.
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
    def removals(self) -> list[str]:
        """The folders with files whose removal was not verified."""
        found = {name for name in self.names if removal_identity(name) is not None}
        return sorted(name for name in found if not self.storage.is_link(name))

    @property
    def awaiting_removal(self) -> set[str]:
        """The directories that wait for removal."""
        return {*self.state.obsolete, *self.state.aborted}

    @property
    def unread(self) -> set[str]:
        """The directories that a new reader does not open."""
        shown = {name for name in self.names if not is_hidden(name)}
        originals = {path.partition("/")[0] for path in self.state.originals}
        return (shown | self.awaiting_removal) - {self.state.base, *self.state.deltas, *originals}

    @property
    def unfinished(self) -> list[FileStatus]:
        """Unfinished notes in directories; a process that still writes one does not need it."""
        return [
            file
            for file in self.files
            if file.path.rpartition("/")[2].startswith(UNFINISHED_PREFIX)
            and file.path.endswith(READER_NOTE_FILE)
            and parse_directory(file.path.partition("/")[0]) is not None
        ]

    def reader_notes(self) -> dict[str, ReaderNote]:
        """Return the directories' notes on the readers at the time of their publication."""
        paths = [file.path for file in self.files if file.path.endswith(f"/{READER_NOTE_FILE}")]
        directories = [path.removesuffix(f"/{READER_NOTE_FILE}") for path in paths]
        notes = {directory: read_reader_note(self.storage, directory) for directory in directories}
        return {directory: note for directory, note in notes.items() if note is not None}

    @property
    def paths(self) -> set[str]:
        """All files and directories."""
        return {file.path.rstrip("/") for file in self.files} | self.names

    def replacements(self) -> list[Replacement]:
        """Return the directories whose notes list the directories they replaced, read or not."""
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
        """Return the time of a directory's newest file, if the storage reports times."""
        times = [time for _, _, time in self.storage.walk(directory) if time is not None]
        try:
            return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None
        except (ValueError, OverflowError, OSError):
            return None
