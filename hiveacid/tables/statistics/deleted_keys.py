"""The row ids that are deleted in a partition, and which stripes can hold such rows."""

from collections.abc import Iterable

import numpy as np

from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.write_ids import WriteIdList
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, open_data, read_tail

_KEY = (EnvelopeColumn.ORIGINAL_TRANSACTION, EnvelopeColumn.BUCKET, EnvelopeColumn.ROW_ID)


class DeletedKeys:
    """The row ids of visible delete events."""

    def __init__(self, parts: Iterable[Keys]) -> None:
        rows: dict[tuple[int, int], list[Integers]] = {}
        for keys in parts:
            pairs = np.stack([keys.original_write_ids, keys.buckets])
            for write_id, bucket in np.unique(pairs, axis=1).T.tolist():
                mine = (keys.original_write_ids == write_id) & (keys.buckets == bucket)
                rows.setdefault((write_id, bucket), []).append(keys.rows[mine])
        self._rows = {key: np.unique(np.concatenate(found)) for key, found in rows.items()}

    def __bool__(self) -> bool:
        return bool(self._rows)

    @classmethod
    def read(
        cls, storage: ReadOnlyStorage, files: Iterable[DataFile], write_ids: WriteIdList
    ) -> "DeletedKeys":
        """Read the delete events of some files that a snapshot sees.

        Raises:
            CorruptFile: A file cannot be read.
        """
        return cls(keys for file in files for keys in _visible_events(storage, file, write_ids))

    def may_hit(self, tail: OrcTail, stripe: int) -> bool:
        """Return whether a row of a stripe may be deleted."""
        if not self._rows:
            return False
        ranges = [tail.int_range(stripe, column) for column in _KEY]
        write_ids, buckets, rows = ranges
        if write_ids is None or buckets is None or rows is None:
            return True
        if write_ids[0] == write_ids[1] and buckets[0] == buckets[1]:
            deleted = self._rows.get((write_ids[0], buckets[0]))
            return deleted is not None and _any_within(deleted, rows)
        return any(
            write_ids[0] <= write_id <= write_ids[1]
            and buckets[0] <= bucket <= buckets[1]
            and _any_within(deleted, rows)
            for (write_id, bucket), deleted in self._rows.items()
        )


def _visible_events(
    storage: ReadOnlyStorage, file: DataFile, write_ids: WriteIdList
) -> Iterable[Keys]:
    tail = read_tail(storage, file.path, file.size)
    with (
        translated_os_errors(f"{storage.location}/{file.path}"),
        open_data(storage, file) as source,
    ):
        for keys in read_keys(source, tail):
            current = keys.current_write_ids
            visible = [each for each in np.unique(current).tolist() if write_ids.is_valid(each)]
            yield keys[np.isin(current, visible)]


def _any_within(sorted_rows: Integers, bounds: tuple[int, int]) -> bool:
    at = int(np.searchsorted(sorted_rows, bounds[0]))
    return at < len(sorted_rows) and int(sorted_rows[at]) <= bounds[1]
