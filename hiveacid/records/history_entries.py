"""Entries of a table's history: one for each write, and one for each compaction.

Directory names contain the write ids, a snapshot decides whether they are valid, and the notes of
this package contain the writer, the operation and the time. Notes of compactions also describe the
writes that they merged. Hive and Trino leave no notes: for their writes, only the time of the files
is known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self, overload

from hiveacid.dataclass import dataclass
from hiveacid.rules.directory import AcidDirectory
from hiveacid.rules.names import Base, parse_directory
from hiveacid.rules.notes import WriteFacts, merged_ranges, moment, seconds_of, text, whole
from hiveacid.rules.run_tokens import task_and_run
from hiveacid.rules.texts import (
    aligned,
    bytes_in_words,
    duration_in_words,
    html_table,
    plural,
    timestamp_in_words,
)
from hiveacid.rules.write_ids import ValidWriteIdList

# Directories of a table, grouped by their writes and compactions


MINOR, MAJOR = "minor", "major"
INSERT, DELETE, BASE = "insert", "delete", "base"

_COMPACTED = "compacted"
_EMPTIED = ("truncated", "dropped")


class DirectoryState(StrEnum):
    """State of a directory for a new reader."""

    CURRENT = "current"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDirectory:
    """Directory of a write or of a compaction.

    Attributes:
        name: Its name.
        partition: The partition's name; None for a table without partitions.
        first_write_id: The first write id in the directory.
        last_write_id: The last one; a directory of a streaming writer has several.
        kind: "insert", "delete", "base" (of an overwrite), "truncated", "dropped", "minor" or
            "major".
        state: The state for a new reader.
        bytes: The size of its data files.
        rows: The number of rows, or delete events, that its writer noted; None if it is not
            noted or was not requested.
        time: The time when its files were written, in seconds since 1970, if known.
        engine: "Hive", "Trino" or "Presto", if a file names the engine and this was requested.
    """

    name: str
    partition: str | None
    first_write_id: int
    last_write_id: int
    kind: str
    state: DirectoryState
    bytes: int
    rows: int | None = None
    time: float | None = None
    engine: str | None = None

    @property
    def compaction(self) -> bool:
        """Whether the directory is a compaction of older ones, without new rows."""
        return self.kind in (MINOR, MAJOR)


TraceKey = tuple[object, ...]


@dataclass
class Trace:
    """Remaining directories of a write or of a compaction.

    Attributes:
        key: The unique key.
        write_id: The write; None for a compaction.
        first: The first write id.
        last: The last one.
        txn: The transaction of a compaction; 0 if its name has no transaction.
        directories: The directories, in the order of the listing.
    """

    key: TraceKey
    write_id: int | None
    first: int
    last: int
    txn: int = 0
    directories: list[HistoryDirectory] = field(default_factory=list)

    @classmethod
    def of_write(cls, write_id: int) -> Self:
        """Return an empty trace of a write."""
        return cls((write_id,), write_id, write_id, write_id)


def directories_of(
    partition: str | None,
    state: AcidDirectory,
    sizes: Mapping[str, int],
    *,
    markers: Mapping[str, str] | None = None,
    noted: Iterable[str] = (),
    times: Mapping[str, float | None] | None = None,
) -> list[HistoryDirectory]:
    """Describe the ACID directories of a partition by their names.

    Args:
        partition: The partition's name; None for a table without partitions.
        state: The state of the partition for a new reader.
        sizes: The directories, with the sizes of their data files.
        markers: The content of the marker files of bases: "compacted", as Hive 3 writes it, or the
            reason for an empty base of Hive, "truncated" or "dropped".
        noted: The directories with a note of this package.
        times: The times when their files were written.
    """
    states_by_name = {
        **dict.fromkeys(state.obsolete, DirectoryState.OBSOLETE),
        **dict.fromkeys(state.aborted, DirectoryState.ABORTED),
        **dict.fromkeys(filter(None, (state.base, *state.deltas)), DirectoryState.CURRENT),
    }
    directories_by_name = {
        name: directory for name in sizes if (directory := parse_directory(name)) is not None
    }
    single = {
        directory.min_write_id
        for name, directory in directories_by_name.items()
        if not isinstance(directory, Base)
        and directory.min_write_id == directory.max_write_id
        and states_by_name.get(name) is DirectoryState.OBSOLETE
    }
    markers, noted, times = markers or {}, set(noted), times or {}
    descriptions = []
    for name, directory in directories_by_name.items():
        if isinstance(directory, Base):
            marker = markers.get(name, "").lower()
            compaction = directory.visibility_txn > 0 or marker == _COMPACTED
            # The base of a converted table is older than every write id.
            last = max(0, directory.write_id)
            first, kind = (
                (0, MAJOR) if compaction else (last, marker if marker in _EMPTIED else BASE)
            )
        else:
            first, last = directory.min_write_id, directory.max_write_id
            kind = DELETE if directory.is_delete else INSERT
            if directory.visibility_txn:
                kind = MINOR
            elif directory.statement_id is None:
                # Hive 3 uses this name, too. A batch of its streaming writers looks the same, but
                # has no delete events, no note of this package, and no deltas that it merges.
                twin = directory.is_delete or f"delete_{name}" in directories_by_name
                merges = twin or any(first <= write_id <= last for write_id in single)
                if name in noted or (first < last and merges):
                    kind = MINOR
        descriptions.append(
            HistoryDirectory(
                name=name,
                partition=partition,
                first_write_id=first,
                last_write_id=last,
                kind=kind,
                state=states_by_name.get(name, DirectoryState.OPEN),
                bytes=sizes[name],
                time=times.get(name),
            )
        )
    return descriptions


def traces_of(
    directories: Iterable[HistoryDirectory], now: ValidWriteIdList, limit: int
) -> list[Trace]:
    """Group the directories by write and by compaction, the newest first.

    Args:
        directories: The directories of all partitions.
        now: The write ids that a new reader sees.
        limit: The number of traces.
    """
    traces: dict[TraceKey, Trace] = {}
    for directory in directories:
        if directory.compaction:
            # A minor one makes two directories.
            parsed_name = parse_directory(directory.name)
            txn = parsed_name.visibility_txn if parsed_name else 0
            span = directory.first_write_id, directory.last_write_id
            key = directory.kind, directory.partition, *span, txn
            trace = traces.setdefault(key, Trace(key, None, *span, txn))
            trace.directories.append(directory)
            continue
        for write_id in _write_ids(directory, now, limit):
            trace = traces.setdefault((write_id,), Trace.of_write(write_id))
            trace.directories.append(directory)
    return newest_first(traces.values(), limit)


def newest_first(traces: Iterable[Trace], limit: int) -> list[Trace]:
    """Return the newest traces; a compaction is newer than the writes and compactions it merged."""
    return sorted(
        traces,
        key=lambda trace: (trace.last, trace.write_id is None, trace.txn, -trace.first),
        reverse=True,
    )[:limit]


def _write_ids(directory: HistoryDirectory, now: ValidWriteIdList, limit: int) -> Iterable[int]:
    """Return the writes of a directory: the newest ones, if a stream has many."""
    first, last = directory.first_write_id, directory.last_write_id
    if first == last:
        return [last]
    committed_ids = []
    for write_id in range(min(last, now.high_watermark), max(0, first - 1), -1):
        if now.is_valid(write_id):
            committed_ids.append(write_id)
            if len(committed_ids) == limit:
                break
    return committed_ids or [last]


class HistoryState(StrEnum):
    """State of a write or of a compaction.

    Attributes:
        CURRENT: Readers open one of its directories, or it changed nothing.
        MERGED: A compaction holds its rows now; its own directories still exist.
        OVERWRITTEN: An overwrite replaced it; its directories still exist.
        CLEANED: Its directories are gone.
        OPEN: It is not committed.
        ABORTED: It was aborted.
    """

    CURRENT = "current"
    MERGED = "merged"
    OVERWRITTEN = "overwritten"
    CLEANED = "cleaned"
    OPEN = "open"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A write, which made a version of the table, or a compaction, which did not.

    Fields without a known value are None.

    Attributes:
        write_id: The version; None for a compaction.
        first_write_id: The first write id that a compaction covers; for a write its own id.
        last_write_id: The last one.
        operation: "merge", "insert", "overwrite", "update", "delete", "restore", "transaction"
            (several statements), "drop_partition" (the last one), "minor", "major" or "rebalance".
        kinds: The kinds of its existing directories: "insert", "delete",
            "base", "truncated" or "dropped".
        state: The state.
        time: The time of publication, in seconds since 1970; for writes of other engines the time
            of their files, which a streaming writer may have appended to later.
        seconds: The duration.
        rows_inserted: The number of new rows in all partitions.
        rows_updated: The number of changed rows.
        rows_deleted: The number of deleted rows.
        bytes: The size of everything that it wrote.
        partitions: The names of its partitions, as far as they are known.
        partition_count: The number of its partitions.
        txn_id: The transaction.
        run_token: "dag/run/task/map index" of the Airflow task.
        run_id: The run of the DAG, if run_token has another value in its place.
        user: The user.
        merged: The write ids that a compaction has merged: the first and the last of each range.
        proof: The counts that this package compared before it published a compaction, in words.
        checks: The results of the checks of a write, in words.
        directory_count: The number of its existing directories.
        directories: Those directories, if requested.
    """

    write_id: int | None
    first_write_id: int
    last_write_id: int
    state: HistoryState
    operation: str | None = None
    kinds: tuple[str, ...] = ()
    time: float | None = None
    seconds: float | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    bytes: int | None = None
    partitions: tuple[str, ...] = ()
    partition_count: int = 0
    txn_id: int | None = None
    run_token: str | None = None
    run_id: str | None = None
    user: str | None = None
    merged: tuple[tuple[int, int], ...] = ()
    proof: str | None = None
    checks: tuple[str, ...] = ()
    directory_count: int = 0
    directories: tuple[HistoryDirectory, ...] = ()


