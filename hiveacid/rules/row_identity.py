"""Check whether row ids still identify the rows that a snapshot read them from.

A row id identifies a row until its partition is renumbered: minor and major compactions keep row ids,
rebalances and overwrites do not. Only the note of a compaction proves which of them wrote a directory.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.sidecar import compacted_from


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
    replaced: set[str] = set()
    waiting = [*(current - read)]
    while waiting:
        name = waiting.pop()
        directory = parse_directory(name)
        if isinstance(directory, Delta) and directory.statement_id is not None:
            continue  # The output of a compaction never has a statement number.
        sources = None if directory is None else compacted_from(note(name) or {})
        if sources is not None:
            waiting += {*sources} - read - replaced
            replaced.update(sources)
        elif isinstance(directory, Base):
            unproven.add(name)
    return RowIdTrace(frozenset(unproven | (read - current - replaced)), frozenset(replaced))
