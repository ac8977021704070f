"""EXPLAIN: the partitions that a statement affects, and its locks, by the rules of the engine."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import singledispatch

from hiveacid.dataclass import dataclass
from hiveacid.errors import DataError, HiddenFiles, InvalidJob, TableExists
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.definition_jobs import (
    AnalyzeJob,
    CreateTableAsJob,
    DatabaseJob,
    DropDatabaseJob,
    PartitionsJob,
    TruncateJob,
)
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import ChangesSource, Source, TableSource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import compaction_components, renumbers_rows
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import (
    check_kind,
    database_of,
    existing_database,
    existing_table,
    names_of_partitions,
    partitions_of_insert,
    partitions_to_truncate,
)
from hiveacid.metastore.txn.locks import collides, describe, ticket_components
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import definition_components
from hiveacid.parser.questions import Explained, RowChange, Select
from hiveacid.parser.views import view_query
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.merge import MergeChange
from hiveacid.plan.partitions import partitions_to_change, selected_partitions
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.ties import tells_partitions
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import AcidDirectory, Rules
from hiveacid.rules.location import Location
from hiveacid.rules.locks import (
    MAX_PARTITION_LOCKS,
    LockComponent,
    LockType,
    Operation,
    Target,
    partitions_to_lock,
    restoring_operation,
    transaction_components,
)
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef, first_names, original_bucket, parse_file
from hiveacid.rules.partitions import (
    KeyComparison,
    find_partitions,
    matching_partitions,
    values_by_name,
    values_of_partition,
)
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.definitions.answers import Answer, Cell, Rows
from hiveacid.tables.definitions.partitions import (
    partitioned_table,
    partitions_to_add,
    partitions_to_drop,
)
from hiveacid.tables.definitions.tables import find_table
from hiveacid.upkeep.compaction.placement import why_spark
from hiveacid.worker.run import NO_BATCHES, Batches, may_change_rows
from hiveacid.worker.run import why_spark as why_change_needs_spark

_OF_CONDITION = (
    "on the partitions that Spark selects among those below by the condition; on the table if these "
    f"are all, none, or more than {MAX_PARTITION_LOCKS}"
)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a statement on its table.

    Attributes:
        target: The part of the transaction: the partitions that are locked, at most.
        partitions: The existing partitions that it may read, replace, or add rows to.
        partition_count: The number of existing partitions.
        where: The locked object if the start of the statement does not determine it.
        sources: The other tables that it reads, also below views.
    """

    target: Target
    partitions: Sequence[str] = ()
    partition_count: int = 0
    where: str = ""
    sources: Sequence[HiveTable] = field(default=(), repr=False)


