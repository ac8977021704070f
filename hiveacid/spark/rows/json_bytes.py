"""Values of tinyint in JSON, which Spark would change.

Spark's parser reads 128 to 255 as -128 to -1, and only larger numbers as malformed. So each tinyint
is read as a smallint, and a value that does not fit into a tinyint is as malformed as the others.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import MALFORMED
from hiveacid.spark.rows.columns import select_as
from hiveacid.spark.rows.conversion import text_as_sql, type_as_sql


def load_json(
    reader: DataFrameReader | DataStreamReader, path: str | None, line: str = "", mode: str = ""
) -> DataFrame:
    """Load files of JSON.

    Args:
        reader: The reader, with its options.
        path: The files; None if an option names them.
        line: The name of the column for malformed lines, which need not exist.
        mode: The mode of the reader.
    """
    rows = reader.load(path)
    schema = rows.schema
    if (wide := with_shorts(schema)) == schema:
        return rows
    rows = reader.schema(wide).load(path)
    columns, wrong = narrowed({name: quoted(name) for name in schema.names}, schema)
    if line in columns:
        line_column = quoted(line)
        read = f"to_json(struct({', '.join(quoted(name) for name in columns if name != line)}))"
        columns[line] = (
            f"CASE WHEN {line_column} IS NULL AND ({wrong}) THEN {read} ELSE {line_column} END"
        )
    message = text_as_sql(f"{MALFORMED} A number does not fit into a tinyint in ")
    error = f"raise_error(concat({message}, input_file_name(), '.'))"
    refused = {"DROPMALFORMED": "FALSE", "FAILFAST": f"CAST({error} AS BOOLEAN)"}
    if (instead := refused.get(mode.upper())) is not None:
        rows = rows.where(f"CASE WHEN {wrong} THEN {instead} ELSE TRUE END")
    return select_as(rows, columns)


def with_shorts(schema: StructType) -> StructType:
    """Return fields with a smallint in place of each tinyint."""
    return StructType(
        [StructField(f.name, _wide(f.dataType), f.nullable, f.metadata) for f in schema.fields]
    )


def _wide(type_: DataType) -> DataType:
    match type_:
        case ByteType():
            return ShortType()
        case ArrayType():
            return ArrayType(_wide(type_.elementType), type_.containsNull)
        case MapType():
            return MapType(type_.keyType, _wide(type_.valueType), type_.valueContainsNull)
        case StructType():
            return with_shorts(type_)
    return type_


def narrowed(values: Mapping[str, str], schema: StructType) -> tuple[dict[str, str], str]:
    """Return values that were read ``with_shorts`` in their own types, and whether one does not fit.

    Args:
        values: The expressions by the names of the fields.
        schema: The fields, with a tinyint.

    Returns:
        The expressions, in which a number that does not fit is null, and a condition.
    """
    columns, wrong = {**values}, ["FALSE"]
    for field in schema.fields:
        if _wide(field.dataType) != field.dataType:
            value = values[field.name]
            columns[field.name] = f"TRY_CAST({value} AS {type_as_sql(field.dataType)})"
            # Within values of a map, the text alone can be compared.
            texts = [f"to_json(struct({text} AS v))" for text in (value, columns[field.name])]
            wrong.append(" <> ".join(texts))
    return columns, " OR ".join(wrong)
