import io
import subprocess
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import CorruptFile
from hiveacid.orc.copying import assemble as assemble_module
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.format.tail import WRITER_JAVA, FooterField, OrcTail
from hiveacid.orc.row_keys import key_stream
from hiveacid.orc.row_keys.key_stream import merge_keys, read_deletes, read_keys
from hiveacid.orc.row_keys.keys import Keys
from tests.samples import examples

TABLES = Path(__file__).parents[1] / "data" / "tables"
NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(1 << 31), (1 << 31) - 1))
EVENTS = st.lists(
    st.tuples(NUMBERS, st.sampled_from([-5, 536870912, 536870913]), NUMBERS, st.integers(1, 6)),
    max_size=40,
)


def keys_of(events) -> Keys:
    columns = np.array(events, dtype=np.int64).reshape(len(events), 4).T
    return Keys(np.full(len(events), 2), *columns)


def events_of(keys: Keys) -> list[tuple[int, ...]]:
    assert set(keys.operations.tolist()) <= {2}
    columns = (*keys.row_ids(), keys.current_write_ids)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def stream(events, rows: int):
    """Events in the order of a file: by row id, the later event of a row may come first."""
    ordered = sorted(events, key=lambda event: (event[:3], -event[3]))
    return (keys_of(ordered[start : start + rows]) for start in range(0, len(ordered), rows))


def acid_file(events, stripe_size: int = 64 << 20, spell=str) -> io.BytesIO:
    keys = keys_of(events)
    columns = {
        "operation": pa.array(keys.operations, pa.int32()),
        "originalTransaction": pa.array(keys.original_write_ids, pa.int64()),
        "bucket": pa.array(keys.buckets, pa.int32()),
        "rowId": pa.array(keys.rows, pa.int64()),
        "currentTransaction": pa.array(keys.current_write_ids, pa.int64()),
        "row": pa.nulls(len(events), pa.struct({"a": pa.int32()})),
    }
    file = io.BytesIO()
    rows = pa.table({spell(name): column for name, column in columns.items()})
    orc.write_table(rows, file, stripe_size=stripe_size, batch_size=100)
    return file


@pytest.mark.thorough
@given(
    files=st.lists(EVENTS, max_size=4),
    rows=st.integers(1, 9),
    aborted=st.lists(st.integers(1, 6), max_size=2),
)
@examples(300)
def test_files_merge_into_the_first_valid_event_of_each_row(files, rows, aborted):
    merged = list(merge_keys([stream(events, rows) for events in files], aborted))
    valid = sorted({event for events in files for event in events if event[3] not in aborted})
    expected = [next(group) for _, group in groupby(valid, key=lambda event: event[:3])]
    assert [event for keys in merged for event in events_of(keys)] == expected
    assert all(len(keys) for keys in merged)


def test_merging_holds_one_piece_of_each_file():
    taken = [0, 0]

    def counted(number: int, first: int):
        for start in range(first, 10_000, 200):
            taken[number] += 1
            yield keys_of([(1, 0, row, 9) for row in range(start, start + 200, 2)])

    rows = 0
    for keys in merge_keys([counted(0, 0), counted(1, 1)]):
        rows += len(keys)
        assert max(taken) * 100 - rows / 2 <= 300
    assert rows == 10_000


@pytest.mark.parametrize(
    "pieces",
    [
        [[(1, 0, 5, 9), (1, 0, 4, 9)]],
        [[(2, 0, 0, 9)], [(1, 0, 9, 9)]],
        [[(1, 3, 0, 9), (1, 2, 0, 9)]],
    ],
)
def test_events_out_of_order_are_refused(pieces):
    with pytest.raises(CorruptFile, match=r"RowId\(.*\) comes after RowId"):
        list(merge_keys([map(keys_of, pieces)]))


@given(events=EVENTS, rows=st.integers(1, 9), spell=st.sampled_from([str, str.lower]))
@examples(30)
def test_a_file_comes_in_pieces_of_its_rows(events, rows, spell):
    file = acid_file(events, spell=spell)
    pieces = list(read_keys(file, OrcTail.read(file), rows=rows))
    assert [event for keys in pieces for event in events_of(keys)] == events
    assert all(0 < len(keys) <= rows for keys in pieces)


def test_all_stripes_are_read():
    events = [(1, 0, row, 2) for row in range(5000)]
    file = acid_file(events, stripe_size=1024)
    tail = OrcTail.read(file)
    assert len(tail.stripes) > 1
    assert sum(len(keys) for keys in read_keys(file, tail)) == 5000


def test_however_many_files_of_deletes_are_read_together():
    events = [(1, 0, row, 2) for row in range(3000)]
    files = [acid_file(events[number::40]) for number in range(40)]
    merged = read_deletes([(file, OrcTail.read(file)) for file in files])
    assert [event for keys in merged for event in events_of(keys)] == events