class Overwrites:
    """Finds the directories that overwrites replaced.

    Args:
        directories: The directories of all partitions.
    """

    def __init__(self, directories: Iterable[HistoryDirectory]) -> None:
        self._last: dict[str | None, int] = {}
        for directory in directories:
            counts = directory.state in (DirectoryState.CURRENT, DirectoryState.OBSOLETE)
            if counts and not directory.compaction and directory.name.startswith("base_"):
                last = self._last.get(directory.partition, 0)
                self._last[directory.partition] = max(last, directory.last_write_id)

    def cover(self, directory: HistoryDirectory) -> bool:
        """Whether an overwrite replaced a directory."""
        return directory.last_write_id < self._last.get(directory.partition, 0)


def write_entry(
    trace: Trace, facts: WriteFacts | None, now: ValidWriteIdList, overwrites: Overwrites
) -> HistoryEntry:
    """Describe a write.

    Args:
        trace: Its remaining directories.
        facts: The facts from its notes.
        now: The write ids that a new reader sees.
        overwrites: The overwrites of the table.
    """
    write_id = trace.last
    known_facts = facts or WriteFacts(write_id=write_id)
    own_directories = [
        directory
        for directory in trace.directories
        if directory.first_write_id == directory.last_write_id
    ]
    times = [directory.time for directory in trace.directories if directory.time is not None]
    if known_facts.time is not None:
        times = [known_facts.time] if known_facts.is_noted else [*times, known_facts.time]
    partition_names = {
        directory.partition for directory in trace.directories if directory.partition is not None
    }
    partitions = tuple(sorted({*known_facts.partitions, *partition_names}))
    size = known_facts.bytes
    if size is None and own_directories and len(own_directories) == len(trace.directories):
        # The size of a directory of several writes cannot be divided among them.
        size = sum(directory.bytes for directory in own_directories)
    if now.is_aborted(write_id):
        state = HistoryState.ABORTED
    elif not now.is_valid(write_id):
        state = HistoryState.OPEN
    elif known_facts.files == 0 and not trace.directories:
        state = HistoryState.CURRENT
    else:
        state = _state(trace, overwrites)
    return HistoryEntry(
        write_id=write_id,
        first_write_id=write_id,
        last_write_id=write_id,
        operation=known_facts.operation,
        kinds=_kinds(trace),
        state=state,
        # A transaction is committed after the last of its directories.
        time=max(times, default=None),
        seconds=known_facts.seconds,
        rows_inserted=known_facts.rows_inserted,
        rows_updated=known_facts.rows_updated,
        rows_deleted=known_facts.rows_deleted,
        bytes=size,
        partitions=partitions,
        partition_count=max(len(partitions), known_facts.partition_count or 0),
        txn_id=known_facts.txn_id,
        run_token=known_facts.run_token,
        run_id=known_facts.run_id,
        user=known_facts.user,
        checks=known_facts.checks,
        directory_count=len(trace.directories),
    )


