"""Tries of a run that writes two tables, with a note in each table that is judged by that table alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

OPEN, COMMITTED, ABORTED, FORGOTTEN = "open", "committed", "aborted", "forgotten"
_FOUND, _FAILED, _UNPROVEN = "found", "failed", "unproven"
_ENDED = ("done", "found", "failed", "unproven", "dead")


class Note(NamedTuple):
    """A note on the run, in the folder of a table."""

    txn: int
    creation: int
    write_id: int
    marked: bool = False


class Table(NamedTuple):
    """A table and its folder.

    Attributes:
        creation: Its creation.
        write_ids: The number of its write ids.
        directories: The write ids of its deltas, and their transactions; 0 is another run.
        notes: The notes in the folder.
        history: The transactions of the run with rows in it, in any directories.
    """

    creation: int
    write_ids: int = 0
    directories: frozenset[tuple[int, int]] = frozenset()
    notes: frozenset[Note] = frozenset()
    history: frozenset[int] = frozenset()


class Try(NamedTuple):
    """An attempt.

    Attributes:
        next: Its next step.
        order: The order of its statements.
        txn: Its transaction.
        left: The tables that still need the current step.
        opened: The creations of both tables when it had its lock.
        wrote: The write ids that it was given.
    """

    next: str = "look"
    order: tuple[int, ...] = (0, 1)
    txn: int = 0
    left: tuple[int, ...] = ()
    opened: tuple[int, ...] = ()
    wrote: tuple[int, ...] = ()


class State(NamedTuple):
    """Everything there is."""

    txns: tuple[str, ...]
    tables: tuple[Table, ...]
    tries: tuple[Try, ...]
    faults: int
    recreated: int
    lied: bool = False


@dataclass(frozen=True)
class Runs(SmallModel):
    """Two tries of one run, with their statements in another order.

    Attributes:
        faults: The number of attempts that die.
        recreated: The number of times that a table is dropped and created again in its old folder.
    """

    faults: int = 1
    recreated: int = 1

    @property
    def start(self) -> State:
        """Two empty tables."""
        tries = (Try(), Try(order=(1, 0)))
        return State((), (Table(1), Table(1)), tries, self.faults, self.recreated)

    def steps(self, state: State) -> Iterator[Step]:
        """Return the steps of attempts, in sequence or overlapping, and the changes of the tables."""
        for number, own in enumerate(state.tries):
            if own.next in _ENDED:
                continue
            yield f"{number}: {own.next}", getattr(self, f"_{own.next}")(state, number)
            if own.txn and state.faults:
                dead = self._with(state, number, next="dead", left=())
                yield f"{number}: die", dead._replace(faults=state.faults - 1)
        for at, txn in enumerate(state.txns):
            dead = any(own.txn == at + 1 and own.next in _ENDED for own in state.tries)
            if txn == OPEN and dead:
                yield f"metastore: time out {at + 1}", self._with_txn(state, at + 1, ABORTED)
            if txn == ABORTED and not any(_has_left(table, at + 1) for table in state.tables):
                yield f"metastore: forget {at + 1}", self._with_txn(state, at + 1, FORGOTTEN)
        if OPEN in state.txns:
            return  # Its locks keep others out.
        for at, table in enumerate(state.tables):
            if (cleaned := self._cleaned(state, table)) != table:
                yield f"{at}: compact and clean", self._with_table(state, at, cleaned)
            if state.recreated:
                # If data is kept, the notes remain, and so do directories; write ids begin again.
                new = table._replace(creation=table.creation + 1, write_ids=0, history=frozenset())
                others = new._replace(write_ids=1, directories=frozenset({(1, 0)}))
                less = state._replace(recreated=state.recreated - 1)
                yield f"{at}: drop, create, write", self._with_table(less, at, others)

    def broken_in(self, state: State) -> Promise | None:
        """Count the applications of the run in each creation of a table."""
        if any(len(table.history) > 1 for table in state.tables):
            return Promise.ONCE
        return Promise.TRUE if state.lied else None

    # Tries

    def _look(self, state: State, number: int) -> State:
        """End earlier tries and look for notes; then open a transaction."""
        state, how = self._end_others(state, number, len(state.txns) + 1)
        if how:
            return self._told(state, number, how)
        state = state._replace(txns=(*state.txns, OPEN))
        return self._with(state, number, next="again", txn=len(state.txns))

    def _again(self, state: State, number: int) -> State:
        """Look once more, get write ids and the locks, and compare the tables from now on."""
        own = state.tries[number]
        state, how = self._end_others(state, number, own.txn)
        if how:
            return self._told(self._aborted(state, own.txn), number, how)
        if state.txns[own.txn - 1] != OPEN:
            return self._with(state, number, next="failed")
        wrote = []
        for at, table in enumerate(state.tables):
            wrote.append(table.write_ids + 1)
            state = self._with_table(state, at, table._replace(write_ids=table.write_ids + 1))
        opened = tuple(table.creation for table in state.tables)
        following = {"opened": opened, "wrote": tuple(wrote), "left": self._noted(own)}
        return self._with(state, number, next="note", **following)

    def _noted(self, own: Try) -> tuple[int, ...]:
        """The tables that get a note."""
        return own.order if self.keeps("a note in each table") else own.order[:1]

    def _note(self, state: State, number: int) -> State:
        """Write one note; after the last one publish."""
        own = state.tries[number]
        if not self._is_fit(state, own):
            return self._failed(state, number)
        at, *left = own.left
        table = state.tables[at]
        note = Note(own.txn, table.creation, own.wrote[at])
        state = self._with_table(state, at, table._replace(notes=table.notes | {note}))
        return self._with(state, number, next="note" if left else "publish", left=tuple(left))

    def _publish(self, state: State, number: int) -> State:
        own = state.tries[number]
        if not self._is_fit(state, own):
            return self._failed(state, number)
        for at, write_id in enumerate(own.wrote):
            table = state.tables[at]
            there = table.directories | {(write_id, own.txn)}
            state = self._with_table(state, at, table._replace(directories=there))
        return self._with(state, number, next="commit")

    def _commit(self, state: State, number: int) -> State:
        own = state.tries[number]
        if not self._is_fit(state, own):
            return self._failed(state, number)
        state = self._with_txn(state, own.txn, COMMITTED)
        for at, table in enumerate(state.tables):
            held = table._replace(history=table.history | {own.txn})
            state = self._with_table(state, at, held)
        return self._with(state, number, next="mark", left=self._noted(own))

    def _mark(self, state: State, number: int) -> State:
        """Mark one note."""
        own = state.tries[number]
        at, *left = own.left
        table = state.tables[at]
        notes = frozenset(
            note._replace(marked=True) if note.txn == own.txn else note for note in table.notes
        )
        state = self._with_table(state, at, table._replace(notes=notes))
        if left:
            return self._with(state, number, left=tuple(left))
        return self._with(state, number, next="done", left=())

    def _is_fit(self, state: State, own: Try) -> bool:
        now = tuple(table.creation for table in state.tables)
        return state.txns[own.txn - 1] == OPEN and own.opened == now

    def _failed(self, state: State, number: int) -> State:
        own = state.tries[number]
        state = self._aborted(state, own.txn)
        for at, table in enumerate(state.tables):
            state = self._with_table(
                state,
                at,
                table._replace(
                    directories=frozenset(d for d in table.directories if d[1] != own.txn),
                    notes=frozenset(note for note in table.notes if note.txn != own.txn),
                ),
            )
        return self._with(state, number, next="failed", left=())

    # Evidence

    def _end_others(self, state: State, number: int, before: int) -> tuple[State, str]:
        for txn in range(1, before):
            state = self._aborted(state, txn)
        order = state.tries[number].order
        places = order if self.keeps("a note in each table") else order[:1]
        judged = [
            judgement
            for at in places
            for note in state.tables[at].notes
            if (judgement := self._judge(state, at, note))
        ]
        if not self.keeps("a table proves alone") and _FAILED in judged:
            return state, ""
        for how in (_FOUND, _UNPROVEN):
            if how in judged:
                return state, how
        return state, ""

    def _judge(self, state: State, at: int, note: Note) -> str:
        """Return the outcome that a note proves, by its table."""
        table = state.tables[at]
        if note.creation != table.creation and self.keeps("a note names the creation of its table"):
            # With "a table proves alone" it proves nothing; together with the others it denies.
            return "" if self.keeps("a table proves alone") else _FAILED
        if note.marked:
            return _FOUND
        if state.txns[note.txn - 1] in (OPEN, ABORTED):
            return _FAILED
        if not self.keeps("a directory is known by its transaction"):
            own = any(write_id == note.write_id for write_id, _ in table.directories)
        else:
            own = (note.write_id, note.txn) in table.directories
        return _FOUND if own else _UNPROVEN

    def _told(self, state: State, number: int, how: str) -> State:
        """End with the outcome of the notes."""
        lied = how == _FOUND and not any(table.history for table in state.tables)
        return self._with(state._replace(lied=state.lied or lied), number, next=how)

    def _cleaned(self, state: State, table: Table) -> Table:
        """The table after a compaction and a cleaning, which marks the notes of that table before."""
        notes = set()
        for note in table.notes:
            own = note.creation == table.creation
            proven = own and (note.write_id, note.txn) in table.directories
            if own and not note.marked and state.txns[note.txn - 1] == ABORTED:
                continue
            notes.add(note._replace(marked=note.marked or proven))
        return table._replace(directories=frozenset(), notes=frozenset(notes))

    # States

    def _aborted(self, state: State, txn: int) -> State:
        return self._with_txn(state, txn, ABORTED) if state.txns[txn - 1] == OPEN else state

    def _with_txn(self, state: State, txn: int, to: str) -> State:
        return state._replace(txns=(*state.txns[: txn - 1], to, *state.txns[txn:]))

    def _with_table(self, state: State, at: int, table: Table) -> State:
        return state._replace(tables=(*state.tables[:at], table, *state.tables[at + 1 :]))

    def _with(self, state: State, number: int, **changes: object) -> State:
        own = state.tries[number]._replace(**changes)
        return state._replace(tries=(*state.tries[:number], own, *state.tries[number + 1 :]))


def _has_left(table: Table, txn: int) -> bool:
    """Return whether a table still has files of an aborted transaction, which a cleaning removes
    first."""
    noted = any((note.txn, note.creation) == (txn, table.creation) for note in table.notes)
    return noted or any(own == txn for _, own in table.directories)
