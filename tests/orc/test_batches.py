import io
import math
import os
import threading
import weakref
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import BeyondArrow, CorruptFile
from hiveacid.orc.format import batches
from hiveacid.orc.format.batches import FileOfStripes, read_batches
from hiveacid.orc.format.tail import OrcTail
from tests.orc.bucket_files import table
from tests.orc.orc_tables import CODECS, flat_file, read


def several_stripes(codec: str = "none") -> io.BytesIO:
    file = flat_file(table(4000, columns=("number", "text")), codec, stripe_size=16 << 10)
    assert len(OrcTail.read(file).stripes) > 2
    return file


def rows_of(file: io.BytesIO, **choice) -> pa.Table:
    batches = list(read_batches(file, OrcTail.read(file), **choice))
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("codec", CODECS)
def test_all_rows_come_in_their_order(codec):
    file = flat_file(table(2500), codec)
    assert rows_of(file, rows=100).combine_chunks().equals(read(file).combine_chunks())


@pytest.mark.parametrize("stripes", [[0], [1], [2], [0, 2], []])
def test_chosen_stripes_are_read_alone(stripes):
    file = several_stripes()
    tail = OrcTail.read(file)
    expected = [row for n in stripes for row in orc.ORCFile(file).read_stripe(n).to_pylist()]
    found = [row for batch in read_batches(file, tail, stripes) for row in batch.to_pylist()]
    assert found == expected
    assert OrcTail.read(FileOfStripes(file, tail, stripes)).rows == len(expected)


def test_batches_of_wide_rows_are_smaller():
    wide = flat_file(pa.table({"text": [f"{n}" + "x" * 100_000 for n in range(500)]}), stride=100)
    batches = list(read_batches(wide, OrcTail.read(wide)))
    assert sum(batch.num_rows for batch in batches) == 500
    assert max(batch.nbytes for batch in batches) < 8 << 20


def test_reading_may_stop_early():
    file = several_stripes()
    for _ in range(20):
        with closing(read_batches(file, OrcTail.read(file), rows=10)) as batches:
            assert next(batches).num_rows == 10
        assert rows_of(file).num_rows == 4000


@pytest.mark.thorough
@pytest.mark.parametrize("read", [list, next])
def test_no_thread_of_the_library_keeps_the_file_when_reading_has_ended(monkeypatch, read):
    # Such a thread would abort the process if the interpreter ended meanwhile.
    lent = []

    class Noted(batches._LentFile):
        def __init__(self, file):
            super().__init__(file)
            lent.append(weakref.ref(self))

    monkeypatch.setattr(batches, "_LentFile", Noted)
    file = several_stripes()
    tail = OrcTail.read(file)
    for _ in range(300):
        with closing(read_batches(file, tail, rows=1000)) as found:
            read(found)
        assert lent.pop()() is None


def test_a_file_that_fails_to_be_read_is_released_although_the_error_is_kept(monkeypatch):
    monkeypatch.setattr(batches, "_RELEASE_SECONDS", math.inf)

    class Broken(io.BytesIO):
        def read(self, size=-1):
            if threading.current_thread() is not threading.main_thread():
                raise OSError("The disk is broken.")
            return super().read(size)

    file = Broken(several_stripes().getvalue())
    with pytest.raises(CorruptFile, match="The disk is broken") as error:
        list(read_batches(file, OrcTail.read(file)))
    assert error.tb is not None


def test_a_union_is_left_to_others():
    values = [pa.array([1, 2]), pa.array(["a", "b"])]
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), values)
    with pytest.raises(BeyondArrow, match="union"):
        rows_of(flat_file(pa.table({"either": union})))


def test_a_file_that_ends_early_is_corrupt():
    file = several_stripes()
    tail = OrcTail.read(file)
    cut = io.BytesIO(file.getvalue()[: tail.stripes[1].offset + 100])
    assert sum(batch.num_rows for batch in read_batches(cut, tail, [0])) == tail.stripes[0].rows
    with pytest.raises(CorruptFile):
        list(read_batches(cut, tail, [1]))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(-1, 100)), max_size=10))
def test_a_view_is_a_file(reads):
    content = bytes(range(60))
    tail = OrcTail.read(flat_file(table(0)))
    view = FileOfStripes(io.BytesIO(content), tail, [])
    plain = io.BytesIO(view.read())
    for position, size in reads:
        assert view.seek(position) == plain.seek(position)
        assert view.read(size) == plain.read(size)
        assert view.tell() == plain.tell()
    assert view.seek(-1, os.SEEK_END) == plain.seek(-1, os.SEEK_END)
