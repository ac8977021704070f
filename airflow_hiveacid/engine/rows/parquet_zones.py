"""Timestamps in Parquet files: Hive stores them as instants, in the time zone of its machine."""

from collections.abc import Sequence

from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.metastore.catalog import HiveColumn
from airflow_hiveacid.storage.folder import ReadOnlyStorage

# Hive 4 stores its time zone in a file under this name.
_ZONE = b"writer.time.zone"
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})


def by_zone(columns: Sequence[HiveColumn], paths: Sequence[str]) -> dict[str, list[str]]:
    """Group files by the time zone for showing their timestamps.

    Raises:
        UnsupportedFile: Such timestamps are nested.
    """
    timestamps = [column for column in columns if "timestamp" in column.type.lower()]
    if not timestamps:
        return {"UTC": list(paths)}
    files_of: dict[str, list[str]] = {}
    for path, zone in zip(paths, in_threads(_zone_of, paths), strict=True):
        files_of.setdefault("UTC" if zone in _UTC else zone, []).append(path)
    nested = [column.name for column in timestamps if column.type.lower() != "timestamp"]
    if nested and files_of.keys() - {"UTC"}:
        raise UnsupportedFile(
            f"{', '.join(nested)}: timestamps within other values, which Hive wrote in the zones "
            f"{', '.join(sorted(files_of))}.",
            remedy="Let Hive copy the rows into an ORC table.",
        )
    return files_of


def in_zone(frame: DataFrame, columns: Sequence[HiveColumn], zone: str) -> DataFrame:
    """Convert the timestamps of a frame to local times of a zone."""
    if zone == "UTC":
        return frame
    names = [column.name for column in columns if column.type.lower() == "timestamp"]
    return frame.withColumns(
        {name: F.from_utc_timestamp(F.col(quoted(name)), zone) for name in names}
    )


def _zone_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    with ReadOnlyStorage.of(folder).open_input(name) as source:
        metadata = parquet.read_metadata(source).metadata or {}
    zone: bytes = metadata.get(_ZONE, b"UTC")
    return zone.decode()
