"""A script that moves rows by a table of its own, which it creates, fills, and drops; with retries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

_USES = ("create", "fill", "insert", "delete")
_EDITED = "insert with another text"


class State(NamedTuple):
    """Everything there is.

    Attributes:
        source: The rows of the source.
        between: The rows of the script's own table; None if there is no such table.
        target: The rows of the target, one entry for each time.
        notes: The statements that have left a note in their table.
        script: The statements.
        at: The number of statements that the attempt has completed; None if it has died.
        tries: The number of further attempts.
        written: Whether another client has added a row to the source.
    """

    script: tuple[str, ...]
    source: frozenset[int] = frozenset({1})
    between: frozenset[int] | None = None
    target: tuple[int, ...] = ()
    notes: frozenset[str] = frozenset()
    at: int | None = 0
    tries: int = 2
    written: bool = False


@dataclass(frozen=True)
class Scripts(SmallModel):
    """Attempts of one script under one run token, one after the other."""

    @property
    def start(self) -> State:
        """One row in the source."""
        if self.keeps("a dropped table is not named by a later statement"):
            return State((*_USES, "drop"))
        return State(("drop", *_USES))

    def steps(self, state: State) -> Iterator[Step]:
        """The attempt, its death, the next one, an edited script, and the other client."""
        if state.at is not None and state.at < len(state.script):
            statement = state.script[state.at]
            yield statement, self._execute(statement, state)._replace(at=state.at + 1)
        if state.at is not None:
            yield "die", state._replace(at=None)
        elif state.tries:
            edited = tuple(_EDITED if each == "insert" else each for each in state.script)
            for what, script in (("retry", state.script), ("edit, and retry", edited)):
                if self._accepts(script, state):
                    yield what, state._replace(script=script, at=0, tries=state.tries - 1)
        if not state.written:
            yield "other: write", state._replace(source=state.source | {2}, written=True)

    def broken_in(self, state: State) -> Promise | None:
        """Look for rows that are in the target twice, or nowhere."""
        if len(set(state.target)) < len(state.target):
            return Promise.STATEMENT_ONCE
        rows = {1, 2} if state.written else {1}
        if state.at == len(state.script) and rows != state.source | {*state.target}:
            return Promise.SCRIPT_COMPLETE
        return None

    def _accepts(self, script: tuple[str, ...], state: State) -> bool:
        """Return whether all notes are those of statements of the script."""
        refuses = self.keeps("a script without an applied statement is refused")
        return not refuses or state.notes <= {*script}

    def _execute(self, statement: str, state: State) -> State:
        """Execute a statement, unless a note shows that it was applied."""
        if statement == "drop":
            # Its notes are in its folder.
            return state._replace(between=None, notes=state.notes - {"fill"})
        if statement == "create":
            return state._replace(between=state.between or frozenset())
        if statement in state.notes and self.keeps("an applied statement is not applied again"):
            return state
        done = state._replace(notes=state.notes | {statement})
        assert state.between is not None
        if statement == "fill":
            return done._replace(between=state.between | state.source)
        if statement == "delete":
            return done._replace(source=state.source - state.between)
        return done._replace(target=(*state.target, *sorted(state.between)))