def compaction_entry(
    trace: Trace, note: Mapping[str, Any] | None, overwrites: Overwrites
) -> HistoryEntry:
    """Describe a compaction.

    Args:
        trace: Its remaining directories.
        note: Its note.
        overwrites: The overwrites of the table.
    """
    first = trace.directories[0]
    content = note or {}
    parsed_name = parse_directory(first.name)
    times = [directory.time for directory in trace.directories if directory.time is not None]
    return HistoryEntry(
        write_id=None,
        first_write_id=trace.first,
        last_write_id=trace.last,
        operation=text(content.get("operation")) or first.kind,
        kinds=_kinds(trace),
        state=_state(trace, overwrites),
        # The clock of the compactor may have been wrong.
        time=max(times, default=moment(content.get("time"))),
        seconds=seconds_of(content.get("seconds")),
        bytes=sum(directory.bytes for directory in trace.directories),
        partitions=() if first.partition is None else (first.partition,),
        partition_count=0 if first.partition is None else 1,
        txn_id=whole(content.get("txn_id")) or (parsed_name and parsed_name.visibility_txn) or None,
        run_token=text(content.get("run_token")),
        run_id=text(content.get("run_id")),
        user=text(content.get("user")),
        merged=merged_ranges(first.name, content),
        proof=_proof(content.get("proof")),
        directory_count=len(trace.directories),
    )


