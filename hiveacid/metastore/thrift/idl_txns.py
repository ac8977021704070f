"""The metastore's structs and calls for transactions, locks and write ids."""

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
add_dynamic_partitions = call(
    "add_dynamic_partitions",
    "1:AddDynamicPartitions rqst",
    throws="1:NoSuchTxnException, 2:TxnAbortedException",
)
