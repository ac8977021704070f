"""Rows that a program gives: frames of Spark as they are, and all others as Arrow."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import TypeMismatch
from hiveacid.jobs.sources import Source
from hiveacid.worker.files import converted, plain_type

# Frames of Spark, pandas, or Polars, tables and readers of Arrow, lists of dictionaries, or sources.
Rows = Any


def is_of_spark(value: object) -> bool:
    """Whether a value is a frame or a column of Spark, which this does not import."""
    return type(value).__module__.partition(".")[0] == "pyspark"


def batch_of(rows: Rows) -> Rows:
    """Return rows as a frame of Spark, or a table of Arrow that both engines can read.

    Args:
        rows: A frame of Spark; a list of dictionaries; a frame of pandas, without its index and with
            its NaN as null; or a table, a batch, or a reader of Arrow, or any other frame that
            exports a stream of Arrow, such as one of Polars.

    Raises:
        TypeError: They are none of these.
        TypeMismatch: A value has no equivalent in a table.
    """
    if is_of_spark(rows):
        return rows
    if _are_dictionaries(rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    if type(rows).__module__.partition(".")[0] == "pandas":
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    elif isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    elif not hasattr(rows, "__arrow_c_stream__"):
        raise TypeError(
            f"Rows are frames, Arrow, or a list of dictionaries, not of type {type(rows).__name__}."
        )
    with pa.RecordBatchReader.from_stream(rows) as reader:
        table = reader.read_all()
    columns = []
    for column in table.columns:
        # Both engines have microseconds.
        is_time = pa.types.is_timestamp(column.type)
        kind = pa.timestamp("us", column.type.tz) if is_time else plain_type(column.type)
        try:
            chunks = [converted(chunk, kind) for chunk in column.chunks]
        except pa.ArrowInvalid as error:
            raise TypeMismatch(f"A value of the given rows cannot be stored: {error}.") from error
        columns.append(pa.chunked_array(chunks, kind))
    return pa.Table.from_arrays(columns, table.column_names)


def without_zones(rows: pa.Table) -> pa.Table:
    """Return rows of Spark with timestamps as tables have them: the time in the zone of the session."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            rows = rows.set_column(number, field.name, pc.local_timestamp(rows.column(number)))
    return rows


def column_names(rows: Rows) -> Sequence[str] | None:
    """Return the names of the columns of rows; None for a source, which is looked up later."""
    if isinstance(rows, Source):
        return None
    return list(rows.columns) if is_of_spark(rows) else list(rows.column_names)


def _are_dictionaries(rows: Rows) -> bool:
    return (
        isinstance(rows, list | tuple)
        and bool(rows)
        and all(isinstance(row, Mapping) for row in rows)
    )
