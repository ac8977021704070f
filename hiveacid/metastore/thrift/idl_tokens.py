"""The metastore's calls for delegation tokens."""

from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.idl import call

# The calls below throw it; declaring it again here would make a second, different class.
MetaException = idl_tables.MetaException

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
