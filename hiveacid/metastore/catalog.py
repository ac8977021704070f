"""Databases, tables and partitions as the metastore keeps them."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import TypeMismatch, UnsupportedTable
from hiveacid.jobs.table_properties import COLUMN_MAPPING, ORC_COMPRESS, PARQUET_BY_POSITION
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    DEFAULT_PARTITION,
    TableIdentity,
    TableRef,
    partition_name,
    plain_location,
)
from hiveacid.rules.schema import (
    LOCAL_ZONE,
    BucketColumn,
    BucketLayout,
    ColumnMapping,
    MappedColumns,
    TableKind,
    parse_type,
)

# Storage formats of tables: the Java classes that Hive uses to read and write them


_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_ORC = "org.apache.hadoop.hive.ql.io.orc"
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
_SERDE = "org.apache.hadoop.hive.serde2"


@dataclass(frozen=True, slots=True)
class JavaClasses:
    """The metastore's description of a format.

    Attributes:
        input_format: The class that splits and reads files.
        output_format: The class that writes files.
        serde: The class that converts records into rows; new tables get this one.
        also: Serdes of the same format that tables may have instead.
    """

    input_format: str
    output_format: str
    serde: str
    also: tuple[str, ...] = ()


class StorageFormat(Enum):
    """A format of files, by its name in STORED AS; CSV is that of OpenCSVSerde."""

    ORC = JavaClasses(f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat", f"{_ORC}.OrcSerde")
    PARQUET = JavaClasses(
        f"{_PARQUET}.MapredParquetInputFormat",
        f"{_PARQUET}.MapredParquetOutputFormat",
        f"{_PARQUET}.serde.ParquetHiveSerDe",
    )
    TEXTFILE = JavaClasses(_TEXT_INPUT, _TEXT_OUTPUT, f"{_SERDE}.lazy.LazySimpleSerDe")
    CSV = JavaClasses(_TEXT_INPUT, _TEXT_OUTPUT, f"{_SERDE}.OpenCSVSerde")
    JSON = JavaClasses(
        _TEXT_INPUT,
        _TEXT_OUTPUT,
        f"{_SERDE}.JsonSerDe",
        also=("org.apache.hive.hcatalog.data.JsonSerDe",),
    )

    @property
    def is_text(self) -> bool:
        """Return whether each row is a line of text."""
        return self.value.input_format == _TEXT_INPUT

    @classmethod
    def of(cls, serde: str | None, table: str) -> Self:
        """Return the format of a table by its serde.

        Args:
            serde: The Java class.
            table: The table, for the error.

        Raises:
            UnsupportedTable: The serde is unknown.
        """
        for form in cls:
            if serde == form.value.serde or serde in form.value.also:
                return form
        raise UnsupportedTable(
            f"{table} is stored through {serde}, which is not supported.",
            remedy=f"Use a table of one of the formats {', '.join(form.name for form in cls)}.",
        )


ROW_COUNT = "numRows"
# After every compaction, Hive 4 trusts the number without counting. It adds its own rows to the
# stored number, treats a missing number as 0, and also adds to -1. It cannot add to this value, and
# all engines read it as unknown.
UNKNOWN_ROW_COUNT = ""

# The largest that Hive reads have ten digits.
_NUMBER = re.compile("[0-9]{1,18}")
_KIND_PARAMETERS: dict[TableKind, dict[str, str]] = {
    TableKind.FULL_ACID: {"transactional": "true", "transactional_properties": "default"},
    TableKind.INSERT_ONLY: {"transactional": "true", "transactional_properties": "insert_only"},
    TableKind.NOT_ACID: {},
}


@dataclass(frozen=True)
class HiveDatabase:
    """A database; new transactional tables are created below `managed_location` if it is set."""

    name: str
    location: str | None
    managed_location: str | None
    owner: str | None
    parameters: Mapping[str, str]
    comment: str | None = None

    @classmethod
    def from_thrift(cls, database: Any) -> Self:
        """Read the metastore's own struct."""
        return cls(
            name=database.name,
            location=database.locationUri,
            managed_location=database.managedLocationUri,
            owner=database.ownerName,
            parameters=database.parameters or {},
            comment=database.description,
        )


