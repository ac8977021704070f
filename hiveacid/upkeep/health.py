"""Measuring the health of thousands of tables again and again, at little cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from hiveacid.errors import HiveAcidError, TableNotFound
from hiveacid.jobs.maintenance_jobs import CompactionNeed
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, QueuedCompaction
from hiveacid.metastore.table_rules import TABLES_PER_CALL, existing_database, transactional_tables
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.cleaning import Blocker
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import plural
from hiveacid.tables.locations import folder_of, shared_tables
from hiveacid.upkeep.health_score import BlockingTxn, QueueEntry, TableHealth, score_of
from hiveacid.upkeep.inspection import InspectedFolder, Inspection
from hiveacid.upkeep.survey import Runner, Survey, at_once, blockers_by_table
from hiveacid.upkeep.table_cleaning import retention_of

_FAILED = ("failed", "did not initiate")


class HealthMeter:
    """Measures the health of tables; a table without new writes is not listed again.

    A table that needs a compaction or a cleaning, or is in the compaction queue, is listed every
    time: both change a table without a write. An unneeded compaction shows after an hour at the
    latest. Any thread may use a meter, one at a time.
    """

    def __init__(
        self,
        client: MetastoreClient,
        policy: CompactionPolicy | None = None,
        run: Runner = at_once,
    ) -> None:
        """Prepare a meter.

        Args:
            client: The metastore.
            policy: The thresholds for compactions; tables may set their own.
            run: Runs the function that opens a table's files, and may raise an error if it takes
                too long.
        """
        self._run = run
        self._client = client
        self._policy = policy or CompactionPolicy()
        self._survey = Survey(client, self._policy, everything=True, run=run)
        self._requests: dict[TableRef, list[tuple[int, str]]] = {}

    def measure(
        self, database: str | None = None, tables: Sequence[str] | None = None
    ) -> Iterator[TableHealth]:
        """Measure tables, one after the other, by name.

        Args:
            database: The database of the transactional tables; all databases if None.
            tables: Names of tables to measure instead, "database.table".

        Yields:
            The health of each table. A table that cannot be measured has an ``error``; a table that
            was dropped meanwhile is left out.

        Raises:
            MetastoreError: The metastore does not answer as it should.
            TableNotFound: The database does not exist.
        """
        now, shared = datetime.now(UTC), shared_tables(self._client)
        queue: dict[TableRef, list[QueuedCompaction]] = {}
        blockers: Mapping[TableRef, Sequence[Blocker]] | None = None
        for refs, descriptions in self._pages(database, tables):
            if blockers is None:
                for entry in CompactionQueue(self._client).show():
                    queue.setdefault(entry.table, []).append(entry)
                self._mistrust_compacted(queue)
                blockers = blockers_by_table(self._client)
            for ref, outcome in self._survey.survey_tables(
                refs, now=now, descriptions=descriptions
            ):
                if isinstance(outcome, TableNotFound) and tables is None:
                    continue
                health = self._health(
                    ref,
                    descriptions.get(ref),
                    outcome,
                    blockers.get(ref, ()),
                    queue.get(ref, ()),
                    now,
                )
                yield replace(health, shared_with=(*sorted(shared.get(ref.full_name, ())),))

    def _pages(
        self, database: str | None, tables: Sequence[str] | None
    ) -> Iterator[tuple[list[TableRef], dict[TableRef, HiveTable]]]:
        """Yield tables with their descriptions, few at a time: thousands take seconds to describe."""
        if tables is not None:
            by_database: dict[str, list[str]] = {}
            for ref in map(TableRef.parse, tables):
                by_database.setdefault(ref.database, []).append(ref.name)
            descriptions: dict[TableRef, HiveTable] = {}
            for name, names in by_database.items():
                descriptions |= self._described(name, names)
            if tables:
                yield sorted(map(TableRef.parse, tables)), descriptions
            return
        databases = (
            self._client.get_databases()
            if database is None
            else [existing_database(self._client, database).name]
        )
        for name in sorted(databases):
            names = sorted(self._client.get_tables(name))
            for start in range(0, len(names), TABLES_PER_CALL):
                descriptions = self._described(name, names[start : start + TABLES_PER_CALL])
                if descriptions:
                    yield sorted(descriptions), descriptions

    def _described(self, database: str, names: Sequence[str]) -> dict[TableRef, HiveTable]:
        tables = transactional_tables(self._client, database, names)
        return {table.ref: table for table in tables}

    def _mistrust_compacted(self, queue: Mapping[TableRef, Sequence[QueuedCompaction]]) -> None:
        """A compaction moves no write id, but a request for it changes its state."""
        requests = {ref: [(e.id, e.state) for e in entries] for ref, entries in queue.items()}
        for ref in requests.keys() | self._requests.keys():
            if requests.get(ref) != self._requests.get(ref):
                self._survey.mistrust(ref)
        self._requests = requests

    def _health(
        self,
        ref: TableRef,
        description: HiveTable | None,
        outcome: list[Decision] | HiveAcidError,
        blockers: Sequence[Blocker],
        queue: Sequence[QueuedCompaction],
        now: datetime,
    ) -> TableHealth:
        health = TableHealth(
            table=ref.full_name,
            kind=(description.kind if description else TableKind.NOT_ACID).value,
            oldest_txn=_oldest(blockers),
            queue=_pending(queue),
            measured_at=now.timestamp(),
        )
        policy = self._policy
        if not isinstance(outcome, HiveAcidError):
            health = measured(health, outcome, now)
            policy = policy.for_table(description.parameters if description else {})
            if health.obsolete_bytes or health.obsolete_directories or health.aborted_directories:
                self._survey.mistrust(ref)
                if description is not None:
                    health = self._without_retained(health, description, outcome)
        else:
            health = replace(health, error=ErrorReport.of(outcome), verdict=str(outcome))
        decisions = () if isinstance(outcome, HiveAcidError) else outcome
        problems = []
        if health.kind != TableKind.NOT_ACID:
            problems = [
                _named(decision) for decision in decisions if decision.size.problem is not None
            ]
        score, penalties = score_of(health, policy, decisions, problems)
        health = replace(health, score=score, penalties=penalties)
        return health if health.error else replace(health, verdict=_verdict(health, problems))

    def _without_retained(
        self, health: TableHealth, table: HiveTable, decisions: Sequence[Decision]
    ) -> TableHealth:
        """Count separately the data that a cleaning retains for versions and consumers."""
        sizes = {
            decision.size.partition: decision.size
            for decision in decisions
            if decision.size.obsolete
        }
        try:
            inspected = self._run(table.ref.full_name, partial(self._inspected, table, sizes))
        except HiveAcidError as error:
            # A cleaning could not determine the retained directories either.
            return replace(health, verdict=f"{health.verdict} It cannot be cleaned: {error}")
        retained = [
            sizes[folder.folder.partition].awaiting_removal.get(kept_path.path)
            for folder in inspected
            for kept_path in folder.keep
            if kept_path.retained
        ]
        sizes_retained = [size for size in retained if size is not None]
        return replace(
            health,
            obsolete_bytes=health.obsolete_bytes - sum(sizes_retained),
            obsolete_directories=health.obsolete_directories - len(sizes_retained),
            retained_bytes=sum(sizes_retained),
            retained_directories=len(sizes_retained),
        )

    def _inspected(
        self, table: HiveTable, partitions: Collection[str | None]
    ) -> list[InspectedFolder]:
        retention = retention_of(table)
        if not retention or not partitions:
            return []
        snapshot = Snapshot.take(self._client, [table.ref])
        inspection = Inspection(
            self._client, table, snapshot, retention=retention, clock=lambda _: datetime.now(UTC)
        )
        if table.partition_keys:
            listed_partitions = self._client.get_partitions(table, [*filter(None, partitions)])
            folders = [
                folder_of(table.folder, partition.name, partition.folder)
                for partition in listed_partitions
            ]
        else:
            folders = [folder_of(table.folder, None, table.folder)]
        return inspection.inspect(folders)


def measured(health: TableHealth, decisions: Sequence[Decision], now: datetime) -> TableHealth:
    """Add the measurements of a table's partitions to its health.

    Args:
        health: The health without measurements.
        decisions: The decisions on all partitions.
        now: The time of the survey.
    """
    sizes = [decision.size for decision in decisions]
    base_bytes = sum(size.base_bytes for size in sizes)
    delta_bytes = sum(size.delta_bytes for size in sizes)
    delete_bytes = sum(size.delete_bytes for size in sizes)
    read = base_bytes + delta_bytes
    ages = [size.base_age_hours for size in sizes if size.base_age_hours is not None]
    needs = [decision for decision in rank(decisions, Budget()) if decision.type is not None]
    return replace(
        health,
        partitions=len(sizes),
        deltas=sum(len(size.deltas) for size in sizes),
        max_deltas=max((len(size.deltas) for size in sizes), default=0),
        base_bytes=base_bytes,
        delta_bytes=delta_bytes,
        delete_bytes=delete_bytes,
        delete_ratio=round(delete_bytes / read, 4) if read else 0.0,
        base_written_at=now.timestamp() - 3600 * max(ages) if ages else None,
        obsolete_bytes=sum(sum(size.awaiting_removal.values()) for size in sizes),
        obsolete_directories=sum(len(size.obsolete) for size in sizes),
        aborted_directories=sum(len(size.aborted) for size in sizes),
        unreadable_partitions=sum(size.problem is not None for size in sizes),
        needs=tuple(need.to_dict() for need in map(CompactionNeed.of, needs) if need),
        verdict=_plan(decisions, needs),
    )


def _verdict(health: TableHealth, problems: Sequence[str]) -> str:
    """Return the policy's plan, after what costs points but calls for no compaction."""
    if health.needs:
        return " ".join([*problems[:1], health.verdict])
    if problems:
        return health.verdict  # It names the problem.
    if health.penalties:
        return f"{health.penalties[0].reason} No compaction: {health.verdict}"
    return f"Nothing to do: {health.verdict}"


