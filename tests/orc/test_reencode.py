import errno
import gc
import io
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import DataError, OutOfOrder
from hiveacid.orc.copying.reencode import reencode
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import FooterField, OrcTail
from hiveacid.orc.row_keys.verify import verify_file
from tests.memory import peak_megabytes
from tests.orc.bucket_files import BUCKET, compact, inserts, planned, survivors, table
from tests.orc.orc_tables import CODECS, read, row_ids, with_block_size, with_tail
from tests.samples import examples


def layout_of(file: io.BytesIO) -> Layout:
    tail = OrcTail.read(file)
    return Layout.joint([("file", tail)], like=tail)


@pytest.mark.thorough
@given(st.data())
@examples(40)
def test_the_remaining_rows_are_neither_deleted_nor_aborted(data):
    files = []
    for number in range(data.draw(st.integers(1, 4))):
        rows = table(data.draw(st.sampled_from([1, 700, 2500])), number)
        first = number * 10 + 1
        sizes = data.draw(st.lists(st.integers(0, rows.num_rows // 3), max_size=3))
        layout = {
            "codec": data.draw(st.sampled_from(CODECS)),
            "stride": data.draw(st.sampled_from([500, 1000])),
            "block_size": data.draw(st.sampled_from([64 << 10, 256 << 10])),
            "stripe_size": data.draw(st.sampled_from([64 << 10, 64 << 20])),
        }
        exact = not sizes
        file = inserts(rows, range(first, first + len(sizes) + 1), sizes, **layout)
        files.append(planned(file, f"file {number}", exact))
    ids = [row_id for file in files for row_id in row_ids(read(file.source))]
    deleted = data.draw(st.lists(st.sampled_from(ids), max_size=20))
    deleted += [(9, BUCKET, 10**6), (11, BUCKET + 1, 0)]
    shared = [write_id for write_id, _, _ in ids if write_id % 10 > 1]
    aborted = data.draw(st.lists(st.sampled_from(shared), max_size=1)) if shared else []
    plan, found = compact(
        [pickle.loads(pickle.dumps(file)) for file in files],
        deleted,
        aborted,
        tiny_bytes=data.draw(st.sampled_from([0, 30 << 10])),
        group_bytes=data.draw(st.sampled_from([1, 100 << 10])),
    )
    places = [place for group in plan.groups for place in group.stripes]
    remaining = []
    for number, file in enumerate(files):
        rows = iter(row_ids(read(file.source)))
        for stripe, content in enumerate(file.tail.stripes):
            # Stripes are omitted only if all their rows are deleted.
            if (number, stripe) in places or not set(islice(rows, content.rows)) <= set(deleted):
                remaining.append((number, stripe))
    assert places == remaining
    assert read(found).combine_chunks().equals(survivors(files, deleted, aborted))
    assert verify_file(found, kind="insert", bucket=0, write_ids=range(1, 40)) == []


@pytest.mark.parametrize("codec", ["zlib", "lz4"])
@pytest.mark.parametrize(
    "deleted",
    [
        range(5),
        range(2490, 2500),
        [0, 1200, 2499],
        range(0, 2500, 500),
        range(0, 2500, 2),
        [n for n in range(2500) if n != 1700],
    ],
    ids=["first", "last", "both ends", "some", "every second", "all but one"],
)
def test_the_rows_between_deleted_ones_are_kept(codec, deleted):
    files = [planned(inserts(table(2500, 7), [1], codec=codec))]
    gone = [(1, BUCKET, row) for row in deleted]
    _, found = compact(files, gone)
    assert read(found).combine_chunks().equals(survivors(files, gone))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stride", [1000, 0])
def test_new_stripes_join_those_of_any_layout(codec, stride):
    files = []
    for number in (1, 2, 3):
        file = inserts(table(700, number), [number], codec=codec)
        if stride == 0:
            file = with_tail(file, replace(OrcTail.read(file), stride=0))
        files.append(planned(file))
    deleted = [(1, BUCKET, 3), (3, BUCKET, 600)]
    plan, found = compact(files, deleted, tiny_bytes=0)
    assert [group.copy for group in plan.groups] == [False, True, False]
    tail = OrcTail.read(found)
    assert (tail.codec, tail.stride) == (Codec.named(codec), stride)
    assert read(found).combine_chunks().equals(survivors(files, deleted))
    assert verify_file(found, kind="insert", bucket=0) == []


def test_blocks_of_new_stripes_are_no_larger_than_usual_for_any_old_ones():
    file = inserts(table(700), [1], codec="zstd")
    tail = with_block_size(OrcTail.read(file), 2 << 20)
    layout, sink = Layout.joint([("file", tail)], like=tail), io.BytesIO()
    reencode([(file, tail, [0])], sink, layout=layout, deletes=[], aborted_ids=[])
    assert (layout.block_size, OrcTail.read(sink).block_size) == (2 << 20, 256 << 10)


def test_nothing_left_is_a_lawful_file_without_rows():
    files = [planned(inserts(table(700), [1]))]
    plan, found = compact(files, [(1, BUCKET, row) for row in range(700)])
    assert plan.groups == ()
    assert OrcTail.read(found).stripes == ()
    assert read(found).num_rows == 0
    assert OrcTail.read(found).user_metadata["hive.acid.stats"] == b"0,0,0"
    assert verify_file(found, kind="insert", bucket=0) == []


def test_types_that_arrow_does_not_know_and_the_calendar_are_declared_as_before():
    file = inserts(table(900, columns=("text", "moment")), [1])
    tail = OrcTail.read(file)
    text = Message().add_number(TypeField.KIND, TypeKind.CHAR)
    text.add_number(TypeField.MAXIMUM_LENGTH, 9)
    changed = replace(
        tail,
        types=(*tail.types[:7], text.encode(), *tail.types[8:]),
        footer=tail.footer.with_numbers({FooterField.CALENDAR: 1}),
    )
    file = with_tail(file, changed)
    _, found = compact([planned(file)], [(1, BUCKET, 0)])
    declared = OrcTail.read(found)
    assert declared.types == changed.types
    assert declared.footer.number(FooterField.CALENDAR) == 1
    assert read(found).combine_chunks().equals(survivors([planned(file)], [(1, BUCKET, 0)]))


def test_times_before_and_after_1970_are_kept():
    timestamps = [
        datetime(1883, 11, 18, 12, 3, 58) + timedelta(days=1000 * k, seconds=k) for k in range(60)
    ]
    timestamps += [datetime(1970, 1, 1, microsecond=1), datetime(2024, 2, 29, microsecond=999_999)]
    file = inserts(pa.table({"moment": pa.array(timestamps, pa.timestamp("ns"))}), [1])
    _, found = compact([planned(file)], [(1, BUCKET, 0)])
    assert [row["moment"] for row in read(found)["row"].to_pylist()] == timestamps[1:]


def test_rows_out_of_order_are_not_rewritten():
    file = inserts(table(100, columns=("number",)), [1])
    rows = read(file)
    swapped = io.BytesIO()
    orc.write_table(rows.take([1, 0, *range(2, 100)]), swapped)
    places = [(swapped, OrcTail.read(swapped), [0])]
    with pytest.raises(OutOfOrder, match=r"row=0.* does not come after .*row=1"):
        reencode(places, io.BytesIO(), layout=layout_of(swapped), deletes=[], aborted_ids=[])


def test_a_full_disk_is_reported_with_its_number():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    file = inserts(table(2500), [1])
    places = [(file, OrcTail.read(file), [0])]
    with (
        open("/dev/full", "wb", buffering=0) as sink,
        pytest.raises(OSError, match="No space") as failure,
    ):
        reencode(places, sink, layout=layout_of(file), deletes=[], aborted_ids=[])
    assert failure.value.errno == errno.ENOSPC


def test_failing_writes_end_before_their_file_is_closed():
    """The library would end the process if it closed its file after us."""
    file = inserts(table(700), [1])
    # The second time, its rows do not come after themselves.
    places = [(file, OrcTail.read(file), [0])] * 2
    sink = io.BytesIO()
    with pytest.raises(OutOfOrder) as failure:
        reencode(places, sink, layout=layout_of(file), deletes=[], aborted_ids=[])
    written = sink.tell()
    # The remaining bytes of the writer go here.
    del failure
    gc.collect()
    assert sink.tell() == written


def test_a_damaged_stripe_is_an_error_or_decodes():
    sound = inserts(table(700), [1]).getvalue()
    layout = layout_of(io.BytesIO(sound))
    end = OrcTail.read(io.BytesIO(sound)).stripes[0].length
    random = np.random.default_rng(5)
    failures = 0
    for _ in range(60):
        damaged = bytearray(sound)
        damaged[random.integers(3, end)] ^= 1 << random.integers(8)
        file = io.BytesIO(damaged)
        try:
            places = [(file, OrcTail.read(file), [0])]
            reencode(places, io.BytesIO(), layout=layout, deletes=[], aborted_ids=[])
        except DataError:
            failures += 1
    assert failures > 0


@pytest.mark.thorough
def test_memory_is_bound_however_much_a_stripe_decodes_to(tmp_path):
    # A process of its own, because the most memory one ever had does not shrink again.
    code = f"from tests.orc.test_reencode import rewrite; rewrite({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    decoded, megabytes = map(int, done.stdout.split())
    assert decoded > 1 << 30
    assert megabytes < 900


def rewrite(folder: str) -> None:
    source, decoded = f"{folder}/source", 0
    with orc.ORCWriter(source, compression="snappy", compression_block_size=256 << 10) as writer:
        for first in range(0, 1_200_000, 40_000):
            row = [
                f"{n * 2654435761 % 2**32:08x}" + "abcdefghij" * 90
                for n in range(first, first + 40_000)
            ]
            numbers = pa.array(range(first, first + 40_000), pa.int64())
            same = pa.array([1] * 40_000, pa.int64())
            columns = {
                "operation": pa.array([0] * 40_000, pa.int32()),
                "originalTransaction": same,
                "bucket": pa.array([BUCKET] * 40_000, pa.int32()),
                "rowId": numbers,
                "currentTransaction": same,
                "row": pa.StructArray.from_arrays([pa.array(row)], ["text"]),
            }
            rows = pa.table(columns)
            decoded += rows.nbytes
            writer.write(rows)
    with open(source, "rb") as file, open(f"{folder}/sink", "wb") as sink:
        tail = OrcTail.read(file)
        assert len(tail.stripes) == 1
        done = reencode(
            [(file, tail, [0])], sink, layout=layout_of(file), deletes=[], aborted_ids=[]
        )
    assert done.values.rows == 1_200_000
    print(decoded, peak_megabytes())
