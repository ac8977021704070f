"""Where the rows of a job come from: a table, files or a query over both."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hiveacid.acid.versions import AsOf
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.field_checks import (
    is_template,
    require_choice,
    require_table,
    require_text,
)

PATH_FORMATS = frozenset({"orc", "parquet", "csv", "json"})


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the metastore: ACID, or plain ORC, Parquet, CSV or JSON.

    Example::

        TableSource("shop.orders", as_of_time="{{ data_interval_end }}")

    Attributes:
        name: The table, "database.table".
        as_of_write_id: Read it as it was after this write id, without what came later.
        as_of_time: Read it as it was then; in ISO form, in UTC if there is no zone.
    """

    name: str
    as_of_write_id: int | None = None
    as_of_time: str | None = None

    @property
    def as_of(self) -> AsOf | None:
        """The version that is read; None is the newest."""
        return AsOf.of(self.as_of_write_id, self.as_of_time)

    def validate(self) -> None:
        """Raise InvalidJob when the source cannot be used."""
        require_table(self.name, "source")
        if self.as_of_time is None or not is_template(self.as_of_time):
            AsOf.of(self.as_of_write_id, self.as_of_time)


@dataclass(frozen=True, slots=True)
class PathSource:
    """Files of one format.

    Example::

        PathSource("s3a://landing/orders/{{ ds }}", "csv", {"header": "true"}, "id int, price double")

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
        require_inputs(self.inputs, "source.inputs")
        for name, query in self.common.items():
            require_text(query, f"source.common[{name!r}]")
            if not re.fullmatch(r"\w+", name) or name in self.inputs:
                raise InvalidJob(
                    f"source.common: {name!r} cannot be the name of a view of its own."
                )


Source = TableSource | PathSource | QuerySource


def require_source(source: object) -> None:
    """Raise InvalidJob unless it is a source that can be used."""
    if not isinstance(source, Source):
        raise InvalidJob(
            f"source: {source!r} is no source.",
            remedy="Use a TableSource, a PathSource or a QuerySource.",
        )
    source.validate()


def require_inputs(inputs: Mapping[str, TableSource | PathSource], what: str) -> None:
    """Raise InvalidJob unless all of these can be read by names of one word."""
    for name, source in inputs.items():
        if not re.fullmatch(r"\w+", name):
            raise InvalidJob(f"{what}: {name!r} cannot be the name of a view.")
        source.validate()
