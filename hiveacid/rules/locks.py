"""Locks of each operation for each version of the metastore, and conflicts between locks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum, StrEnum
from typing import Literal, Self

from hiveacid.dataclass import dataclass
from hiveacid.rules.names import TableRef, first_names
from hiveacid.rules.schema import TableKind


class LockType(IntEnum):
    """Thrift's LockType. A metastore without EXCL_WRITE would store an invalid value."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class LockLevel(IntEnum):
    """Thrift's LockLevel."""

    DB = 1
    TABLE = 2
    PARTITION = 3


class DataOperation(IntEnum):
    """Thrift's DataOperationType: the operation of a lock's owner."""

    SELECT = 1
    INSERT = 2
    UPDATE = 3
    DELETE = 4
    UNSET = 5
    NO_TXN = 6


class Operation(StrEnum):
    """Operation of a transaction of this package on its table."""

    SELECT = "select"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Target:
    """Operation of a transaction on one table.

    Attributes:
        ref: The table.
        operation: The operation.
        partitioned: Whether it has partition keys.
        partitions: The names of all partitions that may be touched; None if they are not known
            in advance, which locks the table as a dynamic partition write.
    """

    ref: TableRef
    operation: Operation
    partitioned: bool = False
    partitions: Sequence[str] | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether the operation can change or remove existing rows."""
        return self.operation not in (Operation.SELECT, Operation.INSERT)

    def joined(self, other: Self) -> Self:
        """Return one target for two of one table: the stronger operation, all partitions."""
        partitions = None
        if self.partitions is not None and other.partitions is not None:
            partitions = tuple(dict.fromkeys((*self.partitions, *other.partitions)))
        operation = max(self.operation, other.operation, key=_STRENGTH.index)
        return replace(self, operation=operation, partitions=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent:
    """Component of a lock request, which asks for all its components at once."""

    type: LockType
    level: LockLevel
    database: str
    table: str
    partition: str | None
    operation: DataOperation
    is_transactional: bool
    is_dynamic_partition_write: bool


# With more partitions than this, the whole table is locked: each lock is a row in the metastore.
MAX_PARTITION_LOCKS = 256

_STRENGTH = (
    Operation.SELECT,
    Operation.INSERT,
    Operation.UPDATE,
    Operation.DELETE,
    Operation.MERGE,
    Operation.OVERWRITE,
)

# The lock types that block a waiting request of a type, at the same table or partition; without
# and with EXCL_WRITE.
_BLOCKED_BY: dict[bool, dict[LockType, frozenset[LockType]]] = {
    False: {
        LockType.SHARED_READ: frozenset({LockType.EXCLUSIVE}),
        LockType.SHARED_WRITE: frozenset({LockType.SHARED_WRITE, LockType.EXCLUSIVE}),
        LockType.EXCLUSIVE: frozenset(
            {LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE}
        ),
    },
    True: {
        LockType.SHARED_READ: frozenset({LockType.EXCLUSIVE}),
        LockType.SHARED_WRITE: frozenset({LockType.EXCL_WRITE, LockType.EXCLUSIVE}),
        LockType.EXCL_WRITE: frozenset(
            {LockType.SHARED_WRITE, LockType.EXCL_WRITE, LockType.EXCLUSIVE}
        ),
        LockType.EXCLUSIVE: frozenset(LockType),
    },
}


def restoring_operation(kind: TableKind) -> Operation:
    """Return the operation of a restore: rows of an insert-only table cannot be deleted."""
    return Operation.OVERWRITE if kind is TableKind.INSERT_ONLY else Operation.MERGE


def partitions_to_lock(partitions: Sequence[str] | None) -> Sequence[str] | None:
    """Return the partitions that a statement locks; None means the whole table.

    Args:
        partitions: The names of all partitions that may be touched, if known in advance.
    """
    is_few = partitions and len(partitions) <= MAX_PARTITION_LOCKS
    return partitions if is_few else None


def joined_targets(targets: Iterable[Target]) -> dict[TableRef, Target]:
    """Return one target for each table of a transaction; see ``Target.joined``."""
    targets_by_table: dict[TableRef, Target] = {}
    for target in sorted(targets, key=lambda target: target.ref):
        target_before = targets_by_table.get(target.ref)
        targets_by_table[target.ref] = (
            target if target_before is None else target_before.joined(target)
        )
    return targets_by_table


def transaction_components(
    has_excl_write: bool, targets: Iterable[Target], reads: Iterable[TableRef]
) -> tuple[LockComponent, ...]:
    """Return the locks of a transaction.

    Args:
        has_excl_write: Whether the metastore has locks of the type EXCL_WRITE.
        targets: The tables that it writes, with its operations.
        reads: The transactional tables that it reads.
    """
    targets_by_table = joined_targets(targets)
    read_tables = [read for read in dict.fromkeys(reads) if read not in targets_by_table]
    components = [
        component for read in read_tables for component in read_lock_components(read, True)
    ]
    for target in targets_by_table.values():
        components += lock_components(
            has_excl_write, target.operation, target.ref, target.partitioned, target.partitions
        )
    return tuple(components)


def lock_components(
    has_excl_write: bool,
    operation: Operation,
    target: TableRef,
    partitioned: bool,
    partitions: Sequence[str] | None = None,
) -> tuple[LockComponent, ...]:
    """Return the locks of one operation on the transactional table that it writes, or reads.

    Args:
        has_excl_write: Whether the metastore has locks of the type EXCL_WRITE.
        operation: The operation.
        target: The table.
        partitioned: Whether the table has partition keys.
        partitions: The names of all partitions that may be touched; None if they are not known
            in advance, which locks the table as a dynamic partition write.
    """
    if operation is Operation.SELECT:
        return read_lock_components(target, True, partitions)
    return _components(
        _write_lock(has_excl_write, operation),
        # Deletes count as updates: HMS 3 sees no conflict between two deletes, and a row that one
        # deletes, and the other deletes and inserts again, would exist twice.
        DataOperation.INSERT if operation is Operation.INSERT else DataOperation.UPDATE,
        target,
        partitions if partitioned else None,
        transactional=True,
        dynamic=partitioned and not partitions,
    )


def read_lock_components(
    table: TableRef, transactional: bool, partitions: Sequence[str] | None = None
) -> tuple[LockComponent, ...]:
    """Return the locks that keep read data from being cleaned or replaced meanwhile."""
    return _components(
        LockType.SHARED_READ,
        DataOperation.SELECT,
        table,
        partitions,
        transactional=transactional,
        dynamic=False,
    )


def exclusively_locked(components: Sequence[LockComponent]) -> list[TableRef]:
    """Return the tables that components lock exclusively, as a whole or in part."""
    return [
        TableRef(component.database, component.table)
        for component in components
        if component.type is LockType.EXCLUSIVE
    ]


def blocks(has_excl_write: bool, held_type: LockType, requested_type: LockType) -> bool:
    """Whether an earlier lock makes a later request wait."""
    return held_type in _BLOCKED_BY[has_excl_write][requested_type]


def _write_lock(has_excl_write: bool, operation: Operation) -> LockType:
    if operation is Operation.INSERT:
        return LockType.SHARED_READ
    if operation is Operation.OVERWRITE:
        # An insert with a smaller write id that commits later would be hidden forever.
        return LockType.EXCLUSIVE
    return LockType.EXCL_WRITE if has_excl_write else LockType.SHARED_WRITE


def _components(
    type_: LockType,
    operation: DataOperation,
    table: TableRef,
    partitions: Sequence[str] | None,
    *,
    transactional: bool,
    dynamic: bool,
) -> tuple[LockComponent, ...]:
    return tuple(
        LockComponent(
            type=type_,
            level=LockLevel.TABLE if partition is None else LockLevel.PARTITION,
            database=table.database,
            table=table.name,
            partition=partition,
            operation=operation,
            is_transactional=transactional,
            is_dynamic_partition_write=dynamic,
        )
        for partition in (partitions or (None,))
    )


# Conflict matrix of the policy "strict": which of two overlapping writers succeed.
#
# Two writers overlap if one of them commits between the beginning and the commit of the other, in
# the same partition, or in the same table without partitions. The one that commits first always
# succeeds. The matrix decides on the other one by the kinds of both. It is that of MaxCompute,
# which has the same kinds of writers.


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


def succeeds(earlier: WriteKind, later_kind: WriteKind) -> bool:
    """Whether both of two overlapping writers succeed, not only the one that commits first."""
    return later_kind in MATRIX[earlier]


def refusing(
    later_kind: WriteKind, partitions: Collection[str | None], finished: Iterable[Finished]
) -> list[Finished]:
    """Return the commits that refuse a later writer by the matrix.

    Args:
        later_kind: The operation to be committed.
        partitions: The written partitions; None for a table without partitions.
        finished: The commits of others since it began.
    """
    return [
        commit
        for commit in finished
        if commit.partition in partitions and not succeeds(commit.kind, later_kind)
    ]


def describe_refusal(
    table: str, later_kind: WriteKind, by: str, refused: Sequence[Finished]
) -> str:
    """Describe the cell of the matrix that refuses a writer, and both writers.

    Args:
        table: The full name of the table.
        later_kind: The operation that cannot be committed.
        by: Its writer, in words.
        refused: The earlier commits; at least one.
    """
    kinds = dict.fromkeys(commit.kind for commit in refused)
    cells = ", ".join(f"{kind} before {later_kind}" for kind in kinds)
    return (
        f"{table}: {KIND_NAMES[later_kind]} of {by} was overtaken, and the policy strict lets only the"
        f" first of both succeed ({cells}). Committed since it began: {_all_of(refused)}."
    )


def describe_shared_rows(
    table: str, later_kind: WriteKind, by: str, rows_in_words: str, finished: Sequence[Finished]
) -> str:
    """Describe the rows that two changes have in common, and both writers.

    Args:
        table: The full name of the table.
        later_kind: The operation that cannot be committed.
        by: Its writer, in words.
        rows_in_words: The rows, in words.
        finished: The earlier commits.
    """
    return (
        f"{table}: {KIND_NAMES[later_kind]} of {by} was overtaken: others have written {rows_in_words}."
        f" Committed since it began: {_all_of(finished)}."
    )


def describe_renumbered(
    table: str, partition: str | None, later_kind: WriteKind, by: str, unproven: Collection[str]
) -> str:
    """Describe a change whose row ids may no longer identify the rows that were read.

    Args:
        table: The full name of the table.
        partition: The partition; None for a table without partitions.
        later_kind: The operation that cannot be committed.
        by: Its writer, in words.
        unproven: The directories without a proof; empty if the read directories are not recorded.
    """
    where = table if partition is None else f"{table}/{partition}"
    names = sorted(unproven)
    notes_in_words = f"about {first_names(names, _MOST_NAMED)}" if names else "of what was read"
    return (
        f"{where}: {KIND_NAMES[later_kind]} of {by} names rows by row ids that may have changed since they"
        f" were read. No note {notes_in_words} proves that only minor and major compactions have replaced files."
    )


def matrix_rows() -> list[list[str]]:
    """Return the matrix as a table of texts with its head; a line is an earlier writer."""
    head = ["committed first", *(f"then {kind}" for kind in WriteKind)]
    lines = [
        [
            KIND_NAMES[first],
            *("both" if succeeds(first, later_kind) else "first" for later_kind in WriteKind),
        ]
        for first in WriteKind
    ]
    return [head, *lines]


def _all_of(finished: Sequence[Finished]) -> str:
    descriptions = []
    for commit in finished[:_MOST_NAMED]:
        where = "" if commit.partition is None else f" in {commit.partition}"
        descriptions.append(f"{KIND_NAMES[commit.kind]} ({commit.what}{where}, {commit.by})")
    addition = f"; and {len(finished) - _MOST_NAMED} more" if len(finished) > _MOST_NAMED else ""
    return f"{'; '.join(descriptions) or 'writes that were removed again'}{addition}"
