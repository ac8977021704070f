"""Files of one partition, or of a table without partitions, and their reading by a snapshot."""

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cache, partial
from itertools import chain
from typing import Any, BinaryIO

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile, VersionGone
from hiveacid.foreign.budget import Threads
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.directory import (
    UNKNOWN_MARKER,
    AcidDirectory,
    FileStatus,
    Rules,
    acid_state,
    parse_metadata_file,
)
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    ACID_PREFIXES,
    METADATA_FILE,
    SIDECAR_FILE,
    Base,
    BucketFile,
    Delta,
    OriginalFile,
    is_hidden,
    original_bucket,
    parse_directory,
    parse_file,
    removal_identity,
)
from hiveacid.rules.notes import disagreements, parse_note, replaced_by, written_files
from hiveacid.rules.schema import BucketLayout
from hiveacid.rules.trino import is_named_after_attempt
from hiveacid.rules.versions import PartitionVersions, Replaced
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList, WriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder

# Notes are small files, and each request to an object store takes long.
_READERS = 8
# Of a length in a side file.
_LENGTH = 8


def list_files(
    storage: ReadOnlyStorage, table: TableOfFolder | None, *, missing_ok: bool = False
) -> list[FileStatus]:
    """List everything below a partition, hidden files included.

    A base without a file also has a meaning: all rows before it are removed. It is listed by the
    name of its directory.

    Args:
        storage: The folder of the partition.
        table: The table, whose files may be hidden by the removal for an earlier one; null for a
            bare directory.
        missing_ok: Whether a missing folder counts as an empty one.

    Raises:
        DirectoryMissing: The folder does not exist.
        HiddenFiles: Files of the table are hidden.
    """
    while True:
        # One listing, as a directory that appears between two listings would seem to be empty.
        # Staging folders of other writers come and go meanwhile.
        files, directories = [], []
        for path, size, modified in storage.walk():
            if size is not None:
                is_known = storage.renames_at_once and modified is not None
                second = modified // 10**9 if modified is not None and is_known else None
                files.append(FileStatus(path, size, second))
            elif "/" not in path:
                directories.append(path)
        if not files and not directories and not missing_ok:
            storage.require_folder()
        paths = chain(directories, (file.path for file in files))
        if table is not None and table.put_back_hidden(storage, paths):
            continue
        names_with_files = {file.path.partition("/")[0] for file in files}
        empty = sorted(name for name in directories if name not in names_with_files)
        # A directory whose files were not there yet, or have been removed, would seem empty, too.
        if all(is_hidden(name) or _is_empty(storage, name) for name in empty):
            files.sort(key=lambda file: file.path)
            return files + [FileStatus(f"{name}/", 0) for name in empty]


def _is_empty(storage: ReadOnlyStorage, directory: str) -> bool:
    """Whether a directory exists without files."""
    return not storage.list_files(directory, recursive=True, missing_ok=True) and storage.exists(
        directory
    )


def read_state(
    storage: ReadOnlyStorage,
    files: Sequence[FileStatus],
    write_ids: WriteIdList,
    txns: ValidTxnList | None,
    *,
    rules: Rules,
    strict: bool = True,
    now: ValidWriteIdList | None = None,
    flat: bool = False,
) -> AcidDirectory:
    """Classify the files of a partition for a snapshot; see ``acid_state``.

    Args:
        storage: The folder of the partition.
        files: A listing of it.
        write_ids: The visible write ids of the table.
        txns: The visible transactions; None means all.
        rules: The version of Hive whose rules apply.
        strict: Whether wrong results of those rules are errors.
        now: The write ids that a new reader sees, if write_ids are an earlier version.
        flat: Whether the table is insert-only, which matters only for earlier versions.

    Raises:
        CorruptFile: A directory to be read has lost its content.
        VersionGone: A directory to be read was cleaned, or may have been.
    """

    def data_format(directory: str) -> str | None:
        return read_marker(storage, directory)

    visible_files = files
    if now is not None and now != write_ids:
        visible_files = versions_of(storage, files, now, txns, flat=flat).files_of(write_ids)
    state = acid_state(
        visible_files, write_ids, txns, rules=rules, metadata_acid=data_format, strict=strict
    )
    if len(visible_files) < len(files):
        check_kept(storage, [state])
    _check_content(storage, state)
    return state


