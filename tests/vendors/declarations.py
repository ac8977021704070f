"""Calls and structs of Hive 4.0.1 that vendors declare differently, with the structs around them.

A declaration is text as in `hiveacid/metastore/thrift/idl.py`, and an exclamation mark is a required
field. It does not come from there, because these tests compare that with the metastores. Structs that
no vendor changes may be incomplete: their other fields pass through.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from thrift.Thrift import TType

_PRIMITIVES = {
    "bool": TType.BOOL,
    "byte": TType.BYTE,
    "i16": TType.I16,
    "i32": TType.I32,
    "i64": TType.I64,
    "double": TType.DOUBLE,
    "string": TType.STRING,
    "binary": TType.STRING,
}
_CONTAINERS = {"list": TType.LIST, "set": TType.SET, "map": TType.MAP}
# Enums, with the highest value of each.
ENUMS: Mapping[str, int] = {"CompactionType": 4, "TxnType": 6}
_FIELD = re.compile(r"(\d+):(!?)(\S+)\s+(\w+)(?:,\s+|$)")


@dataclass(frozen=True)
class Type:
    """A type: its number in Thrift, the name of a struct or an enum, the types of the elements."""

    number: int
    name: str = ""
    elements: tuple["Type", ...] = ()

    @classmethod
    @cache
    def parse(cls, text: str) -> "Type":
        """Parse a type like list<Table>."""
        if text in _PRIMITIVES:
            return Type(_PRIMITIVES[text])
        if text in ENUMS:
            return Type(TType.I32, text)
        name, _, elements = text.removesuffix(">").partition("<")
        if not elements:
            return Type(TType.STRUCT, name)
        # The only nested type of a map is its value.
        parts = elements.split(",", maxsplit=1) if name == "map" else [elements]
        return Type(_CONTAINERS[name], elements=tuple(map(Type.parse, parts)))


@dataclass(frozen=True)
class Declared:
    """A field of a struct."""

    number: int
    name: str
    type: Type
    is_required: bool


@dataclass(frozen=True)
class Struct:
    """The declaration of a struct."""

    fields: tuple[Declared, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the declarations of fields."""
        found = list(_FIELD.finditer(" ".join(text.split())))
        assert "".join(each[0] for each in found) == " ".join(text.split()), text
        return cls(
            tuple(
                Declared(int(each[1]), each[4], Type.parse(each[3]), bool(each[2]))
                for each in found
            )
        )

    def until(self, number: int, *, required: tuple[str, ...] = ()) -> Self:
        """Return the struct of an earlier version, whose last field has this number."""
        known = [field for field in self.fields if field.number <= number]
        return type(self)(
            tuple(
                replace(field, is_required=field.is_required or field.name in required)
                for field in known
            )
        )

    def shifted(self, first: int) -> Self:
        """Return the struct with other numbers: one more, from this one on."""
        return type(self)(
            tuple(
                replace(field, number=field.number + (field.number >= first))
                for field in self.fields
            )
        )


def structs(**texts: str) -> dict[str, Struct]:
    """Parse declarations of structs."""
    return {name: Struct.parse(text) for name, text in texts.items()}


