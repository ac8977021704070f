"""Job as readable text: YAML without default values, one clause of a merge per line."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from hiveacid.jobs import codec
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.secret_text import options_without_secrets, without_secrets

_HEADS = {
    MatchedUpdate: "MATCHED",
    MatchedDelete: "MATCHED",
    NotMatchedInsert: "NOT MATCHED",
    NotMatchedBySourceUpdate: "NOT MATCHED BY SOURCE",
    NotMatchedBySourceDelete: "NOT MATCHED BY SOURCE",
}
# Text that YAML parses as a string without quotes.
_PLAIN = re.compile(r"[A-Za-z_/(](?!.*(: |:$| #)).*(?<! )")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def job_text(job: object) -> str:
    """Write a job as YAML.

    Args:
        job: Any job.
    """
    return "\n".join(_lines(_plain(job)))


def _plain(value: Any) -> Any:
    """Convert a value to mappings, lists and texts, without fields that have default values."""
    if isinstance(value, Clause):
        return without_secrets(_clause(value))
    if is_dataclass(value) and not isinstance(value, type):
        shown = {f.name: getattr(value, f.name) for f in fields(value) if not _is_usual(value, f)}
        for name in shown.keys() & {"options", "catalog_options", "properties"}:
            shown[name] = options_without_secrets(shown[name])
        if "params" in shown:
            shown["params"] = dict.fromkeys(shown["params"], "***")
        if isinstance(shown.get("sql"), str):
            # In a DAG file, the text is indented and begins with an empty line.
            shown["sql"] = textwrap.dedent(shown["sql"]).strip("\n ")
        return codec.tag_of(value) | {name: _plain(entry) for name, entry in shown.items()}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return without_secrets(value) if isinstance(value, str) else value


def _is_usual(value: object, field: Field[Any]) -> bool:
    usual = field.default
    if field.default_factory is not MISSING:
        usual = field.default_factory()
    return bool(getattr(value, field.name) == usual)


def _clause(clause: Clause) -> str:
    """Write a clause as SQL."""
    also = "" if clause.condition is None else f" AND {clause.condition}"
    return f"WHEN {_HEADS[type(clause)]}{also} THEN {_action(clause)}"


def _action(clause: Clause) -> str:
    if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
        return "DELETE"
    if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
        if clause.set is None:
            return "UPDATE SET *"
        return f"UPDATE SET {', '.join(f'{name} = {to}' for name, to in clause.set.items())}"
    if clause.row is not None:
        return f"INSERT VALUES ({', '.join(clause.row)})"
    if clause.values is None:
        return "INSERT *"
    return f"INSERT ({', '.join(clause.values)}) VALUES ({', '.join(clause.values.values())})"


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of a mapping or of a list that is not empty."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entry(f"{_text(key)}:", entry)
        return
    for entry in value:
        if isinstance(entry, Mapping | list) and entry:
            first, *others = _lines(entry)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
        else:
            yield from _entry("-", entry)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list) and value:
        yield head
        below: Iterator[str] = _lines(value)
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |-"
        below = iter(value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"
        return
    yield from (f"  {line}" if line else "" for line in below)


def _is_block(text: str) -> bool:
    """Whether a text of several lines, mostly SQL, can be written unchanged."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and bool(lines[0])
        and bool(lines[-1])
        and not lines[0].startswith(" ")
        and all(line == "" or line.isprintable() for line in lines)
    )


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return _quoted(value) if value.lower() in _WORDS else _text(value)


def _text(text: str) -> str:
    return text if text.isprintable() and _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
