"""The entries of a table's history: what directory names and writers' notes say.

Names tell the write ids, a snapshot tells whether they count, and the notes that jobs of ours leave
tell who wrote what and when. Hive and Trino leave none: of theirs there is the time of the files.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_hiveacid.acid.directory import AcidDirectory
from airflow_hiveacid.acid.names import Base, parse_directory
from airflow_hiveacid.acid.write_ids import ValidWriteIdList

MINOR, MAJOR = "minor", "major"
_LONGEST_TEXT = 2000


class DirectoryState(StrEnum):
    """What has become of a directory.

    CLEANED is no directory any more: a compaction has taken it in, and only its note is left.
    """

    CURRENT = "current"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    OPEN = "open"
    CLEANED = "cleaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One directory, or what is known of a run whose directories are gone.

    Attributes:
        min_write_id: The first write id in it.
        max_write_id: The last write id in it.
        partition: The partition's name; None for a table without, and for a run whose directories
            are gone.
        directory: Its name; None when it is gone.
        kind: "insert", "delete", "base" (of an overwrite), "minor" or "major".
        compaction: It holds nothing new: it puts older ones together.
        state: Whether it counts.
        bytes: The size of its data files.
        operation: What wrote it: "merge", "insert", "overwrite", "update", "delete", "minor" or
            "major"; None when nobody says.
        rows: How many rows the whole run inserted, updated and deleted, in all partitions; None
            when nobody says.
        time: When it was written, in seconds since 1970, if known.
        txn_id: The transaction, if known.
        run_token: "dag/run/task/map index" of the Airflow task; None is somebody else's work.
        user: Who wrote it, if anybody says.
        proof: What a compaction of ours counted before anybody could see it, in a sentence.
    """

    min_write_id: int
    max_write_id: int
    partition: str | None
    directory: str | None
    kind: str
    compaction: bool
    state: DirectoryState
    bytes: int
    operation: str | None = None
    rows: int | None = None
    time: float | None = None
    txn_id: int | None = None
    run_token: str | None = None
    user: str | None = None
    proof: str | None = None


def states_of(state: AcidDirectory, directories: Iterable[str]) -> dict[str, DirectoryState]:
    """What a new reader makes of each ACID directory of a partition.

    Args:
        state: What it reads.
        directories: The names of all directories there.
    """
    known = {
        **dict.fromkeys(state.obsolete, DirectoryState.OBSOLETE),
        **dict.fromkeys(state.aborted, DirectoryState.ABORTED),
        **dict.fromkeys(filter(None, (state.base, *state.deltas)), DirectoryState.CURRENT),
    }
    return {
        name: known.get(name, DirectoryState.OPEN)
        for name in directories
        if parse_directory(name) is not None
    }


def entry_of(
    name: str,
    partition: str | None,
    state: DirectoryState,
    size: int,
    *,
    marked: bool = False,
    written_at: float | None = None,
) -> HistoryEntry:
    """Describe an ACID directory by its name.

    Args:
        name: The directory.
        partition: Where it is.
        state: Whether it counts.
        size: The size of its data files.
        marked: It is a base with the marker file of a compaction, as Hive 3 leaves it.
        written_at: When its files were written, if known.
    """
    parsed = parse_directory(name)
    assert parsed is not None, name
    if isinstance(parsed, Base):
        compaction = parsed.visibility_txn > 0 or marked
        # The base of a converted table is older than every write id.
        last = max(0, parsed.write_id)
        first, kind = (0 if compaction else last), (MAJOR if compaction else "base")
    else:
        first, last = parsed.min_write_id, parsed.max_write_id
        # Hive 3 leaves it at this, and the batches of its streaming writers look the same.
        compaction = parsed.visibility_txn > 0 or parsed.statement_id is None
        kind = MINOR if compaction else "delete" if parsed.is_delete else "insert"
    return HistoryEntry(
        min_write_id=first,
        max_write_id=last,
        partition=partition,
        directory=name,
        kind=kind,
        compaction=compaction,
        state=state,
        bytes=size,
        operation=kind if compaction else None,
        time=written_at,
        txn_id=parsed.visibility_txn or None,
    )


