"""Random files of full-ACID tables, with the rows that a reader sees in them.

The rows follow from the choices of the generator: no code that reads files takes part.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import NO_OPEN, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import KEY

TEXTS = [
    "",
    "a",
    "A",
    "b ",
    "ab",
    "abc",
    "abcdefg",
    "z",
    "ä",
    "\uff5e",
    "\U0001f600",
    "0",
    "10",
    " x",
]
TEXTS += ["a" * 300, "\u0001", "'", "%"]
_REALS = [float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.5, -1.5, 0.5, -7.0]
_DAYS = [dt.date(*day) for day in ((1, 1, 1), (1582, 10, 4), (1582, 10, 15), (9999, 12, 31))]
# Arrow declares no calendar in files of ORC, whose readers then expect the one of that time.
_JULIAN = {_DAYS[0]: dt.date(1, 1, 3), _DAYS[1]: dt.date(1582, 9, 24)}
_TIMES = [(1970, 1, 1), (2026, 3, 29, 2, 30), (1700, 1, 1, 5), (2026, 1, 1, 0, 0, 0, 1)]
_PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])
_PAIRS = [{"a": 1, "b": "a"}, {"a": None, "b": "b "}, {"a": -7, "b": None}, {"a": None, "b": None}]
# The types in Arrow, and values, of each type of Hive.
TYPES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "tinyint": (pa.int8(), [-128, 127, *range(-4, 5)]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1, *range(-40, 50, 9)]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, *range(-9, 999, 63)]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, *range(-4, 5)]),
    "float": (pa.float32(), _REALS),
    "double": (pa.float64(), _REALS),
    "boolean": (pa.bool_(), [True, False]),
    "string": (pa.string(), TEXTS),
    "varchar(5)": (pa.string(), TEXTS),
    "char(4)": (pa.string(), [text[:4].ljust(4) for text in TEXTS]),
    "binary": (pa.binary(), [b"", b"\0", b"ab", b"\xff"]),
    "date": (pa.date32(), [*_DAYS, *(dt.date(2026, 1, day) for day in range(1, 7))]),
    "timestamp": (pa.timestamp("ns"), [dt.datetime(*time) for time in _TIMES]),
    "decimal(9,2)": (pa.decimal128(9, 2), [*map(Decimal, ("-1.25", "9999999.99", "0", "7"))]),
    "decimal(38,10)": (pa.decimal128(38, 10), [*map(Decimal, ("1.5", "-" + "9" * 28, "0", "-7"))]),
    "array<int>": (pa.list_(pa.int32()), [[], [1], [None], [1, None, 2], [7, 8, 9]]),
    "struct<a:int,b:string>": (_PAIR, _PAIRS),
    "map<string,int>": (
        pa.map_(pa.string(), pa.int32()),
        [[], [("a", 1)], [("b", 2), ("c", None)]],
    ),
    # Only in files.
    "struct<B:string,z:int>": (
        pa.struct([("B", pa.string()), ("z", pa.int32())]),
        [{"B": "a", "z": 1}, {"B": None, "z": 2}],
    ),
}
# The types that older files may have for a column.
OLDER = {
    "smallint": ["tinyint"],
    "int": ["tinyint", "smallint"],
    "bigint": ["int", "smallint"],
    "double": ["float"],
    "string": ["int", "boolean"],
    "decimal(38,10)": ["decimal(9,2)", "int"],
    "struct<a:int,b:string>": ["struct<B:string,z:int>"],
}
NAMES = ["id", "a", "B", "x", "bucket", "row", "Operation", "p q", "ü", "rowId"]
KEYS: Mapping[str, Mapping[str | None, Any]] = {
    "string": {text: text for text in ("a", "b", "x y", "ä", "1", None)},
    "int": {None: None, "0": 0, "1": 1, "42": 42, "-7": -7},
    "date": {None: None, "2026-01-01": dt.date(2026, 1, 1), "1970-01-01": dt.date(1970, 1, 1)},
}
_ENVELOPE = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]

RowKey = tuple[int, int, int]


@dataclass(frozen=True)
class Query:
    """A query of some columns of the rows that satisfy a condition."""

    where: str
    columns: Sequence[str]
    with_key: bool


class RandomTable:
    """The files of a table below a folder.

    Attributes:
        columns: The types of its columns.
        keys: The types of its partition keys.
        partitions: The texts of the keys of each partition; one has the folder `p0`.
        rows: The file of Parquet with the visible rows, and with their row ids.
        queries: Queries of it.
    """

    def __init__(self, seed: object, number: int, folder: Path) -> None:
        self.number, self.folder = number, folder
        self._random = r = Random(f"{seed} {number}")
        types = [type_ for type_ in TYPES if "B:" not in type_]
        names = [f"{r.choice(NAMES)}{at or ''}" for at in range(r.randint(1, 6))]
        self.columns = {name: r.choice(types) for name in names}
        self.keys = {f"k{at}": r.choice([*KEYS]) for at in range(r.choice([0, 0, 1, 1, 2]))}
        self.by_position, self.clustered = r.random() < 0.3, r.random() < 0.3
        self.highest = r.randint(3, 9)
        # The base has none of these.
        hidden = r.sample(range(3, self.highest + 1), min(self.highest - 2, r.choice([0, 1, 2, 3])))
        opened = r.randint(0, len(hidden))
        self.open, self.aborted = sorted(hidden[:opened]), sorted(hidden[opened:])
        chosen = [
            tuple(r.choice([*KEYS[type_]]) for type_ in self.keys.values())
            for _ in range(r.randint(1, 4))
        ]
        self.partitions = [*dict.fromkeys(chosen)]
        shown: list[tuple[Any, ...]] = []
        for at, texts in enumerate(self.partitions):
            own = [KEYS[type_][text] for type_, text in zip(self.keys.values(), texts, strict=True)]
            partition = _Partition(self, folder / f"p{at}" if self.keys else folder)
            shown += [(*values, *own, *key, at) for key, values in partition.visible_rows()]
        self.rows = folder.with_suffix(".parquet")
        kinds = [TYPES[type_][0] for type_ in (*self.columns.values(), *self.keys.values())]
        kinds = [
            pa.timestamp("us", "UTC") if pa.types.is_timestamp(each) else each for each in kinds
        ]
        kinds += [pa.int64(), pa.int32(), pa.int64(), pa.int32()]
        arrays = [pa.array([row[at] for row in shown], kind) for at, kind in enumerate(kinds)]
        names = [*self.columns, *self.keys, *KEY]
        parquet.write_table(pa.Table.from_arrays(arrays, names), self.rows)
        self.queries = [self._query("true"), *(self._query(self._where()) for _ in range(2))]

    def sees(self, write_id: int) -> bool:
        """Whether readers see a write id."""
        return write_id <= self.highest and write_id not in (*self.open, *self.aborted)

    def _query(self, where: str) -> Query:
        names = [*self.columns, *self.keys]
        some = self._random.sample(names, self._random.randint(1, len(names)))
        return Query(where, self._random.choice([some, names]), self._random.random() < 0.5)

    def _where(self) -> str:
        first, second = self._condition(), self._condition()
        return self._random.choice([first, first, f"{first} AND {second}", f"{first} OR {second}"])

    def _condition(self) -> str:
        name, type_ = self._random.choice([*(self.columns | self.keys).items()])
        conditions, literals = ["{} IS NULL", "{} IS NOT NULL"], [""] * 2
        if type_.startswith("struct"):
            conditions += ["{}.a > 0", "{}.b = 'a'"]
        elif not type_.startswith(("array", "map", "binary")):
            conditions += [
                "{} = {}",
                "{} = {}",
                "{} < {}",
                "{} >= {}",
                "{} IN ({}, {})",
                "{} <=> {}",
            ]
            conditions += ["NOT ({} = {})", "{} IN ({}, NULL)", "{} BETWEEN {} AND {}"]
            literals = [self._literal(type_) for _ in range(2)]
        return self._random.choice(conditions).format(f"`{name}`", *literals)

    def _literal(self, type_: str) -> str:
        value = _shown(self._random.choice(TYPES[type_][1]), type_, type_)
        if isinstance(value, str):
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        return f"CAST('{value}' AS {type_})"


class _Partition:
    """The files of one folder, written in the order of their write ids."""

    def __init__(self, table: RandomTable, folder: Path) -> None:
        self._table, self._folder, self._random = table, folder, table._random
        # Every row, with its values; and the rows that visible events delete.
        self._rows: dict[RowKey, tuple[Any, ...]] = {}
        self._deleted: set[RowKey] = set()
        folder.mkdir(parents=True, exist_ok=True)
        r = self._random
        size, start = r.choice([1, 5, 40] if r.random() < 0.96 else [1500, 5000]), 1
        # One batch of the scan has 4,096 rows.
        files = 1 if size > 1000 else r.randint(1, 3)
        match r.choice(["base", "base", "originals", "nothing"]):
            case "base":
                start = r.randint(2, 3)
                for bucket in range(files):
                    self._insert(f"base_{start - 1:07d}", bucket, range(1, start), size)
            case "originals":
                # Their row numbers depend on the place in the file.
                size = r.choice([size] * 5 + [5000])
                for bucket in range(files):
                    self._load("", bucket, 0, size)
        while start <= table.highest + 1:
            last = min(start + r.choice([0, 0, 0, 1, 2]), table.highest + 1)
            self._write(range(start, last + 1))
            start = last + 1

    def visible_rows(self) -> list[tuple[RowKey, tuple[Any, ...]]]:
        """The rows that are written visibly and not deleted."""
        rows = self._rows.items()
        return [r for r in rows if self._table.sees(r[0][0]) and r[0] not in self._deleted]

    def _write(self, write_ids: range) -> None:
        """Write a delta, a delete delta, both or neither."""
        r, name = self._random, f"delta_{write_ids[0]:07d}_{write_ids[-1]:07d}"
        statements = range(r.randint(1, 2)) if len(write_ids) == 1 else [None]
        older = [key for key in self._rows if key[0] < write_ids[0]]
        for statement in statements:
            own = name if statement is None else f"{name}_{statement:04d}"
            loads = statement is not None and r.random() < 0.2
            for bucket in r.sample(range(3), r.randint(0, 2)):
                if loads:
                    self._load(own, bucket, write_ids[0], 5, statement or 0)
                else:
                    self._insert(own, bucket, write_ids, r.choice([1, 10, 30]), statement or 0)
            if r.random() < 0.6:
                some = r.sample(older, min(len(older), r.choice([1, 5, 50])))
                # An event may name a row that a compaction has removed.
                some.append((r.randrange(write_ids[0]), encode_bucket(0), r.randint(0, 9)))
                self._delete(f"delete_{own}", some, write_ids)

    def _insert(
        self, directory: str, bucket: int, write_ids: range, size: int, statement: int = 0
    ) -> None:
        r = self._random
        places = [(w, row) for w in write_ids for row in range(2 * size)]
        chosen = sorted(r.sample(places, size))
        keys = [(w, encode_bucket(bucket, statement), row) for w, row in chosen]
        arrays, names = self._values(keys)
        rows = pa.StructArray.from_arrays(arrays, names)
        path = self._folder / directory / f"bucket_{bucket:05d}"
        self._write_orc(path, _envelope(0, [(*key, key[0]) for key in keys], rows))

    def _load(
        self, directory: str, bucket: int, write_id: int, size: int, statement: int = 0
    ) -> None:
        """Write files without row ids; the second one continues the row numbers of the first."""
        first = 0
        for suffix in self._random.choice([[""], ["", "_copy_1"]]):
            numbers = range(first, first + size)
            keys = [(write_id, encode_bucket(bucket, statement), number) for number in numbers]
            arrays, names = self._values(keys)
            path = self._folder / directory / f"{bucket:06d}_0{suffix}"
            self._write_orc(path, pa.Table.from_arrays(arrays, names))
            first += size

    def _delete(self, directory: str, keys: Sequence[RowKey], write_ids: range) -> None:
        events: dict[int, list[tuple[int, ...]]] = {}
        # Trino writes all events into the first file.
        in_first = self._random.random() < 0.3
        for key in sorted({*keys}):
            write_id = self._random.choice(write_ids)
            if self._table.sees(write_id):
                self._deleted.add(key)
            bucket = 0 if in_first else key[1] >> 16 & 0xFFF
            events.setdefault(bucket, []).append((*key, write_id))
        for bucket, own in events.items():
            rows = pa.nulls(len(own), pa.struct([("id", pa.int32())]))
            path = self._folder / directory / f"bucket_{bucket:05d}"
            self._write_orc(path, _envelope(2, own, rows))

    def _values(self, keys: Sequence[RowKey]) -> tuple[list[pa.Array], list[str]]:
        """Invent rows, and return the columns of a file of them with their names."""
        fields = self._fields()
        stored = [self._column(type_, len(keys)) for _, type_, _ in fields]
        shown: list[Sequence[Any]] = [[None] * len(keys)] * len(self._table.columns)
        types = [*self._table.columns.values()]
        for (_, type_, at), values in zip(fields, stored, strict=True):
            if at is not None:
                shown[at] = [_shown(value, type_, types[at]) for value in values]
        self._rows |= zip(keys, zip(*shown, strict=True), strict=True)
        columns = zip(fields, stored, strict=True)
        arrays = [pa.array(values, TYPES[type_][0]) for (_, type_, _), values in columns]
        return arrays, [name for name, _, _ in fields]

    def _column(self, type_: str, size: int) -> list[Any]:
        values = self._random.choices(TYPES[type_][1], k=size)
        # Arrow writes a null in a struct in a struct like another value of its fields.
        if not type_.startswith("struct"):
            values = [None if self._random.random() < 0.15 else value for value in values]
        # So that conditions select some groups of rows.
        if type_ in ("int", "bigint", "string", "date", "decimal(9,2)") and size > 1000:
            values.sort(key=lambda value: (value is not None, value))
        return values

    def _fields(self) -> list[tuple[str, str, int | None]]:
        """The columns of a file: names, types, and numbers of the columns of the table."""
        r = self._random
        fields: list[tuple[str, str, int | None]]
        fields = [(*column, at) for at, column in enumerate(self._table.columns.items())]
        match r.choice(["same"] * 3 + ["fewer", "older", "unnamed", "lower", "more", "moved"]):
            case "fewer":
                return fields[: r.randint(1, len(fields))]
            case "older":
                return [(n, r.choice([t, *OLDER.get(t, [])]), at) for n, t, at in fields]
            case "unnamed":
                return [(f"_col{at}", type_, at) for at, (_, type_, _) in enumerate(fields)]
            case "lower":
                return [(name.lower(), type_, at) for name, type_, at in fields]
            case "more":
                return [*fields, ("other", "string", None)]
            case "moved" if self._table.by_position:
                # The names of a table whose columns were renamed.
                return [(fields[-1 - at][0], type_, at) for at, (_, type_, _) in enumerate(fields)]
            case "moved":
                return r.sample(fields, len(fields))
        return fields

    def _write_orc(self, path: Path, table: pa.Table) -> None:
        path.parent.mkdir(exist_ok=True)
        orc.write_table(
            table,
            path,
            stripe_size=self._random.choice([1 << 12, 1 << 26]),
            row_index_stride=self._random.choice([1000, 10_000]),
            compression=self._random.choice(["uncompressed", "zlib"]),
        )


def hive_table(table: RandomTable) -> HiveTable:
    """Return the definition of a table, which no metastore knows."""
    hive = HiveTable.new(
        TableRef("default", f"t{table.number}"),
        [HiveColumn(*column) for column in table.columns.items()],
        partition_keys=[HiveColumn(*key) for key in table.keys.items()],
        bucket_columns=[*table.columns][: int(table.clustered)],
        num_buckets=3 if table.clustered else -1,
        location=f"file:{table.folder}",
    )
    mapping = ColumnMapping.POSITION if table.by_position else ColumnMapping.NAME
    return replace(hive, default_mapping=mapping)


def visible_writes(table: RandomTable) -> ValidWriteIdList:
    """Return the write ids that a reader of a table sees."""
    opened = (min(table.open, default=NO_OPEN), tuple(table.open), tuple(table.aborted))
    return ValidWriteIdList(f"default.t{table.number}", table.highest, *opened)


def _shown(value: Any, stored: str, type_: str) -> Any:
    """A stored value, as a column of a type shows it."""
    if value is None:
        return None
    if type_ == "string" and stored != "string":
        return str(value).upper()
    if type_.startswith("struct"):
        return {"a": value.get("a"), "b": value.get("b", value.get("B"))}
    if type_ == "date":
        return _JULIAN.get(value, value)
    if type_.startswith("decimal"):
        return Decimal(value)
    if type_ == "char(4)":
        return value.rstrip(" ")
    return value[:5] if type_ == "varchar(5)" else value


def _envelope(operation: int, ids: Sequence[tuple[int, ...]], rows: pa.Array) -> pa.Table:
    kinds = [pa.int64(), pa.int32(), pa.int64(), pa.int64()]
    parts = [pa.array([row[at] for row in ids], kind) for at, kind in enumerate(kinds)]
    operations = pa.array([operation] * len(ids), pa.int32())
    return pa.Table.from_arrays([operations, *parts, rows], _ENVELOPE)
