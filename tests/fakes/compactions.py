"""The compaction queue of the fake metastore."""

import time
from dataclasses import dataclass
from typing import Any

from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.rules.metastore_version import MetastoreVersion
from tests.fakes.transactions import Transactions

_INITIATED, _WORKING, _READY = "initiated", "working", "ready for cleaning"
_ENDED = ("succeeded", "failed", "refused")


@dataclass
class _Entry:
    id: int
    database: str
    table: str
    partition: str | None
    type: int
    pool: str | None
    run_as: str | None
    enqueued_at: int
    state: str = _INITIATED
    worker: str | None = None
    worker_version: str | None = None
    started_at: int | None = None
    error: str | None = None
    txn: int | None = None
    next_txn: int | None = None
    committed_at: int | None = None
    highest_write_id: int | None = None
    order_by: str | None = None
    files: int | None = None

    @property
    def place(self) -> tuple[str, str, str | None]:
        return self.database, self.table, self.partition


class Compactions:
    """Answers the calls of `idl_txns`; methods are named as those are."""

    def __init__(self, version: MetastoreVersion, transactions: Transactions) -> None:
        self._version = version
        self._transactions = transactions
        self._entries: dict[int, _Entry] = {}
        self._last = 0

    def compact2(self, request: Any) -> Any:
        place = (request.dbname, request.tablename, request.partitionname)
        for entry in self._entries.values():
            if entry.place == place and self._is_busy(entry):
                if self._version is MetastoreVersion.HMS3:
                    return idl_txns.CompactionResponse(entry.id, entry.state, False)
                text = (
                    f"Compaction is already scheduled with state='{entry.state}' and id={entry.id}"
                )
                return idl_txns.CompactionResponse(-1, "refused", False, text)
        self._last += 1
        self._entries[self._last] = _Entry(
            self._last,
            *place,
            request.type,
            request.poolName,
            request.runas,
            _now(),
            order_by=request.orderByClause,
            files=request.numberOfBuckets,
        )
        return idl_txns.CompactionResponse(self._last, _INITIATED, True)

    def show_compact(self, request: Any) -> Any:
        shown = [
            idl_txns.ShowCompactResponseElement(
                dbname=entry.database,
                tablename=entry.table,
                partitionname=entry.partition,
                type=entry.type,
                state=entry.state,
                workerid=entry.worker,
                start=entry.started_at,
                runAs=entry.run_as,
                id=entry.id,
                errorMessage=entry.error,
                enqueueTime=entry.enqueued_at,
                workerVersion=entry.worker_version,
                poolName=entry.pool,
                nextTxnId=entry.next_txn,
                commitTime=entry.committed_at,
                txnId=entry.txn,
                hightestTxnId=entry.highest_write_id,
            )
            for entry in self._entries.values()
            # Version 3 does not know that one may ask for less than everything.
            if self._version is MetastoreVersion.HMS3
            or (
                request.dbName in (None, entry.database)
                and request.tbName in (None, entry.table)
                and request.partName in (None, entry.partition)
            )
        ]
        return idl_txns.ShowCompactResponse(shown)

    def _is_busy(self, entry: _Entry) -> bool:
        if entry.state == _READY and self._version is MetastoreVersion.HMS4:
            # It is in the way until something is written, to whichever partition.
            written = self._transactions.last_write_id(entry.database, entry.table)
            return (entry.highest_write_id or 0) >= written
        return entry.state in (_INITIATED, _WORKING)

    def find_next_compact2(self, request: Any) -> Any:
        for entry in self._entries.values():
            if entry.state == _INITIATED and entry.pool == request.poolName:
                entry.state, entry.worker, entry.started_at = _WORKING, request.workerId, _now()
                entry.worker_version = request.workerVersion
                claimed = idl_txns.CompactionInfoStruct(
                    id=entry.id,
                    dbname=entry.database,
                    tablename=entry.table,
                    partitionname=entry.partition,
                    type=entry.type,
                    runas=entry.run_as,
                    orderByClause=entry.order_by,
                    numberOfBuckets=entry.files or 0,
                )
                return idl_txns.OptionalCompactionInfoStruct(claimed)
        return idl_txns.OptionalCompactionInfoStruct()

    def update_compactor_state(self, info: Any, txn_id: int) -> None:
        entry = self._unfinished(info)
        entry.txn, entry.run_as = txn_id, info.runas
        entry.highest_write_id = info.highestWriteId
        self._transactions.record_compaction(txn_id, entry.place, info.highestWriteId)

    def mark_compacted(self, info: Any) -> None:
        entry = self._entries[info.id]
        if entry.state in _ENDED:
            raise idl_tables.MetaException("The update count was 0 which is not the expected.")
        entry.state, entry.worker = _READY, None
        # The real one does both when the transaction commits, which comes right before or after.
        entry.committed_at = _now()
        entry.next_txn = self._transactions.get_open_txns().txn_high_water_mark

    def mark_cleaned(self, info: Any) -> None:
        entry = self._entries.get(info.id)
        if entry is None:
            return
        entry.state = "succeeded"
        self._transactions.forget_aborted(entry.place, info.highestWriteId)

    def mark_failed(self, info: Any) -> None:
        entry = self._unfinished(info)
        entry.state, entry.error = "failed", info.errorMessage

    def mark_refused(self, info: Any) -> None:
        entry = self._unfinished(info)
        entry.state, entry.error = "refused", info.errorMessage

    def _unfinished(self, info: Any) -> _Entry:
        """A request that has not ended; the real one stumbles over others, too."""
        entry = self._entries[info.id]
        if entry.state in _ENDED:
            raise RuntimeError(f"Request {info.id} has ended.")
        return entry

    def forget_table(self, database: str, table: str) -> None:
        self._entries = {
            number: entry
            for number, entry in self._entries.items()
            if (entry.database, entry.table) != (database, table)
        }


def _now() -> int:
    return int(time.time() * 1000)
