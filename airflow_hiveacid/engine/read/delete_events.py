"""Delete events that are visible to a snapshot, read in the driver."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import orc

from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.read.files import AcidFile
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.format.envelope import RowOperation
from airflow_hiveacid.storage.folder import Storage

# Up to this number, events are read in the driver, which needs 32 bytes for each.
MOST_EVENTS = 2_000_000
_COLUMNS = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]

Ids = NDArray[np.int64]


def read_events(
    files: Sequence[tuple[int, AcidFile]], write_ids: ValidWriteIdList
) -> tuple[Ids, ...]:
    """The row ids in the events of some files: write ids, buckets, rows and partitions.

    Args:
        files: Files of delete events, each with the number of its partition.
        write_ids: The write ids that the snapshot sees.
    """

    def read(numbered: tuple[int, AcidFile]) -> Ids:
        number, file = numbered
        events = _read(file, write_ids)
        return np.vstack([events, np.full(events.shape[1], number)])

    return tuple(np.hstack([np.zeros((4, 0), np.int64), *in_threads(read, files)]))


def _read(file: AcidFile, write_ids: ValidWriteIdList) -> Ids:
    folder, _, name = file.path.rpartition("/")
    with Storage.of(folder).open_input(name) as source:
        try:
            known: Any = orc.ORCFile(source)
            # Some compactions of Hive write all names in lower case.
            by_lower = {name.lower(): name for name in known.schema.names}
            names = [by_lower.get(name.lower(), name) for name in _COLUMNS]
            table = known.read(columns=names)
            columns = [table[name].cast(pa.int64()) for name in names]
        except (OSError, pa.ArrowException) as error:
            raise CorruptFile(f"{file.path} cannot be read as ORC: {error}") from error
    if any(column.null_count for column in columns):
        raise CorruptFile(f"{file.path} holds events without a row id.")
    operation, *parts, current = map(np.asarray, columns)
    strange = np.flatnonzero(operation != RowOperation.DELETE)
    if len(strange):
        raise CorruptFile(
            f"{file.path} holds events of operation {operation[strange[0]]}, which do not belong "
            "into its directory."
        )
    events = np.vstack(parts)
    if file.exact:
        return events
    hidden = [*write_ids.open, *write_ids.aborted]
    visible = (current <= write_ids.high_watermark) & ~np.isin(current, hidden)
    return events[:, visible]
