import io
import pickle
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from hiveacid.errors import CorruptFile, OutOfOrder, UnsupportedFile
from hiveacid.orc.copying.stripe_plan import PlannedFile, StripePlan, plan_stripes
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import FooterField, OrcTail, PostScriptField
from tests.orc.bucket_files import BUCKET, compact, events, inserts, planned, survivors, table
from tests.orc.orc_tables import flat_file, read, with_tail, without_row_index


def several_stripes(write_id: int) -> PlannedFile:
    """A file of three stripes."""
    file = inserts(table(250, 1), [write_id], codec="none", stripe_size=64 << 10)
    assert [stripe.rows for stripe in OrcTail.read(file).stripes] == [100, 100, 50]
    return planned(file)


def plan(files, deleted=(), aborted=(), tiny_bytes=0, types=None, **limits) -> StripePlan:
    types = types or files[0].tail.types
    return plan_stripes(
        files, events(deleted, batch=2), aborted, types=types, tiny_bytes=tiny_bytes, **limits
    )


def fates(found: StripePlan) -> list[bool]:
    return [group.copy for group in found.groups for _ in group.stripes]


def changed(file: PlannedFile, **values) -> PlannedFile:
    tail = replace(file.tail, **values)
    return replace(file, source=with_tail(file.source, tail), tail=tail)


def unreadable(file: PlannedFile) -> PlannedFile:
    """The same tail and footers of stripes, but no rows."""
    content = bytearray(file.source.getvalue())
    for stripe in file.tail.stripes:
        content[stripe.offset : stripe.offset + stripe.body_length] = bytes(stripe.body_length)
    return replace(file, source=io.BytesIO(content))


def test_without_reason_everything_is_copied_in_one_group():
    files = [several_stripes(1), several_stripes(2)]
    (group,) = plan(files).groups
    assert group.copy
    assert group.stripes == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    assert group.rows == 500
    assert group.bytes == sum(each.length for file in files for each in file.tail.stripes)


@pytest.mark.parametrize(
    ("deleted", "copied"),
    [
        ([(1, BUCKET, 0)], [False, True, True]),
        ([(1, BUCKET, 99), (1, BUCKET, 200)], [False, True, False]),
        ([(1, BUCKET, 100)], [True, False, True]),
        ([(1, BUCKET, 249)], [True, True, False]),
        ([(0, BUCKET, 5), (1, BUCKET - 1, 5), (1, BUCKET, 250), (2, BUCKET, 0)], [True] * 3),
    ],
)
def test_a_stripe_with_a_deleted_row_is_found_without_reading_it(deleted, copied):
    assert fates(plan([unreadable(several_stripes(1))], deleted)) == copied


def test_many_events_and_stripes_are_walked_through_side_by_side():
    files = [unreadable(several_stripes(number)) for number in range(1, 6)]
    deleted = [(number, BUCKET, row) for number in (2, 4) for row in range(100, 199)]
    found = plan(files, deleted)
    assert fates(found) == [True, True, True, True, False, True] * 2 + [True] * 3


def test_an_event_that_names_no_row_is_not_a_reason():
    rows = inserts(table(700), [1, 3], sizes=[350])
    assert fates(plan([planned(rows)], [(1, BUCKET, 350), (2, BUCKET, 1)])) == [True]
    assert fates(plan([planned(rows)], [(1, BUCKET, 350), (3, BUCKET, 349)])) == [False]


@pytest.mark.parametrize(("exact", "copied"), [(True, True), (False, False)])
def test_aborted_rows_are_looked_for_where_they_may_be(exact, copied):
    rows = inserts(table(700), [1, 2, 3], sizes=[300, 300])
    assert fates(plan([planned(rows, exact=exact)], aborted=[2])) == [copied]
    assert fates(plan([planned(rows, exact=exact)], aborted=[4])) == [True]


@pytest.mark.parametrize(
    ("deleted", "copied"),
    [
        # The third and the last stripe are small: one is alone, one is followed by another.
        ([], [True] * 6),
        ([(1, BUCKET, 100)], [True, False, False, True, True, True]),
        ([(1, BUCKET, 0)], [False, True, True, True, True, True]),
    ],
)
def test_a_tiny_stripe_joins_a_new_one_beside_it(deleted, copied):
    files = [several_stripes(1), several_stripes(2)]
    sizes = [stripe.length for stripe in files[0].tail.stripes]
    assert fates(plan(files, deleted, tiny_bytes=sizes[2] + 1)) == copied


def test_tiny_stripes_beside_each_other_are_put_together():
    files = [planned(inserts(table(10), [number])) for number in (1, 2, 3, 4)]
    (group,) = plan(files, tiny_bytes=1 << 20).groups
    assert not group.copy
    _, joined = compact(files)
    assert len(OrcTail.read(joined).stripes) == 1


