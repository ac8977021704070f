"""Job that creates a table from the result of a query."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definitions.ddl_jobs import ColumnSpec, CreateTableJob, TableLayout
from hiveacid.jobs.field_checks import awaits_rendering, freeze
from hiveacid.jobs.job import Job
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableAsJob(TableLayout):
    """Create a transactional table with the columns of a query, then insert the query's rows.

    The metastore creates tables outside of transactions: until the insert commits, others see the
    table without rows. A run that is killed in between leaves the table in this state, and the next
    attempt of the run continues with it if the statement is the same.

    Attributes:
        source: The query.
        partition_keys: The names of the query's columns that are partition keys, in order.
    """

    tag: ClassVar[str] = "create_table_as"

    source: QuerySource
    partition_keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        freeze(self, "partition_keys")
        freeze(self, "bucket_columns")

    @property
    def parts(self) -> tuple[Job, ...]:
        """The insert."""
        return (self.insert,)

    @property
    def defines(self) -> tuple[str, ...]:
        """The table."""
        return (self.target,)

    @property
    def query(self) -> QuerySource | None:
        """The query."""
        return self.source

    @property
    def insert(self) -> InsertJob:
        """The insert that follows the creation of the table."""
        return InsertJob(target=self.target, source=self.source).bind(self)

    def creation(self, columns: Sequence[ColumnSpec]) -> CreateTableJob:
        """Return the job that creates the table.

        Args:
            columns: The columns of the query.

        Raises:
            InvalidJob: The query lacks a partition key, or has a column twice.
        """
        given = {column.name.lower(): column for column in columns}
        keys = [name.lower() for name in self.partition_keys]
        for name in keys:
            if name not in given:
                raise InvalidJob(
                    f"{self.target} is partitioned by {name}, which is no column of the query.",
                    remedy=f"Its columns are {', '.join(given)}.",
                )
        job = CreateTableJob(
            target=self.target,
            columns=tuple(column for column in columns if column.name.lower() not in keys),
            partition_keys=tuple(given[name] for name in keys),
            **{**self.layout, "if_not_exists": False},
        ).bind(self)
        job.validate()
        return job

    def _validate_own(self) -> None:
        self.source.validate()
        if not awaits_rendering(self.target):
            # Check everything that does not depend on the query.
            named = dict.fromkeys(
                name.lower() for name in (*self.bucket_columns, *self.partition_keys)
            )
            self.creation([ColumnSpec(name, "string") for name in (*named, _ANY)])


# A column that no query has, as a table needs a column besides its keys.
_ANY = "\0"
