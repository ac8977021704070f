import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.rules.directory import SyntheticIds, synthetic_ids
from hiveacid.rules.names import hive_order, original_bucket
from hiveacid.rules.row_id import encode_bucket


@pytest.mark.parametrize(
    ("path", "bucket"),
    [
        ("000000_0", 0),
        ("000012_3", 12),
        ("000003_0_copy_11", 3),
        ("HIVE_UNION_SUBDIR_2/000001_0", 1),
        ("000000_20240102030405000012345", 0),
        ("part-00000-c000.snappy.orc", None),
        ("bucket_00000", None),
        ("000000_0.orc", None),
        ("1_copy_2", None),
        ("004096_0", None),
    ],
)
def test_the_bucket_of_an_original_file_stands_before_the_underscore(path, bucket):
    assert original_bucket(path) == bucket


def test_rows_are_counted_per_bucket_in_hives_order_of_the_files():
    rows = {
        "HIVE_UNION_SUBDIR_10/000000_0": 1,
        "HIVE_UNION_SUBDIR_1/000000_0": 2,
        "000001_0": 4,
        "000000_0_copy_2": 8,
        "000000_0_copy_10": 16,
        "000000_0": 32,
    }
    zero, one = encode_bucket(0), encode_bucket(1)
    assert synthetic_ids(rows) == [
        SyntheticIds("000000_0", 0, zero, 0, 32),
        SyntheticIds("000000_0_copy_10", 0, zero, 32, 16),
        SyntheticIds("000000_0_copy_2", 0, zero, 48, 8),
        SyntheticIds("000001_0", 0, one, 0, 4),
        SyntheticIds("HIVE_UNION_SUBDIR_1/000000_0", 0, zero, 56, 2),
        SyntheticIds("HIVE_UNION_SUBDIR_10/000000_0", 0, zero, 58, 1),
    ]


def test_loaded_files_carry_the_write_id_and_the_statement_of_their_directory():
    (ids,) = synthetic_ids({"000002_0": 3}, write_id=7, statement_id=5)
    assert ids == SyntheticIds("000002_0", 7, encode_bucket(2, 5), 0, 3)


def test_a_file_without_a_bucket_number_has_no_row_ids_and_moves_no_others():
    files = synthetic_ids({"000000_0_copy_1": 3, "000000_0a.orc": 5, "000000_0": 2})
    assert [(file.path, file.bucket is None, file.first_row) for file in files] == [
        ("000000_0", False, 0),
        ("000000_0_copy_1", False, 2),
        ("000000_0a.orc", True, 0),
    ]


def test_names_sort_as_java_spells_them_in_a_uri():
    # A space is %20 there, which sorts before every letter and digit but after "!".
    assert sorted(["a!", "a a", "a0", "a^", "aZ"], key=hive_order) == [
        "a!",
        "a a",
        "a^",
        "a0",
        "aZ",
    ]
    # Java compares UTF-16: characters of two units sort before the last of the first plane.
    assert sorted(["\uffee", "\U0001f600"], key=hive_order) == ["\U0001f600", "\uffee"]


@given(st.dictionaries(st.from_regex(r"00000[01]_0(_copy_[0-9])?", fullmatch=True), st.integers(0)))
def test_no_two_rows_share_a_row_id(rows):
    taken = {}
    for file in synthetic_ids(rows):
        assert file.first_row == taken.get(file.bucket, 0)
        taken[file.bucket] = file.first_row + file.rows
    assert sum(taken.values()) == sum(rows.values())
