"""A script that replaces a table: CREATE TABLE AS, two times RENAME, and DROP, with its retries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

CREATE, AWAY, BACK, DROP = "create n as t", "rename t to o", "rename n to t", "drop o"
REPLACEMENT = (CREATE, AWAY, BACK, DROP)
_RENAMED = {AWAY: ("t", "o"), BACK: ("n", "t")}


class Try(NamedTuple):
    """An attempt of the script.

    Attributes:
        next: Its next step.
        script: The statements that it has been given.
        at: The number of completed ones.
    """

    next: str = "begin"
    script: tuple[str, ...] = REPLACEMENT
    at: int = 0


class State(NamedTuple):
    """Everything there is.

    Attributes:
        tables: The creation of each table, by name.
        creations: The number of statements.
        done: The digests of the statements that the progress note calls done.
        begun: The digest of the statement that it calls begun, and the creation of its table.
        executed: The statements that were executed, in order.
        own: The try that is at work.
        tries: The number of further ones.
        edited: Whether the first statement has been removed from the script.
        taken: Whether another client has created a table.
    """

    tables: frozenset[tuple[str, int]] = frozenset({("t", 1)})
    creations: int = 1
    done: tuple[str, ...] = ()
    begun: tuple[str, int] | None = None
    executed: tuple[str, ...] = ()
    own: Try = Try()
    tries: int = 2
    edited: bool = False
    taken: bool = False


@dataclass(frozen=True)
class Scripts(SmallModel):
    """Tries of one script under one run token; a lock lets one be at work at a time.

    Attributes:
        edits: Whether the first statement is removed between two attempts.
    """

    edits: bool = True

    @property
    def start(self) -> State:
        """One table, and nothing done."""
        return State()

    def steps(self, state: State) -> Iterator[Step]:
        """The try, its death, the next one, and a change of the script."""
        own = state.own
        if own.next in ("begin", "intend", "execute", "note"):
            yield own.next, getattr(self, f"_{own.next}")(state)
            yield "die", state._replace(own=own._replace(next="dead"))
        elif state.tries:
            again = state._replace(tries=state.tries - 1)
            yield "try again", again._replace(own=Try(script=own.script))
            if self.edits and not state.edited:
                changed = again._replace(edited=True)
                yield "edit, and try again", changed._replace(own=Try(script=own.script[1:]))
        for name in ("n", "o"):
            if not state.taken and name not in dict(state.tables):
                tables = state.tables | {(name, state.creations + 1)}
                made = state._replace(tables=tables, creations=state.creations + 1, taken=True)
                yield f"other: create {name}", made

    def broken_in(self, state: State) -> Promise | None:
        """See how often each statement was executed."""
        if len(set(state.executed)) < len(state.executed):
            return Promise.STATEMENT_ONCE
        if state.own.next == "done" and not set(state.own.script) <= set(state.executed):
            return Promise.SCRIPT_COMPLETE
        return None

    def _begin(self, state: State) -> State:
        """Skip completed statements, if the script begins with them."""
        own = state.own
        done = state.done if self.keeps("a progress note") else ()
        same = own.script[: len(done)] == done
        if not same and self.keeps("a digest for each statement"):
            return state._replace(own=own._replace(next="refused"))
        return self._at(state, min(len(done), len(own.script)))

    def _at(self, state: State, at: int) -> State:
        """Go on with a statement."""
        own = state.own
        following = "done" if at == len(own.script) else "intend"
        return state._replace(own=own._replace(next=following, at=at))

    def _intend(self, state: State) -> State:
        """Note the statement and its table, unless the try before has begun it."""
        own = state.own
        statement = own.script[own.at]
        if state.begun is not None and state.begun[0] != statement:
            return state._replace(own=own._replace(next="refused"))
        if state.begun is not None and self._is_there(statement, state):
            return state._replace(own=own._replace(next="note"))
        # A created table contains the digest of its statement, which proves its origin.
        creation = -len(state.executed) - 1
        if statement != CREATE:
            creation = dict(state.tables).get(_source(statement), 0)
        if state.begun is None:
            state = state._replace(begun=(statement, creation))
        return state._replace(own=own._replace(next="execute"))

    def _is_there(self, statement: str, state: State) -> bool:
        """Return whether a begun statement was executed, by the identity of its table."""
        assert state.begun is not None
        creation, tables = state.begun[1], dict(state.tables)
        name = "n" if statement == CREATE else _RENAMED.get(statement, ("", ""))[1]
        if not self.keeps("a begun statement is recognized by the identity of its table"):
            return (statement == DROP and "o" not in tables) or name in tables
        if statement == DROP:
            return creation not in tables.values()
        return tables.get(name) == creation

    def _execute(self, state: State) -> State:
        own, tables = state.own, dict(state.tables)
        statement = own.script[own.at]
        assert state.begun is not None
        creation = state.begun[1]
        same = statement == CREATE or tables.get(_source(statement)) == creation
        if not same or not self._do(statement, tables, creation):
            return state._replace(own=own._replace(next="refused"))
        return state._replace(
            tables=frozenset(tables.items()),
            executed=(*state.executed, statement),
            own=own._replace(next="note"),
        )

    def _do(self, statement: str, tables: dict[str, int], creation: int) -> bool:
        """Execute a statement; whether it could be."""
        if statement == CREATE:
            if "n" in tables or "t" not in tables:
                return False
            tables["n"] = creation
        elif statement == DROP:
            return tables.pop("o", None) is not None
        else:
            old, new = _RENAMED[statement]
            if old not in tables or new in tables:
                return False
            tables[new] = tables.pop(old)
        return True

    def _note(self, state: State) -> State:
        """Note that the statement is done."""
        own = state.own
        done = (*state.done[: own.at], own.script[own.at])
        return self._at(state._replace(done=done, begun=None), own.at + 1)


def _source(statement: str) -> str:
    """The table that a statement renames or drops."""
    return "o" if statement == DROP else _RENAMED[statement][0]
