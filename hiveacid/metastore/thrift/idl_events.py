"""The metastore's structs and calls for replication; version 3.1 has no write events."""

from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.idl import call, struct

# A call below throws it; declaring it again here would make a second, different class.
MetaException = idl_tables.MetaException

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
