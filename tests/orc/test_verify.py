import io
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import RowOperation, acid_metadata
from hiveacid.orc.format.statistics import count_statistics, integer_statistics
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file, write_empty_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.row_id import encode_bucket
from tests.orc.orc_tables import CODECS, flat_file, table, with_tail

BUCKET = encode_bucket(2)
ROW_TYPES = OrcTail.read(flat_file(table(0))).types


def insert(codec: str = "zlib", stripe_size: int = 64 << 10) -> io.BytesIO:
    parts = []
    for write_id, first_row in ((5, 0), (6, 9)):
        sink = io.BytesIO()
        rows = table(1250, seed=write_id, columns=["number", "place"])
        flat = flat_file(rows, codec, stride=700, stripe_size=stripe_size)
        transplant([flat], sink, write_id=write_id, bucket=BUCKET, first_row=first_row)
        parts.append(Part(sink, OrcTail.read(sink)))
    joined = io.BytesIO()
    assemble(parts, joined)
    return joined


def delete() -> io.BytesIO:
    sink, rows = io.BytesIO(), np.arange(2500) * 3
    same = np.ones(2500, dtype=int)
    write_delete_file(
        sink, [Keys.deletes(same, same * BUCKET, rows, write_id=8)], row_types=ROW_TYPES, stride=700
    )
    return sink


def handmade(
    write_ids=(1, 1, 1),
    buckets=(BUCKET,) * 3,
    rows=(0, 1, 2),
    operations=(0, 0, 0),
    current=None,
    names: Callable[[str], str] = str,
    row_is_null: bool = False,
) -> io.BytesIO:
    """A file that another engine may have written, with the right user metadata."""
    count = len(rows)
    file = io.BytesIO()
    columns = {
        "operation": pa.array(operations, pa.int32()),
        "originalTransaction": pa.array(write_ids, pa.int64()),
        "bucket": pa.array(buckets, pa.int32()),
        "rowId": pa.array(rows, pa.int64()),
        "currentTransaction": pa.array(current or write_ids, pa.int64()),
        "row": pa.array([None if row_is_null else {"a": 1}] * count, pa.struct({"a": pa.int32()})),
    }
    orc.write_table(pa.table({names(name): column for name, column in columns.items()}), file)
    tail = OrcTail.read(file)
    last = (write_ids[-1], buckets[-1], rows[-1])
    return with_tail(
        file,
        replace(tail, user_metadata=acid_metadata([last], RowOperation(operations[0] or 0), count)),
    )


def test_our_own_inserts_are_sound():
    for codec in CODECS:
        found = verify_file(insert(codec), kind="insert", bucket=2, write_ids=range(5, 7))
        assert found == []


def test_our_own_deletes_are_sound():
    assert verify_file(delete(), kind="delete", bucket=2, write_ids=range(8, 9)) == []


@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_an_empty_file_is_sound(kind):
    sink = io.BytesIO()
    write_empty_file(sink, ROW_TYPES)
    assert verify_file(sink, kind=kind, bucket=2, write_ids=range(1, 2)) == []


def test_a_sound_file_of_another_writer_is_sound():
    assert verify_file(handmade(), kind="insert", bucket=2, write_ids=range(1, 2)) == []


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (lambda: handmade(rows=(0, 2, 1)), "row=1) does not come after"),
        (lambda: handmade(rows=(0, 1, 1)), "row=1) does not come after"),
        (lambda: handmade(write_ids=(2, 1, 1)), "write_id=1"),
        (lambda: handmade(operations=(0, 2, 0)), "operations [2] instead of 0"),
        (lambda: handmade(operations=(2, 2, 2)), "operations [2] instead of 0"),
        (lambda: handmade(buckets=(encode_bucket(1),) * 3), "bucket 1, not to 2"),
        (lambda: handmade(buckets=(-1, -1, -1)), "unknown version"),
        (lambda: handmade(write_ids=(1, 1, 2)), "originalTransaction goes from 1 to 2"),
        (lambda: handmade(current=(1, 1, 3)), "currentTransaction goes from 1 to 3"),
        (lambda: handmade(rows=(0, None, 2)), "null"),
        (lambda: handmade(row_is_null=True), "0 of 3 rows are not null"),
        (lambda: handmade(names=str.lower), "originalTransaction is spelled originaltransaction"),
        (lambda: flat_file(table(3)), "not those of a full ACID table"),
        (lambda: io.BytesIO(b"nothing"), "not an ORC file"),
    ],
)
def test_rows_that_hive_would_misread_are_found(file, expected):
    problems = verify_file(file(), kind="insert", bucket=2, write_ids=range(1, 2))
    assert any(expected in problem for problem in problems), problems