@dataclass(frozen=True)
class HiveColumn:
    """A column with its type in Hive's words."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, kw_only=True)
class HiveTable:
    """A table as the metastore describes it.

    Attributes:
        ref: Its name.
        kind: Not transactional, insert-only or full ACID.
        location: Its folder, without redundant slashes; if missing, the metastore chooses one.
        columns: The columns without the partition keys.
        partition_keys: The partition keys, in order.
        parameters: The table properties.
        bucket_columns: The columns that distribute rows over the buckets.
        num_buckets: The number of buckets; -1 if rows are not distributed.
        sort_columns: The columns that sort rows inside a bucket.
        input_format: The Java class that reads the table.
        serde: The Java class of the row format.
        serde_parameters: The properties of the row format.
        owner: The owner of the table.
        raw: The Thrift struct, so that an alter sends back every field it does not change.
        default_mapping: The mapping of columns in ORC files unless a table property overrides it.
    """

    ref: TableRef
    kind: TableKind
    location: Location | None
    columns: tuple[HiveColumn, ...]
    partition_keys: tuple[HiveColumn, ...]
    parameters: Mapping[str, str]
    bucket_columns: tuple[str, ...]
    num_buckets: int
    sort_columns: tuple[str, ...]
    input_format: str | None
    serde: str | None
    serde_parameters: Mapping[str, str]
    owner: str | None
    raw: Any = field(repr=False, compare=False)
    default_mapping: ColumnMapping | None = ColumnMapping.POSITION

    @property
    def folder(self) -> Location:
        """The location of a table that has files.

        Raises:
            UnsupportedTable: The table has no location, like a view.
        """
        if not self.location:
            raise UnsupportedTable(f"{self.ref.full_name} has no files; it may be a view.")
        return self.location

    @property
    def identity(self) -> TableIdentity:
        """The creation of the table, which distinguishes it from a later table of the same name."""
        # A definition that no metastore has stored was not created.
        return TableIdentity(created=int(self.raw.createTime or 0), id=self.raw.id or None)

    @property
    def format(self) -> StorageFormat:
        """The format of the table's files.

        Raises:
            UnsupportedTable: The format is unknown.
        """
        return StorageFormat.of(self.serde, self.ref.full_name)

    @property
    def key_types(self) -> Mapping[str, str]:
        """The types of the partition keys by their names in lower case, in order."""
        return {key.name.lower(): key.type for key in self.partition_keys}

    @property
    def is_view(self) -> bool:
        """Return whether the table is a view."""
        return bool(self.raw.tableType == "VIRTUAL_VIEW")

    @property
    def view_text(self) -> str:
        """The query of a view, with the databases of its tables where Hive has written them."""
        return str(self.raw.viewExpandedText or self.raw.viewOriginalText or "")

    @property
    def stored_columns(self) -> tuple[HiveColumn, ...]:
        """All columns stored in its files, also for a table that is reduced to some of them."""
        listed_columns = _read_columns(self.raw.sd)
        names = {column.name for column in listed_columns}
        # New columns of a table come after those in the metastore.
        return (*listed_columns, *(column for column in self.columns if column.name not in names))

    @property
    def mapped_columns(self) -> MappedColumns:
        """All columns stored in its files, with their mapping.

        Raises:
            UnsupportedTable: The value of a mapping property is unknown.
        """
        names = tuple(column.name for column in self.stored_columns)
        return MappedColumns(names, self._column_mapping)

    @property
    def finds_columns_by_position(self) -> bool | None:
        """Whether engines find the columns of its files by position, in any format; None: unknown."""
        if self.format.is_text:
            return self.format is not StorageFormat.JSON
        mapping = self._column_mapping
        return None if mapping is None else mapping is ColumnMapping.POSITION

    @property
    def _column_mapping(self) -> ColumnMapping | None:
        if self.serde == StorageFormat.PARQUET.value.serde:
            setting = {**self.parameters, **self.serde_parameters}.get(PARQUET_BY_POSITION, "")
            by_position = setting.strip().lower() == "true"
            return ColumnMapping.POSITION if by_position else ColumnMapping.NAME
        property_value = self.parameters.get(COLUMN_MAPPING)
        if property_value is None:
            return self.default_mapping
        setting = property_value.strip().lower()
        if setting not in list(ColumnMapping):
            raise UnsupportedTable(
                f"{self.ref.full_name} has the property {COLUMN_MAPPING}={setting[:100]!r}, which is"
                " not a column mapping.",
                remedy=f"Set it to {' or '.join(ColumnMapping)}, or remove it.",
            )
        return ColumnMapping(setting)

    @property
    def orc_codec(self) -> str:
        """The compression that the table wants for its ORC files."""
        return self.parameters.get(ORC_COMPRESS, "zlib").lower()

    @property
    def bucketing_version(self) -> int:
        """The version of Hive's hash function (1 or 2) that distributes the rows."""
        return self.number("bucketing_version", 1, range(1, 3))

    def number(self, name: str, default: int, allowed: range) -> int:
        """Return a numeric property.

        Args:
            name: The property.
            default: The value if the table lacks the property.
            allowed: The valid values.

        Raises:
            UnsupportedTable: The value is invalid.
        """
        property_value = self.parameters.get(name, str(default))
        if not _NUMBER.fullmatch(property_value) or int(property_value) not in allowed:
            raise UnsupportedTable(
                f"{self.ref.full_name} has the property {name}={property_value[:100]!r}, which is no number "
                f"from {allowed[0]} to {allowed[-1]}.",
                remedy=f"Set it to {default}, for example, or remove it.",
            )
        return int(property_value)

    @property
    def local_time_columns(self) -> list[str]:
        """The columns with timestamps with local time zone, nested ones included."""
        return [
            column.name for column in self.columns if LOCAL_ZONE in str(parse_type(column.type))
        ]

    @classmethod
    def new(
        cls,
        ref: TableRef,
        columns: Sequence[HiveColumn],
        *,
        partition_keys: Sequence[HiveColumn] = (),
        bucket_columns: Sequence[str] = (),
        num_buckets: int = -1,
        parameters: Mapping[str, str] | None = None,
        kind: TableKind = TableKind.FULL_ACID,
        location: Location | None = None,
        owner: str | None = None,
        format: StorageFormat = StorageFormat.ORC,
        serde_parameters: Mapping[str, str] | None = None,
    ) -> Self:
        """Describe a table that is to be created.

        Raises:
            UnsupportedTable: The table is full-ACID, and its format is not ORC.
        """
        if kind is TableKind.FULL_ACID and format is not StorageFormat.ORC:
            raise UnsupportedTable(
                f"{ref.full_name} cannot be a full-ACID table of the format {format.name}.",
                remedy="Store it as ORC, or make it insert-only with "
                "'transactional_properties'='insert_only'.",
            )
        storage = idl_tables.StorageDescriptor(
            cols=_to_fields(columns),
            location=location,
            inputFormat=format.value.input_format,
            outputFormat=format.value.output_format,
            compressed=False,
            numBuckets=num_buckets,
            serdeInfo=idl_tables.SerDeInfo(
                serializationLib=format.value.serde, parameters=dict(serde_parameters or {})
            ),
            bucketCols=list(bucket_columns),
            sortCols=[],
            parameters={},
        )
        table = idl_tables.Table(
            tableName=ref.name,
            dbName=ref.database,
            owner=owner,
            sd=storage,
            partitionKeys=_to_fields(partition_keys),
            # Without the version Hive would distribute rows by its older hash function.
            parameters={
                "bucketing_version": "2",
                **_KIND_PARAMETERS[kind],
                **({} if partition_keys else {ROW_COUNT: UNKNOWN_ROW_COUNT}),
                **(parameters or {}),
            },
            tableType="MANAGED_TABLE",
        )
        return cls.from_thrift(table)

    @classmethod
    def from_thrift(
        cls, table: Any, default_mapping: ColumnMapping | None = ColumnMapping.POSITION
    ) -> Self:
        """Read the metastore's own struct."""
        storage, parameters = table.sd, table.parameters or {}
        serde = storage.serdeInfo or idl_tables.SerDeInfo()
        return cls(
            ref=TableRef(table.dbName, table.tableName),
            kind=TableKind.of(parameters),
            location=_checked_by_client(storage.location),
            columns=_read_columns(storage),
            partition_keys=_to_columns(table.partitionKeys),
            parameters=parameters,
            bucket_columns=tuple(storage.bucketCols or ()),
            num_buckets=storage.numBuckets,
            sort_columns=tuple(order.col for order in storage.sortCols or ()),
            input_format=storage.inputFormat,
            serde=serde.serializationLib,
            serde_parameters=serde.parameters or {},
            owner=table.owner,
            raw=table,
            default_mapping=default_mapping,
        )


