"""Rows as lines of text, by the rules of Hive's LazySimpleSerDe.

Spark's own reader of delimited files supports neither nested values nor Hive's null, and reads
numbers, booleans and dates that Hive reads as null. So expressions parse the lines. The rules were
verified on Hive 4.0.1; tests/data/serde_lines.json contains its output.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.rules.schema import (
    Array,
    Char,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    Varchar,
    parse_type,
)
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import MISMATCH
from hiveacid.spark.rows.columns import spark_struct, spark_type
from hiveacid.spark.rows.conversion import text_as_sql
from hiveacid.spark.rows.json_bytes import narrowed, with_shorts
from hiveacid.spark.spark_versions import try_cast, with_arrow_column

# The separators of deeper nested values, after the three that a table can define.
_DEEPER = (*range(4, 9), 11, *range(14, 27), *range(28, 32))
_LEVELS, _EXTENDED_LEVELS = 8, 24
_NOT_SUPPORTED = {
    "serialization.last.column.takes.rest": "true",
    "timestamp.formats": None,
    "textinputformat.record.delimiter": None,
}
_INTEGER = r"\A[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\z"
_SPECIAL_NUMBER = r"(?i)\A\s*[+-]?(?:inf|infinity|nan)\s*\z"
_JAVA_NUMBER = r"\A\s*[+-]?(?:Infinity|NaN)\s*\z"
_DATE = r"\A\s*([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?![0-9])"
_TIMESTAMP = (
    r"\A\s*([0-9]+)(-[0-9]{1,2}-[0-9]{1,2} [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]{1,9})?"
    r"|-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)\s*\z"
)
_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\z"


class DelimitedText:
    """The conversion of rows to lines for a table or partition.

    Args:
        columns: The columns, in the order of the fields of a line.
        parameters: The parameters of the serde.
        table: The table's name, for errors.

    Raises:
        UnsupportedTable: A parameter is unsupported.
    """

    def __init__(
        self, columns: Sequence[HiveColumn], parameters: Mapping[str, str], table: str
    ) -> None:
        self._table = table
        self._columns = [(column, parse_type(column.type)) for column in columns]
        self._null = parameters.get("serialization.null.format", "\\N")
        self._escape = None
        if escape := parameters.get("escape.delim"):
            self._escape = self._character(escape)
        self._separators = self._read_separators(parameters)
        for name, value in _NOT_SUPPORTED.items():
            if name in parameters and value in (None, parameters[name].lower()):
                raise self._unsupported(name, parameters[name])
        encoding = parameters.get("serialization.encoding", "utf-8")
        if encoding.lower() not in ("utf-8", "utf8"):
            raise self._unsupported("serialization.encoding", encoding)

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line; missing fields and those invalid for their type are null."""
        fields = self._split(F.col(line), self._separators[0])
        values = [
            self._value(F.get(fields, F.lit(position)), type_, 1, column.name).alias(column.name)
            for position, (column, type_) in enumerate(self._columns)
        ]
        return lines.withColumn(row, F.struct(*values))

    def with_line(self, rows: DataFrame, line: str, subject: str) -> DataFrame:
        """Append the line of each row.

        A value that Hive would read back differently is an error when the line is computed.

        Args:
            rows: All columns, in their types, and any others.
            line: The name of the new column.
            subject: The name of the operation, at the beginning of error messages.
        """
        fields = [
            self._checked(F.col(quoted(column.name)), column, type_, subject)
            for column, type_ in self._columns
        ]
        return rows.withColumn(line, F.concat_ws(self._separators[0], *fields))

    def _read_separators(self, parameters: Mapping[str, str]) -> list[str]:
        field = parameters.get("field.delim", parameters.get("serialization.format", "\1"))
        # Hive 2 misspelled the name of the second separator, and tables still have it.
        items = parameters.get("collection.delim", parameters.get("colelction.delim", "\2"))
        keys = parameters.get("mapkey.delim", "\3")
        extended = parameters.get("hive.serialization.extend.nesting.levels", "").lower() == "true"
        separators = [
            self._character(character) for character in (field or "\1", items or "\2", keys)
        ]
        separators += map(chr, _DEEPER)
        return separators[: _EXTENDED_LEVELS if extended else _LEVELS]

    def _character(self, character: str) -> str:
        """Parse a separator, given as a character or by its number."""
        try:
            number = int(character)
        except ValueError:
            return character[0]
        if not 0 <= number < 128:
            raise self._unsupported("a separator", character)
        return chr(number)

    def _unsupported(self, name: str, value: str) -> UnsupportedTable:
        return UnsupportedTable(
            f"{self._table} is text with {name} {value!r}, which is not supported.",
            remedy="Let Hive copy the rows into an ORC table.",
        )

    def _separator(self, level: int, column: str) -> str:
        if level >= len(self._separators):
            raise UnsupportedTable(
                f"Column {column} of {self._table} is nested deeper than Hive has separators for.",
                remedy="Store the table as ORC.",
            )
        return self._separators[level]

    def _split(self, text: SparkColumn, separator: str) -> SparkColumn:
        """Split a text at every unescaped separator."""
        pattern = _pattern(separator)
        if self._escape is None:
            return F.split(text, pattern, -1)
        # Possessive, since Java would otherwise overflow its stack on a long text.
        escape = _pattern(self._escape)
        field = f"(?s){pattern}((?:[^{pattern}{escape}]|{escape}.)*+(?:{escape}\\z)?)"
        return F.regexp_extract_all(F.concat(F.lit(separator), text), F.lit(field), F.lit(1))

    def _value(self, text: SparkColumn, type_: HiveType, level: int, column: str) -> SparkColumn:
        value: SparkColumn
        match type_:
            case Array(element):
                value = self._empty_or(
                    text,
                    ArrayType(spark_type(element, column)),
                    F.transform(
                        self._split(text, self._separator(level, column)),
                        lambda item: self._value(item, element, level + 1, column),
                    ),
                )
            case Map(key, item):
                value = self._empty_or(
                    text,
                    MapType(spark_type(key, column), spark_type(item, column)),
                    self._map(text, key, item, level, column),
                )
            case Struct(fields):
                parts = self._split(text, self._separator(level, column))
                value = F.when(
                    text.isNotNull(),
                    F.struct(
                        *[
                            self._value(
                                F.get(parts, F.lit(position)), field, level + 1, column
                            ).alias(name)
                            for position, (name, field) in enumerate(fields)
                        ]
                    ),
                )
            case _:
                value = self._primitive(text, type_, column)
        return F.when(text != F.lit(self._null), value)

    def _map(
        self, text: SparkColumn, key: HiveType, item: HiveType, level: int, column: str
    ) -> SparkColumn:
        """The entries with a key; among equal keys, the first one counts."""
        between = self._separator(level + 1, column)

        def entry(part: SparkColumn) -> SparkColumn:
            name = F.get(self._split(part, between), F.lit(0))
            value_of_entry = F.when(
                F.length(part) > F.length(name), part.substr(F.length(name) + 2, F.lit(_REST))
            )
            return F.struct(
                self._value(name, key, level + 2, column).alias("key"),
                self._value(value_of_entry, item, level + 2, column).alias("value"),
            )

        entries = F.transform(self._split(text, self._separator(level, column)), entry)
        keys = F.transform(entries, lambda entry: entry["key"])
        return F.map_from_entries(
            F.filter(
                entries,
                lambda entry, position: (
                    entry["key"].isNotNull()
                    & (
                        F.call_function("array_position", keys, entry["key"])
                        == position.cast("bigint") + 1
                    )
                ),
            )
        )

    def _empty_or(
        self, text: SparkColumn, type_: ArrayType | MapType, value: SparkColumn
    ) -> SparkColumn:
        empty = F.array() if isinstance(type_, ArrayType) else F.create_map()
        return F.when(text == "", empty.cast(type_)).otherwise(value)

    def _primitive(self, text: SparkColumn, type_: HiveType, column: str) -> SparkColumn:
        target = spark_type(type_, column)
        match type_:
            case Char(length):
                return F.rtrim(F.substring(self._unescaped(text), 1, length))
            case Varchar(length):
                return F.substring(self._unescaped(text), 1, length)
            case Decimal():
                return try_cast(text, target)
            case Primitive("string"):
                return self._unescaped(text)
            case Primitive("boolean"):
                return F.when(F.lower(text) == "true", F.lit(True)).when(
                    F.lower(text) == "false", F.lit(False)
                )
            case Primitive("float" | "double"):
                # Spark accepts more spellings of these than Java does.
                is_special = text.rlike(_SPECIAL_NUMBER) & ~text.rlike(_JAVA_NUMBER)
                short = (F.length(text) == 1) & ~text.rlike("[0-9]")
                return F.when(~is_special & ~short, try_cast(text, target))
            case Primitive("binary"):
                is_base64 = text.rlike(_BASE64)
                # The Python function repeat() of Spark 3.5 accepts no column as the number.
                padding = F.call_function("repeat", F.lit("="), F.pmod(-F.length(text), F.lit(4)))
                padded = F.concat(text, padding)
                return F.when(is_base64, F.unbase64(F.when(is_base64, padded))).otherwise(
                    F.encode(text, "utf-8")
                )
            case Primitive("date"):
                return try_cast(F.nullif(F.regexp_extract(text, _DATE, 1), F.lit("")), target)
            case Primitive("timestamp"):
                year, remainder = (F.regexp_extract(text, _TIMESTAMP, group) for group in (1, 2))
                four = F.lpad(F.regexp_replace(year, r"\A0+(?=[0-9])", ""), 4, "0")
                return try_cast(F.when(F.length(year) > 0, F.concat(four, remainder)), target)
        whole = F.regexp_extract(text, r"\A([+-]?[0-9]*)", 1)
        digits = F.when(whole.isin("", "+", "-"), F.lit("0")).otherwise(whole)
        return try_cast(F.when(text.rlike(_INTEGER), digits), target)

    def _unescaped(self, text: SparkColumn) -> SparkColumn:
        if self._escape is None:
            return text
        escape = _pattern(self._escape)
        pieces = F.regexp_extract_all(
            text, F.lit(f"(?s){escape}.|[^{escape}]++|{escape}\\z"), F.lit(0)
        )

        def plain(piece: SparkColumn) -> SparkColumn:
            escaped = piece.startswith(self._escape or "") & (F.length(piece) > 1)
            following = F.substring(piece, 2, 1)
            return (
                F.when(~escaped, piece)
                .when(following == "n", F.lit("\n"))
                .when(following == "r", F.lit("\r"))
                .otherwise(following)
            )

        return F.array_join(F.transform(pieces, plain), "")

    def _checked(
        self, value: SparkColumn, column: HiveColumn, type_: HiveType, subject: str
    ) -> SparkColumn:
        """A field's text; an error if it would be read back differently."""
        text = self._text(value, type_, 1, column.name)
        read = self._value(text, type_, 1, column.name)
        is_equal = _comparable(read, type_).eqNullSafe(_comparable(value, type_))
        alone = F.size(self._split(text, self._separators[0])) == 1
        message = (
            f"{MISMATCH} {subject}: column {column.name} holds what cannot be written as text, since "
            "Hive would read something else: a separator, a line break, or the text for null."
        )
        fits = is_equal & alone & ~text.rlike("[\\n\\r]")
        return F.when(fits, text).otherwise(F.raise_error(F.lit(message)))

    def _text(self, value: SparkColumn, type_: HiveType, level: int, column: str) -> SparkColumn:
        text: SparkColumn
        match type_:
            case Array(element):
                parts = F.transform(value, lambda v: self._text(v, element, level + 1, column))
                text = F.array_join(parts, self._separator(level, column))
            case Map(key, item):
                between = self._separator(level + 1, column)
                parts = F.transform(
                    F.map_entries(value),
                    lambda entry: F.concat(
                        self._text(entry["key"], key, level + 2, column),
                        F.lit(between),
                        self._text(entry["value"], item, level + 2, column),
                    ),
                )
                text = F.array_join(parts, self._separator(level, column))
            case Struct(fields):
                parts_ = [
                    self._text(value.getField(name), field, level + 1, column)
                    for name, field in fields
                ]
                text_of_parts = F.concat_ws(self._separator(level, column), *parts_)
                text = F.when(value.isNotNull(), text_of_parts)
            case Char(length):
                text = self._escaped(F.rpad(value, length, " "))
            case Varchar() | Primitive("string"):
                text = self._escaped(value)
            case Primitive("binary"):
                text = F.base64(value)
            case _:
                text = value.cast(StringType())
        return F.coalesce(text, F.lit(self._null))

    def _escaped(self, value: SparkColumn) -> SparkColumn:
        if self._escape is None:
            return value
        special = "".join(map(_pattern, (*self._separators, self._escape)))
        escape = _replacement(self._escape)
        text = F.regexp_replace(value, f"([{special}])", f"{escape}$1")
        for character, letter in (("\n", "n"), ("\r", "r")):
            text = F.regexp_replace(text, character, escape + letter)
        return text


