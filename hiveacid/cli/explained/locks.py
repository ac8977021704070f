"""EXPLAIN: the partitions that a statement affects, and its locks, by the rules of the engine."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from hiveacid.cli.answers import Cell
from hiveacid.jobs.definitions.ddl_jobs import TruncateJob
from hiveacid.jobs.sources import ChangesSource, Source, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import (
    check_kind,
    existing_table,
    names_of_partitions,
    partitions_of_insert,
    partitions_to_truncate,
    specified_partitions,
)
from hiveacid.metastore.txn.lock_request import collides, describe
from hiveacid.metastore.txn.writer_queue import ticket_components
from hiveacid.metastore.views_of_spark import database_of
from hiveacid.rules.locks import (
    MAX_PARTITION_LOCKS,
    LockComponent,
    Target,
    partitions_to_lock,
    restoring_operation,
    transaction_components,
)
from hiveacid.rules.merge import NotMatchedBySourceDelete, NotMatchedBySourceUpdate
from hiveacid.rules.name_list import first_names
from hiveacid.rules.names import TableRef
from hiveacid.rules.partition_filter import KeyComparison, matching_partitions
from hiveacid.rules.partition_keys import values_by_name
from hiveacid.rules.schema import TableKind
from hiveacid.sql.partition_conditions import (
    KeyScope,
    partitions_of_change,
    selected_partitions,
)
from hiveacid.sql.questions import RowChange
from hiveacid.sql.tied_partitions import ties_partitions
from hiveacid.sql.views import view_query

_BY_SOURCE = (NotMatchedBySourceDelete, NotMatchedBySourceUpdate)
_OF_CONDITION = (
    "on the partitions that Spark selects among those below by the condition; on the table if these "
    f"are all, none, or more than {MAX_PARTITION_LOCKS}"
)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a statement on its table.

    Attributes:
        target: The part of the transaction: the partitions that are locked, at most.
        touched: The existing partitions that it may read, replace, or add rows to.
        known: The number of existing partitions.
        where: The locked object if the start of the statement does not determine it.
        sources: The other tables that it reads, also below views.
    """

    target: Target
    touched: Sequence[str] = ()
    known: int = 0
    where: str = ""
    sources: Sequence[HiveTable] = field(default=(), repr=False)


def effect_of(client: MetastoreClient, job: RowChange, table: HiveTable) -> Effect:
    """Return the effect of a statement.

    Args:
        client: The metastore.
        job: The statement.
        table: Its table.

    Raises:
        NotTransactional: The table is a plain one.
        InsertOnlyTable: The table takes inserts only.
    """
    restores = isinstance(job, RestoreJob)
    operation = restoring_operation(table.kind) if restores else job.operation
    check_kind(table, operation)
    names = client.get_partition_names(table.ref) if table.partition_keys else []
    touched, locked, where = _affected(job, client, table, names)
    return Effect(
        Target(table.ref, operation, bool(table.partition_keys), partitions_to_lock(locked)),
        touched,
        len(names),
        where,
        tables_read(client, job.inputs_read.values()),
    )


def explained_locks(
    client: MetastoreClient, effects: Sequence[Effect]
) -> dict[str, Mapping[str, Cell]]:
    """Describe the locks of the statements of one transaction, and those it would wait for now."""
    reads = sorted(
        table.ref
        for effect in effects
        for table in effect.sources
        if table.kind is not TableKind.NOT_ACID
    )
    targets = [effect.target for effect in effects]
    asked = transaction_components(client.version, targets, reads)
    written = {target.ref for target in targets}
    locks: dict[str, Cell] = {}
    by_ref = by_table(asked)
    for ref in sorted(by_ref, key=lambda ref: (ref not in written, ref)):
        own = [effect for effect in effects if effect.target.ref == ref]
        locks[ref.full_name] = _described(by_ref[ref], own, alone=len(effects) == 1)
    return {"locks": locks, **locks_in_the_way(client, (*asked, *ticket_components(asked)))}


def locks_in_the_way(
    client: MetastoreClient, asked: Sequence[LockComponent]
) -> dict[str, Mapping[str, Cell]]:
    """Describe the locks that a request would wait for at the moment, if there are any."""
    locks = [lock for ref in sorted(by_table(asked)) for lock in client.show_locks(ref)]
    waits = [lock for lock in locks if collides(client.version, lock, asked)]
    described = {f"lock {lock.lock_id}": describe(lock) for lock in waits}
    return {"in the way now": described} if waits else {}


def by_table(asked: Iterable[LockComponent]) -> dict[TableRef, list[LockComponent]]:
    """Return the components of a request by their tables."""
    found: dict[TableRef, list[LockComponent]] = defaultdict(list)
    for each in asked:
        found[TableRef(each.database, each.table)].append(each)
    return found


