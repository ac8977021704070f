"""Filters of scans: they leave out what cannot match, and nothing else."""

import datetime as dt
import operator
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import INTEGERS
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import DataFile, list_files, read_state, read_tail
from hiveacid.tables.scan import orc_file
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.row_filter import RowFilter
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.table_scan import columns_of
from tests.engine.random_layouts import KEYS, TYPES, RandomTable, hive_table, visible_writes
from tests.samples import random_of_commit

SEED = random_of_commit().randrange(1 << 31)
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
COMPARED = ("int", "date", "string", "char", "decimal", "double", "float", "bool")


@pytest.mark.parametrize("part", range(4))
def test_a_filter_selects_the_rows_of_random_tables_that_match(part: int, tmp_path: Path) -> None:
    for number in range(part, 40, 4):
        check_filters(number, tmp_path / str(number))


def check_filters(number: int, folder: Path) -> None:
    random = Random(f"{SEED} {number}")
    folder.mkdir()
    table = RandomTable(SEED, number, folder / "t")
    hive = hive_table(table)
    wanted, _ = columns_of(hive, None, "us")
    parts = [*parts_of(table)]
    for part in parts:
        try:
            rows = read(part, wanted)
        except UnsupportedFile:
            continue  # Only Spark converts some of its columns.
        for _ in range(8):
            condition = expression(random, table.columns | table.keys)
            chosen = RowFilter.of(condition, hive.columns, hive.partition_keys, "us")
            (may_match,) = chosen.partitions([part.values])
            found = read(part, wanted, chosen) if may_match else rows.slice(0, 0)
            expected = rows.filter(condition)
            assert [*map(str, found.to_pylist())] == [*map(str, expected.to_pylist())], condition


def test_large_files_are_read_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base_0000001").mkdir()
    rows = pa.table({"id": pa.array(range(20_000), pa.int64())})
    key = [
        pa.array([value] * 20_000, kind) for value, kind in ((1, pa.int64()), (1 << 29, pa.int32()))
    ]
    envelope = pa.Table.from_arrays(
        [pa.array([0] * 20_000, pa.int32()), *key, rows["id"], key[0], rows.to_struct_array()],
        ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"],
    )
    path = tmp_path / "base_0000001" / "bucket_00000"
    orc.write_table(envelope, path, stripe_size=1, batch_size=1000, compression="uncompressed")
    monkeypatch.setattr(orc_file, "_SHARE_BYTES", path.stat().st_size // 7)
    storage = Storage.of(f"file:{tmp_path}")
    seen = ValidWriteIdList("d.t", 1)
    state = read_state(storage, list_files(storage, None), seen, None, rules=Rules.HIVE4)
    hive = HiveTable.new(TableRef("d", "t"), [HiveColumn("id", "bigint")], location="file:/t")
    part = TablePart.of(
        hive, {}, StorageFormat.ORC, storage, state, seen, Rules.HIVE4, clustered=False
    )
    wanted, _ = columns_of(hive, None, "us")
    for needs_ids in (True, False):
        readers = part.readers(wanted, needs_ids=needs_ids)
        assert len(readers) == 7
        found = [pa.Table.from_batches([b for _, b in read()], wanted.schema) for read in readers]
        assert pa.concat_tables(found)["id"].to_pylist() == [*range(20_000)]
        assert sum(map(bool, map(len, found))) > 1


@pytest.mark.parametrize("bounds", [b"", b"\x08\x02", b"\x10\x02"], ids=["no", "low", "high"])
def test_statistics_without_both_bounds_do_not_prove_that_rows_are_visible(
    bounds: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": pa.array([7, 8], pa.int64())})
    one, numbers = pa.array([1, 1], pa.int64()), pa.array([0, 1], pa.int64())
    columns = [one.cast(pa.int32()), one, one.cast(pa.int32()), numbers, one]
    names = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    envelope = pa.Table.from_arrays([*columns, rows.to_struct_array()], names)
    orc.write_table(envelope, tmp_path / "bucket_00000")
    storage = Storage.of(f"file:{tmp_path}")
    (status,) = storage.list_files()
    file = DataFile(status.path, status.size, None, 0)
    seen = ValidWriteIdList("d.t", 1)
    proven = OrcFile(storage, file).without_ids(["id"], seen)
    assert proven is not None
    assert [batch["id"].to_pylist() for batch in proven] == [[7, 8]]
    tail = read_tail(storage, file.path, file.size)
    known = Message.decode(tail.file_statistics[EnvelopeColumn.CURRENT_TRANSACTION])
    other = known.without(INTEGERS).add_data(INTEGERS, bounds).encode()
    statistics = (*tail.file_statistics[:5], other, *tail.file_statistics[6:])
    monkeypatch.setattr(orc_file, "read_tail", lambda *_: replace(tail, file_statistics=statistics))
    assert OrcFile(storage, file).without_ids(["id"], seen) is None


def parts_of(table: RandomTable) -> Iterator[TablePart]:
    hive, write_ids = hive_table(table), visible_writes(table)
    for at, texts in enumerate(table.partitions):
        storage = Storage.of(f"file:{table.folder / f'p{at}' if table.keys else table.folder}")
        txns = ValidTxnList(high_watermark=1_000_000)
        state = read_state(storage, list_files(storage, None), write_ids, txns, rules=Rules.HIVE4)
        yield TablePart.of(
            hive,
            dict(zip(table.keys, texts, strict=True)),
            StorageFormat.ORC,
            storage,
            state,
            write_ids,
            Rules.HIVE4,
            clustered=table.clustered,
        )


def read(part: TablePart, wanted: TableColumns, chosen: RowFilter | None = None) -> pa.Table:
    batches = [batch for _, batch in part.rows(wanted, chosen, needs_ids=chosen is None)]
    rows = pa.Table.from_batches(batches, wanted.schema)
    return rows if chosen is None else rows.filter(chosen.condition)


def expression(random: Random, types: dict[str, str], depth: int = 2) -> Any:
    """Make an expression about some columns."""
    if depth and random.random() < 0.6:
        left, right = (expression(random, types, depth - 1) for _ in range(2))
        return random.choice([left & right, left | right, ~left])
    name = random.choice([*types])
    hive_type, field = types[name], pc.field(name)
    if not any(kind in hive_type for kind in COMPARED) or "<" in hive_type:
        return random.choice([field.is_null(), field.is_valid()])
    kind, values = TYPES[hive_type]
    given = [v for v in (*values, *KEYS.get(hive_type, {}).values()) if v is not None]
    if isinstance(given[0], dt.date):
        given.append(dt.date(1, 1, 3))
    some = [pa.scalar(value, kind) for value in random.sample(given, min(3, len(given)))]
    return random.choice(
        [
            *(compare(field, some[0]) for compare in COMPARISONS),
            pc.is_in(field, value_set=pa.array([each.as_py() for each in some], kind)),
            field.is_null(),
        ]
    )
