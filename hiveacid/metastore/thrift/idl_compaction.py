"""The metastore's structs and calls for compactions; version 3 supports only `show_compact`."""

from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.idl import call, struct

# The calls below throw it; declaring it again here would make a second, different class.
MetaException = idl_tables.MetaException

CompactionRequest = struct(
    "CompactionRequest",
    """1:string dbname, 2:string tablename, 3:string partitionname, 4:i32 type, 5:string runas,
    9:string poolName, 10:i32 numberOfBuckets, 11:string orderByClause""",
)
CompactionResponse = struct(
    "CompactionResponse", "1:i64 id, 2:string state, 3:bool accepted, 4:string errormessage"
)
ShowCompactRequest = struct(
    "ShowCompactRequest", "3:string dbName, 4:string tbName, 5:string partName"
)
ShowCompactResponseElement = struct(
    "ShowCompactResponseElement",
    """1:string dbname, 2:string tablename, 3:string partitionname, 4:i32 type, 5:string state,
    6:string workerid, 7:i64 start, 8:string runAs, 9:i64 hightestTxnId, 13:i64 id,
    14:string errorMessage, 15:i64 enqueueTime, 16:string workerVersion, 19:i64 cleanerStart,
    20:string poolName, 21:i64 nextTxnId, 22:i64 txnId, 23:i64 commitTime""",
)
ShowCompactResponse = struct("ShowCompactResponse", "1:list<ShowCompactResponseElement> compacts")
CompactionInfoStruct = struct(
    "CompactionInfoStruct",
    """1:i64 id, 2:string dbname, 3:string tablename, 4:string partitionname, 5:i32 type,
    6:string runas, 12:i64 highestWriteId, 13:string errorMessage, 18:i32 numberOfBuckets,
    19:string orderByClause""",
)
OptionalCompactionInfoStruct = struct("OptionalCompactionInfoStruct", "1:CompactionInfoStruct ci")
FindNextCompactRequest = struct(
    "FindNextCompactRequest", "1:string workerId, 2:string workerVersion, 3:string poolName"
)

compact2 = call("compact2", "1:CompactionRequest rqst", returns="CompactionResponse")
show_compact = call("show_compact", "1:ShowCompactRequest rqst", returns="ShowCompactResponse")
find_next_compact2 = call(
    "find_next_compact2",
    "1:FindNextCompactRequest rqst",
    returns="OptionalCompactionInfoStruct",
    throws="1:MetaException",
)
update_compactor_state = call("update_compactor_state", "1:CompactionInfoStruct cr, 2:i64 txn_id")
mark_compacted = call("mark_compacted", "1:CompactionInfoStruct cr", throws="1:MetaException")
mark_cleaned = call("mark_cleaned", "1:CompactionInfoStruct cr", throws="1:MetaException")
mark_failed = call("mark_failed", "1:CompactionInfoStruct cr", throws="1:MetaException")
mark_refused = call("mark_refused", "1:CompactionInfoStruct cr", throws="1:MetaException")
