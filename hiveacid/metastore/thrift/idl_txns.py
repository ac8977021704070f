"""The metastore's structs and calls for transactions, locks, write ids, compactions, and tokens.

Of compactions, version 3 supports only `show_compact`; version 3.1 has no write events.
"""

from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.idl import call, exception, struct

# The calls below throw it; declaring it again here would make a second, different class.
MetaException = idl_tables.MetaException
NoSuchTxnException = exception("NoSuchTxnException")
TxnAbortedException = exception("TxnAbortedException")
TxnOpenException = exception("TxnOpenException")
NoSuchLockException = exception("NoSuchLockException")

OpenTxnRequest = struct(
    "OpenTxnRequest",
    "1:i32 num_txns, 2:string user, 3:string hostname, 4:string agentInfo, 7:i32 txn_type",
)
OpenTxnsResponse = struct("OpenTxnsResponse", "1:list<i64> txn_ids")
CommitTxnRequest = struct("CommitTxnRequest", "1:i64 txnid, 6:bool exclWriteEnabled")
AbortTxnRequest = struct("AbortTxnRequest", "1:i64 txnid")
HeartbeatRequest = struct("HeartbeatRequest", "1:i64 lockid, 2:i64 txnid")
HeartbeatTxnRangeRequest = struct("HeartbeatTxnRangeRequest", "1:i64 min, 2:i64 max")
HeartbeatTxnRangeResponse = struct(
    "HeartbeatTxnRangeResponse", "1:set<i64> aborted, 2:set<i64> nosuch"
)

LockComponent = struct(
    "LockComponent",
    """1:i32 type, 2:i32 level, 3:string dbname, 4:string tablename, 5:string partitionname,
    6:i32 operationType, 7:bool isTransactional, 8:bool isDynamicPartitionWrite""",
)
LockRequest = struct(
    "LockRequest",
    """1:list<LockComponent> component, 2:i64 txnid, 3:string user, 4:string hostname,
    5:string agentInfo""",
)
LockResponse = struct("LockResponse", "1:i64 lockid, 2:i32 state, 3:string errorMessage")
CheckLockRequest = struct("CheckLockRequest", "1:i64 lockid, 2:i64 txnid, 3:i64 elapsed_ms")
UnlockRequest = struct("UnlockRequest", "1:i64 lockid")
ShowLocksRequest = struct(
    "ShowLocksRequest",
    "1:string dbname, 2:string tablename, 3:string partname, 4:bool isExtended, 5:i64 txnid",
)
ShowLocksResponseElement = struct(
    "ShowLocksResponseElement",
    """1:i64 lockid, 2:string dbname, 3:string tablename, 4:string partname, 5:i32 state,
    6:i32 type, 7:i64 txnid, 8:i64 lastheartbeat, 9:i64 acquiredat, 10:string user,
    11:string hostname, 12:i32 heartbeatCount, 13:string agentInfo, 14:i64 blockedByExtId,
    15:i64 blockedByIntId, 16:i64 lockIdInternal""",
)
ShowLocksResponse = struct("ShowLocksResponse", "1:list<ShowLocksResponseElement> locks")

GetOpenTxnsResponse = struct(
    "GetOpenTxnsResponse",
    "1:i64 txn_high_water_mark, 2:list<i64> open_txns, 3:i64 min_open_txn, 4:binary abortedBits",
)
TxnInfo = struct(
    "TxnInfo",
    """1:i64 id, 2:i32 state, 3:string user, 4:string hostname, 5:string agentInfo,
    6:i32 heartbeatCount, 7:string metaInfo, 8:i64 startedTime, 9:i64 lastHeartbeatTime""",
)
GetOpenTxnsInfoResponse = struct(
    "GetOpenTxnsInfoResponse", "1:i64 txn_high_water_mark, 2:list<TxnInfo> open_txns"
)
GetValidWriteIdsRequest = struct(
    "GetValidWriteIdsRequest", "1:list<string> fullTableNames, 2:string validTxnList, 3:i64 writeId"
)
TableValidWriteIds = struct(
    "TableValidWriteIds",
    """1:string fullTableName, 2:i64 writeIdHighWaterMark, 3:list<i64> invalidWriteIds,
    4:i64 minOpenWriteId, 5:binary abortedBits""",
)
GetValidWriteIdsResponse = struct(
    "GetValidWriteIdsResponse", "1:list<TableValidWriteIds> tblValidWriteIds"
)
TxnToWriteId = struct("TxnToWriteId", "1:i64 txnId, 2:i64 writeId")
AllocateTableWriteIdsRequest = struct(
    "AllocateTableWriteIdsRequest", "1:string dbName, 2:string tableName, 3:list<i64> txnIds"
)
AllocateTableWriteIdsResponse = struct(
    "AllocateTableWriteIdsResponse", "1:list<TxnToWriteId> txnToWriteIds"
)
AddDynamicPartitions = struct(
    "AddDynamicPartitions",
    """1:i64 txnid, 2:i64 writeid, 3:string dbname, 4:string tablename,
    5:list<string> partitionnames, 6:i32 operationType""",
)

