"""Changes under the policy rows, and rewrites that change row ids between their read and their
commit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

NEW_KEY = 9
_COMPACTION, _REBALANCE, _UNKNOWN = "compaction", "rebalance", "no note"


class Row(NamedTuple):
    """A row with the id that it has now."""

    write_id: int
    number: int
    key: int
    value: int = 0

    @property
    def id(self) -> tuple[int, int]:
        """The row id."""
        return self.write_id, self.number


@dataclass(frozen=True)
class Writer:
    """A change: an update or a delete of a key, an insert unless the key exists, or an append."""

    does: str
    key: int


class Progress(NamedTuple):
    """The progress of a writer.

    Attributes:
        next: Its next step.
        seen: The rows of its snapshot.
        known: The write ids that its snapshot sees.
        rewrites: The number of rewrites of the files by then.
        write_id: Its write id.
    """

    next: str = "read"
    seen: frozenset[Row] = frozenset()
    known: frozenset[int] = frozenset()
    rewrites: int = 0
    write_id: int = 0


class State(NamedTuple):
    """The table.

    Attributes:
        rows: The rows that a new reader sees.
        deleted: Rows whose delete events are still there beside them.
        meant: Keys and values, by committed changes only.
        rewrites: The rewrites of all files, in order.
        ids: The number of write ids.
        committed: The write ids that were committed.
        highest: The highest number that a row ever had.
        writers: The progress of each.
        left: The maintenance that may still happen.
    """

    rows: frozenset[Row]
    deleted: frozenset[Row]
    meant: frozenset[tuple[int, int]]
    rewrites: tuple[str, ...]
    ids: int
    committed: frozenset[int]
    highest: int
    writers: tuple[Progress, ...]
    left: frozenset[str]


@dataclass(frozen=True)
class RowNumbers(SmallModel):
    """Some writers, and some maintenance: each of it can happen once.

    Attributes:
        writers: The writers.
        maintenance: Any of "compaction", "rebalance", "ordered rebalance" and "rebalance of Hive".
    """

    writers: tuple[Writer, ...] = ()
    maintenance: frozenset[str] = frozenset()

    @property
    def start(self) -> State:
        """Two rows of one write id."""
        rows = frozenset({Row(1, 0, 1), Row(1, 1, 2)})
        meant = frozenset((row.key, row.value) for row in rows)
        waiting = tuple(Progress() for _ in self.writers)
        one = frozenset({1})
        return State(rows, frozenset(), meant, (), 1, one, 1, waiting, self.maintenance)

    def steps(self, state: State) -> Iterator[Step]:
        """Writers in any order, with maintenance between."""
        for number, (writer, progress) in enumerate(zip(self.writers, state.writers, strict=True)):
            if progress.next == "read":
                for following in ("open", "commit"):
                    # Under the policy rows a change reads before it gets a write id; others after.
                    after = self._read(state, number, following)
                    yield f"{number}: read, then {following}", after
            elif progress.next == "open":
                yield f"{number}: open", self._with(self._opened(state, number), number, "commit")
            elif progress.next == "commit":
                yield f"{number}: commit {writer.does}", self._commit(state, number, writer)
        for kind in sorted(state.left):
            done = state._replace(left=state.left - {kind})
            yield f"maintenance: {kind}", self._maintained(done, kind)

    def broken_in(self, state: State) -> Promise | None:
        """Compare the rows with the intended ones."""
        there = sorted((row.key, row.value) for row in state.rows)
        return None if there == sorted(state.meant) else Promise.RIGHT_ROWS

    # Writers

    def _read(self, state: State, number: int, following: str) -> State:
        if following == "commit":
            state = self._opened(state, number)
        return self._with(
            state,
            number,
            following,
            seen=state.rows,
            known=state.committed,
            rewrites=len(state.rewrites),
        )

    def _opened(self, state: State, number: int) -> State:
        state = state._replace(ids=state.ids + 1)
        return self._with(state, number, state.writers[number].next, write_id=state.ids)

    def _with(self, state: State, number: int, following: str, **changes: object) -> State:
        progress = state.writers[number]._replace(next=following, **changes)
        writers = (*state.writers[:number], progress, *state.writers[number + 1 :])
        return state._replace(writers=writers)

    def _commit(self, state: State, number: int, writer: Writer) -> State:
        """Compare under the lock, then publish and commit."""
        progress = state.writers[number]
        ended = self._with(state, number, "end", seen=frozenset(), known=frozenset())
        old = {row for row in progress.seen if row.key == writer.key}
        inserts = writer.does == "insert"
        if writer.does != "append" and self._refuses(state, progress, old, inserts, writer.key):
            return ended
        gone = frozenset(row for row in state.rows if row.id in {each.id for each in old})
        come = {
            "update": [Row(progress.write_id, 0, row.key, row.value + 1) for row in old],
            "insert": [] if old else [Row(progress.write_id, 0, writer.key)],
            "append": [Row(progress.write_id, 0, writer.key)],
        }.get(writer.does, [])
        if inserts:
            gone = frozenset()
        return ended._replace(
            rows=state.rows - gone | frozenset(come),
            deleted=state.deleted | gone,
            meant=self._meant(state, writer),
            committed=state.committed | {progress.write_id},
        )

    def _meant(self, state: State, writer: Writer) -> frozenset[tuple[int, int]]:
        own = {each for each in state.meant if each[0] == writer.key}
        if writer.does in ("insert", "append"):
            return state.meant | (frozenset() if own else {(writer.key, 0)})
        new = {(key, value + 1) for key, value in own} if writer.does == "update" else set()
        return state.meant - own | new

    def _refuses(
        self, state: State, progress: Progress, old: set[Row], inserts: bool, key: int
    ) -> bool:
        """Return whether the computed changes are outdated."""
        new = state.committed - progress.known
        if self.keeps("renumbered rows are refused") and self._is_renumbered(state, progress):
            return True
        if inserts:
            return any(row.key == key and row.write_id in new for row in state.rows)
        ids = {row.id for row in state.rows}
        return any(row.id not in ids for row in old)

    def _is_renumbered(self, state: State, progress: Progress) -> bool:
        """Return whether the rewrites since the read can have given rows other ids, by their notes."""
        since = state.rewrites[progress.rewrites :]
        if not self.keeps("a compaction keeps the evidence of earlier rewrites"):
            since = since[-1:]
        return any(each != _COMPACTION for each in since)

    # Maintenance

    def _maintained(self, state: State, kind: str) -> State:
        """Rewrite all rows that are seen into a new base."""
        if kind == "compaction":
            return self._rewritten(state, _COMPACTION, state.rows)
        kept = sorted(state.rows)
        if kind == "rebalance of Hive":
            moved = [row._replace(number=at) for at, row in enumerate(reversed(kept))]
            return self._rewritten(state, _UNKNOWN, frozenset(moved))
        highest = state.highest
        if not self.keeps("a rebalance never reuses row ids"):
            # The deleted rows that a compaction has removed are not counted.
            highest = max((row.number for row in (*kept, *state.deleted)), default=-1)
        newest = max((row.write_id for row in kept), default=1)
        ordered = kind == "ordered rebalance"
        moved = [
            row._replace(number=highest + at, write_id=newest if ordered else row.write_id)
            for at, row in enumerate(reversed(kept), 1)
        ]
        return self._rewritten(state, _REBALANCE, frozenset(moved))

    def _rewritten(self, state: State, kind: str, rows: frozenset[Row]) -> State:
        highest = max([state.highest, *(row.number for row in rows)])
        rewrites = (*state.rewrites, kind)
        return state._replace(rows=rows, deleted=frozenset(), rewrites=rewrites, highest=highest)
