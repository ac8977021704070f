"""Files as Spark can read them: whole ones, which say what they are to Spark.

A streaming writer appends to a file after its tail, and other engines than Spark do not say what
their timestamps are.
"""

from dataclasses import replace

from airflow_hiveacid.orc.row_types import spark_types
from airflow_hiveacid.orc.source_and_sink import Output, Sink, Source
from airflow_hiveacid.orc.stripe_copy import copy_stripes
from airflow_hiveacid.orc.tail import MAGIC, OrcTail


def readable(tail: OrcTail) -> OrcTail:
    """A tail of the same file that says what Spark asks for; the same one if it does already."""
    types = spark_types(tail.types)
    return tail if types == tail.types else replace(tail, types=types)


def copy_readable(source: Source, tail: OrcTail, sink: Sink) -> int:
    """Copy the stripes of a file, and write a tail that Spark understands.

    Args:
        source: The file.
        tail: Its tail, or an earlier one of a file that has grown since.
        sink: Takes the copy.

    Returns:
        The bytes of the copy.
    """
    output = Output(sink)
    output.write(MAGIC)
    stripes = tuple(copy_stripes(source, tail, range(len(tail.stripes)), output))
    output.write(replace(readable(tail), stripes=stripes).encode(output.position))
    return output.position
