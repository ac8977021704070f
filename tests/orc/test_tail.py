import io
from dataclasses import replace

import numpy as np
import pytest

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.protobuf import DATA, VARINT, Message
from hiveacid.orc.format.statistics import UNKNOWN
from hiveacid.orc.format.tail import FooterField, OrcTail, PostScriptField, row_types
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.schema import row_struct
from tests.orc.bucket_files import BUCKET
from tests.orc.orc_tables import CODECS, flat_file, read, table, with_tail, without_row_index


@pytest.mark.parametrize("codec", CODECS)
def test_a_tail_describes_the_file(codec):
    file = flat_file(
        table(2500, columns=["number", "text"]), codec, stride=700, block_size=128 << 10
    )
    tail = OrcTail.read(file)
    assert (tail.rows, tail.codec, tail.block_size) == (2500, Codec.named(codec), 128 << 10)
    assert (tail.stride, len(tail.types), tail.is_acid) == (700, 3, False)
    assert tail.user_metadata == {}
    assert [len(columns) for columns in tail.stripe_statistics] == [3] * len(tail.stripes)


def test_statistics_of_stripes_give_the_range_of_integers():
    rows = table(20_000, columns=["number", "text"])
    file = flat_file(rows, "none", stripe_size=64 << 10)
    tail = OrcTail.read(file)
    assert len(tail.stripes) > 1
    start = 0
    for number, stripe in enumerate(tail.stripes):
        values = [
            v for v in rows["number"][start : start + stripe.rows].to_pylist() if v is not None
        ]
        assert tail.int_range(number, 1) == (min(values), max(values))
        assert tail.int_range(number, 2) is None
        start += stripe.rows


@pytest.mark.parametrize("codec", CODECS)
def test_a_rewritten_tail_is_equal(codec):
    rows = table(3000)
    file = flat_file(rows, codec, bloom_filters=True)
    tail = OrcTail.read(file)
    changed = replace(tail, user_metadata={"a key": b"\x00\xff"})
    again = with_tail(file, changed)
    assert read(again).equals(read(file))
    found = OrcTail.read(again)
    assert found.user_metadata == {"a key": b"\x00\xff"}
    assert replace(
        found, user_metadata={}, postscript=tail.postscript, footer=tail.footer
    ) == replace(tail, stripes=found.stripes)
    assert [s.encode() for s in found.stripes] == [s.encode() for s in tail.stripes]


def test_fields_of_later_orc_releases_are_kept():
    file = flat_file(table(10))
    tail = OrcTail.read(file)
    tail.footer.fields.append((77, DATA, b"later"))
    tail.postscript.fields.append((78, VARINT, 4))
    tail.stripes[0].other.fields.append((79, VARINT, 5))
    found = OrcTail.read(with_tail(file, tail))
    assert found.footer.data(77) == b"later"
    assert found.postscript.number(78) == 4
    assert found.stripes[0].other.number(79) == 5


def test_a_post_script_does_not_outgrow_the_byte_that_tells_its_length():
    tail = OrcTail.read(flat_file(table(10), "none"))
    room = 255 - len(tail.postscript.encode())
    # The number of the field and the length of the value come first.
    full = with_tail(
        flat_file(table(10), "none"),
        replace(tail, postscript=tail.postscript.add_data(99, bytes(room - 4))),
    )
    tail = OrcTail.read(full)
    assert len(tail.postscript.encode()) == 255
    with pytest.raises(UnsupportedFile, match="no room"):
        replace(tail, user_metadata={"much": bytes(1 << 21)}).encode(3)


def test_a_tail_longer_than_the_first_request_is_read():
    file = flat_file(table(10))
    tail = replace(OrcTail.read(file), user_metadata={"long": bytes(range(256)) * 1000})
    tail.postscript.fields[:] = tail.postscript.with_numbers(
        {PostScriptField.COMPRESSION: 0}
    ).fields
    plain = replace(tail, compression=replace(tail.compression, codec=Codec.NONE))
    assert OrcTail.read(with_tail(file, plain)).user_metadata == tail.user_metadata


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"ORC", b"PAR1" * 50, bytes(200), b"\xff" * 200], ids=repr
)
def test_other_files_are_refused(content):
    with pytest.raises(CorruptFile):
        OrcTail.read(io.BytesIO(content))


