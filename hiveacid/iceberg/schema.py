"""The columns of a Hive table as a schema of Iceberg, and the columns that Iceberg cannot hold.

Partition keys become columns with identity partitions. Buckets are dropped, because Iceberg hashes
values differently. All columns are optional: Hive does not enforce constraints.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from hiveacid.dataclass import dataclass
from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import EXPORT_ANEW
from hiveacid.iceberg.file_selection import readable
from hiveacid.jobs.iceberg_job import RejectedColumn
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.orc.copying.transplant import ELEMENT, KEY, VALUE, FieldId
from hiveacid.orc.format.tail import row_types
from hiveacid.rules.schema import (
    LOCAL_ZONE,
    Array,
    Char,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    Union,
    Varchar,
    parse_type,
    row_struct,
)

_FIRST_PARTITION_FIELD = 1000
_PRIMITIVES: Mapping[str, PrimitiveType] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    LOCAL_ZONE: TimestamptzType(),
}


@dataclass(frozen=True, slots=True)
class IcebergTableSchema:
    """A table of Iceberg for the rows of a Hive table.

    Attributes:
        schema: Its columns, with provisional ids.
        spec: Its partitions.
        rejected: The columns that Iceberg cannot hold, which are not in the schema.
        notices: Differences to the Hive table that do not change rows.
    """

    schema: Schema
    spec: PartitionSpec
    rejected: tuple[RejectedColumn, ...]
    notices: tuple[str, ...]


def schema_of(table: HiveTable) -> IcebergTableSchema:
    """Return the definition of an Iceberg table for the rows of a Hive table."""
    ids = iter(range(1, 1 << 31))
    rejected: list[RejectedColumn] = []
    fields: dict[str, NestedField] = {}
    for column in (*table.columns, *table.partition_keys):
        is_key = column in table.partition_keys
        try:
            field = _field(column.name, parse_type(column.type), ids, column.comment)
            if is_key and not field.field_type.is_primitive:
                raise _Unsupported("partition keys of Iceberg have primitive types")
        except _Unsupported as error:
            rejected.append(RejectedColumn(name=column.name, type=column.type, reason=str(error)))
        else:
            fields[column.name] = field
    keys = [key.name for key in table.partition_keys if key.name in fields]
    spec = PartitionSpec(
        *(
            PartitionField(
                source_id=fields[name].field_id,
                field_id=_FIRST_PARTITION_FIELD + place,
                transform=IdentityTransform(),
                name=name,
            )
            for place, name in enumerate(keys)
        )
    )
    return IcebergTableSchema(
        Schema(*fields.values()), spec, tuple(rejected), tuple(_notices(table))
    )


def field_ids(schema: Schema, columns: Sequence[HiveColumn]) -> dict[str, FieldId]:
    """Return the ids of the columns stored in files, by their names in lower case."""
    names = {column.name.lower() for column in columns}
    return {
        field.name.lower(): _field_id(field)
        for field in schema.fields
        if field.name.lower() in names
    }


def types_by_name(schema: Schema) -> dict[str, str]:
    """Return the types of all columns and fields by their full names, without ids."""
    types = ((name, schema.find_type(name)) for name in schema.column_names)
    return {
        name: str(type_) if isinstance(type_, PrimitiveType) else type(type_).__name__
        for name, type_ in sorted(types, key=lambda pair: pair[0])
    }


def require_evolved(old_columns: Sequence[tuple[str, str]], table: HiveTable) -> None:
    """Refuse changes of columns by which earlier rows are read differently.

    Args:
        old_columns: The names and types of the columns stored in files, as they were.
        table: The table as it is.

    Raises:
        IcebergRefused: A column was renamed, moved, or dropped, or its type was not only widened.
    """
    now = [(column.name.lower(), column.type.lower()) for column in table.columns]
    common_columns = now[: len(old_columns)]
    if [name for name, _ in common_columns] != [name for name, _ in old_columns]:
        raise IcebergRefused(
            f"Columns of {table.ref.full_name} were renamed, moved, or dropped: the Iceberg table has"
            f" {', '.join(name for name, _ in old_columns)}, and the Hive table has"
            f" {', '.join(name for name, _ in now)}.",
            remedy=EXPORT_ANEW,
        )
    for (name, old), (_, new) in zip(old_columns, common_columns, strict=True):
        types = [row_types(row_struct([(name, type_)])) for type_ in (old, new)]
        if old != new and not readable(*types):
            raise IcebergRefused(
                f"The type of the column {name} of {table.ref.full_name} was changed from {old} to"
                f" {new}, and readers of Iceberg do not convert its earlier values.",
                remedy=EXPORT_ANEW,
            )


class _Unsupported(Exception):
    """A type that Iceberg lacks; the message is the reason."""


def _field(
    name: str, type_: HiveType, ids: Iterator[int], comment: str | None = None
) -> NestedField:
    return NestedField(
        field_id=next(ids),
        name=name,
        field_type=_type(type_, ids),
        required=False,
        doc=comment or None,
    )


def _type(type_: HiveType, ids: Iterator[int]) -> IcebergType:
    match type_:
        case Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Decimal(precision, scale):
            return DecimalType(precision, scale)
        case Varchar():
            return StringType()
        case Char(length):
            raise _Unsupported(
                f"files store the values of {type_} with up to {length - 1} blanks behind them,"
                " which would become parts of the texts; change the column to varchar, and"
                " overwrite the table with its own rows"
            )
        case Array(element):
            return ListType(next(ids), _type(element, ids), element_required=False)
        case Map(key, value):
            numbers = next(ids), next(ids)
            inner_types = _type(key, ids), _type(value, ids)
            return MapType(
                numbers[0], inner_types[0], numbers[1], inner_types[1], value_required=False
            )
        case Struct(fields):
            return StructType(*(_field(name, field_type, ids) for name, field_type in fields))
        case Union():
            raise _Unsupported("Iceberg has no unions")
    raise _Unsupported(f"Iceberg has no type like {type_}")


def _field_id(field: NestedField) -> FieldId:
    return FieldId(field.name, field.field_id, _ids_inside(field.field_type))


def _ids_inside(type_: IcebergType) -> dict[str, FieldId]:
    match type_:
        case StructType():
            return {field.name.lower(): _field_id(field) for field in type_.fields}
        case ListType():
            return {ELEMENT: FieldId(ELEMENT, type_.element_id, _ids_inside(type_.element_type))}
        case MapType():
            return {
                KEY: FieldId(KEY, type_.key_id, _ids_inside(type_.key_type)),
                VALUE: FieldId(VALUE, type_.value_id, _ids_inside(type_.value_type)),
            }
    return {}


def _notices(table: HiveTable) -> Iterator[str]:
    if table.num_buckets > 0:
        yield (
            f"The {table.num_buckets} buckets by {', '.join(table.bucket_columns)} are dropped:"
            " Iceberg computes other hashes."
        )
    for column in (*table.columns, *table.partition_keys):
        if column.type.lower() in ("tinyint", "smallint"):
            yield f"The column {column.name} becomes an int, because Iceberg has no {column.type}."
