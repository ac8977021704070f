"""Position of a stream in its table, and its comparison with the checkpoint.

Spark's checkpoint contains the rows of each batch, and the notes on runs record the applied
batches. Neither helps if the checkpoint is lost, or is an old copy: a new query begins with batch
0, and would apply all rows again. So the table also stores the id of the query that writes it, the
last applied batch, and a digest of the batch's offsets. A query is refused before it reads a row if
it has another id, has not planned that batch yet, or has planned it with other rows.
"""

from dataclasses import dataclass

from hiveacid.errors import CheckpointMismatch, StreamOvertaken
from hiveacid.jobs.stream_job import StreamJob, stream_token

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
class StreamPlace:
    """Position of a stream in its first table.

    Attributes:
        name: The stream.
        query_id: The query that writes the table.
        batch_id: The last batch of it that is known to be applied; -1 before the first batch.
        number: The number of the position, ascending: a new one is never written over another.
        checkpoint: The location of the query's checkpoint.
        offsets: A digest of the offsets of that batch; None before the first batch, and in
            positions written before digests existed.
    """

    name: str
    query_id: str
    batch_id: int
    number: int
    checkpoint: str = ""
    offsets: str | None = None

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


def require_same_batch(job: StreamJob, batch_id: int, applied: str | None, planned: str) -> None:
    """Refuse a batch whose number was applied with rows other than those in the checkpoint.

    Args:
        job: The stream.
        batch_id: The batch.
        applied: The digest of the offsets that it was applied with; None if it is unknown.
        planned: The digest of the offsets in the checkpoint.

    Raises:
        CheckpointMismatch: The digests differ.
    """
    if applied not in (None, planned):
        raise CheckpointMismatch(
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
        CheckpointMismatch: The checkpoint belongs to another query, or is an old copy.
    """
    query = checkpoint.query_id
    if place is None:
        if checkpoint.done == NO_BATCH or reset_query == query:
            return
        raise CheckpointMismatch(
            f"The checkpoint {checkpoint.location} is at batch {checkpoint.done} of query "
            f"{query}, but {table} does not know the stream {name}.",
            remedy="Name the stream and the first table as before, or give this stream a checkpoint "
            f"of its own. reset_query={query!r} continues after that batch nevertheless.",
        )
    if query == place.query_id:
        if checkpoint.planned >= place.batch_id:
            return
        raise CheckpointMismatch(
            f"Stream {name} is at batch {place.batch_id} of query {query} in {table}, but the "
            f"checkpoint {checkpoint.location} only to batch {checkpoint.planned}: it is an old copy.",
            remedy="Put the newest checkpoint there. Rows that this one has not seen may be in the "
            "table already.",
        )
    if reset_query == place.query_id:
        return
    found = "is not there" if query is None else f"is that of query {query}"
    raise CheckpointMismatch(
        f"Stream {name} is at batch {place.batch_id} of query {place.query_id} in {table}, but "
        f"the checkpoint {checkpoint.location} {found}.",
        remedy=f"Put the checkpoint of that query there; it was at {place.checkpoint}. If it is lost, "
        "set the starting position in the options of the source, and reset_query="
        f"{place.query_id!r} in the job; otherwise rows of the table are written a second time.",
    )
