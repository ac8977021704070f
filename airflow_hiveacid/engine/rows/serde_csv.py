"""Rows as lines of CSV, by the rules of Hive's OpenCSVSerde.

They are those of a library, opencsv 2.3, and differ from those of Spark's reader for quotes within
a field, for backslashes and for quotes that do not end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, StringType

from airflow_hiveacid.engine.failures import MISMATCH
from airflow_hiveacid.metastore.catalog import HiveColumn

_QUOTE = '"'


class CsvText:
    """How a table writes rows as lines; all its columns are texts.

    Args:
        columns: The columns, in the order of the fields of a line.
        parameters: Those of the serde.
    """

    def __init__(self, columns: Sequence[HiveColumn], parameters: Mapping[str, str]) -> None:
        self._names = [column.name for column in columns]
        separator = (parameters.get("separatorChar") or ",")[0]
        quote = (parameters.get("quoteChar") or _QUOTE)[0]
        escape = (parameters.get("escapeChar") or _QUOTE)[0]
        self._dialect = CsvDialect(separator, quote, escape)

    def read(self, line: SparkColumn) -> SparkColumn:
        """The row in a line; fields that are missing are null."""
        dialect = self._dialect

        # Spark reads from the annotations that whole columns come and go.
        def split(lines: pa.Array) -> pa.Array:
            fields = [None if line is None else dialect.split(line) for line in lines.to_pylist()]
            return pa.array(fields, pa.list_(pa.string()))

        udf: Any = arrow_udf
        fields = udf(split, ArrayType(StringType()))(line)
        return F.struct(
            *[F.get(fields, F.lit(i)).alias(name) for i, name in enumerate(self._names)]
        )

    def write(self, row: Mapping[str, SparkColumn], what: str) -> SparkColumn:
        """The line of a row.

        A row that Hive would read back as another one is an error when the line is computed.

        Args:
            row: The values of all columns.
            what: Who writes, to begin an error's message with.
        """
        dialect = self._dialect

        def join(rows: pa.Array) -> pa.Array:
            return pa.array([dialect.join(fields, what) for fields in rows.to_pylist()])

        udf: Any = arrow_udf
        line: SparkColumn = udf(join, StringType())(F.array(*[row[name] for name in self._names]))
        return line


class CsvDialect:
    """What separates, quotes and escapes fields."""

    def __init__(self, separator: str, quote: str, escape: str) -> None:
        self._separator = separator
        self._quote = quote
        # The library takes its own default for reading when it is told what doubles a quote.
        self._escape = "\\" if escape == _QUOTE else escape
        self._doubled = quote if escape == _QUOTE else escape

    def split(self, line: str) -> list[str]:
        """The fields of a line, letter by letter as opencsv goes."""
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
        # What a quote does not end goes to the next line, where Hive does not look.
        return fields if quoted else [*fields, "".join(field)]

    def join(self, fields: Sequence[str | None], what: str) -> str:
        """The line of some fields; nulls at its end are left out.

        Raises:
            ValueError: Other fields would be read from it; Spark shows its message.
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