def facts_of(note: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry that a note of ours fills."""
    report = note.get("report")
    return {
        "operation": _text(note.get("operation")),
        "rows": _rows(report) if isinstance(report, Mapping) else None,
        "time": _time(note.get("time")),
        "txn_id": _whole(note.get("txn_id")),
        "run_token": _text(note.get("run_token")),
        "user": _text(note.get("user")),
        "proof": _proof(note.get("proof")),
    }


def entries_of_runs(
    notes: Iterable[Mapping[str, Any]], entries: Iterable[HistoryEntry]
) -> Iterator[HistoryEntry]:
    """Describe committed runs that no directory is left of.

    Args:
        notes: Those of committed runs.
        entries: The directories that are there.
    """
    there = {entry.max_write_id for entry in entries if not entry.compaction}
    for note in notes:
        report, write_id = note.get("report"), _whole(note.get("write_id"))
        if write_id is None or write_id in there or not isinstance(report, Mapping):
            continue
        if not _whole(report.get("files")):
            continue
        kinds = {"delete": "delete", "overwrite": "base"}
        facts = facts_of(note)
        yield HistoryEntry(
            min_write_id=write_id,
            max_write_id=write_id,
            partition=None,
            directory=None,
            kind=kinds.get(facts["operation"], "insert"),
            compaction=False,
            state=DirectoryState.CLEANED,
            bytes=_whole(report.get("bytes")) or 0,
            **facts,
        )


def newest_first(entries: Iterable[HistoryEntry], limit: int) -> list[HistoryEntry]:
    """The newest entries; a compaction is newer than what it has taken in."""
    return sorted(
        entries,
        key=lambda entry: (entry.max_write_id, entry.compaction, entry.min_write_id),
        reverse=True,
    )[:limit]


def later_than(time: datetime, entries: Iterable[HistoryEntry], now: ValidWriteIdList) -> list[int]:
    """The committed write ids that somebody who read at a time did not see.

    Where nobody says when a write was committed, but only when a compaction took it in, it counts
    as later until then.

    Args:
        time: When it was read.
        entries: All of the table's history.
        now: What a new reader sees.
    """
    when = time.timestamp()
    known: dict[int, float] = {}
    merged: set[int] = set()
    for entry in entries:
        ids = range(max(1, entry.min_write_id), min(entry.max_write_id, now.high_watermark) + 1)
        late = entry.time is None or entry.time > when
        if len(ids) == 1 and not entry.compaction and entry.time is not None:
            own = known.get(ids[0], entry.time)
            # A transaction is committed after the last of its directories.
            known[ids[0]] = max(own, entry.time)
        elif late:
            merged.update(ids)
    later = {write_id for write_id, own in known.items() if own > when}
    later |= {write_id for write_id in merged if write_id not in known}
    return sorted(write_id for write_id in later if now.is_valid(write_id))


# A note is a file that anybody may have put there: a part that makes no sense is no part of it.


def _rows(report: Mapping[str, Any]) -> int:
    names = ("rows_inserted", "rows_updated", "rows_deleted")
    return sum(_whole(report.get(name)) or 0 for name in names)


def _proof(proof: object) -> str | None:
    if not isinstance(proof, Mapping):
        return None
    sides = []
    for what in ("rows", "events"):
        read, written = (_whole(proof.get(f"{what}_{how}")) for how in ("read", "written"))
        if not read or written is None:
            continue
        less = [
            f"{gone} {how}"
            for how in ("deleted", "aborted", "repeated")
            if (gone := _whole(proof.get(f"{what}_{how}")))
        ]
        digest = _text(proof.get(f"{what}_digest")) or "?"
        without = f" - {' - '.join(less)}" if less else ""
        sides.append(f"{what}: {read}{without} = {written}, {digest[:16]}")
    return "; ".join(sides) or None


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return None


def _text(value: object) -> str | None:
    # Half of a surrogate pair cannot be shown, and nobody writes that much about a run.
    if not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT:
        return None
    return value.encode(errors="replace").decode()


def _time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
