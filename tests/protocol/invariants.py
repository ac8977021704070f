"""The guarantees for every state of a model, and the possible actions in its last ones."""

from collections.abc import Callable
from enum import StrEnum

from tests.protocol.cleaner import Cleaner
from tests.protocol.folder import choose, rows_in, visible
from tests.protocol.metastore import abort, snapshot
from tests.protocol.reader import Reader
from tests.protocol.roles import DONE, ENDED, FOUND, Model
from tests.protocol.state import (
    COMMITTED,
    READY,
    WORKING,
    Actor,
    Directory,
    Row,
    RowId,
    Snapshot,
    State,
)
from tests.protocol.writer import Writer


class Invariant(StrEnum):
    """The promises that the model is searched for a way to break."""

    NO_LOST_UPDATE = "no update is lost"
    ROWS_STAY = "all rows stay, with their row ids, each once"
    NOTHING_COMES_BACK = "nothing shows that was not committed"
    READERS_READ = "the files of a reader are there, and show its snapshot"
    ONCE = "a run is applied once"
    TRUE = "what is told is true"
    MATRIX = "strict: of two that overlap the first succeeds"
    NOTHING_STAYS = "a later cleaning leaves nothing that no one needs"


def broken_in(model: Model, state: State) -> Invariant | None:
    """The first promise that a state breaks, or None."""
    return next(filter(None, (check(model, state) for check in _CHECKS)), None)


def ledger(model: Model, state: State, seen: Snapshot | None = None) -> list[Row]:
    """Return the expected rows, by committed changes only.

    Args:
        model: Has the intended changes of the transactions.
        state: The state.
        seen: Count only the transactions of this snapshot.
    """
    rows = {n: Row(RowId(n, n), 0) for n in (1, 2)}
    for write_id, txn in enumerate(state.writers, 1):
        owner = state.txn(txn).owner
        if owner < 0 or state.txn(txn).state != COMMITTED:
            continue
        if seen is not None and not seen.sees_txn(txn):
            continue
        writer = model.roles[owner]
        assert isinstance(writer, Writer)
        before = rows.get(writer.key)
        rows[writer.key] = Row(RowId(write_id, writer.key), before.value + 1 if before else 0)
    return sorted(rows.values())


def _rows(model: Model, state: State) -> Invariant | None:
    """Compare the view of a new reader with the committed changes."""
    there = visible(state.directories, snapshot(state, model.version))
    return _difference(state, there, ledger(model, state))


def _difference(state: State, there: list[Row], wanted: list[Row]) -> Invariant | None:
    if there == wanted:
        return None
    if any(_was_not_committed(state, row) for row in there):
        return Invariant.NOTHING_COMES_BACK
    values: dict[int, int] = {}
    for row in there:
        values[row.id.key] = max(row.value, values.get(row.id.key, 0))
    if any(values.get(row.id.key, row.value) < row.value for row in wanted):
        return Invariant.NO_LOST_UPDATE
    return Invariant.ROWS_STAY


def _was_not_committed(state: State, row: Row) -> bool:
    return state.txn(state.writers[row.id.write_id - 1]).state != COMMITTED


def _readers(model: Model, state: State) -> Invariant | None:
    names = {each.name for each in state.directories}
    for role, actor in zip(model.roles, state.actors, strict=True):
        if not isinstance(role, Reader) or actor.next != "read":
            continue
        if actor.txn and not state.is_open(actor.txn) and model.keeps("a read is verified"):
            continue  # It was timed out, and detects that before it returns rows.
        chosen = tuple(each for each in actor.plan if isinstance(each, Directory))
        assert actor.snapshot is not None
        missing = {each.name for each in chosen} - names
        if missing or rows_in(chosen, actor.snapshot) != ledger(model, state, actor.snapshot):
            return Invariant.READERS_READ
    return None


def _runs(model: Model, state: State) -> Invariant | None:
    applied: dict[int, int] = {}
    for txn in state.txns:
        if txn.owner >= 0 and txn.state == COMMITTED and txn.write_id:
            writer = model.roles[txn.owner]
            assert isinstance(writer, Writer)
            applied[writer.run] = applied.get(writer.run, 0) + 1
    if any(times > 1 for times in applied.values()):
        return Invariant.ONCE
    for role, actor in zip(model.roles, state.actors, strict=True):
        told = actor.next in (DONE, FOUND) and isinstance(role, Writer)
        if told and not applied.get(role.run):
            return Invariant.TRUE
    return None


def _matrix(model: Model, state: State) -> Invariant | None:
    """All that overlaps with an append or a change, and writes, comes before it or not at all."""
    for role, actor in zip(model.roles, state.actors, strict=True):
        if not isinstance(role, Writer) or role.policy != "strict" or not actor.txn:
            continue
        own = state.txn(actor.txn)
        if own.state == COMMITTED and any(
            actor.began < other.position < own.position and other.write_id and other.owner >= 0
            for other in state.txns
            if other.owner < 0 or getattr(model.roles[other.owner], "policy", "") == "strict"
        ):
            return Invariant.MATRIX
    return None


def _leftovers(model: Model, state: State) -> Invariant | None:
    """When all transactions have ended, one or two cleanings must leave nothing."""
    if any(actor.next not in ENDED for actor in state.actors):
        return None
    for number in range(1, len(state.txns) + 1):
        state = abort(state, number)
    for _ in range(2):
        model, state = _cleaned(model, state)
    seen = snapshot(state, model.version)
    read = set(visible(state.directories, seen))
    # One kind of leftover is found by the queue, one by the folder, one by the notes.
    waiting = any(request.state in (WORKING, READY) for request in state.queue)
    unread = {each for each in state.directories if not _is_read(state, each, seen)}
    half = any(not note.marked for note in state.notes)
    clean = read == set(ledger(model, state)) and not (
        state.hidden or state.staged or waiting or unread or half
    )
    return None if clean else Invariant.NOTHING_STAYS


def _is_read(state: State, directory: Directory, seen: Snapshot) -> bool:
    return directory in choose(state.directories, seen).chosen


def _cleaned(model: Model, state: State) -> tuple[Model, State]:
    """Return the state after one more cleaning, by a new cleaner."""
    number = len(model.roles)
    model = Model((*model.roles, Cleaner()), model.version, 0, model.broken)
    state = state._replace(actors=(*state.actors, Actor("begin")))
    while state.actors[number].next not in ENDED:
        ((_, state),) = model.roles[number].steps(model, state, number)
    return model, state


_CHECKS: tuple[Callable[[Model, State], Invariant | None], ...] = (
    _runs,
    _rows,
    _readers,
    _matrix,
    _leftovers,
)