@dataclass(frozen=True, kw_only=True)
class HivePartition:
    """A partition as the metastore describes it.

    Attributes:
        name: Its name, escaped: ``day=2026-01-01/city=S%C3%A3o``.
        values: The values of the partition keys as text; null for Hive's default partition.
        location: Its folder, without redundant slashes.
        columns: The columns it was written with, which may be fewer than the table's.
        parameters: The partition properties.
        bucket_columns: The columns that its rows are distributed by; perhaps not the table's.
        num_buckets: The number of its buckets; -1 or 0 without buckets.
        sort_columns: The columns that rows are sorted by inside a bucket.
        input_format: The Java class that reads the partition.
        serde: The Java class of the row format.
        serde_parameters: The properties of the row format.
        raw: The Thrift struct, so that an alter sends back every field it does not change.
    """

    name: str
    values: tuple[str | None, ...]
    location: Location | None
    columns: tuple[HiveColumn, ...]
    parameters: Mapping[str, str]
    bucket_columns: tuple[str, ...]
    num_buckets: int
    sort_columns: tuple[str, ...]
    input_format: str | None
    serde: str | None
    serde_parameters: Mapping[str, str]
    raw: Any = field(repr=False, compare=False)

    @property
    def folder(self) -> Location:
        """The location of a partition that has files.

        Raises:
            UnsupportedTable: The partition has no location.
        """
        if not self.location:
            raise UnsupportedTable(f"The partition {self.name} has no folder.")
        return self.location

    @classmethod
    def new(cls, table: HiveTable, values: Sequence[str | None]) -> Self:
        """Describe a partition that is to be added at its usual place below the table.

        Args:
            table: The table as it was read under the lock of the transaction that adds the
                partition, which gets its columns: statements that change columns change those of
                the partitions that exist by then.
            values: The values of the partition keys; None for Hive's default partition.
        """
        storage = deepcopy(table.raw.sd)
        name = partition_name([key.name for key in table.partition_keys], values)
        storage.location = f"{table.location}/{name}"
        partition = idl_tables.Partition(
            values=[DEFAULT_PARTITION if value is None else value for value in values],
            dbName=table.ref.database,
            tableName=table.ref.name,
            sd=storage,
            parameters={ROW_COUNT: UNKNOWN_ROW_COUNT},
        )
        return cls.from_thrift(table, partition)

    @classmethod
    def from_thrift(cls, table: HiveTable, partition: Any) -> Self:
        """Read the metastore's own struct."""
        values = tuple(None if value == DEFAULT_PARTITION else value for value in partition.values)
        serde = partition.sd.serdeInfo or idl_tables.SerDeInfo()
        return cls(
            name=partition_name([key.name for key in table.partition_keys], values),
            values=values,
            location=_checked_by_client(partition.sd.location),
            columns=_read_columns(partition.sd),
            parameters=partition.parameters or {},
            bucket_columns=tuple(partition.sd.bucketCols or ()),
            num_buckets=partition.sd.numBuckets or -1,
            sort_columns=tuple(order.col for order in partition.sd.sortCols or ()),
            input_format=partition.sd.inputFormat,
            serde=serde.serializationLib,
            serde_parameters=serde.parameters or {},
            raw=partition,
        )


