"""The compaction queue: request, claim, report, clean. That of Hive 3.1 can only be shown."""

import random
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Self, cast

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AlreadyCompacting,
    AnswerLost,
    MetastoreCallFailed,
    MetastoreTroubled,
    SnapshotMoved,
    TableNotFound,
    UnsupportedMetastore,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.thrift.answers import TxnType, instant
from hiveacid.metastore.txn.live_transaction import LiveTransaction, State
from hiveacid.metastore.txn.locks import LockRequest, describe
from hiveacid.metastore.txn.owner import Owner, Snapshot
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.compaction import OWN_COMPACTORS, CompactionType
from hiveacid.rules.features import Features
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockType,
    Operation,
    lock_components,
    read_lock_components,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import printable
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList

INITIATED = "initiated"
WORKING = "working"
READY_FOR_CLEANING = "ready for cleaning"
SUCCEEDED = "succeeded"

# Thrift's CompactionType.
_TYPES = {1: "minor", 2: "major", 3: "rebalance", 4: "abort cleanup"}
_NUMBERS = {name: number for number, name in _TYPES.items()}

# Remains in a request after the worker's id is removed.
_WORKER_VERSION = "airflow-hiveacid"
# Pauses before a failed request is repeated, at most: on MySQL and MariaDB, simultaneous requests
# deadlock.
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
_PAUSES_OF_CLEANING = _PAUSES[:3]
_OWN = re.compile(rf"{OWN_COMPACTORS}(?:.*:)?([0-9]+)")


def own_pool(txn_id: int, number: int = 0) -> str:
    """Return the pool for one request of a transaction of this package, which it alone serves.

    Args:
        txn_id: The transaction.
        number: The number of the request: a claim returns the oldest request of a pool, and requests
            of a transaction are made by several threads.
    """
    return f"{OWN_COMPACTORS}{number}:{txn_id}"