def test_a_file_cut_at_its_start_or_end_is_refused():
    content = flat_file(table(100, columns=["number"])).getvalue()
    for length in range(1, len(content), 37):
        with pytest.raises((CorruptFile, UnsupportedFile)):
            OrcTail.read(io.BytesIO(content[:length]))
        with pytest.raises((CorruptFile, UnsupportedFile)):
            OrcTail.read(io.BytesIO(content[-length:]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda tail: tail.footer.add_data(10, b""), "encrypted"),
        (lambda tail: tail.postscript.fields.append((4, DATA, b"\x00\x0b")), "version"),
    ],
)
def test_stripes_that_cannot_be_moved_are_refused(change, problem):
    tail = OrcTail.read(flat_file(table(10)))
    change(tail)
    with pytest.raises(UnsupportedFile, match=problem):
        tail.check_movable()


def of_the_first_writer(tail: OrcTail) -> OrcTail:
    version = {PostScriptField.WRITER_VERSION: 0}
    return replace(tail, postscript=tail.postscript.with_numbers(version))


def encrypted(tail: OrcTail) -> OrcTail:
    hidden = Message(tail.footer.fields).add_data(FooterField.ENCRYPTION, b"")
    return replace(tail, footer=hidden)


@pytest.mark.parametrize(
    ("change", "known_stripes", "known_file"),
    [
        (lambda tail: replace(tail, stripe_statistics=()), False, True),
        (lambda tail: replace(tail, file_statistics=()), True, False),
        (
            lambda tail: replace(tail, stripe_statistics=(tail.stripe_statistics[0][:3],)),
            False,
            True,
        ),
        (of_the_first_writer, False, False),
        (encrypted, False, False),
    ],
    ids=["no stripes", "no file", "some columns", "old writer", "encrypted"],
)
def test_statistics_are_complete_or_unknown(change, known_stripes, known_file):
    file = flat_file(table(100))
    tail = OrcTail.read(file)
    unknown = (UNKNOWN,) * len(tail.types)
    found = OrcTail.read(with_tail(file, change(tail)))
    assert found.stripe_statistics == (tail.stripe_statistics if known_stripes else (unknown,))
    assert found.file_statistics == (tail.file_statistics if known_file else unknown)


def test_statistics_of_a_file_without_a_row_index_are_unknown_also_in_copies():
    flat = without_row_index(flat_file(table(100)))
    tail = OrcTail.read(flat)
    assert set(tail.file_statistics) == set(tail.stripe_statistics[0]) == {UNKNOWN}
    # The statistics of the key columns are those of the new rows.
    sink = io.BytesIO()
    transplant([flat], sink, write_id=1, bucket=BUCKET)
    copy = OrcTail.read(sink)
    row = EnvelopeColumn.ROW
    for columns in (copy.file_statistics, *copy.stripe_statistics):
        assert UNKNOWN not in columns[:row]
        assert set(columns[row:]) == {UNKNOWN}
    assert copy.int_range(0, EnvelopeColumn.ROW_ID) == (0, 99)


def test_statistics_of_deletes_are_known():
    sink = io.BytesIO()
    deletes = Keys.deletes(*np.array([[1], [BUCKET], [7]]), write_id=8)
    types = row_types(row_struct([("a", "int")]))
    write_delete_file(sink, [deletes], row_types=types)
    tail = OrcTail.read(sink)
    assert UNKNOWN not in (*tail.file_statistics, *tail.stripe_statistics[0])


def test_messages_of_a_tail_are_not_shared_between_reads():
    file = flat_file(table(10))
    OrcTail.read(file).footer.fields.clear()
    assert isinstance(OrcTail.read(file).footer, Message)
    assert OrcTail.read(file).footer.fields
