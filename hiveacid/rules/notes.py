"""Short facts on writes from notes, which survive the directories of the notes.

The note of a compaction includes the facts from the notes of its inputs, and those that its inputs
took over. Any user can write a note: invalid parts, and parts above the length limits, are ignored.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import MalformedName
from hiveacid.foreign.text import parse_json
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.names import LARGEST_NOTE, Base, Delta, parse_directory
from hiveacid.rules.versions import Replaced
from hiveacid.rules.write_ids import Range, WriteIdList

# Note in each directory of this package, with its writer and its files.
#
# Other programs may lose a file, cut it off or add one, and a reader would take the result for
# other rows. The list of files in the note shows the difference. Any user may have changed the
# note itself: an invalid list is ignored, and so is the list of a later format, whose meaning is
# unknown to this version. Files are then read without a comparison, like those of other writers.
# Unknown fields are ignored.


# The field of a compaction's note with the merged writes: see ``WriteFacts``.
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
    files_by_name = {file.name: {"rows": file.rows, "bytes": file.bytes} for file in files}
    whole = {"format": _FORMAT, **note, "files": files_by_name}
    shortened = (
        whole.keys(),
        whole.keys() - {MERGED_WRITES},
        whole.keys() - {MERGED_WRITES, "files"},
        {"format", "run_token", "txn_id", "write_id"},
        {"format", "txn_id", "write_id"},
    )
    texts = (
        json.dumps(
            {name: part for name, part in whole.items() if name in kept_names}, indent=1
        ).encode()
        for kept_names in shortened
    )
    return next(text for text in texts if len(text) <= LARGEST_NOTE)


def parse_note(text: bytes) -> dict[str, Any] | None:
    """Parse a note of this package; None for any other content."""
    if len(text) > LARGEST_NOTE:
        return None
    try:
        note = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def written_files(note: Mapping[str, Any]) -> tuple[WrittenFile, ...] | None:
    """Return the files that a note lists; None for a missing or invalid list or a later format."""
    files_by_name = note.get("files")
    if note.get("format") != _FORMAT or not isinstance(files_by_name, dict):
        return None
    files = []
    for name, facts in files_by_name.items():
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
    paths, aborted_ids = note.get("replaces"), note.get("aborted")
    if note.get("format") != _FORMAT or not isinstance(paths, list):
        return None
    if not all(isinstance(path, str) and path for path in paths):
        return None
    is_list = isinstance(aborted_ids, list) and all(
        type(write_id) is int for write_id in aborted_ids
    )
    return Replaced(
        tuple(paths),
        tuple(aborted_ids) if is_list and aborted_ids is not None else None,
        renumbered=note.get("operation") == CompactionType.REBALANCE,
    )


def compacted_from(note: Mapping[str, Any]) -> tuple[str, ...] | None:
    """List the directories and original files whose rows a compaction took over with their row ids.

    Returns:
        None unless the note proves a minor or major compaction. A rebalance and an overwrite also
        list the paths they replace, but their rows have other row ids.
    """
    replaced_content = replaced_by(note)
    keeps_ids = note.get("operation") in (CompactionType.MINOR, CompactionType.MAJOR)
    return replaced_content.paths if replaced_content is not None and keeps_ids else None


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
    replaced_paths, aborted_ids = [], set()
    for path in paths:
        delta = parse_directory(path)
        if isinstance(delta, Delta) and not delta.visibility_txn:
            among = write_ids.range_aborted(delta.min_write_id, delta.max_write_id)
            if among is Range.ALL:
                # A compaction of Hive 3 takes it along; no version has ever had a row of it, and a
                # cleaner keeps no directory with such a name, including outputs of compactions.
                continue
            if among is Range.SOME and replaced_by(notes.get(path, {})) is None:
                aborted_ids |= {
                    write_id for write_id in delta.write_ids if write_ids.is_aborted(write_id)
                }
        replaced_paths.append(path)
    return {"replaces": replaced_paths, "aborted": sorted(aborted_ids)}


def disagreements(
    directory: str, noted_files: Iterable[WrittenFile], files: Iterable[FileStatus]
) -> list[str]:
    """Describe each difference between a directory and its note in a sentence.

    Args:
        directory: The name of the directory.
        noted_files: The files in the note.
        files: The existing data files.
    """
    promised = {f"{directory}/{file.name}": file for file in noted_files}
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


# If a compaction merges more writes, its note omits the oldest ones.
MOST_WRITES = 1000
MOST_BYTES = 64 << 10

_LONGEST_TEXT = 2000
_LONGEST_TIME = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFacts:
    """Known facts on one write to one table; unknown ones are None.

    Attributes:
        write_id: Its write id.
        operation: "merge", "insert", "overwrite", "update", "delete" or "restore"; "transaction"
            if several statements were committed together.
        time: The time when its files were published, in seconds since 1970.
        seconds: The duration.
        rows_inserted: The number of new rows in all partitions of the table.
        rows_updated: The number of changed rows.
        rows_deleted: The number of deleted rows.
        files: The number of its files.
        bytes: Their size.
        partitions: The names of the written partitions; short facts and notes of directories
            omit them.
        partition_count: The number of written partitions.
        txn_id: The transaction.
        run_token: "dag/run/task/map index" of the Airflow task.
        run_id: The run of the DAG, if run_token has another value in its place.
        user: The user.
        checked: Whether its rows were checked; the note on the run has the results.
        checks: The results of the checks of the table's rows, in words; short facts omit them.
    """

    write_id: int
    operation: str | None = None
    time: float | None = None
    seconds: float | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files: int | None = None
    bytes: int | None = None
    partitions: tuple[str, ...] = ()
    partition_count: int | None = None
    txn_id: int | None = None
    run_token: str | None = None
    run_id: str | None = None
    user: str | None = None
    checked: bool = False
    checks: tuple[str, ...] = ()

    @property
    def is_noted(self) -> bool:
        """Whether its writer left a note; otherwise the time is that of some of its files."""
        return self.operation is not None or self.txn_id is not None

    def joined(self, other: Self) -> Self:
        """Combine the facts on a write from two compactions, each of one partition."""
        if self.is_noted or other.is_noted:
            return self if self.is_noted else other
        return max(self, other, key=lambda facts: facts.time or 0)

    @classmethod
    def of_note(cls, note: Mapping[str, Any], write_id: int, table: str) -> Self:
        """Return the facts from the note of a write.

        Args:
            note: The note of a directory, or of a run.
            write_id: The write id, from the name of the directory.
            table: The table's full name; a run may have written others, too.
        """
        report = note.get("report")
        report = report if isinstance(report, Mapping) else {}
        of_table = _of_table(report, table)
        names = of_table.get("partitions")
        names = names if isinstance(names, list) else []
        partitions = tuple(name for name in map(text, names) if name is not None)
        facts = cls._of({**note, "seconds": None}, of_table, write_id)
        return cls(
            **facts
            | {
                "seconds": seconds_of(report.get("seconds")),
                "partitions": partitions,
                "partition_count": facts["partition_count"] or len(partitions) or None,
                "checked": note.get("checked") is True,
                "checks": tuple(_checks(report.get("checks"), table)),
            }
        )

    @classmethod
    def of_record(cls, record: object) -> Self | None:
        """Parse the output of ``to_record``; None for a value that does not describe a write."""
        if not isinstance(record, Mapping):
            return None
        write_id = whole(record.get("write_id"))
        if not write_id:
            return None
        return cls(**cls._of(record, record, write_id))

    @staticmethod
    def _of(origin: Mapping[str, Any], work: Mapping[str, Any], write_id: int) -> dict[str, Any]:
        return {
            "write_id": write_id,
            "operation": text(origin.get("operation")),
            "time": moment(origin.get("time")),
            "seconds": _duration(origin.get("seconds")),
            "txn_id": whole(origin.get("txn_id")),
            "run_token": text(origin.get("run_token")),
            "run_id": text(origin.get("run_id")),
            "user": text(origin.get("user")),
            **{
                name: whole(work.get(name))
                for name in (
                    "rows_inserted",
                    "rows_updated",
                    "rows_deleted",
                    "files",
                    "bytes",
                    "partition_count",
                )
            },
        }

    def to_record(self) -> dict[str, Any]:
        """Return the short facts as plain values, without the names of partitions."""
        plain = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("partitions", "time", "checked", "checks")
        }
        return {
            name: value
            for name, value in {**plain, "time": _iso(self.time)}.items()
            if value not in (None, "")
        }


def taken_over(
    notes: Mapping[str, Mapping[str, Any]],
    table: str,
    times: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Return the part of a compaction's note on the merged writes, the newest first.

    Args:
        notes: The notes of the directories that it replaces, by their names.
        table: The table's full name.
        times: The times of the files of writers that leave no note, by write id.

    Returns:
        A part of the note; empty if the notes have no facts.
    """
    facts_by_id: dict[int, WriteFacts] = {}
    for name, note in notes.items():
        for facts in _facts_in(name, note, table):
            facts_by_id.setdefault(facts.write_id, facts)
    for write_id, time in (times or {}).items():
        facts_by_id.setdefault(write_id, WriteFacts(write_id=write_id, time=time))
    records: list[dict[str, Any]] = []
    size = 0
    for write_id in sorted(facts_by_id, reverse=True)[:MOST_WRITES]:
        record = facts_by_id[write_id].to_record()
        size += len(json.dumps(record))
        if size > MOST_BYTES:
            break
        records.append(record)
    return {MERGED_WRITES: records} if records else {}


