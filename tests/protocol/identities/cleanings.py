"""A cleaner that is paused between its deletions, and a table that is created again meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

_OBSOLETE = frozenset({"delta_1", "delta_2"})


class State(NamedTuple):
    """The table and the cleaner.

    Attributes:
        next: The next step of the cleaner.
        locked: Whether its lock is alive.
        table: The creation of the table.
        directories: The directories in the folder.
        plan: The names that the cleaner is about to remove.
        asked: Whether it has confirmed lock and table once.
        lost: Whether it has removed a directory of another creation.
    """

    next: str = "list"
    locked: bool = True
    table: int = 1
    directories: frozenset[str] = _OBSOLETE
    plan: tuple[str, ...] = ()
    asked: bool = False
    lost: bool = False


@dataclass(frozen=True)
class Cleanings(SmallModel):
    """One cleaning of two obsolete directories.

    Attributes:
        drops_without_lock: Whether other clients drop the table although the cleaner holds a lock,
            which a metastore allows.
    """

    drops_without_lock: bool = False

    @property
    def start(self) -> State:
        """A table with two directories that a compaction has replaced."""
        return State()

    def steps(self, state: State) -> Iterator[Step]:
        """Return the steps of the cleaner, and those of others while it is paused."""
        if state.next == "list":
            plan = tuple(sorted(state.directories))
            yield "list", state._replace(next="remove", plan=plan)
        elif state.next == "remove":
            yield "remove", self._remove(state)
        if state.locked:
            yield "metastore: time out", state._replace(locked=False)
        if state.table == 1 and (self.drops_without_lock or not state.locked):
            # Its first transactions get the write ids, and so the names, of the old ones.
            yield "other: drop and create", state._replace(table=2, directories=_OBSOLETE)

    def broken_in(self, state: State) -> Promise | None:
        """See whether live directories were removed."""
        return Promise.OTHER_TABLE if state.lost else None

    def _remove(self, state: State) -> State:
        """Confirm, and remove one directory: the question directly precedes the deletion."""
        if not state.plan or not self._is_confirmed(state):
            return state._replace(next="end", plan=())
        name, *others = state.plan
        return state._replace(
            directories=state.directories - {name},
            plan=tuple(others),
            asked=True,
            lost=state.lost or state.table != 1,
        )

    def _is_confirmed(self, state: State) -> bool:
        if state.asked and not self.keeps("confirm before each deletion"):
            return True
        locked = state.locked or not self.keeps("the lock is confirmed")
        return locked and (state.table == 1 or not self.keeps("the table is confirmed"))
