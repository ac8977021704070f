"""The statistics of a table that a metastore returns to readers."""

from hiveacid.metastore.statistics import exact_columns
from hiveacid.metastore.thrift.idl_tables import (
    PartitionsStatsRequest,
    TableStatsRequest,
    get_partitions_statistics_req,
    get_table_statistics_req,
)
from hiveacid.metastore.txn.owner import Snapshot

ACCURATE = "COLUMN_STATS_ACCURATE"


class Stored:
    """The statistics of a table, or of one of its partitions, as a new reader gets them."""

    def __init__(self, client, ref, partition=None):
        self.table = client.get_table(ref)
        of = [self.table] if partition is None else client.get_partitions(self.table, [partition])
        self.parameters = of[0].parameters
        seen = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        columns = [column.name for column in self.table.columns]
        request = {"dbName": ref.database, "tblName": ref.name, "colNames": columns}
        if client.features.versions_definitions:
            request |= {"validWriteIdList": seen.format(), "engine": "hive"}
        if partition is None:
            answer = client.call(get_table_statistics_req, TableStatsRequest(**request))
        else:
            of_one = PartitionsStatsRequest(**request, partNames=[partition])
            answer = client.call(get_partitions_statistics_req, of_one)
        found = answer.tableStats if partition is None else answer.partStats.get(partition, [])
        self.columns = {each.colName: _plain(each.statsData) for each in found}
        # Version 3 promises nothing to a reader in particular.
        self.promised = (
            answer.isStatsCompliant is not False
            if client.features.versions_definitions
            else ACCURATE in self.parameters
        )
        self.exact = exact_columns(of[0].raw, seen)

    @property
    def rows(self):
        """The number of rows, if readers may trust it."""
        accurate = '"BASIC_STATS":"true"' in self.parameters.get(ACCURATE, "")
        return int(self.parameters["numRows"]) if accurate and self.promised else None


def _plain(data):
    """The numbers of a column: (nulls, smallest, largest), or (nulls, trues)."""
    (found,) = [getattr(data, name) for name in data.__slots__ if getattr(data, name) is not None]
    if hasattr(found, "numTrues"):
        return found.numNulls, found.numTrues
    if not hasattr(found, "lowValue"):
        return (found.numNulls, found.maxColLen)
    return found.numNulls, _number(found.lowValue), _number(found.highValue)


def _number(bound):
    for name in ("daysSinceEpoch", "secondsSinceEpoch"):
        if hasattr(bound, name):
            return getattr(bound, name)
    if hasattr(bound, "unscaled"):
        return int.from_bytes(bound.unscaled, "big", signed=True)
    return bound
