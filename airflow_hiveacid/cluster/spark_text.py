"""Texts that become arguments, environment variables and properties of Spark.

Most of them are templates and may contain untrusted input. Their readers split them into lines: a
line break in a value would begin another property.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import awaits_rendering

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_KEY = re.compile(r"[^\s=:#!][^\s=:]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SIZE = re.compile(r"\s*[0-9]+(?:b|[kmgtp]b?)?\s*", re.IGNORECASE)
_SIZES = frozenset(
    f"spark.{process}.{size}"
    for process in ("driver", "executor")
    for size in ("memory", "memoryOverhead")
)
# Backslashes, and characters that end a key, in the format of Java's properties.
_SPECIAL = re.compile(r"[\\=:#!]")


def require_lines(field: str, value: Any) -> None:
    """Refuse texts that are not one line.

    :param field: The name of the value, for the error.
    :param value: A text, or a mapping or a list with texts; all other values are valid.
    :raises InvalidJob: A text has a line break or another control character.
    """
    for where, text in _texts(field, value):
        if _CONTROL.search(text):
            raise InvalidJob(
                f"{where} has a line break or another control character.",
                remedy="Spark would read what follows as something else; encode it, as Base64 for "
                "example.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidJob(f"{where} has half of a character.") from None


def require_environment(field: str, variables: Mapping[str, str]) -> None:
    """Refuse environment variables whose text would change their meaning.

    :param field: Their name, for the error.
    :param variables: Name to value.
    :raises InvalidJob: A name is invalid, or a value is not one line.
    """
    _require_names(field, variables, _VARIABLE, "the name of an environment variable")


def require_conf(field: str, conf: Mapping[str, Any]) -> None:
    """Refuse Spark properties whose text would change their meaning.

    :param field: Their name, for the error.
    :param conf: Key to value.
    :raises InvalidJob: A key is invalid, or a value is not one line.
    """
    _require_names(field, conf, _KEY, "the key of a Spark property")


def require_spark_sizes(
    driver_memory: str | None, executor_memory: str | None, conf: Mapping[str, Any] | None
) -> None:
    """Refuse invalid memory sizes while a DAG is parsed.

    :param driver_memory: Memory of the driver.
    :param executor_memory: Memory of each executor.
    :param conf: Spark configuration, whose values may be templates.
    :raises InvalidJob: A value is not a size that Spark can parse.
    """
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidJob(
            f"conf must be a dict, not {conf!r}.",
            remedy='Write conf={"spark.executor.memoryOverhead": "1g"}, for example.',
        )
    sizes = {"driver_memory": driver_memory, "executor_memory": executor_memory}
    for key in _SIZES & (conf or {}).keys():
        sizes[f"conf[{key!r}]"] = (conf or {})[key]
    for field, size in sizes.items():
        if isinstance(size, str) and not awaits_rendering(size) and not _SIZE.fullmatch(size):
            raise InvalidJob(
                f"{field}: {size!r} is no size of memory.",
                remedy="Write a whole number with k, m, g or t, like 4g or 512m.",
            )


def properties(conf: Mapping[str, str]) -> str:
    """Write Spark properties as a file of Java's.

    :param conf: Key to value.
    :raises InvalidJob: A property cannot be passed to Spark unchanged.
    """
    require_conf("conf", conf)
    return "".join(f"{_escaped(key)} {_escaped(value)}\n" for key, value in sorted(conf.items()))


def _require_names(
    field: str, values: Mapping[str, Any], allowed: re.Pattern[str], what: str
) -> None:
    for name in values:
        if not isinstance(name, str) or not allowed.fullmatch(name):
            raise InvalidJob(f"{field}: {name!r} cannot be {what}.")
        if not isinstance(values[name], str):
            # The value may be a secret.
            kind = type(values[name]).__name__
            raise InvalidJob(f"{field}[{name!r}] must be a text, not one {kind}.")
    require_lines(field, values)


def _escaped(text: str) -> str:
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    # Else it would be taken for a part of the gap before it.
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _texts(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(f"the name {key!r} in {where}", key)
            yield from _texts(f"{where}[{key!r}]", entry)
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from _texts(f"{where}[{number}]", entry)
