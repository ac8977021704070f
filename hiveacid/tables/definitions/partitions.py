"""ALTER TABLE ... ADD and DROP PARTITION, and MSCK REPAIR TABLE."""

from collections.abc import Iterator, Sequence
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    MalformedName,
    TableExists,
    TableNotFound,
    UserError,
)
from hiveacid.jobs.definition_jobs import PartitionsJob
from hiveacid.metastore.alteration import add_partitions, alter_table, mark_changed
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import require_same_table, transactional_table
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.cleaning import PARTITIONS_DROPPED, DroppedPartitions
from hiveacid.rules.names import TableRef, first_names, parse_partition_name
from hiveacid.rules.partitions import (
    KeyComparison,
    canonical_first,
    equal_partitions,
    matching_partitions,
    require_different_values,
    values_of_partition,
)
from hiveacid.storage.clock import storage_now
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.new_folders import require_unused_partitions
from hiveacid.tables.dropped_folders import require_own_folders


@dataclass(frozen=True, slots=True)
class ChangedPartitions:
    """The result of a statement that added or dropped partitions.

    Attributes:
        names: The partitions.
        warnings: The facts that its author should know.
    """

    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def change_partitions(
    client: MetastoreClient, ref: TableRef, job: PartitionsJob
) -> ChangedPartitions:
    """Add, drop or register partitions.

    Raises:
        WrongTableKind: The table is a plain one.
        TableExists: A partition to add exists.
        SharedLocation: Others have files in the folder of a partition to drop.
        TableNotFound: A clause of a drop matches no partition.
        UnsupportedTable: The folder of a partition to add has files.
    """
    table = partitioned_table(client, ref)
    match job.action:
        case "add":
            return _add(client, table, job)
        case "drop":
            return _drop(client, table, job)
    return _repair(client, table, job)


def partitioned_table(client: MetastoreClient, ref: TableRef) -> HiveTable:
    """Describe a transactional table whose partitions are to be added or dropped.

    Raises:
        WrongTableKind: The table is a plain one.
        UserError: It has no partition keys.
    """
    table = transactional_table(client, ref)
    if not table.partition_keys:
        raise UserError(f"{ref} has no partitions.")
    return table


def partitions_to_drop(
    table: HiveTable,
    names: Sequence[str],
    clauses: Sequence[Sequence[KeyComparison]],
    *,
    lenient: bool,
) -> tuple[str, ...]:
    """Return the partitions that the clauses of a DROP PARTITION match, in the order of their names.

    Args:
        table: The table.
        names: The names of its partitions.
        clauses: The clauses.
        lenient: Whether a clause with nothing but values may match no partition. Ranges always may.

    Raises:
        TableNotFound: A clause matches no partition.
        UserError: A clause does not fit the partition keys.
    """
    values = {name: dict(parse_partition_name(name)) for name in names}
    names_by_clause = matching_partitions(clauses, table.key_types, values, lenient=lenient)
    for clause, matches in zip(clauses, names_by_clause, strict=True):
        if not matches and not lenient and all(comparison.operator == "=" for comparison in clause):
            raise TableNotFound(
                f"{table.ref} has no partition with {', '.join(map(str, clause))}.",
                remedy="Write DROP IF EXISTS PARTITION if it need not exist.",
            )
    return tuple(sorted({name for matches in names_by_clause for name in matches}))


def partitions_to_add(
    table: HiveTable,
    names: Sequence[str],
    values: Sequence[Sequence[str | None]],
    *,
    lenient: bool,
) -> tuple[dict[str, HivePartition], list[str]]:
    """Return the partitions that ADD PARTITION adds, and the existing ones that it names.

    Args:
        table: The table.
        names: The names of its partitions.
        values: The values of each named partition.
        lenient: Whether partitions may exist.

    Raises:
        TableExists: A partition exists.
    """
    requested = {(new := HivePartition.new(table, value)).name: new for value in values}
    equal = equal_partitions(requested, names, table.key_types)
    existing = sorted({name for equal_names in equal.values() for name in equal_names})
    if existing and not lenient:
        raise TableExists(
            f"{table.ref} has the partition {existing[0]} already.",
            remedy="Write ADD IF NOT EXISTS PARTITION if it may exist.",
        )
    return {name: new for name, new in requested.items() if not equal[name]}, existing