def described_place(components: Sequence[LockComponent], below: Collection[str]) -> str:
    """Describe what is locked in a table; ``below`` are the partitions that the answer lists."""
    partitions = [each.partition for each in components if each.partition is not None]
    if not partitions:
        return "on the table"
    if {*partitions} == {*below}:
        return "on the partitions below"
    return f"on the partitions {first_names(partitions)}"


def tables_read(client: MetastoreClient, inputs: Iterable[Source]) -> list[HiveTable]:
    """Return the tables and views that inputs name, and the tables below the views."""
    found: dict[str, HiveTable] = {}
    pending = [*inputs]
    while pending:
        source = pending.pop(0)
        if not isinstance(source, TableSource | ChangesSource):
            continue
        ref = TableRef.parse(source.name)
        if ref.full_name not in found:
            table = found[ref.full_name] = existing_table(client, ref)
            if table.is_view:
                query = view_query(table.view_text, database_of(table), ref.full_name)
                pending += query.inputs.values()
    return [*found.values()]


def _described(
    components: Sequence[LockComponent], effects: Sequence[Effect], *, alone: bool
) -> str:
    """Describe the locks on a table that some statements write, or that others read."""
    wheres = dict.fromkeys(effect.where for effect in effects if effect.where)
    known = [effect for effect in effects if not effect.where]
    # Those that lock the whole table determine it.
    if wheres and all(effect.target.partitions is not None for effect in known):
        where = "; ".join(wheres)
    else:
        where = described_place(components, effects[0].touched if alone and effects else ())
    return f"{components[0].type.name} {where}"


# The partitions that a statement touches, those that it locks at most, and which of these it locks,
# if only Spark can determine them.
_Affected = tuple[Sequence[str], Sequence[str] | None, str]


@singledispatch
def _affected(
    job: RowChange, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    raise NotImplementedError(type(job))


@_affected.register
def _by_restore(
    job: RestoreJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    if table.kind is TableKind.INSERT_ONLY and table.partition_keys:
        most = MAX_PARTITION_LOCKS
        where = f"on the partitions that differ; on the table if none or more than {most} do"
        return names, names, where
    return names, None, ""


@_affected.register
def _by_condition(
    job: UpdateJob | DeleteJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    assigned = [name.strip("`").lower() for name in job.set] if isinstance(job, UpdateJob) else []
    columns = [column.name for column in table.columns]
    scope = KeyScope(job.target_alias, table.key_types, columns, params=job.params)
    chosen = partitions_of_change(job.where, assigned, scope, lambda: names)
    if chosen is None:
        return names, None, ""
    return chosen.names, chosen.names, "" if chosen.certain else _OF_CONDITION


@_affected.register
def _by_insert(
    job: InsertJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    specified = specified_partitions(table, job.partitions, job.static, job.dynamic)
    if specified is not None:
        named = names_of_partitions(table, specified)
        if named is None:
            return names, names, "on the partitions that it names"
        written = partitions_of_insert(client, table, named, replaces=job.overwrite)
        known = {*names}
        return [name for name in written if name in known], written, ""
    if not job.static:
        return names, None, ""
    clause = [KeyComparison(key, value) for key, value in job.static.items()]
    values = values_by_name(names, table.key_types)
    (matching,) = matching_partitions([clause], table.key_types, values, lenient=True)
    return matching, None, ""


@_affected.register
def _by_truncation(
    job: TruncateJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    chosen = partitions_to_truncate(client, table, job.partition)
    return chosen, None if job.partition is None else chosen, ""


@_affected.register
def _by_merge(
    job: MergeJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    if not table.partition_keys:
        return (), None, ""
    # A row that cannot meet the condition is a row without a source.
    by_source = any(isinstance(clause, _BY_SOURCE) for clause in job.when)
    columns = [column.name for column in table.columns]
    scope = KeyScope(job.target_alias, table.key_types, columns, qualified=True, params=job.params)
    touched = selected_partitions(None if by_source else job.on, scope, names).names
    types = None
    if isinstance(job.source, TableSource):
        source = existing_table(client, TableRef.parse(job.source.name))
        types = {each.name: each.type for each in (*source.columns, *source.partition_keys)}
    tied = ties_partitions(job, columns, table.key_types, types)
    if tied is False:
        where = "on the table: ON and the clauses do not tie every partition key to the source"
        return touched, None, where
    where = "on the partitions that the source has rows for"
    return (
        touched,
        touched,
        where if tied else f"{where}, if its types allow it; otherwise on the table",
    )