def merged_writes(directory: str, note: Mapping[str, Any]) -> Iterator[WriteFacts]:
    """Yield the facts that the note of a compaction took over, if consistent with its directory.

    Args:
        directory: The name of the directory of the note.
        note: The note.
    """
    records = note.get(MERGED_WRITES)
    directory_parts = _parse(directory)
    if directory_parts is None or not isinstance(records, list):
        return
    write_ids = set()
    for record in records[:MOST_WRITES]:
        facts = WriteFacts.of_record(record)
        if (
            facts is not None
            and facts.write_id in directory_parts.write_ids
            and facts.write_id not in write_ids
        ):
            write_ids.add(facts.write_id)
            yield facts


def merged_ranges(directory: str, note: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the write ids that a compaction has merged: the first and the last of each range.

    Args:
        directory: The output directory.
        note: The note in it; an empty mapping without a note.
    """
    replacement = replaced_by(note)
    replaced_paths = None if replacement is None else replacement.paths
    oldest = min((facts.write_id for facts in merged_writes(directory, note)), default=None)
    spans = []
    for directory_parts in map(_parse, [directory] if replaced_paths is None else replaced_paths):
        if directory_parts is None:
            continue
        first, last = max(1, directory_parts.write_ids.start), directory_parts.write_ids.stop - 1
        if (
            replaced_paths is not None
            and isinstance(directory_parts, Base)
            and not directory_parts.visibility_txn
        ):
            # An overwrite, or on Hive 3 maybe a compaction: the oldest merged write decides.
            first = first if oldest is not None and oldest < last else last
        if first <= last:
            spans.append((first, last))
    ranges: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], last)
        else:
            ranges.append((first, last))
    return tuple(ranges)


def is_own(directory: str, write_id: int) -> bool:
    """Whether a directory holds exactly one write."""
    directory_parts = _parse(directory)
    if isinstance(directory_parts, Base):
        return directory_parts.write_id == write_id and not directory_parts.visibility_txn
    return directory_parts is not None and directory_parts.write_ids == range(
        write_id, write_id + 1
    )


def only_write_id(directory: str) -> int | None:
    """Return the write of a delta; None if its name may also be that of a compaction."""
    delta = _parse(directory)
    if isinstance(delta, Delta) and delta.statement_id is not None:
        return delta.max_write_id
    return None


def seconds_of(phases: object) -> float | None:
    """Return the duration of all phases together, if a report contains it."""
    if not isinstance(phases, Mapping):
        return None
    spent = [_duration(seconds) for seconds in phases.values()]
    durations = [seconds for seconds in spent if seconds is not None]
    return round(sum(durations), 3) if durations else None


def whole(value: object) -> int | None:
    """Return the value if it is an integer in the valid range for files, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return None


def text(value: object) -> str | None:
    """Return the value if it is a printable text within the length limit for runs, else None."""
    if not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT:
        return None
    # Half of a surrogate pair cannot be printed.
    return value.encode(errors="replace").decode()


def moment(value: object) -> float | None:
    """Parse a time in ISO form to seconds since 1970."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _facts_in(name: str, note: Mapping[str, Any], table: str) -> Iterator[WriteFacts]:
    """Yield the facts on writes from the note of an input of a compaction."""
    write_id = whole(note.get("write_id"))
    if write_id and is_own(name, write_id) and MERGED_WRITES not in note:
        yield WriteFacts.of_note(note, write_id, table)
    else:
        yield from merged_writes(name, note)


def _of_table(report: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """Return the part of a report on one table; empty if the report covers only other tables."""
    tables = report.get("tables")
    if not isinstance(tables, list) or len(tables) < 2:
        # In a run with one table, everything belongs to it, regardless of its name at that time.
        return report
    for part in tables:
        if isinstance(part, Mapping) and part.get("table") == table:
            return part
    return {}


def _checks(results: object, table: str) -> Iterator[str]:
    """Describe the results of the checks of one table."""
    for result in results[:MOST_WRITES] if isinstance(results, list) else ():
        if not isinstance(result, Mapping) or result.get("table") != table:
            continue
        if (name := text(result.get("check"))) is None:
            continue
        passed = result.get("passed") is True
        yield f"{name}: {'passed' if passed else text(result.get('found')) or 'violated'}"


def _duration(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LONGEST_TIME else None


def _iso(seconds: float | None) -> str | None:
    try:
        if seconds is None:
            return None
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def _parse(name: object) -> Base | Delta | None:
    try:
        return parse_directory(name) if isinstance(name, str) else None
    except MalformedName:
        return None


# Check whether row ids still identify the rows that a snapshot read them from.
#
# A row id identifies a row until its partition is renumbered: minor and major compactions keep row
# ids, rebalances and overwrites do not. Only the note of a compaction proves which of them wrote a
# directory.


@dataclass(frozen=True, slots=True)
class RowIdTrace:
    """The history of the directories of a partition since a snapshot.

    Attributes:
        unproven: The directories whose rows may have other row ids: those that were read and have
            neither been kept nor compacted, and new bases without the note of a compaction.
        replaced: The directories and original files that compactions have taken over since, with
            their row ids.
    """

    unproven: frozenset[str]
    replaced: frozenset[str]


def trace_row_ids(
    read: Set[str], current: Set[str], note: Callable[[str], Mapping[str, Any] | None]
) -> RowIdTrace:
    """Trace the directories of a partition from an earlier snapshot to the current one.

    Args:
        read: The base, the deltas, and the original files that the snapshot read.
        current: Those that the later snapshot reads.
        note: Returns the note of a directory; None for a missing note or directory.
    """
    unproven: set[str] = set()
    replaced_names: set[str] = set()
    waiting = [*(current - read)]
    while waiting:
        name = waiting.pop()
        directory = parse_directory(name)
        if isinstance(directory, Delta) and directory.statement_id is not None:
            continue  # The output of a compaction never has a statement number.
        sources = None if directory is None else compacted_from(note(name) or {})
        if sources is not None:
            waiting += {*sources} - read - replaced_names
            replaced_names.update(sources)
        elif isinstance(directory, Base):
            unproven.add(name)
    return RowIdTrace(
        frozenset(unproven | (read - current - replaced_names)), frozenset(replaced_names)
    )