def own_worker(host: str, txn_id: int, number: int = 0) -> str:
    """Return the worker id of one claim of a transaction of this package."""
    return f"{OWN_COMPACTORS}{host}:{number}:{txn_id}"


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The result of a request: accepted under an id, or refused in favour of another one."""

    id: int
    accepted: bool
    state: str
    message: str | None

    @classmethod
    def from_thrift(cls, answer: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(answer.id, answer.accepted, answer.state, answer.errormessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedCompaction:
    """A compaction in the queue, or one that has left it.

    Attributes:
        id: Its number.
        table: The table.
        partition: The partition's name; null for an unpartitioned table or a request without a
            partition.
        type: "minor", "major", or a type that only Hive supports.
        state: "initiated", "working", "ready for cleaning" or the final state, in Hive's words.
        worker_id: The worker.
        worker_version: The version that the worker declares, kept after completion.
        pool: The pool of the request, if any.
        txn_id: The transaction of the compaction, once recorded.
        highest_write_id: The highest write id that it reads, once recorded.
        next_txn_id: The youngest transaction at its commit; older ones may read the replaced files.
        enqueued_at: The time of the request.
        started_at: The time when a worker claimed it.
        committed_at: The time of its commit; version 3 does not return it.
        cleaning_since: The time when Hive's cleaner started with it.
        error: The reason for a failure or refusal.
        run_as: The owner of the directory; missing from a claim.
        order_by: The sort order of a rebalance, with the words ORDER BY; "" for unsorted. Only the
            answer to a claim contains it.
        files: The number of files to create; if missing, the worker chooses it. Only a claim
            contains it.
    """

    id: int
    table: TableRef
    partition: str | None
    type: str
    state: str
    worker_id: str | None = None
    worker_version: str | None = None
    pool: str | None = None
    txn_id: int | None = None
    highest_write_id: int | None = None
    next_txn_id: int | None = None
    enqueued_at: datetime | None = None
    started_at: datetime | None = None
    committed_at: datetime | None = None
    cleaning_since: datetime | None = None
    error: str | None = None
    run_as: str | None = None
    order_by: str | None = None
    files: int | None = None

    def __str__(self) -> str:
        place = f"{self.table}/{self.partition}" if self.partition else self.table.full_name
        worker = f", worker {self.worker_id}" if self.worker_id else ""
        start_time = self.started_at or self.enqueued_at
        time = f" since {start_time:%F %T} UTC" if start_time else ""
        return printable(
            f"request {self.id} ({self.type} of {place}) is {self.state}{time}{worker}"
        )

    @classmethod
    def from_thrift(cls, raw_entry: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            id=raw_entry.id or 0,
            table=TableRef(raw_entry.dbname, raw_entry.tablename),
            partition=raw_entry.partitionname or None,
            type=_TYPES.get(raw_entry.type, f"type {raw_entry.type}"),
            state=raw_entry.state,
            worker_id=raw_entry.workerid,
            worker_version=raw_entry.workerVersion,
            pool=None if raw_entry.poolName == "default" else raw_entry.poolName,
            txn_id=raw_entry.txnId or None,
            # Version 4.0 returns it in a field whose name predates write ids.
            highest_write_id=raw_entry.hightestTxnId or None,
            next_txn_id=raw_entry.nextTxnId or None,
            enqueued_at=instant(raw_entry.enqueueTime),
            started_at=instant(raw_entry.start),
            committed_at=instant(raw_entry.commitTime),
            cleaning_since=instant(raw_entry.cleanerStart),
            error=raw_entry.errorMessage,
            run_as=raw_entry.runAs,
        )


class CompactionQueue:
    """The queue, with one method per call; `live` and `waiting` combine several calls."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client

    def request(
        self,
        ref: TableRef,
        partition: str | None,
        type_: CompactionType,
        *,
        pool: str | None = None,
        run_as: str | None = None,
    ) -> RequestAnswer:
        """Request a compaction.

        The request is not accepted while another one for the same partition is initiated or
        working, or ready for cleaning with nothing written to the table since. The metastore does
        not check that the partition exists.

        Args:
            ref: The table.
            partition: The partition's name, for a table that has partitions.
            type_: The kind of compaction.
            pool: The pool whose workers shall execute it; by default the workers without a pool.
            run_as: The owner of the directory.
        """
        request = idl_txns.CompactionRequest(
            dbname=ref.database,
            tablename=ref.name,
            partitionname=partition,
            type=_NUMBERS[type_],
            runas=run_as,
            poolName=pool,
        )
        send = partial(
            self._client.call,
            idl_txns.compact2,
            request,
            about=ref.full_name,
            read=RequestAnswer.from_thrift,
        )
        for pause in _PAUSES:
            with suppress(MetastoreTroubled):
                return cast(RequestAnswer, send())
            time.sleep(random.uniform(0, pause))
        return cast(RequestAnswer, send())

    def claim(self, worker_id: str, pool: str | None = None) -> QueuedCompaction | None:
        """Claim the oldest request of a pool, for any table; a claim cannot be returned.

        Args:
            worker_id: The worker; the id must be unique forever.
            pool: The pool of the requests; by default the requests without a pool.
        """
        request = idl_txns.FindNextCompactRequest(
            workerId=worker_id, workerVersion=_WORKER_VERSION, poolName=pool
        )
        try:
            claimed = self._client.call(idl_txns.find_next_compact2, request).ci
        except AnswerLost:
            for entry in self.show():
                if entry.state == WORKING and entry.worker_id == worker_id:
                    return entry
            raise
        if claimed is None or not claimed.id:
            return None
        return QueuedCompaction(
            id=claimed.id,
            table=TableRef(claimed.dbname, claimed.tablename),
            partition=claimed.partitionname or None,
            type=_TYPES.get(claimed.type, f"type {claimed.type}"),
            state=WORKING,
            worker_id=worker_id,
            worker_version=_WORKER_VERSION,
            pool=pool,
            order_by=claimed.orderByClause or "",
            files=claimed.numberOfBuckets or None,
        )

    def record(
        self, entry: QueuedCompaction, txn_id: int, highest_write_id: int, run_as: str
    ) -> None:
        """Record the transaction of a compaction and the range that it reads, before it is visible.

        Args:
            entry: The claimed request.
            txn_id: The transaction; from now on the metastore remembers its abort until it is
                cleaned.
            highest_write_id: The highest write id that it reads.
            run_as: The owner of the directory. Hive's cleaner fails on a request without an owner.
        """
        info = _info(entry, runas=run_as, highestWriteId=highest_write_id)
        self._client.call(idl_txns.update_compactor_state, info, txn_id)

    def compacted(self, entry: QueuedCompaction) -> None:
        """Mark a claimed request as completed; this succeeds even if its transaction is aborted."""
        self._client.call(idl_txns.mark_compacted, _info(entry))

    def failed(self, entry: QueuedCompaction, message: str) -> None:
        """Mark a request as failed."""
        self._client.call(idl_txns.mark_failed, _info(entry, errorMessage=message))

    def refused(self, entry: QueuedCompaction, message: str) -> None:
        """Mark a request as unnecessary, or as failed where the metastore has no such mark."""
        refuses = self._client.features.refuses_requests
        call = idl_txns.mark_refused if refuses else idl_txns.mark_failed
        self._client.call(call, _info(entry, errorMessage=message))

    def cleaned(self, entry: QueuedCompaction) -> None:
        """Report that no obsolete or aborted files remain up to the highest write id.

        The metastore then forgets which of these write ids were aborted: a remaining directory of
        such a write id would count as committed. Another cleaner may have reported the same.

        Args:
            entry: A request that is ready for cleaning, as returned by `show`.

        Raises:
            MetastoreCallFailed: The request is still not cleaned, or not shown any more.
        """
        # With no write id the metastore would forget everything about the table.
        assert entry.highest_write_id
        info = _info(entry, highestWriteId=entry.highest_write_id)
        for pause in (*_PAUSES_OF_CLEANING, None):
            try:
                self._client.call(idl_txns.mark_cleaned, info)
                return
            except MetastoreCallFailed as failure:
                # Of simultaneous reports, the metastore refuses all but one: each inserts a row of
                # the same number into the history.
                state = self._state_of(entry)
                if state == SUCCEEDED:
                    return
                if pause is None:
                    uncertainty = (
                        f"It is unknown whether request {entry.id} of {entry.table} is cleaned"
                    )
                    state_text = (
                        uncertainty if state is None else f"{entry} after its files were removed"
                    )
                    raise type(failure)(
                        f"{state_text}: {failure.what}",
                        remedy="Clean the table again, which only repeats this report. If it fails"
                        " again, look into the metastore's log.",
                    ) from failure
            time.sleep(random.uniform(0, pause))

    def _state_of(self, entry: QueuedCompaction) -> str | None:
        """Return the current state of a request; None if the metastore does not show it any more.

        That is no evidence of a cleaning: it also forgets the requests of dropped tables.
        """
        return next(
            (request.state for request in self.show(entry.table) if request.id == entry.id), None
        )

    def show(
        self, ref: TableRef | None = None, partition: str | None = None
    ) -> list[QueuedCompaction]:
        """Return the queue and the history that the metastore retains, oldest first.

        Args:
            ref: Restrict the result to this table.
            partition: Restrict the result to this partition.
        """
        request = idl_txns.ShowCompactRequest()
        if self._client.features.filters_queue:
            request.dbName, request.tbName = ref and ref.database, ref and ref.name
            request.partName = partition
        entries: list[QueuedCompaction] = self._client.call(
            idl_txns.show_compact,
            request,
            read=lambda answer: [QueuedCompaction.from_thrift(entry) for entry in answer.compacts],
        )
        # Hive 3.1 returns all entries, and others misunderstand a filter.
        return sorted(
            (
                entry
                for entry in entries
                if (ref is None or entry.table == ref)
                and (partition is None or entry.partition == partition)
            ),
            key=lambda entry: entry.id,
        )

    def live(
        self, ref: TableRef | None = None, partition: str | None = None
    ) -> list[QueuedCompaction]:
        """Return the waiting and running requests; end requests of this package's dead compactors.

        Args:
            ref: Restrict the result to this table.
            partition: Restrict the result to this partition.
        """
        unfinished = [
            entry
            for entry in self.show(ref, partition)
            if entry.state in (INITIATED, WORKING, READY_FOR_CLEANING)
        ]
        if not unfinished:
            return []
        # Requested after the queue: every owner in the queue has opened its transaction by now.
        txns = Snapshot.take(self._client, []).txns
        return [entry for entry in unfinished if self._is_live(entry, txns)]

    def waiting(
        self, pool: str | None = None, table: TableRef | None = None
    ) -> QueuedCompaction | None:
        """Return the request that `claim` would return, if any.

        Args:
            pool: The pool of the requests; by default the requests without a pool.
            table: Return nothing unless a request for this table is waiting. The returned request
                may be an older one for another table.
        """
        initiated = [
            entry for entry in self.live() if entry.state == INITIATED and entry.pool == pool
        ]
        if table is not None and all(entry.table != table for entry in initiated):
            return None
        return next(iter(initiated), None)

    def _is_live(self, entry: QueuedCompaction, txns: ValidTxnList) -> bool:
        """Return whether a request has a live owner or worker; end this package's dead requests."""
        if entry.state == READY_FOR_CLEANING:
            return entry.txn_id in txns.open
        match = _OWN.fullmatch((entry.worker_id if entry.state == WORKING else entry.pool) or "")
        if match is None or int(match[1]) in txns.open:
            return True
        if entry.txn_id is not None and txns.is_valid(entry.txn_id):
            # Its abort would be remembered: the death came between the commit and the mark.
            with suppress(MetastoreCallFailed):
                self.compacted(entry)
        else:
            self._end(entry, int(match[1]))
        return False

    def _end(self, entry: QueuedCompaction, txn_id: int | None) -> None:
        message = f"The compactor with transaction {txn_id} has ended without saying how."
        with suppress(MetastoreCallFailed):  # Another compactor may have just done the same.
            self.failed(entry, message)


