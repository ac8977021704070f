"""The jobs: what a DAG author writes, JSON carries and the Spark application runs.

A job checks itself without touching any server, so that mistakes show while a DAG is parsed. Text
that still holds a template is checked again when it has been rendered.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self

from airflow_hiveacid.acid.merge import Clause, validate_assignments, validate_clauses
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.field_checks import (
    is_template,
    require_alias,
    require_choice,
    require_table,
    require_text,
    require_uri,
)
from airflow_hiveacid.jobs.run_token import marked_token, source_token

ORC_CODECS = frozenset({"none", "zlib", "snappy", "lz4", "zstd"})
PATH_FORMATS = frozenset({"orc", "parquet", "csv", "json"})

PartitionSpec = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreOptions:
    """How the metastore is reached. Holds no secret: a token is named, not carried.

    Attributes:
        uris: "thrift://host:port[,thrift://host2:port]" or "http[s]://host:port/path".
        user: The user to act as; None is the one who runs the job.
        connect_timeout_seconds: How long one host may take to accept a connection.
        read_timeout_seconds: How long one call may take as a whole, a second try included.
        tls: Use TLS for thrift, too; https has it anyway.
        tls_ca_file: Certificates that the server's is checked against, in place of the system's;
            switches TLS on for thrift.
        token_env: The name of an environment variable that holds a bearer token.
    """

    uris: str
    user: str | None = None
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 300
    tls: bool = False
    tls_ca_file: str | None = None
    token_env: str | None = None

    @classmethod
    def of(cls, given: "str | MetastoreOptions") -> "MetastoreOptions":
        """The options that are given, or those of a bare uri, once they are found to be usable."""
        options = cls(uris=given) if isinstance(given, str) else given
        options.validate()
        return options

    def validate(self) -> None:
        """Raise InvalidJob when the options cannot be used."""
        require_text(self.uris, "metastore.uris")
        if not is_template(self.uris):
            uris = [uri.strip() for uri in self.uris.split(",")]
            for uri in uris:
                require_uri(uri)
            if len({uri.startswith("thrift:") for uri in uris}) > 1:
                raise InvalidJob(f"metastore.uris mixes thrift and http: {self.uris!r}.")
            if self.tls and any(uri.startswith("http:") for uri in uris):
                raise InvalidJob(
                    f"metastore.tls is on, and metastore.uris is without TLS: {self.uris!r}.",
                    remedy="Write https://.",
                )
        for name in ("user", "tls_ca_file", "token_env"):
            if getattr(self, name) is not None:
                require_text(getattr(self, name), f"metastore.{name}")
                if not getattr(self, name).isprintable():
                    raise InvalidJob(f"metastore.{name} has a control character.")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidJob(f"metastore.{name} must be more than 0.")


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the metastore: ACID, or plain ORC, Parquet, CSV or JSON."""

    name: str

    def validate(self) -> None:
        """Raise InvalidJob when the source cannot be used."""
        require_table(self.name, "source")


@dataclass(frozen=True, slots=True)
class PathSource:
    """Files of one format.

    Attributes:
        path: A file, a folder or a pattern that Spark can read.
        format: "orc", "parquet", "csv" or "json".
        options: Spark's options of the format.
        schema: Columns as DDL text, "id bigint, name string"; None lets Spark find out.
    """

    path: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def validate(self) -> None:
        """Raise InvalidJob when the source cannot be used."""
        require_text(self.path, "source.path")
        require_choice(self.format, PATH_FORMATS, "source.format")
        if self.schema is not None:
            require_text(self.schema, "source.schema")


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A Spark SQL query over named inputs.

    Attributes:
        sql: The query.
        inputs: View name to what the query sees under it.
        common: View name to a query over the inputs that is evaluated once for all statements of a
            transaction that have the same one.
    """

    sql: str
    inputs: Mapping[str, TableSource | PathSource] = field(default_factory=dict)
    common: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole query, what is common to several included."""
        if not self.common:
            return self.sql
        parts = ", ".join(f"{name} AS ({query})" for name, query in self.common.items())
        inner = re.match(r"WITH (RECURSIVE )?", self.sql)
        if inner is None:
            return f"WITH {parts} {self.sql}"
        return f"{inner[0]}{parts}, {self.sql[inner.end() :]}"

    def validate(self) -> None:
        """Raise InvalidJob when the source cannot be used."""
        require_text(self.sql, "source.sql")
        _require_inputs(self.inputs, "source.inputs")
        for name, query in self.common.items():
            require_text(query, f"source.common[{name!r}]")
            if not re.fullmatch(r"\w+", name) or name in self.inputs:
                raise InvalidJob(
                    f"source.common: {name!r} cannot be the name of a view of its own."
                )


