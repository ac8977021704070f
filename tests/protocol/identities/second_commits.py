"""A statement that reads a table, loses its transaction, and may be committed by a second one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.identities.small_model import Promise, SmallModel, Step

OPEN, ABORTED = "open", "aborted"
# The rows of the version that is read, a file each. Only the transaction keeps a cleaner from them.
_ROWS = frozenset({1, 2})


class State(NamedTuple):
    """The progress of the statement, and the changes of the table.

    Attributes:
        next: The next step.
        txn: The state of the first transaction.
        listed: The number of directories that have been read.
        read: The rows that were found in them.
        confirmed: Whether the transaction was alive after the last read.
        declares: Whether the statement records its reads.
        files: The files that are still there.
        table: The creation of the table.
        version: The number of changes that others have committed.
        committed: The committed rows, and the creation and the version before them.
    """

    next: str = "read"
    txn: str = OPEN
    listed: int = 0
    read: frozenset[int] = frozenset()
    confirmed: bool = False
    declares: bool = False
    files: frozenset[int] = _ROWS
    table: int = 1
    version: int = 0
    committed: tuple[frozenset[int], int, int] | None = None


@dataclass(frozen=True)
class SecondCommits(SmallModel):
    """One statement. It reads two directories, one after the other."""

    @property
    def start(self) -> State:
        """A table with an old version that two files have."""
        return State()

    def steps(self, state: State) -> Iterator[Step]:
        """The statement, the time-out, a cleaner, and other clients."""
        if state.next != "end":
            yield state.next, getattr(self, f"_{state.next}")(state)
        if state.next == "read" and not state.listed:
            yield "read and record it", self._read(state)._replace(declares=True)
        if state.txn == OPEN:
            if state.next != "end":
                yield "metastore: time out", state._replace(txn=ABORTED)
            return
        # The transaction holds a lock: only after it others change or drop the table.
        for file in sorted(state.files):
            yield f"cleaner: remove {file}", state._replace(files=state.files - {file})
        if not state.version:
            yield "other: commit a change", state._replace(version=1)
        if state.table == 1:
            yield "other: drop and create the table", state._replace(table=2, files=frozenset())

    def broken_in(self, state: State) -> Promise | None:
        """Compare the committed rows with those of the snapshot."""
        if state.committed is None:
            return None
        rows, table, version = state.committed
        if table != 1:
            return Promise.OTHER_TABLE
        if rows != _ROWS:
            return Promise.COMPLETE_READ
        return Promise.NO_LOST_UPDATE if version else None

    def _read(self, state: State) -> State:
        """Read one directory; one that a cleaner has removed is not listed, and not missed."""
        early = state.listed == 0 and not self.keeps("confirm after the last read")
        confirmed = early and state.txn == OPEN
        listed = state.listed + 1
        return state._replace(
            next="read" if listed < len(_ROWS) else "confirm",
            listed=listed,
            read=state.read | (state.files & {listed}),
            confirmed=state.confirmed or confirmed,
        )

    def _confirm(self, state: State) -> State:
        """Ask the metastore whether the transaction is alive; the work goes on in any case."""
        if self.keeps("confirm after the last read"):
            state = state._replace(confirmed=state.txn == OPEN)
        return state._replace(next="commit")

    def _commit(self, state: State) -> State:
        if state.txn == OPEN:
            return self._committed(state)
        return state._replace(next="second" if self._may_commit_again(state) else "end")

    def _may_commit_again(self, state: State) -> bool:
        if self.keeps("alive after the last read"):
            return state.confirmed
        # An empty record of reads is taken for evidence.
        return state.confirmed or not state.declares or state.read == _ROWS

    def _second(self, state: State) -> State:
        """Open a second transaction and compare under its lock."""
        changed = state.version and self.keeps("a second commit compares versions")
        recreated = state.table != 1 and self.keeps("a second commit compares tables")
        return state._replace(next="end") if changed or recreated else self._committed(state)

    def _committed(self, state: State) -> State:
        return state._replace(next="end", committed=(state.read, state.table, state.version))
