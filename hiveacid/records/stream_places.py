"""Files of a table with the positions and the states of streams."""

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    InvalidJob,
    NotAFile,
    PositionMismatch,
    StreamOvertaken,
    TooLarge,
)
from hiveacid.jobs import codec
from hiveacid.jobs.stream_job import StreamJob, StreamProgress, stream_token
from hiveacid.records.proofs import NoteName, digest_of
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import NUMBERED, Kind, RecordStore, SignedRecord
from hiveacid.rules.formats import Evidence
from hiveacid.rules.names import RUN_NOTES, STREAM_PLACES, UNFINISHED_PREFIX
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# State of a stream, for display.
#
# Nothing depends on it: the position and the notes determine the applied batches.


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState(Evidence):
    """State of a stream, as stored in its first table.

    Attributes:
        name: The stream.
        run_token: "dag/run/task/map index" of the Airflow task; None without a task.
        trigger: The interval between batches, or "available_now".
        tables: The tables that it writes.
        started_at: The time when its last run began, in seconds since 1970.
        told_at: The time of its driver's last report; a running driver reports every minute.
        batches: The number of batches that the run has applied.
        rows: Rows that the source gave to it.
        last: Its last batch, which may belong to an earlier run.
        ended: Why the run ended: "no more rows", "asked to", "time" or "failed"; None while it runs.
            In a list, also the reason why nothing else is known.
        error: The id of the error that it failed with.
    """

    name: str
    run_token: str | None = None
    trigger: str = ""
    tables: tuple[str, ...] = ()
    started_at: float
    told_at: float
    batches: int = 0
    rows: int = 0
    last: StreamProgress | None = None
    ended: str | None = None
    error: str | None = None


# Position of a stream in its table, and its comparison with the checkpoint.
#
# Spark's checkpoint contains the rows of each batch, and the notes on runs record the applied
# batches. Neither helps if the checkpoint is lost, or is an old copy: a new query begins with
# batch 0, and would apply all rows again. So the table also stores the id of the query that writes
# it, the last applied batch, and a digest of the batch's offsets. A query is refused before it
# reads a row if it has another id, has not planned that batch yet, or has planned it with other
# rows.


NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """State of a query according to its checkpoint.

    Attributes:
        location: The folder.
        query_id: The query; None without a checkpoint.
        planned: The last batch whose rows are known; -1 before the first batch.
        done: The last batch that Spark recorded as applied; -1 before the first batch.
    """

    location: str
    query_id: str | None = None
    planned: int = NO_BATCH
    done: int = NO_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlace(SignedRecord):
    """Position of a stream in its first table.

    Attributes:
        name: The stream.
        query_id: The query that writes the table.
        batch_id: The last batch of it that is known to be applied; -1 before the first batch.
        number: The number of the position, ascending: a new one is never written over another.
        checkpoint: The location of the query's checkpoint.
        offsets: A digest of the offsets of that batch; None before the first batch.
    """

    record_kind = Kind(
        title="the place of a stream",
        folder=STREAM_PLACES,
        files=rf"[^/]+/{NUMBERED}",
        is_numbered=True,
        remedy="Restore it; without it the applied batches are unknown. If it was written before the key of"
        " signatures, remove it, and set reset_query to the query of the checkpoint.",
        loss="streams do not know which batches they have applied",
    )

    name: str
    query_id: str
    batch_id: int
    number: int
    checkpoint: str = ""
    offsets: str | None = None

    def require_sound(self, place: str) -> None:
        """See the base class."""
        if not place.endswith(f"/{self.name}/{self.number}.json"):
            raise ValueError("It belongs to another place.")

    @property
    def next_token(self) -> str:
        """The run token of the next batch, or of the batch applied just before a kill."""
        return stream_token(self.name, self.query_id, self.batch_id + 1)

    def require_before(self, query_id: str, batch_id: int) -> None:
        """Refuse a batch that must not be applied any more.

        Raises:
            StreamOvertaken: It was applied already, or another query has taken the stream over.
        """
        if self.query_id != query_id or self.batch_id >= batch_id:
            raise StreamOvertaken(
                f"Batch {batch_id} of query {query_id} is too late: stream {self.name} has come to "
                f"batch {self.batch_id} of query {self.query_id}."
            )


