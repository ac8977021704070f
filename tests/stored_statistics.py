"""The statistics of a table that a metastore returns to readers."""

from hiveacid.metastore.statistics import exact_columns
from hiveacid.metastore.thrift import idl
from hiveacid.metastore.thrift.idl_tables import ColumnStatisticsObj  # noqa: F401
from hiveacid.metastore.thrift.repeating import Repeating
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.metastore_version import MetastoreVersion

ACCURATE = "COLUMN_STATS_ACCURATE"


def _reads(name, request, result):
    """A call that the package itself never makes."""
    idl.struct(f"{name}_request", request)
    idl.struct(f"{name}_answer", result)
    arguments = idl._declare(f"{name}_args", f"1:{name}_request request", idl.TBase)
    answer = f"0:{name}_answer success, 1:NoSuchObjectException o1, 2:MetaException o2"
    answers = idl._declare(f"{name}_result", answer, idl.TBase)
    return idl.Call(name, arguments, answers, ("o1", "o2"), True, Repeating.READS)


_REQUEST = "1:string dbName, 2:string tblName, 3:list<string> colNames"
_TABLE = _reads(
    "get_table_statistics_req",
    f"{_REQUEST}, 4:string catName, 5:string validWriteIdList, 6:string engine",
    "1:list<ColumnStatisticsObj> tableStats, 2:bool isStatsCompliant",
)
_PARTITIONS = _reads(
    "get_partitions_statistics_req",
    f"{_REQUEST}, 4:list<string> partNames, 5:string catName, 6:string validWriteIdList,"
    " 7:string engine",
    "1:map<string,list<ColumnStatisticsObj>> partStats, 2:bool isStatsCompliant",
)


class Stored:
    """The statistics of a table, or of one of its partitions, as a new reader gets them."""

    def __init__(self, client, ref, partition=None):
        self.table = client.get_table(ref)
        of = [self.table] if partition is None else client.get_partitions(self.table, [partition])
        self.parameters = of[0].parameters
        seen = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        columns = [column.name for column in self.table.columns]
        request = {"dbName": ref.database, "tblName": ref.name, "colNames": columns}
        if client.version is MetastoreVersion.HMS4:
            request |= {"validWriteIdList": seen.format(), "engine": "hive"}
        call = _TABLE if partition is None else _PARTITIONS
        if partition is not None:
            request["partNames"] = [partition]
        answer = client.call(call, call.arguments.thrift_spec[1][3][0](**request))
        found = answer.tableStats if partition is None else answer.partStats.get(partition, [])
        self.columns = {each.colName: _plain(each.statsData) for each in found}
        # Version 3 promises nothing to a reader in particular.
        self.promised = (
            answer.isStatsCompliant is not False
            if client.version is MetastoreVersion.HMS4
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
