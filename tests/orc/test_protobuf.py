import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.protobuf import (
    DATA,
    FIXED32,
    FIXED64,
    VARINT,
    Message,
    pack,
    read_varint,
    unzigzag,
    varint,
    zigzag,
)

UNSIGNED = st.integers(0, (1 << 64) - 1)
FIELDS = st.lists(
    st.tuples(
        st.integers(1, 1 << 28),
        st.one_of(
            st.tuples(st.just(VARINT), UNSIGNED),
            st.tuples(st.just(DATA), st.binary(max_size=300)),
            st.tuples(st.just(FIXED64), st.binary(min_size=8, max_size=8)),
            st.tuples(st.just(FIXED32), st.binary(min_size=4, max_size=4)),
        ),
    ).map(lambda field: (field[0], *field[1]))
)


@given(UNSIGNED)
def test_a_number_is_read_back(number):
    assert read_varint(varint(number), 0) == (number, len(varint(number)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_signed_number_is_read_back(number):
    assert 0 <= zigzag(number) < 1 << 64
    assert unzigzag(zigzag(number)) == number


def test_a_negative_number_takes_its_64_bits():
    assert varint(-1) == b"\xff" * 9 + b"\x01"


@given(FIELDS)
def test_unknown_fields_survive_in_their_order(fields):
    assert Message.decode(Message(fields).encode()).fields == fields


@given(FIELDS.filter(len), st.data())
def test_a_message_that_is_cut_in_a_field_is_corrupt(fields, data):
    whole = Message(fields).encode()
    last = len(Message(fields[-1:]).encode())
    cut = data.draw(st.integers(len(whole) - last + 1, len(whole) - 1))
    with pytest.raises(CorruptFile):
        Message.decode(whole[:cut])


@pytest.mark.parametrize("packed", [True, False])
def test_repeated_numbers_are_read_packed_or_not(packed):
    numbers = [1, 300, 0]
    message = Message([(1, VARINT, 7)])
    if packed:
        message.add_data(2, pack(numbers))
    else:
        for number in numbers:
            message.add_number(2, number)
    assert message.all_numbers(2) == numbers


def test_the_last_of_several_values_counts():
    assert Message().add_number(1, 5).add_number(1, 6).number(1) == 6
    assert Message().add_data(1, b"a").add_data(1, b"b").data(1) == b"b"


def test_numbers_are_replaced_where_they_stand_and_appended_if_absent():
    message = Message().add_number(1, 1).add_number(9, 9).with_numbers({1: 5, 3: 7})
    assert message.fields == [(1, VARINT, 5), (9, VARINT, 9), (3, VARINT, 7)]
