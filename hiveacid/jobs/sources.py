"""Sources of the rows of a job: a table, files, a stream's batch, or a query over these."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import (
    Parameters,
    awaits_rendering,
    freeze,
    require_choice,
    require_list,
    require_mapping,
    require_parameters,
    require_sql,
    require_table,
    require_text,
    require_types,
)
from hiveacid.rules.write_ids import AsOf

PathFormat = Literal["orc", "parquet", "csv", "json"]
PATH_FORMATS = frozenset(get_args(PathFormat))
# The start of changes at the oldest version that can still be read.
OLDEST = "oldest"
# The column of changes with their kind, and the kinds of rows without updates.
CHANGE, INSERT, DELETE = "_change_type", "insert", "delete"
# Options of Spark that name the files of a source.
PATH_OPTIONS = frozenset({"path", "paths"})


@dataclass(frozen=True, slots=True)
class TableSource:
    """Table of the metastore: ACID, or plain ORC, Parquet, CSV or JSON.

    Example::

        TableSource("shop.orders", as_of="{{ data_interval_end }}")

    Attributes:
        name: The table, "database.table".
        as_of: The version: its last write id, like "7", or a time in ISO form, in UTC without a
            zone; None is the newest.
    """

    kind: ClassVar[str] = "table"

    name: str
    as_of: str | None = None

    @property
    def version(self) -> AsOf | None:
        """The version to read; None is the newest."""
        return None if self.as_of is None else AsOf.parse(self.as_of)

    def validate(self) -> None:
        """Raise InvalidJob if the source is invalid."""
        require_table(self.name, "source")
        _require_version(self.as_of, "source.as_of")


@dataclass(frozen=True, slots=True)
class ChangesSource:
    """Changes of a table between two versions, with a row for each change.

    In addition to the table's columns, it has ``_change_type`` ("insert", "delete", "update_before"
    or "update_after"), ``_write_id`` of the transaction, and ``_row_id`` in the form of Hive's
    ROW__ID.

    Example::

        ChangesSource("shop.orders", after="{{ params.seen }}", keys=["id"])

    Attributes:
        name: The table, "database.table".
        after: The version before the changes: its last write id, like "3", or a time in ISO form;
            "oldest" is the oldest version from which on all can still be read.
        up_to: The version with the last of them; None is the newest.
        net: Only the difference of both versions, without rows that existed only in between.
        keys: Columns that an update of a row does not change. Without them an update is a deleted
            and an inserted row, as in Hive's files.
    """

    kind: ClassVar[str] = "changes"

    name: str
    after: str
    up_to: str | None = None
    net: bool = False
    keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        freeze(self, "keys")

    @property
    def versions(self) -> tuple[AsOf, AsOf | None]:
        """The version before the changes, and the one after them; None is the newest."""
        first = AsOf(oldest=True) if self.after == OLDEST else AsOf.parse(self.after)
        return first, None if self.up_to is None else AsOf.parse(self.up_to)

    def validate(self) -> None:
        """Raise InvalidJob if the source is invalid."""
        require_table(self.name, "source")
        if self.after != OLDEST:
            _require_version(self.after, "source.after")
        _require_version(self.up_to, "source.up_to")
        require_list(self.keys, "source.keys", 'keys=["id"]')
        for key in self.keys:
            require_text(key, "source.keys")


@dataclass(frozen=True, slots=True)
class PathSource:
    """Files of one format.

    Example::

        PathSource("s3a://landing/orders/{{ ds }}", "csv", {"header": "true"}, "id int, price double")

    Attributes:
        path: A file, a folder or a pattern that Spark can read.
        format: "orc", "parquet", "csv" or "json".
        options: Spark's options of the format. Without ``mode``, a malformed line of CSV or JSON is
            an error. So is a header that differs from the schema, unless ``enforceSchema`` is
            "true", which assigns columns by their position.
        schema: Columns as DDL text, "id bigint, name string"; None lets Spark infer them. A column
            ``_corrupt_record string`` receives malformed lines.
    """

    kind: ClassVar[str] = "path"

    path: str
    format: PathFormat | str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    @property
    def paths_read(self) -> tuple[str, ...]:
        """The files."""
        return (self.path,)

    def validate(self) -> None:
        """Raise InvalidJob if the source is invalid."""
        require_text(self.path, "source.path")
        require_choice(self.format, PATH_FORMATS, "source.format")
        require_mapping(self.options, "source.options", '{"header": "true"}')
        if path_options := sorted(name for name in self.options if name.lower() in PATH_OPTIONS):
            raise InvalidJob(
                f"source.options has {path_options[0]!r}, which would replace or extend source.path.",
                remedy="Name each file or folder as a PathSource.",
            )
        if self.schema is not None:
            require_text(self.schema, "source.schema")
            require_types(self.schema, "source.schema")


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Rows of one micro-batch, in the statements of a StreamJob.

    Example::

        QuerySource("SELECT id, upper(name) AS name FROM b WHERE id > 0", {"b": BatchSource()})

    Attributes:
        name: A table or a view of a Spark session, in the statements of its program.
    """

    kind: ClassVar[str] = "batch"

    name: str = ""

    def validate(self) -> None:
        """Accept every instance."""


