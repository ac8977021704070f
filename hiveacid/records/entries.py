"""Entries of a table's history: one for each write, and one for each compaction.

Directory names contain the write ids, a snapshot decides whether they are valid, and the notes of
this package contain the writer, the operation and the time. Notes of compactions also describe the
writes that they merged. Hive and Trino leave no notes: for their writes, only the time of the files
is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hiveacid.records.directories import (
    DirectoryState,
    HistoryDirectory,
    Trace,
)
from hiveacid.rules.names import parse_directory
from hiveacid.rules.write_facts import (
    WriteFacts,
    merged_ranges,
    moment,
    seconds_of,
    text,
    whole,
)
from hiveacid.rules.write_ids import ValidWriteIdList


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
    directory_count: int = 0
    directories: tuple[HistoryDirectory, ...] = ()


class Overwrites:
    """Finds the directories that overwrites replaced.

    Args:
        directories: The directories of all partitions.
    """

    def __init__(self, directories: Iterable[HistoryDirectory]) -> None:
        self._last: dict[str | None, int] = {}
        for each in directories:
            counts = each.state in (DirectoryState.CURRENT, DirectoryState.OBSOLETE)
            if counts and not each.compaction and each.name.startswith("base_"):
                last = self._last.get(each.partition, 0)
                self._last[each.partition] = max(last, each.last_write_id)

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
    known = facts or WriteFacts(write_id=write_id)
    own = [each for each in trace.directories if each.first_write_id == each.last_write_id]
    times = [each.time for each in trace.directories if each.time is not None]
    if known.time is not None:
        times = [known.time] if known.is_noted else [*times, known.time]
    named = {each.partition for each in trace.directories if each.partition is not None}
    partitions = tuple(sorted({*known.partitions, *named}))
    size = known.bytes
    if size is None and own and len(own) == len(trace.directories):
        # The size of a directory of several writes cannot be divided among them.
        size = sum(each.bytes for each in own)
    if now.is_aborted(write_id):
        state = HistoryState.ABORTED
    elif not now.is_valid(write_id):
        state = HistoryState.OPEN
    elif known.files == 0 and not trace.directories:
        state = HistoryState.CURRENT
    else:
        state = _state(trace, overwrites)
    return HistoryEntry(
        write_id=write_id,
        first_write_id=write_id,
        last_write_id=write_id,
        operation=known.operation,
        kinds=_kinds(trace),
        state=state,
        # A transaction is committed after the last of its directories.
        time=max(times, default=None),
        seconds=known.seconds,
        rows_inserted=known.rows_inserted,
        rows_updated=known.rows_updated,
        rows_deleted=known.rows_deleted,
        bytes=size,
        partitions=partitions,
        partition_count=max(len(partitions), known.partition_count or 0),
        txn_id=known.txn_id,
        run_token=known.run_token,
        run_id=known.run_id,
        user=known.user,
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
    parsed = parse_directory(first.name)
    times = [each.time for each in trace.directories if each.time is not None]
    known = moment(content.get("time"))
    return HistoryEntry(
        write_id=None,
        first_write_id=trace.first,
        last_write_id=trace.last,
        operation=text(content.get("operation")) or first.kind,
        kinds=_kinds(trace),
        state=_state(trace, overwrites),
        time=known if known is not None else max(times, default=None),
        seconds=seconds_of(content.get("seconds")),
        bytes=sum(each.bytes for each in trace.directories),
        partitions=() if first.partition is None else (first.partition,),
        partition_count=0 if first.partition is None else 1,
        txn_id=whole(content.get("txn_id")) or (parsed and parsed.visibility_txn) or None,
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
    when = time.timestamp()
    known: dict[int, float] = {}
    merged: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for entry in entries:
        late = entry.time is None or entry.time > when
        if entry.write_id == 0:
            continue  # Every version contains the rows that are older than all writes.
        if entry.write_id is not None and entry.time is not None:
            known[entry.write_id] = entry.time
        else:
            last = min(entry.last_write_id, now.high_watermark)
            merged[late].add((max(1, entry.first_write_id), last))
    later = {write_id for write_id, own in known.items() if own > when}
    earlier = set(_all(merged[False]))
    # Writes that a compaction had merged by then were committed, even if merged again later.
    later |= set(_all(merged[True])) - earlier - known.keys()
    return sorted(write_id for write_id in later if now.is_valid(write_id))


def _all(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Return the numbers in some ranges, each once."""
    reached = 0
    for first, last in sorted(ranges):
        yield from range(max(first, reached + 1), last + 1)
        reached = max(reached, last)


def _kinds(trace: Trace) -> tuple[str, ...]:
    return tuple(sorted({each.kind for each in trace.directories}))


def _state(trace: Trace, overwrites: Overwrites) -> HistoryState:
    """Return the state of a committed write, or of a compaction."""
    if not trace.directories:
        return HistoryState.CLEANED
    states = {each.state for each in trace.directories}
    if states == {DirectoryState.OBSOLETE}:
        gone = all(map(overwrites.cover, trace.directories))
        return HistoryState.OVERWRITTEN if gone else HistoryState.MERGED
    if trace.write_id is None and DirectoryState.CURRENT not in states:
        aborted = DirectoryState.ABORTED in states
        return HistoryState.ABORTED if aborted else HistoryState.OPEN
    return HistoryState.CURRENT


# Any user can write a note: invalid parts of a note are ignored.


def _proof(proof: object) -> str | None:
    if not isinstance(proof, Mapping):
        return None
    sides = []
    for what in ("rows", "events"):
        read, written = (whole(proof.get(f"{what}_{how}")) for how in ("read", "written"))
        if not read or written is None:
            continue
        less = [
            f"{gone} {how}"
            for how in ("deleted", "aborted", "repeated")
            if (gone := whole(proof.get(f"{what}_{how}")))
        ]
        digest = text(proof.get(f"{what}_digest")) or "?"
        without = f" - {' - '.join(less)}" if less else ""
        sides.append(f"{what}: {read}{without} = {written}, {digest[:16]}")
    return "; ".join(sides) or None
