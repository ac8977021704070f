"""A client of a metastore that knows numbers of fields only, and nothing of this package."""

import socket
from typing import Any

from thrift.Thrift import TMessageType, TType

from tests.proxy import Server
from tests.vendors.wire import Field, Fields, Items, Message, read, written

# Without these, the metastore of version 4 hides tables or some of their fields.
_CAPABILITIES = (
    *("HIVEFULLACIDWRITE", "HIVEFULLACIDREAD", "HIVEMANAGEDINSERTWRITE"),
    *("HIVEMANAGEDINSERTREAD", "HIVECACHEINVALIDATE", "HIVESQL", "HIVEMANAGESTATS"),
)


def text(value: str) -> Field:
    """Return a field with a text."""
    return Field(TType.STRING, value.encode())


def texts(*values: str) -> Field:
    """Return a field with a list of texts."""
    return Field(TType.LIST, Items(TType.STRING, [value.encode() for value in values]))


def struct(**fields: Field) -> Field:
    """Return a field with a struct, whose fields are named like _1."""
    return Field(TType.STRUCT, {int(name[1:]): each for name, each in fields.items()})


class RawClient:
    """One connection to a server."""

    def __init__(self, server: Server) -> None:
        """Connect."""
        address = ("127.0.0.1", int(server.uri.rpartition(":")[2]))
        self._socket = socket.create_connection(address, timeout=60)
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, name: str, **arguments: Field) -> Message | None:
        """Make a call, whose arguments are named like _1.

        Returns:
            The answer; None if the server has closed the connection.
        """
        fields = struct(**arguments).value
        self._socket.sendall(written(Message(name, TMessageType.CALL, 7, fields)))
        return read(self._answers.read)

    def result(self, name: str, **arguments: Field) -> Any:
        """Return the value that a call returns."""
        answer = self.ask(name, **arguments)
        assert answer is not None, name
        assert answer.is_answer, answer
        return answer.fields[0].value

    def error(self, name: str, **arguments: Field) -> int | None:
        """Return the type of the failure of a call; None if the server executes the call."""
        answer = self.ask(name, **arguments)
        assert answer is not None, name
        return None if answer.is_answer else int(answer.fields[2].value)

    def definition(self, database: str, table: str) -> Fields:
        """Return the definition of a table."""
        insert_only = Field(TType.LIST, Items(TType.I32, [2]))
        request = struct(
            _1=text(database),
            _2=text(table),
            _3=struct(_1=insert_only),
            _8=texts(*_CAPABILITIES),
            _9=text("tests"),
        )
        found: Fields = self.result("get_table_req", _1=request)[1].value
        return found

    def constraints(self, database: str, table: str) -> dict[str, Any]:
        """Return the constraints of a table, by their kinds."""
        catalog, names = text("hive"), (text(database), text(table))
        of_key = struct(_1=names[0], _2=names[1], _3=catalog)
        of_foreign_key = struct(_3=names[0], _4=names[1], _5=catalog)
        of_other = struct(_1=catalog, _2=names[0], _3=names[1])
        return {
            name: self.result(f"get_{name}", _1=request)
            for name, request in {
                "primary_keys": of_key,
                "foreign_keys": of_foreign_key,
                "unique_constraints": of_other,
                "not_null_constraints": of_other,
                "default_constraints": of_other,
                "check_constraints": of_other,
            }.items()
        }
