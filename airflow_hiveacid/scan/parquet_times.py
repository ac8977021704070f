"""How Parquet files store times, and which time zone a reader applies to them.

Hive has the same rules: the physical type of a column decides, not the type in the table.
"""

import json
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from airflow_hiveacid.orc.format.stripe_footer import UTC

# Hive 4 stores the time zone of a file's writer under this name.
_ZONE = b"writer.time.zone"
_NAMES_OF_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})


@dataclass(frozen=True, slots=True)
class StoredTime:
    """The form of the dates or timestamps in a leaf of a file's schema.

    Attributes:
        physical: Parquet's physical type: "INT32" (dates), "INT64", or "INT96".
        zone: The time zone of the local times that a reader shows; UTC if it shows the stored
            values, because they are dates, local times, or instants by an unknown clock.
    """

    physical: str
    zone: str = UTC


def stored_times(footer: parquet.FileMetaData) -> dict[str, tuple[StoredTime, ...]]:
    """Return the forms of all dates and timestamps of a Parquet file.

    Returns:
        The forms in each column that has any, in the order of its leaves.

    Raises:
        pa.ArrowException: The schema is invalid.
    """
    zone = (footer.metadata or {}).get(_ZONE, b"UTC").decode(errors="replace")
    zone = UTC if zone in _NAMES_OF_UTC else zone
    leaves = (footer.schema.column(number) for number in range(footer.num_columns))
    columns = {}
    for field in footer.schema.to_arrow_schema():
        forms = (_form(leaf, zone) for leaf in islice(leaves, _leaf_count(field.type)))
        if times := tuple(form for form in forms if form is not None):
            columns[field.name] = times
    return columns


def _form(leaf: parquet.ColumnSchema, zone: str) -> StoredTime | None:
    logical = json.loads(leaf.logical_type.to_json())
    if leaf.physical_type == "INT96":
        return StoredTime("INT96", zone)
    if logical["Type"] == "Timestamp":
        return StoredTime("INT64", zone if logical["isAdjustedToUTC"] else UTC)
    return StoredTime("INT32") if logical["Type"] == "Date" else None


def _leaf_count(kind: pa.DataType) -> int:
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return sum(map(_leaf_count, parts)) if parts else 1