def _info(entry: QueuedCompaction, **fields: Any) -> Any:
    return idl_txns.CompactionInfoStruct(
        id=entry.id,
        dbname=entry.table.database,
        tablename=entry.table.name,
        partitionname=entry.partition,
        type=_NUMBERS[entry.type],
        **fields,
    )


# The transaction of the compactions of some partitions, from the claims to the commit.
#
# The commit of a compaction completes all requests that were recorded with its transaction. A
# partition without a published directory may leave the transaction; the others go on.
#
# A queue with pools excludes concurrent compactors. Without pools it would hand out the requests of
# others; an advisory lock on a name that no engine locks replaces it, also for served requests.


_SERVE_FIRST = 'Run the job again when that is done, or with mode="serve" if nobody serves it.'
_CLEAN_FIRST = (
    "Clean the table first: the metastore takes no new request until then, or until something is"
    " written."
)


def renumbers_rows(type_: CompactionType | None, kind: TableKind) -> bool:
    """Return whether a compaction gives rows other row ids."""
    return type_ is CompactionType.REBALANCE and kind is not TableKind.INSERT_ONLY


def compaction_components(
    features: Features, ref: TableRef, partitions: Sequence[str] | None, *, renumbers: bool
) -> tuple[LockComponent, ...]:
    """Return the locks of a compaction of partitions, or of a table without partitions."""
    if renumbers:
        # Writers that change rows identify them by row id: the same lock, and the same entry
        # for the check at commit, exclude all of them from beginning to commit.
        return lock_components(
            features.has_excl_write, Operation.UPDATE, ref, partitions is not None, partitions
        )
    reads = read_lock_components(ref, True, partitions)
    if features.has_pools:
        return reads
    if features.hides_compactions:
        # It is also a part in the table, like that of an insert: until it is cleaned, the metastore
        # remembers its abort, which a request in the queue would do otherwise.
        reads = tuple(replace(read, operation=DataOperation.INSERT) for read in reads)
    advisory = [
        replace(
            read,
            type=LockType.EXCLUSIVE,
            table=advisory_table(ref).name,
            operation=DataOperation.NO_TXN,
            is_transactional=False,
        )
        for read in reads
    ]
    return (*reads, *advisory)