open_txns = call("open_txns", "1:OpenTxnRequest rqst", returns="OpenTxnsResponse")
commit_txn = call(
    "commit_txn",
    "1:CommitTxnRequest rqst",
    throws="1:NoSuchTxnException, 2:TxnAbortedException",
)
abort_txn = call("abort_txn", "1:AbortTxnRequest rqst", throws="1:NoSuchTxnException")
heartbeat_txn_range = call(
    "heartbeat_txn_range",
    "1:HeartbeatTxnRangeRequest txns",
    returns="HeartbeatTxnRangeResponse",
)
lock = call(
    "lock",
    "1:LockRequest rqst",
    returns="LockResponse",
    throws="1:NoSuchTxnException, 2:TxnAbortedException",
)
check_lock = call(
    "check_lock",
    "1:CheckLockRequest rqst",
    returns="LockResponse",
    throws="1:NoSuchTxnException, 2:TxnAbortedException, 3:NoSuchLockException",
)
heartbeat = call(
    "heartbeat",
    "1:HeartbeatRequest ids",
    throws="1:NoSuchLockException, 2:NoSuchTxnException, 3:TxnAbortedException",
)
unlock = call("unlock", "1:UnlockRequest rqst", throws="1:NoSuchLockException, 2:TxnOpenException")
show_locks = call("show_locks", "1:ShowLocksRequest rqst", returns="ShowLocksResponse")

get_open_txns = call("get_open_txns", returns="GetOpenTxnsResponse")
get_open_txns_info = call("get_open_txns_info", returns="GetOpenTxnsInfoResponse")
get_valid_write_ids = call(
    "get_valid_write_ids",
    "1:GetValidWriteIdsRequest rqst",
    returns="GetValidWriteIdsResponse",
    throws="1:NoSuchTxnException, 2:MetaException",
)
allocate_table_write_ids = call(
    "allocate_table_write_ids",
    "1:AllocateTableWriteIdsRequest rqst",
    returns="AllocateTableWriteIdsResponse",
    throws="1:NoSuchTxnException, 2:TxnAbortedException, 3:MetaException",
)
get_latest_txnid_in_conflict = call(
    "get_latest_txnid_in_conflict", "1:i64 txnId", returns="i64", throws="1:MetaException"
)
add_write_ids_to_min_history = call(
    "add_write_ids_to_min_history",
    "1:i64 txnId, 2:map<string,i64> writeIds",
    throws="1:MetaException",
)
add_dynamic_partitions = call(
    "add_dynamic_partitions",
    "1:AddDynamicPartitions rqst",
    throws="1:NoSuchTxnException, 2:TxnAbortedException",
)


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


InsertEventRequestData = struct(
    "InsertEventRequestData",
    """1:bool replace, 2:list<string> filesAdded, 3:list<string> filesAddedChecksum,
    4:list<string> subDirectoryList""",
)
WriteNotificationLogRequest = struct(
    "WriteNotificationLogRequest",
    """1:i64 txnId, 2:i64 writeId, 3:string db, 4:string table, 5:InsertEventRequestData fileInfo,
    6:list<string> partitionVals""",
)
WriteNotificationLogResponse = struct("WriteNotificationLogResponse", "")
WriteNotificationLogBatchRequest = struct(
    "WriteNotificationLogBatchRequest",
    "1:string catalog, 2:string db, 3:string table, 4:list<WriteNotificationLogRequest> requestList",
)
WriteNotificationLogBatchResponse = struct("WriteNotificationLogBatchResponse", "")
CmRecycleRequest = struct("CmRecycleRequest", "1:string dataPath, 2:bool purge")
CmRecycleResponse = struct("CmRecycleResponse", "")

add_write_notification_log = call(
    "add_write_notification_log",
    "1:WriteNotificationLogRequest rqst",
    returns="WriteNotificationLogResponse",
)
add_write_notification_log_in_batch = call(
    "add_write_notification_log_in_batch",
    "1:WriteNotificationLogBatchRequest rqst",
    returns="WriteNotificationLogBatchResponse",
)
cm_recycle = call(
    "cm_recycle",
    "1:CmRecycleRequest request",
    returns="CmRecycleResponse",
    throws="1:MetaException",
)


get_delegation_token = call(
    "get_delegation_token",
    "1:string token_owner, 2:string renewer_kerberos_principal_name",
    returns="string",
    throws="1:MetaException",
)
renew_delegation_token = call(
    "renew_delegation_token", "1:string token_str_form", returns="i64", throws="1:MetaException"
)
cancel_delegation_token = call(
    "cancel_delegation_token", "1:string token_str_form", throws="1:MetaException"
)
