import io
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import OutOfOrder, UnsupportedFile
from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.statistics import count_statistics
from hiveacid.orc.format.tail import FooterField, OrcTail, PostScriptField
from hiveacid.orc.row_keys.delete_file import write_delete_file, write_empty_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.row_id import encode_bucket
from tests.orc.bucket_files import table
from tests.orc.orc_tables import CODECS, flat_file, read, row_ids, with_tail
from tests.samples import examples

BUCKET = encode_bucket(0)
ROW_TYPES = OrcTail.read(flat_file(table(0))).types


def insert(rows: pa.Table, write_id: int, **layout) -> io.BytesIO:
    sink = io.BytesIO()
    transplant([flat_file(rows, **layout)], sink, write_id=write_id, bucket=BUCKET)
    return sink


def delete(rows, write_id: int, original: int = 1) -> io.BytesIO:
    sink, rows = io.BytesIO(), np.array(rows)
    originals, buckets = np.full(len(rows), original), np.full(len(rows), BUCKET)
    write_delete_file(
        sink, [Keys.deletes(originals, buckets, rows, write_id=write_id)], row_types=ROW_TYPES
    )
    return sink


def whole(files) -> list[Part]:
    return [Part(file, OrcTail.read(file)) for file in files]


def joined(files) -> io.BytesIO:
    sink = io.BytesIO()
    written = assemble(whole(files), sink)
    assert written.bytes == len(sink.getvalue())
    return sink


@pytest.mark.thorough
@given(
    sizes=st.lists(st.sampled_from([0, 1, 999, 2500]), min_size=1, max_size=4),
    codec=st.sampled_from(CODECS),
    block_sizes=st.tuples(*[st.sampled_from([64 << 10, 256 << 10])] * 4),
    stripe_size=st.sampled_from([64 << 10, 64 << 20]),
)
@examples(20)
def test_the_rows_of_all_files_follow_each_other(sizes, codec, block_sizes, stripe_size):
    tables = [table(size, seed) for seed, size in enumerate(sizes)]
    layouts = [
        {"codec": codec, "block_size": block, "stripe_size": stripe_size} for block in block_sizes
    ]
    flats = [flat_file(rows, **layout) for rows, layout in zip(tables, layouts, strict=False)]
    expected = pa.concat_tables([read(file) for file in flats]).combine_chunks()

    flat = joined(flats)
    assert read(flat).combine_chunks().equals(expected)
    assert OrcTail.read(flat).user_metadata == {}

    acid = joined(
        [
            insert(rows, n + 1, **layout)
            for n, (rows, layout) in enumerate(zip(tables, layouts, strict=False))
        ]
    )
    rows = read(acid).combine_chunks()
    assert pa.table(rows["row"].combine_chunks().flatten(), expected.schema).equals(expected)
    assert row_ids(rows) == [
        (n + 1, BUCKET, row) for n, size in enumerate(sizes) for row in range(size)
    ]
    assert verify_file(acid, kind="insert", bucket=0, write_ids=range(1, 5)) == []
    assert OrcTail.read(acid).block_size == max(block_sizes[: len(sizes)])


def test_joining_and_wrapping_can_be_done_in_either_order():
    tables = [table(700, 1), table(1300, 2)]
    wrapped = io.BytesIO()
    flat = joined([flat_file(rows) for rows in tables])
    transplant([flat], wrapped, write_id=0, bucket=BUCKET)
    parts = []
    for rows, first in zip(tables, (0, 700), strict=True):
        parts.append(io.BytesIO())
        transplant([flat_file(rows)], parts[-1], write_id=0, bucket=BUCKET, first_row=first)
    assert read(joined(parts)).equals(read(wrapped))
    assert OrcTail.read(joined(parts)).user_metadata == OrcTail.read(wrapped).user_metadata


def test_deletes_stay_deletes():
    acid = joined([delete([1, 5], 7), delete([6], 8), delete([0], 9, original=2)])
    assert row_ids(read(acid)) == [(1, BUCKET, 1), (1, BUCKET, 5), (1, BUCKET, 6), (2, BUCKET, 0)]
    assert verify_file(acid, kind="delete", bucket=0, write_ids=range(7, 10)) == []


def test_a_stripe_with_several_write_ids_is_looked_into():
    first, second = delete([5, 6], 7), delete([0, 1], 8, original=2)
    sink = io.BytesIO()
    write_delete_file(
        sink,
        [Keys.deletes(np.array([2, 3]), np.array([BUCKET] * 2), np.array([9, 0]), write_id=9)],
        row_types=ROW_TYPES,
    )
    acid = joined([first, second, sink])
    assert row_ids(read(acid))[-2:] == [(2, BUCKET, 9), (3, BUCKET, 0)]
    assert verify_file(acid, kind="delete") == []


