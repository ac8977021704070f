"""Jobs that change definitions of databases and tables in the metastore; they need no Spark."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hiveacid.errors import InvalidJob
from hiveacid.jobs.accesses import accesses_of
from hiveacid.jobs.definitions.ddl_jobs import CatalogJob, ColumnSpec
from hiveacid.jobs.definitions.table_properties import FILE_PROPERTIES, require_settable
from hiveacid.jobs.field_checks import awaits_rendering, freeze, require_table, require_text
from hiveacid.jobs.job import READ, Access, Job
from hiveacid.rules.column_changes import ColumnChange
from hiveacid.rules.locks import LockType
from hiveacid.rules.names import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseJob(CatalogJob):
    """Job with a database as its target."""

    @property
    def tables(self) -> tuple[str, ...]:
        """No table: the target is a database."""
        return ()

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the database; a DROP with CASCADE also accesses its tables."""
        yield Access(self.target.lower(), None, self.tag)

    def _validate_target(self) -> None:
        require_text(self.target, "target")
        if not awaits_rendering(self.target):
            TableRef.parse(f"{self.target}.t")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabaseJob(DatabaseJob):
    """Create a database.

    Attributes:
        comment: The comment of the database.
        location: Its folder; if None, the metastore chooses one.
        managed_location: The folder of its transactional tables, which HMS 4 stores separately.
        properties: Its properties.
        if_not_exists: Accept an existing database of this name, unchanged.
    """

    tag: ClassVar[str] = "create_database"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True
    effect: ClassVar[str] = "creates the database"

    comment: str | None = None
    location: str | None = None
    managed_location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts an existing database."""
        return None if self.if_not_exists else "CREATE DATABASE IF NOT EXISTS"

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folders of the database."""
        return tuple(path for path in (self.location, self.managed_location) if path)

    def _validate_own(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabaseJob(DatabaseJob):
    """Drop a database with its folder.

    Attributes:
        if_exists: Accept a missing database.
        cascade: Drop its tables, too; otherwise the database must be empty.
    """

    tag: ClassVar[str] = "drop_database"
    done: ClassVar[str] = "dropped"
    effect: ClassVar[str] = "drops the database with its tables"

    if_exists: bool = False
    cascade: bool = False

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts a missing database."""
        return None if self.if_exists else "DROP DATABASE IF EXISTS"

    def is_undone_by(self, later: Job) -> bool:
        """Whether a later statement names the database or one of its tables."""
        return any(
            access.table.partition(".")[0] == self.target.lower() for access in accesses_of(later)
        )

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
        location: Its folder; if None, the metastore chooses one.
        properties: More table properties; those of the other table are copied, too.
        if_not_exists: Accept an existing table of this name, unchanged.
    """

    tag: ClassVar[str] = "create_table_like"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True
    effect: ClassVar[str] = "creates the table"

    like: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts an existing table."""
        return None if self.if_not_exists else "CREATE TABLE IF NOT EXISTS"

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folder of the table."""
        return (self.location,) if self.location else ()

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to both tables."""
        yield Access(self.target.lower(), None, self.tag)
        yield Access(self.like.lower(), None, READ)

    def _validate_own(self) -> None:
        require_table(self.like, "like")
        require_settable(self.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTableJob(CatalogJob):
    """Drop an unused table, with its rows unless it is external; or a view.

    Attributes:
        if_exists: Accept a missing table or view.
        view: Whether it is a view.
    """

    tag: ClassVar[str] = "drop_table"
    done: ClassVar[str] = "dropped"
    effect: ClassVar[str] = "drops the table with its rows"
    affects_files: ClassVar[bool] = True

    if_exists: bool = False
    view: bool = False

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts a missing table or view."""
        return None if self.if_exists else f"DROP {'VIEW' if self.view else 'TABLE'} IF EXISTS"

    def is_undone_by(self, later: Job) -> bool:
        """Whether a later statement names the table or view."""
        return any(access.table == self.target.lower() for access in accesses_of(later))

    def _validate_own(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTableJob(CatalogJob):
    """Rename an unused transactional table within its database.

    Attributes:
        new_name: The new name, "database.table".
    """

    tag: ClassVar[str] = "rename_table"
    done: ClassVar[str] = "renamed"
    effect: ClassVar[str] = "gives the table another name"
    affects_files: ClassVar[bool] = True

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
        if awaits_rendering(self.target) or awaits_rendering(self.new_name):
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
    """Add columns to a transactional table and to all of its partitions, after the existing ones.

    Attributes:
        columns: The new columns; they are null in existing rows.
    """

    tag: ClassVar[str] = "add_columns"
    done: ClassVar[str] = "columns added"
    effect: ClassVar[str] = "adds columns to the table"

    columns: Sequence[ColumnSpec]

    def __post_init__(self) -> None:
        freeze(self, "columns")

    def _validate_own(self) -> None:
        if not self.columns:
            raise InvalidJob("columns is empty.")
        require_new_columns(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumnsJob(CatalogJob):
    """Change one column of a transactional table and of its partitions, or replace the list of columns.

    Changes after which an engine would read other values from the files of the table are refused.

    Attributes:
        change: The change of one column.
        columns: The complete list of columns: those of the table, perhaps with wider types or other
            comments, followed by new ones.
    """

    tag: ClassVar[str] = "alter_columns"
    done: ClassVar[str] = "altered"
    effect: ClassVar[str] = "changes columns of the table"

    change: ColumnChange | None = None
    columns: Sequence[ColumnSpec] = ()

    def __post_init__(self) -> None:
        freeze(self, "columns")

    def _validate_own(self) -> None:
        if (self.change is None) == (not self.columns):
            raise InvalidJob("A job has either change or columns.")
        require_new_columns(self.columns)
        if self.change is None:
            return
        require_text(self.change.column, "change: the column")
        if self.change.name is not None:
            require_column_name(self.change.name)
        if self.change.type is not None:
            ColumnSpec(self.change.column, self.change.type).validate()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePropertiesJob(CatalogJob):
    """Set or unset properties of a transactional table.

    Attributes:
        set: Properties with their new values.
        unset: Properties to remove.
        if_exists: Accept missing properties in ``unset``.
    """

    tag: ClassVar[str] = "table_properties"
    done: ClassVar[str] = "properties changed"
    effect: ClassVar[str] = "sets properties of the table"

    set: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    if_exists: bool = False

    def __post_init__(self) -> None:
        freeze(self, "unset")

    @property
    def form_to_repeat(self) -> str | None:
        """The form that removes properties, and accepts missing ones."""
        if self.set:
            return ""
        return None if self.if_exists else "ALTER TABLE … UNSET TBLPROPERTIES IF EXISTS"

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue unless a property is removed, or decides what they read."""
        waits = self.unset or not FILE_PROPERTIES.isdisjoint(self.set)
        return LockType.EXCLUSIVE if waits else LockType.SHARED_READ

    def _validate_own(self) -> None:
        if not self.set and not self.unset:
            raise InvalidJob("No property is named.")
        require_settable({**self.set, **dict.fromkeys(self.unset)})


def require_new_columns(columns: Sequence[ColumnSpec]) -> None:
    """Raise InvalidJob unless all names are different and all types are types of Hive."""
    seen: set[str] = set()
    for column in columns:
        column.validate()
        if column.name.lower() in seen:
            raise InvalidJob(f"The column {column.name} is added twice.")
        seen.add(column.name.lower())


def require_column_name(name: str) -> None:
    """Raise InvalidJob for a name that some engine cannot read."""
    require_text(name, "the name of a column")
    if not awaits_rendering(name) and not re.fullmatch(r"\w+", name):
        raise InvalidJob(
            f"A column cannot have the name {name!r}: not every engine reads it.",
            remedy="Choose a name of letters, digits and underscores.",
        )
