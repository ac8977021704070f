"""Statistics of random partitions against those of their rows, computed one by one."""

import io
import math
import random
from dataclasses import replace
from datetime import date, timedelta
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.orc.format.tail import FooterField, OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.statistics import partition_statistics
from tests.orc.acid_files import enveloped, with_acid_metadata
from tests.orc.orc_tables import flat_file, with_tail, without_row_index

BUCKET = encode_bucket(0)
COLUMNS = {
    "flag": ("boolean", pa.bool_()),
    "tiny": ("tinyint", pa.int8()),
    "number": ("bigint", pa.int64()),
    "real": ("double", pa.float64()),
    "single": ("float", pa.float32()),
    "text": ("string", pa.string()),
    "code": ("char(4)", pa.string()),
    "blob": ("binary", pa.binary()),
    "day": ("date", pa.date32()),
    "price": ("decimal(18,2)", pa.decimal128(18, 2)),
    "wide": ("decimal(38,10)", pa.decimal128(38, 10)),
}
HIVE = [HiveColumn(name, type_) for name, (type_, _) in COLUMNS.items()]
WIDE = Decimal(f"{'9' * 28}.{'9' * 10}")
EXTREMES = {
    "flag": [True, False],
    "tiny": [-128, 127, 0],
    "number": [-(2**63), 2**63 - 1, 0],
    "real": [-0.0, 0.0, -math.inf, math.inf, 5e-324, -1.7e308],
    "single": [-0.0, 0.0, 1.5, -math.inf],
    "text": ["", "x" * 3000, "ü", "\U0001f600"],
    "code": ["", "abcd", "üü"],
    "blob": [b"", b"\xff" * 2000],
    "day": [date(1, 1, 1), date(1582, 10, 15), date(9999, 12, 31)],
    "price": [Decimal("-9999999999999999.99"), Decimal("9999999999999999.99"), Decimal(0)],
    "wide": [WIDE.copy_negate(), WIDE],
}


def value(draw: random.Random, name: str):
    if draw.random() < 0.15:
        return None
    if draw.random() < 0.1:
        return draw.choice(EXTREMES[name])
    n = draw.randrange(100)
    return {
        "flag": n % 2 == 0,
        "tiny": n,
        "number": n * 10**12,
        "real": n / 7,
        "single": n / 4,
        "text": f"text {n}",
        "code": f"{n}",
        "blob": bytes([n]),
        "day": date(1990, 1, 1) + timedelta(days=n),
        "price": Decimal(n) / 100,
        "wide": Decimal(n) / 1000,
    }[name]


def rows_of(draw: random.Random, count: int, nan: bool) -> list[dict]:
    rows = [{name: value(draw, name) for name in COLUMNS} for _ in range(count)]
    if nan and rows:
        draw.choice(rows)["real"] = math.nan
    return rows


def arrow(rows: list[dict]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, (_, kind) in COLUMNS.items()}
    )


def of_today(file: io.BytesIO) -> io.BytesIO:
    """A file whose days are counted by the calendar of today, also those before 1582."""
    tail = OrcTail.read(file)
    footer = tail.footer.without(FooterField.CALENDAR).add_number(FooterField.CALENDAR, 2)
    return with_tail(file, replace(tail, footer=footer))


