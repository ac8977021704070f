"""Job that writes a stream into tables, with one transaction for each micro-batch."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, options_without_secrets
from hiveacid.jobs.checks import Check, checks_of
from hiveacid.jobs.fields import awaits_rendering, require_mapping, require_text, require_types
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import Report, TableReport
from hiveacid.jobs.sources import (
    PATH_FORMATS,
    PATH_OPTIONS,
    BatchSource,
    ChangesSource,
    PathFormat,
    TableSource,
)
from hiveacid.jobs.write_jobs import StatementsJob, TransactionJob
from hiveacid.rules.formats import Evidence
from hiveacid.rules.run_tokens import statement_token
from hiveacid.rules.texts import parse_duration, plural

# Progress of a stream after each batch, and its results at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress(Evidence):
    """Progress of a stream after a batch.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batch_id: The batch.
        txn_id: The transaction; None if an earlier attempt had applied the batch.
        write_ids: The write id of each written table.
        rows: Rows of the batch, as returned by the source.
        rows_per_second: The rate of their processing.
        seconds: From the planning of the batch to its commit.
        latency: The maximum time, in seconds, that a row which was not left behind can have waited
            until it could be read: from Spark's last check for rows before this batch to the
            commit. None for the first batch.
        backlog: Rows of the source that the batch did not process, if the source reports them.
        committed_at: The time of its commit, in seconds since 1970.
    """

    name: str
    query_id: str
    batch_id: int
    txn_id: int | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    rows_per_second: float = 0.0
    seconds: float = 0.0
    latency: float | None = None
    backlog: int | None = None
    committed_at: float | None = None

    def __str__(self) -> str:
        parts = [
            f"{plural(self.rows, 'row')} in {self.seconds:.1f} s, {self.rows_per_second:.0f} rows/s"
        ]
        if self.latency is not None:
            parts.append(f"readable after at most {self.latency:.1f} s")
        if self.backlog is not None:
            parts.append(f"{plural(self.backlog, 'row')} behind")
        return f"batch {self.batch_id}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport(Report):
    """Result of one run of a stream.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batches: The number of applied batches.
        last_batch: The last of them; None without a batch.
        rows: Rows returned by the source.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        tables: The changes of each table.
        latency: The maximum wait of a row, see StreamProgress, at "p50", "p99" and "max" of the
            batches.
        backlog: Rows of the source that were not processed, if the source reports them.
        ended: Why the stream ended: "no more rows", "asked to" or "time".
        already_done: No batch was new: earlier attempts had applied them.
    """

    job: str = "stream"
    name: str = ""
    query_id: str | None = None
    batches: int = 0
    last_batch: int | None = None
    rows: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    tables: tuple[TableReport, ...] = ()
    latency: Mapping[str, float] = field(default_factory=dict)
    backlog: int | None = None
    ended: str = ""
    already_done: bool = False

    def table_names(self) -> Iterator[str]:
        """Yield the target, and the tables of its changes."""
        yield self.target
        yield from (table.table for table in self.tables)


AVAILABLE_NOW = "available_now"
# Prefix of Spark properties that are options of the source. Spark redacts "secret" ones.
SECRET_OPTION = "spark.hiveacid.secret."
_CLEAN, _ARCHIVE = "cleansource", "sourcearchivedir"
# Options of sources of files with their locations, or with what happens to the files.
LOCATION_OPTIONS = PATH_OPTIONS | {_CLEAN, _ARCHIVE}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True, slots=True, repr=False)
class StreamSource:
    """Source of Spark's Structured Streaming.

    Example::

        StreamSource("kafka", {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"})
        StreamSource("json", {"path": "s3a://landing/orders"}, "id bigint, status string")

    Attributes:
        format: "kafka", "json", "csv", "orc", "parquet", "text", "rate", or any other source of
            streams whose jars the application has.
        options: Spark's options of the source, including "path" for files. Secrets should be Spark
            properties instead, for example "spark.hiveacid.secret.kafka.sasl.jaas.config"; options
            whose names indicate a secret are not shown. A header of a CSV file that differs from the
            schema is an error, unless ``enforceSchema`` is "true", which assigns columns by their
            position.
        schema: Columns as DDL text; required for files.
    """

    format: PathFormat | Literal["kafka", "text", "rate"] | str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    @property
    def paths_read(self) -> tuple[str, ...]:
        """The files, if it is a source of files."""
        return tuple(self._values(PATH_OPTIONS))

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The files that the source moves or deletes when it has read them."""
        moves = any(value.lower() != "off" for value in self._values({_CLEAN}))
        return (*(self.paths_read if moves else ()), *self._values({_ARCHIVE}))

    def _values(self, names: Container[str]) -> Iterator[str]:
        """Yield the values of options, whose names may be written in any case."""
        yield from (value for name, value in self.options.items() if name.lower() in names)

    def __repr__(self) -> str:
        """Return the source without secrets, as the text may be logged."""
        safe_options = options_without_secrets(self.options)
        return f"StreamSource(format={self.format!r}, options={safe_options!r}, schema={self.schema!r})"

    def validate(self) -> None:
        """Raise InvalidJob if the source is invalid."""
        require_text(self.format, "source.format")
        if self.schema is not None:
            require_text(self.schema, "source.schema")
            require_types(self.schema, "source.schema")
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

    Ordinary jobs that read a BatchSource process the rows of a batch: inserts, merges by a key,
    updates and deletes. All of them are one transaction.

    Attributes:
        name: The name of the stream, unique for its first table.
        source: The source of the rows.
        statements: The jobs for every batch.
        checkpoint: The folder for Spark's read position, like "hdfs://nn/checkpoints/orders";
            without a scheme, it is in Spark's default file system, like the path of a PathSource.
            It is a part of the stream, like the table: without it, the position is lost.
        trigger: The interval between batches, like "10 s"; or "available_now": process everything
            available, in as many batches as the source's limits require, and end.
        run_for: The time after which the stream ends by itself, between two batches, like
            "55 min"; None for no limit.
        reset_query: The id of a query whose position is discarded if its checkpoint is lost. The
            error for the lost checkpoint contains this id.
        checks: The checks of several tables in each batch, beside those of the statements.
        target: The table of the first statement, which is set automatically.
    """

    tag: ClassVar[str] = "stream"
    report: ClassVar[type[Report]] = StreamReport

    name: str
    source: StreamSource
    checkpoint: str
    trigger: str = "10 s"
    run_for: str | None = None
    reset_query: str | None = None
    checks: Sequence[Check] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", checks_of(self.checks))
        StatementsJob.__post_init__(self)

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The checkpoint."""
        return (self.checkpoint,)

    @property
    def transaction(self) -> TransactionJob:
        """The statements for a batch as a separate job."""
        transaction = TransactionJob(
            target=self.target, statements=self.statements, checks=self.checks
        )
        # Each batch has a token of its own.
        return transaction.bind(self, run_token=None, run_id=None)

    @property
    def reads_batch_again(self) -> bool:
        """Whether several statements read a batch, or one also reads tables or changes."""
        return len(self.statements) > 1 or _has(self.statements, (TableSource, ChangesSource))

    @property
    def interval(self) -> timedelta | None:
        """The interval between batches; None for ``available_now``."""
        return None if self.trigger == AVAILABLE_NOW else parse_duration(self.trigger, "trigger")

    @property
    def limit(self) -> timedelta | None:
        """The time after which the stream ends by itself."""
        return None if self.run_for is None else parse_duration(self.run_for, "run_for")

    def validate(self) -> None:
        """Raise InvalidJob if the job is malformed; contacts no server."""
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
        absolute = ":/" in self.checkpoint or self.checkpoint.startswith("/")
        if not absolute and not awaits_rendering(self.checkpoint):
            raise InvalidJob(
                f"checkpoint {self.checkpoint!r} is relative to the folder of a process.",
                remedy=f"Write an absolute path, /{self.checkpoint}, for example.",
            )
        for text, field_name in ((self.trigger, "trigger"), (self.run_for, "run_for")):
            if (
                text is None
                or (field_name, text) == ("trigger", AVAILABLE_NOW)
                or awaits_rendering(text)
            ):
                continue
            if not parse_duration(text, field_name):
                raise InvalidJob(f"{field_name} must be positive.")


def stream_token(name: str, query_id: str, batch_id: int) -> str:
    """Return the run token of one batch of a stream.

    Args:
        name: The stream.
        query_id: Spark's id of the query, which exists as long as its checkpoint.
        batch_id: The batch.
    """
    return statement_token(f"stream/{name}/{query_id}", batch_id)


def require_stream_name(name: object) -> None:
    """Raise InvalidJob unless the value is valid as the name of a stream, or is a template."""
    is_name = isinstance(name, str) and (awaits_rendering(name) or _NAME.fullmatch(name))
    if not is_name:
        raise InvalidJob(
            f"{name!r} is no name of a stream.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def _has(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a part of a job, or a nested part, is of one of these kinds."""
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, tuple):
        parts = value
    elif is_dataclass(value):
        parts = (getattr(value, field.name) for field in fields(value))
    return isinstance(value, kinds) or any(_has(part, kinds) for part in parts)
