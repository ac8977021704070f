"""The participants in a model, and their rules: the protocol itself, or a broken one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tests.protocol.metastore import Version, abort, keep_house
from tests.protocol.state import COMMITTED, OPEN, Actor, Directory, Row, RowId, State, Txn

Step = tuple[str, State]
# The possible ends of an actor.
DONE, FOUND, FAILED, REFUSED = "done", "found", "failed", "refused"
DEAD, UNPROVEN, UNCERTAIN, SKIPPED = "dead", "unproven", "uncertain", "skipped"
ENDED = frozenset({DONE, FOUND, FAILED, REFUSED, DEAD, UNPROVEN, UNCERTAIN, SKIPPED})


class Role(Protocol):
    """The actions of an actor.

    Attributes:
        first: Its first step.
    """

    first: str

    def steps(self, model: "Model", state: State, number: int) -> Iterator[Step]:
        """Return its possible next steps, with the resulting states.

        Args:
            model: The other participants, and the rules.
            state: The state.
            number: Its number among the actors.
        """


@dataclass(frozen=True)
class Model:
    """The actors of a model, and how much may go wrong.

    Attributes:
        roles: The actors.
        version: Of the metastore.
        faults: The number of deaths, timeouts of active actors, and lost answers.
        broken: Rules that are left out; see `breaks.py`.
        before: Steps that have been made when the search begins.
    """

    roles: tuple[Role, ...]
    version: Version = Version.HMS4
    faults: int = 0
    broken: frozenset[str] = frozenset()
    before: tuple[str, ...] = ()

    def keeps(self, rule: str) -> bool:
        """Return whether a rule applies."""
        return rule not in self.broken

    @property
    def start(self) -> State:
        """Return two rows in two directories, before any action."""
        directories = frozenset(
            Directory("delta", n, n, 0, False, frozenset({Row(RowId(n, n), 0)}), n) for n in (1, 2)
        )
        state = State(
            txns=tuple(Txn(-1, COMMITTED, write_id=n, position=n) for n in (1, 2)),
            writers=(1, 2),
            locks=(),
            directories=directories,
            hidden=frozenset(),
            staged=frozenset(),
            notes=frozenset(),
            queue=(),
            actors=tuple(Actor(role.first) for role in self.roles),
            faults=self.faults,
        )
        for label in self.before:
            state = dict(self.steps(state))[label]
        return state

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that can happen next."""
        for number, (role, actor) in enumerate(zip(self.roles, state.actors, strict=True)):
            if actor.next not in ENDED:
                for label, after in role.steps(self, state, number):
                    yield f"{number}: {label}", after
                if state.faults and actor.txn:
                    killed = state.with_actor(number, next=DEAD)
                    yield f"{number}: die", killed._replace(faults=state.faults - 1)
        yield from self._timeouts(state)
        housekept = keep_house(state)
        if housekept != state:
            yield "metastore: keep house", housekept

    def _timeouts(self, state: State) -> Iterator[Step]:
        """Return the steps that time out transactions without heartbeats, or with a sleeping owner."""
        for number, txn in enumerate(state.txns, 1):
            if txn.state != OPEN:
                continue
            if state.actors[txn.owner].next in ENDED:
                yield f"metastore: time out {number}", abort(state, number)
            elif state.faults:
                asleep = abort(state, number)._replace(faults=state.faults - 1)
                yield f"metastore: time out {number}", asleep
