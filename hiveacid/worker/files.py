"""The rows of files that a job names by a path, where Arrow and Python read the values of Spark.

Files are read as a whole, before the transaction begins, since only small ones are read here. All
that Spark might read differently needs Spark, which may also know a file that this machine lacks.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from hiveacid.errors import EmptySource, HiveAcidError, SparkNeeded, StorageError
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.sources import PathSource
from hiveacid.orc.format.batches import read_batches, schema_of
from hiveacid.orc.format.envelope import TypeKind, kind_of
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.location import Location
from hiveacid.rules.schema import HiveType, parse_type
from hiveacid.storage.filesystems import hadoop_properties
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.worker.expressions import arrow_type, hive_type

# Beyond these, Spark is faster, and a statement could take more than 500 MB of memory: the files
# whose rows are compared; the rows that are changed, or that a source has, and their bytes in memory;
# and the delete events of a partition.
MOST_BYTES = 64 << 20
MOST_ROWS, MOST_HELD = 200_000, 32 << 20
MOST_EVENTS = 1_000_000
# Lines are objects of Python while they are parsed.
MOST_TEXT, _LONGEST_LINE = 32 << 20, 1 << 20
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_GREGORIAN = date(1582, 10, 15)


def rows_of_files(source: PathSource) -> tuple[pa.Table, int]:
    """Read the rows of files, with the names of their columns in lower case, and their bytes.

    Raises:
        EmptySource: There is no file.
        SparkNeeded: Spark might read other rows.
    """
    if source.format in ("csv", "json"):
        return _rows_of_lines(source)
    if source.options or source.schema is not None:
        raise SparkNeeded(f"options or a schema of {source.format} files")
    contents = _contents(source, MOST_BYTES)
    if not contents:
        raise _missing(source)
    with _readable(source.path):
        open_file = _open_parquet if source.format == "parquet" else _open_orc
        files = [open_file(*named_content) for named_content in contents]
        schema, _ = files[0]
        if any((s.names, s.types) != (schema.names, schema.types) for s, _ in files):
            raise SparkNeeded(f"files of {source.path} with different columns")
        if pa.null() in schema.types:
            raise SparkNeeded("columns without a type")
        rows = bounded(schema, chain.from_iterable(batches for _, batches in files), source.path)
    for column in rows.columns:
        if types.is_timestamp(column.type):
            # Files have several kinds of them, which settings of Spark interpret.
            raise SparkNeeded(f"the type timestamp in {source.path}")
        # Writers count older days by one of two calendars, and few files tell by which.
        if types.is_date32(column.type) and pc.any(pc.less(column, _GREGORIAN)).as_py():
            raise SparkNeeded(f"days before {_GREGORIAN} in {source.path}")
    return rows, sum(len(content) for _, content in contents)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Leave files to Spark that cannot be read here."""
    try:
        yield
    except SparkNeeded:
        raise
    except (OSError, ValueError, LookupError, RecursionError, HiveAcidError) as error:
        raise SparkNeeded(f"{name}, which cannot be read here: {error}") from error


def bounded(schema: pa.Schema, batches: Iterable[pa.RecordBatch], subject: str) -> pa.Table:
    """Collect rows, with names in lower case and the types of expressions.

    Args:
        schema: The columns of the batches.
        batches: The rows.
        subject: Their place, for messages.

    Raises:
        SparkNeeded: They are too many, or not valid for an expression.
    """
    names = [name.lower() for name in schema.names]
    if not names or len({*names}) < len(names):
        raise SparkNeeded(f"columns without different names in {subject}")
    kinds = [plain_type(kind) for kind in schema.types]
    rows, size = 0, 0
    columns: list[list[pa.Array]] = [[] for _ in names]
    for batch in batches:
        try:
            batch.validate(full=True)
            for column, values, kind in zip(columns, batch.columns, kinds, strict=True):
                column.append(converted(values, kind))
                size += column[-1].nbytes
        except pa.ArrowException as error:
            raise SparkNeeded(f"values of {subject} that are not valid: {error}") from error
        rows += batch.num_rows
        if rows > MOST_ROWS or size > MOST_HELD:
            raise SparkNeeded(f"more than {MOST_ROWS} rows or {MOST_HELD >> 20} MB in {subject}")
    return_memory()
    chunked = [pa.chunked_array(chunks, kind) for chunks, kind in zip(columns, kinds, strict=True)]
    return pa.table(dict(zip(names, chunked, strict=True)))


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type that ``plain_type`` has returned."""
    if types.is_dictionary(values.type):
        return values.dictionary.cast(kind).take(values.indices)
    return values.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of expressions for the same values."""
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return _WIDER.get(kind, kind)


# The files of a path, as Spark lists them


