"""The metastore's structs and calls for databases, tables, partitions and statistics of columns.

`Table` and `Partition` are complete so that an alter sends back all fields that were read, with two
exceptions: column statistics (sent only on request, which this client never makes) and the source
tables of a materialized view (never written by this client).
"""

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
# The last fields have other numbers in Cloudera's metastore.
TABLE_FIELDS_OF_APACHE = tuple(
    name for number, _, name, *_ in filter(None, Table.thrift_spec) if number >= 22
)
Partition = struct(
    "Partition",
    """1:list<string> values, 2:string dbName, 3:string tableName, 4:i32 createTime,
    5:i32 lastAccessTime, 6:StorageDescriptor sd, 7:map<string,string> parameters,
    8:PrincipalPrivilegeSet privileges, 9:string catName, 10:i64 writeId, 11:bool isStatsCompliant,
    13:FileMetadata fileMetadata""",
)

SQLPrimaryKey = struct(
    "SQLPrimaryKey",
    """1:string table_db, 2:string table_name, 3:string column_name, 4:i32 key_seq,
    5:string pk_name, 6:bool enable_cstr, 7:bool validate_cstr, 8:bool rely_cstr,
    9:string catName""",
)
SQLForeignKey = struct(
    "SQLForeignKey",
    """1:string pktable_db, 2:string pktable_name, 3:string pkcolumn_name, 4:string fktable_db,
    5:string fktable_name, 6:string fkcolumn_name, 7:i32 key_seq, 8:i32 update_rule,
    9:i32 delete_rule, 10:string fk_name, 11:string pk_name, 12:bool enable_cstr,
    13:bool validate_cstr, 14:bool rely_cstr, 15:string catName""",
)
SQLUniqueConstraint = struct(
    "SQLUniqueConstraint",
    """1:string catName, 2:string table_db, 3:string table_name, 4:string column_name,
    5:i32 key_seq, 6:string uk_name, 7:bool enable_cstr, 8:bool validate_cstr,
    9:bool rely_cstr""",
)
SQLNotNullConstraint = struct(
    "SQLNotNullConstraint",
    """1:string catName, 2:string table_db, 3:string table_name, 4:string column_name,
    5:string nn_name, 6:bool enable_cstr, 7:bool validate_cstr, 8:bool rely_cstr""",
)
SQLDefaultConstraint = struct(
    "SQLDefaultConstraint",
    """1:string catName, 2:string table_db, 3:string table_name, 4:string column_name,
    5:string default_value, 6:string dc_name, 7:bool enable_cstr, 8:bool validate_cstr,
    9:bool rely_cstr""",
)
SQLCheckConstraint = struct(
    "SQLCheckConstraint",
    """1:string catName, 2:string table_db, 3:string table_name, 4:string column_name,
    5:string check_expression, 6:string dc_name, 7:bool enable_cstr, 8:bool validate_cstr,
    9:bool rely_cstr""",
)

PrimaryKeysRequest = struct(
    "PrimaryKeysRequest", "1:string db_name, 2:string tbl_name, 3:string catName"
)
PrimaryKeysResponse = struct("PrimaryKeysResponse", "1:list<SQLPrimaryKey> primaryKeys")
ForeignKeysRequest = struct(
    "ForeignKeysRequest",
    """1:string parent_db_name, 2:string parent_tbl_name, 3:string foreign_db_name,
    4:string foreign_tbl_name, 5:string catName""",
)
ForeignKeysResponse = struct("ForeignKeysResponse", "1:list<SQLForeignKey> foreignKeys")

_OF_TABLE = "1:string catName, 2:string db_name, 3:string tbl_name"
UniqueConstraintsRequest = struct("UniqueConstraintsRequest", _OF_TABLE)
UniqueConstraintsResponse = struct(
    "UniqueConstraintsResponse", "1:list<SQLUniqueConstraint> uniqueConstraints"
)
NotNullConstraintsRequest = struct("NotNullConstraintsRequest", _OF_TABLE)
NotNullConstraintsResponse = struct(
    "NotNullConstraintsResponse", "1:list<SQLNotNullConstraint> notNullConstraints"
)
DefaultConstraintsRequest = struct("DefaultConstraintsRequest", _OF_TABLE)
DefaultConstraintsResponse = struct(
    "DefaultConstraintsResponse", "1:list<SQLDefaultConstraint> defaultConstraints"
)
CheckConstraintsRequest = struct("CheckConstraintsRequest", _OF_TABLE)
CheckConstraintsResponse = struct(
    "CheckConstraintsResponse", "1:list<SQLCheckConstraint> checkConstraints"
)

# Version 4 answers with all of them at once.
AllTableConstraintsRequest = struct(
    "AllTableConstraintsRequest", "1:string dbName, 2:string tblName, 3:string catName"
)
SQLAllTableConstraints = struct(
    "SQLAllTableConstraints",
    """1:list<SQLPrimaryKey> primaryKeys, 2:list<SQLForeignKey> foreignKeys,
    3:list<SQLUniqueConstraint> uniqueConstraints,
    4:list<SQLNotNullConstraint> notNullConstraints,
    5:list<SQLDefaultConstraint> defaultConstraints,
    6:list<SQLCheckConstraint> checkConstraints""",
)
AllTableConstraintsResponse = struct(
    "AllTableConstraintsResponse", "1:SQLAllTableConstraints allTableConstraints"
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
translate_table_dryrun = call(
    "translate_table_dryrun",
    "1:CreateTableRequest request",
    returns="Table",
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

_STATISTICS_OF_COLUMNS = "1:string dbName, 2:string tblName, 3:list<string> colNames"
TableStatsRequest = struct(
    "TableStatsRequest",
    f"{_STATISTICS_OF_COLUMNS}, 4:string catName, 5:string validWriteIdList, 6:string engine",
)
TableStatsResult = struct(
    "TableStatsResult", "1:list<ColumnStatisticsObj> tableStats, 2:bool isStatsCompliant"
)
PartitionsStatsRequest = struct(
    "PartitionsStatsRequest",
    f"{_STATISTICS_OF_COLUMNS}, 4:list<string> partNames, 5:string catName,"
    " 6:string validWriteIdList, 7:string engine",
)
PartitionsStatsResult = struct(
    "PartitionsStatsResult",
    "1:map<string,list<ColumnStatisticsObj>> partStats, 2:bool isStatsCompliant",
)
get_table_statistics_req = call(
    "get_table_statistics_req",
    "1:TableStatsRequest request",
    returns="TableStatsResult",
    throws="1:NoSuchObjectException, 2:MetaException",
)
get_partitions_statistics_req = call(
    "get_partitions_statistics_req",
    "1:PartitionsStatsRequest request",
    returns="PartitionsStatsResult",
    throws="1:NoSuchObjectException, 2:MetaException",
)