Source = TableSource | PathSource | QuerySource


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all jobs that write one table have in common.

    Attributes:
        target: The table, "database.table".
        metastore: How the metastore is reached; the operator fills it from its connection.
        run_token: Identifies the task instance, so that a retry finds its earlier transaction.
        lock_wait_seconds: How long to wait for locks.
        max_restarts: How often to begin anew when the table moved before the work began.
        orc_codec: "zlib", "snappy", "lz4", "zstd" or "none"; None takes the table's orc.compress,
            else zlib. Only Hive 4 reads zstd.
    """

    target: str
    metastore: MetastoreOptions | None = None
    run_token: str | None = None
    lock_wait_seconds: float = 300
    max_restarts: int = 5
    orc_codec: str | None = None

    def validate(self) -> None:
        """Raise InvalidJob when the job is malformed; touches no server."""
        require_table(self.target, "target")
        if self.metastore is not None:
            self.metastore.validate()
        if self.run_token is not None:
            require_text(self.run_token, "run_token")
        if self.lock_wait_seconds < 0:
            raise InvalidJob("lock_wait_seconds must not be negative.")
        if self.max_restarts < 0:
            raise InvalidJob("max_restarts must not be negative.")
        if self.orc_codec is not None:
            require_choice(self.orc_codec, ORC_CODECS, "orc_codec")
        self._validate_own()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the job writes, by their full names."""
        return (self.target,)

    @property
    def token(self) -> str | None:
        """The name of the job's transactions: the run token, with a mark of the tables."""
        return self.run_token and marked_token(self.run_token, self.tables)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all transactions that the job may open, of whatever statement."""
        if self.token is None:
            return ()
        return (self.token, source_token(self.token)) if self.keeps_source else (self.token,)

    @property
    def keeps_source(self) -> bool:
        """Whether a transaction of its own keeps the rows of a source."""
        return False

    def render(self, template: Callable[[str], str]) -> Self:
        """A copy of the job with every text (but no key of a mapping) passed through a template."""
        rendered: Self = _render(self, template)
        return rendered

    def _validate_own(self) -> None:
        """Check what only this kind of job has."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertJob(Job):
    """Append rows, or replace all rows of the table or of some partitions.

    Attributes:
        source: Where the rows come from.
        overwrite: Replace instead of append.
        partitions: The partitions that are written, and with overwrite replaced, even by nothing.
            None: an append goes where its rows belong, an overwrite replaces the whole table or,
            of a partitioned one, the partitions that the source has rows of.
        by_position: The source's columns are the table's in their order, as in SQL, with the
            partition keys last; else they are found by name.
        columns: With by_position: the table's columns that the source has, in its order; the
            others are null.
        static: Some partition keys with the value that all rows get; the source lacks these. A value
            for each of them names the one partition that is written.
        merge_schema: Add the columns to the table that only the source has, and widen numbers.
    """

    source: Source
    overwrite: bool = False
    partitions: Sequence[PartitionSpec] | None = None
    by_position: bool = False
    columns: Sequence[str] | None = None
    static: PartitionSpec | None = None
    merge_schema: bool = False

    def __post_init__(self) -> None:
        freeze(self, "partitions")
        freeze(self, "columns")

    def _validate_own(self) -> None:
        _require_source(self.source)
        if self.partitions is not None:
            _require_partitions(self.partitions)
        if self.static is not None:
            if self.partitions is not None:
                raise InvalidJob("static and partitions exclude each other; name all keys in one.")
            _require_partitions([self.static], "static")
        if self.merge_schema and self.by_position:
            raise InvalidJob("merge_schema finds columns by name; it excludes by_position.")
        if self.columns is not None:
            if not self.by_position:
                raise InvalidJob("columns gives names to positions; it needs by_position=True.")
            names = [name.lower() for name in self.columns]
            if not names or not all(name.strip() for name in names):
                raise InvalidJob("columns has no name, or an empty one.")
            if len(set(names)) < len(names):
                raise InvalidJob("columns names a column twice.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob(Job):
    """Change rows in place.

    Attributes:
        set: Column to SQL expression.
        where: Which rows; None is all of them.
        inputs: What subqueries can read: view name to table or files.
        target_alias: The table's name in expressions.
    """

    set: Mapping[str, str]
    where: str | None = None
    inputs: Mapping[str, TableSource | PathSource] = field(default_factory=dict)
    target_alias: str = "t"

    def _validate_own(self) -> None:
        validate_assignments(self.set, "set")
        _validate_condition(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Job):
    """Delete rows.

    Attributes:
        where: Which rows; None is all of them.
        inputs: What subqueries can read: view name to table or files.
        target_alias: The table's name in the condition.
    """

    where: str | None = None
    inputs: Mapping[str, TableSource | PathSource] = field(default_factory=dict)
    target_alias: str = "t"

    def _validate_own(self) -> None:
        _validate_condition(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob(Job):
    """Update, delete and insert by comparing a source with the table.

    Attributes:
        source: Where the changes come from; evaluated once.
        on: The SQL condition under which a source row and a target row belong together.
        when: What happens to whom; of each kind of clause the first one that matches wins.
        source_alias: The source's name in conditions and expressions.
        target_alias: The target's name in conditions and expressions.
        merge_schema: Add the columns to the table that only the source has and that a clause
            takes, and widen numbers.
    """

    source: Source
    on: str
    when: Sequence[Clause]
    source_alias: str = "s"
    target_alias: str = "t"
    merge_schema: bool = False

    def __post_init__(self) -> None:
        freeze(self, "when")

    @property
    def keeps_source(self) -> bool:
        """A merge evaluates its source before it locks anything."""
        return True

    def _validate_own(self) -> None:
        _require_source(self.source)
        require_text(self.on, "on")
        validate_clauses(self.when)
        for name in ("source_alias", "target_alias"):
            require_alias(getattr(self, name), name)
        if self.source_alias.lower() == self.target_alias.lower():
            raise InvalidJob(f"Source and target have the same alias {self.source_alias!r}.")


def freeze(job: Job, name: str) -> None:
    """Make a list a tuple: an author may well write one, and a job must equal its JSON copy."""
    value = getattr(job, name)
    if isinstance(value, list):
        object.__setattr__(job, name, tuple(value))


def _render(value: Any, template: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return template(value)
    if isinstance(value, Mapping):
        return {key: _render(entry, template) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(_render(entry, template) for entry in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: _render(getattr(value, f.name), template) for f in fields(value)}
        )
    return value


def _require_source(source: object) -> None:
    if not isinstance(source, Source):
        raise InvalidJob(
            f"source: {source!r} is no source.",
            remedy="Use a TableSource, a PathSource or a QuerySource.",
        )
    source.validate()


def _validate_condition(job: UpdateJob | DeleteJob) -> None:
    if job.where is not None:
        require_text(job.where, "where")
    _require_inputs(job.inputs, "inputs")
    require_alias(job.target_alias, "target_alias")


def _require_inputs(inputs: Mapping[str, TableSource | PathSource], what: str) -> None:
    for name, source in inputs.items():
        if not re.fullmatch(r"\w+", name):
            raise InvalidJob(f"{what}: {name!r} cannot be the name of a view.")
        source.validate()


def _require_partitions(partitions: Sequence[PartitionSpec], what: str = "partitions") -> None:
    if not partitions:
        raise InvalidJob("partitions is empty; leave it out when they are not known beforehand.")
    specs = [{key.lower(): value for key, value in spec.items()} for spec in partitions]
    for index, (given, spec) in enumerate(zip(partitions, specs, strict=True)):
        where = f"{what}[{index}]" if what == "partitions" else what
        if not spec or not all(key.strip() for key in spec):
            raise InvalidJob(f"{where} must name every partition key.")
        if len(spec) < len(given):
            raise InvalidJob(f"{where} names a partition key twice.")
        if spec.keys() != specs[0].keys():
            raise InvalidJob(f"{where} has other keys than partitions[0].")
        if "" in spec.values():
            raise InvalidJob(f"{where} has an empty value; None is the null partition.")
        if spec in specs[:index]:
            raise InvalidJob(f"{where} is there twice.")
