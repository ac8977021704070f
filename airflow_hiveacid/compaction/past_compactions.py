"""Work and CPU time of earlier compactions, from the notes in their directories.

Any user who can write into a table's folder can forge a note. Invalid parts are ignored, and the
numbers only affect the predicted cost, within limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_fit import PastRun
from airflow_hiveacid.acid.compaction_forecast import Forecast
from airflow_hiveacid.acid.names import SIDECAR_FILE, Base, Delta, parse_directory
from airflow_hiveacid.acid.partition_size import PartitionSize
from airflow_hiveacid.acid.sidecar import CORE_SECONDS, parse_note, replaced_by, written_files
from airflow_hiveacid.acid.write_facts import seconds_of, whole
from airflow_hiveacid.errors import HiveAcidError, MalformedName
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

_MOST_NOTES = 200


def past_compactions(
    client: MetastoreClient, table: HiveTable, sizes: Sequence[PartitionSize]
) -> list[PastRun]:
    """Read the notes of the compactions whose directories are still current.

    Args:
        client: The metastore.
        table: The table.
        sizes: The measurements of its partitions.
    """
    places = [
        (size, name)
        for size in sizes
        for name in (size.base, *size.deltas)
        if name is not None and _may_be_compacted(name)
    ][:_MOST_NOTES]
    if not places:
        return []
    folders: dict[str | None, str] = {None: table.folder}
    names = list(dict.fromkeys(size.partition for size, _ in places if size.partition))
    if names:
        folders |= {each.name: each.folder for each in client.get_partitions(table, names)}

    def read(place: tuple[PartitionSize, str]) -> PastRun | None:
        size, name = place
        folder = folders.get(size.partition)
        if folder is None:
            return None
        try:
            content = ReadOnlyStorage.of(folder).read_small(f"{name}/{SIDECAR_FILE}")
        except HiveAcidError:
            return None  # The plan does not depend on it.
        note = None if content is None else parse_note(content)
        return None if note is None else past_run(note)

    return list(_newest_valid(in_threads(read, places)))


def past_run(note: Mapping[str, Any]) -> PastRun | None:
    """Return the work of a compaction; None if the note lacks it, or is of another operation.

    Only notes of compactions in one thread contain the CPU time. Clock time would mostly show how busy
    the machine was.

    Args:
        note: The note of a directory.
    """
    if note.get("operation") not in (CompactionType.MINOR, CompactionType.MAJOR):
        return None
    proof, seconds = note.get("proof"), seconds_of({"": note.get(CORE_SECONDS)})
    replaced, files = replaced_by(note), written_files(note)
    if not isinstance(proof, Mapping) or not files or seconds is None or replaced is None:
        return None
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    if not rows:
        return None
    share = min(1.0, (whole(proof.get("rows_encoded")) or 0) / rows)
    events = whole(proof.get("events_read")) or whole(proof.get("rows_deleted")) or 0
    encoded = round(share * size)
    return PastRun(
        work=Forecast(copied_bytes=size - encoded, encoded_bytes=encoded, delete_events=events),
        directories=len(replaced.paths),
        seconds=seconds,
    )


def _may_be_compacted(directory: str) -> bool:
    """Whether the name may be that of the output of a compaction."""
    try:
        parsed = parse_directory(directory)
    except MalformedName:
        return False
    if isinstance(parsed, Base):
        return True
    return isinstance(parsed, Delta) and parsed.statement_id is None


def _newest_valid(runs: Sequence[PastRun | None]) -> Iterator[PastRun]:
    return (run for run in runs if run is not None and run.is_valid)
