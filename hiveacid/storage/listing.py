"""Files of one partition, or of a table without partitions, and their reading by a snapshot."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, BinaryIO

from hiveacid.errors import BadMetadataFile, CorruptFile, UnsupportedFile, VersionGone
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.bucket_layout import BucketLayout
from hiveacid.rules.directory import (
    AcidDirectory,
    FileStatus,
    Rules,
    acid_state,
    parse_metadata_file,
)
from hiveacid.rules.names import (
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
)
from hiveacid.rules.sidecar import disagreements, parse_note, replaced_by, written_files
from hiveacid.rules.versions import PartitionVersions, Replaced
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList, WriteIdList
from hiveacid.storage.folder import ReadOnlyStorage

# Notes are small files, and each request to an object store takes long.
_READERS = 8
_RESTORE = (
    "Bring the file back from a copy, a snapshot of the file system or its trash; without it, rows"
    " are lost."
)


def list_files(storage: ReadOnlyStorage, *, missing_ok: bool = False) -> list[FileStatus]:
    """List everything below a partition, hidden files included.

    A base without a file also has a meaning: all rows before it are removed. It is listed by the
    name of its directory.

    Args:
        storage: The folder of the partition.
        missing_ok: Whether a missing folder counts as an empty one.

    Raises:
        DirectoryMissing: The folder does not exist.
    """
    while True:
        # One listing, as a directory that appears between two listings would seem to be empty.
        # Staging folders of other writers come and go meanwhile.
        files, directories = [], []
        for path, size, _ in storage.walk():
            if size is not None:
                files.append(FileStatus(path, size))
            elif "/" not in path:
                directories.append(path)
        if not files and not directories and not missing_ok:
            storage.require_folder()
        filled = {file.path.partition("/")[0] for file in files}
        empty = sorted(name for name in directories if name not in filled)
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

    kept = files
    if now is not None and now != write_ids:
        kept = versions_of(storage, files, now, txns, flat=flat).files_of(write_ids)
    state = acid_state(kept, write_ids, txns, rules=rules, metadata_acid=data_format, strict=strict)
    if len(kept) < len(files):
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
    replaced = cache(partial(_read_replaced, storage))
    return PartitionVersions(storage.location, files, now, txns, flat, replaced)


def _read_replaced(storage: ReadOnlyStorage, directory: str) -> Replaced | None:
    """Read from a note the directories that a base, or the delta of a compaction, replaced."""
    note = _read_note(storage, f"{directory}/{SIDECAR_FILE}")
    return None if note is None else replaced_by(note)


def read_marker(storage: ReadOnlyStorage, directory: str) -> str | None:
    """Return the data format in the marker file of a base; None if it was removed meanwhile.

    Writers publish a base with its complete marker file, and only a removal of the base removes it.

    Raises:
        BadMetadataFile: The content is invalid or too long.
    """
    path = f"{directory}/{METADATA_FILE}"
    content = storage.read_small(path)
    if content is not None:
        return parse_metadata_file(content.decode(errors="replace"))
    if storage.exists(path):
        raise BadMetadataFile(f"{storage.location}/{path} cannot be read.")
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
    with ThreadPoolExecutor(_READERS) as pool:
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
        written = written_files(note)
        if written is None:
            continue
        if problems := disagreements(directory, written, state.files(directory)):
            more = f" And {len(problems) - 1} more like this." if len(problems) > 1 else ""
            raise CorruptFile(
                f"{storage.location.rstrip('/')}/{problems[0]}{more} The note {SIDECAR_FILE} of the"
                " directory records this.",
                remedy=_RESTORE,
            )
        rows |= {f"{directory}/{file.name}": file.rows for file in written}
    return rows


def _read_note(storage: ReadOnlyStorage, path: str) -> dict[str, Any] | None:
    content = storage.read_small(path)
    return None if content is None else parse_note(content)


def _check_content(storage: ReadOnlyStorage, state: AcidDirectory) -> None:
    """Refuse damage that a listing shows."""
    for name in filter(None, (state.base, *state.deltas)):
        files = state.files(name)
        if not files and state.sidecar(name) is not None:
            raise CorruptFile(
                f"{storage.location.rstrip('/')}/{name} has lost all its files.", remedy=_RESTORE
            )
        for file in files:
            # Others leave empty files of plain rows; a file with row ids has at least a tail.
            # Only a streaming writer begins with an empty file, which a side file records.
            if (
                file.size == 0
                and isinstance(parse_file(file.path.rpartition("/")[2]), BucketFile)
                and state.flush_lengths(file) is None
            ):
                raise CorruptFile(
                    f"{storage.location.rstrip('/')}/{file.path} is empty; not even a file without"
                    " rows is.",
                    remedy=_RESTORE,
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
        raw: Whether the file has only the table's columns and no row ids: see ``acid.originals``.
        cut_off: Whether the file continues after its valid content, because a streaming writer
            still writes it, or was killed.
    """

    path: str
    size: int
    directory: Base | Delta | None
    bucket: int | None
    raw: bool = False
    cut_off: bool = False


def data_files(storage: ReadOnlyStorage, state: AcidDirectory) -> Iterator[DataFile]:
    """Return the files that a snapshot reads of a full ACID table, in Hive's order.

    Raises:
        UnsupportedFile: A file in a base or a delta has an unknown name.
    """
    for original in state.files(""):
        bucket = original_bucket(original.path)
        yield DataFile(original.path, original.size, None, bucket, raw=True)
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
        what = f"{storage.location.rstrip('/')}/{path} cannot be read as ORC: {error.what}"
        raise CorruptFile(what, remedy=error.remedy) from error


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
        trailer = lengths.read()
    whole = len(trailer) // 8 * 8
    return int.from_bytes(trailer[whole - 8 : whole], "big", signed=True) if whole else 0


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