def check_kept(storage: ReadOnlyStorage, states: Sequence[AcidDirectory]) -> None:
    """Refuse directories of earlier versions that a cleaner is removing.

    A removal of a directory removes its note last.

    Args:
        storage: The folder of the partition.
        states: The states read from one listing.

    Raises:
        CorruptFile: A file of a directory is missing.
        VersionGone: A directory was removed after it was listed.
    """
    names = sorted({name for state in states for name in (state.base, *state.deltas) if name})
    notes = read_notes(storage, states[0], names)
    for name in names:
        # Without a note, nothing shows that files were missing already when they were listed.
        note = None if name in notes else states[0].sidecar(name)
        if note is not None and not storage.exists(note.path):
            raise VersionGone(f"{storage.location.rstrip('/')}/{name} was removed meanwhile.")
    check_notes(storage, states[0], notes)


def versions_of(
    storage: ReadOnlyStorage,
    files: Sequence[FileStatus],
    now: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    flat: bool,
) -> PartitionVersions:
    """Return the readable versions of a partition; see ``PartitionVersions``."""
    # Several rules need the same note.
    read_replaced = cache(partial(_read_replaced, storage))
    return PartitionVersions(storage.location, files, now, txns, flat, read_replaced)


def _read_replaced(storage: ReadOnlyStorage, directory: str) -> Replaced | None:
    """Read from a note the directories that a base, or the delta of a compaction, replaced."""
    note = _read_note(storage, f"{directory}/{SIDECAR_FILE}")
    return None if note is None else replaced_by(note)


def read_marker(storage: ReadOnlyStorage, directory: str) -> str | None:
    """Return the data format in the marker file of a base; None if it was removed meanwhile.

    Writers publish a base with its complete marker file, and only a removal of the base removes it.

    Raises:
        CorruptFile: The content is invalid or too long.
    """
    path = f"{directory}/{METADATA_FILE}"
    content = storage.read_small(path)
    if content is not None:
        return parse_metadata_file(content.decode(errors="replace"))
    if storage.exists(path):
        raise CorruptFile(f"{storage.location}/{path} cannot be read.", remedy=UNKNOWN_MARKER)
    return None


