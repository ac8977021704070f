"""Conversion of dataclasses to plain JSON values and back; errors name the field.

Jobs are read strictly, because people write them: an unknown key is an error. Records come from
programs, possibly of another version. Their base class decides how they are read: see ``rules.formats``.
"""

import json
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from reprlib import Repr
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hiveacid.errors import InvalidJob, NewerRecord
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.fields import ParameterValue, decode_value, encode_value
from hiveacid.rules.formats import Evidence, Obligation, newer_part
from hiveacid.rules.texts import did_you_mean

EvidenceT = TypeVar("EvidenceT", bound=Evidence)
ObligationT = TypeVar("ObligationT", bound=Obligation)

# The error of an unknown key, or of an unknown kind of a part; None: it is left out.
_Unknown = type[InvalidJob] | type[NewerRecord] | None
# The attribute of a class with its tag, and the key of a JSON object with the same tag.
_TAG_KEYS = {"tag": "job", "kind": "kind"}
# A value of others in an error may be a megabyte long.
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 300
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 20
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def to_record(value: Evidence | Obligation) -> dict[str, Any]:
    """Convert a record to plain values, with the number of its format."""
    format_ = value.record_format if isinstance(value, Obligation) else Obligation.record_format
    return {"format": format_, **encode(value)}


def to_bytes(value: Evidence | Obligation) -> bytes:
    """Convert a record to the content of a file."""
    return json.dumps(to_record(value), indent=1).encode()


def read_obligation(class_: type[ObligationT], data: Any, where: str) -> ObligationT:
    """Read the output of to_record or to_bytes, and understand all of it.

    Args:
        class_: The class of the record.
        data: The parsed JSON, or its text.
        where: The record, for errors.

    Raises:
        InvalidJob: The data has another form, or lacks a field; the message names the field.
        NewerRecord: It has a higher format, or an unknown part: a newer version has written it.
    """
    document = _mapping(data, where)
    try:
        class_.require_known(document, where)
    except ValueError as error:
        raise InvalidJob(f"{where} cannot be read: {error}.") from error
    number = document.pop("format")
    try:
        record: ObligationT = _decode(class_, document, where, NewerRecord)
    except NewerRecord as newer_error:
        raise newer_part(where, number, newer_error.what) from newer_error
    return record


def read_evidence(class_: type[EvidenceT], data: Any, where: str) -> EvidenceT:
    """Read the output of to_record or to_bytes, of any version, without its unknown parts.

    No field ever changes its meaning: a later version renames it. So known fields have the expected
    meaning, and a record of a version that has removed a required field is an error.

    Args:
        class_: The class of the record.
        data: The parsed JSON, or its text.
        where: The record, for errors.

    Raises:
        InvalidJob: The data has another form, or lacks a field; the message names the field.
    """
    record: EvidenceT = _decode(class_, _mapping(data, where), where, None)
    return record


def _mapping(data: Any, where: str) -> dict[str, Any]:
    if isinstance(data, bytes):
        try:
            data = parse_json(data)
        except (ValueError, RecursionError) as error:
            raise InvalidJob(f"{where} cannot be read: {error}") from error
    if not isinstance(data, Mapping):
        raise _wrong("an object", data, where)
    return dict(data)


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


def decode(hint: Any, data: Any, where: str) -> Any:
    """Convert plain values to the type of a type hint; an unknown key is an error.

    Args:
        hint: A dataclass, a plain type, Mapping, Sequence or tuple of such, or a union of them.
        data: The parsed JSON.
        where: The place, for the error.

    Raises:
        InvalidJob: The data has another form; the message names the field.
    """
    return _decode(hint, data, where, InvalidJob)


def _decode(hint: Any, data: Any, where: str, unknown_policy: _Unknown) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, data, where, unknown_policy)
    if is_dataclass(hint):
        kinds: Callable[[], list[type]] | None = getattr(hint, "kinds", None)
        if kinds is None or _tag(hint) is not None:
            return _decode_dataclass(hint, data, where, unknown_policy)
        return _decode_tagged(kinds(), data, where, unknown_policy)
    if origin is None:
        return _decode_plain(hint, data, where)
    if issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _wrong("an object", data, where)
        return {
            key: _decode(arguments[1], entry, f"{where}.{key}", unknown_policy)
            for key, entry in data.items()
        }
    if not isinstance(data, list):
        raise _wrong("a list", data, where)
    return tuple(
        _decode(arguments[0], entry, f"{where}[{i}]", unknown_policy)
        for i, entry in enumerate(data)
    )


def _decode_union(
    arguments: tuple[Any, ...], data: Any, where: str, unknown_policy: _Unknown
) -> Any:
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
        return _decode(choices[0], data, where, unknown_policy)
    return _decode_tagged(choices, data, where, unknown_policy)


def _decode_tagged(choices: Sequence[Any], data: Any, where: str, unknown_policy: _Unknown) -> Any:
    """Decode a value of one of several classes, which its tag identifies."""
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    classes_by_tag = {
        tag: class_ for class_ in choices for tag in [_tag(class_)] if tag is not None
    }
    (key,) = {key for key, _ in classes_by_tag}
    tag_value = data.get(key)
    if isinstance(tag_value, str) and (key, tag_value) in classes_by_tag:
        return _decode_dataclass(classes_by_tag[key, tag_value], data, where, unknown_policy)
    if unknown_policy is NewerRecord and isinstance(tag_value, str):
        raise NewerRecord(f"the unknown {key} {_SHORT.repr(tag_value)} in {where}")
    names = ", ".join(sorted(name for _, name in classes_by_tag))
    raise InvalidJob(f"{where}.{key} must be one of {names}, not {_SHORT.repr(tag_value)}.")


def _tag(class_: Any) -> tuple[str, str] | None:
    """Return the key and the tag that identify a class in JSON."""
    for attribute, key in _TAG_KEYS.items():
        tag = vars(class_).get(attribute)
        if isinstance(tag, str):
            return key, tag
    return None


def _decode_dataclass(class_: Any, data: Any, where: str, unknown_policy: _Unknown) -> Any:
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    tag = _tag(class_)
    entries = {key: value for key, value in data.items() if tag is None or key != tag[0]}
    hints = _hints(class_)
    if unknown_keys := entries.keys() - hints.keys():
        name = min(unknown_keys)
        if unknown_policy is InvalidJob:
            raise InvalidJob(
                f"{where} has the unknown key {name!r}.", remedy=did_you_mean(name, hints)
            )
        if unknown_policy is NewerRecord:
            raise NewerRecord(f"the unknown key {name!r} in {where}")
        entries = {key: value for key, value in entries.items() if key in hints}
    required = {
        f.name for f in fields(class_) if f.default is MISSING and f.default_factory is MISSING
    }
    if missing := required - entries.keys():
        raise InvalidJob(f"{where} lacks the key {min(missing)!r}.")
    return class_(
        **{
            key: _decode(hints[key], value, f"{where}.{key}", unknown_policy)
            for key, value in entries.items()
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
def _hints(class_: Any) -> dict[str, Any]:
    hints = get_type_hints(class_)
    return {field.name: hints[field.name] for field in fields(class_)}


def _wrong(expectation: str, data: Any, where: str) -> InvalidJob:
    return InvalidJob(f"{where} must be {expectation}, not {_SHORT.repr(data)}.")
