"""Names in SQL: one function for each dialect, since a name may come from foreign files.

No other place puts quotes around a name (`tests/parser/test_sql_names.py`).
"""

from hiveacid.errors import MalformedName


def quoted(*parts: str) -> str:
    """Return a name in the SQL of Spark and Hive, whose parts can have any characters.

    Args:
        *parts: One name, or a path of names, such as a database and a table.

    Raises:
        MalformedName: A part is empty, which SQL cannot express.
    """
    return ".".join(_between("`", part) for part in parts)


def quoted_in_duckdb(*parts: str) -> str:
    """Return a name in the SQL of DuckDB; see ``quoted``."""
    return ".".join(_between('"', part) for part in parts)


def unquoted(text: str) -> str:
    """Return the name that a part of SQL of Spark and Hive means, with or without quotes."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == "`"
    return text[1:-1].replace("``", "`") if is_quoted else text


def _between(quote: str, name: str) -> str:
    if not name:
        raise MalformedName("A name in SQL is empty.", remedy="Give the column or table a name.")
    return f"{quote}{name.replace(quote, 2 * quote)}{quote}"
