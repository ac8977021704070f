"""The metastore's structs and calls for databases, tables and partitions.

`Table` and `Partition` are complete so that an alter sends back all fields that were read, with two
exceptions: column statistics (sent only on request, which this client never makes) and the source
tables of a materialized view (never written by this client).
"""

from hiveacid.metastore.thrift import idl_constraints as idl_constraints
from hiveacid.metastore.thrift.idl import call, exception, struct

# Capabilities that version 4 requires before it returns or creates transactional tables; this
# client supports all of them.
CAPABILITIES = (
    "HIVEFULLACIDWRITE",
    "HIVEFULLACIDREAD",
    "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGEDINSERTREAD",
    "HIVECACHEINVALIDATE",
    "HIVEMANAGESTATS",
    "HIVESQL",
    "CONNECTORREAD",
    "CONNECTORWRITE",
)

PROCESSOR = "airflow-hiveacid"
INSERT_ONLY_TABLES = 2  # ClientCapability

MetaException = exception("MetaException")
NoSuchObjectException = exception("NoSuchObjectException")
AlreadyExistsException = exception("AlreadyExistsException")
InvalidObjectException = exception("InvalidObjectException")
InvalidOperationException = exception("InvalidOperationException")
UnknownDBException = exception("UnknownDBException")
ConfigValSecurityException = exception("ConfigValSecurityException")

EnvironmentContext = struct("EnvironmentContext", "1:map<string,string> properties")
PrivilegeGrantInfo = struct(
    "PrivilegeGrantInfo",
    "1:string privilege, 2:i32 createTime, 3:string grantor, 4:i32 grantorType, 5:bool grantOption",
)
PrincipalPrivilegeSet = struct(
    "PrincipalPrivilegeSet",
    """1:map<string,list<PrivilegeGrantInfo>> userPrivileges,
    2:map<string,list<PrivilegeGrantInfo>> groupPrivileges,
    3:map<string,list<PrivilegeGrantInfo>> rolePrivileges""",
)
Database = struct(
    "Database",
    """1:string name, 2:string description, 3:string locationUri, 4:map<string,string> parameters,
    5:PrincipalPrivilegeSet privileges, 6:string ownerName, 7:i32 ownerType, 8:string catalogName,
    9:i32 createTime, 10:string managedLocationUri, 11:i32 type, 12:string connector_name,
    13:string remote_dbname""",
)
FieldSchema = struct("FieldSchema", "1:string name, 2:string type, 3:string comment")
Order = struct("Order", "1:string col, 2:i32 order")
SerDeInfo = struct(
    "SerDeInfo",
    """1:string name, 2:string serializationLib, 3:map<string,string> parameters,
    4:string description, 5:string serializerClass, 6:string deserializerClass, 7:i32 serdeType""",
)
SkewedInfo = struct(
    "SkewedInfo",
    """1:list<string> skewedColNames, 2:list<list<string>> skewedColValues,
    3:map<list<string>,string> skewedColValueLocationMaps""",
)
StorageDescriptor = struct(
    "StorageDescriptor",
    """1:list<FieldSchema> cols, 2:string location, 3:string inputFormat, 4:string outputFormat,
    5:bool compressed, 6:i32 numBuckets, 7:SerDeInfo serdeInfo, 8:list<string> bucketCols,
    9:list<Order> sortCols, 10:map<string,string> parameters, 11:SkewedInfo skewedInfo,
    12:bool storedAsSubDirectories""",
)
CreationMetadata = struct(
    "CreationMetadata",
    """1:string catName, 2:string dbName, 3:string tblName, 4:set<string> tablesUsed,
    5:string validTxnList, 6:i64 materializationTime""",
)
FileMetadata = struct("FileMetadata", "1:byte type, 2:byte version, 3:list<binary> data")
ObjectDictionary = struct("ObjectDictionary", "1:map<string,list<binary>> values")
Table = struct(
    "Table",
    """1:string tableName, 2:string dbName, 3:string owner, 4:i32 createTime, 5:i32 lastAccessTime,
    6:i32 retention, 7:StorageDescriptor sd, 8:list<FieldSchema> partitionKeys,
    9:map<string,string> parameters, 10:string viewOriginalText, 11:string viewExpandedText,
    12:string tableType, 13:PrincipalPrivilegeSet privileges, 14:bool temporary,
    15:bool rewriteEnabled, 16:CreationMetadata creationMetadata, 17:string catName,
    18:i32 ownerType, 19:i64 writeId, 20:bool isStatsCompliant, 22:byte accessType,
    23:list<string> requiredReadCapabilities, 24:list<string> requiredWriteCapabilities, 25:i64 id,
    26:FileMetadata fileMetadata, 27:ObjectDictionary dictionary, 28:i64 txnId""",
)
Partition = struct(
    "Partition",
    """1:list<string> values, 2:string dbName, 3:string tableName, 4:i32 createTime,
    5:i32 lastAccessTime, 6:StorageDescriptor sd, 7:map<string,string> parameters,
    8:PrincipalPrivilegeSet privileges, 9:string catName, 10:i64 writeId, 11:bool isStatsCompliant,
    13:FileMetadata fileMetadata""",
)

