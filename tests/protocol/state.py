"""A state of the model: the metastore, the table's folder, and the progress of all actors.

States are tuples all the way down, so that they can be compared, hashed and kept by the million. One
table without partitions is enough: everything that the protocol orders happens in one folder.
"""

from typing import Literal, NamedTuple

# Transactions.
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
# It was aborted and forgotten: its id now looks committed.
FORGOTTEN = "forgotten"
# Requests in the compaction queue.
WORKING, READY, FAILED_REQUEST = "working", "ready for cleaning", "failed"
NOBODY = 2**62


class RowId(NamedTuple):
    """The writer of a row, and its key: a transaction writes a key once."""

    write_id: int
    key: int


class Row(NamedTuple):
    """A row: changes count the value up."""

    id: RowId
    value: int


class Event(NamedTuple):
    """A delete event: a deleted row, and its transaction."""

    id: RowId
    write_id: int


class Directory(NamedTuple):
    """A directory of files.

    Attributes:
        kind: Its content.
        first: The first write id of its name.
        last: The last one.
        visibility: The compaction whose commit shows it; 0 if it shows as it is.
        compacted: Whether a compaction wrote it.
        rows: Rows, or delete events.
        txn: Its writer, by its note.
        readers: The youngest transaction when it appeared, if that was noted.
    """

    kind: Literal["base", "delta", "delete_delta"]
    first: int
    last: int
    visibility: int
    compacted: bool
    rows: frozenset[Row | Event]
    txn: int
    readers: int | None = None

    @property
    def name(self) -> str:
        """Its name in Hive's grammar."""
        suffix = f"_v{self.visibility:07d}" if self.visibility else ""
        if self.kind == "base":
            return f"base_{self.last:07d}{suffix}"
        statement = "" if self.compacted else "_0000"
        return f"{self.kind}_{self.first:07d}_{self.last:07d}{statement}{suffix}"


class Txn(NamedTuple):
    """A transaction, as the metastore has it.

    Attributes:
        owner: The number of the actor that opened it.
        state: Its state.
        reads: Whether it only reads.
        aside: Whether it was opened under another name than that of its run.
        write_id: Its write id in the table; 0 is none.
        component: Its component in the metastore: "append", "change" or "compaction".
        highest: The write id of that entry, which is forgotten up to a highest write id.
        youngest: The youngest transaction when it committed a change, else 0.
        position: Its place among the commits, for the invariants only.
    """

    owner: int
    state: str = OPEN
    reads: bool = False
    aside: bool = False
    write_id: int = 0
    component: str = ""
    highest: int = 0
    youngest: int = 0
    position: int = 0


class Lock(NamedTuple):
    """A lock of a transaction; the earlier of two in the list was asked for first.

    Attributes:
        txn: Its transaction.
        kind: "read" is shared, "write" excludes others of its kind; "commits" and "compaction" are
            exclusive locks on names beside the table.
        held: Whether it is granted.
    """

    txn: int
    kind: str
    held: bool


class Snapshot(NamedTuple):
    """The view of an actor.

    Attributes:
        txns: The youngest transaction in sight.
        unfinished: Open ones, up to that.
        aborted: Aborted ones.
        high: The highest write id in sight.
        open_ids: Open write ids up to that.
        aborted_ids: Aborted ones.
        least: The smallest open transaction.
    """

    txns: int
    unfinished: frozenset[int]
    aborted: frozenset[int]
    high: int
    open_ids: frozenset[int]
    aborted_ids: frozenset[int]
    least: int

    def sees_txn(self, txn: int) -> bool:
        """Return whether a transaction is committed here."""
        return txn <= self.txns and txn not in self.unfinished and txn not in self.aborted

    def sees(self, write_id: int) -> bool:
        """Return whether a write id is committed here."""
        return (
            write_id <= self.high
            and write_id not in self.open_ids
            and write_id not in self.aborted_ids
        )

    def committed_since(self, since: "Snapshot") -> set[int]:
        """The write ids that are committed here and were open, or not there yet, in an older view.

        One that was aborted then looks committed when that is forgotten, and has changed nothing.
        """
        candidates = {*since.open_ids, *range(since.high + 1, self.high + 1)}
        return set(filter(self.sees, candidates))

    def is_over(self, txn: int) -> bool:
        """Return whether a transaction has certainly ended, of any kind."""
        ended = txn <= self.txns and txn not in self.unfinished
        return ended and (txn < self.least or txn in self.aborted)

    @property
    def least_open_id(self) -> int:
        """The smallest open write id."""
        return min(self.open_ids, default=NOBODY)