def test_small_files_of_deletes_are_sorted_at_once():
    events = [(write_id, 0, 0, 999) for write_id in range(1, 301)]
    files = [acid_file([event]) for event in (*events, *events[::7])]
    batches = list(read_deletes([(file, OrcTail.read(file)) for file in files]))
    # A merge of all files would return each event by itself, after a comparison of all files.
    assert len(batches) <= 2
    assert [event for keys in batches for event in events_of(keys)] == events


def test_small_files_of_hive_are_refused_if_they_are_out_of_order():
    file = acid_file([(2, 0, 0, 9), (1, 0, 0, 9)])
    tail = OrcTail.read(file)
    by_hive = replace(tail, footer=tail.footer.with_numbers({FooterField.WRITER: WRITER_JAVA}))
    with pytest.raises(CorruptFile, match="comes after"):
        list(read_deletes([(file, by_hive)]))


def test_inserts_among_the_deletes_are_refused():
    keys = keys_of([(1, 0, 1, 9)])
    insert = replace(keys, operations=np.array([0]))
    with pytest.raises(CorruptFile, match="other rows than deletes"):
        list(merge_keys([iter([keys]), iter([insert])]))


def test_a_damaged_file_is_refused():
    file = acid_file([(1, 0, row * row % 77, 2) for row in range(1000)])
    tail = OrcTail.read(file)
    stripe = tail.stripes[0]
    file.seek(stripe.offset + stripe.index_length)
    file.write(b"\xff" * stripe.data_length)
    with pytest.raises(CorruptFile, match="cannot read"):
        list(read_keys(file, tail))


_MEASURE = """
import sys
from hiveacid.orc.copying import assemble as assemble_module
from hiveacid.orc.row_keys import key_stream
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.row_keys.key_stream import merge_keys, read_keys
from hiveacid.orc.format.tail import WRITER_JAVA, FooterField, OrcTail
from tests.memory import peak_megabytes

def rows(path):
    with open(path, "rb") as file:
        return sum(map(len, merge_keys([read_keys(file, OrcTail.read(file))])))

few = rows(sys.argv[1])
before = peak_megabytes()
print(few, rows(sys.argv[2]), peak_megabytes() - before)
"""


@pytest.mark.thorough
def test_a_large_stripe_is_not_held_in_memory(tmp_path):
    for name, count in (("few", 1000), ("many", 4_000_000)):
        rows = np.arange(count)
        same = np.ones(count, dtype=np.int64)
        columns = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
        values = (same * 2, same, same, rows, same)
        table = pa.table(dict(zip(columns, values, strict=True))).append_column(
            "row", pa.nulls(count, pa.struct({"a": pa.int32()}))
        )
        orc.write_table(table, tmp_path / name)
    with (tmp_path / "many").open("rb") as file:
        assert len(OrcTail.read(file).stripes) == 1
    answer = subprocess.run(
        [sys.executable, "-c", _MEASURE, tmp_path / "few", tmp_path / "many"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    few, many, megabytes = map(int, answer.stdout.split())
    assert (few, many) == (1000, 4_000_000)
    # Decoded at once they would take 160 MB; how the allocator rounds depends on the machine.
    assert megabytes < 80


@pytest.fixture
def by_trino(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Return a file of deletes with stripes of Trino, in the order in which it reads the files of a
    table."""
    # We never write such a file.
    monkeypatch.setattr(assemble_module, "_check_order", lambda _: None)
    parts = []
    for write_id in (4, 2):
        name = f"trino_crud/delete_delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000"
        source = io.BytesIO((TABLES / name).read_bytes())
        parts.append(Part(source, OrcTail.read(source)))
    unsorted = io.BytesIO()
    assemble_module.assemble(parts, unsorted)
    return unsorted


def test_deletes_that_trino_has_not_sorted_are_sorted(by_trino: io.BytesIO) -> None:
    tail = OrcTail.read(by_trino)
    events = [event for keys in read_keys(by_trino, tail) for event in events_of(keys)]
    assert events != sorted(events)
    read = [event for keys in read_deletes([(by_trino, tail)]) for event in events_of(keys)]
    assert read == sorted(events)


def test_more_of_them_than_fit_into_memory_are_refused(
    by_trino: io.BytesIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = OrcTail.read(by_trino)
    monkeypatch.setattr(key_stream, "MOST_SORTED", tail.rows - 1)
    with pytest.raises(CorruptFile, match="comes after") as refused:
        list(read_deletes([(by_trino, tail)]))
    assert "overwrite the partition" in refused.value.remedy
    monkeypatch.setattr(key_stream, "MOST_SORTED", tail.rows)
    with pytest.raises(CorruptFile, match="comes after"):
        list(read_deletes([(by_trino, tail), (by_trino, tail)]))