ClientCapabilities = struct("ClientCapabilities", "1:list<i32> values")
GetTableRequest = struct(
    "GetTableRequest",
    """1:string dbName, 2:string tblName, 3:ClientCapabilities capabilities, 4:string catName,
    8:list<string> processorCapabilities, 9:string processorIdentifier""",
)
GetTableResult = struct("GetTableResult", "1:Table table")
GetProjectionsSpec = struct("GetProjectionsSpec", "1:list<string> fieldList")
GetTablesRequest = struct(
    "GetTablesRequest",
    """1:string dbName, 2:list<string> tblNames, 3:ClientCapabilities capabilities,
    5:list<string> processorCapabilities, 6:string processorIdentifier,
    7:GetProjectionsSpec projectionSpec""",
)
GetTablesResult = struct("GetTablesResult", "1:list<Table> tables")
CreateTableRequest = struct(
    "CreateTableRequest",
    """1:Table table, 3:list<SQLPrimaryKey> primaryKeys, 4:list<SQLForeignKey> foreignKeys,
    5:list<SQLUniqueConstraint> uniqueConstraints,
    6:list<SQLNotNullConstraint> notNullConstraints,
    7:list<SQLDefaultConstraint> defaultConstraints,
    8:list<SQLCheckConstraint> checkConstraints, 9:list<string> processorCapabilities,
    10:string processorIdentifier""",
)
AlterTableRequest = struct(
    "AlterTableRequest",
    """1:string catName, 2:string dbName, 3:string tableName, 4:Table table,
    5:EnvironmentContext environmentContext, 6:i64 writeId, 7:string validWriteIdList,
    8:list<string> processorCapabilities, 9:string processorIdentifier""",
)
AlterTableResponse = struct("AlterTableResponse", "")
AlterPartitionsRequest = struct(
    "AlterPartitionsRequest",
    """1:string catName, 2:string dbName, 3:string tableName, 4:list<Partition> partitions,
    5:EnvironmentContext environmentContext, 6:i64 writeId, 7:string validWriteIdList""",
)
AlterPartitionsResponse = struct("AlterPartitionsResponse", "")
AddPartitionsRequest = struct(
    "AddPartitionsRequest",
    """1:string dbName, 2:string tblName, 3:list<Partition> parts, 4:bool ifNotExists,
    5:bool needResult""",
)
AddPartitionsResult = struct("AddPartitionsResult", "1:list<Partition> partitions")
RequestPartsSpec = struct("RequestPartsSpec", "1:list<string> names")
DropPartitionsRequest = struct(
    "DropPartitionsRequest",
    """1:string dbName, 2:string tblName, 3:RequestPartsSpec parts, 4:bool deleteData,
    5:bool ifExists, 6:bool ignoreProtection, 7:EnvironmentContext environmentContext,
    8:bool needResult, 9:string catName""",
)
DropPartitionsResult = struct("DropPartitionsResult", "1:list<Partition> partitions")

