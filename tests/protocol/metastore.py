"""The metastore of the model: each function is one call, and returns the new state."""

from enum import IntEnum

from tests.protocol.state import (
    ABORTED,
    COMMITTED,
    FORGOTTEN,
    NOBODY,
    OPEN,
    Lock,
    Snapshot,
    State,
    Txn,
)


class Version(IntEnum):
    """The generations of the metastore."""

    HMS3 = 3
    HMS4 = 4


def open_txn(state: State, owner: int, *, reads: bool = False, aside: bool = False) -> State:
    """Open a transaction; it gets the next number."""
    return state._replace(txns=(*state.txns, Txn(owner, reads=reads, aside=aside)))


def allocate(state: State, txn: int) -> State:
    """Give a transaction the next write id."""
    state = state.with_txn(txn, write_id=len(state.writers) + 1)
    return state._replace(writers=(*state.writers, txn))


def lock(state: State, txn: int, kind: str, component: str = "") -> State:
    """Request a lock; it is granted at once without blockers."""
    if component:
        written = state.txn(txn).write_id
        state = state.with_txn(txn, component=component, highest=written)
    asked = Lock(txn, kind, not blockers(state, txn, kind))
    return state._replace(locks=(*state.locks, asked))


def grant(state: State, txn: int, kind: str) -> State:
    """Grant a lock that was waited for."""
    locks = (
        each._replace(held=True) if (each.txn, each.kind) == (txn, kind) else each
        for each in state.locks
    )
    return state._replace(locks=tuple(locks))


def blockers(state: State, txn: int, kind: str) -> list[int]:
    """Return the transactions that a lock waits for: those with earlier incompatible requests."""
    if kind == "read":
        return []
    ahead = []
    for other in state.locks:
        if other.txn == txn:
            break
        if other.kind == kind:
            ahead.append(other.txn)
    return ahead


def commit(state: State, txn: int, *, compares: bool = True) -> State:
    """Commit a transaction, or abort it because of the change of another one.

    Args:
        state: Everything.
        txn: The transaction; nothing happens unless it is open.
        compares: Whether the metastore compares the write sets.
    """
    own = state.txn(txn)
    if own.state != OPEN:
        return state
    if compares and conflicting(state, txn):
        return abort(state, txn)
    changed = len(state.txns) if own.component == "change" else 0
    position = 1 + max(each.position for each in state.txns)
    state = state.with_txn(txn, state=COMMITTED, youngest=changed, position=position)
    return _without_locks(state, txn)


def conflicting(state: State, txn: int) -> bool:
    """Return whether another one has committed a change since a transaction, itself a change, was
    opened."""
    if state.txn(txn).component != "change":
        return False
    return any(other.youngest >= txn for number, other in enumerate(state.txns, 1) if number != txn)


def abort(state: State, txn: int) -> State:
    """Abort a transaction that is open."""
    if txn == 0 or not state.is_open(txn):
        return state
    return _without_locks(state.with_txn(txn, state=ABORTED), txn)


def snapshot(state: State, version: Version, txn: int = 0) -> Snapshot:
    """Return the snapshot of a transaction, without younger ones; 0 sees all."""
    pending = {
        number: each.state
        for number, each in enumerate(state.txns, 1)
        if each.state in (OPEN, ABORTED) and not (each.reads and version is Version.HMS4)
    }
    youngest = txn or len(state.txns)
    unfinished = frozenset(n for n, is_ in pending.items() if is_ == OPEN and n <= youngest) - {txn}
    aborted = frozenset(n for n, is_ in pending.items() if is_ == ABORTED and n <= youngest) - {txn}
    in_sight = {at: by for at, by in enumerate(state.writers, 1) if by <= youngest}
    high = max(in_sight, default=len(state.writers))
    below = {at: by for at, by in enumerate(state.writers, 1) if at <= high}
    return Snapshot(
        youngest,
        unfinished,
        aborted,
        high,
        frozenset(at for at, by in below.items() if by in unfinished or by > youngest),
        frozenset(at for at, by in below.items() if by in aborted),
        min((n for n, each in enumerate(state.txns, 1) if each.state == OPEN), default=NOBODY),
    )


def forget_aborts(state: State, highest: int) -> State:
    """Mark a request as cleaned: the metastore forgets its aborted writes."""
    for number, each in enumerate(state.txns, 1):
        if each.state == ABORTED and each.component and 0 < each.highest <= highest:
            state = state.with_txn(number, component="", highest=0)
    return state


def keep_house(state: State) -> State:
    """An aborted transaction that the metastore knows nothing else of is forgotten."""
    for number, each in enumerate(state.txns, 1):
        if each.state == ABORTED and not each.component:
            state = state.with_txn(number, state=FORGOTTEN)
    return state


def _without_locks(state: State, txn: int) -> State:
    return state._replace(locks=tuple(each for each in state.locks if each.txn != txn))