def test_a_wrong_key_index_of_a_source_is_not_believed():
    source = insert(table(2000), 1)
    tail = OrcTail.read(source)
    tail.user_metadata["hive.acid.key.index"] = b"1,%d,7;" % BUCKET
    wrong = with_tail(source, tail)
    assert verify_file(wrong, kind="insert") != []
    assert verify_file(joined([wrong, insert(table(10), 2)]), kind="insert") == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (lambda: [insert(table(5), 2), insert(table(5), 1)], "come after"),
        (lambda: [insert(table(5), 1), insert(table(5), 1)], "come after"),
        (lambda: [delete([1, 2], 5), delete([2], 6)], "come after"),
    ],
)
def test_row_ids_that_do_not_ascend_are_refused(files, problem):
    with pytest.raises(OutOfOrder, match=problem):
        joined(files())


def test_nothing_makes_no_file():
    with pytest.raises(ValueError, match="no file"):
        assemble([], io.BytesIO())


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (lambda: insert(table(5), 2, codec="zstd"), "codec"),
        (lambda: insert(table(5), 2, stride=500), "row group size"),
        (lambda: insert(table(5, columns=("number",)), 2), "types"),
        (lambda: flat_file(table(5)), "types"),
    ],
)
def test_files_that_differ_in_what_stripes_rely_on_are_refused(other, difference):
    with pytest.raises(UnsupportedFile, match=f"File 2 .*{difference}"):
        joined([insert(table(5), 1), other()])


def test_files_without_statistics_are_looked_into():
    parts = [insert(table(2000, n), n + 1, stripe_size=64 << 10) for n in range(2)]
    blank = []
    for part in parts:
        tail = OrcTail.read(part)
        nothing = (count_statistics(0).encode(),) * len(tail.types)
        blank.append(
            with_tail(part, replace(tail, stripe_statistics=(nothing,) * len(tail.stripes)))
        )
    acid = joined(blank)
    for key, value in OrcTail.read(joined(parts)).user_metadata.items():
        assert OrcTail.read(acid).user_metadata[key] == value


def test_inserts_and_deletes_do_not_mix():
    flat = insert(table(5), 1, stride=10_000)
    with pytest.raises(UnsupportedFile, match="mix"):
        joined([flat, delete([1], 5, original=2)])


def written_by(writer: int, version: int, calendar: int | None = None) -> io.BytesIO:
    file = flat_file(pa.table({"moment": pa.array([datetime(1500, 1, 1)], pa.timestamp("us"))}))
    tail = OrcTail.read(file)
    tail.footer.fields[:] = tail.footer.with_numbers({FooterField.WRITER: writer}).fields
    if calendar is not None:
        changed = tail.footer.with_numbers({FooterField.CALENDAR: calendar})
        tail.footer.fields[:] = changed.fields
    tail.postscript.fields[:] = tail.postscript.with_numbers(
        {PostScriptField.WRITER_VERSION: version}
    ).fields
    return with_tail(file, tail)


def test_files_of_different_writers_are_declared_as_the_least_of_them():
    tail = OrcTail.read(joined([written_by(1, 6), written_by(0, 9)]))
    assert tail.footer.number(FooterField.WRITER) == 0
    assert tail.postscript.number(PostScriptField.WRITER_VERSION) == 6


def test_an_old_writer_does_not_mix_with_another():
    with pytest.raises(UnsupportedFile, match="writer"):
        joined([written_by(0, 4), written_by(0, 9)])
    joined([written_by(0, 4), written_by(0, 4)])


def test_calendars_do_not_mix_and_no_calendar_is_the_julian_one():
    with pytest.raises(UnsupportedFile, match="calendar"):
        joined([written_by(1, 6, calendar=1), written_by(1, 6, calendar=2)])
    joined([written_by(1, 6, calendar=0), written_by(1, 6, calendar=1)])


def test_empty_files_join_to_an_empty_one():
    empty = io.BytesIO()
    write_empty_file(empty, ROW_TYPES)
    acid = joined([empty, empty])
    assert read(acid).num_rows == 0
    assert verify_file(acid, kind="insert") == []


def test_local_files_are_joined_to_the_same_bytes(tmp_path):
    parts = [insert(table(3000, n), n + 1, stripe_size=64 << 10) for n in range(2)]
    for number, part in enumerate(parts):
        (tmp_path / str(number)).write_bytes(part.getvalue())
    with (
        open(tmp_path / "0", "rb") as one,
        open(tmp_path / "1", "rb") as two,
        open(tmp_path / "joined", "wb") as sink,
    ):
        assemble(whole([one, two]), sink)
    assert (tmp_path / "joined").read_bytes() == joined(parts).getvalue()
