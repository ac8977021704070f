"""Jobs and records as JSON: what does not fit is an error that names the field.

People and DAGs write jobs, so those are read strictly: an unknown key is a mistake. Programs write
records (reports, needs and notes), perhaps those of another version: see ``from_record``.
"""

import json
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_hiveacid.acid import constraints, merge
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import (
    analyze_job,
    catalog_jobs,
    create_table_as,
    ddl_jobs,
    export_job,
    maintenance_jobs,
    multi_table_job,
    partitions_job,
    script_job,
    sources,
    stream_job,
    view_job,
    write_jobs,
)
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.parameters import ParameterValue, decode_value, encode_value

# Of all records; raised when a field of one of them is given up or gets another name.
FORMAT = 1

RecordT = TypeVar("RecordT")

_JOBS: dict[str, type] = {
    "insert": write_jobs.InsertJob,
    "update": write_jobs.UpdateJob,
    "delete": write_jobs.DeleteJob,
    "merge": write_jobs.MergeJob,
    "restore": write_jobs.RestoreJob,
    "compact": maintenance_jobs.CompactJob,
    "clean": maintenance_jobs.CleanJob,
    "analyze": analyze_job.AnalyzeJob,
    "transaction": multi_table_job.MultiTableJob,
    "truncate": ddl_jobs.TruncateJob,
    "create_table": ddl_jobs.CreateTableJob,
    "create_table_as": create_table_as.CreateTableAsJob,
    "convert": ddl_jobs.ConvertJob,
    "create_view": view_job.CreateViewJob,
    "create_table_like": catalog_jobs.CreateTableLikeJob,
    "create_database": catalog_jobs.CreateDatabaseJob,
    "drop_database": catalog_jobs.DropDatabaseJob,
    "drop_table": catalog_jobs.DropTableJob,
    "rename_table": catalog_jobs.RenameTableJob,
    "add_columns": catalog_jobs.AddColumnsJob,
    "alter_columns": catalog_jobs.AlterColumnsJob,
    "table_properties": catalog_jobs.TablePropertiesJob,
    "partitions": partitions_job.PartitionsJob,
    "script": script_job.ScriptJob,
    "export": export_job.ExportChangesJob,
    "stream": stream_job.StreamJob,
}
_KINDS: dict[str, type] = {
    "table": sources.TableSource,
    "changes": sources.ChangesSource,
    "path": sources.PathSource,
    "batch": sources.BatchSource,
    "query": sources.QuerySource,
    "matched_update": merge.MatchedUpdate,
    "matched_delete": merge.MatchedDelete,
    "not_matched_insert": merge.NotMatchedInsert,
    "not_matched_by_source_update": merge.NotMatchedBySourceUpdate,
    "not_matched_by_source_delete": merge.NotMatchedBySourceDelete,
    "not_null": constraints.NotNull,
    "check": constraints.Check,
    "default": constraints.Default,
    "key": constraints.Key,
}
# Which key of a JSON object says what class it is, where that is not clear from its place.
_TAGS: dict[type, tuple[str, str]] = {
    **{class_: ("job", tag) for tag, class_ in _JOBS.items()},
    **{class_: ("kind", tag) for tag, class_ in _KINDS.items()},
}
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def to_json(job: Job) -> str:
    """Write a job as one line of JSON."""
    return json.dumps(encode(job), allow_nan=False)


