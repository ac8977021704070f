"""The metastore's structs for the constraints of tables; the calls are among those of tables."""

from hiveacid.metastore.thrift.idl import struct

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
