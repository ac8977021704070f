"""The metastore's structs and calls for write events; version 3.1 has neither call."""

from airflow_hiveacid.metastore.thrift.idl import call, struct

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