def _kind_of(client: MetastoreClient, ref: TableRef) -> TableKind:
    try:
        return client.get_table(ref).kind
    except TableNotFound:
        # Its request is claimed and fails, or it would stay the next one of the queue.
        return TableKind.FULL_ACID


def advisory_table(ref: TableRef) -> TableRef:
    """Return the name that compactions of a table lock in place of a queue."""
    return TableRef(ref.database, f"{ref.name}#compaction")


class CompactionTransaction(LiveTransaction):
    """Compactions of a table that begin on entry and are undone on exit unless committed.

    Attributes:
        ref: The table.
        partition: The partition's name, or the first of several; null for an unpartitioned table.
        type: The kind of compaction.
        refused: The partitions that others are compacting.
        snapshot: The snapshot of the transaction.
        write_ids: The write ids that may be merged.
    """

    def __init__(
        self,
        client: MetastoreClient,
        ref: TableRef,
        partition: str | None,
        type_: CompactionType,
        *,
        beside: Sequence[str] = (),
        kind: TableKind = TableKind.FULL_ACID,
        run_token: str | None = None,
        run_as: str | None = None,
        lock_wait_seconds: float = 300,
        phases: PhaseClock | None = None,
    ) -> None:
        """Describe a compaction; it begins on entry.

        Args:
            client: The metastore.
            ref: The table.
            partition: The partition's name, for a table that has partitions.
            type_: The kind of compaction.
            beside: Further partitions, for another type than a rebalance. Those of which others
                make compactions are then ``refused``; without them, they are an error.
            kind: The kind of table. Without row ids a rebalance conflicts with no writer.
            run_token: Identifies this run's transactions later.
            run_as: The owner of the directory, as which Hive's cleaner removes the replaced files.
            lock_wait_seconds: The longest wait for the lock that keeps the table from being
                dropped.
            phases: Receives the phases of the run.
        """
        super().__init__(client, Owner.of(run_token, client.user), phases or PhaseClock())
        self.ref = ref
        self.partition = partition
        self.type = type_
        self._beside = tuple(beside)
        self._kind = kind
        self._run_as = run_as
        self._lock_wait = lock_wait_seconds
        self._queue = CompactionQueue(client)
        self._waiting: QueuedCompaction | None = None
        self._claims: dict[str | None, QueuedCompaction] = {}
        self.refused: dict[str | None, AlreadyCompacting] = {}
        self._undone = ""

    @classmethod
    def serve(
        cls,
        client: MetastoreClient,
        *,
        pool: str | None = None,
        table: TableRef | None = None,
        run_token: str | None = None,
        lock_wait_seconds: float = 300,
        phases: PhaseClock | None = None,
    ) -> Self | None:
        """Describe the oldest waiting compaction in the queue, if any.

        Entering it may claim a different compaction from the one described here: `ref`, `partition`
        and `type` then identify it.

        Args:
            client: The metastore.
            pool: The pool of the requests; by default the requests without a pool.
            table: Do nothing unless a request for this table waits. The oldest request of the pool
                is served first, regardless of its table.
            run_token: Identifies this run's transactions later.
            lock_wait_seconds: The longest wait for the lock that keeps the table from being
                dropped.
            phases: Receives the phases of the run.
        """
        waiting = CompactionQueue(client).waiting(pool, table)
        if waiting is None:
            return None
        if waiting.type not in list(CompactionType):
            if phases is not None:
                phases.note(f"Only Hive can serve the next request: {waiting}.")
            return None
        served = cls(
            client,
            waiting.table,
            waiting.partition,
            CompactionType(waiting.type),
            kind=_kind_of(client, waiting.table),
            run_token=run_token,
            run_as=waiting.run_as,
            lock_wait_seconds=lock_wait_seconds,
            phases=phases,
        )
        served._waiting = waiting
        return served

    def __enter__(self) -> Self:
        if self._state is not State.NEW:
            raise RuntimeError("A compaction can be entered only once; describe a new one.")
        try:
            self._begin()
        except SnapshotMoved as conflict:
            # Hive's initiator concludes from failed requests that the next one will fail, too.
            self.refuse(str(conflict))
            raise
        except BaseException as error:
            self.abort(f"{type(error).__name__} while it began: {error}")
            raise
        return self

    @property
    def visibility_txn(self) -> int:
        """The transaction whose commit publishes the result; 0 if the rename publishes it."""
        return self.txn_id if self.features.hides_compactions else 0

    @property
    def request(self) -> QueuedCompaction | None:
        """The served request; null for a request of this process, or without one."""
        return None if self._waiting is None else self._claims.get(self.partition)

    @property
    def txns(self) -> ValidTxnList:
        """The transactions that can be seen."""
        return self.snapshot.txns

    def leave(self, partition: str | None, reason: str, *, refused: bool = False) -> None:
        """End the compaction of a partition of which nothing is published, and continue the others.

        Args:
            partition: The partition.
            reason: The reason.
            refused: Whether no work is necessary.
        """
        claimed = self._claims.pop(partition, None)
        if claimed is not None and self._state is State.OPEN:
            end = self._queue.refused if refused else self._queue.failed
            self.attempt("end the request", lambda: end(claimed, reason))

    def record(self, highest_write_id: int, partition: str | None = None) -> None:
        """Record the read range in the queue before publishing any part of the result.

        Args:
            highest_write_id: The highest write id that the compaction reads.
            partition: The partition; by default that of the transaction.
        """
        claimed = self._claims.get(partition or self.partition)
        if claimed is not None:
            run_as = self._run_as or self._client.get_table(self.ref).owner or self._owner.user
            self._queue.record(claimed, self.txn_id, highest_write_id, run_as)

    def commit(self) -> None:
        """Publish the result, or on Hive 3.1, where it is already visible, release the locks.

        Raises:
            TransactionAborted: The metastore has aborted the transaction (not on Hive 3.1).
            CommitUncertain: The metastore became unreachable and did not recover in time for a
                check.
        """
        if self._holds_only_locks:
            self._require_own_process()
            with self._phases(Phase.COMMIT):
                self.release()
            return
        if not self._claims:
            # Hive's worker would merge directories that this transaction has replaced.
            for error in self._find_others().values():
                raise error
        super().commit()

    def _completed(self) -> None:
        # Not before the commit: Hive's cleaner waits forever for a marked request whose transaction
        # is aborted. If this is not reached, whoever finds the request marks it; see CompactionQueue.
        for claimed in self._claims.values():
            self.attempt("mark the request as compacted", partial(self._queue.compacted, claimed))

    def abort(self, reason: str) -> None:
        """Undo everything and report the reason to the queue. Errors become warnings.

        Args:
            reason: The reason.
        """
        self._undone = reason
        super().abort(reason)

    def refuse(self, reason: str) -> None:
        """End the compaction because no work is necessary.

        Args:
            reason: The reason.
        """
        self.leave(self.partition, reason, refused=True)
        self.abort(reason)

    @property
    def _holds_part(self) -> bool:
        """Whether the lock is also a part in the table, which needs a write id."""
        return self.features.hides_compactions and not self.features.has_pools

    @property
    def _holds_only_locks(self) -> bool:
        return not (self.features.hides_compactions or self._renumbers)

    def _begin(self) -> None:
        """Take all steps; restart from the first one after a lost answer.

        If the answer with the transaction's id is lost, that transaction stays open until it times
        out: it cannot be distinguished from transactions of the same run for other partitions.
        """
        try:
            self._take_steps()
        except AnswerLost as lost_answer:
            if self._claims and self._waiting is not None:
                raise  # A request of another client can be claimed only once.
            self.abort(f"an answer was lost: {lost_answer.what}")
            self._phases.note(f"Restarting: {lost_answer.what}")
            self._state = State.NEW
            self._claims.clear()
            self._take_steps()

    def _take_steps(self) -> None:
        """Open a transaction, claim a request, lock, and take the snapshot."""
        started = time.monotonic()
        with self._phases(Phase.OPEN, "a transaction"):
            if self._waiting is None:
                self.refused = self._find_others()
                self._require_partitions()
            kind = TxnType.REBALANCE_COMPACTION if self._renumbers else TxnType.COMPACTION
            self._open(kind if self.features.hides_compactions else TxnType.DEFAULT)
            self._phases.opened(self.txn_id, {})
            if self._waiting is not None:
                self._serve(self._waiting)
            elif self.features.has_pools:
                self._claim_all()
            if self._holds_part:
                # Before the lock, whose rows in the metastore would otherwise never be cleaned.
                self._client.allocate_write_id(self.txn_id, self.ref)
        with self._phases(Phase.LOCK, str(self.ref)):
            lock = LockRequest(self._client, self._components(), self.txn_id, self._owner)
            lock.send()
            self._check_lock(lock)
            reason_to_stop = partial(self._check_lock, lock)
            lock.wait(started, self._lock_wait, reason_to_stop, self._phases)
        with self._phases(Phase.SNAPSHOT, "of what is committed"):
            if (
                self._renumbers
                and (conflicting_txn := self._client.latest_conflicting_txn(self.txn_id)) > 0
            ):
                raise SnapshotMoved(
                    f"Transaction {conflicting_txn} committed a change of {self.ref} after the rebalance began."
                )
            self.snapshot = Snapshot.take(self._client, [self.ref], self.txn_id)
            self.write_ids = CompactorWriteIdList.of(self.snapshot.write_ids[self.ref.full_name])

    def _find_others(self) -> dict[str | None, AlreadyCompacting]:
        """Return errors for the partitions with live requests of others."""
        partition = None if self._beside else self.partition
        return {
            entry.partition: AlreadyCompacting(
                f"In the way: {entry}.",
                remedy=_SERVE_FIRST
                if entry.state == INITIATED and self.features.has_queue
                else None,
            )
            for entry in self._queue.live(self.ref, partition)
            if self.partition is None or entry.partition in self._partitions
        }

    @property
    def _partitions(self) -> tuple[str | None, ...]:
        return (self.partition, *self._beside)

    def _require_partitions(self) -> None:
        """Raise the error of a single partition, or of the last one of several."""
        if self.partition is None or self.refused.keys() >= set(self._partitions):
            for error in self.refused.values():
                raise error

    def _claim_all(self) -> None:
        """Make and claim a request for each partition, before the snapshot is taken.

        Otherwise, another compaction could be completed between the snapshot and the claim.
        """
        for number, partition in enumerate(self._partitions):
            if partition in self.refused:
                continue
            try:
                pool = self._request(partition, number)
                self._claim(own_worker(self._owner.host, self.txn_id, number), pool)
            except AlreadyCompacting as error:
                self.refused[partition] = error
        self._require_partitions()

    def _claim(self, worker_id: str, pool: str | None) -> QueuedCompaction:
        claimed = self._queue.claim(worker_id, pool)
        if claimed is None:
            raise AlreadyCompacting("Another worker took the request.")
        self._claims[claimed.partition] = claimed
        self.own(partial(self._give_up, claimed), f"request {claimed.id} from the queue")
        return claimed

    def _serve(self, waiting: QueuedCompaction) -> None:
        """Claim the request that waits, or another one."""
        claimed = self._claim(own_worker(self._owner.host, self.txn_id), waiting.pool)
        txn_renumbers = self._renumbers
        if claimed.type in list(CompactionType):
            self.ref, self.partition = claimed.table, claimed.partition
            self.type = CompactionType(claimed.type)
            if waiting.id != claimed.id:
                self._run_as = None  # Unknown for a request other than the one that was shown.
                self._kind = _kind_of(self._client, self.ref)
        # The type of a transaction is for good, and so is a claim.
        if claimed.type not in list(CompactionType) or self._renumbers != txn_renumbers:
            raise AlreadyCompacting(
                f"Another worker has claimed it; the next request is {claimed}."
            )

    def _request(self, partition: str | None, number: int) -> str:
        """Make a request in a pool that no other claim reads.

        Returns:
            The pool.
        """
        pool = own_pool(self.txn_id, number)
        ref = self.ref
        answer = self._queue.request(ref, partition, self.type, pool=pool, run_as=self._run_as)
        # A metastore that ignores pools would hand out a request of others.
        is_proven = self.features.filters_queue and answer.accepted
        entries = [] if is_proven else self._queue.show(ref, partition)
        for ignored in (e for e in entries if e.id == answer.id and e.pool != pool):
            self._queue.failed(ignored, "It was requested in a pool, which the metastore ignores.")
            raise UnsupportedMetastore(
                f"The metastore ignores the pools of requests, as for {ref}.",
                remedy="State the metastore_profile of a metastore without pools.",
            )
        # Its answer may have got lost the first time.
        if not answer.accepted and not any(entry.pool == pool for entry in entries):
            ready = [entry for entry in entries if entry.state == READY_FOR_CLEANING]
            raise AlreadyCompacting(
                f"In the way: {ready[0]}." if ready else f"{answer.message}.",
                remedy=_CLEAN_FIRST if ready else None,
            )
        return pool

    def _give_up(self, claimed: QueuedCompaction) -> None:
        # Unless the partition has left.
        if self._claims.get(claimed.partition) is claimed:
            self._queue.failed(claimed, self._undone)

    def _components(self) -> tuple[LockComponent, ...]:
        partitions = None if self.partition is None else (self.partition, *self._beside)
        return compaction_components(self.features, self.ref, partitions, renumbers=self._renumbers)

    @property
    def _renumbers(self) -> bool:
        return renumbers_rows(self.type, self._kind)

    def _check_lock(self, lock: LockRequest) -> None:
        """Give up at once if another compactor of this package is working without the queue."""
        self.check_alive()
        if self.features.has_pools or lock.granted:
            return
        for blocker in lock.blockers():
            if blocker.table == advisory_table(self.ref):
                raise AlreadyCompacting(f"Another compactor is active: {describe(blocker)}.")
