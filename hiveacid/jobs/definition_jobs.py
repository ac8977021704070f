"""Jobs that change definitions of databases and tables in the metastore; they need no Spark."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, ClassVar, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UnsupportedTable
from hiveacid.jobs.fields import (
    awaits_rendering,
    freeze,
    require_choice,
    require_list,
    require_partition_names,
    require_table,
    require_text,
)
from hiveacid.jobs.job import READ, Access, Job, ScriptedJob, accesses_of
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.table_properties import FILE_PROPERTIES, require_settable
from hiveacid.jobs.write_jobs import InsertJob, PartitionSpec
from hiveacid.rules.constraints import Check, Default, Key, NotNull, validate_declared
from hiveacid.rules.locks import LockType, Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import OPERATORS, KeyComparison
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.schema import ColumnChange, NestedType, parse_type

# Jobs that create, convert or empty a table


TableFormat = Literal["ORC", "PARQUET", "TEXTFILE", "CSV", "JSON"]
FORMATS = get_args(TableFormat)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """New column of a table.

    Attributes:
        name: Its name.
        type: Its type in Hive's words.
        comment: The comment of the column.
    """

    name: str
    type: str
    comment: str | None = None

    def validate(self) -> None:
        """Raise InvalidJob unless the column has a name that Spark reads, and a type of Hive."""
        require_text(self.name, "columns: a name")
        if awaits_rendering(self.type):
            return
        try:
            type_ = parse_type(self.type)
        except UnsupportedTable as error:
            raise InvalidJob(f"The column {self.name}: {error}") from error
        # In the text of a type, a backtick in the name of a field is doubled.
        if "`" in self.name or "``" in str(type_):
            subject = "The name of the column" if "`" in self.name else "A field of the column"
            raise InvalidJob(
                f"{subject} {self.name} has a backtick: Spark would read its values as null.",
                remedy="Choose a name without backticks.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogJob(ScriptedJob):
    """Base of the jobs that need only the metastore, and no Spark."""

    @property
    def form_to_repeat(self) -> str | None:
        """None of its own."""
        return ""

    @property
    def defines(self) -> tuple[str, ...] | None:
        """The target."""
        return self.tables

    @property
    def definition_lock(self) -> LockType | None:
        """An exclusive lock, unless the table is new."""
        return None if self.creates else LockType.EXCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout(ScriptedJob):
    """Base of the jobs that choose how a new transactional table stores its rows.

    Attributes:
        bucket_columns: The columns that distribute the rows over the buckets.
        num_buckets: The number of buckets; -1 without distribution.
        insert_only: The table accepts inserts only, in any format; else it is full ACID, in ORC.
        format: "ORC", "PARQUET", "TEXTFILE", "CSV" or "JSON".
        serde_parameters: The properties of the row format.
        properties: More table properties.
        location: Its folder; if None, the metastore chooses one.
        if_not_exists: Accept an existing table of this name, unchanged.
    """

    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True

    bucket_columns: Sequence[str] = ()
    num_buckets: int = -1
    insert_only: bool = False
    format: TableFormat | str = "ORC"
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    if_not_exists: bool = False

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts an existing table."""
        return None if self.if_not_exists else "CREATE TABLE IF NOT EXISTS"

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folder of the table."""
        return (self.location,) if self.location else ()

    @property
    def layout(self) -> dict[str, Any]:
        """The fields of this class, for another job that creates a table."""
        inherited = {field.name for field in fields(ScriptedJob)}
        return {
            field.name: getattr(self, field.name)
            for field in fields(TableLayout)
            if field.name not in inherited
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableJob(TableLayout, CatalogJob):
    """Create a transactional table; it needs no Spark.

    Attributes:
        columns: The columns without the partition keys.
        partition_keys: The partition keys, in order.
        constraints: Conditions on rows, default values, and keys; see ``rules.constraints``.
    """

    tag: ClassVar[str] = "create_table"
    effect: ClassVar[str] = "creates the table"

    columns: Sequence[ColumnSpec]
    partition_keys: Sequence[ColumnSpec] = ()
    constraints: Sequence[NotNull | Check | Default | Key] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "partition_keys", "bucket_columns", "constraints"):
            freeze(self, name)

    def _validate_own(self) -> None:
        if not self.columns:
            raise InvalidJob(f"{self.target} would have no columns.")
        seen_names: set[str] = set()
        for column in (*self.columns, *self.partition_keys):
            column.validate()
            if column.name.lower() in seen_names:
                raise InvalidJob(f"{self.target} would have the column {column.name} twice.")
            seen_names.add(column.name.lower())
        if (end := self.serde_parameters.get("line.delim", "\n")) != "\n":
            raise InvalidJob(
                f"{self.target}: lines end with a newline, and not with {end!r}.",
                remedy="Leave LINES TERMINATED BY, or 'line.delim', out.",
            )
        if self.format not in FORMATS:
            raise InvalidJob(f"format: {self.format!r} is not one of {', '.join(FORMATS)}.")
        if self.format != "ORC" and not self.insert_only:
            raise InvalidJob(
                f"{self.target}: a full-ACID table is stored as ORC, not as {self.format}.",
                remedy="Make it insert-only, or store it as ORC.",
            )
        if bool(self.bucket_columns) != (self.num_buckets > 0):
            raise InvalidJob("bucket_columns and num_buckets belong together.")
        if self.num_buckets > MAX_WRITER_ID + 1:
            raise InvalidJob(
                f"{self.target}: {self.num_buckets} buckets are too many; row ids"
                f" can distinguish {MAX_WRITER_ID + 1}."
            )
        for key in self.partition_keys:
            if not awaits_rendering(key.type) and isinstance(parse_type(key.type), NestedType):
                raise InvalidJob(
                    f"{self.target}: the partition key {key.name} cannot have the type {key.type}.",
                    remedy="Partition keys have types without fields or elements.",
                )
        column_names = {column.name.lower() for column in self.columns}
        for name in self.bucket_columns:
            if name.lower() not in column_names:
                raise InvalidJob(f"{self.target} is clustered by {name}, which is no column of it.")
        if self.constraints:
            types = {column.name.lower(): column.type for column in self.columns}
            if not any(awaits_rendering(type_) for type_ in types.values()):
                keys = {key.name.lower() for key in self.partition_keys}
                validate_declared(self.constraints, types, keys)
        require_settable(self.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertJob(CatalogJob):
    """Convert a plain managed table of ORC files to a full-ACID table; it needs no Spark.

    The files are neither changed nor moved. A table that is full ACID already is not changed.
    """

    tag: ClassVar[str] = "convert"
    done: ClassVar[str] = "converted"
    effect: ClassVar[str] = "makes the table transactional"
    affects_files: ClassVar[bool] = True

    def _validate_own(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateJob(ScriptedJob):
    """Remove all rows of a table, or of some partitions, in a transaction.

    Attributes:
        partition: Partition keys and values, some or all; None means the whole table.
    """

    tag: ClassVar[str] = "truncate"

    partition: PartitionSpec | None = None

    @property
    def operation(self) -> Operation:
        """A truncation is an overwrite without new rows."""
        return Operation.OVERWRITE

    def _validate_own(self) -> None:
        if self.partition is not None and not self.partition:
            raise InvalidJob("partition names no key; leave it out to empty the whole table.")


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

    def is_undone_by(self, later_job: Job) -> bool:
        """Whether a later statement names the database or one of its tables."""
        return any(
            access.table.partition(".")[0] == self.target.lower()
            for access in accesses_of(later_job)
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

    def is_undone_by(self, later_job: Job) -> bool:
        """Whether a later statement names the table or view."""
        return any(access.table == self.target.lower() for access in accesses_of(later_job))

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
        return None if self.set or self.if_exists else "ALTER TABLE … UNSET TBLPROPERTIES IF EXISTS"

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
    seen_names: set[str] = set()
    for column in columns:
        column.validate()
        if column.name.lower() in seen_names:
            raise InvalidJob(f"The column {column.name} is added twice.")
        seen_names.add(column.name.lower())


def require_column_name(name: str) -> None:
    """Raise InvalidJob for a name that some engine cannot read."""
    require_text(name, "the name of a column")
    if not awaits_rendering(name) and not re.fullmatch(r"\w+", name):
        raise InvalidJob(
            f"A column cannot have the name {name!r}: not every engine reads it.",
            remedy="Choose a name of letters, digits and underscores.",
        )


PartitionAction = Literal["add", "drop", "repair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsJob(CatalogJob):
    """Add or drop partitions of a transactional table, or register folders without files.

    Attributes:
        action: "add", "drop" with all rows and files, or "repair".
        partitions: The PARTITION clauses. "add" takes ``=`` and all keys; "drop" takes each partition
            that meets all comparisons of one clause; "repair" takes no clause.
        lenient: "add" accepts partitions that exist, and "drop" clauses that match no partition.
    """

    tag: ClassVar[str] = "partitions"
    done: ClassVar[str] = "no partition changed"

    action: PartitionAction | str
    partitions: Sequence[Sequence[KeyComparison]] = ()
    lenient: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "partitions", tuple(tuple(partition) for partition in self.partitions)
        )

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts existing partitions, or missing ones."""
        accepts = "IF NOT EXISTS" if self.action == "add" else "IF EXISTS"
        may_repeat = self.lenient or self.action == "repair"
        return None if may_repeat else f"ALTER TABLE … {self.action.upper()} {accepts} PARTITION"

    def is_undone_by(self, later_job: Job) -> bool:
        """Whether it drops partitions, and a later statement writes rows of the table."""
        if self.action != "drop" or isinstance(later_job, CatalogJob | CompactJob):
            return False
        return self.target.lower() in map(str.lower, later_job.tables)

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue unless partitions are dropped."""
        return LockType.EXCLUSIVE if self.action == "drop" else LockType.SHARED_READ

    def _validate_own(self) -> None:
        require_choice(self.action, get_args(PartitionAction), "action")
        if (self.action == "repair") == bool(self.partitions):
            raise InvalidJob("partitions belongs to the actions add and drop, and to no other.")
        for clause in self.partitions:
            if not clause:
                raise InvalidJob("A clause of partitions has no comparison.")
            for comparison in clause:
                require_text(comparison.key, "partitions: a key")
                require_choice(comparison.operator, list(OPERATORS), "partitions: an operator")


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
        columns_by_name = {column.name.lower(): column for column in columns}
        keys = [name.lower() for name in self.partition_keys]
        for name in keys:
            if name not in columns_by_name:
                raise InvalidJob(
                    f"{self.target} is partitioned by {name}, which is no column of the query.",
                    remedy=f"Its columns are {', '.join(columns_by_name)}.",
                )
        job = CreateTableJob(
            target=self.target,
            columns=tuple(column for column in columns if column.name.lower() not in keys),
            partition_keys=tuple(columns_by_name[name] for name in keys),
            **{**self.layout, "if_not_exists": False},
        ).bind(self)
        job.validate()
        return job

    def _validate_own(self) -> None:
        self.source.validate()
        if not awaits_rendering(self.target):
            # Check everything that does not depend on the query.
            layout_columns = dict.fromkeys(
                name.lower() for name in (*self.bucket_columns, *self.partition_keys)
            )
            self.creation([ColumnSpec(name, "string") for name in (*layout_columns, _ANY)])


# A column that no query has, as a table needs a column besides its keys.
_ANY = "\0"


ViewMode = Literal["create", "create_if_missing", "replace", "alter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateViewJob(ScriptedJob):
    """Create a view, or change the query of a view. Spark determines the types of its columns.

    Attributes:
        text: The query as its author wrote it.
        expanded: The query with the database of each table.
        reads: The tables and views that the query names, "database.table".
        mode: "create"; "create_if_missing", which keeps a view that exists; "replace", which replaces
            it; or "alter", which requires one.
        columns: Other names for the columns of the query.
        column_comments: The comments of columns, by their names in lower case.
        comment: The comment of the view.
    """

    tag: ClassVar[str] = "create_view"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True
    effect: ClassVar[str] = "creates or replaces the view"

    text: str
    expanded: str
    reads: Sequence[str] = ()
    mode: ViewMode | str = "create"
    columns: Sequence[str] = ()
    column_comments: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "reads")
        freeze(self, "columns")

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts or replaces an existing view, and creates a missing one."""
        may_repeat = self.mode in ("create_if_missing", "replace")
        return None if may_repeat else "CREATE OR REPLACE VIEW"

    @property
    def defines(self) -> tuple[str, ...]:
        """The view."""
        return (self.target,)

    def own_accesses(self) -> Iterator[Access]:
        """Yield the view, and the tables that its query names."""
        yield Access(self.target.lower(), None, self.tag)
        for name in self.reads:
            yield Access(name.lower(), None, READ)

    def _validate_own(self) -> None:
        require_text(self.text, "text")
        require_text(self.expanded, "expanded")
        require_choice(self.mode, get_args(ViewMode), "mode")
        for name in self.reads:
            require_table(name, "reads")
        for name in self.columns:
            ColumnSpec(name, "string").validate()
        if awaits_rendering(self.target):
            return
        view_name = TableRef.parse(self.target).full_name
        if view_name in [name.lower() for name in self.reads]:
            raise InvalidJob(f"The view {view_name} would read itself.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeJob(CatalogJob):
    """Store statistics of a table in the metastore, for the planners of Hive and Trino.

    It needs no Spark, and does not change the data.

    Attributes:
        partitions: The partitions, by some or all of their keys: "d=1" includes "d=1/e=2". None
            means all partitions.
        columns: The columns whose statistics are stored; None means all.
        rows_only: Store the number of rows and files only.
    """

    tag: ClassVar[str] = "analyze"
    done: ClassVar[str] = "analyzed"
    effect: ClassVar[str] = "computes statistics of the table"
    affects_files: ClassVar[bool] = True

    partitions: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    rows_only: bool = False

    def __post_init__(self) -> None:
        freeze(self, "partitions")
        freeze(self, "columns")

    @property
    def defines(self) -> tuple[str, ...]:
        """No table: statistics are not part of the definition."""
        return ()

    @property
    def form_to_repeat(self) -> None:
        """This one: statistics are computed again."""
        return None

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue."""
        return LockType.SHARED_READ

    def _validate_own(self) -> None:
        if self.partitions is not None:
            require_partition_names(self.partitions)
        if self.columns is None:
            return
        require_list(self.columns, "columns", 'columns=["id"]')
        if not self.columns:
            raise InvalidJob("columns is empty; leave it out for all, or set rows_only.")
        for index, column in enumerate(self.columns):
            require_text(column, f"columns[{index}]")
        if self.rows_only:
            raise InvalidJob("rows_only and columns exclude each other.")