set_ugi = call(
    "set_ugi",
    "1:string user_name, 2:list<string> group_names",
    returns="list<string>",
    throws="1:MetaException",
)
get_config_value = call(
    "get_config_value",
    "1:string name, 2:string defaultValue",
    returns="string",
    throws="1:ConfigValSecurityException",
)
# The release of version 4, "4.0.1"; version 3.1 answers "3.0".
get_version = call("getVersion", returns="string")

# Identifies the database of the server, regardless of the server's address.
get_metastore_db_uuid = call("get_metastore_db_uuid", returns="string", throws="1:MetaException")

get_all_databases = call("get_all_databases", returns="list<string>", throws="1:MetaException")
get_database = call(
    "get_database",
    "1:string name",
    returns="Database",
    throws="1:NoSuchObjectException, 2:MetaException",
)
create_database = call(
    "create_database",
    "1:Database database",
    throws="1:AlreadyExistsException, 2:InvalidObjectException, 3:MetaException",
)
drop_database = call(
    "drop_database",
    "1:string name, 2:bool deleteData, 3:bool cascade",
    throws="1:NoSuchObjectException, 2:InvalidOperationException, 3:MetaException",
)

get_all_tables = call(
    "get_all_tables", "1:string db_name", returns="list<string>", throws="1:MetaException"
)
get_table_req = call(
    "get_table_req",
    "1:GetTableRequest req",
    returns="GetTableResult",
    throws="1:MetaException, 2:NoSuchObjectException",
)
get_table_objects_by_name_req = call(
    "get_table_objects_by_name_req",
    "1:GetTablesRequest req",
    returns="GetTablesResult",
    throws="1:MetaException, 2:InvalidOperationException, 3:UnknownDBException",
)
create_table = call(
    "create_table",
    "1:Table tbl",
    throws="1:AlreadyExistsException, 2:InvalidObjectException, 3:MetaException, "
    "4:NoSuchObjectException",
)
create_table_req = call(
    "create_table_req",
    "1:CreateTableRequest request",
    throws="1:AlreadyExistsException, 2:InvalidObjectException, 3:MetaException, "
    "4:NoSuchObjectException",
)
create_table_with_constraints = call(
    "create_table_with_constraints",
    """1:Table tbl, 2:list<SQLPrimaryKey> primaryKeys, 3:list<SQLForeignKey> foreignKeys,
    4:list<SQLUniqueConstraint> uniqueConstraints,
    5:list<SQLNotNullConstraint> notNullConstraints,
    6:list<SQLDefaultConstraint> defaultConstraints,
    7:list<SQLCheckConstraint> checkConstraints""",
    throws="1:AlreadyExistsException, 2:InvalidObjectException, 3:MetaException, "
    "4:NoSuchObjectException",
)
drop_table = call(
    "drop_table",
    "1:string dbname, 2:string name, 3:bool deleteData",
    throws="1:NoSuchObjectException, 3:MetaException",
)
alter_table_req = call(
    "alter_table_req",
    "1:AlterTableRequest req",
    returns="AlterTableResponse",
    throws="1:InvalidOperationException, 2:MetaException",
)
alter_table_with_environment_context = call(
    "alter_table_with_environment_context",
    "1:string dbname, 2:string tbl_name, 3:Table new_tbl, 4:EnvironmentContext environment_context",
    throws="1:InvalidOperationException, 2:MetaException",
)

get_partition_names = call(
    "get_partition_names",
    "1:string db_name, 2:string tbl_name, 3:i16 max_parts",
    returns="list<string>",
    throws="1:NoSuchObjectException, 2:MetaException",
)
get_partitions_by_names = call(
    "get_partitions_by_names",
    "1:string db_name, 2:string tbl_name, 3:list<string> names",
    returns="list<Partition>",
    throws="1:MetaException, 2:NoSuchObjectException, 3:InvalidObjectException",
)
add_partitions_req = call(
    "add_partitions_req",
    "1:AddPartitionsRequest request",
    returns="AddPartitionsResult",
    throws="1:InvalidObjectException, 2:AlreadyExistsException, 3:MetaException",
)
drop_partitions_req = call(
    "drop_partitions_req",
    "1:DropPartitionsRequest req",
    returns="DropPartitionsResult",
    throws="1:NoSuchObjectException, 2:MetaException",
)
alter_partitions_req = call(
    "alter_partitions_req",
    "1:AlterPartitionsRequest req",
    returns="AlterPartitionsResponse",
    throws="1:InvalidOperationException, 2:MetaException",
)
alter_partitions_with_environment_context = call(
    "alter_partitions_with_environment_context",
    """1:string db_name, 2:string tbl_name, 3:list<Partition> new_parts,
    4:EnvironmentContext environment_context""",
    throws="1:InvalidOperationException, 2:MetaException",
)

