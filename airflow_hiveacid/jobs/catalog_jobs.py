"""The jobs that change what the metastore says of databases and tables; they need no Spark."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.ddl_jobs import CatalogJob, ColumnSpec
from airflow_hiveacid.jobs.field_checks import freeze, is_template, require_table, require_text
from airflow_hiveacid.jobs.job import READ, Access
from airflow_hiveacid.jobs.table_properties import require_settable


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseJob(CatalogJob):
    """A job whose target is a database."""

    @property
    def tables(self) -> tuple[str, ...]:
        """None: the target is a database."""
        return ()

    def _validate_target(self) -> None:
        require_text(self.target, "target")
        if not is_template(self.target):
            TableRef.parse(f"{self.target}.t")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabaseJob(DatabaseJob):
    """Create a database.

    Attributes:
        comment: What it holds.
        location: Its folder; None lets the metastore choose one.
        managed_location: The folder of its transactional tables, where version 4 has one of its own.
        properties: Its properties.
        if_not_exists: A database of this name is left as it is.
    """

    tag: ClassVar[str] = "create_database"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True

    comment: str | None = None
    location: str | None = None
    managed_location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False

    def _validate_own(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabaseJob(DatabaseJob):
    """Drop a database with its folder.

    Attributes:
        if_exists: It need not be there.
        cascade: Drop its tables, too; else it must have none.
    """

    tag: ClassVar[str] = "drop_database"
    done: ClassVar[str] = "dropped"
    removes: ClassVar[bool] = True

    if_exists: bool = False
    cascade: bool = False

    @property
    def defines(self) -> None:
        """All tables of the database."""
        return None

    def _validate_own(self) -> None:
        if self.target.lower() == "default":
            raise InvalidJob("The database default cannot be dropped.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableLikeJob(CatalogJob):
    """Create an empty transactional table with the columns, keys, buckets and format of another one.

    Attributes:
        like: The other table, "database.table".
        location: Its folder; None lets the metastore choose one.
        properties: More table properties; those of the other one are taken, too.
        if_not_exists: A table of this name is left as it is.
    """

    tag: ClassVar[str] = "create_table_like"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True

    like: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to both tables."""
        yield Access(self.target.lower(), None, self.tag)
        yield Access(self.like.lower(), None, READ)

    def _validate_own(self) -> None:
        require_table(self.like, "like")
        require_settable(self.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTableJob(CatalogJob):
    """Drop a table, with its rows unless it is external, when nobody reads or writes it.

    Attributes:
        if_exists: It need not be there.
    """

    tag: ClassVar[str] = "drop_table"
    done: ClassVar[str] = "dropped"
    removes: ClassVar[bool] = True

    if_exists: bool = False

    def _validate_own(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTableJob(CatalogJob):
    """Give a transactional table another name in its database, when nobody reads or writes it.

    Attributes:
        new_name: The other name, "database.table".
    """

    tag: ClassVar[str] = "rename_table"
    done: ClassVar[str] = "renamed"
    removes: ClassVar[bool] = True

    new_name: str

    @property
    def defines(self) -> None:
        """Both names."""
        return None

    def own_accesses(self) -> Iterator[Access]:
        """Yield the accesses to both names."""
        yield from (Access(name.lower(), None, self.tag) for name in (self.target, self.new_name))

    def _validate_own(self) -> None:
        require_table(self.new_name, "new_name")
        if is_template(self.target) or is_template(self.new_name):
            return
        ref, new = TableRef.parse(self.target), TableRef.parse(self.new_name)
        if ref.database != new.database:
            raise InvalidJob(
                f"{ref} cannot be moved to another database: all of its files would have to move.",
                remedy=f"CREATE TABLE {new} LIKE {ref}, and INSERT INTO it what {ref} holds.",
            )
        if ref == new:
            raise InvalidJob(f"{ref} has that name already.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumnsJob(CatalogJob):
    """Add columns to a transactional table, and to all of its partitions, behind those it has.

    Attributes:
        columns: The new columns; they are null in the rows that are there.
    """

    tag: ClassVar[str] = "add_columns"
    done: ClassVar[str] = "columns added"

    columns: Sequence[ColumnSpec]

    def __post_init__(self) -> None:
        freeze(self, "columns")

    def _validate_own(self) -> None:
        if not self.columns:
            raise InvalidJob("columns is empty.")
        seen: set[str] = set()
        for column in self.columns:
            column.validate()
            if column.name.lower() in seen:
                raise InvalidJob(f"The column {column.name} is added twice.")
            seen.add(column.name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePropertiesJob(CatalogJob):
    """Set or unset properties of a transactional table.

    Attributes:
        set: Properties with their new values.
        unset: Those that go.
        if_exists: Those that go need not be there.
    """

    tag: ClassVar[str] = "table_properties"
    done: ClassVar[str] = "properties changed"

    set: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    if_exists: bool = False

    def __post_init__(self) -> None:
        freeze(self, "unset")

    def _validate_own(self) -> None:
        if not self.set and not self.unset:
            raise InvalidJob("No property is named.")
        require_settable({**self.set, **dict.fromkeys(self.unset)})
