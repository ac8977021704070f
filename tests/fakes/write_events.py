"""The write events of the fake metastore, as its log of notifications keeps them."""

from pathlib import Path
from typing import Any, NamedTuple

from hiveacid.metastore.thrift import idl_txns


class Place(NamedTuple):
    """The object of one event: a partition, or a table without partitions."""

    txn: int
    database: str
    table: str
    values: tuple[str, ...]


class WriteEvents:
    """Answers the calls of `idl_txns`; methods are named as those are.

    Attributes:
        events: The lists of files of each place: location, checksum and directory.
        recycled: The removed objects that are left to the next dump.
        refused: The number of next calls that fail.
    """

    def __init__(self, is_open: Any) -> None:
        self.events: dict[Place, list[tuple[str, str, str]]] = {}
        self.recycled: list[str] = []
        self.refused = 0
        self._is_open = is_open

    def add_write_notification_log(self, request: Any) -> Any:
        self._refuse()
        self._add(request)
        return idl_txns.WriteNotificationLogResponse()

    def add_write_notification_log_in_batch(self, request: Any) -> Any:
        self._refuse()
        # The real one inserts a row for each, and its key does not allow two.
        places = [tuple(each.partitionVals or ()) for each in request.requestList]
        assert len(places) == len(set(places)), "a partition twice in a batch"
        assert request.catalog is not None
        for each in request.requestList:
            self._add(each)
        return idl_txns.WriteNotificationLogBatchResponse()

    def cm_recycle(self, request: Any) -> Any:
        assert Path(request.dataPath.removeprefix("file:")).exists(), request.dataPath
        self.recycled.append(request.dataPath)
        return idl_txns.CmRecycleResponse()

    def _refuse(self) -> None:
        if self.refused:
            self.refused -= 1
            raise RuntimeError("The database of the metastore has failed.")

    def _add(self, request: Any) -> None:
        told = request.fileInfo
        assert self._is_open(request.txnId), "a write event of a transaction that is not open"
        assert told.replace
        assert told.filesAdded
        lists = (told.filesAdded, told.filesAddedChecksum, told.subDirectoryList)
        for location in told.filesAdded:
            path = Path(location.removeprefix("file:"))
            assert not location.startswith("file:") or path.exists(), location
        values = tuple(request.partitionVals or ())
        place = Place(request.txnId, request.db, request.table, values)
        known = self.events.setdefault(place, [])
        known += [each for each in zip(*lists, strict=True) if each not in known]
