"""The types of a table for files of a writer that knows fewer types than Hive.

Spark writes char and varchar as plain strings, and a timestamp as the time on its clock. The bytes of
a text are the same whatever its type, and those of a timestamp are if the clock is that of UTC.
"""

from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.errors import CorruptFile, UnsupportedFile
from airflow_hiveacid.orc.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.layout import joint_types
from airflow_hiveacid.orc.protobuf import Message
from airflow_hiveacid.orc.source_and_sink import Source
from airflow_hiveacid.orc.tail import OrcTail

_WRITER_TIME_ZONE = 3
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})


def retyped(source: Source, tail: OrcTail, types: Sequence[bytes]) -> OrcTail:
    """A file's tail that declares other types for the same bytes.

    Args:
        source: The file.
        tail: Its tail.
        types: The types of the table, the root first.

    Raises:
        UnsupportedFile: There are times of a clock that is not UTC.
        CorruptFile: The columns are others.
    """
    _check_clock(source, tail)
    clocks = [_as_clock(type_) for type_ in types]
    if joint_types(clocks, [_as_clock(type_) for type_ in tail.types]) is None:
        raise CorruptFile(
            "The ORC file has other columns than its table.",
            remedy="Nothing was published; run the job again.",
        )
    return replace(tail, types=tuple(types))


def _check_clock(source: Source, tail: OrcTail) -> None:
    if all(_kind(type_) != TypeKind.TIMESTAMP for type_ in tail.types):
        return
    for stripe in tail.stripes[:1]:
        footer = tail.stripe_footer(source, stripe)
        zone = (footer.data(_WRITER_TIME_ZONE) or b"").decode()
        if zone not in _UTC:
            raise UnsupportedFile(
                f"A task of Spark wrote timestamps by the clock of {zone or 'an unknown zone'}: "
                "Hive would show them shifted.",
                remedy="Start Spark with -Duser.timezone=UTC for driver and executors.",
            )


def _as_clock(type_: bytes) -> bytes:
    if _kind(type_) != TypeKind.TIMESTAMP_INSTANT:
        return type_
    message = Message.decode(type_).without(TypeField.KIND)
    return message.add_number(TypeField.KIND, TypeKind.TIMESTAMP).encode()


def _kind(type_: bytes) -> int:
    return Message.decode(type_).number(TypeField.KIND)
