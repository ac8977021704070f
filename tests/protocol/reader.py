"""A reader of the model."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.folder import choose
from tests.protocol.metastore import abort, commit, lock, open_txn, snapshot
from tests.protocol.roles import DONE, FAILED, REFUSED, Model, Step
from tests.protocol.state import State


@dataclass(frozen=True)
class Reader:
    """A single reader of the table."""

    first: str = "open"

    def steps(self, model: Model, state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps."""
        step = state.actors[number].next
        yield step, getattr(self, f"_{step}")(model, state, number)

    def _open(self, model: Model, state: State, number: int) -> State:
        if not model.keeps("readers have a transaction"):
            return state.with_actor(number, next="snapshot")
        state = open_txn(state, number, reads=True)
        return state.with_actor(number, txn=len(state.txns), next="lock")

    def _lock(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        if not state.is_open(txn):
            return state.ended(number, FAILED)
        return lock(state, txn, "read").with_actor(number, next="snapshot")

    def _snapshot(self, model: Model, state: State, number: int) -> State:
        seen = snapshot(state, model.version, state.actors[number].txn)
        return state.with_actor(number, snapshot=seen, next="list")

    def _list(self, model: Model, state: State, number: int) -> State:
        """Choose the files; from now on they have to be there."""
        seen = state.actors[number].snapshot
        assert seen is not None
        reading = choose(state.directories, seen)
        if reading.cut_off:
            return abort(state, state.actors[number].txn).ended(number, REFUSED)
        return state.with_actor(number, plan=reading.chosen, next="read")

    def _read(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        alive = not txn or state.is_open(txn)
        state = commit(state, txn) if txn else state
        return state.ended(number, DONE if alive else FAILED)
