"""Collection of metrics: from the metastore in four calls, and from measurements of tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    INITIATED,
    READY_FOR_CLEANING,
    WORKING,
    CompactionQueue,
    QueuedCompaction,
)
from hiveacid.metastore.thrift.answers import HeldLock, LockState, TxnInfo, TxnState
from hiveacid.records.consumers import KnownConsumer
from hiveacid.records.history_entries import HistoryEntry, HistoryState
from hiveacid.records.known_erasures import KnownErasure
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.lag import MirrorLag
from hiveacid.rules.names import TableRef
from hiveacid.upkeep import metrics
from hiveacid.upkeep.health import measured
from hiveacid.upkeep.health_score import TableHealth
from hiveacid.upkeep.metrics import Metric, Sample

# The words of version 3 for states of version 4.
_SYNONYMS = {"attempted": "did not initiate"}
# Writes that never became visible are no last run.
_VISIBLE = (
    HistoryState.CURRENT,
    HistoryState.MERGED,
    HistoryState.OVERWRITTEN,
    HistoryState.CLEANED,
)


def metastore_samples(client: MetastoreClient, now: datetime) -> list[Sample]:
    """Return the metrics of the queue, the transactions and the locks.

    Args:
        client: The metastore: four calls, regardless of the number of tables.
        now: The time, with its zone.

    Raises:
        MetastoreError: The metastore does not answer as it should.
    """
    return [
        Sample(metrics.UP, 1),
        *queue_samples(CompactionQueue(client).show(), now),
        *transaction_samples(client.get_open_txns_info(), client.get_open_txns().min_open, now),
        *lock_samples(client.show_locks(), now),
    ]


def queue_samples(queue: Iterable[QueuedCompaction], now: datetime) -> Iterator[Sample]:
    """Yield the metrics of the compaction queue, as Hive defines them.

    Args:
        queue: All requests, also those that have left the queue.
        now: The time, with its zone.
    """
    newest: dict[tuple[TableRef, str | None], QueuedCompaction] = {}
    by_state: dict[str, list[QueuedCompaction]] = {}
    for entry in queue:
        place = (entry.table, entry.partition)
        if place not in newest or newest[place].id < entry.id:
            newest[place] = entry
        by_state.setdefault(entry.state, []).append(entry)
    counts = Counter(_SYNONYMS.get(entry.state, entry.state) for entry in newest.values())
    for state, metric in metrics.STATES.items():
        yield Sample(metric, counts[state])
    waiting, working, ready = (
        by_state.get(state, []) for state in (INITIATED, WORKING, READY_FOR_CLEANING)
    )
    yield from _oldest(metrics.OLDEST_ENQUEUE, [entry.enqueued_at for entry in waiting], now)
    yield from _oldest(metrics.OLDEST_WORKING, [entry.started_at for entry in working], now)
    cleaning = [entry.cleaning_since for entry in ready if entry.cleaning_since]
    yield from _oldest(metrics.OLDEST_CLEANING, cleaning, now)
    yield from _oldest(metrics.OLDEST_READY, [entry.committed_at for entry in ready], now)


def transaction_samples(
    txns: Iterable[TxnInfo], oldest: int | None, now: datetime
) -> Iterator[Sample]:
    """Yield the metrics of transactions.

    Args:
        txns: The open and the aborted transactions.
        oldest: The oldest open transaction, which the first argument need not contain.
        now: The time, with its zone.
    """
    by_state: dict[TxnState, list[TxnInfo]] = {}
    for txn in txns:
        by_state.setdefault(txn.state, []).append(txn)
    open_, aborted_txns = (by_state.get(state, []) for state in (TxnState.OPEN, TxnState.ABORTED))
    yield Sample(metrics.OPEN_TXNS, len(open_))
    yield Sample(metrics.OLDEST_TXN, oldest or 0)
    yield from _oldest(metrics.OLDEST_TXN_AGE, [txn.started_at for txn in open_], now)
    yield Sample(metrics.ABORTED_TXNS, len(aborted_txns))
    yield from _oldest(metrics.OLDEST_ABORT, [txn.started_at for txn in aborted_txns], now)


def lock_samples(locks: Sequence[HeldLock], now: datetime) -> Iterator[Sample]:
    """Yield the metrics of locks.

    Args:
        locks: All locks; one with several objects has one element for each.
        now: The time, with its zone.
    """
    acquired = [lock for lock in locks if lock.state is LockState.ACQUIRED]
    waiting = {lock.lock_id for lock in locks if lock.state is LockState.WAITING}
    yield Sample(metrics.LOCKS, len(locks))
    yield from _oldest(metrics.OLDEST_LOCK, [lock.acquired_at for lock in acquired], now)
    yield Sample(metrics.WAITING_LOCKS, len(waiting))


def table_samples(health: TableHealth) -> Iterator[Sample]:
    """Yield the metrics of a table, from its health."""
    table = {"table": health.table}
    if health.error is not None:
        # Zeros would look like the figures of a table without deltas.
        yield Sample(metrics.PROBLEMS, 1, table)
    else:
        yield from _size_samples(health)
        yield Sample(metrics.RETAINED_BYTES, health.retained_bytes, table)
    txn = health.oldest_txn
    if txn is None or txn.opened_at is not None:
        start = health.measured_at if txn is None or txn.opened_at is None else txn.opened_at
        yield Sample(metrics.TABLE_TXN_AGE, max(0.0, health.measured_at - start), table)
    yield Sample(metrics.SCORE, health.score, table)
    yield Sample(metrics.MEASURED_AT, health.measured_at, table)


def survey_samples(decisions: Iterable[Decision], now: datetime) -> Iterator[Sample]:
    """Yield the metrics of surveyed tables, from the decisions on their partitions.

    Args:
        decisions: The decisions on all partitions of some tables.
        now: The time, with its zone.
    """
    by_table: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_table.setdefault(decision.size.table, []).append(decision)
    for name, decisions_of_table in by_table.items():
        health = TableHealth(table=name, kind="", measured_at=now.timestamp())
        yield from _size_samples(measured(health, decisions_of_table, now))


def last_run_samples(table: str, entries: Iterable[HistoryEntry]) -> Iterator[Sample]:
    """Yield the metrics of the last run of each operation on a table.

    Args:
        table: The full name of the table.
        entries: The writes and compactions of the table, the newest first.
    """
    last: dict[str, HistoryEntry] = {}
    for entry in entries:
        if entry.operation is not None and entry.state in _VISIBLE:
            last.setdefault(entry.operation, entry)
    for operation, entry in last.items():
        labels = {"table": table, "operation": operation}
        row_counts = (entry.rows_inserted, entry.rows_updated, entry.rows_deleted)
        counts = [rows for rows in row_counts if rows is not None]
        figures: Mapping[Metric, float | None] = {
            metrics.LAST_RUN_SECONDS: entry.seconds,
            metrics.LAST_RUN_BYTES: entry.bytes,
            metrics.LAST_RUN_ROWS: sum(counts) if counts else None,
            metrics.LAST_RUN_AT: entry.time,
        }
        for metric, value in figures.items():
            if value is not None:
                yield Sample(metric, value, labels)


def mirror_samples(table: str, catalog: str, mirror: str, lag: MirrorLag) -> Iterator[Sample]:
    """Yield the metrics of a mirror in Iceberg.

    Args:
        table: The full name of the Hive table.
        catalog: The name of the catalog.
        mirror: The Iceberg table.
        lag: The lag behind the newest version.
    """
    labels = {"table": table, "catalog": catalog, "mirror": mirror}
    yield Sample(metrics.MIRROR_VERSIONS, lag.versions, labels)
    yield Sample(metrics.MIRROR_LAG, round(lag.seconds, 3), labels)


def consumer_samples(
    table: str, consumer: KnownConsumer, entries: Iterable[HistoryEntry], now: datetime
) -> Iterator[Sample]:
    """Yield the metrics of a consumer of a table's changes.

    Args:
        table: The full name of the table.
        consumer: The consumer.
        entries: The last writes and compactions of the table.
        now: The time, with its zone.
    """
    labels = {"table": table, "consumer": consumer.name}
    yield Sample(metrics.CONSUMER_VERSIONS, consumer.behind, labels)
    times = [
        entry.time
        for entry in entries
        if (entry.write_id or 0) > consumer.version and entry.time and entry.state in _VISIBLE
    ]
    if times or not consumer.behind:
        oldest = min(times) if consumer.behind else now.timestamp()
        yield Sample(metrics.CONSUMER_LAG, max(0.0, round(now.timestamp() - oldest, 3)), labels)


def _size_samples(health: TableHealth) -> Iterator[Sample]:
    table = {"table": health.table}
    yield Sample(metrics.PROBLEMS, health.unreadable_partitions, table)
    sizes = (health.base_bytes, health.delta_bytes, health.obsolete_bytes, health.deltas)
    if health.unreadable_partitions == health.partitions and health.partitions and not any(sizes):
        return
    figures: Mapping[Metric, float] = {
        metrics.DELTAS: health.deltas,
        metrics.OBSOLETE: health.obsolete_directories,
        metrics.MOST_DELTAS: health.max_deltas,
        metrics.DELETE_RATIO: health.delete_ratio,
        metrics.BASE_BYTES: health.base_bytes,
        metrics.DELTA_BYTES: health.delta_bytes,
        metrics.OBSOLETE_BYTES: health.obsolete_bytes,
        metrics.ABORTED: health.aborted_directories,
        metrics.NEEDS: len(health.needs),
    }
    for metric, value in figures.items():
        yield Sample(metric, value, table)


def erasure_samples(erasures: Iterable[KnownErasure], now: datetime) -> Iterator[Sample]:
    """Yield the metrics of requests to erase keys.

    Args:
        erasures: All requests; of an unreadable one, the deadline is not known.
        now: The time, with its zone.
    """
    waiting = [erasure for erasure in erasures if not erasure.is_certified]
    deadlines = [
        datetime.fromisoformat(erasure.deadline) for erasure in waiting if not erasure.problem
    ]
    seconds_left = [(deadline - now).total_seconds() for deadline in deadlines]
    yield Sample(metrics.OPEN_ERASURES, len(waiting))
    if seconds_left:
        yield Sample(metrics.ERASURE_TIME_LEFT, min(seconds_left))


def _oldest(metric: Metric, times: Sequence[datetime | None], now: datetime) -> Iterator[Sample]:
    """Yield the age of the oldest time; nothing if no time of several is known."""
    instants = [time for time in times if time is not None]
    if instants:
        # The clock of the metastore may be ahead.
        yield Sample(metric, max(0.0, round((now - min(instants)).total_seconds(), 3)))
    elif not times:
        yield Sample(metric, 0)
