"""Conflict matrix of the policy "strict": which of two overlapping writers succeed.

Two writers overlap if one of them commits between the beginning and the commit of the other, in
the same partition, or in the same table without partitions. The one that commits first always
succeeds. The matrix decides on the other one by the kinds of both. It is that of MaxCompute, which
has the same kinds of writers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hiveacid.rules.locks import Operation
from hiveacid.rules.name_list import first_names

# Outcome of a write after concurrent commits: "hive" leaves it to the metastore, by locks and by
# its check at commit; "strict" applies the matrix as well. With "rows", changes of a partition are
# computed concurrently, and those of different rows succeed.
ConflictPolicy = Literal["hive", "strict", "rows"]


class WriteKind(StrEnum):
    """Kinds of writers in the matrix."""

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

# The kinds that may commit later, for each earlier kind.
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
    """Committed operation in one partition.

    Attributes:
        kind: The kind of operation.
        partition: The partition; None for a table without partitions.
        what: The write id or the directory, in words.
        by: The writer, in words.
    """

    kind: WriteKind
    partition: str | None
    what: str
    by: str


def kind_of(operation: Operation) -> WriteKind:
    """Return the kind of an operation that writes."""
    return _KINDS[operation]


def succeeds(earlier: WriteKind, later: WriteKind) -> bool:
    """Whether both of two overlapping writers succeed, not only the one that commits first."""
    return later in MATRIX[earlier]


def refusing(
    later: WriteKind, partitions: Collection[str | None], finished: Iterable[Finished]
) -> list[Finished]:
    """Return the commits that refuse a later writer by the matrix.

    Args:
        later: The operation to be committed.
        partitions: The written partitions; None for a table without partitions.
        finished: The commits of others since it began.
    """
    return [
        each for each in finished if each.partition in partitions and not succeeds(each.kind, later)
    ]


def describe_refusal(table: str, later: WriteKind, by: str, refused: Sequence[Finished]) -> str:
    """Describe the cell of the matrix that refuses a writer, and both writers.

    Args:
        table: The full name of the table.
        later: The operation that cannot be committed.
        by: Its writer, in words.
        refused: The earlier commits; at least one.
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
    """Describe the rows that two changes have in common, and both writers.

    Args:
        table: The full name of the table.
        later: The operation that cannot be committed.
        by: Its writer, in words.
        what: The rows, in words.
        finished: The earlier commits.
    """
    return (
        f"{table}: {KIND_NAMES[later]} of {by} was overtaken: others have written {what}."
        f" Committed since it began: {_all_of(finished)}."
    )


def describe_renumbered(
    table: str, partition: str | None, later: WriteKind, by: str, unproven: Collection[str]
) -> str:
    """Describe a change whose row ids may no longer identify the rows that were read.

    Args:
        table: The full name of the table.
        partition: The partition; None for a table without partitions.
        later: The operation that cannot be committed.
        by: Its writer, in words.
        unproven: The directories without a proof; empty if the read directories are not recorded.
    """
    where = table if partition is None else f"{table}/{partition}"
    named = sorted(unproven)
    why = f"about {first_names(named, _MOST_NAMED)}" if named else "of what was read"
    return (
        f"{where}: {KIND_NAMES[later]} of {by} names rows by row ids that may have changed since they"
        f" were read. No note {why} proves that only minor and major compactions have replaced files."
    )


def matrix_rows() -> list[list[str]]:
    """Return the matrix as a table of texts with its head; a line is an earlier writer."""
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
    return f"{'; '.join(named) or 'writes that were removed again'}{more}"
