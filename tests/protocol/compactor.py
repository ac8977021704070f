"""A compactor of the model: one compaction, from the request to the note on readers."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.folder import Reading, choose, rows_in
from tests.protocol.metastore import Version, abort, blockers, commit, lock, open_txn, snapshot
from tests.protocol.roles import DONE, FAILED, SKIPPED, Model, Step
from tests.protocol.state import (
    COMMITTED,
    FAILED_REQUEST,
    READY,
    WORKING,
    Directory,
    Event,
    Request,
    Row,
    Snapshot,
    State,
)


@dataclass(frozen=True)
class Compactor:
    """One compaction.

    Attributes:
        major: Whether it makes a base.
    """

    major: bool = True
    first: str = "begin"

    def steps(self, model: Model, state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps."""
        step = state.actors[number].next
        yield step, getattr(self, f"_{step}")(model, state, number)

    def _begin(self, model: Model, state: State, number: int) -> State:
        """Put a request into the queue and claim it; on version 3 a lock represents both."""
        if model.version is Version.HMS3:
            state = open_txn(state, number)
            return state.with_actor(number, txn=len(state.txns), next="lock")
        state = state.without_dead_requests()
        if any(r.state in (WORKING, READY) and state.is_open(r.txn) for r in state.queue):
            return state.ended(number, SKIPPED)
        state = open_txn(state, number)
        txn = len(state.txns)
        if any(r.state == READY and r.highest >= len(state.writers) for r in state.queue):
            return abort(state, txn).ended(number, SKIPPED)
        state = state._replace(queue=(*state.queue, Request(WORKING, txn)))
        return state.with_actor(number, txn=txn, next="lock")

    def _lock(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        if not state.is_open(txn):
            return self._fail(model, state, number)
        if model.version is Version.HMS3:
            if blockers(lock(state, txn, "compaction"), txn, "compaction"):
                return abort(state, txn).ended(number, SKIPPED)
            state = lock(state, txn, "compaction")
        return lock(state, txn, "read").with_actor(number, next="snapshot")

    def _snapshot(self, model: Model, state: State, number: int) -> State:
        """Determine the inputs: nothing from the first open write id on."""
        seen = snapshot(state, model.version, state.actors[number].txn)
        if model.keeps("nothing open is compacted"):
            high = min(seen.high, seen.least_open_id - 1)
            seen = seen._replace(high=high, open_ids=frozenset())
        if not model.keeps("nothing aborted is compacted"):
            seen = seen._replace(aborted_ids=frozenset())
        return state.with_actor(number, snapshot=seen, next="write")

    def _write(self, model: Model, state: State, number: int) -> State:
        """Read the inputs, and write the output into a hidden folder."""
        actor = state.actors[number]
        assert actor.snapshot is not None
        seen, txn = actor.snapshot, actor.txn
        hive3 = model.version is Version.HMS3
        reading = choose(state.directories, seen, compacts=hive3)
        made = self._made(reading, seen, txn, 0 if hive3 else txn)
        there = {each.name for each in state.directories}
        if not made or any(each._replace(visibility=0).name in there for each in made):
            return self._fail(model, state, number, SKIPPED)
        state = state._replace(staged=state.staged | {txn})
        return state.with_actor(number, plan=made, next="record")

    def _made(
        self, reading: Reading, seen: Snapshot, txn: int, visibility: int
    ) -> tuple[Directory, ...]:
        """The directories of its result; none if it is not worth it."""
        deltas = reading.deltas
        deletes = [each for each in deltas if each.kind == "delete_delta"]
        ids = {at for each in deltas for at in (each.first, each.last)}
        if not deltas:
            return ()
        major = self.major or bool(deletes and not visibility)
        if major and reading.base is None and len(deltas) == 1:
            return ()
        few = len(deltas) == 1 or (len(deltas) == 2 and len(deletes) == 1)
        if not self.major and (few or (len(ids) == 1 and deletes)):
            return ()
        first, last = min(ids), max(ids)
        if major:
            rows = frozenset(rows_in(reading.chosen, seen))
            return (Directory("base", last, last, visibility, True, rows, txn),)
        kept = frozenset(
            row
            for each in deltas
            for row in each.rows
            if seen.sees(row.id.write_id if isinstance(row, Row) else row.write_id)
        )
        events = frozenset(row for row in kept if isinstance(row, Event))
        inserts = Directory("delta", first, last, visibility, True, kept - events, txn)
        if not deletes:
            return (inserts,)
        return (inserts, inserts._replace(kind="delete_delta", rows=events))

    def _record(self, model: Model, state: State, number: int) -> State:
        """Report its high watermark to the queue, so that its abort is not forgotten too soon."""
        actor = state.actors[number]
        assert actor.snapshot is not None
        if model.version is Version.HMS4:
            own = next(r for r in state.queue if r.txn == actor.txn)
            if own.state != WORKING:
                return self._fail(model, state, number)
            state = self._with_request(state, own, own._replace(highest=actor.snapshot.high))
            state = state.with_txn(actor.txn, component="compaction", highest=actor.snapshot.high)
        if not state.is_open(actor.txn):
            return self._fail(model, state, number)
        return state.with_actor(number, next="publish")

    def _publish(self, model: Model, state: State, number: int) -> State:
        """Let a directory appear; on version 3 it is read from now on."""
        actor = state.actors[number]
        if actor.txn not in state.staged:
            return self._fail(model, state, number)
        final, *others = actor.plan
        assert isinstance(final, Directory)
        state = state._replace(directories=state.directories | {final})
        if others:
            if not state.is_open(actor.txn):
                return self._fail(model, state, number)
            return state.with_actor(number, plan=tuple(others))
        state = state._replace(staged=state.staged - {actor.txn})
        return state.with_actor(number, plan=(), next="commit")

    def _compacted(self, model: Model, state: State, number: int) -> State:
        """Call the request ready for cleaning, unless another one has done it meanwhile."""
        state = state.with_actor(number, next="remember")
        own = next(r for r in state.queue if r.txn == state.actors[number].txn)
        if own.state != WORKING:
            return state
        return self._with_request(state, own, own._replace(state=READY))

    def _commit(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        state = commit(state, txn)
        if model.version is Version.HMS3:
            return state.with_actor(number, next="remember")
        if state.txn(txn).state != COMMITTED:
            return self._fail(model, state, number)
        return state.with_actor(number, next="compacted")

    def _remember(self, model: Model, state: State, number: int) -> State:
        """Note the present readers of the replaced directories."""
        txn = state.actors[number].txn
        own = {each.name for each in state.directories if each.txn == txn and each.compacted}
        return state.with_readers(own).ended(number, DONE)

    def _with_request(self, state: State, own: Request, changed: Request) -> State:
        return state._replace(queue=tuple(changed if r == own else r for r in state.queue))

    def _fail(self, model: Model, state: State, number: int, how: str = FAILED) -> State:
        txn = state.actors[number].txn
        queue = tuple(
            r._replace(state="refused" if how == SKIPPED else FAILED_REQUEST)
            if r.txn == txn and r.state in (WORKING, READY)
            else r
            for r in state.queue
        )
        left = state.directories
        if model.version is Version.HMS4:
            left = frozenset(each for each in left if each.txn != txn)
        state = state._replace(queue=queue, directories=left, staged=state.staged - {txn})
        return abort(state, txn).ended(number, how)
