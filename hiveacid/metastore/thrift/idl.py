"""Declarations of the metastore's Thrift structs and calls.

A declaration is text, as in a Thrift file: ``"1:string dbName, 2:list<i64> txnIds"``. It becomes
the ``thrift_spec`` tuple that Apache Thrift's own codec (written in C) reads, so no generated code
is needed. The declarations are in ``idl_tables.py`` and ``idl_txns.py``. One set serves Hive
Metastore 3 and 4: version 4 only added fields and calls, and unset fields are never sent.
"""

import re
import sys
from typing import Any

from thrift.protocol.TBase import TBase, TExceptionBase
from thrift.Thrift import TType

from hiveacid.dataclass import dataclass
from hiveacid.metastore.thrift.repeating import Repeating

_PRIMITIVES: dict[str, tuple[int, str | None]] = {
    "bool": (TType.BOOL, None),
    "byte": (TType.BYTE, None),
    "i16": (TType.I16, None),
    "i32": (TType.I32, None),
    "i64": (TType.I64, None),
    "double": (TType.DOUBLE, None),
    "string": (TType.STRING, "UTF8"),
    "binary": (TType.STRING, "BINARY"),
}
_FIELD = re.compile(r"(\d+):(\S+)\s+(\w+)")
_structs: dict[str, Any] = {}


class ServerException(TExceptionBase):  # type: ignore[misc]
    """One of the exceptions that the metastore's calls declare."""

    __slots__ = ()


@dataclass(frozen=True)
class Call:
    """A call of the metastore.

    Attributes:
        name: Its name on the wire.
        arguments: The struct that carries the arguments.
        result: The struct that carries the answer or one of the declared exceptions.
        throws: The fields of `result` that hold exceptions.
        returns: Whether the call answers with a value.
        repeating: The effect of repeating the call.
        after_outage: Whether the call waits for the end of an outage.
    """

    name: str
    arguments: Any
    result: Any
    throws: tuple[str, ...]
    returns: bool
    repeating: Repeating
    after_outage: bool = False


def struct(name: str, fields: str) -> Any:
    """Declare a struct; later declarations can name it as a type."""
    _structs[name] = _declare(name, fields, TBase)
    # As in a named tuple: other processes receive structs by the name of their module.
    _structs[name].__module__ = sys._getframe(1).f_globals["__name__"]
    return _structs[name]


def exception(name: str) -> Any:
    """Declare one of the metastore's exceptions; each contains only a message."""
    _structs[name] = _declare(name, "1:string message", ServerException)
    return _structs[name]


def call(
    name: str,
    arguments: str = "",
    *,
    returns: str | None = None,
    throws: str = "",
) -> Call:
    """Declare a call; `throws` lists its exceptions as ``"1:MetaException, 2:..."``."""
    exceptions = [item.split(":") for item in throws.split(", ") if item]
    results = [f"0:{returns} success"] if returns else []
    results += [f"{number}:{kind} o{number}" for number, kind in exceptions]
    return Call(
        name=name,
        arguments=_declare(f"{name}_args", arguments, TBase),
        result=_declare(f"{name}_result", ", ".join(results), TBase),
        throws=tuple(f"o{number}" for number, _ in exceptions),
        returns=returns is not None,
        repeating=Repeating.of(name),
        after_outage=Repeating.after_outage(name),
    )


def _declare(name: str, fields: str, parent: type) -> Any:
    declarations: list[tuple[int, str, str]] = []
    for item in re.split(r",\s+", fields.strip()) if fields.strip() else []:
        match = _FIELD.fullmatch(item)
        if match is None:
            raise ValueError(f"{name}: {item!r} is no field declaration.")
        declarations.append((int(match[1]), match[2], match[3]))
    names = tuple(field for _, _, field in declarations)
    spec: list[tuple[int, int, str, Any, None] | None] = [None] * (
        max((number for number, _, _ in declarations), default=-1) + 1
    )
    for number, type_text, field in declarations:
        spec[number] = (number, *_type(type_text, field), None)

    field_names = frozenset(names)

    def __init__(self: Any, *values: Any, **keywords: Any) -> None:  # noqa: N807
        # The codec makes thousands of them, only by names.
        if values:
            keywords |= zip(names, values, strict=False)
        for field in names:
            setattr(self, field, keywords.get(field))
        if len(values) > len(names) or not keywords.keys() <= field_names:
            unknown_fields = ", ".join(sorted(keywords.keys() - field_names)) or len(values)
            raise TypeError(f"{name} has no field {unknown_fields}.")

    return type(
        name, (parent,), {"__init__": __init__, "__slots__": names, "thrift_spec": tuple(spec)}
    )


def _type(text: str, field: str) -> tuple[int, str, Any]:
    kind, arguments = _kind(text)
    return kind, field, arguments


def _kind(text: str, *, hashable: bool = False) -> tuple[int, Any]:
    """The codec's numbers for a type; a list that is the key of a map must arrive as a tuple."""
    if text in _PRIMITIVES:
        return _PRIMITIVES[text]
    if text in _structs:
        # The C codec insists on a list here.
        return TType.STRUCT, [_structs[text], _structs[text].thrift_spec]
    container, _, inner = text.removesuffix(">").partition("<")
    if container == "map":
        depth = 0
        for position, letter in enumerate(inner):
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                key, value = inner[:position], inner[position + 1 :]
                return TType.MAP, (*_kind(key, hashable=True), *_kind(value), False)
    if container in ("list", "set"):
        return TType.LIST if container == "list" else TType.SET, (*_kind(inner), hashable)
    raise ValueError(f"{text!r} is no type; a struct must be declared before it is used.")
