"""An attempt of a run that writes: an append, or a change of one row, under one of the three policies."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.folder import choose, visible
from tests.protocol.metastore import (
    Version,
    abort,
    allocate,
    blockers,
    commit,
    conflicting,
    grant,
    lock,
    open_txn,
    snapshot,
)
from tests.protocol.roles import DONE, FAILED, REFUSED, UNCERTAIN, Model, Step
from tests.protocol.state import (
    ABORTED,
    COMMITTED,
    FORGOTTEN,
    Actor,
    Directory,
    Event,
    Note,
    Row,
    RowId,
    Snapshot,
    State,
)
from tests.protocol.tries import end_other_tries


@dataclass(frozen=True)
class Writer:
    """One try of a run. Two of one run may be at work at the same time.

    Attributes:
        run: The run token.
        key: The row that is changed, or written.
        changes: Whether it changes a row; otherwise it appends one.
        policy: "hive", "strict" or "rows".
    """

    run: int
    key: int
    changes: bool = True
    policy: str = "hive"
    first: str = "look"

    @property
    def _beside_others(self) -> bool:
        return self.changes and self.policy == "rows"

    @property
    def _last(self) -> str:
        """Return the steps after the publication."""
        return "guard" if self.policy == "strict" else "commit"

    def steps(self, model: Model, state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps."""
        step = state.actors[number].next
        if step == "wait" and blockers(state, state.actors[number].txn, self._lock(model)):
            return
        if step == "guard" and model.keeps("commit section") and self._others_commit(state, number):
            return
        if step == "commit" and state.faults:
            yield "commit, and lose the answer", self._lose(model, state, number)
        yield step, getattr(self, f"_{step}")(model, state, number)

    # Before it begins

    def _look(self, model: Model, state: State, number: int) -> State:
        """End the open transactions of earlier attempts, and find out whether one has committed."""
        state = state.with_actor(number, next="work" if self._beside_others else "open")
        if self.policy == "strict":
            began = max(txn.position for txn in state.txns)
            state = state.with_actor(number, since=snapshot(state, model.version), began=began)
        return self._end_tries(model, state, number)

    def _end_tries(self, model: Model, state: State, number: int, before: int = 0) -> State:
        state, outcome = end_other_tries(model, state, number, self.run, before)
        return self._end(state, number, outcome) if outcome else state

    def _work(self, model: Model, state: State, number: int) -> State:
        """Read like a reader, and keep files out of sight (policy rows)."""
        state = open_txn(state, number, aside=True)
        keeper = len(state.txns)
        state = open_txn(state, number, reads=True, aside=True)
        reading = len(state.txns)
        state = lock(state, reading, "read")
        seen = snapshot(state, model.version, reading)
        return state.with_actor(number, keeper=keeper, txn=reading, read=seen, next="stage")

    def _open(self, model: Model, state: State, number: int) -> State:
        watch, beside = None, frozenset[int]()
        if self.changes and model.version is Version.HMS3:
            watch = snapshot(state, model.version)
            writers = {each.txn for each in state.locks if each.kind == "write"}
            beside = frozenset(each.txn for each in state.locks if each.kind == "read") - writers
        state = open_txn(state, number)
        return state.with_actor(
            number, txn=len(state.txns), watch=watch, beside=beside, next="allocate"
        )

    def _allocate(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        if not state.is_open(txn):
            return self._fail(state, number)
        following = "again" if model.keeps("look again after opening") else "lock"
        return allocate(state, txn).with_actor(number, next=following)

    def _again(self, model: Model, state: State, number: int) -> State:
        """Look at earlier attempts once more: one may have opened its transaction meanwhile."""
        state = state.with_actor(number, next="lock")
        return self._end_tries(model, state, number, before=state.actors[number].txn)

    # Lock and snapshot

    def _lock(self, model: Model, state: State | None = None, number: int = 0) -> object:
        kind = "write" if self.changes and model.keeps("changes lock each other out") else "read"
        if state is None:
            return kind
        actor = state.actors[number]
        if not state.is_open(actor.txn):
            return self._fail(state, number)
        early = None
        if not model.keeps("snapshot after the lock"):
            early = snapshot(state, model.version, actor.txn)
        declared = self.changes and model.keeps("changes are declared as such")
        state = lock(state, actor.txn, kind, "change" if declared else "append")
        held = state.locks[-1].held
        ahead = () if held else tuple(blockers(state, actor.txn, kind))
        state = state.with_actor(
            number,
            waited=not held,
            ahead=ahead,
            snapshot=early,
            next="snapshot" if held else "wait",
        )
        if self._committed_before(model, state, number):
            return self._begin_again(state, number)
        return state

    def _wait(self, model: Model, state: State, number: int) -> State:
        txn = state.actors[number].txn
        if self._overtaken(model, state, number):
            return self._begin_again(state, number)
        if not state.is_open(txn):
            return self._fail(state, number)
        return grant(state, txn, "write").with_actor(number, next="snapshot")

    def _snapshot(self, model: Model, state: State, number: int) -> State:
        actor = state.actors[number]
        seen = actor.snapshot or snapshot(state, model.version, actor.txn)
        own = state.txn(actor.txn).write_id
        newest = seen if self.changes else snapshot(state, model.version)
        above = any(map(newest.sees, range(own + 1, newest.high + 1)))
        if above or self._overtaken(model, state, number):
            return self._begin_again(state, number)
        # Tables of version 3 have no identity, so the write id is allocated again, which asks.
        if model.version is Version.HMS3 and not state.is_open(actor.txn):
            return self._fail(state, number)
        if self.policy == "strict" and self._is_behind(model, state, number):
            return self._fail(state, number, REFUSED)  # It is clear before the work.
        state = state.with_actor(number, snapshot=seen, next="stage")
        return self._check_rows(model, state, number) if self._beside_others else state

    def _committed_before(self, model: Model, state: State, number: int) -> bool:
        """Return whether others have written since it was about to open its transaction (version
        3)."""
        actor = state.actors[number]
        if actor.watch is None or not model.keeps("begin again when overtaken"):
            return False
        new = snapshot(state, model.version).committed_since(actor.watch)
        return any(state.writers[at - 1] not in actor.beside for at in new)

    def _overtaken(self, model: Model, state: State, number: int) -> bool:
        """Return whether others have changed its inputs since it opened its transaction."""
        actor = state.actors[number]
        if not self.changes or not model.keeps("begin again when overtaken"):
            return False
        if model.version is Version.HMS4:
            return conflicting(state, actor.txn)
        return any(state.txn(txn).state in (COMMITTED, FORGOTTEN) for txn in actor.ahead)

    def _begin_again(self, state: State, number: int) -> State:
        """Give the transaction up and open a younger one, unless it was overtaken without waiting."""
        actor = state.actors[number]
        state = abort(state, actor.txn)
        if not actor.waited:
            return self._end(state, number, FAILED)
        return state.with_actor(
            number, txn=0, snapshot=None, watch=None, ahead=(), waited=False, next="open"
        )

    # Work

    def _stage(self, model: Model, state: State, number: int) -> State:
        """Read the changed rows, write new files into a hidden folder."""
        actor = state.actors[number]
        if not state.is_open(actor.txn):
            return self._fail(state, number)
        keeper = actor.keeper or actor.txn
        if not self._beside_others:
            seen = actor.snapshot
            assert seen is not None
            if self.changes and choose(state.directories, seen).cut_off:
                return self._fail(state, number)
            made = self._made(state, actor, seen)
            state = state._replace(staged=state.staged | {keeper})
            return state.with_actor(number, plan=made, next="note")
        assert actor.read is not None
        if choose(state.directories, actor.read).cut_off:
            return self._fail(state, number)
        made = self._made(state, actor, actor.read)
        state = commit(state._replace(staged=state.staged | {keeper}), actor.txn)
        return state.with_actor(number, plan=made, txn=0, next="open")

    def _made(self, state: State, actor: Actor, seen: Snapshot) -> tuple[Directory, ...]:
        own = state.txn(actor.txn).write_id
        if not self.changes:
            return (_directory("delta", own, actor.txn, Row(RowId(own, self.key), 0)),)
        old = [row for row in visible(state.directories, seen) if row.id.key == self.key]
        return tuple(
            made
            for row in old
            for made in (
                _directory("delete_delta", own, actor.txn, Event(row.id, own)),
                _directory("delta", own, actor.txn, Row(RowId(own, self.key), row.value + 1)),
            )
        )

    def _check_rows(self, model: Model, state: State, number: int) -> State:
        """See whether the rows that it has changed are still there, under the lock (policy rows)."""
        actor = state.actors[number]
        own = state.txn(actor.txn).write_id
        assert actor.snapshot is not None
        now = {row.id for row in visible(state.directories, actor.snapshot)}
        changed = {e.id for each in actor.plan for e in each.rows if isinstance(e, Event)}
        if actor.keeper not in state.staged:
            return self._fail(state, number)
        if model.keeps("rows are looked for again") and not changed <= now:
            return self._fail(state, number, REFUSED)
        assert actor.read is not None
        moved = tuple(
            _directory(each.kind, own, actor.txn, *(_restamped(row, own) for row in each.rows))
            for each in actor.plan
        )
        if own != actor.read.high + 1:
            # Another writer has taken the expected write id: the rows are copied first.
            moved = moved[::-1]
            state = state._replace(staged=state.staged | {actor.txn})
        return state.with_actor(number, plan=moved, next="note")

    # Publish and commit

    def _note(self, model: Model, state: State, number: int) -> State:
        """Leave the note on the run, before anything can be seen."""
        actor = state.actors[number]
        asks = model.keeps("ask before each rename")
        if asks and not state.is_open(actor.txn):
            return self._fail(state, number)
        if model.keeps("a note before the commit"):
            state = state._replace(notes=state.notes | {Note(self.run, actor.txn, False)})
        if self._beside_others:
            if actor.keeper not in state.staged:
                return self._fail(state, number)
            state = state._replace(staged=state.staged | {actor.txn})
        return state.with_actor(number, next="publish" if actor.plan else self._last)

    def _publish(self, model: Model, state: State, number: int) -> State:
        """Let one directory appear, and ask whether the next one may."""
        actor = state.actors[number]
        if actor.txn not in state.staged:
            return self._fail(state, number)
        final, *others = actor.plan
        state = state._replace(directories=state.directories | {final})
        if others:
            if model.keeps("ask before each rename") and not state.is_open(actor.txn):
                return self._fail(state, number)
            return state.with_actor(number, plan=tuple(others))
        return state.with_actor(number, plan=(), next=self._last)

    def _guard(self, model: Model, state: State, number: int) -> State:
        """Exclude other commits, and compare with the matrix (policy strict)."""
        actor = state.actors[number]
        if model.keeps("commit section"):
            if not state.is_open(actor.txn):
                return self._fail(state, number)
            state = lock(state, actor.txn, "commits")
        if self._is_behind(model, state, number):
            return self._fail(state, number, REFUSED)
        return state.with_actor(number, next="commit")

    def _is_behind(self, model: Model, state: State, number: int) -> bool:
        """Return whether others have committed since it began that the matrix puts first."""
        since = state.actors[number].since
        assert since is not None
        new = snapshot(state, model.version).committed_since(since)
        # A write id may look committed that was aborted and forgotten: it has left nothing.
        new &= {
            row.id.write_id if isinstance(row, Row) else row.write_id
            for each in state.directories
            for row in each.rows
        }
        # In any cell: an append or a change may follow no other one.
        return bool(new) and model.keeps("compare before the commit")

    def _others_commit(self, state: State, number: int) -> bool:
        return any(
            each.kind == "commits" and each.txn != state.actors[number].txn for each in state.locks
        )

    def _commit(self, model: Model, state: State, number: int) -> State:
        actor = state.actors[number]
        state = commit(state, actor.txn, compares=model.keeps("the metastore compares"))
        if state.txn(actor.txn).state != COMMITTED:
            return self._fail(state, number)
        return self._committed(state, number)

    def _lose(self, model: Model, state: State, number: int) -> State:
        state = commit(
            state, state.actors[number].txn, compares=model.keeps("the metastore compares")
        )
        state = state._replace(faults=state.faults - 1)
        if not model.keeps("ask after a lost answer"):
            return self._fail(state, number)
        return state.with_actor(number, next="ask")

    def _ask(self, model: Model, state: State, number: int) -> State:
        """Find out the result of the commit whose answer was lost."""
        txn = state.actors[number].txn
        if state.txn(txn).state == ABORTED:
            return self._fail(state, number)
        if not any(each.txn == txn for each in state.directories):
            return self._end(state, number, UNCERTAIN)
        return self._committed(state, number)

    def _committed(self, state: State, number: int) -> State:
        txn = state.actors[number].txn
        return state._replace(staged=state.staged - {txn}).with_actor(number, next="mark")

    def _mark(self, model: Model, state: State, number: int) -> State:
        """Mark the note: from now on its outcome is known."""
        note = Note(self.run, state.actors[number].txn, False)
        if note in state.notes:
            notes = state.notes - {note} | {note._replace(marked=True)}
            state = state._replace(notes=notes)
        return self._end(state, number, DONE)

    # Ends

    def _fail(self, state: State, number: int, how: str = FAILED) -> State:
        """Remove its own files, and abort."""
        txn = state.actors[number].txn
        state = state._replace(
            directories=frozenset(each for each in state.directories if each.txn != txn),
            notes=frozenset(each for each in state.notes if each.txn != txn or each.marked),
        )
        return self._end(state, number, how)

    def _end(self, state: State, number: int, how: str) -> State:
        actor = state.actors[number]
        if how != DONE:
            state = abort(state, actor.txn) if how != UNCERTAIN else state
        if actor.keeper:
            # It writes nothing, so how it ends is all the same.
            state = commit(state, actor.keeper) if how == DONE else abort(state, actor.keeper)
        state = state._replace(staged=state.staged - {actor.txn, actor.keeper})
        actors = (*state.actors[:number], actor.ended(how), *state.actors[number + 1 :])
        return state._replace(actors=actors)


def _directory(kind: str, write_id: int, txn: int, *rows: Row | Event) -> Directory:
    return Directory(kind, write_id, write_id, 0, False, frozenset(rows), txn)  # type: ignore[arg-type]


def _restamped(row: Row | Event, write_id: int) -> Row | Event:
    if isinstance(row, Event):
        return row._replace(write_id=write_id)
    return row._replace(id=row.id._replace(write_id=write_id))
