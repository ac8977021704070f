"""Declares constraints of tables that have rows, as Hive's ALTER TABLE does."""

from thrift.protocol.TBase import TBase

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import as_structs
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.idl import Call, _declare, struct
from hiveacid.metastore.thrift.repeating import Repeating
from hiveacid.rules.constraints import Constraint
from hiveacid.rules.names import TableRef

_KINDS = {
    "notNullConstraints": ("add_not_null_constraint", "SQLNotNullConstraint"),
    "checkConstraints": ("add_check_constraint", "SQLCheckConstraint"),
}
assert idl_tables  # It declares the exceptions.


def declare_late(client: MetastoreClient, ref: TableRef, constraint: Constraint) -> None:
    """Declare a constraint, without asking for any lock."""
    ((field, structs),) = as_structs(ref, [constraint]).items()
    name, kind = _KINDS[field]
    request = struct(f"{name}_request", f"1:list<{kind}> constraints")
    call = Call(
        name=name,
        arguments=_declare(f"{name}_args", f"1:{name}_request req", TBase),
        result=_declare(f"{name}_result", "1:NoSuchObjectException o1, 2:MetaException o2", TBase),
        throws=("o1", "o2"),
        returns=False,
        repeating=Repeating.UNSAFE,
    )
    client.call(call, request(structs), about=ref.full_name)