def later_than(time: datetime, entries: Iterable[HistoryEntry], now: ValidWriteIdList) -> list[int]:
    """Return the committed write ids that a reader at a given time did not see.

    A write without a known commit time counts as later until the time of the compaction that
    merged it.

    Args:
        time: The time of the read.
        entries: The complete history of the table.
        now: The write ids that a new reader sees.
    """
    read_time = time.timestamp()
    commit_times: dict[int, float] = {}
    merged: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for entry in entries:
        late = entry.time is None or entry.time > read_time
        if entry.write_id == 0:
            continue  # Every version contains the rows that are older than all writes.
        if entry.write_id is not None and entry.time is not None:
            commit_times[entry.write_id] = entry.time
        else:
            last = min(entry.last_write_id, now.high_watermark)
            merged[late].add((max(1, entry.first_write_id), last))
    later_ids = {
        write_id for write_id, commit_time in commit_times.items() if commit_time > read_time
    }
    earlier = set(_all(merged[False]))
    # Writes that a compaction had merged by then were committed, even if merged again later.
    later_ids |= set(_all(merged[True])) - earlier - commit_times.keys()
    return sorted(write_id for write_id in later_ids if now.is_valid(write_id))


def _all(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Return the numbers in some ranges, each once."""
    reached = 0
    for first, last in sorted(ranges):
        yield from range(max(first, reached + 1), last + 1)
        reached = max(reached, last)


def _kinds(trace: Trace) -> tuple[str, ...]:
    return tuple(sorted({directory.kind for directory in trace.directories}))


def _state(trace: Trace, overwrites: Overwrites) -> HistoryState:
    """Return the state of a committed write, or of a compaction."""
    if not trace.directories:
        return HistoryState.CLEANED
    states = {directory.state for directory in trace.directories}
    if states == {DirectoryState.OBSOLETE}:
        is_overwritten = all(map(overwrites.cover, trace.directories))
        return HistoryState.OVERWRITTEN if is_overwritten else HistoryState.MERGED
    if trace.write_id is None and DirectoryState.CURRENT not in states:
        is_aborted = DirectoryState.ABORTED in states
        return HistoryState.ABORTED if is_aborted else HistoryState.OPEN
    return HistoryState.CURRENT


# Any user can write a note: invalid parts of a note are ignored.


def _proof(proof: object) -> str | None:
    if not isinstance(proof, Mapping):
        return None
    sides = []
    for unit in ("rows", "events"):
        read, written_count = (whole(proof.get(f"{unit}_{verb}")) for verb in ("read", "written"))
        if not read or written_count is None:
            continue
        losses = [
            f"{lost_count} {verb}"
            for verb in ("deleted", "aborted", "repeated")
            if (lost_count := whole(proof.get(f"{unit}_{verb}")))
        ]
        digest = text(proof.get(f"{unit}_digest")) or "?"
        without = f" - {' - '.join(losses)}" if losses else ""
        sides.append(f"{unit}: {read}{without} = {written_count}, {digest[:16]}")
    return "; ".join(sides) or None


# Text and HTML view of a table's history and details


_HEAD = ("version", "time (UTC)", "did", "state", "rows", "size", "by")
_RIGHT = (0, 5)
# Of a younger write, the time of the day says more than the year.
_RECENT = 180 * 86400


class History(Sequence[HistoryEntry]):
    """The writes and the compactions of a table, the newest first.

    It prints itself as a table, also in notebooks.

    Args:
        table: The table's full name.
        entries: The entries of the history.
    """

    def __init__(self, table: str, entries: Sequence[HistoryEntry]) -> None:
        self._table = table
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "HistoryEntry | History":
        if isinstance(index, slice):
            return History(self._table, self._entries[index])
        return self._entries[index]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_table(self.title, _HEAD, [*map(_cells, self)])

    @property
    def title(self) -> str:
        """The table's name and the number of entries."""
        return f"{self._table}: {len(self)} {'entry' if len(self) == 1 else 'entries'}"

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[int]]:
        """The column names, the rows, and the indexes of the right-aligned columns."""
        return _HEAD, [*map(_cells, self)], _RIGHT

    def lines(self, *, directories: bool = False) -> Iterator[str]:
        """Return the printed lines.

        Args:
            directories: Whether the directories of each entry follow it.
        """
        yield self.title
        if not self._entries:
            return
        head, *lines = aligned([_HEAD, *map(_cells, self)], right=_RIGHT)
        yield head
        for line, entry in zip(lines, self, strict=True):
            yield line
            if directories:
                rows = [*map(_directory_cells, entry.directories)]
                yield from (f"        {row}" for row in rows and aligned(rows, right=[2, 3]))
                yield from (f"          {part}" for part in _details(entry))


