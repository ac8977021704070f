"""Directories that are removed by processes that can sleep, while their table is created again.

A cleaner removes directories that it has judged, a writer removes what it has published before it
failed. Both act in steps, and others act between any two of them: hide the directory, confirm that it
is the right one, then delete it or put it back. A process that dies leaves hidden directories, which
the next cleaning deletes or puts back. So does whoever lists the new table, to read or to compact it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

_NAMES = ("delta_1", "delta_2")
_DONE, _DEAD, _FAILED = "done", "dead", "failed"
_ENDED = (_DONE, _DEAD, _FAILED)


class Directory(NamedTuple):
    """A directory: its name means another one in another creation of the table."""

    name: str
    creation: int


class Hidden(NamedTuple):
    """A directory in a hidden folder.

    Attributes:
        owner: The process that has given the folder its name.
        label: The creation of the table that the directory was judged for.
        directory: The directory.
    """

    owner: int
    label: int
    directory: Directory


class Process(NamedTuple):
    """A process that removes directories.

    Attributes:
        next: Its next step.
        table: The creation of the table that it works on.
        plan: The names of the directories that it is about to hide.
        others: The hidden folders of others, with their labels, that it is about to put back or take.
        locked: Whether its lock is alive.
    """

    next: str = "list"
    table: int = 0
    plan: tuple[str, ...] = ()
    others: frozenset[tuple[int, int]] = frozenset()
    locked: bool = False


class User(NamedTuple):
    """A reader or a compaction of the second creation of the table.

    Attributes:
        next: Its next step.
        listed: The directories that it has listed.
    """

    next: str = "list"
    listed: frozenset[Directory] = frozenset()


class State(NamedTuple):
    """The table, its folder, and the processes.

    Attributes:
        table: The creation of the table.
        public: The directories with public names.
        hidden: The directories in hidden folders.
        processes: The processes.
        faults: The number of further deaths.
        user: The user of the second creation.
        lost: Whether a directory with rows of the table was deleted.
        missed: Whether the user has missed a directory with rows.
    """

    table: int
    public: frozenset[Directory]
    hidden: frozenset[Hidden]
    processes: tuple[Process, ...]
    faults: int
    user: User
    lost: bool = False
    missed: bool = False


@dataclass(frozen=True)
class Removals(SmallModel):
    """A removal of two directories of a table, and two later cleanings.

    Attributes:
        by: The first process; the others are cleaners.
        drops_without_lock: Whether other clients drop the table although a cleaner holds a lock,
            which a metastore allows.
        is_used: Whether the table that is created again is read or compacted meanwhile.
        faults: The number of processes that die.
    """

    by: Literal["cleaner", "writer"] = "cleaner"
    drops_without_lock: bool = False
    is_used: bool = False
    faults: int = 2

    @property
    def start(self) -> State:
        """A table with two directories that nobody needs."""
        first = frozenset(Directory(name, 1) for name in _NAMES)
        user = User("list" if self.is_used else _DONE)
        return State(1, first, frozenset(), (Process(), Process(), Process()), self.faults, user)

    def steps(self, state: State) -> Iterator[Step]:
        """Return the steps of the processes, their ends, and the steps of other clients."""
        for number, own in enumerate(state.processes):
            if own.next in _ENDED or (own.next == "list" and not self._may_begin(state, number)):
                continue
            yield (
                f"{number}: {own.next}",
                getattr(self, f"_{own.next.replace(' ', '_')}")(state, number),
            )
            if own.table and state.faults:
                dead = self._with(
                    state, number, next=_DEAD, plan=(), others=frozenset(), locked=False
                )
                yield f"{number}: die", dead._replace(faults=state.faults - 1)
            if own.locked:
                yield f"metastore: time out {number}", self._with(state, number, locked=False)
        held = any(own.locked for own in state.processes)
        began = state.processes[0].table != 0
        if state.table == 1 and began and (self.drops_without_lock or not held):
            # Its first transactions get the write ids, and so the names, of the old ones.
            new = frozenset(Directory(name, 2) for name in _NAMES)
            yield "other: drop and create", state._replace(table=2, public=new, hidden=frozenset())
        if state.table == 2 and state.user.next not in _ENDED:
            yield from self._use(state)

    def _use(self, state: State) -> Iterator[Step]:
        """List the directories of the second creation, then read their files."""
        user, live = state.user, {Directory(name, 2) for name in _NAMES}
        if user.next == "list":
            foreign = sorted(each for each in state.hidden if each.label != state.table)
            if foreign and self.keeps("hidden directories of another table are a part of a table"):
                # One after the other: it may die in between.
                public = state.public | {foreign[0].directory}
                hidden = state.hidden - {foreign[0]}
                yield "user: put back", state._replace(public=public, hidden=hidden)
            else:
                listed = frozenset(state.public & live)
                yield "user: list", state._replace(user=User("read", listed))
        elif user.listed <= state.public:
            missed = user.listed != live
            yield "user: read", state._replace(user=User(_DONE), missed=missed)
        else:
            yield "user: miss a file", state._replace(user=User(_FAILED))
        if state.faults:
            yield "user: die", state._replace(user=User(_DEAD), faults=state.faults - 1)

    def broken_in(self, state: State) -> Promise | None:
        """See whether live directories were removed, and whether all are public at the end."""
        if state.lost:
            return Promise.OTHER_TABLE
        if state.missed:
            return Promise.ALL_ROWS
        if state.processes[-1].next != _DONE:
            return None
        live = {Directory(name, 2) for name in _NAMES} if state.table == 2 else set()
        complete = live <= state.public and not state.hidden
        return None if complete else Promise.HIDDEN_COME_BACK

    def _may_begin(self, state: State, number: int) -> bool:
        """The last cleaning begins after all others."""
        before = state.processes[:number]
        if number == len(state.processes) - 1:
            return all(other.next in _ENDED for other in before)
        return all(other.table for other in before)

    # The steps of a process

    def _list(self, state: State, number: int) -> State:
        """Judge the directories: those of the first creation are to go."""
        plan = tuple(sorted(each.name for each in state.public if each.creation == 1))
        cleans = number > 0 or self.by == "cleaner"
        found = {(each.owner, each.label) for each in state.hidden if cleans}
        foreign = frozenset(each for each in found if each[1] != state.table)
        own = {"table": state.table, "plan": plan, "locked": cleans}
        if foreign and self.keeps("hidden directories of another table are put back"):
            return self._with(state, number, next="put back others", others=foreign, **own)
        taken = frozenset(found - foreign)
        return self._go_on(self._with(state, number, others=taken, **own), number)

    def _go_on(self, state: State, number: int) -> State:
        own = state.processes[number]
        following = "hide" if own.plan else "take" if own.others else "confirm"
        return self._with(state, number, next=following)

    def _put_back_others(self, state: State, number: int) -> State:
        """Put back what was judged for another creation; then the next cleaning begins."""
        own = state.processes[number]
        foreign = {each for each in state.hidden if (each.owner, each.label) in own.others}
        state = state._replace(hidden=state.hidden - foreign)
        if not self.keeps("hidden directories keep the label of their judgement"):
            # They are taken first, into a folder of this process.
            taken = {each._replace(owner=number, label=own.table) for each in foreign}
            state = state._replace(hidden=state.hidden | taken)
            return self._with(state, number, next="put back taken", others=frozenset())
        public = state.public | {each.directory for each in foreign}
        return self._with(state._replace(public=public), number, next="list", others=frozenset())

    def _put_back_taken(self, state: State, number: int) -> State:
        return self._with(self._restored(state, number), number, next="list")

    def _hide(self, state: State, number: int) -> State:
        """Give one directory a hidden name, whichever has the public one now."""
        own = state.processes[number]
        name, *others = own.plan
        found = {each for each in state.public if each.name == name}
        state = state._replace(public=state.public - found)
        if self.keeps("nothing is deleted under its public name"):
            hidden = {Hidden(number, own.table, each) for each in found}
            state = state._replace(hidden=state.hidden | hidden)
        else:
            state = self._deleted(state, found)
        return self._go_on(self._with(state, number, plan=tuple(others)), number)

    def _take(self, state: State, number: int) -> State:
        """Take over what other processes have hidden in this creation."""
        own = state.processes[number]
        theirs = {each for each in state.hidden if (each.owner, each.label) in own.others}
        hidden = state.hidden - theirs | {each._replace(owner=number) for each in theirs}
        return self._with(state._replace(hidden=hidden), number, next="confirm", others=frozenset())

    def _confirm(self, state: State, number: int) -> State:
        """Confirm that the hidden directories are the judged ones."""
        return self._with(state, number, next=self._verdict(state, number))

    def _verdict(self, state: State, number: int) -> str:
        own = state.processes[number]
        if self.by == "writer" and number == 0:
            # The note in each directory names the transaction.
            mine = {each.directory.creation for each in state.hidden if each.owner == 0}
            return "delete" if mine <= {1} or not self._confirms else "put back"
        if state.table != own.table and self._confirms and self.keeps("the table is confirmed"):
            return "put back"
        # Without its lock it does not know what other cleanings have done.
        return "delete" if own.locked or not self._confirms else _FAILED

    @property
    def _confirms(self) -> bool:
        return self.keeps("confirm what is hidden")

    def _delete(self, state: State, number: int) -> State:
        """Delete all that this process has hidden."""
        mine = {each for each in state.hidden if each.owner == number}
        state = self._deleted(state, {each.directory for each in mine})
        state = state._replace(hidden=state.hidden - mine)
        return self._with(state, number, next=_DONE, locked=False)

    def _put_back(self, state: State, number: int) -> State:
        return self._with(self._restored(state, number), number, next=_FAILED, locked=False)

    def _restored(self, state: State, number: int) -> State:
        mine = {each for each in state.hidden if each.owner == number}
        public = state.public | {each.directory for each in mine}
        return state._replace(public=public, hidden=state.hidden - mine)

    def _deleted(self, state: State, directories: set[Directory]) -> State:
        live = any(each.creation == 2 for each in directories)
        return state._replace(lost=state.lost or live)

    def _with(self, state: State, number: int, **changes: object) -> State:
        own = state.processes[number]._replace(**changes)
        processes = (*state.processes[:number], own, *state.processes[number + 1 :])
        return state._replace(processes=processes)
