"""Hive loses rows if it compares texts by UTF-16 with bounds that are ordered by UTF-8."""

import io
from itertools import product

import pyarrow as pa
import pytest

from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import reliable_statistics
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.orc.values.column_bounds import ranges_of
from hiveacid.rules.schema import Primitive
from tests.orc.orc_tables import CODECS, flat_file, read, text_ranges
from tests.orc.rewritten import WAYS, acid, copied_as_it_is, same_places

WAVE, GRIN = "\uff5e", "\U0001f600"
LETTERS = ("a", "\ud7ff", "\ue000", WAVE, "\U00010000", GRIN)
TEXTS = [*LETTERS, *map("".join, product(LETTERS, repeat=2))]
# Row groups of 100 rows.
ROWS = [
    text
    for group in (["a", GRIN], [WAVE, GRIN], ["a", "b" + GRIN, "c"], [WAVE, None], ["a", "b"])
    for text in (group * 50)[:100]
]


def statistics(low: str, high: str) -> bytes:
    texts = Message().add_data(1, low.encode()).add_data(2, high.encode()).add_signed(3, 9)
    return Message().add_number(1, 5).add_data(4, texts.encode()).encode()


def units(text: str) -> bytes:
    """The order of Java's texts."""
    return text.encode("utf-16-be")


def misleads(low: str, high: str) -> bool:
    """Whether Java takes a text for lower or higher than all texts of a range that includes it."""
    return any(
        (units(text) < units(low) and text >= low) or (units(text) > units(high) and text <= high)
        for text in TEXTS
    )


def test_a_range_is_left_out_if_and_only_if_it_misleads():
    kept = set()
    for low, high in product(TEXTS, TEXTS):
        if low > high:
            continue
        found = reliable_statistics(statistics(low, high))
        is_kept = found == statistics(low, high)
        assert is_kept == (not misleads(low, high)), (low, high)
        assert is_kept or Message.decode(found).encode() == Message().add_number(1, 5).encode()
        kept.add(is_kept)
    assert kept == {True, False}


def test_bounds_of_texts_that_were_cut_are_bounds_too():
    def cut(low: str, high: str) -> bytes:
        texts = Message().add_signed(3, 9).add_data(4, low.encode()).add_data(5, high.encode())
        return Message().add_number(1, 5).add_data(4, texts.encode()).encode()

    assert reliable_statistics(cut("a", "b")) == cut("a", "b")
    assert reliable_statistics(cut("a", GRIN)) != cut("a", GRIN)
    assert reliable_statistics(cut(WAVE, WAVE)) != cut(WAVE, WAVE)


def rows() -> pa.Table:
    nested = [text and [text] for text in ROWS]
    return pa.table({"text": ROWS, "number": range(len(ROWS)), "nested": nested})


def flat(codec: str) -> io.BytesIO:
    return flat_file(rows(), codec, stride=100)


def misled(file: io.BytesIO) -> list[tuple[bytes, bytes]]:
    return [range_ for range_ in text_ranges(file) if misleads(*map(bytes.decode, range_))]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", WAYS)
def test_no_statistics_that_we_write_or_copy_mislead(write, codec):
    assert misled(flat(codec))
    file = write(flat(codec))
    assert misled(file) == []
    # The last row group.
    assert (b"a", b"b") in set(text_ranges(file))


@pytest.mark.parametrize("codec", CODECS)
def test_copies_hold_the_same_rows_at_the_same_places(codec):
    source, file = flat(codec), copied_as_it_is(flat(codec))
    assert read(file).to_pylist() == rows().to_pylist()
    assert same_places(source, file)
    assert verify_file(acid(source), kind="insert", bucket=0) == []


def test_stripes_without_a_range_are_never_skipped():
    text = Primitive("string")
    other, ours = OrcTail.read(flat("zlib")), OrcTail.read(copied_as_it_is(flat("zlib")))
    # This package compares bytes, and may trust the range of the other writer.
    (range_,) = ranges_of(other, "text", text)
    assert range_ is not None
    assert (range_.low, range_.high) == (b"a", GRIN.encode())
    assert ranges_of(ours, "text", text) == [None]
