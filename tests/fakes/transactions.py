"""Transactions, write ids and locks of the fake metastore."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.thrift.answers import LockState, TxnState, TxnType
from hiveacid.rules.locks import DataOperation, LockType, blocks
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.write_ids import ValidTxnList

_CHANGES = (DataOperation.UPDATE, DataOperation.DELETE)


class Component(NamedTuple):
    """The object that a transaction writes. Any partition of the table until partitions are
    registered."""

    database: str
    table: str
    partition: str | None
    operation: DataOperation
    is_dynamic: bool = False

    @property
    def place(self) -> tuple[str, str, str | None]:
        return self.database, self.table, self.partition

    def meets(self, other: "Component") -> bool:
        """Return whether one of the two changes an object that the other one changes."""
        updates = DataOperation.UPDATE in (self.operation, other.operation)
        here = self.place == other.place
        if self.is_dynamic:
            here = self.place[:2] == other.place[:2]
        return updates and here


@dataclass
class _Txn:
    id: int
    user: str
    host: str
    agent_info: str
    kind: TxnType
    started: int
    state: TxnState = TxnState.OPEN
    # It was aborted, and is gone from all lists, as if it had been committed.
    forgotten: bool = False
    # With the write ids that were known then.
    components: dict[Component, int] = field(default_factory=dict)
    write_ids: dict[str, int] = field(default_factory=dict)

    def changes(self) -> list[Component]:
        return sorted(component for component in self.components if component.operation in _CHANGES)


@dataclass
class _Lock:
    id: int
    txn: int
    components: Sequence[Any]
    user: str
    host: str
    agent_info: str | None
    state: LockState = LockState.WAITING
    acquired_at: int | None = None


class Transactions:
    """Answers the calls of `idl_txns`; methods are named as those are."""

    def __init__(self, version: MetastoreVersion) -> None:
        self._version = version
        self._txns: dict[int, _Txn] = {}
        # Those that are open or aborted, which are few among many.
        self._not_committed: dict[int, _Txn] = {}
        self._locks: dict[int, _Lock] = {}
        self._last_write_id: dict[str, int] = {}
        # The transactions of the write ids of each table.
        self._writers: dict[str, dict[int, int]] = {}
        self._last_lock = 0
        # The changed objects by transaction, and the youngest transaction at each commit.
        self._committed: list[tuple[Component, int, int]] = []

    # Transactions

    def open_txns(self, request: Any) -> Any:
        opened = []
        for _ in range(request.num_txns):
            txn = _Txn(
                len(self._txns) + 1,
                request.user,
                request.hostname,
                request.agentInfo,
                TxnType(request.txn_type or 0),
                _now(),
            )
            self._txns[txn.id] = self._not_committed[txn.id] = txn
            opened.append(txn.id)
        return idl_txns.OpenTxnsResponse(opened)

    def commit_txn(self, request: Any) -> None:
        txn = self._txns.get(request.txnid)
        if txn is not None and txn.state is TxnState.COMMITTED and not txn.forgotten:
            # Version 3 keeps a committed transaction only by its changed objects.
            if self._version is MetastoreVersion.HMS4 or txn.components:
                return
            raise idl_txns.NoSuchTxnException(f"Transaction txnid:{txn.id} is already committed.")
        txn = self._open(request.txnid)
        for own in txn.changes():
            for other, txn_id, youngest in self._committed:
                if youngest < txn.id or other.place != own.place:
                    continue
                # Version 3 lets two deletes pass.
                if self._version is MetastoreVersion.HMS4 or own.meets(other):
                    self._end(txn, TxnState.ABORTED)
                    raise idl_txns.TxnAbortedException(_conflict(txn.id, txn_id, own, other))
        self._committed += [(change, txn.id, len(self._txns)) for change in txn.changes()]
        self._end(txn, TxnState.COMMITTED)

    def abort_txn(self, request: Any) -> None:
        txn = self._txns.get(request.txnid)
        if txn is not None and txn.state is TxnState.ABORTED:
            return
        self._end(self._open(request.txnid), TxnState.ABORTED)

    def heartbeat_txn_range(self, request: Any) -> Any:
        asked = range(request.min, request.max + 1)
        states = {txn_id: self._txns[txn_id].state for txn_id in asked if txn_id in self._txns}
        return idl_txns.HeartbeatTxnRangeResponse(
            aborted={txn_id for txn_id, state in states.items() if state is TxnState.ABORTED},
            nosuch={txn_id for txn_id in asked if states.get(txn_id) in (None, TxnState.COMMITTED)},
        )

    def get_open_txns(self) -> Any:
        pending = list(self._not_committed.values())
        # Version 4 leaves out those that only read, but they count for the smallest one.
        hidden = TxnType.READ_ONLY if self._version is MetastoreVersion.HMS4 else None
        listed = [txn for txn in pending if txn.kind is not hidden]
        bits = sum(1 << at for at, txn in enumerate(listed) if txn.state is TxnState.ABORTED)
        still_open = [txn.id for txn in pending if txn.state is TxnState.OPEN]
        return idl_txns.GetOpenTxnsResponse(
            txn_high_water_mark=len(self._txns),
            open_txns=[txn.id for txn in listed],
            min_open_txn=min(still_open, default=None),
            abortedBits=bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
        )

    def is_open(self, txn_id: int) -> bool:
        return self._txns[txn_id].state is TxnState.OPEN

    def get_open_txns_info(self) -> Any:
        is_3 = self._version is MetastoreVersion.HMS3
        infos = [
            idl_txns.TxnInfo(
                id=txn.id,
                state=int(txn.state),
                user=txn.user,
                hostname=txn.host,
                agentInfo=txn.agent_info if is_3 else "Unknown",
                startedTime=txn.started,
                lastHeartbeatTime=txn.started,
            )
            for txn in self._not_committed.values()
        ]
        return idl_txns.GetOpenTxnsInfoResponse(len(self._txns), infos)

    def add_write_ids_to_min_history(self, txn_id: int, write_ids: dict[str, int]) -> None:
        assert not write_ids, "This history is not kept here."

    def get_latest_txnid_in_conflict(self, txn_id: int) -> int:
        changes = self._txns[txn_id].changes() if txn_id else []
        return max(
            (
                other_id
                for other, other_id, youngest in self._committed
                if youngest >= txn_id and any(own.meets(other) for own in changes)
            ),
            default=0,
        )

    def add_dynamic_partitions(self, request: Any) -> None:
        txn = self._open(request.txnid)
        table = (request.dbname, request.tablename)
        operation = DataOperation(request.operationType)
        txn.components = {
            component: write_id
            for component, write_id in txn.components.items()
            if not component.is_dynamic
        }
        for partition in request.partitionnames:
            txn.components[Component(*table, partition, operation)] = request.writeid

    # Write ids

    def allocate_table_write_ids(self, request: Any) -> Any:
        name = f"{request.dbName}.{request.tableName}"
        given = []
        for txn_id in request.txnIds:
            txn = self._open(txn_id)
            if name not in txn.write_ids:
                self._last_write_id[name] = self._last_write_id.get(name, 0) + 1
                txn.write_ids[name] = self._last_write_id[name]
                self._writers.setdefault(name, {})[txn.write_ids[name]] = txn_id
            given.append(idl_txns.TxnToWriteId(txn_id, txn.write_ids[name]))
        return idl_txns.AllocateTableWriteIdsResponse(given)

    def get_valid_write_ids(self, request: Any) -> Any:
        txns = ValidTxnList.parse(request.validTxnList)
        lists = [self._write_ids(name, txns) for name in request.fullTableNames]
        return idl_txns.GetValidWriteIdsResponse(lists)

    def _write_ids(self, name: str, txns: ValidTxnList) -> Any:
        writers = self._writers.get(name, {}).items()
        seen = [write_id for write_id, txn_id in writers if txn_id <= txns.high_watermark]
        high_watermark = max(seen, default=self._last_write_id.get(name, 0))
        invalid = [
            (write_id, txns.is_aborted(txn_id))
            for write_id, txn_id in writers
            if write_id <= high_watermark and not txns.is_valid(txn_id)
        ]
        bits = sum(1 << at for at, (_, aborted) in enumerate(invalid) if aborted)
        return idl_txns.TableValidWriteIds(
            fullTableName=name,
            writeIdHighWaterMark=high_watermark,
            invalidWriteIds=[write_id for write_id, _ in invalid],
            minOpenWriteId=next((write_id for write_id, aborted in invalid if not aborted), None),
            abortedBits=bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
        )

    def take_over(self, name: str, states: Sequence[TxnState], writers: Mapping[int, int]) -> None:
        """Go on with all transactions, and a table's write ids by theirs, of another metastore."""
        for txn_id, state in enumerate(states, 1):
            txn = _Txn(txn_id, "u", "h", None, TxnType.DEFAULT, _now(), state)
            self._txns[txn_id] = txn
            if state is not TxnState.COMMITTED:
                self._not_committed[txn_id] = txn
        self._writers[name] = dict(writers)
        self._last_write_id[name] = max(writers)

    def last_write_id(self, database: str, table: str) -> int:
        return self._last_write_id.get(f"{database}.{table}", 0)

    def record_compaction(
        self, txn_id: int, place: tuple[str, str, str | None], highest_write_id: int
    ) -> None:
        """From now on an abort of the compaction is remembered until it is cleaned."""
        component = Component(*place, DataOperation.UNSET)
        self._txns[txn_id].components[component] = highest_write_id

    def forget_aborted(self, place: tuple[str, str, str | None], highest_write_id: int) -> None:
        """Forget the aborts that a cleaner has removed the files of."""
        for txn in self._txns.values():
            if txn.state is TxnState.ABORTED:
                txn.components = {
                    component: write_id
                    for component, write_id in txn.components.items()
                    if component.place != place or not 0 < write_id <= highest_write_id
                }

    def forget_empty(self) -> None:
        """An aborted transaction that nothing is known of any more is forgotten.

        Later, its id or its write id looks committed; committed it can't be.
        """
        for txn in list(self._not_committed.values()):
            if txn.state is TxnState.ABORTED and not txn.components:
                txn.state, txn.forgotten = TxnState.COMMITTED, True
                del self._not_committed[txn.id]

    def forget_table(self, database: str, table: str) -> None:
        self._last_write_id.pop(f"{database}.{table}", None)
        self._writers.pop(f"{database}.{table}", None)
        for txn in self._txns.values():
            txn.write_ids.pop(f"{database}.{table}", None)
            txn.components = {
                component: write_id
                for component, write_id in txn.components.items()
                if component.place[:2] != (database, table)
            }

    # Locks

    def lock(self, request: Any) -> Any:
        txn = self._open(request.txnid) if request.txnid else None
        if self._version is MetastoreVersion.HMS3:
            # The real one finds the type unset, and closes the connection after that.
            assert all(asked.type != LockType.EXCL_WRITE for asked in request.component)
        self._last_lock += 1
        lock = _Lock(
            self._last_lock,
            txn.id if txn else 0,
            request.component,
            request.user,
            request.hostname,
            request.agentInfo,
        )
        for asked in lock.components:
            if asked.partitionname and self._version is MetastoreVersion.HMS3:
                asked.partitionname = asked.partitionname.lower()
            operation = DataOperation(asked.operationType)
            if txn and asked.isTransactional and operation in (DataOperation.INSERT, *_CHANGES):
                place = (asked.dbname, asked.tablename, asked.partitionname)
                component = Component(*place, operation, bool(asked.isDynamicPartitionWrite))
                write_id = txn.write_ids.get(f"{asked.dbname}.{asked.tablename}", 0)
                txn.components[component] = write_id
        self._locks[lock.id] = lock
        return self._try(lock)

    def check_lock(self, request: Any) -> Any:
        lock = self._locks.get(request.lockid)
        if lock is None:
            if request.txnid:
                self._open(request.txnid)
            raise idl_txns.NoSuchLockException(f"No such lock lockid:{request.lockid}")
        return self._try(lock)

    def heartbeat(self, request: Any) -> None:
        if request.lockid not in self._locks:
            raise idl_txns.NoSuchLockException(f"No such lock: lockid:{request.lockid}")

    def unlock(self, request: Any) -> None:
        lock = self._locks.get(request.lockid)
        if lock is not None and lock.txn:
            message = "Unlocking locks associated with transaction not permitted."
            raise idl_txns.TxnOpenException(f"{message} lockid:{lock.id}")
        self._locks.pop(request.lockid, None)

    def show_locks(self, request: Any) -> Any:
        shown = [
            idl_txns.ShowLocksResponseElement(
                lockid=lock.id,
                dbname=component.dbname,
                tablename=component.tablename,
                partname=component.partitionname,
                state=int(lock.state),
                type=component.type,
                txnid=lock.txn,
                lastheartbeat=0,
                acquiredat=lock.acquired_at,
                user=lock.user,
                hostname=lock.host,
                agentInfo=lock.agent_info,
            )
            for lock in self._locks.values()
            for component in lock.components
            if request.dbname in (None, component.dbname)
            and request.tablename in (None, component.tablename)
        ]
        return idl_txns.ShowLocksResponse(shown)

    def _try(self, lock: _Lock) -> Any:
        if lock.state is LockState.WAITING and not any(
            self._blocks(other, lock)
            for other in self._locks.values()
            if other.id < lock.id and (other.txn != lock.txn or not lock.txn)
        ):
            lock.state, lock.acquired_at = LockState.ACQUIRED, _now()
        return idl_txns.LockResponse(lock.id, int(lock.state))

    def _blocks(self, first: _Lock, second: _Lock) -> bool:
        return any(
            _overlap(held, asked)
            and blocks(
                self._version is MetastoreVersion.HMS4, LockType(held.type), LockType(asked.type)
            )
            for held in first.components
            for asked in second.components
        )

    def _open(self, txn_id: int) -> _Txn:
        txn = self._txns.get(txn_id)
        if txn is None or txn.forgotten:
            raise idl_txns.NoSuchTxnException(f"No such transaction txnid:{txn_id}")
        if txn.state is TxnState.ABORTED:
            raise idl_txns.TxnAbortedException(f"Transaction txnid:{txn_id} already aborted")
        if txn.state is TxnState.COMMITTED:
            raise idl_txns.NoSuchTxnException(f"Transaction txnid:{txn_id} is already committed.")
        return txn

    def _end(self, txn: _Txn, state: TxnState) -> None:
        txn.state = state
        if state is TxnState.COMMITTED:
            del self._not_committed[txn.id]
        self._locks = {key: lock for key, lock in self._locks.items() if lock.txn != txn.id}


def _overlap(one: Any, other: Any) -> bool:
    if (one.dbname, one.tablename) != (other.dbname, other.tablename):
        return False
    partitions = (one.partitionname, other.partitionname)
    return None in partitions or partitions[0] == partitions[1]


def _conflict(txn_id: int, other_id: int, own: Component, other: Component) -> str:
    place = "/".join(filter(None, own.place))
    letters = "/".join(
        "u" if change.operation is DataOperation.UPDATE else "d" for change in (own, other)
    )
    return (
        f"Aborting [txnid:{txn_id},{txn_id}] due to a write conflict on {place}"
        f" committed by [txnid:{other_id},{other_id}] {letters}"
    )


def _now() -> int:
    return int(time.time() * 1000)
