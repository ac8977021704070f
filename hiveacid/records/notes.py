"""Reader of the notes of jobs beside the files of a table's writes, or else of ORC footers."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from hiveacid.errors import DataError, StorageError
from hiveacid.orc.format.tail import FooterField
from hiveacid.records.directories import HistoryDirectory, Trace, TraceKey
from hiveacid.rules.names import SIDECAR_FILE, is_hidden
from hiveacid.rules.sidecar import parse_note, written_files
from hiveacid.storage.directory_sizes import DirectorySizes
from hiveacid.storage.listing import read_tail

# Notes are small files, and each request to an object store takes long.
_READERS = 8
# Notes of this package have some hundred bytes; forged ones may have a megabyte each. The limit for
# calls without a time limit is as large as the notes of the largest table.
_MOST_BYTES, _MOST_BYTES_OF_ALL = 32 << 20, 256 << 20
# Writer codes in ORC footers; many programs use the library with code 0.
_ORC_JAVA, _ENGINES = 0, {2: "Presto", 4: "Trino"}


class NoteReading:
    """Reads notes and footers, within limits of time and size.

    Args:
        seconds: The time limit.
        since: Writes before this time only need to be known as older; in seconds since 1970.
    """

    def __init__(self, seconds: float, since: float | None) -> None:
        self.since = since
        self._deadline = time.monotonic() + seconds
        self._most = _MOST_BYTES if seconds < float("inf") else _MOST_BYTES_OF_ALL
        self._bytes = 0
        self._places: dict[str | None, tuple[DirectorySizes, str]] = {}

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._deadline

    def know(self, partition: str | None, folder: DirectorySizes, prefix: str) -> None:
        """Register the folder of a partition and the path prefix of its directories."""
        self._places[partition] = folder, prefix

    def notes_of(self, traces: Sequence[Trace]) -> dict[TraceKey, dict[str, Any]]:
        """Return one note per trace, by key: notes of one trace differ only in their files."""
        with ThreadPoolExecutor(_READERS) as pool:
            notes = pool.map(self._note_of, traces)
            pairs = zip(traces, notes, strict=True)
            return {trace.key: note for trace, note in pairs if note is not None}

    def with_details(self, directories: Iterable[HistoryDirectory]) -> list[HistoryDirectory]:
        """Return the directories with rows from their notes, or engines from their footers."""
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(self._with_details, directories))

    def _note_of(self, trace: Trace) -> dict[str, Any] | None:
        if trace.write_id is not None:
            own = [each for each in trace.directories if each.first_write_id == each.last_write_id]
        else:
            own = trace.directories
        notes = (self._note(each) for each in own)
        note = next((note for note in notes if note is not None), None)
        # The list of files may be the largest part by far, and the number of notes is high.
        return note and {name: part for name, part in note.items() if name != "files"}

    def _note(self, directory: HistoryDirectory) -> dict[str, Any] | None:
        if not self._is_noted(directory) or self._is_older(directory) or self._enough:
            return None
        folder, prefix = self._places[directory.partition]
        content = folder.storage.read_small(f"{prefix}{directory.name}/{SIDECAR_FILE}")
        # Concurrent updates of several threads may make it inexact, which is sufficient.
        self._bytes += len(content or b"")
        return None if content is None else parse_note(content)

    def _is_noted(self, directory: HistoryDirectory) -> bool:
        folder, prefix = self._places[directory.partition]
        return f"{prefix}{directory.name}" in folder.noted

    def _is_older(self, directory: HistoryDirectory) -> bool:
        """Whether a write is older than requested, by its files and its later note."""
        if self.since is None or directory.compaction or directory.time is None:
            return False
        folder, prefix = self._places[directory.partition]
        noted = folder.noted[f"{prefix}{directory.name}"]
        return bool(noted and max(directory.time, noted / 1e9) < self.since)

    @property
    def _enough(self) -> bool:
        return self.late or self._bytes > self._most

    def _with_details(self, directory: HistoryDirectory) -> HistoryDirectory:
        note = self._note(directory)
        if note is not None:
            written = written_files(note)
            rows = None if written is None else sum(file.rows for file in written)
            return replace(directory, rows=rows)
        if self._is_noted(directory) or self._enough:
            return directory
        return replace(directory, engine=self._engine(directory))

    def _engine(self, directory: HistoryDirectory) -> str | None:
        """Return the engine that wrote a directory without a note, if a file names it."""
        folder, prefix = self._places[directory.partition]
        storage, path = folder.storage, f"{prefix}{directory.name}"
        try:
            files = storage.list_files(path, missing_ok=True)
            name = next(
                (file.path for file in files if file.size and not is_hidden(file.path)), None
            )
            if name is None:
                return None
            tail = read_tail(storage, f"{path}/{name}")
        except (DataError, StorageError):
            return None  # The file has another format, or is missing.
        if FooterField.WRITER not in {number for number, *_ in tail.footer.fields}:
            return None
        writer = tail.footer.number(FooterField.WRITER)
        if writer == _ORC_JAVA and "hive.acid.version" in tail.user_metadata:
            return "Hive"
        return _ENGINES.get(writer)
