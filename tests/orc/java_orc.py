"""ORC's own Java library of Spark: it writes and reads timestamps to the nanosecond."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.java_gateway import get_field, set_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPE = "struct<id:bigint,at:timestamp,more:array<timestamp>,st:struct<at:timestamp>>"
_BATCH = 1000


def write_timestamps(
    spark: "SparkSession",
    path: Path,
    timestamps: Sequence[tuple[int, int] | None],
    **options: object,
) -> None:
    """Write a flat file of `TYPE`, a row for each timestamp: seconds since 1970, and nanoseconds.

    Every third array ends with a null.
    """
    jvm = spark._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in options.items():
        configuration.set(name.replace("_", "."), str(value))
    schema = jvm.org.apache.orc.TypeDescription.fromString(TYPE)
    writer = jvm.org.apache.orc.OrcFile.createWriter(
        jvm.org.apache.hadoop.fs.Path(str(path)),
        jvm.org.apache.orc.OrcFile.writerOptions(configuration).setSchema(schema),
    )
    for start in range(0, len(timestamps), _BATCH):
        part = timestamps[start : start + _BATCH]
        batch = schema.createRowBatch(_BATCH)
        ids, at, more, struct = get_field(batch, "cols")
        elements, (inside,) = get_field(more, "child"), get_field(struct, "fields")
        elements.ensureSize(2 * _BATCH, False)
        numbers = get_field(ids, "vector")
        offsets, lengths = get_field(more, "offsets"), get_field(more, "lengths")
        for row, timestamp in enumerate(part):
            numbers[row] = start + row
            offsets[row], lengths[row] = 2 * row, 2
            for column, place in (
                (at, row),
                (elements, 2 * row),
                (elements, 2 * row + 1),
                (inside, row),
            ):
                if timestamp is None or (column is elements and place % 6 == 1):
                    get_field(column, "isNull")[place] = True
                    set_field(column, "noNulls", False)
                else:
                    stamp = jvm.java.sql.Timestamp(timestamp[0] * 1000)
                    stamp.setNanos(timestamp[1])
                    column.set(place, stamp)
        set_field(batch, "size", len(part))
        writer.addRowBatch(batch)
    writer.close()


def read_rows(spark: "SparkSession", path: Path, first: int = 0) -> list[str]:
    """The rows of a file from one on, which is sought by the row index, as the library prints them."""
    jvm = spark._jvm
    reader = jvm.org.apache.orc.OrcFile.createReader(
        jvm.org.apache.hadoop.fs.Path(str(path)),
        jvm.org.apache.orc.OrcFile.readerOptions(jvm.org.apache.hadoop.conf.Configuration()),
    )
    batch = reader.getSchema().createRowBatch()
    rows = reader.rows()
    rows.seekToRow(first)
    found: list[str] = []
    while rows.nextBatch(batch):
        found += batch.toString().split("\n")[1:]
    rows.close()
    return found
