"""Answers of the metastore about transactions and locks, as plain values."""

from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.rules.locks import LockType
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import split_transaction_host


class LockState(IntEnum):
    """Thrift's LockState."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class TxnState(IntEnum):
    """Thrift's TxnState."""

    COMMITTED = 1
    ABORTED = 2
    OPEN = 3


class TxnType(IntEnum):
    """Thrift's TxnType, limited to the types that this package opens; HMS 3 ignores the type."""

    DEFAULT = 0
    READ_ONLY = 2
    COMPACTION = 3
    REBALANCE_COMPACTION = 6


class TxnLiveness(StrEnum):
    """The result of a heartbeat; UNKNOWN is a committed transaction or one that never existed."""

    OPEN = "open"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LockAnswer:
    """The state of a lock request."""

    lock_id: int
    state: LockState

    @classmethod
    def from_thrift(cls, answer: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(_there(answer.lockid), LockState(answer.state))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock that is held or waited for, with its owner.

    A lock on several objects has one element for each object, all with the same lock id. The table
    is null for a lock on a whole database.
    """

    lock_id: int
    database: str
    table: TableRef | None
    partition: str | None
    state: LockState
    type: LockType
    txn_id: int | None
    user: str
    host: str
    agent_info: str | None
    acquired_at: datetime | None
    last_heartbeat: datetime | None

    @classmethod
    def from_thrift(cls, lock: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            lock_id=_there(lock.lockid),
            database=_there(lock.dbname),
            table=TableRef(lock.dbname, lock.tablename) if lock.tablename else None,
            partition=lock.partname,
            state=LockState(lock.state),
            type=LockType(lock.type),
            txn_id=lock.txnid or None,
            user=lock.user,
            host=lock.hostname,
            agent_info=lock.agentInfo,
            acquired_at=instant(lock.acquiredat),
            last_heartbeat=instant(lock.lastheartbeat),
        )

    @classmethod
    def all_from_thrift(cls, answer: Any) -> list[Self]:
        """Read all locks of an answer."""
        return [cls.from_thrift(lock) for lock in answer.locks or ()]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxns:
    """All transactions that are open or aborted, and the highest one given out.

    Bit i of `aborted_bits` (the lowest bit of the first byte is bit 0) indicates whether the entry
    i of `open_txns` is aborted.
    """

    high_watermark: int
    open_txns: tuple[int, ...]
    min_open: int | None
    aborted_bits: bytes

    @classmethod
    def from_thrift(cls, answer: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            high_watermark=_there(answer.txn_high_water_mark),
            open_txns=tuple(answer.open_txns),
            min_open=answer.min_open_txn,
            aborted_bits=_there(answer.abortedBits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnInfo:
    """An open or aborted transaction and its owner."""

    txn_id: int
    state: TxnState
    user: str
    host: str
    agent_info: str | None
    started_at: datetime | None
    last_heartbeat: datetime | None

    @property
    def machine(self) -> str:
        """The machine that opened it."""
        return split_transaction_host(self.host)[0]

    @property
    def token(self) -> str:
        """The stored part of its run token; "" for a transaction of another engine."""
        return split_transaction_host(self.host)[1]

    @classmethod
    def from_thrift(cls, txn: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            txn_id=_there(txn.id),
            state=TxnState(txn.state),
            user=_there(txn.user),
            host=_there(txn.hostname),
            agent_info=txn.agentInfo,
            started_at=instant(txn.startedTime),
            last_heartbeat=instant(txn.lastHeartbeatTime),
        )

    @classmethod
    def all_from_thrift(cls, answer: Any) -> list[Self]:
        """Read all transactions of an answer."""
        return [cls.from_thrift(txn) for txn in answer.open_txns]


def _there(value: Any) -> Any:
    """A field that the metastore always sends."""
    if value is None:
        raise ValueError("a field is missing that is always there")
    return value


def instant(milliseconds: int | None) -> datetime | None:
    """Convert the metastore's milliseconds into a time; no value or 0 means that it is unset."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