def require_same_batch(
    job: StreamJob, batch_id: int, applied_digest: str | None, planned_digest: str
) -> None:
    """Refuse a batch whose number was applied with rows other than those in the checkpoint.

    Args:
        job: The stream.
        batch_id: The batch.
        applied_digest: The digest of the offsets that it was applied with; None if it is unknown.
        planned_digest: The digest of the offsets in the checkpoint.

    Raises:
        PositionMismatch: The digests differ.
    """
    if applied_digest not in (None, planned_digest):
        raise PositionMismatch(
            f"Batch {batch_id} of stream {job.name} was applied to {job.target} with other rows than "
            f"the checkpoint {job.checkpoint} has for it, so that is a copy.",
            remedy="Put the checkpoint there that the stream was run with last.",
        )


def require_same_place(
    name: str,
    table: str,
    place: StreamPlace | None,
    checkpoint: CheckpointState,
    reset_query: str | None,
) -> None:
    """Refuse to start a query from a checkpoint that does not match the table.

    Args:
        name: The stream.
        table: Its first table.
        place: Its position there; None if the table has no position of the stream.
        checkpoint: The state of the checkpoint.
        reset_query: The query whose position may be discarded.

    Raises:
        PositionMismatch: The checkpoint belongs to another query, or is an old copy.
    """
    query = checkpoint.query_id
    if place is None:
        if checkpoint.done == NO_BATCH or reset_query == query:
            return
        raise PositionMismatch(
            f"The checkpoint {checkpoint.location} is at batch {checkpoint.done} of query "
            f"{query}, but {table} does not know the stream {name}.",
            remedy="Name the stream and the first table as before, or give this stream a checkpoint "
            f"of its own. reset_query={query!r} continues after that batch nevertheless.",
        )
    if query == place.query_id:
        if checkpoint.planned >= place.batch_id:
            return
        raise PositionMismatch(
            f"Stream {name} is at batch {place.batch_id} of query {query} in {table}, but the "
            f"checkpoint {checkpoint.location} only to batch {checkpoint.planned}: it is an old copy.",
            remedy="Put the newest checkpoint there. Rows that this one has not seen may be in the "
            "table already.",
        )
    if reset_query == place.query_id:
        return
    state_text = "is not there" if query is None else f"is that of query {query}"
    raise PositionMismatch(
        f"Stream {name} is at batch {place.batch_id} of query {place.query_id} in {table}, but "
        f"the checkpoint {checkpoint.location} {state_text}.",
        remedy=f"Put the checkpoint of that query there; it was at {place.checkpoint}. If it is lost, "
        "set the starting position in the options of the source, and reset_query="
        f"{place.query_id!r} in the job; otherwise rows of the table are written a second time.",
    )


_STOP = "stop"
_TOO_LARGE = "unknown, its state is too large for this page"
# Real tables have fewer; a hostile folder may have more.
_MOST_STATES = 100


