"""Rows as lines of CSV, by the rules of Hive's OpenCSVSerde.

The rules are those of the library opencsv 2.3. They differ from those of Spark's reader for quotes
within a field, for backslashes, and for unclosed quotes.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from hiveacid.metastore.catalog import HiveColumn
from hiveacid.spark.failures import MISMATCH
from hiveacid.spark.spark_versions import with_arrow_column

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

    def with_line(self, rows: DataFrame, line: str, what: str) -> DataFrame:
        """Append the line of each row.

        A row that Hive would read back differently is an error when the line is computed.

        Args:
            rows: All columns, and any others.
            line: The name of the new column.
            what: The name of the operation, at the beginning of error messages.
        """
        dialect = self._dialect

        def join(*columns: pa.Array) -> pa.Array:
            fields = zip(*[column.to_pylist() for column in columns], strict=True)
            return pa.array([dialect.join(row, what) for row in fields], pa.string())

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
            letter, after = line[position], line[position + 1 : position + 2]
            if letter == self._escape:
                if (quoted or within) and after and after in (self._quote, self._escape):
                    field.append(after)
                    position += 1
            elif letter == self._quote:
                if (quoted or within) and after == self._quote:
                    field.append(after)
                    position += 1
                else:
                    apart = position > 2 and line[position - 1] != self._separator
                    if apart and after and after != self._separator:
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

    def join(self, fields: Sequence[str | None], what: str) -> str:
        """Join fields to a line; trailing nulls are omitted.

        Raises:
            ValueError: The line would be read back differently; Spark shows the message.
        """
        last = max((i for i, field in enumerate(fields) if field is not None), default=-1)
        line = self._separator.join(self._written(field) for field in fields[: last + 1])
        read = self.split(line)
        if [*read, *[None] * (len(fields) - len(read))] != list(fields) or set(line) & {"\n", "\r"}:
            raise ValueError(
                f"{MISMATCH} {what}: a row cannot be written as CSV, since Hive would read "
                "something else: a null before other fields, or a line break."
            )
        return line

    def _written(self, field: str | None) -> str:
        if field is None:
            return ""
        text = field.replace(self._escape, self._escape * 2)
        return self._quote + text.replace(self._quote, self._doubled + self._quote) + self._quote
