"""The compaction queue of HMS 4: request, claim, report, clean. That of HMS 3 can only be shown."""

import random
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self, cast

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.write_ids import ValidTxnList
from airflow_hiveacid.errors import AnswerLost, MetastoreCallFailed, MetastoreTroubled
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift import idl_compaction
from airflow_hiveacid.metastore.thrift.answers import instant
from airflow_hiveacid.metastore.txn.snapshot import Snapshot

INITIATED = "initiated"
WORKING = "working"
READY_FOR_CLEANING = "ready for cleaning"

# Thrift's CompactionType.
_TYPES = {1: "minor", 2: "major", 3: "rebalance", 4: "abort cleanup"}
_NUMBERS = {name: number for number, name in _TYPES.items()}

# It stays with a request after the worker's id is gone.
_WORKER_VERSION = "airflow-hiveacid"
# How long to wait at most before a request that came to nothing is made again: on MySQL and MariaDB
# requests deadlock that are made at the same moment.
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
_OURS = re.compile(r"hiveacid-(?:.*-)?(\d+)")


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """What became of a request: accepted under an id, or refused in favour of another one."""

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
        partition: The partition's name; None is a table without, or a request for none.
        type: "minor", "major", or what only Hive can do.
        state: "initiated", "working", "ready for cleaning" or how it ended, in Hive's words.
        worker_id: Who works on it.
        worker_version: What the worker calls itself, also when it is done.
        pool: Whose requests it is among; None are those without a pool.
        txn_id: The transaction that it is done in, once that is recorded.
        highest_write_id: Up to which write id it reads, once that is recorded.
        next_txn_id: The youngest transaction at its commit; older ones may read what it replaced.
        enqueued_at: When it was asked for.
        started_at: When somebody began to work on it.
        error: Why it failed or was refused.
        run_as: Who owns the directory; a claim does not tell.
        order_by: By what a rebalance sorts, with the words ORDER BY; "" is by nothing. Only the
            answer to a claim tells.
        files: How many files it is to make; None leaves it to whoever does it. Only a claim tells.
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
    error: str | None = None
    run_as: str | None = None
    order_by: str | None = None
    files: int | None = None

    def __str__(self) -> str:
        place = f"{self.table}/{self.partition}" if self.partition else self.table.full_name
        worker = f", worker {self.worker_id}" if self.worker_id else ""
        since = self.started_at or self.enqueued_at
        time = f" since {since:%F %T} UTC" if since else ""
        return f"request {self.id} ({self.type} of {place}) is {self.state}{time}{worker}"

    @classmethod
    def from_thrift(cls, shown: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            id=shown.id or 0,
            table=TableRef(shown.dbname, shown.tablename),
            partition=shown.partitionname or None,
            type=_TYPES.get(shown.type, f"type {shown.type}"),
            state=shown.state,
            worker_id=shown.workerid,
            worker_version=shown.workerVersion,
            pool=None if shown.poolName == "default" else shown.poolName,
            txn_id=shown.txnId or None,
            # Version 4.0 tells it under the name that the field had before there were write ids.
            highest_write_id=shown.hightestTxnId or None,
            next_txn_id=shown.nextTxnId or None,
            enqueued_at=instant(shown.enqueueTime),
            started_at=instant(shown.start),
            error=shown.errorMessage,
            run_as=shown.runAs,
        )


