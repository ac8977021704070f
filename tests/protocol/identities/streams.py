"""Two drivers of one stream; one has a copy of the other one's checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

_ROWS = 3


class Checkpoint(NamedTuple):
    """A checkpoint of Spark.

    Attributes:
        ends: The offset at which each planned batch ends, by its number.
        committed: The number of committed batches.
    """

    ends: tuple[int, ...] = ()
    committed: int = 0


class State(NamedTuple):
    """Everything there is.

    Attributes:
        rows: The number of rows in the source.
        checkpoints: The checkpoint of each driver; None until it is copied.
        place: The number of batches in the table, by its position file.
        last: The digest of the last one, in the same file.
        digests: The digests of the batches whose notes are kept, by number.
        applied: The rows that were written, one entry for each time.
        stopped: The drivers that have ended with an error.
    """

    rows: int = 1
    checkpoints: tuple[Checkpoint | None, ...] = (Checkpoint(), None)
    place: int = 0
    last: int = 0
    digests: tuple[tuple[int, int], ...] = ()
    applied: tuple[int, ...] = ()
    stopped: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Streams(SmallModel):
    """A stream of three rows. Both drivers have the name and the query id of the stream.

    Attributes:
        notes: The number of notes on batches that are kept.
    """

    notes: int = 2

    @property
    def start(self) -> State:
        """One driver, and a source with one row."""
        return State()

    def steps(self, state: State) -> Iterator[Step]:
        """Return the steps of drivers, in any order; each step is stored, so a kill loses nothing."""
        if state.rows < _ROWS:
            yield "source: add a row", state._replace(rows=state.rows + 1)
        if state.checkpoints[1] is None:
            copied = (state.checkpoints[0], state.checkpoints[0])
            yield "other: copy the checkpoint", state._replace(checkpoints=copied)
        for number, checkpoint in enumerate(state.checkpoints):
            if checkpoint is None or number in state.stopped:
                continue
            ends, committed = checkpoint
            if committed == len(ends):
                if state.rows > (ends[-1] if ends else 0):
                    planned = Checkpoint((*ends, state.rows), committed)
                    yield f"{number}: plan", self._with(state, number, planned)
                continue
            yield f"{number}: apply", self._apply(state, number, ends, committed)

    def broken_in(self, state: State) -> Promise | None:
        """Compare the applied batches with the committed ones in the checkpoints."""
        if len(set(state.applied)) < len(state.applied):
            return Promise.ROWS_ONCE
        for checkpoint in filter(None, state.checkpoints):
            end = checkpoint.ends[checkpoint.committed - 1] if checkpoint.committed else 0
            if not set(range(end)) <= set(state.applied):
                return Promise.NO_ROW_LOST
        return None

    def _with(self, state: State, number: int, checkpoint: Checkpoint) -> State:
        checkpoints = (*state.checkpoints[:number], checkpoint, *state.checkpoints[number + 1 :])
        return state._replace(checkpoints=checkpoints)

    def _apply(self, state: State, number: int, ends: tuple[int, ...], batch: int) -> State:
        """Apply a batch, unless the table has it; its transaction stores note and place."""
        digest, noted = ends[batch], dict(state.digests).get(batch)
        done = self._with(state, number, Checkpoint(ends, batch + 1))
        if batch == state.place:
            rows = range(ends[batch - 1] if batch else 0, digest)
            return done._replace(
                place=batch + 1,
                last=digest,
                digests=(*state.digests, (batch, digest))[-self.notes :],
                applied=tuple(sorted((*state.applied, *rows))),
            )
        known = set[int]()
        if noted is not None:
            known |= {noted} if self.keeps("a note has the digest of its batch") else {digest}
        if batch == state.place - 1:
            known |= {state.last} if self.keeps("the position has a digest") else {digest}
        if not known and not self.keeps("a batch without its note is refused"):
            known = {digest}
        return done if known == {digest} else state._replace(stopped=state.stopped | {number})
