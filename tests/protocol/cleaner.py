"""A cleaner of the model: the removed directories, and the time when the metastore may forget.

It confirms its lock before each directory that it hides, before it deletes what it has hidden, and
before the metastore forgets. Each confirmation is a step of its own, or ends the step before the act:
others act between both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.folder import choose
from tests.protocol.metastore import (
    Version,
    commit,
    forget_aborts,
    lock,
    open_txn,
    snapshot,
)
from tests.protocol.roles import DONE, FAILED, FOUND, Model, Step
from tests.protocol.state import OPEN, READY, WORKING, Directory, Note, Snapshot, State


@dataclass(frozen=True)
class Cleaner:
    """One cleaning."""

    first: str = "begin"

    def steps(self, model: Model, state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps."""
        step = state.actors[number].next
        yield step, getattr(self, f"_{step.replace(' ', '_')}")(model, state, number)

    def _begin(self, model: Model, state: State, number: int) -> State:
        """Open a transaction, read the queue, and take the snapshot of a new reader."""
        state = open_txn(state, number, reads=True)
        txn = len(state.txns)
        state = lock(state, txn, "read").without_dead_requests()
        ready = tuple(at for at, r in enumerate(state.queue) if r.state == READY)
        seen = snapshot(state, model.version)
        if not model.keeps("a compaction counts when it is committed"):
            mine = {r.txn for r in state.queue if r.state in (WORKING, READY)}
            seen = seen._replace(unfinished=seen.unfinished - mine)
        return state.with_actor(number, txn=txn, snapshot=seen, requests=ready, next="sweep")

    def _sweep(self, model: Model, state: State, number: int) -> State:
        """Mark the notes of runs that were committed, choose those of runs that were not."""
        seen = state.actors[number].snapshot
        assert seen is not None
        notes, gone = set(), set()
        for note in state.notes:
            judged = _judge(state, note, seen, model.keeps("notes younger than the look stay"))
            notes.add(note._replace(marked=judged == FOUND))
            if judged == FAILED and model.keeps("notes go before the metastore forgets"):
                gone.add(note)
        state = state._replace(notes=frozenset(notes))
        state = state.with_actor(number, next="list", notes=frozenset(gone))
        if not model.keeps("list before asking for readers"):
            others = frozenset(n for n, t in enumerate(state.txns, 1) if t.state == OPEN)
            state = state.with_actor(number, beside=others - {state.actors[number].txn})
        return state

    def _list(self, model: Model, state: State, number: int) -> State:
        """List the folder; only then ask who is there."""
        listed = tuple(sorted(state.directories, key=lambda each: each.name))
        # What an earlier cleaner of this table has hidden is deleted after the same confirmation.
        if model.keeps("hidden directories of the dead go"):
            state = state.with_actor(number, hidden=state.hidden)
        names = frozenset(each.name for each in listed) if state.actors[number].requests else None
        state = state.with_actor(number, plan=listed, listed=names, next="decide")
        if not model.keeps("list before asking for readers"):
            return state
        seen = state.actors[number].snapshot
        assert seen is not None
        # If all listed directories are read, no reader needs to be considered.
        clean = set(choose(state.directories, seen).chosen) == state.directories
        clean = clean and not state.hidden
        return self._decide(model, state, number) if clean else state

    def _decide(self, model: Model, state: State, number: int) -> State:
        """Decide on removals, by the present readers."""
        actor = state.actors[number]
        seen = actor.snapshot
        assert seen is not None
        listed = frozenset(each for each in actor.plan if isinstance(each, Directory))
        reading = choose(listed, seen)
        there = {n for n, t in enumerate(state.txns, 1) if t.state == OPEN} - {actor.txn}
        if not model.keeps("list before asking for readers"):
            there = set(actor.beside)
        if not model.keeps("readers are waited for"):
            there = set()
        locked = {each.txn for each in state.locks} & there
        gone: list[Directory | int] = []
        stay: list[Directory] = []
        unmarked = set()
        if not reading.cut_off:
            for each in sorted(reading.obsolete, key=lambda each: each.name):
                covers = [c for c in reading.chosen if _covers(c, each)]
                noted = [c for c in covers if c.readers is not None]
                cover = (noted or covers or [None])[0]
                limit = None if cover is None else cover.readers
                readers = {n for n in there if limit is None or n <= limit}
                (stay if readers or cover is None else gone).append(each)
                if readers and cover is not None and limit is None:
                    unmarked.add(cover.name)
            for each in sorted(reading.aborted, key=lambda each: each.name):
                waits = each.visibility in seen.aborted and locked
                (stay if waits else gone).append(each)
            if not model.keeps("what is not seen stays"):
                gone += listed - {*reading.chosen, *reading.obsolete, *reading.aborted}
        if model.keeps("staging of the dead goes"):
            gone += sorted(n for n in state.staged if seen.is_over(n))
        requests = tuple(
            at
            for at in actor.requests
            if seen.sees_txn(state.queue[at].txn)
            and not reading.cut_off
            and not any(each.first <= state.queue[at].highest for each in stay)
        )
        if unmarked and _has_lost_lock(state, number):
            return state.ended(number, FAILED)
        state = state.with_readers(unmarked)
        state = state.with_actor(number, plan=tuple(gone), requests=requests, beside=frozenset())
        if not model.keeps("mark as cleaned at last") and requests:
            return self._look_again(model, state, number)
        return self._hide_next(model, state, number)

    def _hide_next(self, model: Model, state: State, number: int) -> State:
        """Confirm the lock before the next directory is hidden, if there is one."""
        actor = state.actors[number]
        if any(isinstance(each, Directory) and each not in actor.hidden for each in actor.plan):
            if _has_lost_lock(state, number):
                return state.ended(number, FAILED)
            return state.with_actor(number, next="hide")
        if actor.plan or actor.hidden or actor.notes or actor.requests:
            return state.with_actor(number, next="confirm")
        return commit(state, actor.txn).ended(number, DONE)

    def _hide(self, model: Model, state: State, number: int) -> State:
        """Give a directory a hidden name, if it is still there."""
        actor = state.actors[number]
        first = next(e for e in actor.plan if isinstance(e, Directory) and e not in actor.hidden)
        found = {each for each in state.directories if each.name == first.name}
        state = state._replace(
            directories=state.directories - found, hidden=state.hidden | found
        ).with_actor(number, hidden=actor.hidden | {first})
        return self._hide_next(model, state, number)

    def _confirm(self, model: Model, state: State, number: int) -> State:
        """Confirm that the hidden directories may be deleted."""
        actor = state.actors[number]
        if not _has_lost_lock(state, number):
            return self._delete_next(model, state, number)
        # Another cleaner may have let the metastore forget the aborts meanwhile. Version 3 forgets
        # none, and its tables have no numbers.
        stays = model.version is Version.HMS4 and model.keeps(
            "without a lock the hidden stays hidden"
        )
        if stays or not actor.hidden:
            return state.ended(number, FAILED)
        return state.with_actor(number, next="put back")

    def _put_back(self, model: Model, state: State, number: int) -> State:
        mine = state.hidden & _all(state, state.actors[number].hidden)
        state = state._replace(directories=state.directories | mine, hidden=state.hidden - mine)
        return state.ended(number, FAILED)

    def _delete_next(self, model: Model, state: State, number: int) -> State:
        """Go on with the notes, then all hidden directories, then the staging folders."""
        actor = state.actors[number]
        if actor.notes:
            return state.with_actor(number, next="notes")
        if actor.hidden or actor.plan:
            return state.with_actor(number, next="remove")
        if actor.requests:
            return self._look_again(model, state, number)
        return commit(state, actor.txn).ended(number, DONE)

    def _notes(self, model: Model, state: State, number: int) -> State:
        """Remove the notes of runs that were not committed."""
        notes = state.notes - state.actors[number].notes
        state = state._replace(notes=notes).with_actor(number, notes=frozenset())
        return self._delete_next(model, state, number)

    def _remove(self, model: Model, state: State, number: int) -> State:
        """Delete all hidden directories, or a staging folder."""
        actor = state.actors[number]
        if actor.hidden:
            gone = _all(state, actor.hidden)
            rest = tuple(each for each in actor.plan if not isinstance(each, Directory))
            state = state._replace(hidden=state.hidden - gone)
            state = state.with_actor(number, hidden=frozenset(), plan=rest)
        else:
            first, *others = actor.plan
            state = state._replace(staged=state.staged - {first})
            state = state.with_actor(number, plan=tuple(others))
        return self._delete_next(model, state, number)

    def _look_again(self, model: Model, state: State, number: int) -> State:
        """List the folder once more, before a request is marked as cleaned."""
        actor = state.actors[number]
        at, *others = actor.requests
        late = any(
            each.name not in (actor.listed or ())
            and not each.visibility
            and each.first <= state.queue[at].highest
            for each in state.directories
        )
        if late and model.keeps("look again before marking as cleaned"):
            state = state.with_actor(number, requests=tuple(others))
            return self._after_forgetting(model, state, number)
        return state.with_actor(number, next="look")

    def _look(self, model: Model, state: State, number: int) -> State:
        """Confirm the lock once more."""
        if _has_lost_lock(state, number):
            return state.ended(number, FAILED)
        return state.with_actor(number, next="forget")

    def _forget(self, model: Model, state: State, number: int) -> State:
        """Mark a request as cleaned: the metastore forgets aborts up to its write id."""
        at, *others = state.actors[number].requests
        done = state.queue[at]._replace(state="succeeded")
        state = state._replace(queue=(*state.queue[:at], done, *state.queue[at + 1 :]))
        state = forget_aborts(state, done.highest).with_actor(number, requests=tuple(others))
        return self._after_forgetting(model, state, number)

    def _after_forgetting(self, model: Model, state: State, number: int) -> State:
        if state.actors[number].requests:
            return self._look_again(model, state, number)
        if not model.keeps("mark as cleaned at last"):
            return self._hide_next(model, state, number)
        return commit(state, state.actors[number].txn).ended(number, DONE)


