"""The table's folder in the model: which directories a snapshot reads, and the rows in them."""

from typing import NamedTuple

from tests.protocol.state import Directory, Event, Row, Snapshot


class Reading(NamedTuple):
    """The selection of a snapshot from a folder.

    Attributes:
        base: The base, if there is one.
        deltas: Deltas and delete deltas that are read.
        obsolete: Replaced directories.
        aborted: Directories that are never read.
        cut_off: Whether a needed directory has been replaced by an unreadable one.
    """

    base: Directory | None
    deltas: tuple[Directory, ...]
    obsolete: frozenset[Directory]
    aborted: frozenset[Directory]
    cut_off: bool = False

    @property
    def chosen(self) -> tuple[Directory, ...]:
        """All that is read."""
        return (self.base, *self.deltas) if self.base else self.deltas


def choose(directories: frozenset[Directory], seen: Snapshot, *, compacts: bool = False) -> Reading:
    """Choose the directories of a snapshot, by Hive's rules.

    Args:
        directories: The directories of the folder.
        seen: The snapshot.
        compacts: Whether a compactor of version 3 reads, which takes all below its watermark.
    """
    bases, deltas, aborted, unread = [], [], set(), False
    for each in directories:
        if each.visibility and not seen.sees_txn(each.visibility):
            if each.visibility in seen.aborted:
                aborted.add(each)
            continue
        if each.kind == "base":
            if each.last < seen.least_open_id and each.last <= seen.high:
                bases.append(each)
            else:
                unread = True
            continue
        ids = range(each.first, each.last + 1)
        if not compacts and all(write_id in seen.aborted_ids for write_id in ids):
            aborted.add(each)
        elif any(map(seen.sees, ids)) or (compacts and each.last <= seen.high):
            deltas.append(each)
    base = max(bases, key=lambda each: (each.last, each.visibility), default=None)
    obsolete = {each for each in bases if each != base}
    chosen, covered = [], base.last if base else 0
    extent = None
    for each in sorted(deltas, key=lambda d: (d.first, -d.last, not d.compacted, d.name)):
        if each.last > covered:
            new = range(covered + 1, each.last + 1)
            if not any(map(seen.sees, new)) and not compacts:
                continue
            covered, extent = each.last, (each.first, each.last, each.compacted)
        elif extent != (each.first, each.last, each.compacted):
            obsolete.add(each)
            continue
        chosen.append(each)
    return Reading(
        base, tuple(chosen), frozenset(obsolete), frozenset(aborted), unread and base is None
    )


def rows_in(chosen: tuple[Directory, ...], seen: Snapshot) -> list[Row]:
    """The rows that a snapshot sees in directories, in order; a row may be there twice."""
    deleted = {
        event.id
        for each in chosen
        for event in each.rows
        if isinstance(event, Event) and seen.sees(event.write_id)
    }
    return sorted(
        row
        for each in chosen
        for row in each.rows
        if isinstance(row, Row) and seen.sees(row.id.write_id) and row.id not in deleted
    )


def visible(directories: frozenset[Directory], seen: Snapshot) -> list[Row]:
    """The rows that a snapshot sees of the table."""
    return rows_in(choose(directories, seen).chosen, seen)
