"""Files as Spark can read them: whole ones, which say what they are to Spark.

A streaming writer appends to a file after its tail, and other engines than Spark do not say what
their moments are.
"""

from dataclasses import replace

from airflow_hiveacid.orc.output import Output, Sink, Source
from airflow_hiveacid.orc.row_types import spark_types
from airflow_hiveacid.orc.tail import MAGIC, OrcTail


def readable(tail: OrcTail) -> OrcTail:
    """A tail of the same file that says what Spark asks for; the same one if it does already."""
    types = spark_types(tail.types)
    return tail if types == tail.types else replace(tail, types=types)


def copy_readable(source: Source, tail: OrcTail, sink: Sink) -> int:
    """Copy the stripes of a file as they are, and write a tail that Spark understands.

    Args:
        source: The file.
        tail: Its tail, or an earlier one of a file that has grown since.
        sink: Takes the copy.

    Returns:
        The bytes of the copy.
    """
    end = max([len(MAGIC), *(stripe.offset + stripe.length for stripe in tail.stripes)])
    output = Output(sink)
    output.copy(source, 0, end)
    output.write(readable(tail).encode(end))
    return output.position