@pytest.mark.parametrize(
    ("rows", "deleted", "copied"),
    [
        ([2000, 20], [], [True, True]),
        ([20, 2000], [], [True, True]),
        ([2000, 20, 20, 20], [], [True] * 4),
        ([2000, 20, 20, 20, 20], [], [True] + [False] * 4),
        ([20, 2000, 20, 20, 20, 20], [], [True, True] + [False] * 4),
        ([20, 20, 2000, 20, 20, 20, 20], [(1, BUCKET, 5)], [False, False, True] + [False] * 4),
        ([2000, 20], [(2, BUCKET, 5)], [True, False]),
        ([2000, 20], [(1, BUCKET, 5)], [False, False]),
        ([2000, 20, 20], [(2, BUCKET, 5)], [True, False, False]),
        ([200, 200, 200, 200], [], [False] * 4),
        ([400, 200, 200], [], [True] * 3),
    ],
)
def test_a_stripe_is_not_rewritten_for_few_or_much_smaller_ones(rows, deleted, copied):
    files = [planned(inserts(table(count), [number])) for number, count in enumerate(rows, 1)]
    assert fates(plan(files, deleted, tiny_bytes=1 << 20)) == copied


def test_few_new_rows_a_time_are_rewritten_seldom_and_leave_few_stripes():
    whole = planned(inserts(table(3000), [1]))
    rewritten = 0
    for write_id in range(2, 42):
        found, sink = compact([whole, planned(inserts(table(30), [write_id]))])
        rewritten += sum(group.rows for group in found.groups if not group.copy)
        whole = planned(sink)
    assert sum(stripe.rows for stripe in whole.tail.stripes) == 3000 + 40 * 30
    assert len(whole.tail.stripes) <= 6
    # A rewrite of the whole file each time would be 40 times 3,000 rows.
    assert rewritten < 40 * 3000 / 4


def test_rewritten_rows_are_split_into_stripes():
    files = [several_stripes(1), several_stripes(2)]
    deleted = [(number, BUCKET, row) for number in (1, 2) for row in (0, 100, 200)]
    largest = max(sum(stripe.length for stripe in file.tail.stripes[1:]) for file in files)
    found = plan(files, deleted, group_bytes=largest)
    assert [group.stripes for group in found.groups] == [
        ((0, 0),),
        ((0, 1), (0, 2)),
        ((1, 0),),
        ((1, 1), (1, 2)),
    ]


def test_the_layout_of_most_bytes_is_kept():
    small = planned(inserts(table(10), [1], codec="zlib"))
    large = planned(inserts(table(700), [2], codec="zstd", stride=500, block_size=128 << 10))
    other_stride = planned(inserts(table(10), [3], codec="zstd", stride=1000))
    same = planned(inserts(table(10), [4], codec="zstd", stride=500, block_size=256 << 10))
    found = plan([small, large, other_stride, same])
    assert fates(found) == [False, True, False, True]
    layout = found.layout
    assert (layout.codec, layout.stride, layout.block_size) == (Codec.ZSTD, 500, 256 << 10)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZLIB, Codec.SNAPPY, Codec.ZSTD])
def test_the_codec_that_the_table_states_replaces_all_others(codec):
    names = ("none", "zlib", "zstd")
    files = [planned(inserts(table(250, at), [at], codec=name)) for at, name in enumerate(names, 1)]
    files[0] = changed(
        files[0], postscript=files[0].tail.postscript.with_numbers({PostScriptField.BLOCK_SIZE: 0})
    )
    for some in (files, files[:1]):
        found, sink = compact(some, codec=codec, tiny_bytes=0)
        assert fates(found) == [file.tail.codec is codec for file in some]
        assert OrcTail.read(sink).codec is codec
        assert read(sink).equals(survivors(some))


def test_stripes_of_old_writers_are_written_again():
    file = planned(inserts(table(10), [1]))
    old = changed(
        file, postscript=file.tail.postscript.with_numbers({PostScriptField.WRITER_VERSION: 4})
    )
    assert fates(plan([old])) == [False]


def test_row_ids_that_do_not_ascend_over_files_are_refused():
    files = [planned(inserts(table(10), [2]), "second"), planned(inserts(table(10), [1]), "first")]
    with pytest.raises(OutOfOrder, match=r"write_id=1.* in first does not come after .*write_id=2"):
        plan(files)


def test_stripes_of_other_types_than_the_tables_are_written_again():
    files = [
        planned(inserts(table(10), [1]), "before"),
        planned(inserts(table(10, columns=("number",)), [2]), "after"),
    ]
    for number, file in enumerate(files):
        found = plan(files, types=file.tail.types)
        assert fates(found) == [number == 0, number == 1]
        assert found.layout.types == file.tail.types


