"""The job that writes a stream into tables, one transaction for each micro-batch."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.field_checks import is_template, require_mapping, require_text
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.report import Report
from airflow_hiveacid.jobs.run_token import statement_token
from airflow_hiveacid.jobs.secret_options import without_secrets
from airflow_hiveacid.jobs.sources import (
    PATH_FORMATS,
    BatchSource,
    ChangesSource,
    PathFormat,
    TableSource,
)
from airflow_hiveacid.jobs.stream_report import StreamReport
from airflow_hiveacid.jobs.transaction_job import StatementsJob, TransactionJob
from airflow_hiveacid.text.quantities import parse_duration

AVAILABLE_NOW = "available_now"
# Spark properties that begin so are options of the source, too. Spark shows no "secret" anywhere.
SECRET_OPTION = "spark.hiveacid.secret."
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True, slots=True, repr=False)
class StreamSource:
    """What Spark's Structured Streaming reads.

    Example::

        StreamSource("kafka", {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"})
        StreamSource("json", {"path": "s3a://landing/orders"}, "id bigint, status string")

    Attributes:
        format: "kafka", "json", "csv", "orc", "parquet", "text", "rate", or any other source of
            streams that the application has the jars of.
        options: Spark's options of the source; of files "path" among them. Secret ones come better
            from Spark properties, "spark.hiveacid.secret.kafka.sasl.jaas.config" for example; those
            that have a telling name are not shown.
        schema: Columns as DDL text; files need it.
    """

    format: PathFormat | Literal["kafka", "text", "rate"] | str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def __repr__(self) -> str:
        """The source, without secrets: it may get into a log."""
        shown = without_secrets(self.options)
        return f"StreamSource(format={self.format!r}, options={shown!r}, schema={self.schema!r})"

    def validate(self) -> None:
        """Raise InvalidJob when the source cannot be used."""
        require_text(self.format, "source.format")
        if self.schema is not None:
            require_text(self.schema, "source.schema")
        require_mapping(self.options, "source.options", '{"subscribe": "orders"}')
        for name, value in self.options.items():
            require_text(name, "source.options")
            if not isinstance(value, str):
                raise InvalidJob(f"source.options: {name} is no text; write {str(value)!r}.")
        if self.format in PATH_FORMATS:
            if self.schema is None:
                raise InvalidJob(f"source.schema is missing: a stream of {self.format} needs it.")
            if "path" not in self.options:
                raise InvalidJob(f"source.options has no path: a stream of {self.format} needs it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob(StatementsJob):
    """Write a stream into one table or several, each micro-batch in one transaction, exactly once.

    What is done with the rows of a batch is said by ordinary jobs that read a BatchSource: inserts,
    merges by a key, updates and deletes. All of them are one transaction.

    Attributes:
        name: Tells the stream from others that write the first table.
        source: Where the rows come from.
        statements: What to do with every batch.
        checkpoint: The folder in which Spark keeps how far it has read, with its scheme, like
            "hdfs://nn/checkpoints/orders". It belongs to the stream as the table does: whoever
            loses it has lost the place.
        trigger: How often a batch begins, like "10 s"; or "available_now": all that is there, in as
            many batches as the source's limits ask for, and then an end.
        run_for: After how long the stream ends by itself, between two batches, like "55 min"; None
            is never.
        begin_anew: The id of a query whose place is given up, if its checkpoint is lost. It is what
            the error says that this would cause otherwise.
        target: The table of the first statement, which is filled in.
    """

    tag: ClassVar[str] = "stream"
    report: ClassVar[type[Report]] = StreamReport

    name: str
    source: StreamSource
    checkpoint: str
    trigger: str = "10 s"
    run_for: str | None = None
    begin_anew: str | None = None

    @property
    def transaction(self) -> TransactionJob:
        """What is done with a batch, as a job of its own."""
        transaction = TransactionJob(target=self.target, statements=self.statements)
        # Each batch has a token of its own.
        return transaction.bind(self, run_token=None, run_id=None)

    @property
    def reads_batch_again(self) -> bool:
        """Whether the rows of a batch are read more than once, or beside what takes two looks."""
        return len(self.statements) > 1 or _has(self.statements, (TableSource, ChangesSource))

    @property
    def interval(self) -> timedelta | None:
        """How often a batch begins; None is ``available_now``."""
        return None if self.trigger == AVAILABLE_NOW else parse_duration(self.trigger, "trigger")

    @property
    def limit(self) -> timedelta | None:
        """After how long the stream ends by itself."""
        return None if self.run_for is None else parse_duration(self.run_for, "run_for")

    def validate(self) -> None:
        """Raise InvalidJob when the job is malformed; touches no server."""
        self.transaction.validate()
        Job.validate(self)

    def _validate_own(self) -> None:
        require_stream_name(self.name)
        if not isinstance(self.source, StreamSource):
            raise InvalidJob(f"source: {self.source!r} is no StreamSource.")
        self.source.validate()
        if not _has(self.statements, (BatchSource,)):
            raise InvalidJob(
                "No statement reads the rows of the stream.",
                remedy="Give at least one of them a BatchSource().",
            )
        require_text(self.checkpoint, "checkpoint")
        if ":/" not in self.checkpoint and not is_template(self.checkpoint):
            raise InvalidJob(
                f"checkpoint {self.checkpoint!r} does not say on which file system it is.",
                remedy=f"Write file:{self.checkpoint}, for example.",
            )
        for text, what in ((self.trigger, "trigger"), (self.run_for, "run_for")):
            if text is None or (what, text) == ("trigger", AVAILABLE_NOW) or is_template(text):
                continue
            if not parse_duration(text, what):
                raise InvalidJob(f"{what} is no time at all.")


def stream_token(name: str, query_id: str, batch_id: int) -> str:
    """The run token of one batch of a stream.

    Args:
        name: The stream.
        query_id: Spark's id of the query, which lives as long as its checkpoint.
        batch_id: The batch.
    """
    return statement_token(f"stream/{name}/{query_id}", batch_id)


def require_stream_name(name: object) -> None:
    """Raise InvalidJob unless it can be the name of a stream, or is a template."""
    named = isinstance(name, str) and (is_template(name) or _NAME.fullmatch(name))
    if not named:
        raise InvalidJob(
            f"{name!r} is no name of a stream.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def _has(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a part of a job, or of what is in it, is of one of these kinds."""
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, tuple):
        parts = value
    elif is_dataclass(value):
        parts = (getattr(value, each.name) for each in fields(value))
    return isinstance(value, kinds) or any(_has(part, kinds) for part in parts)