Input = TableSource | ChangesSource | PathSource | BatchSource


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Spark SQL query over named inputs.

    Example::

        QuerySource(
            "SELECT o.id, c.region FROM o JOIN c ON o.customer = c.id",
            inputs={
                "o": PathSource("/landing/orders/{{ ds }}", "parquet"),
                "c": TableSource("shop.customers"),
            },
        )

    Attributes:
        sql: The query.
        inputs: View names to the sources of the views.
        common: View names to queries over the inputs, each evaluated once for all statements of a
            transaction that contain the same query.
        params: The values of parameters of the query: name to value, ``{"day": "{{ ds }}"}`` for
            ``:day``. Spark receives them as typed literals, regardless of their content.
        trusted: Whether the query may run scripts (TRANSFORM), call Java and read files by their
            paths.
    """

    kind: ClassVar[str] = "query"

    sql: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    common: Mapping[str, str] = field(default_factory=dict)
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False

    @property
    def text(self) -> str:
        """The whole query, including common queries."""
        if not self.common:
            return self.sql
        parts = ", ".join(f"{name} AS ({query})" for name, query in self.common.items())
        inner = re.match(r"WITH (RECURSIVE )?", self.sql)
        if inner is None:
            return f"WITH {parts} {self.sql}"
        return f"{inner[0]}{parts}, {self.sql[inner.end() :]}"

    def validate(self) -> None:
        """Raise InvalidJob if the source is invalid."""
        require_sql(self.sql, "source.sql", query=True)
        require_inputs(self.inputs, "source.inputs")
        for name, query in self.common.items():
            require_sql(query, f"source.common[{name!r}]", query=True)
            if not re.fullmatch(r"\w+", name) or name in self.inputs:
                raise InvalidJob(
                    f"source.common: {name!r} cannot be the name of a view of its own."
                )
        require_parameters(self.params, (self.sql, *self.common.values()), "source.params")


# The name of a source that the job does not name.
SOURCE = "the source"

Source = TableSource | ChangesSource | PathSource | BatchSource | QuerySource


def inputs_of(source: Source) -> Mapping[str, Input]:
    """Return the tables, files, and batches behind a source, by their names in expressions."""
    return source.inputs if isinstance(source, QuerySource) else {SOURCE: source}


def query_of(source: Source) -> QuerySource | None:
    """Return the source if it is a query."""
    return source if isinstance(source, QuerySource) else None


def require_source(source: object) -> None:
    """Raise InvalidJob unless the value is a valid source."""
    if not isinstance(source, Source):
        raise InvalidJob(
            f"source: {source!r} is no source.",
            remedy="Use a TableSource, a ChangesSource, a PathSource or a QuerySource.",
        )
    source.validate()


def require_inputs(inputs: Mapping[str, Input], subject: str) -> None:
    """Raise InvalidJob unless all inputs are valid and have names of one word."""
    require_mapping(inputs, subject, '{"orders": TableSource("shop.orders")}')
    for name, source in inputs.items():
        if not isinstance(source, Input):
            raise InvalidJob(
                f"{subject}: {name} is {source!r}, which cannot be a view.",
                remedy="Use a TableSource, a ChangesSource or a PathSource.",
            )
        if not re.fullmatch(r"\w+", name):
            raise InvalidJob(f"{subject}: {name!r} cannot be the name of a view.")
        source.validate()


def _require_version(text: object, subject: str) -> None:
    """Raise InvalidJob unless the value is a version, a template or None."""
    if text is None or (isinstance(text, str) and awaits_rendering(text)):
        return
    if not isinstance(text, str):
        raise InvalidJob(f"{subject} must be a text, not {text!r}.", remedy="Write 7 as '7'.")
    AsOf.parse(text)