def _all(state: State, named: frozenset[Directory]) -> frozenset[Directory]:
    """The hidden directories with the names of others, whatever note they have got since."""
    names = {each.name for each in named}
    return frozenset(each for each in state.hidden if each.name in names)


def _has_lost_lock(state: State, number: int) -> bool:
    """Return whether a cleaner has been aborted, which it checks directly before each change."""
    return state.txn(state.actors[number].txn).state != OPEN


def _judge(state: State, note: Note, seen: Snapshot, keeps_young: bool) -> str:
    """Return the outcome that a note proves to a cleaner, by its snapshot."""
    if note.marked:
        return FOUND
    if note.txn in seen.unfinished or (note.txn > seen.txns and keeps_young):
        return OPEN
    own = any(each.txn == note.txn and not each.compacted for each in state.directories)
    if note.txn in seen.aborted or note.txn > seen.txns:
        return FAILED
    return FOUND if own else "unproven"


def _covers(cover: Directory, old: Directory) -> bool:
    """Return whether a visible directory can hold the content of an obsolete one."""
    if not cover.compacted:
        return False
    if cover.kind == "base":
        return old.last <= cover.last
    if old.kind == "base" or not cover.first <= old.first <= old.last <= cover.last:
        return False
    return cover.kind == old.kind or cover.visibility > 0
