"""Large tables: their rows and changes as queries of DuckDB, which also applies them to a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_TYPES = {
    "int": ("INTEGER", "(id * 7 + {n}) % 1000003"),
    "bigint": ("BIGINT", "id * 1000003 * {n}"),
    "smallint": ("SMALLINT", "(id + {n}) % 32749"),
    "boolean": ("BOOLEAN", "(id + {n}) % 3 = 0"),
    "double": ("DOUBLE", "id / (1 + {n})"),
    "decimal(20,4)": ("DECIMAL(20,4)", "(id * {n})::DECIMAL(20,4) / 8"),
    "string": ("VARCHAR", "md5(concat(id % 1000, '/', {n}))"),
    "date": ("DATE", "DATE '1970-01-01' + ((id + {n}) % 40000)::INTEGER"),
    "timestamp": ("TIMESTAMP", "make_timestamp((id * 1000003 + {n}) * 1000000 + id % 1000000)"),
    "binary": ("BLOB", "encode(concat(id, '-', {n}))"),
}


@dataclass(frozen=True)
class LargeTable:
    """A table, its rows, and its changes.

    Attributes:
        name: Its name.
        columns: The types of Hive and of DuckDB, by column; the partition keys are the last ones.
        values: DuckDB's expressions of the columns after `id`, which is the first one.
        rows: The number of rows; their `id` is below it.
        deleted: The condition of the deleted rows.
        merged: DuckDB's condition of the rows whose values a merge writes.
        keys: The number of partition keys.
        appends: The number of appends, each of which makes a delta.
    """

    name: str
    columns: Mapping[str, tuple[str, str]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    rows: int
    deleted: str
    merged: str
    keys: int = 0
    appends: int = 1

    @property
    def types(self) -> Mapping[str, str]:
        """DuckDB's types."""
        return {name: type_ for name, (_, type_) in self.columns.items()}

    @property
    def partition_keys(self) -> list[str]:
        """The names of the partition keys."""
        names = [*self.columns]
        return names[len(names) - self.keys :]

    def query(self, first: int, end: int, condition: str = "TRUE") -> str:
        """Return DuckDB's query of the rows with ids in a range."""
        values = {"id": "id"} | dict(self.values)
        listed = ", ".join(
            f"CAST({values[name]} AS {type_}) AS {name}" for name, type_ in self.types.items()
        )
        ids = f"SELECT range AS id FROM range({first}, {end})"
        return f"SELECT {listed} FROM ({ids}) WHERE {condition}"

    @property
    def source(self) -> str:
        """DuckDB's query of the merged rows: as many old ids as new ones, with other values."""
        rows = self.query(self.rows, 3 * self.rows, self.merged)
        return f"SELECT * REPLACE (id - {self.rows} AS id) FROM ({rows})"


def deletes(count: int) -> LargeTable:
    """A table with so many deleted rows, five of six."""
    return LargeTable(
        "deletes",
        {"id": ("bigint", "BIGINT"), "v": ("string", "VARCHAR")},
        {"v": "concat('v', id % 97)"},
        rows=count * 6 // 5,
        deleted="id % 6 <> 0",
        merged="id % 1000 < 2",
    )


def deltas(count: int) -> LargeTable:
    """A table with so many deltas of ten rows each."""
    return LargeTable(
        "deltas",
        {"id": ("bigint", "BIGINT"), "v": ("string", "VARCHAR")},
        {"v": "concat('v', id)"},
        rows=count * 10,
        deleted="id % 7 = 0",
        merged="id % 600 = 0",
        appends=count,
    )


def partitions(count: int) -> LargeTable:
    """A table with so many partitions of a hundred rows each."""
    return LargeTable(
        "partitions",
        {"id": ("bigint", "BIGINT"), "v": ("double", "DOUBLE"), "p": ("string", "VARCHAR")},
        {"v": "id / 7", "p": f"concat('p ', id % {count})"},
        rows=count * 100,
        deleted="id % 11 = 0",
        merged="id % 13 = 0",
        keys=1,
    )


def wide(count: int) -> LargeTable:
    """A table with so many columns of all kinds."""
    kinds = [*_TYPES]
    columns, values = {"id": ("bigint", "BIGINT")}, {}
    for number in range(1, count):
        kind = kinds[number % len(kinds)]
        type_, value = _TYPES[kind]
        columns[f"c{number}"] = kind, type_
        # Some values of each column are null.
        values[f"c{number}"] = f"IF((id + {number}) % 17 = 0, NULL, {value.format(n=number)})"
    return LargeTable("wide", columns, values, 20_000, "id % 5 = 0", "id % 9 = 0")


def long_texts(count: int) -> LargeTable:
    """A table with so many texts of a mebibyte, which cannot be compressed."""
    text = "array_to_string(list_transform(range(32768), lambda x: md5(concat(id, '/', x))), '')"
    return LargeTable(
        "texts",
        {"id": ("bigint", "BIGINT"), "v": ("string", "VARCHAR")},
        {"v": text},
        rows=count,
        deleted="id % 5 = 0",
        merged="id % 9 = 0",
    )


def long_arrays(count: int) -> LargeTable:
    """A table with so many rows of two arrays with 5,000 elements each, some of them null."""
    elements = "list_transform(range(5000), lambda x: {})"
    number = "IF((id + x) % 19 = 0, NULL, id * x)"
    text = "IF((id + x) % 23 = 0, NULL, concat(id, ':', x % 100))"
    return LargeTable(
        "arrays",
        {
            "id": ("bigint", "BIGINT"),
            "numbers": ("array<bigint>", "BIGINT[]"),
            "texts": ("array<string>", "VARCHAR[]"),
        },
        {"numbers": elements.format(number), "texts": elements.format(text)},
        rows=count,
        deleted="id % 5 = 0",
        merged="id % 9 = 0",
    )