def read_notes(
    storage: ReadOnlyStorage, state: AcidDirectory, names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return the notes of directories of this package, by their names.

    Args:
        storage: The folder of the partition.
        state: The state of the partition.
        names: The directories; those of other writers have no note and are skipped.
    """
    noted = [note.path for note in map(state.sidecar, names) if note is not None]
    with Threads(_READERS) as pool:
        notes = list(pool.map(partial(_read_note, storage), noted))
    return {
        path.partition("/")[0]: note
        for path, note in zip(noted, notes, strict=True)
        if note is not None
    }


def read_layouts(storage: ReadOnlyStorage, directory: str) -> dict[tuple[str, int], BucketLayout]:
    """Read from the note of a directory how the rows of its files were distributed.

    Returns:
        The layout by the path and the size of each file that the note lists; empty if the note
        records no layout.
    """
    note = _read_note(storage, f"{directory}/{SIDECAR_FILE}")
    layout = None if note is None else BucketLayout.of_note(note)
    if note is None or layout is None:
        return {}
    return {(f"{directory}/{file.name}", file.bytes): layout for file in written_files(note) or ()}


def check_notes(
    storage: ReadOnlyStorage, state: AcidDirectory, notes: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """Compare directories of this package with their notes.

    Args:
        storage: The folder of the partition.
        state: The state of the partition.
        notes: See ``read_notes``.

    Returns:
        The expected number of rows of each file, by path, if noted.

    Raises:
        CorruptFile: A file is missing, has another size, or is not in the note.
    """
    rows: dict[str, int] = {}
    for directory, note in notes.items():
        files = written_files(note)
        if files is None:
            continue
        if problems := disagreements(directory, files, state.files(directory)):
            addition = f" And {len(problems) - 1} more like this." if len(problems) > 1 else ""
            raise CorruptFile(
                f"{storage.location.rstrip('/')}/{problems[0]}{addition} The note {SIDECAR_FILE} of the"
                " directory records this."
            )
        rows |= {f"{directory}/{file.name}": file.rows for file in files}
    return rows


def _read_note(storage: ReadOnlyStorage, path: str) -> dict[str, Any] | None:
    content = storage.read_small(path)
    return None if content is None else parse_note(content)


def _check_content(storage: ReadOnlyStorage, state: AcidDirectory) -> None:
    """Refuse damage that a listing shows."""
    for name in filter(None, (state.base, *state.deltas)):
        files = state.files(name)
        if not files and state.sidecar(name) is not None:
            raise lost_files(storage, name)
        for file in files:
            if file.size == 0 and state.flush_lengths(file) is None:
                require_content(storage, file.path)


def lost_files(storage: ReadOnlyStorage, directory: str) -> CorruptFile:
    """Return the error for a directory whose note names files, and that has none."""
    return CorruptFile(f"{storage.location.rstrip('/')}/{directory} has lost all its files.")


def require_content(storage: ReadOnlyStorage, path: str) -> None:
    """Refuse an empty file without the side file of a streaming writer, which begins with one.

    Others leave empty files of plain rows; a file with row ids has at least a tail.

    Raises:
        CorruptFile: It is a file with row ids.
    """
    if isinstance(parse_file(path.rpartition("/")[2]), BucketFile):
        raise CorruptFile(
            f"{storage.location.rstrip('/')}/{path} is empty; not even a file without rows is."
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """File that a snapshot reads.

    Attributes:
        path: Relative to the partition's folder.
        size: The number of valid bytes: all, unless the file is cut off.
        directory: The base or delta of the file; None for files that are older than both.
        bucket: The bucket number in its name; None for a name without one, which is valid only for
            files without row ids.
        raw: Whether the file has only the table's columns and no row ids: see ``rules.directory.synthetic_ids``.
        cut_off: Whether the file continues after its valid content, because a streaming writer
            still writes it, or was killed.
        modified: See ``FileStatus``; null for a file that a streaming writer may continue.
    """

    path: str
    size: int
    directory: Base | Delta | None
    bucket: int | None
    raw: bool = False
    cut_off: bool = False
    modified: int | None = field(default=None, compare=False)


def data_files(storage: ReadOnlyStorage, state: AcidDirectory) -> Iterator[DataFile]:
    """Return the files that a snapshot reads of a full ACID table, in Hive's order.

    Raises:
        UnsupportedFile: A file in a base or a delta has an unknown name.
    """
    for original in state.files(""):
        bucket = original_bucket(original.path)
        yield DataFile(
            original.path, original.size, None, bucket, raw=True, modified=original.modified
        )
    for name in filter(None, (state.base, *state.deltas)):
        directory = parse_directory(name)
        assert directory is not None, name
        raw: bool | None = None
        for status in state.files(name):
            length = _length(storage, state, directory, status)
            if length <= 0:
                continue
            file = parse_file(status.path.rpartition("/")[2])
            if file is None:
                raise UnsupportedFile(
                    f"{storage.location}/{status.path} is in a directory of Hive, but its name is "
                    "not one of Hive's.",
                    remedy="Identify its writer, and move it away.",
                )
            plainly_named = isinstance(file, OriginalFile)
            if plainly_named and raw is None:
                # All files of a directory have one writer: as in Hive, one file is examined.
                raw = _is_raw(storage, directory, status)
            yield DataFile(
                status.path,
                length,
                directory,
                file.bucket,
                raw=plainly_named and bool(raw),
                cut_off=length != status.size,
                modified=None if state.flush_lengths(status) is not None else status.modified,
            )


def open_data(storage: ReadOnlyStorage, file: DataFile) -> BinaryIO:
    """Open the valid content of a file; the caller closes it."""
    source = storage.open_input(file.path)
    if not file.cut_off:
        return source
    with source:
        return io.BytesIO(source.read(file.size))


def read_tail(storage: ReadOnlyStorage, path: str, length: int | None = None) -> OrcTail:
    """Read the ORC tail at the end of a file, or of its valid part.

    Raises:
        CorruptFile: The file is not an ORC file.
    """
    try:
        with storage.open_input(path) as source:
            return OrcTail.read(source, length)
    except CorruptFile as error:
        message = f"{storage.location.rstrip('/')}/{path} cannot be read as ORC: {error.what}"
        raise CorruptFile(message, remedy=error.remedy) from error


def _length(
    storage: ReadOnlyStorage, state: AcidDirectory, directory: Base | Delta, file: FileStatus
) -> int:
    """Return the number of valid bytes of a file.

    A streaming writer appends to one file in several transactions, and records the valid length in
    a side file. A side file without a number means that no byte is valid.
    """
    if (
        isinstance(directory, Base)
        or directory.is_delete
        or directory.visibility_txn
        or directory.min_write_id == directory.max_write_id
    ):
        return file.size
    note = state.flush_lengths(file)
    if note is None:
        return file.size
    with storage.open_input(note.path) as lengths:
        # By itself: while its writer appends, it may be longer than in the listing.
        whole = lengths.seek(0, os.SEEK_END) // _LENGTH
        lengths.seek(max(whole - 1, 0) * _LENGTH)
        return int.from_bytes(lengths.read(_LENGTH), "big", signed=True) if whole else 0


def _is_raw(storage: ReadOnlyStorage, directory: Base | Delta, file: FileStatus) -> bool:
    """Whether a file with the name of an original has no row ids, judged by its columns."""
    if isinstance(directory, Delta) and directory.is_delete:
        return False
    raw = not read_tail(storage, file.path).is_acid
    if raw and isinstance(directory, Delta) and directory.min_write_id != directory.max_write_id:
        raise UnsupportedFile(
            f"{storage.location}/{file.path} has no row ids, and its directory several write ids.",
            remedy="Such a directory belongs to an insert-only table.",
        )
    return raw


# Sizes of all directories below a folder, from one listing.
#
# A table may have hundreds of thousands of files, so the work per file is small.


# Name for the files of a partition outside of any ACID directory, which are older than the
# conversion of the table to a transactional one.
ORIGINALS = ""

_NANOSECONDS_PER_HOUR = 3600 * 10**9
# Each listing takes long on an object store.
_LISTERS = 8


@dataclass(slots=True)
class DirectorySizes:
    """Sizes of all directories below a folder, by path.

    Attributes:
        storage: The folder.
        bytes: The size of the data files of a directory.
        written: The time of one of these files, in nanoseconds since 1970.
        marked: The directories with the marker file of a base.
        noted: The directories with a note of this package, and the time of the note.
        with_attempts: The directories with a file that is named after a task attempt.
        empty: The names of the files of no bytes in a directory.
        unlisted: The directories known by name only.
        removals: The folders of unfinished removals, of any table.
    """

    storage: ReadOnlyStorage
    bytes: dict[str, int] = field(default_factory=dict)
    written: dict[str, int | None] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    noted: dict[str, int | None] = field(default_factory=dict)
    with_attempts: set[str] = field(default_factory=set)
    empty: dict[str, list[str]] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    removals: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, location: Location) -> "DirectorySizes":
        """List a folder."""
        sizes = cls(ReadOnlyStorage.of(location))
        sizes._take(sizes.storage.walk())
        return sizes

    @classmethod
    def names_in(cls, location: Location) -> "DirectorySizes":
        """List the names of the directories in a folder, without their content."""
        storage = ReadOnlyStorage.of(location)
        names = storage.list_directories(missing_ok=True)
        return cls(storage, dict.fromkeys(names, 0), unlisted=set(names))

    def list_contents(self, names: Iterable[str]) -> None:
        """List the content of directories known by name only; some may be missing by now."""
        new = self.unlisted.intersection(names)
        with Threads(_LISTERS) as pool:
            listings = pool.map(lambda name: list(self.storage.walk(name)), new)
            for name, contents in zip(new, listings, strict=True):
                if contents or self.storage.exists(name):
                    self._take(contents)
                else:
                    del self.bytes[name]
        self.unlisted -= new

    def _take(self, contents: Iterable[tuple[str, int | None, int | None]]) -> None:
        for path, size, modified in contents:
            if size is None:
                self.bytes.setdefault(path, 0)
                if removal_identity(path.rpartition("/")[2]) is not None:
                    self.removals.add(path)
                continue
            directory, _, name = path.rpartition("/")
            if is_hidden(name):
                if name == METADATA_FILE:
                    self.marked.add(directory)
                elif name == SIDECAR_FILE:
                    self.noted[directory] = modified
                continue
            if directory not in self.with_attempts and is_named_after_attempt(name):
                self.with_attempts.add(directory)
            if not size:
                self.empty.setdefault(directory, []).append(name)
            self.bytes[directory] = self.bytes.get(directory, 0) + size
            self.written[directory] = modified

    def contents(self, partitions: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the sizes of each partition's directories, by name and by the partition's path.

        Args:
            partitions: The paths of the partitions' folders; "" is the folder itself.
        """
        contents: dict[str, dict[str, int]] = {partition: {} for partition in partitions}
        for path, size in self.bytes.items():
            partition, _, directory = path.rpartition("/")
            if partition not in contents or path in contents:
                split = _split(path, contents)
                if split is None:
                    continue
                partition, directory = split
            if not directory.startswith(ACID_PREFIXES):
                if is_hidden(directory):
                    continue
                directory = ORIGINALS
            sizes = contents[partition]
            sizes[directory] = sizes.get(directory, 0) + size
        return contents

    def age(self, paths: Iterable[str], now: datetime) -> float | None:
        """Return the age in hours of the oldest of some directories, if known."""
        return self.ages(paths, now)[0]

    def ages(self, paths: Iterable[str], now: datetime) -> tuple[float | None, float | None]:
        """Return the ages in hours of the oldest and the newest of some directories, if known."""
        times = [time for time in map(self.written.get, paths) if time is not None]
        if not times:
            return None, None
        nanoseconds = now.timestamp() * 10**9
        oldest, newest = (
            max(0.0, (nanoseconds - time) / _NANOSECONDS_PER_HOUR)
            for time in (min(times), max(times))
        )
        return oldest, newest


def parted(
    folder: Location, locations: Mapping[str, Location]
) -> tuple[dict[str, str | None], dict[str, Location]]:
    """Separate the partitions in a table's folder, which one listing covers, from all others.

    Args:
        folder: The folder of the table.
        locations: The locations of the partitions, by their names.

    Returns:
        The names of the partitions in the folder by their paths below it, and the locations of the
        others by their names.
    """
    root = f"{folder.rstrip('/')}/"
    locations_inside: dict[str, str | None] = {}
    locations_outside = {}
    for name, location in locations.items():
        if location.startswith(root):
            locations_inside[location.removeprefix(root)] = name
        else:
            locations_outside[name] = location
    return locations_inside, locations_outside


def _split(path: str, contents: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the partition of a path and the directory within the partition."""
    if path in contents:
        return path, ORIGINALS
    while path:
        path, _, directory = path.rpartition("/")
        if path in contents:
            return path, directory
    return None