def _add(client: MetastoreClient, table: HiveTable, job: PartitionsJob) -> ChangedPartitions:
    values = [values_of_partition(clause, table.key_types) for clause in job.partitions]
    # Another attempt finds the partitions that the first one has added.
    lenient = job.lenient or job.run_token is not None
    with ExclusiveTable(
        client, table.ref, job.token, job.lock_wait_seconds, type_=job.definition_lock
    ) as lock:
        table = require_same_table(client, table)
        names = client.get_partition_names(table.ref)
        new_partitions, existing = partitions_to_add(table, names, values, lenient=lenient)
        require_different_values(table.ref.full_name, new_partitions, names)
        require_unused_partitions(client, table, [*new_partitions.values()])
        add_partitions(client, table, [*new_partitions.values()], lock.confirm_alive)
    warnings = (
        [f"{table.ref} had the partitions {first_names(existing)} already."] if existing else []
    )
    return ChangedPartitions(tuple(sorted(new_partitions)), (*warnings, *lock.warnings))


def _drop(client: MetastoreClient, table: HiveTable, job: PartitionsJob) -> ChangedPartitions:
    # Another attempt does not find the partitions that the first one has dropped.
    lenient = job.lenient or job.run_token is not None
    names = client.get_partition_names(table.ref)
    names_to_drop = partitions_to_drop(table, names, job.partitions, lenient=lenient)
    if not names_to_drop:
        return ChangedPartitions((), (f"No partition of {table.ref} matches.",))
    # As Hive: the statement waits for readers and writers of these partitions, or of the whole
    # table.
    with ExclusiveTable(
        client,
        table.ref,
        job.token,
        job.lock_wait_seconds,
        partitions=names_to_drop,
        type_=job.definition_lock,
    ) as lock:
        require_same_table(client, table)
        require_own_folders(client, table, names_to_drop)
        write_id = client.allocate_write_id(lock.txn_id, table.ref)
        last = DroppedPartitions(write_id, storage_now(table.folder, lock.txn_id))
        # First: a version without the rows is refused even if this ends in the middle of the drop.
        _record(client, table, last, lock)
        client.drop_partitions(table.ref, names_to_drop, lock.confirm_alive)
    return ChangedPartitions(names_to_drop, tuple(lock.warnings))


def _record(
    client: MetastoreClient, table: HiveTable, last: DroppedPartitions, lock: ExclusiveTable
) -> None:
    """Record the version of a drop in the properties of the table."""

    def change(raw: Any) -> bool:
        previous = DroppedPartitions.of(raw.parameters)
        # An attempt that was paused may have a smaller write id than the one that overtook it.
        if previous is not None and previous.version >= last.version:
            return False
        raw.parameters[PARTITIONS_DROPPED] = str(last)
        mark_changed(raw)
        return True

    alter_table(client, table, change, lock.confirm_alive)


def _repair(client: MetastoreClient, table: HiveTable, job: PartitionsJob) -> ChangedPartitions:
    """Register the folders of partitions that have no files."""
    with ExclusiveTable(
        client, table.ref, job.token, job.lock_wait_seconds, type_=job.definition_lock
    ) as lock:
        table = require_same_table(client, table)
        locations = partition_locations(client, table)
        used_folders = frozenset(locations.values())
        folders = _folders(ReadOnlyStorage.of(table.folder), table)
        new = {
            (partition := HivePartition.new(table, values)).name: partition for values in folders
        }
        equal = equal_partitions(new, [*locations, *new], table.key_types)
        # The partition of a value exists, or is the one of the folder with the canonical name.
        partitions = [
            partition
            for name, partition in new.items()
            if not locations.keys() & {*equal[name]}
            and canonical_first(equal[name], table.key_types) == name
            and partition.folder not in used_folders
        ]
        require_unused_partitions(client, table, partitions)
        add_partitions(client, table, partitions, lock.confirm_alive)
    return ChangedPartitions(tuple(sorted(new.name for new in partitions)), tuple(lock.warnings))


def _folders(
    storage: ReadOnlyStorage, table: HiveTable, values: tuple[str | None, ...] = (), path: str = ""
) -> Iterator[tuple[str | None, ...]]:
    """Yield the values of the folders that have the names of all partition keys, in their order."""
    if len(values) == len(table.partition_keys):
        yield values
        return
    key = table.partition_keys[len(values)].name.lower()
    for name in storage.list_directories(path, missing_ok=True):
        try:
            ((key_of_folder, value),) = parse_partition_name(name)
        except MalformedName:
            continue
        if key_of_folder == key:
            yield from _folders(storage, table, (*values, value), f"{path}/{name}".lstrip("/"))