def _plan(decisions: Sequence[Decision], needs: Sequence[Decision]) -> str:
    """Describe the most important decision, the rule that fired first."""
    if not decisions:
        return "there is no partition."
    if needs:
        first = needs[0]
        sentence = f"{first.reason} A {first.type} compaction is worth it"
        if first.size.partition is None:
            return f"{sentence}."
        where = f"in {len(needs)} of {plural(len(decisions), 'partition')}"
        return f"{sentence} {where}, first of all in {first.size.partition}."
    telling = max(
        decisions,
        key=lambda decision: (decision.size.problem is not None, len(decision.size.deltas)),
    )
    return _named(telling)


def _named(decision: Decision) -> str:
    size = decision.size
    reason = decision.reason if size.problem is None else size.problem
    return reason if size.partition is None else f"{size.partition}: {reason}"


def _oldest(blockers: Sequence[Blocker]) -> BlockingTxn | None:
    if not blockers:
        return None
    oldest = blockers[0]
    return BlockingTxn(
        txn_id=oldest.txn_id,
        user=oldest.user,
        host=oldest.host,
        run_token=oldest.run,
        opened_at=None if oldest.since is None else oldest.since.timestamp(),
    )


def _pending(queue: Sequence[QueuedCompaction]) -> tuple[QueueEntry, ...]:
    """Return unfinished requests, and failed ones without a later success; oldest first."""
    last = {entry.partition: entry for entry in queue}
    entries = [
        QueueEntry(
            id=entry.id,
            partition=entry.partition,
            type=entry.type,
            state=entry.state,
            worker=entry.worker_id,
            since=_since(entry),
            error=entry.error,
        )
        for entry in queue
    ]
    failed = {entry.id for entry in last.values() if entry.state in _FAILED}
    return tuple(entry for entry in entries if entry.unfinished or entry.id in failed)


def _since(entry: QueuedCompaction) -> float | None:
    start = entry.started_at or entry.enqueued_at
    return None if start is None else start.timestamp()
