"""What notes say of writes, in short, so that it survives the directories that the notes lie in.

The note of a compaction takes over what those of its inputs say of their writes, and of the writes
that those have taken over. A note is a file that anybody may have put there: a part that makes no
sense is no part of it, and what is far too long is none either.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from airflow_hiveacid.acid.names import Base, Delta, parse_directory
from airflow_hiveacid.acid.sidecar import MERGED_WRITES, replaced_by
from airflow_hiveacid.errors import MalformedName

# The oldest writes are left out of a note where there are more.
MOST_WRITES = 1000
MOST_BYTES = 64 << 10

_LONGEST_TEXT = 2000
_LONGEST_TIME = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFacts:
    """What is known of one write to one table; None is what nobody says.

    Attributes:
        write_id: Its write id.
        operation: What it was: "merge", "insert", "overwrite", "update", "delete" or "restore"; "transaction"
            where several statements were committed together.
        time: When its files were published, in seconds since 1970.
        seconds: How long it took.
        rows_inserted: How many new rows it wrote to the table, in all partitions.
        rows_updated: How many it changed.
        rows_deleted: How many it deleted.
        files: How many files it left.
        bytes: Their size.
        partitions: The names of the partitions that it wrote; short facts have none.
        partition_count: How many they were.
        txn_id: The transaction.
        run_token: "dag/run/task/map index" of the Airflow task.
        run_id: The run of the DAG, where something else stands for it in run_token.
        user: Who wrote it.
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

    @property
    def is_noted(self) -> bool:
        """Whether its writer has left a note; else the time is that of some of its files."""
        return self.operation is not None or self.txn_id is not None

    def joined(self, other: Self) -> Self:
        """What two compactions, each of one partition, have taken over of the write together."""
        if self.is_noted or other.is_noted:
            return self if self.is_noted else other
        return max(self, other, key=lambda facts: facts.time or 0)

    @classmethod
    def of_note(cls, note: Mapping[str, Any], write_id: int, table: str) -> Self:
        """What the note of a write says.

        Args:
            note: The note: that of a directory, or that on a run.
            write_id: The write id, which the name of the directory tells.
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
                "partition_count": len(partitions) or None,
            }
        )

    @classmethod
    def of_record(cls, record: object) -> Self | None:
        """Read what ``to_record`` made, or anything else; None when it tells of no write."""
        if not isinstance(record, Mapping):
            return None
        write_id = whole(record.get("write_id"))
        if not write_id:
            return None
        return cls(**cls._of(record, record, write_id))

    @staticmethod
    def _of(who: Mapping[str, Any], what: Mapping[str, Any], write_id: int) -> dict[str, Any]:
        return {
            "write_id": write_id,
            "operation": text(who.get("operation")),
            "time": moment(who.get("time")),
            "seconds": _duration(who.get("seconds")),
            "txn_id": whole(who.get("txn_id")),
            "run_token": text(who.get("run_token")),
            "run_id": text(who.get("run_id")),
            "user": text(who.get("user")),
            **{
                name: whole(what.get(name))
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
        """The short facts as plain values, without the names of partitions."""
        plain = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("partitions", "time")
        }
        return {
            name: value
            for name, value in {**plain, "time": _iso(self.time)}.items()
            if value not in (None, "")
        }


def taken_over(
    notes: Mapping[str, Mapping[str, Any]],
    table: str,
    others: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """What the note of a compaction says of the writes that it merges, the newest first.

    Args:
        notes: The notes of the directories that it replaces, by their names.
        table: The table's full name.
        others: When the files of writers were written that leave no note, by their write ids.

    Returns:
        A part of the note; nothing when no note says anything.
    """
    known: dict[int, WriteFacts] = {}
    for name, note in notes.items():
        for facts in _told_in(name, note, table):
            known.setdefault(facts.write_id, facts)
    for write_id, time in (others or {}).items():
        known.setdefault(write_id, WriteFacts(write_id=write_id, time=time))
    records: list[dict[str, Any]] = []
    size = 0
    for write_id in sorted(known, reverse=True)[:MOST_WRITES]:
        record = known[write_id].to_record()
        size += len(json.dumps(record))
        if size > MOST_BYTES:
            break
        records.append(record)
    return {MERGED_WRITES: records} if records else {}


def merged_writes(directory: str, note: Mapping[str, Any]) -> Iterator[WriteFacts]:
    """What the note of a compaction has taken over, as far as it can be true.

    Args:
        directory: The name of the directory that the note lies in.
        note: The note.
    """
    records = note.get(MERGED_WRITES)
    parsed = _parse(directory)
    if parsed is None or not isinstance(records, list):
        return
    seen = set()
    for record in records[:MOST_WRITES]:
        facts = WriteFacts.of_record(record)
        if facts is not None and facts.write_id in parsed.write_ids and facts.write_id not in seen:
            seen.add(facts.write_id)
            yield facts


def merged_ranges(directory: str, note: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Which write ids a compaction has merged: the first and the last one of each range.

    Args:
        directory: The directory that it has made.
        note: The note in it; an empty one where there is none.
    """
    told = replaced_by(note)
    replaced = None if told is None else told.paths
    oldest = min((facts.write_id for facts in merged_writes(directory, note)), default=None)
    spans = []
    for parsed in map(_parse, [directory] if replaced is None else replaced):
        if parsed is None:
            continue
        first, last = max(1, parsed.write_ids.start), parsed.write_ids.stop - 1
        if replaced is not None and isinstance(parsed, Base) and not parsed.visibility_txn:
            # Of an overwrite, and on Hive 3 maybe of a compaction: older writes tell that.
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
    """Whether a directory holds one write and nothing else."""
    parsed = _parse(directory)
    if isinstance(parsed, Base):
        return parsed.write_id == write_id and not parsed.visibility_txn
    return parsed is not None and parsed.write_ids == range(write_id, write_id + 1)


def only_write_id(directory: str) -> int | None:
    """The write that a delta is of; None where its name may also be that of a compaction."""
    parsed = _parse(directory)
    if isinstance(parsed, Delta) and parsed.statement_id is not None:
        return parsed.max_write_id
    return None


def seconds_of(phases: object) -> float | None:
    """How long all phases took together, if a report says that."""
    if not isinstance(phases, Mapping):
        return None
    spent = [_duration(seconds) for seconds in phases.values()]
    known = [seconds for seconds in spent if seconds is not None]
    return round(sum(known), 3) if known else None


def whole(value: object) -> int | None:
    """A whole number that fits a file, and nothing else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return None


def text(value: object) -> str | None:
    """A text that can be shown, and is no longer than anybody writes about a run."""
    if not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT:
        return None
    # Half of a surrogate pair cannot be shown.
    return value.encode(errors="replace").decode()


def moment(value: object) -> float | None:
    """A time in ISO form, in seconds since 1970."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _told_in(name: str, note: Mapping[str, Any], table: str) -> Iterator[WriteFacts]:
    """What a note in an input of a compaction tells of writes."""
    write_id = whole(note.get("write_id"))
    if write_id and is_own(name, write_id) and MERGED_WRITES not in note:
        yield WriteFacts.of_note(note, write_id, table)
    else:
        yield from merged_writes(name, note)


def _of_table(report: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """What a run did to one table; nothing when it says so of others only."""
    tables = report.get("tables")
    if not isinstance(tables, list) or len(tables) < 2:
        # Of the one table of a run everything is the table's, whatever it was called then.
        return report
    for part in tables:
        if isinstance(part, Mapping) and part.get("table") == table:
            return part
    return {}


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
