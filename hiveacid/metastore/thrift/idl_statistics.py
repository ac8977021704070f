"""The metastore's structs and call for statistics of columns."""

from hiveacid.metastore.thrift.idl import call, exception, struct

InvalidInputException = exception("InvalidInputException")

BooleanColumnStatsData = struct(
    "BooleanColumnStatsData",
    "1:i64 numTrues, 2:i64 numFalses, 3:i64 numNulls, 4:binary bitVectors",
)
DoubleColumnStatsData = struct(
    "DoubleColumnStatsData",
    "1:double lowValue, 2:double highValue, 3:i64 numNulls, 4:i64 numDVs, 5:binary bitVectors",
)
LongColumnStatsData = struct(
    "LongColumnStatsData",
    "1:i64 lowValue, 2:i64 highValue, 3:i64 numNulls, 4:i64 numDVs, 5:binary bitVectors",
)
StringColumnStatsData = struct(
    "StringColumnStatsData",
    "1:i64 maxColLen, 2:double avgColLen, 3:i64 numNulls, 4:i64 numDVs, 5:binary bitVectors",
)
BinaryColumnStatsData = struct(
    "BinaryColumnStatsData",
    "1:i64 maxColLen, 2:double avgColLen, 3:i64 numNulls, 4:binary bitVectors",
)
Decimal = struct("Decimal", "1:binary unscaled, 3:i16 scale")
DecimalColumnStatsData = struct(
    "DecimalColumnStatsData",
    "1:Decimal lowValue, 2:Decimal highValue, 3:i64 numNulls, 4:i64 numDVs, 5:binary bitVectors",
)
Date = struct("Date", "1:i64 daysSinceEpoch")
DateColumnStatsData = struct(
    "DateColumnStatsData",
    "1:Date lowValue, 2:Date highValue, 3:i64 numNulls, 4:i64 numDVs, 5:binary bitVectors",
)
Timestamp = struct("Timestamp", "1:i64 secondsSinceEpoch")
# Version 4 only: version 3 keeps the seconds as a long.
TimestampColumnStatsData = struct(
    "TimestampColumnStatsData",
    """1:Timestamp lowValue, 2:Timestamp highValue, 3:i64 numNulls, 4:i64 numDVs,
    5:binary bitVectors""",
)
ColumnStatisticsData = struct(
    "ColumnStatisticsData",
    """1:BooleanColumnStatsData booleanStats, 2:LongColumnStatsData longStats,
    3:DoubleColumnStatsData doubleStats, 4:StringColumnStatsData stringStats,
    5:BinaryColumnStatsData binaryStats, 6:DecimalColumnStatsData decimalStats,
    7:DateColumnStatsData dateStats, 8:TimestampColumnStatsData timestampStats""",
)
ColumnStatisticsObj = struct(
    "ColumnStatisticsObj", "1:string colName, 2:string colType, 3:ColumnStatisticsData statsData"
)
ColumnStatisticsDesc = struct(
    "ColumnStatisticsDesc",
    """1:bool isTblLevel, 2:string dbName, 3:string tableName, 4:string partName,
    5:i64 lastAnalyzed, 6:string catName""",
)
ColumnStatistics = struct(
    "ColumnStatistics",
    """1:ColumnStatisticsDesc statsDesc, 2:list<ColumnStatisticsObj> statsObj,
    3:bool isStatsCompliant, 4:string engine""",
)
SetPartitionsStatsRequest = struct(
    "SetPartitionsStatsRequest",
    """1:list<ColumnStatistics> colStats, 2:bool needMerge, 3:i64 writeId,
    4:string validWriteIdList, 5:string engine""",
)

set_aggr_stats_for = call(
    "set_aggr_stats_for",
    "1:SetPartitionsStatsRequest request",
    returns="bool",
    throws="1:NoSuchObjectException, 2:InvalidObjectException, 3:MetaException, "
    "4:InvalidInputException",
)