def _checked_by_client(location: str | None) -> Location | None:
    """Return a location of a definition: the client returns none that it may not open."""
    return None if location is None else Location(plain_location(location))


def clustering_columns(table: HiveTable, partition: HivePartition | None = None) -> tuple[str, ...]:
    """Return the columns that distribute the rows, in lower case; empty without buckets.

    Args:
        table: The table.
        partition: The partition; omitted for a table without partitions.
    """
    storage = table if partition is None else partition
    if storage.num_buckets <= 0:
        return ()
    return tuple(name.lower() for name in storage.bucket_columns)


def layout_of(table: HiveTable, partition: HivePartition | None = None) -> BucketLayout | None:
    """Return the distribution of new rows over files, if the table has buckets.

    Hive keeps the version of the hash function in the properties of the table alone.

    Args:
        table: The table.
        partition: The partition; omitted for the table itself, or a new partition.

    Raises:
        TypeMismatch: A clustering column is not a column of the table.
        UnsupportedTable: The version of the hash function is unknown.
    """
    if not (names := clustering_columns(table, partition)):
        return None
    columns_by_name = {
        column.name.lower(): BucketColumn(position, column.name.lower(), column.type.lower())
        for position, column in enumerate(table.columns)
    }
    for name in names:
        if name not in columns_by_name:
            where = "" if partition is None else f"The partition {partition.name} of "
            raise TypeMismatch(
                f"{where}{table.ref.full_name} is clustered by {name}, which the table lacks."
            )
    count = (table if partition is None else partition).num_buckets
    return BucketLayout(
        tuple(columns_by_name[name] for name in names), count, table.bucketing_version
    )