APACHE = structs(
    Table="""1:string tableName, 2:string dbName, 3:string owner, 4:i32 createTime,
    5:i32 lastAccessTime, 6:i32 retention, 7:StorageDescriptor sd, 8:list<FieldSchema> partitionKeys,
    9:map<string,string> parameters, 10:string viewOriginalText, 11:string viewExpandedText,
    12:string tableType, 13:PrincipalPrivilegeSet privileges, 14:bool temporary,
    15:bool rewriteEnabled, 16:CreationMetadata creationMetadata, 17:string catName,
    18:i32 ownerType, 19:i64 writeId, 20:bool isStatsCompliant, 21:ColumnStatistics colStats,
    22:byte accessType, 23:list<string> requiredReadCapabilities,
    24:list<string> requiredWriteCapabilities, 25:i64 id, 26:FileMetadata fileMetadata,
    27:ObjectDictionary dictionary, 28:i64 txnId""",
    GetTableResult="1:!Table table",
    GetTablesResult="1:!list<Table> tables",
    CreateTableRequest="1:!Table table",
    AlterTableRequest="""2:!string dbName, 3:!string tableName, 4:!Table table,
    5:EnvironmentContext environmentContext""",
    AlterPartitionsRequest="2:!string dbName, 3:!string tableName, 4:!list<Partition> partitions",
    EnvironmentContext="1:map<string,string> properties",
    AllTableConstraintsRequest="1:!string dbName, 2:!string tblName, 3:!string catName",
    WriteNotificationLogRequest="1:!i64 txnId, 2:!i64 writeId, 3:!string db, 4:!string table",
    WriteNotificationLogBatchRequest="1:!string catalog, 2:!string db, 3:!string table",
    OpenTxnRequest="""1:!i32 num_txns, 2:!string user, 3:!string hostname, 4:string agentInfo,
    5:string replPolicy, 6:list<i64> replSrcTxnIds, 7:TxnType txn_type""",
    CompactionRequest="""1:!string dbname, 2:!string tablename, 3:string partitionname,
    4:!CompactionType type, 5:string runas, 6:map<string,string> properties, 7:string initiatorId,
    8:string initiatorVersion, 9:string poolName, 10:i32 numberOfBuckets, 11:string orderByClause""",
    CompactionResponse="1:!i64 id, 2:!string state, 3:!bool accepted, 4:string errormessage",
    ShowCompactRequest="""1:i64 id, 2:string poolName, 3:string dbName, 4:string tbName,
    5:string partName, 6:CompactionType type, 7:string state, 8:i64 limit, 9:string order""",
    ShowCompactResponse="1:!list<ShowCompactResponseElement> compacts",
    ShowCompactResponseElement="""1:!string dbname, 2:!string tablename, 3:string partitionname,
    4:!CompactionType type, 5:!string state, 6:string workerid, 7:i64 start, 8:string runAs,
    9:i64 hightestTxnId, 10:string metaInfo, 11:i64 endTime, 12:string hadoopJobId, 13:i64 id,
    14:string errorMessage, 15:i64 enqueueTime, 16:string workerVersion, 17:string initiatorId,
    18:string initiatorVersion, 19:i64 cleanerStart, 20:string poolName, 21:i64 nextTxnId,
    22:i64 txnId, 23:i64 commitTime, 24:i64 hightestWriteId""",
    FindNextCompactRequest="1:string workerId, 2:string workerVersion, 3:string poolName",
    OptionalCompactionInfoStruct="1:CompactionInfoStruct ci",
    CompactionInfoStruct="""1:!i64 id, 2:!string dbname, 3:!string tablename, 4:string partitionname,
    5:!CompactionType type, 6:string runas, 7:string properties, 8:bool toomanyaborts,
    9:string state, 10:string workerId, 11:i64 start, 12:i64 highestWriteId, 13:string errorMessage,
    14:bool hasoldabort, 15:i64 enqueueTime, 16:i64 retryRetention, 17:string poolname,
    18:i32 numberOfBuckets, 19:string orderByClause""",
    SetPartitionsStatsRequest="""1:!list<ColumnStatistics> colStats, 2:bool needMerge, 3:i64 writeId,
    4:string validWriteIdList, 5:string engine""",
    ColumnStatistics="""1:!ColumnStatisticsDesc statsDesc, 2:!list<ColumnStatisticsObj> statsObj,
    3:bool isStatsCompliant, 4:string engine""",
    ColumnStatisticsObj="1:!string colName, 2:!string colType, 3:!ColumnStatisticsData statsData",
    ColumnStatisticsData="""1:BooleanColumnStatsData booleanStats, 2:LongColumnStatsData longStats,
    3:DoubleColumnStatsData doubleStats, 4:StringColumnStatsData stringStats,
    5:BinaryColumnStatsData binaryStats, 6:DecimalColumnStatsData decimalStats,
    7:DateColumnStatsData dateStats, 8:TimestampColumnStatsData timestampStats""",
    TableStatsResult="1:!list<ColumnStatisticsObj> tableStats",
    PartitionsStatsResult="1:!map<string,list<ColumnStatisticsObj>> partStats",
)

_INFO = "1:CompactionInfoStruct cr"
# The arguments and the answer of each call.
CALLS = {
    name: (Struct.parse(arguments), Struct.parse(f"0:{answer} success" if answer else ""))
    for name, (arguments, answer) in {
        "create_table": ("1:Table tbl", ""),
        "create_table_with_constraints": ("1:Table tbl", ""),
        "create_table_req": ("1:CreateTableRequest request", ""),
        "translate_table_dryrun": ("1:CreateTableRequest request", "Table"),
        "get_table_req": ("", "GetTableResult"),
        "get_table_objects_by_name_req": ("", "GetTablesResult"),
        "alter_table_with_environment_context": (
            "3:Table new_tbl, 4:EnvironmentContext environment_context",
            "",
        ),
        "alter_table_req": ("1:AlterTableRequest req", ""),
        "alter_partitions_req": ("1:AlterPartitionsRequest req", ""),
        "get_all_table_constraints": ("1:AllTableConstraintsRequest request", ""),
        "add_write_notification_log": ("1:WriteNotificationLogRequest rqst", ""),
        "add_write_notification_log_in_batch": ("1:WriteNotificationLogBatchRequest rqst", ""),
        "open_txns": ("1:OpenTxnRequest rqst", ""),
        "compact2": ("1:CompactionRequest rqst", "CompactionResponse"),
        "show_compact": ("1:ShowCompactRequest rqst", "ShowCompactResponse"),
        "find_next_compact": ("", "OptionalCompactionInfoStruct"),
        "find_next_compact2": ("1:FindNextCompactRequest rqst", "OptionalCompactionInfoStruct"),
        "update_compactor_state": (_INFO, ""),
        "mark_compacted": (_INFO, ""),
        "mark_cleaned": (_INFO, ""),
        "mark_failed": (_INFO, ""),
        "mark_refused": (_INFO, ""),
        "find_columns_with_stats": (_INFO, ""),
        "set_aggr_stats_for": ("1:SetPartitionsStatsRequest request", ""),
        "get_table_statistics_req": ("", "TableStatsResult"),
        "get_partitions_statistics_req": ("", "PartitionsStatsResult"),
    }.items()
}
