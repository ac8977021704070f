"""Note in each directory of this package, with its writer and its files.

Other programs may lose a file, cut it off or add one, and a reader would take the result for other
rows. The list of files in the note shows the difference. Any user may have changed the note itself:
an invalid list is ignored, and so is the list of a later format, whose meaning is unknown to this
version. Files are then read without a comparison, like those of other writers. Unknown fields are
ignored.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.names import LARGEST_NOTE, Delta, parse_directory
from hiveacid.rules.versions import Replaced
from hiveacid.rules.write_ids import Range, WriteIdList

# The field of a compaction's note with the merged writes: see ``acid.write_facts``.
MERGED_WRITES = "writes"

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """File as its writer left it.

    Attributes:
        name: Its name.
        rows: The number of rows or delete events in it.
        bytes: Its size.
    """

    name: str
    rows: int
    bytes: int


def directory_note(note: Mapping[str, Any], files: Iterable[WrittenFile]) -> bytes:
    """Return the note of a directory, in a size that readers accept.

    Of a longer note, the parts that are needed least are omitted.

    Args:
        note: The writer, the operation and the other fields.
        files: All its data files.
    """
    listed = {file.name: {"rows": file.rows, "bytes": file.bytes} for file in files}
    whole = {"format": _FORMAT, **note, "files": listed}
    shortened = (
        whole.keys(),
        whole.keys() - {MERGED_WRITES},
        whole.keys() - {MERGED_WRITES, "files"},
        {"format", "run_token", "txn_id", "write_id"},
        {"format", "txn_id", "write_id"},
    )
    texts = (
        json.dumps({name: part for name, part in whole.items() if name in kept}, indent=1).encode()
        for kept in shortened
    )
    return next(text for text in texts if len(text) <= LARGEST_NOTE)


def parse_note(text: bytes) -> dict[str, Any] | None:
    """Parse a note of this package; None for any other content."""
    if len(text) > LARGEST_NOTE:
        return None
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def written_files(note: Mapping[str, Any]) -> tuple[WrittenFile, ...] | None:
    """Return the files that a note lists; None for a missing or invalid list or a later format."""
    listed = note.get("files")
    if note.get("format") != _FORMAT or not isinstance(listed, dict):
        return None
    files = []
    for name, facts in listed.items():
        if not name or "/" in name or not isinstance(facts, dict):
            return None
        rows, size = _count(facts.get("rows")), _count(facts.get("bytes"))
        if rows is None or size is None:
            return None
        files.append(WrittenFile(name, rows, size))
    return tuple(files)


def replaced_by(note: Mapping[str, Any]) -> Replaced | None:
    """Return the directories and files that a base, or a compaction, replaced.

    Returns:
        None if the note has no such list, an invalid one, or a later format.
    """
    paths, aborted = note.get("replaces"), note.get("aborted")
    if note.get("format") != _FORMAT or not isinstance(paths, list):
        return None
    if not all(isinstance(path, str) and path for path in paths):
        return None
    known = isinstance(aborted, list) and all(type(own) is int for own in aborted)
    return Replaced(
        tuple(paths),
        tuple(aborted) if known and aborted is not None else None,
        renumbered=note.get("operation") == CompactionType.REBALANCE,
    )


def compacted_from(note: Mapping[str, Any]) -> tuple[str, ...] | None:
    """List the directories and original files whose rows a compaction took over with their row ids.

    Returns:
        None unless the note proves a minor or major compaction. A rebalance and an overwrite also
        list the paths they replace, but their rows have other row ids.
    """
    replaced = replaced_by(note)
    keeps_ids = note.get("operation") in (CompactionType.MINOR, CompactionType.MAJOR)
    return replaced.paths if replaced is not None and keeps_ids else None


def written_at(note: Mapping[str, Any]) -> datetime | None:
    """Return when a directory was written according to its note; None if the note has no time."""
    text = note.get("time")
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def replacing(
    paths: Iterable[str], write_ids: WriteIdList, notes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the part of a directory's note on the directories that it replaces.

    Args:
        paths: Directories and original files of a partition.
        write_ids: The write ids that the reader of these saw.
        notes: The notes of deltas of several writes. On Hive 3 the name of a compaction, which leaves
            aborted rows out, looks like that of a stream.
    """
    replaced, aborted = [], set()
    for path in paths:
        parsed = parse_directory(path)
        if isinstance(parsed, Delta) and not parsed.visibility_txn:
            among = write_ids.range_aborted(parsed.min_write_id, parsed.max_write_id)
            if among is Range.ALL:
                # A compaction of Hive 3 takes it along; no version has ever had a row of it, and a
                # cleaner keeps no directory with such a name, including outputs of compactions.
                continue
            if among is Range.SOME and replaced_by(notes.get(path, {})) is None:
                aborted |= {own for own in parsed.write_ids if write_ids.is_aborted(own)}
        replaced.append(path)
    return {"replaces": replaced, "aborted": sorted(aborted)}


def disagreements(
    directory: str, written: Iterable[WrittenFile], files: Iterable[FileStatus]
) -> list[str]:
    """Describe each difference between a directory and its note in a sentence.

    Args:
        directory: The name of the directory.
        written: The files in the note.
        files: The existing data files.
    """
    promised = {f"{directory}/{file.name}": file for file in written}
    sizes = {file.path: file.size for file in files}
    problems = [
        f"{path} of {file.bytes} bytes and {file.rows} rows is missing."
        if path not in sizes
        else f"{path} has {sizes[path]} bytes, and was written with {file.bytes}."
        for path, file in promised.items()
        if sizes.get(path) != file.bytes
    ]
    return problems + [
        f"{path} was written by another client." for path in sizes if path not in promised
    ]


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