def require_orc(table: HiveTable, partition: HivePartition | None) -> None:
    """Reject a partition of a full ACID table whose files are not ORC.

    Hive refuses to change the format of such a table; other clients of the metastore may not.

    Raises:
        UnsupportedTable: The partition has another format, or an unknown one.
    """
    if partition is None or table.kind is not TableKind.FULL_ACID:
        return
    name = f"The partition {partition.name} of {table.ref.full_name}"
    form = StorageFormat.of(partition.serde, name)
    if form is not StorageFormat.ORC:
        raise UnsupportedTable(
            f"{name} has the format {form.name}. Files of full ACID tables are ORC files.",
            remedy="Set the input format, the output format and the SerDe of the partition to"
            " those of the table.",
        )


def require_unsorted(table: HiveTable, partition: HivePartition | None) -> None:
    """Reject a partition that requires sorted rows inside its buckets.

    Raises:
        UnsupportedTable: The partition is sorted.
    """
    if partition is not None and partition.sort_columns:
        raise UnsupportedTable(
            f"The partition {partition.name} of {table.ref.full_name} is sorted by"
            f" {', '.join(partition.sort_columns)}; rows of ACID tables are in the order of their"
            " row ids.",
            remedy="Remove SORTED BY from the definition of the partition.",
        )


def _to_fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [idl_tables.FieldSchema(column.name, column.type, column.comment) for column in columns]


def _read_columns(storage: Any) -> tuple[HiveColumn, ...]:
    columns = _to_columns(storage.cols)
    if storage.serdeInfo and storage.serdeInfo.serializationLib == StorageFormat.CSV.value.serde:
        # This serde returns texts to Hive, regardless of the types in the metastore.
        return tuple(replace(column, type="string") for column in columns)
    return columns


def _to_columns(fields: Sequence[Any] | None) -> tuple[HiveColumn, ...]:
    return tuple(_column(field.name, field.type, field.comment) for field in fields or ())


@lru_cache(4096)
def _column(name: str, type_: str, comment: str | None) -> HiveColumn:
    """Return a column; the partitions of a table have the same ones."""
    return HiveColumn(name, type_, comment)