def from_json(text: str) -> Job:
    """Read a job that to_json, or a human, wrote.

    Raises:
        InvalidJob: It is not JSON, a key is missing or unknown, or a value has the wrong type.
    """
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise InvalidJob("The job is not JSON: too much stands in one another.") from None
    except ValueError as error:
        raise InvalidJob(f"The job is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise InvalidJob(f"The job must be a JSON object, not {data!r}.")
    job: Job = decode(_tagged_class(data, "job", list(_JOBS.values()), "job"), data, "job")
    return job


def to_record(value: Any) -> dict[str, Any]:
    """What one program leaves for another one: plain values, with the number of their format.

    Args:
        value: A report, a need or a note.
    """
    return {"format": FORMAT, **encode(value)}


def from_record(class_: type[RecordT], data: Any, where: str) -> RecordT:
    """Read what to_record made, in this version or in another one.

    Keys that are not known are passed over, and a record without a format is of the first one. A
    higher format than ours is read as well, because no field ever changes its meaning: a later
    version gives it another name, and raises the format. So what we know by its name is right, and
    the record of a version that has given up a field which we can't do without is an error.

    Args:
        class_: What it should be.
        data: What JSON gave.
        where: What the error calls it, "report".

    Raises:
        InvalidJob: It is something else, or lacks a field; the message names the field.
    """
    if not isinstance(data, Mapping):
        raise _wrong("an object", data, where)
    format_ = data.get("format", FORMAT)
    if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
        raise InvalidJob(f"{where}.format must be a whole number from 1 on, not {format_!r}.")
    record: RecordT = decode(class_, dict(data), where, tolerant=True)
    return record


def encode(value: Any) -> Any:
    """Turn dataclasses of this package into plain dicts, lists and values."""
    if is_dataclass(value) and not isinstance(value, type):
        return tag_of(value) | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: encode(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [encode(entry) for entry in value]
    return encode_value(value)


def tag_of(value: object) -> dict[str, str]:
    """The key that says what class something is, and its value; nothing where its place says so."""
    tag = _TAGS.get(type(value))
    return {} if tag is None else {tag[0]: tag[1]}


def decode(hint: Any, data: Any, where: str, *, tolerant: bool = False) -> Any:
    """Turn plain values back into what a type hint asks for.

    Args:
        hint: A dataclass, a plain type, Mapping, Sequence or tuple of such, or a union of them.
        data: What JSON gave.
        where: The place, for the error.
        tolerant: Whether keys that are not known are passed over.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, data, where, tolerant)
    if is_dataclass(hint):
        return _decode_dataclass(hint, data, where, tolerant)
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
    # Words that editors complete, beside any text: the job's own check knows them, too.
    choices = [
        choice
        for choice in arguments
        if choice is not types.NoneType and get_origin(choice) is not Literal
    ]
    if data is None and len(choices) < len(arguments):
        return None
    if len(choices) == 1:
        return decode(choices[0], data, where, tolerant=tolerant)
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    chosen = _tagged_class(data, _TAGS[choices[0]][0], choices, where)
    return decode(chosen, data, where, tolerant=tolerant)


def _tagged_class(data: dict[str, Any], key: str, choices: list[type], where: str) -> type:
    known = {_TAGS[class_][1]: class_ for class_ in choices}
    tag = data.get(key)
    if not isinstance(tag, str) or tag not in known:
        raise InvalidJob(f"{where}.{key} must be one of {', '.join(known)}, not {tag!r}.")
    return known[tag]


def _decode_dataclass(class_: Any, data: Any, where: str, tolerant: bool) -> Any:
    if not isinstance(data, dict):
        raise _wrong("an object", data, where)
    tag = _TAGS.get(class_)
    given = {key: value for key, value in data.items() if tag is None or key != tag[0]}
    hints = _hints(class_)
    if tolerant:
        given = {key: value for key, value in given.items() if key in hints}
    elif unknown := given.keys() - hints.keys():
        raise InvalidJob(f"{where} has the unknown key {min(unknown)!r}.")
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
    # A whole number may be beyond what a float can be.
    if hint is float and number and abs(data) <= sys.float_info.max:
        return data
    # A bool is an int to Python, but never to JSON.
    if hint is not float and isinstance(data, hint) and (hint is bool) == isinstance(data, bool):
        return data
    raise _wrong(_NAMES[hint], data, where)


@cache
def _hints(class_: type) -> dict[str, Any]:
    return get_type_hints(class_)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise InvalidJob(f"The job has the key {key!r} twice in one object.")
        data[key] = value
    return data


def _wrong(expected: str, data: Any, where: str) -> InvalidJob:
    return InvalidJob(f"{where} must be {expected}, not {data!r}.")
