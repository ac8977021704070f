"""Timestamps with more digits than microseconds, which readers of Iceberg cut or round."""

from collections.abc import Collection, Mapping, Sequence

from hiveacid.errors import NanosecondsLost
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.orc.format.batches import with_stripes
from hiveacid.orc.format.source_and_sink import Source
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.nanoseconds import finer_column, is_finer_text, is_marked


def require_microseconds(
    path: str, source: Source, tail: OrcTail, stripes: Sequence[int], columns: Collection[str]
) -> None:
    """Refuse a file whose timestamps have more digits than microseconds.

    Args:
        path: Its location, for the message.
        source: The file.
        tail: Its tail.
        stripes: The numbers of the stripes to examine.
        columns: The names of the columns in lower case.

    Raises:
        NanosecondsLost: A column has such a timestamp.
    """
    if is_marked(tail):
        return
    column = finer_column(source, with_stripes(tail, stripes), columns)
    if column is not None:
        raise NanosecondsLost(
            f"{path} has timestamps of more digits than microseconds in the column {column}, which"
            " readers of Iceberg cut or round.",
            remedy="Round the values in the table first.",
        )


def require_microseconds_in_keys(
    table: str, keys: Sequence[HiveColumn], values: Mapping[str, str | None]
) -> None:
    """Refuse a partition whose keys have more digits than microseconds.

    Args:
        table: The name of the table, for the message.
        keys: The partition keys of the table.
        values: The values of the partition by the names of the keys.

    Raises:
        NanosecondsLost: A key is such a timestamp.
    """
    for key in keys:
        value = values[key.name] or ""
        if "timestamp" in key.type.lower() and is_finer_text(value):
            raise NanosecondsLost(
                f"The partition {key.name}={value} of {table} has more digits than microseconds,"
                " which tables of Iceberg cannot store.",
                remedy="Move its rows to a partition with a rounded key first.",
            )