def test_a_delete_with_a_row_is_found():
    file = handmade(operations=(2, 2, 2), current=(4, 4, 4))
    assert any("3 of 3 rows" in problem for problem in verify_file(file, kind="delete"))


def test_the_write_ids_of_deleted_rows_are_free():
    file = handmade(write_ids=(1, 2, 3), operations=(2,) * 3, current=(9,) * 3, row_is_null=True)
    assert verify_file(file, kind="delete", bucket=2, write_ids=range(9, 10)) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hive.acid.key.index", None, "lacks hive.acid.key.index"),
        ("hive.acid.key.index", b"6,%d,1308;" % BUCKET, "last row of each stripe"),
        ("hive.acid.key.index", b"nonsense;", "no key"),
        ("hive.acid.stats", None, "lacks hive.acid.stats"),
        ("hive.acid.stats", b"2499,0,0", "is 2499,0,0, the rows have 2500,0,0"),
        ("hive.acid.version", None, "lacks hive.acid.version"),
        ("hive.acid.version", b"1", "is 1, not 2"),
    ],
)
def test_wrong_user_metadata_is_found(key, value, expected):
    file = insert("none")
    tail = OrcTail.read(file)
    assert len(tail.stripes) > 1
    if value is None:
        del tail.user_metadata[key]
    else:
        tail.user_metadata[key] = value
    problems = verify_file(with_tail(file, tail), kind="insert")
    assert len(problems) == 1
    assert expected in problems[0]


@pytest.mark.parametrize("column", ["originalTransaction", "bucket", "rowId"])
@pytest.mark.parametrize("wrong", [integer_statistics(1, 0, 1, None), count_statistics(5)])
def test_statistics_that_hide_rows_are_found(column, wrong):
    number = {"originalTransaction": 2, "bucket": 3, "rowId": 4}[column]
    file = insert("none")
    tail = OrcTail.read(file)

    def with_wrong(columns):
        return (*columns[:number], wrong.encode(), *columns[number + 1 :])

    first, *others = tail.stripe_statistics
    stripe = replace(tail, stripe_statistics=(with_wrong(first), *others))
    problems = verify_file(with_tail(file, stripe), kind="insert")
    assert len(problems) == 1
    assert f"Stripe 0: The statistics of {column} are" in problems[0]

    whole = replace(tail, file_statistics=with_wrong(tail.file_statistics))
    problems = verify_file(with_tail(file, whole), kind="insert")
    assert len(problems) == 1
    assert f"The file's statistics of {column} are" in problems[0]


def test_a_row_index_that_hides_rows_is_found():
    file = insert("none", stripe_size=64 << 20)
    right = integer_statistics(700, 0, 699, 699 * 350).encode()
    wrong = integer_statistics(700, 0, 698, 699 * 350).encode()
    assert file.getvalue().count(right) == 1
    broken = io.BytesIO(file.getvalue().replace(right, wrong))
    problems = verify_file(broken, kind="insert")
    assert [problem for problem in problems if "row group 0" in problem and "rowId" in problem]


@pytest.mark.thorough
@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_file_is_a_problem_and_no_crash(codec):
    sound = insert(codec).getvalue()
    random = Random(7)
    for _ in range(200):
        damaged = bytearray(sound)
        damaged[random.randrange(len(sound))] ^= 1 << random.randrange(8)
        assert isinstance(verify_file(io.BytesIO(damaged), kind="insert"), list)
