"""Directories of a table, grouped by their writes and compactions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from hiveacid.rules.directory import AcidDirectory
from hiveacid.rules.names import Base, parse_directory
from hiveacid.rules.write_ids import ValidWriteIdList

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
    known = {
        **dict.fromkeys(state.obsolete, DirectoryState.OBSOLETE),
        **dict.fromkeys(state.aborted, DirectoryState.ABORTED),
        **dict.fromkeys(filter(None, (state.base, *state.deltas)), DirectoryState.CURRENT),
    }
    parsed = {name: own for name in sizes if (own := parse_directory(name)) is not None}
    single = {
        own.min_write_id
        for name, own in parsed.items()
        if not isinstance(own, Base)
        and own.min_write_id == own.max_write_id
        and known.get(name) is DirectoryState.OBSOLETE
    }
    markers, noted, times = markers or {}, set(noted), times or {}
    found = []
    for name, own in parsed.items():
        if isinstance(own, Base):
            marker = markers.get(name, "").lower()
            compaction = own.visibility_txn > 0 or marker == _COMPACTED
            # The base of a converted table is older than every write id.
            last = max(0, own.write_id)
            first, kind = (
                (0, MAJOR) if compaction else (last, marker if marker in _EMPTIED else BASE)
            )
        else:
            first, last = own.min_write_id, own.max_write_id
            kind = DELETE if own.is_delete else INSERT
            if own.visibility_txn:
                kind = MINOR
            elif own.statement_id is None:
                # Hive 3 uses this name, too. A batch of its streaming writers looks the same, but
                # has no delete events, no note of this package, and no deltas that it merges.
                twin = own.is_delete or f"delete_{name}" in parsed
                merges = twin or any(first <= each <= last for each in single)
                if name in noted or (first < last and merges):
                    kind = MINOR
        found.append(
            HistoryDirectory(
                name=name,
                partition=partition,
                first_write_id=first,
                last_write_id=last,
                kind=kind,
                state=known.get(name, DirectoryState.OPEN),
                bytes=sizes[name],
                time=times.get(name),
            )
        )
    return found


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
    for each in directories:
        if each.compaction:
            # A minor one makes two directories.
            parsed = parse_directory(each.name)
            txn = parsed.visibility_txn if parsed else 0
            span = each.first_write_id, each.last_write_id
            key = each.kind, each.partition, *span, txn
            trace = traces.setdefault(key, Trace(key, None, *span, txn))
            trace.directories.append(each)
            continue
        for write_id in _write_ids(each, now, limit):
            trace = traces.setdefault((write_id,), Trace.of_write(write_id))
            trace.directories.append(each)
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
    committed = []
    for write_id in range(min(last, now.high_watermark), max(0, first - 1), -1):
        if now.is_valid(write_id):
            committed.append(write_id)
            if len(committed) == limit:
                break
    return committed or [last]