PartitionWithoutSD = struct(
    "PartitionWithoutSD",
    """1:list<string> values, 2:i32 createTime, 3:i32 lastAccessTime, 4:string relativePath,
    5:map<string,string> parameters""",
)
PartitionSpecWithSharedSD = struct(
    "PartitionSpecWithSharedSD", "1:list<PartitionWithoutSD> partitions, 2:StorageDescriptor sd"
)
PartitionListComposingSpec = struct("PartitionListComposingSpec", "1:list<Partition> partitions")
PartitionSpec = struct(
    "PartitionSpec",
    """1:string dbName, 2:string tableName, 3:string rootPath,
    4:PartitionSpecWithSharedSD sharedSDPartitionSpec,
    5:PartitionListComposingSpec partitionList""",
)
GetPartitionsProjectionSpec = struct("GetPartitionsProjectionSpec", "1:list<string> fieldList")
GetPartitionsFilterSpec = struct(
    "GetPartitionsFilterSpec", "7:i32 filterMode, 8:list<string> filters"
)
GetPartitionsRequest = struct(
    "GetPartitionsRequest",
    """1:string catName, 2:string dbName, 3:string tblName, 4:bool withAuth, 5:string user,
    6:list<string> groupNames, 7:GetPartitionsProjectionSpec projectionSpec,
    8:GetPartitionsFilterSpec filterSpec""",
)
GetPartitionsResponse = struct("GetPartitionsResponse", "1:list<PartitionSpec> partitionSpec")

get_partitions_with_specs = call(
    "get_partitions_with_specs",
    "1:GetPartitionsRequest request",
    returns="GetPartitionsResponse",
    throws="1:MetaException",
)
get_partitions_pspec = call(
    "get_partitions_pspec",
    "1:string db_name, 2:string tbl_name, 3:i32 max_parts",
    returns="list<PartitionSpec>",
    throws="1:NoSuchObjectException, 2:MetaException",
)

_CONSTRAINTS_THROW = "1:MetaException, 2:NoSuchObjectException"
get_all_table_constraints = call(
    "get_all_table_constraints",
    "1:AllTableConstraintsRequest request",
    returns="AllTableConstraintsResponse",
    throws=_CONSTRAINTS_THROW,
)
get_primary_keys = call(
    "get_primary_keys",
    "1:PrimaryKeysRequest request",
    returns="PrimaryKeysResponse",
    throws=_CONSTRAINTS_THROW,
)
get_foreign_keys = call(
    "get_foreign_keys",
    "1:ForeignKeysRequest request",
    returns="ForeignKeysResponse",
    throws=_CONSTRAINTS_THROW,
)
get_unique_constraints = call(
    "get_unique_constraints",
    "1:UniqueConstraintsRequest request",
    returns="UniqueConstraintsResponse",
    throws=_CONSTRAINTS_THROW,
)
get_not_null_constraints = call(
    "get_not_null_constraints",
    "1:NotNullConstraintsRequest request",
    returns="NotNullConstraintsResponse",
    throws=_CONSTRAINTS_THROW,
)
get_default_constraints = call(
    "get_default_constraints",
    "1:DefaultConstraintsRequest request",
    returns="DefaultConstraintsResponse",
    throws=_CONSTRAINTS_THROW,
)
get_check_constraints = call(
    "get_check_constraints",
    "1:CheckConstraintsRequest request",
    returns="CheckConstraintsResponse",
    throws=_CONSTRAINTS_THROW,
)
