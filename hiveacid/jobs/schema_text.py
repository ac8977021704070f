"""Columns as DDL text, "id bigint, name string", as far as it can be checked without Spark."""

import re
from collections.abc import Iterator, Mapping, Sequence

from hiveacid.errors import InvalidJob, UnknownColumn
from hiveacid.jobs.field_checks import awaits_rendering
from hiveacid.rules.spelling import did_you_mean

_SIMPLE = frozenset(
    {
        *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"),
        *("float", "real", "double", "decimal", "dec", "numeric", "string", "char", "character"),
        *("varchar", "binary", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz"),
        *("interval", "variant", "void", "geometry", "geography"),
    }
)
_NESTED = frozenset({"array", "map", "struct"})
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")
_OPENING, _CLOSING = frozenset("<("), frozenset(">)")


HEADER_REMEDY = (
    "Name the columns in the schema as in the header, in its order; or set the option enforceSchema"
    " to true, which assigns columns by their position."
)


def header_options(format_: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the option that lets Spark compare headers of CSV files with the schema of a source.

    By default, Spark ignores a header, and assigns the columns by their position.

    Args:
        format_: The format of the source.
        options: The options of the source, which may contain another choice.
    """
    chosen = "enforceschema" in {name.lower() for name in options}
    return {"enforceSchema": "false"} if format_.lower() == "csv" and not chosen else {}


def columns_of_schema(schema: str) -> list[str] | None:
    """Return the names of the columns; None if Spark alone can read the text."""
    if awaits_rendering(schema):
        return None
    return [_name(part[0]) for part in _parts(_TOKEN.findall(schema)) if part]


def require_types(schema: str, what: str) -> None:
    """Refuse misspelled types of columns.

    Anything else that is wrong is left to Spark.

    Args:
        schema: The columns.
        what: The name of the schema in the message.

    Raises:
        InvalidJob: A column has an unknown type.
    """
    if awaits_rendering(schema):
        return
    for name, type_ in _types(_TOKEN.findall(schema)):
        if re.fullmatch(r"\w+", type_) and type_.lower() not in _SIMPLE | _NESTED:
            raise InvalidJob(
                f"{what}: the column {name} has the unknown type {type_!r}.",
                remedy=did_you_mean(type_.lower(), _SIMPLE | _NESTED),
            )


def require_header(file: str, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a header of a CSV file with columns other than those of the schema.

    Args:
        file: The file.
        header: The columns of the header.
        columns: The columns of the schema.

    Raises:
        UnknownColumn: A column is missing or additional, or the order differs.
    """
    found, wanted = [name.lower() for name in header], [name.lower() for name in columns]
    if found == wanted:
        return
    missing = [name for name in columns if name.lower() not in found]
    additional = [name for name in header if name.lower() not in wanted]
    if missing:
        what = f"has no column {missing[0]}, which is in the schema"
        guess = did_you_mean(missing[0], additional)
    elif additional:
        what, guess = f"has the column {additional[0]!r}, which is not in the schema", ""
    else:
        what, guess = f"has the columns {', '.join(header)}, unlike the schema", ""
    raise UnknownColumn(f"The header of {file} {what}.", remedy=f"{guess} {HEADER_REMEDY}".strip())


def _types(tokens: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the first word of the type of each column, and of nested fields."""
    for part in _parts(tokens):
        if len(part) > 1:
            has_colon = len(part) > 2 and part[1] == ":"
            yield from _nested(_name(part[0]), part[1 + has_colon :])


def _nested(name: str, tokens: list[str]) -> Iterator[tuple[str, str]]:
    yield name, tokens[0]
    inner = tokens[2:-1] if len(tokens) > 2 and tokens[1] == "<" and tokens[-1] == ">" else []
    if not inner or tokens[0].lower() not in _NESTED:
        return
    if tokens[0].lower() == "struct":
        yield from _types(inner)
        return
    for part in _parts(inner):
        if part:
            yield from _nested(name, part)


def _parts(tokens: list[str]) -> list[list[str]]:
    """Split tokens at the commas outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token
