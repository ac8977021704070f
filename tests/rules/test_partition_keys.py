"""The text of each value in names of partitions, and the search for partitions with equal values."""

import json
from pathlib import Path

import pytest

from hiveacid.errors import UserError
from hiveacid.rules.names import DEFAULT_PARTITION
from hiveacid.rules.partitions import (
    KeyComparison,
    canonical_first,
    canonical_text,
    equal_partitions,
    find_partitions,
    named_partition,
    texts_in_rows,
    values_of_partition,
)

# As Hive 4.0.1 and Trino 476 write them; tests/interop compares the file with both.
NAMES = json.loads((Path(__file__).parents[1] / "data" / "partition_names.json").read_text())
KEYS = {"dc": "decimal(10,2)", "n": "int"}
BOTH = ["dc=1.5/n=7", "dc=1.50/n=7", "dc=1.50/n=8", "dc=2/n=7"]


@pytest.mark.parametrize("type_", sorted({name["type"] for name in NAMES}))
def test_a_value_is_written_as_by_hive_and_trino(type_):
    for name in (name for name in NAMES if name["type"] == type_):
        text = canonical_text(name["value"], type_)
        assert (text or DEFAULT_PARTITION) == name["hive"]
        # Trino omits the digits after the milliseconds, and refuses texts that are not ASCII.
        assert name["trino"] in (name["hive"], None) or name["hive"].startswith(name["trino"])
        assert canonical_text(text, type_) == text


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *(("int", text) for text in ("5.0", "x", " 7", "2147483648", "1e2", "1_0")),
        *(("decimal(5,2)", text) for text in ("NaN", "1_0", "1000", "1,5")),
        *(("double", text) for text in ("1_0", "nan", "inf", "0x1p3", "1d")),
        *(("timestamp", text) for text in ("2026-01-32 00:00:00", "2026-1-1 00:00:00")),
        *(("boolean", "t"), ("date", "2026-1-1"), ("binary", "x"), ("char(2)", "abc")),
    ],
)
def test_a_text_that_engines_read_differently_is_left_unchanged(type_, text):
    assert canonical_text(text, type_) == text
    other = "true" if type_ == "boolean" else "5"
    assert equal_partitions([f"k={text}"], [f"k={text}", f"k={other}"], {"k": type_}) == {
        f"k={text}": [f"k={text}"]
    }


def test_the_text_of_null_and_an_empty_text_are_null():
    assert canonical_text("", "string") is None
    assert canonical_text(DEFAULT_PARTITION, "string") is None
    assert canonical_text(None, "decimal(5,2)") is None
    # Hive pads it first.
    assert canonical_text("", "char(2)") == "  "
    assert named_partition(["", None], {"k": "string", "n": "int"}) == (
        f"k={DEFAULT_PARTITION}/n={DEFAULT_PARTITION}"
    )


def test_rows_have_a_char_without_its_blanks():
    assert texts_in_rows(["ab  ", "ab ", None], {"c": "char(4)", "s": "string", "n": "int"}) == (
        "ab",
        "ab ",
        None,
    )


def test_an_existing_partition_is_found_by_equal_values():
    wanted = ["dc=1.5/n=7", "dc=1.5/n=8", "dc=2/n=7", "dc=3/n=7"]
    assert equal_partitions(wanted, BOTH, KEYS) == {
        "dc=1.5/n=7": ["dc=1.5/n=7", "dc=1.50/n=7"],
        "dc=1.5/n=8": ["dc=1.50/n=8"],
        "dc=2/n=7": ["dc=2/n=7"],
        "dc=3/n=7": [],
    }


def test_new_rows_go_to_the_exact_name_then_to_the_canonical_one():
    known = ["dc=1.50/n=7", "dc=1.5/n=7", "dc=01.5/n=7"]
    assert equal_partitions(["dc=1.50/n=7"], known, KEYS)["dc=1.50/n=7"][0] == "dc=1.50/n=7"
    assert equal_partitions(["dc=1.500/n=7"], known, KEYS)["dc=1.500/n=7"] == [
        "dc=1.5/n=7",
        "dc=01.5/n=7",
        "dc=1.50/n=7",
    ]
    assert canonical_first(known, KEYS) == "dc=1.5/n=7"


def test_zero_and_minus_zero_are_different_partitions_as_in_hive_and_trino():
    assert equal_partitions(["k=0.0"], ["k=-0.0", "k=0"], {"k": "double"}) == {"k=0.0": ["k=0"]}


def test_a_requested_name_means_its_partition_else_those_with_equal_values():
    found = find_partitions(["n=7/dc=1.50", "dc=1.50/n=07", "dc=3.0/n=7"], BOTH, KEYS)
    assert found == ["dc=1.5/n=7", "dc=1.50/n=7", "dc=3/n=7"]
    assert find_partitions(["dc=1.50/n=7"], BOTH, KEYS) == ["dc=1.50/n=7"]
    with pytest.raises(UserError, match="'x' is not a value of the partition key n"):
        find_partitions(["dc=1.5/n=x"], BOTH, KEYS)
    assert find_partitions(["dc=1.5/n=x"], BOTH, KEYS, lenient=True) == ["dc=1.5/n=x"]


@pytest.mark.parametrize(
    ("type_", "given", "name"),
    [("decimal(10,2)", "1.50", "1.5"), ("boolean", "TRUE", "true"), ("double", "1e10", "1.0E10")],
)
def test_an_added_partition_has_the_canonical_text(type_, given, name):
    assert values_of_partition([KeyComparison("k", given)], {"k": type_}) == (name,)
