"""Files that Spark wrote, with the types of the table; and files in a form that Spark can read.

Spark writes char and varchar as plain strings, and a timestamp as the time on its clock. The bytes
of a text are the same for all of its types, and so are those of a timestamp if the clock is UTC.

Spark reads only whole files, and only files that declare how Spark should interpret their
timestamps: a streaming writer appends to a file after its tail, and other engines lack the
declaration.
"""

from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.assemble import copy_stripes
from hiveacid.orc.format.compression import Output, Sink, Source
from hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of
from hiveacid.orc.format.layout import joint_types
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.streams import UTC, clock_of
from hiveacid.orc.format.tail import MAGIC, OrcTail, spark_types


def retyped(source: Source, tail: OrcTail, types: Sequence[bytes]) -> OrcTail:
    """Return a file's tail that declares other types for the same bytes.

    Args:
        source: The file.
        tail: Its tail.
        types: The types of the table, the root first.

    Raises:
        UnsupportedFile: The timestamps are not in UTC.
        CorruptFile: The columns differ.
    """
    _check_clock(source, tail)
    clocks = [_as_clock(type_) for type_ in types]
    if joint_types(clocks, [_as_clock(type_) for type_ in tail.types]) is None:
        raise CorruptFile(
            "The ORC file has other columns than its table.",
            remedy="Nothing was published; run the job again.",
        )
    return replace(tail, types=tuple(types))


def readable(tail: OrcTail) -> OrcTail:
    """Return a tail of the same file with the declarations for Spark, or the same tail."""
    types = spark_types(tail.types)
    return tail if types == tail.types else replace(tail, types=types)


def copy_readable(source: Source, tail: OrcTail, sink: Sink) -> int:
    """Copy the stripes of a file, and write a tail that Spark supports.

    Args:
        source: The file.
        tail: Its tail, or an earlier one of a file that has grown since.
        sink: Receives the copy.

    Returns:
        The bytes of the copy.
    """
    output = Output(sink)
    output.write(MAGIC)
    stripes = tuple(copy_stripes(source, tail, range(len(tail.stripes)), output))
    output.write(replace(readable(tail), stripes=stripes).encode(output.position))
    return output.position


def _check_clock(source: Source, tail: OrcTail) -> None:
    if all(kind_of(type_) != TypeKind.TIMESTAMP for type_ in tail.types):
        return
    for stripe in tail.stripes[:1]:
        zone = clock_of(tail.stripe_footer(source, stripe))
        if zone != UTC:
            raise UnsupportedFile(
                f"A task of Spark wrote timestamps by the clock of {zone or 'an unknown zone'}: "
                "Hive would show them shifted.",
                remedy="Start Spark with -Duser.timezone=UTC for driver and executors.",
            )


def _as_clock(type_: bytes) -> bytes:
    if kind_of(type_) != TypeKind.TIMESTAMP_INSTANT:
        return type_
    message = Message.decode(type_).without(TypeField.KIND)
    return message.add_number(TypeField.KIND, TypeKind.TIMESTAMP).encode()
