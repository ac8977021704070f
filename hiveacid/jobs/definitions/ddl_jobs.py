"""Jobs that create, convert or empty a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob, UnsupportedTable
from hiveacid.jobs.definitions.table_properties import require_settable
from hiveacid.jobs.field_checks import awaits_rendering, freeze, require_text
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.write_jobs import PartitionSpec
from hiveacid.rules.constraints import Check, Default, Key, NotNull, validate_declared
from hiveacid.rules.locks import LockType, Operation
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.schema import NestedType, parse_type

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
            what = "The name of the column" if "`" in self.name else "A field of the column"
            raise InvalidJob(
                f"{what} {self.name} has a backtick: Spark would read its values as null.",
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
        inherited = {each.name for each in fields(ScriptedJob)}
        return {
            each.name: getattr(self, each.name)
            for each in fields(TableLayout)
            if each.name not in inherited
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableJob(TableLayout, CatalogJob):
    """Create a transactional table; it needs no Spark.

    Attributes:
        columns: The columns without the partition keys.
        partition_keys: The partition keys, in order.
        constraints: Conditions on rows, default values, and keys; see ``acid.constraints``.
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
        seen: set[str] = set()
        for column in (*self.columns, *self.partition_keys):
            column.validate()
            if column.name.lower() in seen:
                raise InvalidJob(f"{self.target} would have the column {column.name} twice.")
            seen.add(column.name.lower())
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
        own = {column.name.lower() for column in self.columns}
        for name in self.bucket_columns:
            if name.lower() not in own:
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
    def form_to_repeat(self) -> str | None:
        """None, as for other definitions."""
        return ""

    @property
    def operation(self) -> Operation:
        """A truncation is an overwrite without new rows."""
        return Operation.OVERWRITE

    def _validate_own(self) -> None:
        if self.partition is not None and not self.partition:
            raise InvalidJob("partition names no key; leave it out to empty the whole table.")