class Note(NamedTuple):
    """A note on a run, in the table's folder.

    Attributes:
        run: The run token.
        txn: The transaction that it is about.
        marked: Whether it was renamed after the commit.
    """

    run: int
    txn: int
    marked: bool


class Request(NamedTuple):
    """A request in the compaction queue of version 4."""

    state: str
    txn: int
    highest: int = 0


class Actor(NamedTuple):
    """An active participant: an attempt of a run, a compactor, a cleaner or a reader.

    Attributes:
        next: Its next action, or its end.
        txn: Its transaction.
        snapshot: Its view.
        since: The committed write ids at its beginning (policy strict).
        began: The number of commits by then, for the invariants only.
        watch: The committed write ids before its transaction was opened (version 3).
        beside: The holders of compatible locks at that time.
        ahead: The transactions that its lock waited for.
        keeper: The transaction that keeps its staged files (policy rows).
        read: The snapshot that its rows were read by (policy rows).
        plan: The directories that it is about to publish, read or remove; of a cleaner also the
            transactions whose staging folders are to go.
        requests: The requests that it is about to mark as cleaned.
        listed: The names of the directories that it has listed, if it has such requests.
        hidden: The directories that it has hidden, or found hidden.
        notes: The notes that it is about to remove.
        waited: Whether its lock was not granted at once.
    """

    next: str
    txn: int = 0
    snapshot: Snapshot | None = None
    since: Snapshot | None = None
    began: int = 0
    watch: Snapshot | None = None
    beside: frozenset[int] = frozenset()
    ahead: tuple[int, ...] = ()
    keeper: int = 0
    read: Snapshot | None = None
    plan: tuple[Directory | int, ...] = ()
    requests: tuple[int, ...] = ()
    listed: frozenset[str] | None = None
    hidden: frozenset[Directory] = frozenset()
    notes: frozenset[Note] = frozenset()
    waited: bool = False

    def ended(self, how: str) -> "Actor":
        """The same at its end, with nothing in mind any more."""
        return Actor(how, self.txn, began=self.began)


class State(NamedTuple):
    """Everything there is.

    Attributes:
        txns: The transactions; number n is at n - 1.
        writers: The transactions of the write ids 1, 2, ...
        locks: In the order of asking.
        directories: The visible content of the table's folder.
        hidden: The directories there that cleaners have hidden and not deleted.
        staged: The transactions that have a staging folder there.
        notes: On runs.
        queue: The requests, the oldest first.
        actors: The active participants.
        faults: The number of further faults.
    """

    txns: tuple[Txn, ...]
    writers: tuple[int, ...]
    locks: tuple[Lock, ...]
    directories: frozenset[Directory]
    hidden: frozenset[Directory]
    staged: frozenset[int]
    notes: frozenset[Note]
    queue: tuple[Request, ...]
    actors: tuple[Actor, ...]
    faults: int

    def txn(self, number: int) -> Txn:
        """A transaction by its number."""
        return self.txns[number - 1]

    def is_open(self, number: int) -> bool:
        """Return whether a transaction can still be committed."""
        return self.txns[number - 1].state == OPEN

    def with_actor(self, number: int, **changes: object) -> "State":
        """The same with an actor that has got on."""
        actor = self.actors[number]._replace(**changes)
        return self._replace(actors=(*self.actors[:number], actor, *self.actors[number + 1 :]))

    def with_txn(self, number: int, **changes: object) -> "State":
        """The same with a transaction that has changed."""
        txn = self.txns[number - 1]._replace(**changes)
        return self._replace(txns=(*self.txns[: number - 1], txn, *self.txns[number:]))

    def ended(self, number: int, how: str) -> "State":
        """The same with an actor that is at its end."""
        actor = self.actors[number].ended(how)
        return self._replace(actors=(*self.actors[:number], actor, *self.actors[number + 1 :]))

    def with_readers(self, names: set[str]) -> "State":
        """Return the same with notes in directories on the present readers of replaced ones."""
        noted = frozenset(
            each._replace(readers=len(self.txns))
            if each.name in names and each.readers is None
            else each
            for each in self.directories
        )
        return self._replace(directories=noted)

    def without_dead_requests(self) -> "State":
        """The same with an end to the requests of compactors that have died."""
        queue = (
            request._replace(state=self._outcome(request)) if self._is_dead(request) else request
            for request in self.queue
        )
        return self._replace(queue=tuple(queue))

    def _outcome(self, request: Request) -> str:
        return READY if self.txn(request.txn).state == COMMITTED else FAILED_REQUEST

    def _is_dead(self, request: Request) -> bool:
        if request.state == READY:
            return self.txn(request.txn).state == ABORTED
        return request.state == WORKING and not self.is_open(request.txn)
