"""Conversion of dataclasses to plain JSON values and back; errors name the field.

Jobs are read strictly, because people write them: an unknown key is an error. Records (reports,
needs, and notes) come from programs, possibly of another version: see ``from_record``.
"""

import json
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import ParameterValue, decode_value, encode_value
from hiveacid.rules.texts import did_you_mean

# Format number of all records; increased when a field of one is removed or renamed.
FORMAT = 1

RecordT = TypeVar("RecordT")

# The attribute of a class with its tag, and the key of a JSON object with the same tag.
_TAG_KEYS = {"tag": "job", "kind": "kind"}
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def to_record(value: Any) -> dict[str, Any]:
    """Convert a record to plain values, with the number of their format.

    Args:
        value: A report, a need or a note.
    """
    return {"format": FORMAT, **encode(value)}


def from_record(class_: type[RecordT], data: Any, where: str) -> RecordT:
    """Read the output of to_record, of this version or of another one.

    Unknown keys are ignored, and a record without a format has the first one. A higher format is
    read as well, because no field ever changes its meaning: a later version renames it and
    increases the format. So known fields have the expected meaning, and a record of a version that
    has removed a required field is an error.

    Args:
        class_: The class of the record.
        data: The parsed JSON.
        where: The name of the record in errors, "report".

    Raises:
        InvalidJob: The data has another form, or lacks a field; the message names the field.
    """
    if not isinstance(data, Mapping):
        raise _wrong("an object", data, where)
    format_ = data.get("format", FORMAT)
    if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
        raise InvalidJob(f"{where}.format must be a whole number from 1 on, not {format_!r}.")
    record: RecordT = decode(class_, dict(data), where, tolerant=True)
    return record


def to_bytes(value: Any) -> bytes:
    """Convert a record to the content of a file."""
    return json.dumps(to_record(value), indent=1).encode()


def from_bytes(class_: type[RecordT], content: bytes, where: str) -> RecordT:
    """Read the output of to_bytes; see from_record.

    Raises:
        InvalidJob: The content is not such a record.
    """
    try:
        return from_record(class_, json.loads(content), where)
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f"{where} cannot be read: {error}") from error


def valid_record(class_: type[RecordT], content: bytes | None) -> RecordT | None:
    """Read the output of to_bytes; None if there is no content, or that of another file."""
    try:
        return None if content is None else from_bytes(class_, content, "record")
    except InvalidJob:
        return None


def encode(value: Any) -> Any:
    """Convert dataclasses of this package to plain dicts, lists and values."""
    if is_dataclass(value) and not isinstance(value, type):
        return tag_of(value) | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: encode(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [encode(entry) for entry in value]
    return encode_value(value)


def tag_of(value: object) -> dict[str, str]:
    """Return the key that identifies a class, and its tag; empty for classes without a tag."""
    tag = _tag(type(value))
    return {} if tag is None else dict([tag])


def decode(hint: Any, data: Any, where: str, *, tolerant: bool = False) -> Any:
    """Convert plain values to the type of a type hint.

    Args:
        hint: A dataclass, a plain type, Mapping, Sequence or tuple of such, or a union of them.
        data: The parsed JSON.
        where: The place, for the error.
        tolerant: Whether unknown keys are ignored.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, data, where, tolerant)
    if is_dataclass(hint):
        kinds: Callable[[], list[type]] | None = getattr(hint, "kinds", None)
        if kinds is None or _tag(hint) is not None:
            return _decode_dataclass(hint, data, where, tolerant)
        return _decode_tagged(kinds(), data, where, tolerant)
    if origin is None:
        return _decode_plain(hint, data, where)
    if issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _wrong("an object", data, where)
        return {
            key: decode(arguments[1], entry, f"{where}.{key}", tolerant=tolerant)
            for key, entry in data.items()
        }
    if not isinstance(data, list):
        raise _wrong("a list", data, where)
    return tuple(
        decode(arguments[0], entry, f"{where}[{i}]", tolerant=tolerant)
        for i, entry in enumerate(data)
    )


def _decode_union(arguments: tuple[Any, ...], data: Any, where: str, tolerant: bool) -> Any:
    if arguments == get_args(ParameterValue):
        return decode_value(data, where)
    # Literals for completion in editors, beside any text: the job's own check covers them, too.
    choices = [
        choice
        for choice in arguments
        if choice is not types.NoneType and get_origin(choice) is not Literal
    ]
    if data is None and len(choices) < len(arguments):
        return None
    if len(choices) == 1:
        return decode(choices[0], data, where, tolerant=tolerant)
    return _decode_tagged(choices, data, where, tolerant)


def _decode_tagged(choices: Sequence[Any], data: Any, where: str, tolerant: bool) -> Any:
    """Decode a value of one of several classes, which its tag identifies."""
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    known = {tag: class_ for class_ in choices for tag in [_tag(class_)] if tag is not None}
    (key,) = {key for key, _ in known}
    given = data.get(key)
    if not isinstance(given, str) or (key, given) not in known:
        names = ", ".join(sorted(name for _, name in known))
        raise InvalidJob(f"{where}.{key} must be one of {names}, not {given!r}.")
    return _decode_dataclass(known[key, given], data, where, tolerant)


def _tag(class_: Any) -> tuple[str, str] | None:
    """Return the key and the tag that identify a class in JSON."""
    for attribute, key in _TAG_KEYS.items():
        tag = vars(class_).get(attribute)
        if isinstance(tag, str):
            return key, tag
    return None


def _decode_dataclass(class_: Any, data: Any, where: str, tolerant: bool) -> Any:
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    tag = _tag(class_)
    given = {key: value for key, value in data.items() if tag is None or key != tag[0]}
    hints = _hints(class_)
    if tolerant:
        given = {key: value for key, value in given.items() if key in hints}
    elif unknown := given.keys() - hints.keys():
        name = min(unknown)
        raise InvalidJob(f"{where} has the unknown key {name!r}.", remedy=did_you_mean(name, hints))
    required = {
        f.name for f in fields(class_) if f.default is MISSING and f.default_factory is MISSING
    }
    if missing := required - given.keys():
        raise InvalidJob(f"{where} lacks the key {min(missing)!r}.")
    return class_(
        **{
            key: decode(hints[key], value, f"{where}.{key}", tolerant=tolerant)
            for key, value in given.items()
        }
    )


def _decode_plain(hint: type, data: Any, where: str) -> Any:
    number = isinstance(data, int | float) and not isinstance(data, bool)
    # An integer may be outside the range of floats.
    if hint is float and number and abs(data) <= sys.float_info.max:
        return data
    # A bool is an int in Python, but not in JSON.
    if hint is not float and isinstance(data, hint) and (hint is bool) == isinstance(data, bool):
        return data
    raise _wrong(_NAMES[hint], data, where)


@cache
def _hints(class_: type) -> dict[str, Any]:
    return get_type_hints(class_)


def _wrong(expected: str, data: Any, where: str) -> InvalidJob:
    return InvalidJob(f"{where} must be {expected}, not {data!r}.")