def dates(write_id: int, calendar: int, first: date) -> PlannedFile:
    days = pa.table({"day": [first, date(2020, 1, 1), None]})
    file = planned(inserts(days, [write_id]), f"file {write_id}")
    return changed(file, footer=file.tail.footer.with_numbers({FooterField.CALENDAR: calendar}))


MODERN, ANCIENT = date(1582, 10, 15), date(1582, 10, 14)


def test_dates_without_statistics_may_be_before_1582():
    flat = without_row_index(flat_file(pa.table({"day": [MODERN]})))
    sink = io.BytesIO()
    transplant([flat], sink, write_id=2, bucket=BUCKET)
    unknown = planned(sink, "file 2")
    with pytest.raises(UnsupportedFile, match="file 1 and file 2 have dates before 1582"):
        plan([dates(1, 2, ANCIENT), unknown])


def test_dates_before_1582_of_two_calendars_do_not_mix():
    with pytest.raises(UnsupportedFile, match="file 1 and file 2 have dates before 1582"):
        plan([dates(1, 1, ANCIENT), dates(2, 2, ANCIENT)])


@pytest.mark.parametrize(
    ("one", "other", "declared"),
    [((1, MODERN), (2, MODERN), 1), ((1, MODERN), (2, ANCIENT), 2), ((1, ANCIENT), (2, MODERN), 1)],
)
def test_later_dates_are_the_same_in_any_calendar(one, other, declared):
    files = [dates(1, *one), dates(2, *other)]
    found, joined = compact(files, tiny_bytes=0)
    assert fates(found) == [True, True]
    assert found.layout.calendar == declared
    assert OrcTail.read(joined).footer.number(FooterField.CALENDAR) == declared


def text_type(kind: TypeKind, length: int = 0, name: bytes = b"text") -> PlannedFile:
    file = planned(inserts(table(10, columns=("text",)), [length + kind]))
    type_ = Message().add_number(TypeField.KIND, kind)
    if length:
        type_.add_number(TypeField.MAXIMUM_LENGTH, length)
    *envelope, row, _ = file.tail.types
    fields = [
        (field[0], field[1], name) if field[0] == TypeField.FIELD_NAMES else field
        for field in Message.decode(row).fields
    ]
    return changed(file, types=(*envelope, Message(fields).encode(), type_.encode()))


@pytest.mark.parametrize(
    ("of_file", "of_table", "copied"),
    [
        ((TypeKind.STRING,), (TypeKind.CHAR, 9), False),
        ((TypeKind.CHAR, 5), (TypeKind.CHAR, 9), False),
        ((TypeKind.CHAR, 9), (TypeKind.CHAR, 9), True),
        ((TypeKind.VARCHAR, 5), (TypeKind.VARCHAR, 9), True),
        ((TypeKind.CHAR, 9), (TypeKind.VARCHAR, 9), False),
        ((TypeKind.CHAR, 9), (TypeKind.STRING,), False),
        ((TypeKind.STRING, 0, b"TEXT"), (TypeKind.VARCHAR, 9, b"text"), True),
    ],
)
def test_texts_of_any_kind_are_of_one_type_but_for_blanks_behind_them(of_file, of_table, copied):
    wanted = text_type(*of_table).tail.types
    found = plan([text_type(*of_file)], types=wanted)
    assert fates(found) == [copied]
    assert found.layout.types == wanted


def test_a_plan_can_be_sent_to_another_process():
    found = plan([several_stripes(1)], [(1, BUCKET, 0)])
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_stripe_that_must_be_read_and_cannot_be_is_an_error():
    with pytest.raises(CorruptFile):
        plan([unreadable(planned(inserts(table(700), [1, 3], sizes=[350])))])


@pytest.mark.parametrize("kept", [[], [100], [150, 199]])
def test_a_stripe_of_only_deleted_rows_is_neither_read_nor_written(kept):
    files = [unreadable(several_stripes(1)), several_stripes(2)]
    deleted = [(1, BUCKET, row) for row in range(250) if row not in kept]
    found = plan(files, [*deleted, (2, BUCKET, 40)])
    second = [(0, 1)] if kept else []
    assert [stripe for group in found.groups for stripe in group.stripes] == [
        *second,
        *((1, stripe) for stripe in range(3)),
    ]
    assert fates(found)[len(second) :] == [False, True, True]


def test_events_for_rows_that_do_not_exist_do_not_omit_a_stripe():
    file = inserts(table(100, 1), [1], first_row=50)
    deleted = [(1, BUCKET, row) for row in range(149)]
    (group,) = plan([planned(file)], deleted).groups
    assert (group.copy, group.rows) == (False, 100)


def test_nothing_remains_of_only_deleted_rows():
    deleted = [(1, BUCKET, row) for row in range(250)]
    assert plan([several_stripes(1)], deleted).groups == ()