class CompactionQueue:
    """The queue, with one method per call; `live` and `waiting` are put together from them."""

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
        """Ask for a compaction.

        It is not accepted while another one of the same partition is initiated or working, or
        ready for cleaning with nothing written to the table since. The metastore does not look
        whether there is such a partition.

        Args:
            ref: The table.
            partition: The partition's name, for a table that has partitions.
            type_: The kind of compaction.
            pool: Whose workers shall do it; None are those without a pool.
            run_as: Who owns the directory.
        """
        request = idl_compaction.CompactionRequest(
            dbname=ref.database,
            tablename=ref.name,
            partitionname=partition,
            type=_NUMBERS[type_],
            runas=run_as,
            poolName=pool,
        )
        send = partial(
            self._client.call,
            idl_compaction.compact2,
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
        """Take the oldest request of a pool, of whichever table; it cannot be given back.

        Args:
            worker_id: Who takes it; nobody else must ever use this id.
            pool: Whose requests; None are those without a pool.
        """
        request = idl_compaction.FindNextCompactRequest(
            workerId=worker_id, workerVersion=_WORKER_VERSION, poolName=pool
        )
        try:
            claimed = self._client.call(idl_compaction.find_next_compact2, request).ci
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
        """Tell in which transaction a compaction is done and what it reads, before it is visible.

        Args:
            entry: The claimed request.
            txn_id: The transaction; from now on its abort is remembered until it is cleaned.
            highest_write_id: Up to which write id it reads.
            run_as: Who owns the directory. Hive's cleaner fails on a request without.
        """
        info = _info(entry, runas=run_as, highestWriteId=highest_write_id)
        self._client.call(idl_compaction.update_compactor_state, info, txn_id)

    def compacted(self, entry: QueuedCompaction) -> None:
        """Tell that a claimed request is done; this succeeds although its transaction is aborted."""
        self._client.call(idl_compaction.mark_compacted, _info(entry))

    def failed(self, entry: QueuedCompaction, message: str) -> None:
        """Tell that a request could not be served."""
        self._client.call(idl_compaction.mark_failed, _info(entry, errorMessage=message))

    def refused(self, entry: QueuedCompaction, message: str) -> None:
        """Tell that there is no need to serve a request."""
        self._client.call(idl_compaction.mark_refused, _info(entry, errorMessage=message))

    def cleaned(self, entry: QueuedCompaction) -> None:
        """Tell that nothing obsolete and nothing aborted is left up to the highest write id.

        The metastore then forgets which of these write ids were aborted: a directory of theirs
        that is still there would be taken for committed.

        Args:
            entry: A request that is ready for cleaning, as it was shown.
        """
        # With no write id the metastore would forget everything about the table.
        assert entry.highest_write_id
        info = _info(entry, highestWriteId=entry.highest_write_id)
        self._client.call(idl_compaction.mark_cleaned, info)

    def show(
        self, ref: TableRef | None = None, partition: str | None = None
    ) -> list[QueuedCompaction]:
        """The queue and what the metastore still knows of the past, oldest first.

        Args:
            ref: Of this table only.
            partition: Of this partition only.
        """
        request = idl_compaction.ShowCompactRequest(
            dbName=ref and ref.database, tbName=ref and ref.name, partName=partition
        )
        shown: list[QueuedCompaction] = self._client.call(
            idl_compaction.show_compact,
            request,
            read=lambda answer: [QueuedCompaction.from_thrift(entry) for entry in answer.compacts],
        )
        # Version 3 shows everything whatever it is asked for.
        return sorted(
            (
                entry
                for entry in shown
                if (ref is None or entry.table == ref)
                and (partition is None or entry.partition == partition)
            ),
            key=lambda entry: entry.id,
        )

    def live(
        self, ref: TableRef | None = None, partition: str | None = None
    ) -> list[QueuedCompaction]:
        """The requests that wait or are worked on, after those of our dead compactors are ended.

        Args:
            ref: Of this table only.
            partition: Of this partition only.
        """
        unfinished = [
            entry
            for entry in self.show(ref, partition)
            if entry.state in (INITIATED, WORKING, READY_FOR_CLEANING)
        ]
        if not unfinished:
            return []
        # Asked for after the queue: who was seen there has been opened by now.
        txns = Snapshot.take(self._client, []).txns
        return [entry for entry in unfinished if self._is_live(entry, txns)]

    def waiting(
        self, pool: str | None = None, table: TableRef | None = None
    ) -> QueuedCompaction | None:
        """The request that `claim` would hand out, or None.

        Args:
            pool: Whose requests; None are those without a pool.
            table: None unless a request for this table is among them. The one that is handed out
                may be of another table, which came first.
        """
        initiated = [
            entry for entry in self.live() if entry.state == INITIATED and entry.pool == pool
        ]
        if table is not None and all(entry.table != table for entry in initiated):
            return None
        return next(iter(initiated), None)

    def _is_live(self, entry: QueuedCompaction, txns: ValidTxnList) -> bool:
        """Whether somebody waits for it or works on it; what is dead and ours is ended."""
        if entry.state == READY_FOR_CLEANING:
            # Marked between its two steps: before the commit, which the death came before.
            if entry.worker_version == _WORKER_VERSION and entry.txn_id in txns.aborted:
                self._end(entry, entry.txn_id)
            return entry.txn_id in txns.open
        ours = _OURS.fullmatch((entry.worker_id if entry.state == WORKING else entry.pool) or "")
        if ours is None or int(ours[1]) in txns.open:
            return True
        self._end(entry, int(ours[1]))
        return False

    def _end(self, entry: QueuedCompaction, txn_id: int | None) -> None:
        message = f"The compactor with transaction {txn_id} has ended without saying how."
        with suppress(MetastoreCallFailed):  # Another compactor may have just done the same.
            self.failed(entry, message)


def _info(entry: QueuedCompaction, **fields: Any) -> Any:
    return idl_compaction.CompactionInfoStruct(
        id=entry.id,
        dbname=entry.table.database,
        tablename=entry.table.name,
        partitionname=entry.partition,
        type=_NUMBERS[entry.type],
        **fields,
    )