def effect_of(client: MetastoreClient, job: RowChange, table: HiveTable) -> Effect:
    """Return the effect of a statement.

    Args:
        client: The metastore.
        job: The statement.
        table: Its table.

    Raises:
        WrongTableKind: The table is a plain one; or the table takes inserts only.
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
    components = transaction_components(client.features.has_excl_write, targets, reads)
    target_refs = {target.ref for target in targets}
    locks: dict[str, Cell] = {}
    by_ref = by_table(components)
    for ref in sorted(by_ref, key=lambda ref: (ref not in target_refs, ref)):
        table_effects = [effect for effect in effects if effect.target.ref == ref]
        locks[ref.full_name] = _described_locks(by_ref[ref], table_effects, alone=len(effects) == 1)
    return {
        "locks": locks,
        **locks_in_the_way(client, (*components, *ticket_components(components))),
    }


def locks_in_the_way(
    client: MetastoreClient, components: Sequence[LockComponent]
) -> dict[str, Mapping[str, Cell]]:
    """Describe the locks that a request would wait for at the moment, if there are any."""
    locks = [lock for ref in sorted(by_table(components)) for lock in client.show_locks(ref)]
    waits = [lock for lock in locks if collides(client.features, lock, components)]
    descriptions = {f"lock {lock.lock_id}": describe(lock) for lock in waits}
    return {"in the way now": descriptions} if waits else {}


def by_table(components: Iterable[LockComponent]) -> dict[TableRef, list[LockComponent]]:
    """Return the components of a request by their tables."""
    components_by_table: dict[TableRef, list[LockComponent]] = defaultdict(list)
    for component in components:
        components_by_table[TableRef(component.database, component.table)].append(component)
    return components_by_table


def described_place(components: Sequence[LockComponent], listed_names: Collection[str]) -> str:
    """Describe what is locked in a table; ``below`` are the partitions that the answer lists."""
    partitions = [
        component.partition for component in components if component.partition is not None
    ]
    if not partitions:
        return "on the table"
    if {*partitions} == {*listed_names}:
        return "on the partitions below"
    return f"on the partitions {first_names(partitions)}"


def tables_read(client: MetastoreClient, inputs: Iterable[Source]) -> list[HiveTable]:
    """Return the tables and views that inputs name, and the tables below the views."""
    tables_by_name: dict[str, HiveTable] = {}
    pending = [*inputs]
    while pending:
        source = pending.pop(0)
        if not isinstance(source, TableSource | ChangesSource):
            continue
        ref = TableRef.parse(source.name)
        if ref.full_name not in tables_by_name:
            table = tables_by_name[ref.full_name] = existing_table(client, ref)
            if table.is_view:
                query = view_query(table.view_text, database_of(table), ref.full_name)
                pending += query.inputs.values()
    return [*tables_by_name.values()]


def _described_locks(
    components: Sequence[LockComponent], effects: Sequence[Effect], *, alone: bool
) -> str:
    """Describe the locks on a table that some statements write, or that others read."""
    wheres = dict.fromkeys(effect.where for effect in effects if effect.where)
    certain_effects = [effect for effect in effects if not effect.where]
    # Those that lock the whole table determine it.
    if wheres and all(effect.target.partitions is not None for effect in certain_effects):
        where = "; ".join(wheres)
    else:
        where = described_place(components, effects[0].partitions if alone and effects else ())
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
        limit = MAX_PARTITION_LOCKS
        where = f"on the partitions that differ; on the table if none or more than {limit} do"
        return names, names, where
    return names, None, ""


@_affected.register
def _by_condition(
    job: UpdateJob | DeleteJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    assigned = [*job.set] if isinstance(job, UpdateJob) else []
    scope = ChangeScope(table, job.target_alias, params=job.params)
    selection = partitions_to_change(job.where, assigned, scope, lambda: names)
    if selection is None:
        return names, None, ""
    return selection.names, selection.names, "" if selection.certain else _OF_CONDITION


@_affected.register
def _by_insert(
    job: InsertJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    specified = InsertMapping.of(job).specified(table)
    if specified is not None:
        named_partitions = names_of_partitions(table, specified)
        if named_partitions is None:
            return names, names, "on the partitions that it names"
        written_names = partitions_of_insert(
            client, table, named_partitions, replaces=job.overwrite
        )
        existing_names = {*names}
        return [name for name in written_names if name in existing_names], written_names, ""
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
    partition_names = partitions_to_truncate(client, table, job.partition)
    return partition_names, None if job.partition is None else partition_names, ""


@_affected.register
def _by_merge(
    job: MergeJob, client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> _Affected:
    if not table.partition_keys:
        return (), None, ""
    types = None
    if isinstance(job.source, TableSource):
        source = existing_table(client, TableRef.parse(job.source.name))
        types = {column.name: column.type for column in (*source.columns, *source.partition_keys)}
    change = MergeChange.of(job, table, None if types is None else [*types])
    # A row that cannot meet the condition is a row without a source.
    by_source = bool(change.not_matched_by_source)
    scope = replace(change.scope, params=job.params)
    touched = selected_partitions(None if by_source else job.on, scope, names).names
    tied = tells_partitions(change, types)
    if tied is False:
        where = "on the table: ON and the clauses do not tie every partition key to the source"
        return touched, None, where
    where = "on the partitions that the source has rows for"
    return (
        touched,
        touched,
        where if tied else f"{where}, if its types allow it; otherwise on the table",
    )


# Data of each partition that a statement would read: base, deltas, files and buckets


_COLUMNS = ("partition", "base", "base_bytes", "deltas", "delta_bytes", "files")
# An object store takes its time for each listing.
_LISTERS = 8


def partitions_to_read(
    client: MetastoreClient, table: HiveTable, names: Sequence[str] | None
) -> Answer:
    """List the data that a new reader sees in some partitions.

    Args:
        client: The metastore.
        table: The table.
        names: The partitions; None for an unpartitioned table.
    """
    places: list[tuple[str | None, Location]] = [(None, table.folder)]
    if names is not None:
        locations = partition_locations(client, table) if names else {}
        places = [(name, locations[name]) for name in sorted(names) if name in locations]
    snapshot = Snapshot.take(client, [table.ref])
    write_ids = snapshot.write_ids[table.ref.full_name]
    rules = Rules.of(client.features.hides_compactions)
    bucketed = table.num_buckets > 0

    def cells_of(place: tuple[str | None, Location]) -> tuple[Cell, ...] | str:
        storage = ReadOnlyStorage.of(place[1])
        try:
            files = list_files(storage, TableOfFolder.of(table))
            state = read_state(storage, files, write_ids, snapshot.txns, rules=rules)
        except (DataError, HiddenFiles) as error:
            return str(error)
        cells = (place[0] or "", *_sizes(state))
        return (*cells, ranges(_chosen_buckets(state))) if bucketed else cells

    with Threads(_LISTERS) as pool:
        listings = [*zip(places, pool.map(cells_of, places), strict=True)]
    rows: Rows = [listing for _, listing in listings if not isinstance(listing, str)]
    problems: dict[str, Cell] = {
        name or "table": listing for (name, _), listing in listings if isinstance(listing, str)
    }
    columns = (*_COLUMNS, "buckets") if bucketed else _COLUMNS
    return Answer(columns, rows, {"cannot be read": problems} if problems else {})


def _sizes(state: AcidDirectory) -> tuple[Cell, ...]:
    base = state.files(state.base or "")
    deltas = [file for name in state.deltas for file in state.files(name)]
    return (
        state.base or ("original files" if base else None),
        sum(file.size for file in base),
        len(state.deltas),
        sum(file.size for file in deltas),
        len(base) + len(deltas),
    )


def _chosen_buckets(state: AcidDirectory) -> set[int]:
    buckets = {original_bucket(file.path) for file in state.files("")}
    for name in filter(None, (state.base, *state.deltas)):
        for file in state.files(name):
            file_name = parse_file(file.path.rpartition("/")[2])
            buckets.add(None if file_name is None else file_name.bucket)
    return {bucket for bucket in buckets if bucket is not None}


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as text, as "0-3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# EXPLAIN of statements that change definitions or partitions, or maintain a table


def explain_definition(client: MetastoreClient, job: Job) -> Answer:
    """Describe the effect of a statement on a definition or on files, and its locks.

    Args:
        client: The metastore.
        job: The statement.

    Raises:
        TableNotFound: Its table or its database does not exist.
        InvalidJob: It is no such statement.
    """
    if not job.effect:
        raise InvalidJob(f"EXPLAIN of {type(job).__name__} is not supported.")
    statement: dict[str, Cell] = {"does": job.effect}
    if isinstance(job, DatabaseJob):
        statement["database"] = job.target
        locks: dict[str, Cell] = {}
        if isinstance(job, DropDatabaseJob):
            existing_database(client, job.target)
            tables = sorted(client.get_tables(job.target)) if job.cascade else []
            locks = {f"{job.target}.{name}": "EXCLUSIVE on the table" for name in tables}
        return Answer((), [], {"statement": statement, "locks": locks or {"none": None}})
    ref = TableRef.parse(job.target)
    statement["table"] = ref.full_name
    if job.definition_lock is None:
        return Answer((), [], {"statement": statement, "locks": {"none": None}})
    table = existing_table(client, ref)
    locks = {ref.full_name: f"{job.definition_lock.name} on the table"}
    if isinstance(job, CompactJob):
        locks = _locks_of_compaction(client, table, job)
        statement["requires Spark"] = why_spark(client, job) or "no"
    details: dict[str, Mapping[str, Cell]] = {"statement": statement, "locks": locks}
    if not job.affects_files or table.kind is TableKind.NOT_ACID:
        return Answer((), [], details)
    names = None
    if table.partition_keys:
        clauses = job.partitions if isinstance(job, AnalyzeJob | CompactJob) else None
        partition_names = client.get_partition_names(ref)
        if clauses is not None:
            matching_names = find_partitions(
                clauses, partition_names, table.key_types, lenient=True
            )
            names = [name for name in partition_names if name in matching_names]
        else:
            names = partition_names
        statement["partitions"] = f"at most {len(names)} of {len(partition_names)}"
    read = partitions_to_read(client, table, names)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _locks_of_compaction(
    client: MetastoreClient, table: HiveTable, job: CompactJob
) -> dict[str, Cell]:
    renumbers = renumbers_rows(None if job.type is None else CompactionType(job.type), table.kind)
    # The name of a partition does not matter.
    partition = "any" if table.partition_keys else None
    partitions = None if partition is None else [partition]
    components = compaction_components(client.features, table.ref, partitions, renumbers=renumbers)
    where = "on the partitions below, one after the other" if partition else "on the table"
    return {
        ref.full_name: f"{component.type.name} {where}"
        if ref == table.ref
        else f"{component.type.name}, against other compactions"
        for ref, (component,) in by_table(components).items()
    }


def explain_partitions(client: MetastoreClient, job: PartitionsJob) -> Answer:
    """List the partitions that a statement adds or drops, with their files, and its locks.

    Raises:
        InvalidJob: The statement is MSCK REPAIR TABLE.
        TableExists: A partition to add exists.
        TableNotFound: A clause of a drop matches no partition.
    """
    table = partitioned_table(client, TableRef.parse(job.target))
    names = client.get_partition_names(table.ref)
    if job.action == "repair":
        raise InvalidJob("MSCK REPAIR TABLE cannot be explained; it adds partitions without files.")
    touched: Sequence[str]
    if job.action == "drop":
        touched = partitions_to_drop(table, names, job.partitions, lenient=job.lenient)
        places = partition_locations(client, table) if touched else {}
    else:
        values = [values_of_partition(clause, table.key_types) for clause in job.partitions]
        new_partitions, _ = partitions_to_add(table, names, values, lenient=job.lenient)
        places = {name: new.folder for name, new in new_partitions.items()}
        touched = sorted(new_partitions)

    def cells_of(name: str) -> tuple[Cell, ...]:
        files = ReadOnlyStorage.of(places[name]).list_files(recursive=True, missing_ok=True)
        return (name, len(files), sum(file.size for file in files))

    with Threads(_LISTERS) as pool:
        rows: Rows = [*pool.map(cells_of, [name for name in touched if name in places])]
    drops = job.action == "drop"
    components: Sequence[LockComponent] = ()
    if touched or not drops:
        components = definition_components(table.ref, job.definition_lock, touched if drops else ())
    locks: dict[str, Cell] = {
        ref.full_name: f"{job.definition_lock.name} {described_place(table_components, touched)}"
        for ref, table_components in by_table(components).items()
    }
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {
            "does": f"{job.action} partitions",
            "table": table.ref.full_name,
            "partitions": f"{len(touched)} of {len(names)}" if drops else len(touched),
            "files": sum(int(str(row[1])) for row in rows),
            "bytes": sum(int(str(row[2])) for row in rows),
        },
        "locks": locks or {"none": None},
        **locks_in_the_way(client, components),
    }
    return Answer(("partition", "files", "bytes"), rows, details)


# EXPLAIN: a statement's reads, writes, locks and blockers, determined without Spark


# Those in front of the buckets, which only some tables have.
_COMMON_COLUMNS = 6


def explain(client: MetastoreClient, job: Explained, batches: Batches = NO_BATCHES) -> Answer:
    """Describe the partitions, files, locks and clauses of a statement, without side effects.

    Args:
        client: The metastore.
        job: The statement.
        batches: The rows of its batches.

    Raises:
        WrongTableKind: Its table is a plain one.
        TableNotFound: A table that it names does not exist.
        TableExists: It would create a table that is there.
    """
    match job:
        case CreateTableAsJob():
            return _creation(client, job)
        case TransactionJob():
            return _several(client, job, batches)
        case PartitionsJob():
            return explain_partitions(client, job)
        case Select():
            return _selection(client, job)
    if isinstance(job, RowChange):
        return _change(client, job, batches)
    if isinstance(job, Job):
        return explain_definition(client, job)
    return Answer((), [], {"statement": {"does": "asks the metastore"}, "locks": {"none": None}})


def _change(client: MetastoreClient, job: RowChange, batches: Batches) -> Answer:
    """Describe the partitions that a statement can affect, and its locks."""
    table = existing_table(client, TableRef.parse(job.target))
    effect = effect_of(client, job, table)
    locks = explained_locks(client, [effect])
    clauses = dict(_clauses(job))
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {**_described(table, effect), **_place(client, job, batches)},
        "locks": locks.pop("locks"),
        **({"clauses": clauses} if clauses else {}),
        **locks,
    }
    read = partitions_to_read(client, table, effect.partitions if table.partition_keys else None)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _place(client: MetastoreClient, job: Job, batches: Batches) -> dict[str, Cell]:
    """Describe where a change runs, unless it asks for Spark."""
    if not may_change_rows(job):
        return {}
    reason = why_change_needs_spark(client, job, batches)
    return {"runs": "in the worker" if reason is None else f"on Spark: {reason}"}


def _several(client: MetastoreClient, job: TransactionJob, batches: Batches) -> Answer:
    """Describe each statement of a transaction, by its number, and the locks of all."""
    columns: tuple[str, ...] = ()
    rows: Rows = []
    details: dict[str, Mapping[str, Cell]] = {}
    effects = []
    for number, statement in enumerate(job.statements, start=1):
        assert isinstance(statement, RowChange)
        table = existing_table(client, TableRef.parse(statement.target))
        effects.append(effect := effect_of(client, statement, table))
        read = partitions_to_read(
            client, table, effect.partitions if table.partition_keys else None
        )
        columns = ("statement", *read.columns[:_COMMON_COLUMNS])
        rows += [(number, *row[:_COMMON_COLUMNS]) for row in read.rows]
        details[f"{number}. statement"] = _described(table, effect)
        if clauses := dict(_clauses(statement)):
            details[f"{number}. clauses"] = clauses
        details |= {f"{number}. {topic}": values for topic, values in read.details.items()}
    place = {"transaction": place} if (place := _place(client, job, batches)) else {}
    return Answer(columns, rows, {**details, **place, **explained_locks(client, effects)})


def _described(table: HiveTable, effect: Effect) -> dict[str, Cell]:
    return {
        "does": effect.target.operation.value,
        "table": table.ref.full_name,
        "kind": table.kind.value,
        "buckets": _buckets(table.bucket_columns, table.num_buckets),
        "partitions": f"at most {len(effect.partitions)} of {effect.partition_count}"
        if table.partition_keys
        else "none",
    }


def _selection(client: MetastoreClient, question: Select) -> Answer:
    """Describe the size of each table that a query reads."""
    rows: Rows = []
    locks: dict[str, Cell] = {}
    for table in tables_read(client, question.query.inputs.values()):
        if table.kind is TableKind.NOT_ACID:
            rows.append((table.ref.full_name, None, None, None))
            continue
        locks[table.ref.full_name] = f"{LockType.SHARED_READ.name} on the table"
        names = client.get_partition_names(table.ref) if table.partition_keys else None
        read = partitions_to_read(client, table, names)
        sizes = [dict(zip(read.columns, row, strict=True)) for row in read.rows]
        size = sum(
            _number(partition_size["base_bytes"]) + _number(partition_size["delta_bytes"])
            for partition_size in sizes
        )
        files = sum(_number(partition_size["files"]) for partition_size in sizes)
        rows.append((table.ref.full_name, None if names is None else len(names), files, size))
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {"does": Operation.SELECT.value},
        "locks": locks or {"none": None},
    }
    return Answer(("table", "partitions", "files", "bytes"), rows, details)


def _number(cell: Cell) -> int:
    assert isinstance(cell, int)
    return cell


@singledispatch
def _clauses(job: RowChange) -> Iterator[tuple[str, Cell]]:
    """The conditions and values of a statement, as Spark gets them."""
    yield from ()


@_clauses.register
def _clauses_of_insert(job: InsertJob) -> Iterator[tuple[str, Cell]]:
    if job.query is not None:
        yield "query", job.query.sql


@_clauses.register
def _clauses_of_update(job: UpdateJob) -> Iterator[tuple[str, Cell]]:
    yield "SET", _assigned(job.set)
    yield "WHERE", job.where


@_clauses.register
def _clauses_of_delete(job: DeleteJob) -> Iterator[tuple[str, Cell]]:
    yield "WHERE", job.where


@_clauses.register
def _clauses_of_merge(job: MergeJob) -> Iterator[tuple[str, Cell]]:
    if job.query is not None:
        yield "USING", job.query.sql
    yield "ON", job.on
    for number, clause in enumerate(job.when, start=1):
        condition = "" if clause.condition is None else f" AND {clause.condition}"
        match_kind, action = _clause(clause)
        yield f"{number}. WHEN {match_kind}{condition}", action


@_clauses.register
def _clauses_of_restore(job: RestoreJob) -> Iterator[tuple[str, Cell]]:
    yield "version", job.as_of


def _clause(clause: Clause) -> tuple[str, str]:
    match clause:
        case MatchedUpdate(given):
            return "MATCHED", f"UPDATE SET {'*' if given is None else _assigned(given)}"
        case MatchedDelete():
            return "MATCHED", "DELETE"
        case NotMatchedInsert(values, row=row):
            if row is not None:
                return "NOT MATCHED", f"INSERT VALUES ({', '.join(row)})"
            return "NOT MATCHED", f"INSERT {'*' if values is None else _assigned(values)}"
        case NotMatchedBySourceUpdate(given):
            return "NOT MATCHED BY SOURCE", f"UPDATE SET {_assigned(given)}"
    return "NOT MATCHED BY SOURCE", "DELETE"


def _assigned(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _creation(client: MetastoreClient, job: CreateTableAsJob) -> Answer:
    """Explain CREATE TABLE ... AS: the table first, then its rows in a transaction."""
    ref = TableRef.parse(job.target)
    table_exists = find_table(client, ref) is not None
    if table_exists and not job.if_not_exists:
        raise TableExists(f"{ref.full_name} is there already.")
    keys = job.partition_keys
    kind = TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID
    statement: dict[str, Cell] = {
        "does": "nothing: the table is there"
        if table_exists
        else "creates the table, then inserts",
        "table": ref.full_name,
        "kind": kind.value,
        "buckets": _buckets(job.bucket_columns, job.num_buckets),
        "partitions": f"by {', '.join(keys)}" if keys else "none",
    }
    if table_exists:
        return Answer((), [], {"statement": statement})
    target = Target(ref, Operation.INSERT, bool(keys))
    effect = Effect(target, sources=tables_read(client, job.insert.inputs_read.values()))
    return Answer((), [], {"statement": statement, **explained_locks(client, [effect])})


def _buckets(columns: Sequence[str], number: int) -> str:
    return f"{number} by {', '.join(columns)}" if columns else "none"
