"""Who may finish after whom: what the policy "strict" makes of two writers that overlap.

Two writers overlap where one of them commits between the beginning and the commit of the other, in
the same partition, or in the same table without partitions. The one that commits first always
succeeds. Whether the other one does is a matter of what both do, and stands in one table: that of
MaxCompute, which has it for the same kinds of writers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from airflow_hiveacid.acid.locks import Operation

# What becomes of a write while which others have committed: "hive" is what the metastore decides, by
# locks and by its check at commit; "strict" what the matrix decides, on top of that. With "rows",
# changes of a partition are worked out side by side, and those of different rows succeed.
ConflictPolicy = Literal["hive", "strict", "rows"]


class WriteKind(StrEnum):
    """The kinds of writers that the matrix tells apart."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    CHANGE = "change"
    MINOR = "minor"
    MAJOR = "major"


KIND_NAMES: Mapping[WriteKind, str] = {
    WriteKind.OVERWRITE: "overwrite or truncate",
    WriteKind.APPEND: "append",
    WriteKind.CHANGE: "update, delete or merge",
    WriteKind.MINOR: "minor compaction",
    WriteKind.MAJOR: "major compaction or rebalance",
}

# Who may commit after whom.
MATRIX: Mapping[WriteKind, frozenset[WriteKind]] = {
    WriteKind.OVERWRITE: frozenset({WriteKind.OVERWRITE}),
    WriteKind.APPEND: frozenset({WriteKind.OVERWRITE, WriteKind.MINOR}),
    WriteKind.CHANGE: frozenset({WriteKind.OVERWRITE, WriteKind.MINOR}),
    WriteKind.MINOR: frozenset(
        {WriteKind.OVERWRITE, WriteKind.APPEND, WriteKind.CHANGE, WriteKind.MAJOR}
    ),
    WriteKind.MAJOR: frozenset({WriteKind.OVERWRITE, WriteKind.APPEND, WriteKind.CHANGE}),
}

_KINDS = {
    Operation.INSERT: WriteKind.APPEND,
    Operation.OVERWRITE: WriteKind.OVERWRITE,
    Operation.UPDATE: WriteKind.CHANGE,
    Operation.DELETE: WriteKind.CHANGE,
    Operation.MERGE: WriteKind.CHANGE,
}
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Finished:
    """What somebody has committed in one partition.

    Attributes:
        kind: What it was.
        partition: Where; None is a table without partitions.
        what: The write id or the directory, in words.
        by: Who did it, in words.
    """

    kind: WriteKind
    partition: str | None
    what: str
    by: str


def kind_of(operation: Operation) -> WriteKind:
    """What the matrix calls an operation that writes."""
    return _KINDS[operation]


def succeeds(earlier: WriteKind, later: WriteKind) -> bool:
    """Whether both of two writers that overlap succeed, or only the one that commits first."""
    return later in MATRIX[earlier]


def refusing(
    later: WriteKind, partitions: Collection[str | None], finished: Iterable[Finished]
) -> list[Finished]:
    """Whom of those who have committed meanwhile the matrix puts before a writer.

    Args:
        later: What is about to be committed.
        partitions: What it has written; None stands for a table without partitions.
        finished: What others have committed since it began.
    """
    return [
        each for each in finished if each.partition in partitions and not succeeds(each.kind, later)
    ]


def describe_refusal(table: str, later: WriteKind, by: str, refused: Sequence[Finished]) -> str:
    """Say which cell of the matrix it was, and who both writers are.

    Args:
        table: The full name of the table.
        later: What cannot be committed.
        by: Who wanted it, in words.
        refused: What was committed first; at least one.
    """
    kinds = dict.fromkeys(each.kind for each in refused)
    cells = ", ".join(f"{kind} before {later}" for kind in kinds)
    return (
        f"{table}: {KIND_NAMES[later]} of {by} was overtaken, and the policy strict lets only the"
        f" first of both succeed ({cells}). Committed since it began: {_all_of(refused)}."
    )


def describe_shared_rows(
    table: str, later: WriteKind, by: str, what: str, finished: Sequence[Finished]
) -> str:
    """Say which rows two changes have in common, and who both writers are.

    Args:
        table: The full name of the table.
        later: What cannot be committed.
        by: Who wanted it, in words.
        what: Which rows, in words.
        finished: What was committed first.
    """
    return (
        f"{table}: {KIND_NAMES[later]} of {by} was overtaken: others have written {what}."
        f" Committed since it began: {_all_of(finished)}."
    )


def describe_renumbered(
    table: str, partition: str | None, later: WriteKind, by: str, unproven: Collection[str]
) -> str:
    """Describe a change whose row ids may not identify the rows any more that they were read from.

    Args:
        table: The full name of the table.
        partition: Where; None is a table without partitions.
        later: What cannot be committed.
        by: Who wanted it, in words.
        unproven: The directories without a proof; empty if it is not recorded what was read.
    """
    where = table if partition is None else f"{table}/{partition}"
    named = sorted(unproven)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    why = f"about {', '.join(named[:_MOST_NAMED])}{more}" if named else "of what was read"
    return (
        f"{where}: {KIND_NAMES[later]} of {by} names rows by row ids that may have changed since they"
        f" were read. No note {why} proves that only minor and major compactions have replaced files."
    )


def matrix_rows() -> list[list[str]]:
    """The matrix as a table of texts, with its head: those who commit first are in the lines."""
    head = ["committed first", *(f"then {kind}" for kind in WriteKind)]
    lines = [
        [KIND_NAMES[first], *("both" if succeeds(first, then) else "first" for then in WriteKind)]
        for first in WriteKind
    ]
    return [head, *lines]


def _all_of(finished: Sequence[Finished]) -> str:
    named = []
    for each in finished[:_MOST_NAMED]:
        where = "" if each.partition is None else f" in {each.partition}"
        named.append(f"{KIND_NAMES[each.kind]} ({each.what}{where}, {each.by})")
    more = f"; and {len(finished) - _MOST_NAMED} more" if len(finished) > _MOST_NAMED else ""
    return f"{'; '.join(named) or 'what has been removed again'}{more}"
