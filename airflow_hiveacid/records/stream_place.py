"""How far a stream has come, as its table tells it, and whether its checkpoint tells the same.

Spark's checkpoint knows which rows a batch has, and the notes on runs which batches were applied.
Neither helps when the checkpoint is lost, or is an old copy: a new query begins with batch 0, and
would apply all rows once more. So the table also keeps the id of the query that writes it, the
last batch that was applied, and a digest of its offsets. A query that is not this one, that has not even
planned that batch, or that has planned it with other rows, is refused before it reads a row.
"""

import json
from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.errors import CheckpointMismatch, InvalidJob, StreamOvertaken
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.stream_job import StreamJob, stream_token

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What the checkpoint of a query says.

    Attributes:
        location: The folder.
        query_id: The query; None if there is no checkpoint yet.
        planned: The last batch whose rows are known; -1 is none.
        done: The last batch that Spark knows to have been applied; -1 is none.
    """

    location: str
    query_id: str | None = None
    planned: int = NO_BATCH
    done: int = NO_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlace:
    """How far a stream has come in its first table.

    Attributes:
        name: The stream.
        query_id: The query that writes the table.
        batch_id: The last batch of it that is known to be applied; -1 is none.
        number: Counts the places of the stream: a new one is never written over another.
        checkpoint: Where the query's checkpoint was.
        offsets: A digest of the offsets of that batch; None without a batch, and in places that were
            written before there were digests.
    """

    name: str
    query_id: str
    batch_id: int
    number: int
    checkpoint: str = ""
    offsets: str | None = None

    @property
    def next_token(self) -> str:
        """The run token of the batch that comes next, or that was applied just before a kill."""
        return stream_token(self.name, self.query_id, self.batch_id + 1)

    def to_bytes(self) -> bytes:
        """The content of the place's file."""
        return json.dumps(codec.to_record(self), indent=1).encode()

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Read a place; None when it is none."""
        try:
            return codec.from_record(cls, json.loads(content), "place")
        except (ValueError, RecursionError, InvalidJob):
            return None

    def require_before(self, query_id: str, batch_id: int) -> None:
        """Refuse a batch that must not be applied any more.

        Raises:
            StreamOvertaken: It was applied already, or another query has taken the stream over.
        """
        if self.query_id != query_id or self.batch_id >= batch_id:
            raise StreamOvertaken(
                f"Batch {batch_id} of query {query_id} comes too late: stream {self.name} has come to "
                f"batch {self.batch_id} of query {self.query_id}."
            )


def require_same_batch(job: StreamJob, batch_id: int, applied: str | None, planned: str) -> None:
    """Refuse a batch whose number was applied with other rows than the checkpoint has for it.

    Args:
        job: The stream.
        batch_id: The batch.
        applied: The digest of the offsets that it was applied with; None is not known.
        planned: The digest of the offsets in the checkpoint.

    Raises:
        CheckpointMismatch: They differ.
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
    begin_anew: str | None,
) -> None:
    """Refuse to start a query from a checkpoint that is not the one which the table knows.

    Args:
        name: The stream.
        table: Its first table.
        place: How far it has come there; None if the table does not know the stream.
        checkpoint: What the checkpoint says.
        begin_anew: The query whose place may be given up.

    Raises:
        CheckpointMismatch: It is another query's, or an old copy.
    """
    query = checkpoint.query_id
    if place is None:
        if checkpoint.done == NO_BATCH or begin_anew == query:
            return
        raise CheckpointMismatch(
            f"The checkpoint {checkpoint.location} has come to batch {checkpoint.done} of query "
            f"{query}, but {table} does not know the stream {name}.",
            remedy="Name the stream and the first table as before, or give this stream a checkpoint "
            f"of its own. begin_anew={query!r} goes on behind that batch all the same.",
        )
    if query == place.query_id:
        if checkpoint.planned >= place.batch_id:
            return
        raise CheckpointMismatch(
            f"Stream {name} has come to batch {place.batch_id} of query {query} in {table}, but the "
            f"checkpoint {checkpoint.location} only to batch {checkpoint.planned}: it is an old copy.",
            remedy="Put the newest checkpoint there. Rows that this one has not seen may be in the "
            "table already.",
        )
    if begin_anew == place.query_id:
        return
    found = "is not there" if query is None else f"is that of query {query}"
    raise CheckpointMismatch(
        f"Stream {name} has come to batch {place.batch_id} of query {place.query_id} in {table}, but "
        f"the checkpoint {checkpoint.location} {found}.",
        remedy=f"Put the checkpoint of that query there; it was at {place.checkpoint}. If it is lost, "
        "say in the options of the source where to go on, and begin_anew="
        f"{place.query_id!r} in the job; else rows that are in the table already come again.",
    )
