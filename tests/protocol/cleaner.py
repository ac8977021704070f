"""A cleaner of the model: the removed directories, and the time when the metastore may forget."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.folder import choose
from tests.protocol.metastore import commit, forget_aborts, lock, open_txn, snapshot
from tests.protocol.roles import DONE, FAILED, FOUND, Model, Step
from tests.protocol.state import OPEN, READY, WORKING, Directory, Note, Snapshot, State


@dataclass(frozen=True)
class Cleaner:
    """One cleaning."""

    first: str = "begin"

    def steps(self, model: Model, state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps."""
        step = state.actors[number].next
        yield step, getattr(self, f"_{step}")(model, state, number)

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
        """Mark the notes of runs that were committed, remove those of runs that were not."""
        seen = state.actors[number].snapshot
        assert seen is not None
        notes = set()
        for note in state.notes:
            judged = _judge(state, note, seen, model.keeps("notes younger than the look stay"))
            if judged != FAILED or not model.keeps("notes go before the metastore forgets"):
                notes.add(note._replace(marked=judged == FOUND))
        if notes != state.notes and _has_lost_lock(state, number):
            return state.ended(number, FAILED)
        state = state._replace(notes=frozenset(notes)).with_actor(number, next="list")
        if not model.keeps("list before asking for readers"):
            others = frozenset(n for n, t in enumerate(state.txns, 1) if t.state == OPEN)
            state = state.with_actor(number, beside=others - {state.actors[number].txn})
        return state

    def _list(self, model: Model, state: State, number: int) -> State:
        """List the folder; only then ask who is there."""
        listed = tuple(sorted(state.directories, key=lambda each: each.name))
        names = frozenset(each.name for each in listed) if state.actors[number].requests else None
        state = state.with_actor(number, plan=listed, listed=names, next="decide")
        if not model.keeps("list before asking for readers"):
            return state
        seen = state.actors[number].snapshot
        assert seen is not None
        # If all listed directories are read, no reader needs to be considered.
        clean = set(choose(state.directories, seen).chosen) == state.directories
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
        return self._go_on(model, state, number)

    def _go_on(self, model: Model, state: State, number: int) -> State:
        actor = state.actors[number]
        order = (
            ("remove", "forget") if model.keeps("mark as cleaned at last") else ("forget", "remove")
        )
        left = {"remove": actor.plan, "forget": actor.requests}
        for step in order:
            if left[step]:
                return state.with_actor(number, next=step)
        return commit(state, actor.txn).ended(number, DONE)

    def _remove(self, model: Model, state: State, number: int) -> State:
        """Remove one directory, or a staging folder."""
        if _has_lost_lock(state, number):
            return state.ended(number, FAILED)
        first, *others = state.actors[number].plan
        if isinstance(first, Directory):
            left = frozenset(each for each in state.directories if each.name != first.name)
            state = state._replace(directories=left)
        else:
            state = state._replace(staged=state.staged - {first})
        return self._go_on(model, state.with_actor(number, plan=tuple(others)), number)

    def _forget(self, model: Model, state: State, number: int) -> State:
        """Mark a request as cleaned: the metastore forgets aborts up to its write id."""
        actor = state.actors[number]
        at, *others = actor.requests
        done = state.queue[at]._replace(state="succeeded")
        late = any(
            each.name not in (actor.listed or ())
            and not each.visibility
            and each.first <= done.highest
            for each in state.directories
        )
        if not late or not model.keeps("look again before marking as cleaned"):
            if _has_lost_lock(state, number):
                return state.ended(number, FAILED)
            state = state._replace(queue=(*state.queue[:at], done, *state.queue[at + 1 :]))
            state = forget_aborts(state, done.highest)
        return self._go_on(model, state.with_actor(number, requests=tuple(others)), number)


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