class StreamPlaces:
    """Positions of one stream; the newest one counts.

    Args:
        storage: The folder of the stream's first table.
        name: The stream.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._folder = f"{STREAM_PLACES}/{name}"
        # Outside the folder, where writing a position removes unknown files.
        self._state_path = f"{self._folder}.json"

    @property
    def _store(self) -> RecordStore[StreamPlace]:
        return RecordStore(StreamPlace, self._storage, SigningKey.configured())

    def read(self) -> StreamPlace | None:
        """Return the position of the stream; None if the table has none.

        Raises:
            CorruptFile: The newest position cannot be read.
            NewerRecord: A newer version has written it.
        """
        newest = self._store.newest(self._name)
        return None if newest is None else newest[1]

    def required(self) -> StreamPlace:
        """Return the position of a stream that has one.

        Raises:
            PositionMismatch: The table no longer has a position of the stream.
        """
        place = self.read()
        if place is None:
            raise PositionMismatch(
                f"{self._storage.location}/{self._folder} has vanished.",
                remedy="If the table was created again, give the stream a new checkpoint.",
            )
        return place

    def write(self, place: StreamPlace) -> None:
        """Write a position as the successor of the previous one.

        Raises:
            StreamOvertaken: Another driver has done so.
            PositionMismatch: The place before it has vanished with its table.
        """
        store, follows = self._store, place.number > 0
        if not store.succeed(place.number, place, self._name, follows=follows):
            self.required()
            where = store.place(f"{self._name}/{place.number}.json")
            raise StreamOvertaken(f"Another driver of stream {place.name} has written {where}.")

    def read_state(self) -> StreamState | None:
        """Return the last state that the stream's driver reported."""
        return _state(self._storage, self._state_path)

    def write_state(self, state: StreamState) -> None:
        """Publish the state of the stream."""
        self._storage.write_file(self._state_path, codec.to_bytes(state), replace=True)

    def ask_to_stop(self) -> None:
        """Request the driver to end the stream after the current batch."""
        self._storage.write_file(f"{self._folder}/{_STOP}", b"", replace=True)

    def is_asked_to_stop(self) -> bool:
        """Whether a stop of the stream is requested."""
        return self._storage.exists(f"{self._folder}/{_STOP}")

    def begin(self) -> None:
        """Remove stop requests to earlier drivers, and unfinished files of killed ones."""
        self._storage.delete_file(f"{self._folder}/{_STOP}")
        for file in self._storage.list_files(STREAM_PLACES, missing_ok=True):
            if file.path.startswith(UNFINISHED_PREFIX) and file.path.endswith(
                f"_{self._name}.json"
            ):
                self._storage.delete_file(f"{STREAM_PLACES}/{file.path}")


def stream_states(storage: ReadOnlyStorage) -> list[StreamState]:
    """Return the states of the streams whose first table this is, as far as reported, by name.

    Args:
        storage: The folder of the table.
    """
    files = storage.list_files(STREAM_PLACES, missing_ok=True)
    names = sorted(file.path for file in files if file.path.endswith(".json"))
    states = {name: _state(storage, f"{STREAM_PLACES}/{name}") for name in names[:_MOST_STATES]}
    # A file whose name does not match its stream was cut off by a kill.
    return [state for name, state in states.items() if state and name == f"{state.name}.json"]


def _state(storage: ReadOnlyStorage, path: str) -> StreamState | None:
    try:
        return codec.read_evidence(StreamState, storage.read_small(path), path)
    except (InvalidJob, NotAFile):
        return None
    except TooLarge:
        # It must not hide other streams.
        name = path.rpartition("/")[2].removesuffix(".json")
        return StreamState(name=name, started_at=0, told_at=0, ended=_TOO_LARGE)


def digests_of_next_batches(storage: ReadOnlyStorage) -> set[str]:
    """Return the digests in the names of notes on batches that streams may retry, even much later.

    With an unreadable position, or that of a newer version, these may be all notes: its stream
    continues once it is restored, or is run by that version.

    Args:
        storage: The folder of a table.
    """
    store = RecordStore(StreamPlace, storage, SigningKey.configured())
    entries = store.entries().values()
    places = [entry for entry in entries if isinstance(entry, StreamPlace)]
    if len(places) == len(entries):
        return {digest_of(place.next_token) for place in places}
    notes = (NoteName.parse(path.rpartition("/")[2]) for path, *_ in storage.walk(RUN_NOTES))
    return {note.digest for note in notes if note is not None}