def _cells(entry: HistoryEntry) -> tuple[str, ...]:
    counts = [(entry.rows_inserted, "+"), (entry.rows_updated, "~"), (entry.rows_deleted, "-")]
    return (
        "" if entry.write_id is None else str(entry.write_id),
        _short_time(entry.time),
        entry.operation or "+".join(entry.kinds) or "?",
        entry.state.value,
        " ".join(f"{sign}{count}" for count, sign in counts if count),
        "" if entry.bytes is None else bytes_in_words(entry.bytes),
        _origin(entry),
    )


def _short_time(time: float | None) -> str:
    if time is None:
        return "?"
    day, *clock = timestamp_in_words(time).split()
    if not clock or abs(datetime.now(UTC).timestamp() - time) > _RECENT:
        return day
    return f"{day[5:]} {clock[0][:5]}"


def _directory_cells(directory: HistoryDirectory) -> tuple[str, ...]:
    return (
        "/".join(filter(None, [directory.partition, directory.name])),
        directory.state.value,
        bytes_in_words(directory.bytes),
        "" if directory.rows is None else plural(directory.rows, "row"),
        directory.engine or "",
    )


def _origin(entry: HistoryEntry) -> str:
    """Return the author of a write, or the partition and the merged write ids of a compaction."""
    if entry.write_id is not None:
        task, run = task_and_run(entry.run_token or "")
        return task or run or entry.user or "/".join(_engines(entry))
    merged = ", ".join(
        str(last) if first == last else f"{first}-{last}" for first, last in entry.merged
    )
    return " ".join(filter(None, [*entry.partitions, merged and f"of {merged}"]))


def _details(entry: HistoryEntry) -> Iterator[str]:
    """Yield the facts that do not fit into the line of an entry."""
    if entry.time is not None:
        took = "" if entry.seconds is None else f", took {_took(entry.seconds)}"
        yield f"{timestamp_in_words(entry.time)}{took}"
    if entry.partition_count:
        partition_text = (
            ", ".join(entry.partitions) if len(entry.partitions) == entry.partition_count else ""
        )
        yield partition_text or plural(entry.partition_count, "partition")
    if entry.run_token:
        yield f"run {entry.run_id or entry.run_token}"
    if entry.proof:
        yield entry.proof


def _engines(entry: HistoryEntry) -> list[str]:
    return sorted(
        {directory.engine for directory in entry.directories if directory.engine is not None}
    )


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else duration_in_words(seconds)