class Partition:
    """A folder with deltas, and the rows that a reader has to see."""

    def __init__(self, folder, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.rows: dict[tuple[int, int, int], dict] = {}
        self.write_id = 0
        self.aborted: list[int] = []

    def put(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir()
        path.write_bytes(content)

    def insert(self, *, nan=False, stride=100) -> None:
        """Write a delta of one write id, or of two, one of which may be aborted."""
        count = self.draw.choice([0, 1, 7, 300, 700])
        first = self.write_id + 1
        self.write_id += self.draw.choice([1, 2])
        own = range(first, self.write_id + 1)
        ids = sorted((self.draw.choice(own), BUCKET, row) for row in range(count))
        rows = rows_of(self.draw, count, nan)
        # Tiny stripes: the writer ends one with each batch of a hundred rows.
        layout = {"stride": stride or 1000, "stripe_size": self.draw.choice([1, 64 << 20])}
        file = flat_file(enveloped(flat_file(arrow(rows)), ids), **layout)
        file = of_today(file if stride else without_row_index(file))
        suffix = "_0000" if len(own) == 1 else ""
        if len(own) == 2 and self.draw.random() < 0.5:
            self.aborted.append(self.draw.choice(own))
        self.put(
            f"delta_{first:07d}_{self.write_id:07d}{suffix}/bucket_00000",
            with_acid_metadata(file, ids).getvalue(),
        )
        visible = {i: row for i, row in zip(ids, rows, strict=True) if i[0] not in self.aborted}
        self.rows |= visible

    def delete(self, *, aborted=False, at=None) -> None:
        """Delete some rows, mostly neighbours, and one that does not exist."""
        self.write_id += 1
        ids = sorted(self.rows)
        at = self.draw.randrange(len(ids) + 1) if at is None else at
        chosen = {*ids[at : at + self.draw.choice([1, 3, 250])], (1, BUCKET, 10**6)}
        if aborted:
            self.aborted.append(self.write_id)
        else:
            for each in chosen:
                self.rows.pop(each, None)
        path = self.folder / f"delete_delta_{self.write_id:07d}_{self.write_id:07d}_0000"
        path.mkdir()
        types = OrcTail.read(flat_file(arrow([]))).types
        columns = np.array(sorted(chosen), dtype=np.int64).T
        with (path / "bucket_00000").open("wb") as sink:
            write_delete_file(
                sink, [Keys.deletes(*columns, write_id=self.write_id)], row_types=types
            )

    def part(self, columns=HIVE, **table) -> TablePart:
        hive = HiveTable.new(TableRef("db", "t"), columns, location=str(self.folder), **table)
        storage = Storage.of(str(self.folder))
        aborted = tuple(sorted(self.aborted))
        write_ids = ValidWriteIdList("db.t", self.write_id, aborted=aborted)
        flat = hive.kind is TableKind.INSERT_ONLY
        files = list_files(storage, None)
        state = read_state(storage, files, write_ids, None, rules=Rules.HIVE4, flat=flat)
        return TablePart.of(
            hive, {}, hive.format, storage, state, write_ids, Rules.HIVE4, clustered=False
        )


def check(found, rows: list[dict]) -> None:
    assert found.rows == len(rows)
    for name in COLUMNS:
        values = [row[name] for row in rows if row[name] is not None]
        if name == "real" and any(math.isnan(value) for value in values):
            assert found.omitted[name] == "a value is NaN"
            continue
        got = found.columns[name]
        assert (got.values, got.nulls) == (len(values), len(rows) - len(values)), name
        if name == "flag":
            assert got.trues == sum(values)
        elif name in ("text", "code", "blob"):
            sizes = [len(v.encode() if isinstance(v, str) else v) for v in values]
            assert got.length == sum(sizes)
            assert got.longest <= max(sizes, default=0)
        elif not values:
            assert got.low is got.high is None
        else:
            low, high = min(values), max(values)
            if name == "day":
                low, high = ((each - date(1970, 1, 1)).days for each in (low, high))
            elif name in ("price", "wide"):
                scale = 2 if name == "price" else 10
                low, high = (int(each.scaleb(scale, Context(prec=80))) for each in (low, high))
            assert (got.low, got.high) == (low, high), name
            assert not isinstance(got.low, float) or math.copysign(1, got.low or 1) == (
                math.copysign(1, low or 1)
            )


@pytest.mark.parametrize("part", range(4))
def test_statistics_are_those_of_the_visible_rows(tmp_path, part: int) -> None:
    for seed in range(part, 40, 4):
        (tmp_path / str(seed)).mkdir()
        check_random_partition(tmp_path / str(seed), seed)


def check_random_partition(folder, seed: int) -> None:
    draw = random.Random(seed)
    partition = Partition(folder, draw)
    nan = seed % 8 == 7
    for step in range(draw.randrange(2, 6)):
        # Files without row indexes have statistics without information.
        partition.insert(nan=nan and step == 0, stride=draw.choice([100, 1000, 0]))
        if draw.random() < 0.6:
            partition.delete(aborted=draw.random() < 0.3)
    found = partition_statistics(partition.part(), HIVE, list(COLUMNS))
    check(found, list(partition.rows.values()))


def test_only_stripes_with_deleted_rows_are_decoded(tmp_path) -> None:
    draw = random.Random(1)
    partition = Partition(tmp_path, draw)
    rows = [{**row, "number": n} for n, row in enumerate(rows_of(draw, 1000, nan=False))]
    rows = [{**row, "blob": draw.randbytes(2000)} for row in rows]
    ids = [(1, BUCKET, n) for n in range(1000)]
    file = flat_file(
        enveloped(flat_file(arrow(rows)), ids), codec="none", stride=100, stripe_size=100_000
    )
    stripes = len(OrcTail.read(file).stripes)
    assert stripes > 2
    partition.put("delta_0000001_0000001_0000/bucket_00000", file.getvalue())
    partition.write_id, partition.rows = 1, dict(zip(ids, rows, strict=True))
    partition.delete(at=999)
    found = partition_statistics(partition.part(), HIVE, ["number"])
    assert (found.rows, found.stripes, found.decoded) == (999, stripes, 1)
    assert (found.columns["number"].low, found.columns["number"].high) == (0, 998)
    counted = partition_statistics(partition.part(), HIVE, [])
    assert (counted.rows, counted.decoded, counted.columns) == (999, 1, {})


def test_days_of_the_old_calendar_are_those_that_readers_show(tmp_path) -> None:
    partition = Partition(tmp_path, random.Random(5))
    partition.write_id = 1
    days = pa.table({"a": pa.array([date(1, 1, 1), date(1500, 3, 1)], pa.date32())})
    file = flat_file(enveloped(flat_file(days), [(1, BUCKET, 0), (1, BUCKET, 1)]))
    assert OrcTail.read(file).is_julian
    partition.put("delta_0000001_0000001_0000/bucket_00000", file.getvalue())
    columns = [HiveColumn("a", "date")]
    found = partition_statistics(partition.part(columns), columns, ["a"])
    # Day -719162 of that calendar is 0001-01-03 of today's, as Hive shows it.
    assert (found.columns["a"].low, found.decoded) == (-719160, 1)


def test_a_column_that_was_added_later_is_null_in_older_files(tmp_path) -> None:
    partition = Partition(tmp_path, random.Random(2))
    partition.write_id = 1
    file = enveloped(
        flat_file(pa.table({"a": pa.array([1, 2], pa.int32())})), [(1, BUCKET, 0), (1, BUCKET, 1)]
    )
    partition.put("delta_0000001_0000001_0000/bucket_00000", flat_file(file).getvalue())
    columns = [HiveColumn("a", "bigint"), HiveColumn("b", "string")]
    found = partition_statistics(partition.part(columns), columns, ["a", "b"])
    assert (found.columns["a"].low, found.columns["a"].high) == (1, 2)
    assert (found.columns["b"].values, found.columns["b"].nulls) == (0, 2)


@pytest.mark.parametrize(
    ("columns", "wanted", "why"),
    [
        (
            [HiveColumn("a", "tinyint"), HiveColumn("b", "int")],
            ["a"],
            "invalid for its type tinyint",
        ),
        ([HiveColumn("a", "date"), HiveColumn("b", "int")], ["a"], "was int32 and has become date"),
        (
            [HiveColumn("a", "array<int>"), HiveColumn("b", "int")],
            ["a"],
            "no statistics of this type",
        ),
    ],
    ids=["too narrow", "another type", "nested"],
)
def test_a_column_is_omitted_rather_than_guessed(tmp_path, columns, wanted, why) -> None:
    partition = Partition(tmp_path, random.Random(3))
    partition.write_id = 1
    rows = pa.table({"a": pa.array([1, 1000], pa.int32()), "b": pa.array([3, 4], pa.int32())})
    file = flat_file(enveloped(flat_file(rows), [(1, BUCKET, 0), (1, BUCKET, 1)]))
    partition.put("delta_0000001_0000001_0000/bucket_00000", file.getvalue())
    found = partition_statistics(partition.part(columns), columns, [*wanted, "b"])
    assert found.rows == 2
    assert all(why in found.omitted[name] for name in wanted)
    # The others are unchanged.
    assert ("b" in wanted) or (found.columns["b"].low, found.columns["b"].high) == (3, 4)


@pytest.mark.parametrize("format", [StorageFormat.ORC, StorageFormat.PARQUET])
def test_rows_without_row_ids_are_counted_as_well(tmp_path, format) -> None:
    draw = random.Random(4)
    partition = Partition(tmp_path, draw)
    rows = rows_of(draw, 500, nan=True)
    for write_id in (1, 2):
        folder = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000"
        folder.mkdir()
        if format is StorageFormat.ORC:
            (folder / "000000_0").write_bytes(of_today(flat_file(arrow(rows))).getvalue())
        else:
            parquet.write_table(arrow(rows), folder / "000000_0")
    partition.write_id = 2
    kind = {"kind": TableKind.INSERT_ONLY, "format": format}
    part = partition.part(**kind)
    if format is StorageFormat.PARQUET:
        # The writer of the file does not record its calendar.
        rows = [{**row, "day": None} for row in rows]
        wanted = [name for name in COLUMNS if name != "day"]
        found = partition_statistics(part, HIVE, wanted)
        assert found.rows == 1000
        assert found.columns["number"].nulls == 2 * sum(row["number"] is None for row in rows)
        return
    check(partition_statistics(part, HIVE, list(COLUMNS)), rows * 2)
    assert partition_statistics(part, HIVE, []).decoded == 0
