"""The row ids in delete events, read and compared in the driver."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import orc

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.envelope import RowOperation
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.read.files import AcidFile
from hiveacid.storage.folder import Storage
from hiveacid.storage.threads import in_threads

_COLUMNS = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
# Numbers up to the first limit, multiplied by the number of events, are below the second.
_WIDEST_PART, _LONGEST_CODE = 1 << 40, 1 << 62

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
            # The file may go on after its valid part.
            known: Any = orc.ORCFile(pa.BufferReader(source.read(file.size)))
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


def are_in(known: Sequence[Ids], given: Sequence[Ids]) -> NDArray[np.bool_]:
    """Return a mask of the given row ids that are known.

    Args:
        known: The parts of the known row ids.
        given: The same parts of the row ids to look up.
    """
    possible = np.full(len(given[0]), len(known[0]) > 0)
    if not len(known[0]):
        return possible
    codes, wanted, count = np.zeros(len(known[0]), np.int64), np.zeros(len(given[0]), np.int64), 1
    for ours, theirs in zip(known, given, strict=True):
        first, last = int(ours.min()), int(ours.max())
        if last - first < _WIDEST_PART:
            width, parts, others = last - first + 1, ours - first, theirs - first
            possible &= (theirs >= first) & (theirs <= last)
        else:
            parts, others, is_value, width = _densely(ours, theirs)
            possible &= is_value
        if count * width > _LONGEST_CODE:
            codes, wanted, is_code, count = _densely(codes, wanted)
            possible &= is_code
        codes, wanted = codes * width + parts, wanted * width + others
        count *= width
    _, is_known = _places(np.sort(codes), wanted)
    return possible & is_known


def _densely(ours: Ids, theirs: Ids) -> tuple[Ids, Ids, NDArray[np.bool_], int]:
    """Map values to consecutive numbers; also return the mask of known values and their count."""
    values, numbers = np.unique(ours, return_inverse=True)
    at, is_value = _places(values, theirs)
    return numbers, at, is_value, len(values)


def _places(values: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """The positions of numbers in a sorted array, and the mask of numbers that are present."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return at, values[at] == wanted