# Longer than any text.
_REST = 2**31 - 1


def _pattern(character: str) -> str:
    """A character in a regular expression of Java, also within brackets."""
    return f"\\x{{{ord(character):x}}}"


def _replacement(character: str) -> str:
    return f"\\{character}" if character in "\\$" else character


def _comparable(value: SparkColumn, type_: HiveType) -> SparkColumn:
    """Convert maps to arrays of entries, since Spark cannot compare maps."""
    match type_:
        case Array(element):
            return F.transform(value, lambda item: _comparable(item, element))
        case Map(key, item):
            return F.transform(
                F.map_entries(value),
                lambda entry: F.struct(
                    _comparable(entry["key"], key), _comparable(entry["value"], item)
                ),
            )
        case Struct(fields):
            parts = [_comparable(value.getField(name), field) for name, field in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
    return value


# Rows as lines of CSV, by the rules of Hive's OpenCSVSerde.
#
# The rules are those of the library opencsv 2.3. They differ from those of Spark's reader for
# quotes within a field, for backslashes, and for unclosed quotes.


_QUOTE = '"'


class CsvText:
    """The conversion of a table's rows to lines; all its columns are texts.

    Args:
        columns: The columns, in the order of the fields of a line.
        parameters: The parameters of the serde.
    """

    def __init__(self, columns: Sequence[HiveColumn], parameters: Mapping[str, str]) -> None:
        self._names = [column.name for column in columns]
        separator = (parameters.get("separatorChar") or ",")[0]
        quote = (parameters.get("quoteChar") or _QUOTE)[0]
        escape = (parameters.get("escapeChar") or _QUOTE)[0]
        self._dialect = CsvDialect(separator, quote, escape)

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line; missing fields are null."""
        dialect = self._dialect

        # Spark derives from the annotations that the function maps whole columns.
        def split(texts: pa.Array) -> pa.Array:
            fields = [None if text is None else dialect.split(text) for text in texts.to_pylist()]
            return pa.array(fields, pa.list_(pa.string()))

        lists = with_arrow_column(lines, row, split, ArrayType(StringType()), [line])
        fields = [F.get(row, F.lit(i)).alias(name) for i, name in enumerate(self._names)]
        return lists.withColumn(row, F.struct(*fields))

    def with_line(self, rows: DataFrame, line: str, subject: str) -> DataFrame:
        """Append the line of each row.

        A row that Hive would read back differently is an error when the line is computed.

        Args:
            rows: All columns, and any others.
            line: The name of the new column.
            subject: The name of the operation, at the beginning of error messages.
        """
        dialect = self._dialect

        def join(*columns: pa.Array) -> pa.Array:
            fields = zip(*[column.to_pylist() for column in columns], strict=True)
            return pa.array([dialect.join(row, subject) for row in fields], pa.string())

        return with_arrow_column(rows, line, join, StringType(), self._names)


class CsvDialect:
    """Separator, quote and escape characters of fields."""

    def __init__(self, separator: str, quote: str, escape: str) -> None:
        self._separator = separator
        self._quote = quote
        # For reading, the library replaces an escape that is the quote character by its default.
        self._escape = "\\" if escape == _QUOTE else escape
        self._doubled = quote if escape == _QUOTE else escape

    def split(self, line: str) -> list[str]:
        """Split a line into fields, letter by letter as opencsv does."""
        if not line:
            return []
        if self._quote not in line and self._escape not in line:
            return line.split(self._separator)
        fields: list[str] = []
        field: list[str] = []
        quoted = within = False
        position = 0
        while position < len(line):
            letter, following = line[position], line[position + 1 : position + 2]
            if letter == self._escape:
                if (quoted or within) and following and following in (self._quote, self._escape):
                    field.append(following)
                    position += 1
            elif letter == self._quote:
                if (quoted or within) and following == self._quote:
                    field.append(following)
                    position += 1
                else:
                    is_separate = position > 2 and line[position - 1] != self._separator
                    if is_separate and following and following != self._separator:
                        if field and not "".join(field).strip():
                            field.clear()
                        else:
                            field.append(letter)
                    quoted = not quoted
                within = not within
            elif letter == self._separator and not quoted:
                fields.append("".join(field))
                field.clear()
                within = False
            else:
                field.append(letter)
                within = True
            position += 1
        # An unclosed quote continues on the next line, which Hive does not read.
        return fields if quoted else [*fields, "".join(field)]

    def join(self, fields: Sequence[str | None], subject: str) -> str:
        """Join fields to a line; trailing nulls are omitted.

        Raises:
            ValueError: The line would be read back differently; Spark shows the message.
        """
        last = max((i for i, field in enumerate(fields) if field is not None), default=-1)
        line = self._separator.join(self._written(field) for field in fields[: last + 1])
        read = self.split(line)
        if [*read, *[None] * (len(fields) - len(read))] != list(fields) or set(line) & {"\n", "\r"}:
            raise ValueError(
                f"{MISMATCH} {subject}: a row cannot be written as CSV, since Hive would read "
                "something else: a null before other fields, or a line break."
            )
        return line

    def _written(self, field: str | None) -> str:
        if field is None:
            return ""
        text = field.replace(self._escape, self._escape * 2)
        return self._quote + text.replace(self._quote, self._doubled + self._quote) + self._quote


# Rows as lines of JSON, by the rules of Hive's JsonSerDe as far as Spark shares them


_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]"}
# All numbers with this many digits differ as doubles, and Hive reads numbers as doubles.
_DIGITS_OF_A_DOUBLE = 15


class JsonText:
    """The conversion of a table's rows to lines.

    Spark is stricter than Hive: text in place of a number is an error, which Hive reads as zero.

    Args:
        columns: The columns.
        parameters: The parameters of the serde.

    Raises:
        UnsupportedTable: A column is or contains a map whose keys are not strings.
    """

    def __init__(self, columns: Sequence[HiveColumn], parameters: Mapping[str, str]) -> None:
        self._columns = columns
        for column in columns:
            if not _keys_are_strings(parse_type(column.type)):
                raise UnsupportedTable(
                    f"Column {column.name} of type {column.type}: Spark reads no keys of maps from "
                    "JSON but strings.",
                    remedy="Let Hive copy the rows into an ORC table.",
                )
        ignored = parameters.get("ignore.malformed.json", "").lower() == "true"
        self._mode = "PERMISSIVE" if ignored else "FAILFAST"

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line; missing fields are null."""
        names = [column.name for column in self._columns]
        # Hive accepts any case of a name; Spark would not find the field.
        has_others = F.exists(
            F.json_object_keys(line), lambda key: F.lower(key).isin(names) & ~key.isin(names)
        )
        struct = spark_struct(self._columns)
        parsed_row = F.from_json(line, with_shorts(struct), {"mode": self._mode})
        wrong = F.lit(f"{MISMATCH} a line of JSON is empty, or names a column in capital letters.")
        refused = has_others | (F.trim(line) == "")
        rows = lines.withColumn(row, F.when(refused, F.raise_error(wrong)).otherwise(parsed_row))
        if with_shorts(struct) == struct:
            return rows
        row_column = quoted(row)
        fields, misfit = narrowed({n: f"{row_column}.{quoted(n)}" for n in names}, struct)
        values = ", ".join(f"{value} AS {quoted(name)}" for name, value in fields.items())
        if self._mode == "PERMISSIVE":
            misfit = "FALSE"
        error = text_as_sql(f"{MISMATCH} a number of JSON does not fit into a tinyint.")
        narrow = f"CASE WHEN {misfit} THEN raise_error({error}) ELSE struct({values}) END"
        return rows.withColumn(row, F.expr(narrow))

    def with_line(self, rows: DataFrame, line: str, subject: str) -> DataFrame:
        """Append the line of each row."""
        values = [
            _exact(F.col(quoted(column.name)), parse_type(column.type)).alias(column.name)
            for column in self._columns
        ]
        return rows.withColumn(line, F.to_json(F.struct(*values), _OPTIONS))


def _keys_are_strings(type_: HiveType) -> bool:
    match type_:
        case Map(key, item):
            return key == Primitive("string") and _keys_are_strings(item)
        case Array(element):
            return _keys_are_strings(element)
        case Struct(fields):
            return all(_keys_are_strings(field) for _, field in fields)
    return True


def _exact(value: SparkColumn, type_: HiveType) -> SparkColumn:
    """Convert long decimals to texts, since Hive reads all digits of a text."""
    match type_:
        case Decimal(precision) if precision > _DIGITS_OF_A_DOUBLE:
            return value.cast(StringType())
        case Array(element):
            return F.transform(value, lambda item: _exact(item, element))
        case Map(_, item):
            return F.transform_values(value, lambda _, entry: _exact(entry, item))
        case Struct(fields):
            parts = [_exact(value.getField(name), field).alias(name) for name, field in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
    return value
