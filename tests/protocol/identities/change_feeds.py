"""Consumers of changes: their cursors, and the ranges that they export to folders."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step


@dataclass(frozen=True)
class Consumer:
    """A consumer that exports the changes of a table to a folder.

    Attributes:
        name: Its name, under which its cursor is stored.
        table: The name of the table.
        target: The folder.
    """

    name: str
    table: str
    target: str


class Cursor(NamedTuple):
    """A stored cursor, beside the table that it is for."""

    table: str
    name: str
    creation: int
    target: str
    position: int


class Range(NamedTuple):
    """A folder of exported changes; its place is the target and the first version."""

    target: str
    after: int
    up_to: int
    table: str
    creation: int
    consumer: str


class Exported(NamedTuple):
    """One change in a target, or one that a consumer has passed."""

    table: str
    creation: int
    version: int
    consumer: str
    target: str


class Progress(NamedTuple):
    """The progress of a consumer with one range."""

    next: str = "look"
    creation: int = 0
    after: int = 0
    up_to: int = 0
    columns: int = 0


class State(NamedTuple):
    """Everything there is.

    Attributes:
        tables: The creation and the version of each table, by its name.
        columns: The number of columns of the first table.
        added: The number of columns that it should have.
        cursors: The stored cursors.
        ranges: The folders.
        exported: The changes in them, one entry for each time.
        passed: The changes that a consumer takes for exported.
        consumers: The progress of each.
    """

    tables: tuple[tuple[str, int, int], ...]
    columns: int
    added: int
    cursors: frozenset[Cursor]
    ranges: frozenset[Range]
    exported: tuple[Exported, ...]
    passed: frozenset[Exported]
    consumers: tuple[Progress, ...]


_VERSIONS, _CREATIONS = 2, 2


@dataclass(frozen=True)
class ChangeFeeds(SmallModel):
    """Some consumers, tables that others change and create again, and processes that are killed.

    Attributes:
        consumers: The consumers.
    """

    consumers: tuple[Consumer, ...] = (Consumer("c", "t", "p"),)

    @property
    def start(self) -> State:
        """Tables with one version each."""
        names = sorted({each.table for each in self.consumers})
        tables = tuple((name, 1, 1) for name in names)
        waiting = tuple(Progress() for _ in self.consumers)
        return State(tables, 1, 1, frozenset(), frozenset(), (), frozenset(), waiting)

    def steps(self, state: State) -> Iterator[Step]:
        """Consumers, which start again when they have ended, and other clients."""
        for number, progress in enumerate(state.consumers):
            step = progress.next
            if step != "refused":
                yield f"{number}: {step}", getattr(self, f"_{step}")(state, number)
            if step not in ("look", "refused"):
                yield f"{number}: die", self._with(state, number)
        for at, (name, creation, version) in enumerate(state.tables):
            others = (state.tables[:at], state.tables[at + 1 :])
            if version < _VERSIONS:
                changed = (*others[0], (name, creation, version + 1), *others[1])
                yield f"other: change {name}", state._replace(tables=changed)
            if creation < _CREATIONS:
                # The files in the folder of the table remain, as after a drop that keeps data.
                new = (*others[0], (name, creation + 1, 1), *others[1])
                yield f"other: drop and create {name}", state._replace(tables=new)
        if state.added == 1:
            yield "other: add a column", state._replace(columns=state.columns + 1, added=2)

    def broken_in(self, state: State) -> Promise | None:
        """Compare the ranges of consumers with the exported changes."""
        if not state.passed <= frozenset(state.exported):
            return Promise.EXPORTED
        if len(set(state.exported)) < len(state.exported):
            return Promise.EXPORTED_ONCE
        return Promise.DEFINITION if state.columns < state.added else None

    def _with(self, state: State, number: int, **changes: object) -> State:
        """The same with a consumer that is further, or, without changes, at its beginning."""
        own = state.consumers[number]._replace(**changes) if changes else Progress()
        consumers = (*state.consumers[:number], own, *state.consumers[number + 1 :])
        return state._replace(consumers=consumers)

    def _look(self, state: State, number: int) -> State:
        """Read the cursor and the table."""
        consumer = self.consumers[number]
        creation, version = self._table(state, consumer.table)
        after = 0
        for cursor in state.cursors:
            if (cursor.table, cursor.name) != (consumer.table, consumer.name):
                continue
            if cursor.creation != creation and self.keeps("a cursor is of one creation"):
                return self._with(state, number, next="refused")
            if cursor.target != consumer.target and self.keeps("a cursor has one target"):
                return self._with(state, number, next="refused")
            after = cursor.position
        state = self._passed(state, consumer, creation, after)
        if version <= after:
            return state
        return self._with(
            state,
            number,
            next="export",
            creation=creation,
            after=after,
            up_to=version,
            columns=state.columns,
        )

    def _export(self, state: State, number: int) -> State:
        """Write the range, unless a folder begins with it; its lock excludes others."""
        consumer, own = self.consumers[number], state.consumers[number]
        creation, _ = self._table(state, consumer.table)
        if creation != own.creation:
            # Under its lock and snapshot the export sees another table.
            return self._with(state, number)
        place = (consumer.target, own.after)
        known = next((each for each in state.ranges if (each.target, each.after) == place), None)
        if known is None:
            made = Range(*place, own.up_to, consumer.table, creation, consumer.name)
            changes = tuple(self._changes(consumer, creation, own.after, own.up_to))
            exported = tuple(sorted((*state.exported, *changes)))
            state = state._replace(ranges=state.ranges | {made}, exported=exported)
            return self._with(state, number, next="move")
        same_table = (known.table, known.creation) == (consumer.table, creation)
        if not same_table and self.keeps("a range names its table"):
            return self._with(state, number, next="refused")
        if known.consumer != consumer.name and self.keeps("a range names its consumer"):
            return self._with(state, number, next="refused")
        return self._with(state, number, next="move", up_to=known.up_to)

    def _move(self, state: State, number: int) -> State:
        """Store the cursor."""
        consumer, own = self.consumers[number], state.consumers[number]
        creation, _ = self._table(state, consumer.table)
        if creation != own.creation and self.keeps("a cursor is of one creation"):
            return self._with(state, number)
        if not self.keeps("a cursor is stored beside the definition"):
            state = state._replace(columns=own.columns)
        kept = frozenset(
            each
            for each in state.cursors
            if (each.table, each.name) != (consumer.table, consumer.name)
        )
        new = Cursor(consumer.table, consumer.name, own.creation, consumer.target, own.up_to)
        state = state._replace(cursors=kept | {new})
        return self._with(self._passed(state, consumer, own.creation, own.up_to), number)

    def _table(self, state: State, name: str) -> tuple[int, int]:
        return next((creation, version) for own, creation, version in state.tables if own == name)

    def _passed(self, state: State, consumer: Consumer, creation: int, position: int) -> State:
        passed = frozenset(self._changes(consumer, creation, 0, position))
        return state._replace(passed=state.passed | passed)

    def _changes(
        self, consumer: Consumer, creation: int, after: int, up_to: int
    ) -> Iterator[Exported]:
        for version in range(after + 1, up_to + 1):
            yield Exported(consumer.table, creation, version, consumer.name, consumer.target)