def _contents(source: PathSource, limit: int) -> list[tuple[str, bytes]]:
    """The names and contents of all files, in order."""
    storage, names = _files(source)
    contents, remaining = [], limit
    for name in names:
        with storage.open_input(name) as stream:
            content = stream.read(remaining + 1)
        remaining -= len(content)
        if remaining < 0:
            raise SparkNeeded(f"more than {limit >> 20} MB in {source.path}")
        contents.append((name, content))
    return contents


def _files(source: PathSource) -> tuple[ReadOnlyStorage, list[str]]:
    folder, _, name = source.path.rstrip("/").rpartition("/")
    scheme = re.match("[A-Za-z][A-Za-z0-9+.-]+:|/", source.path)
    if not scheme or re.search(r"[{}\[\]\\]", source.path) or re.search("[*?]", folder):
        raise SparkNeeded(f"the path {source.path}")
    if scheme[0] == "/" and hadoop_properties().get("fs.defaultFS", "file:")[:5] != "file:":
        raise SparkNeeded(f"the path {source.path} without a scheme")
    try:
        # The caller has required the path.
        storage = ReadOnlyStorage.of(Location(f"{folder}/"))
    except StorageError as error:
        raise SparkNeeded(error.what.rstrip(".")) from error
    matching_paths = [name] if storage.exists(name) else []
    if re.search("[*?]", name):
        paths = [file.path for file in storage.list_files(missing_ok=True)]
        paths += storage.list_directories(missing_ok=True)
        matching_paths = [path for path in sorted(paths) if fnmatchcase(path, name)]
    if any(_is_hidden(path) or ("=" in path and path != name) for path in matching_paths):
        raise SparkNeeded(f"the hidden files or partitions {source.path}")
    if not matching_paths and scheme[0] == "/":
        raise SparkNeeded(f"the path {source.path}, which this machine does not have")
    if not matching_paths:
        raise _missing(source)
    names = []
    for path in matching_paths:
        if not storage.is_directory(path):
            names.append(path)
            continue
        paths_inside = [file.path for file in storage.list_files(path)]
        if not all(map(_is_hidden, storage.list_directories(path))) or any(
            file.startswith(("_metadata", "_common_metadata")) for file in paths_inside
        ):
            raise SparkNeeded(f"folders or summaries in {source.path}")
        names += [f"{path}/{file}" for file in paths_inside if not _is_hidden(file)]
    return storage, names


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a file or folder of a path."""
    is_hidden = name.startswith("_") and "=" not in name
    return is_hidden or name.startswith(".") or name.endswith("._COPYING_")


def _missing(source: PathSource) -> EmptySource:
    return EmptySource(
        f"The source {source.path}: no file was found.", remedy="Check the path of the source."
    )


# Parquet and ORC

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_ROWS = 8192
_Opened = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def _open_parquet(name: str, content: bytes) -> _Opened:
    file = ParquetInput(io.BytesIO(content), name)
    schema = file.schema
    # Spark trusts its own description: a number may be an interval, and a text a char.
    if spark_schema := (file.metadata.metadata or {}).get(_SPARK_SCHEMA):
        fields = [(f["name"], f["type"], f["metadata"]) for f in parse_json(spark_schema)["fields"]]
        fields_of_file: list[tuple[str, str, object]] = [
            (field.name, str(hive_type(plain_type(field.type))), {}) for field in schema
        ]
        if fields_of_file != [
            (name, _SPARK_NAMES.get(str(t), str(t)), field_metadata)
            for name, t, field_metadata in fields
        ]:
            raise SparkNeeded("a file with types of Spark")
    return schema, file.batches(rows=_ROWS)


def _open_orc(_: str, content: bytes) -> _Opened:
    source = io.BytesIO(content)
    tail = OrcTail.read(source)
    if {TypeKind.CHAR, TypeKind.VARCHAR} & {*map(kind_of, tail.types)}:
        raise SparkNeeded("columns of the type char or varchar")
    return schema_of(tail.types), read_batches(source, tail, rows=_ROWS)


# Lines of CSV and JSON. A value is read here only in the form that all writers have in common.

_PLAIN_NAMES = ("csv", "json", "jsonl", "ndjson", "tsv", "txt")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]")
_COLUMN = re.compile(r"(\w+)\s*(?::\s*|\s)\s*(\w+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?)")
# As a double, "-0" has a sign in CSV and none in JSON.
_WHOLE = "(?:0|-?[1-9][0-9]*)"
_FRACTION = rf"(?:{_WHOLE}|-?(?:0|[1-9][0-9]*)\.[0-9]+)"
# The types, without their parameters.
_FORMS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("double", "decimal"), _FRACTION),
    "boolean": "(?i:true|false)",
    "date": "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}",
    "string": "(?s:.*)",
}


class _Number(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


def _rows_of_lines(source: PathSource) -> tuple[pa.Table, int]:
    columns = _columns_of(source)
    options = {name.lower(): value for name, value in source.options.items()}
    header, separator = options.pop("header", "false"), options.pop("sep", ",")
    has_defaults = not source.options or source.format == "csv"
    if (
        options
        or not has_defaults
        or header not in ("true", "false")
        or separator not in {*",;|\t"}
    ):
        raise SparkNeeded(f"options of {source.format} files")
    contents = _contents(source, MOST_TEXT)
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in columns.items()])

    def fields(line: bytes) -> Sequence[str | None]:
        text = _text_of(line)
        if source.format == "json":
            return _fields_of_json(text, columns)
        return _fields_of_csv(text, separator)

    def batches() -> Iterator[pa.RecordBatch]:
        for name, content in contents:
            with _readable(name):
                lines = _lines(name, content)
                if header == "true" and lines and fields(lines.pop(0)) != [*columns]:
                    raise ValueError("It has another header.")
                # The values of lines are objects of Python, larger than their texts.
                for start in range(0, len(lines), _ROWS):
                    rows = [fields(line) for line in lines[start : start + _ROWS]]
                    yield _batch_of(rows, columns, schema)

    return bounded(schema, batches(), source.path), sum(len(content) for _, content in contents)


def _batch_of(
    rows: Sequence[Sequence[str | None]], columns: Mapping[str, HiveType], schema: pa.Schema
) -> pa.RecordBatch:
    arrays = []
    fields = zip(*rows, strict=True)
    for type_, kind, values in zip(columns.values(), schema.types, fields, strict=True):
        texts = pa.array(values, pa.string())
        fits = pc.match_substring_regex(texts, f"^(?:{_FORMS[_form_of(type_)]})$")
        if not pc.all(fits, min_count=0).as_py():
            raise ValueError(f"A value is no {type_} in its common form.")
        arrays.append(texts.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns_of(source: PathSource) -> dict[str, HiveType]:
    columns: dict[str, HiveType] = {}
    for part in re.split(r",(?![^(]*\))", source.schema or ""):
        match = _COLUMN.fullmatch(part.strip())
        if match is None or match[1].lower() in {"_corrupt_record", *map(str.lower, columns)}:
            raise SparkNeeded(f"the schema of {source.path}, or none")
        type_text = re.sub(r"\s", "", match[2].lower())
        with _readable(f"the type {type_text}"):
            columns[match[1]] = type_ = parse_type(_SPARK_NAMES.get(type_text, type_text))
        if _form_of(type_) not in _FORMS:
            raise SparkNeeded(f"the type {type_} in {source.format} files")
    return columns


def _form_of(type_: HiveType) -> str:
    return str(type_).partition("(")[0]


def _lines(name: str, content: bytes) -> list[bytes]:
    file = name.rpartition("/")[2]
    if "." in file and file.rpartition(".")[2] not in _PLAIN_NAMES:
        raise ValueError("It may be compressed.")
    if content.count(b"\n") > MOST_ROWS + 1:
        raise ValueError(f"It has more than {MOST_ROWS:,} lines.")
    lines = content.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n") if content else []
    if any(len(line) > _LONGEST_LINE for line in lines):
        raise ValueError(f"It has a line of more than {_LONGEST_LINE} bytes.")
    return lines


def _text_of(line: bytes) -> str:
    text = line.decode()
    if _CONTROL.search(text) or not text.strip():
        raise ValueError("It has control characters, or empty lines.")
    return text


def _fields_of_csv(line: str, separator: str) -> list[str | None]:
    fields = line.split(separator)
    if '"' in line or "\\" in line or any(field != field.strip() for field in fields):
        raise ValueError(f"The line {line[:80]!r} has quotes, or blanks around a field.")
    return [field or None for field in fields]


def _fields_of_json(line: str, columns: Mapping[str, HiveType]) -> list[str | None]:
    found = parse_json(
        line,
        object_pairs_hook=_object,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
    )
    if not isinstance(found, dict):
        raise ValueError("A line is no object.")
    fields: list[str | None] = []
    for name, type_ in columns.items():
        value, form = found.get(name), _form_of(type_)
        texts = form in ("string", "date")
        expected_type = bool if form == "boolean" else str if texts else _Number
        if value is not None and type(value) is not expected_type:
            raise ValueError(f"The line {line[:80]!r} has a value of another type.")
        fields.append(str(value).lower() if isinstance(value, bool) else value)
    return fields


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs) or any(
        isinstance(value, dict | list) for value in members.values()
    ):
        raise ValueError("An object has values within values, or a name twice.")
    return members
