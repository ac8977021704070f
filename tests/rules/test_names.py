import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import MalformedName
from hiveacid.rules.names import (
    CONVERTED_BASE,
    DEFAULT_PARTITION,
    Base,
    BucketFile,
    Delta,
    OriginalFile,
    escape_path_name,
    is_hidden,
    is_hidden_path,
    parse_directory,
    parse_file,
    parse_partition_name,
    partition_name,
    unescape_path_name,
)

IDS = st.integers(0, 2**63 - 1)
BASES = st.builds(Base, st.just(CONVERTED_BASE) | IDS, IDS)
DELTAS = st.builds(
    lambda ends, statement, txn, is_delete: Delta(min(ends), max(ends), statement, txn, is_delete),
    st.tuples(IDS, IDS),
    st.none() | st.integers(0, 9999),
    IDS,
    st.booleans(),
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]))


@given(BASES | DELTAS)
def test_a_directory_name_round_trips(directory):
    assert parse_directory(directory.name) == directory


@given(
    st.builds(BucketFile, IDS, st.none() | IDS) | st.builds(OriginalFile, IDS, IDS, st.none() | IDS)
)
def test_a_file_name_round_trips(file):
    assert parse_file(file.name) == file


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("base_0000005", Base(5)),
        ("base_0000005_v0000040", Base(5, visibility_txn=40)),
        ("base_-9223372036854775808", Base(CONVERTED_BASE)),
        ("delta_0000005_0000005_0000", Delta(5, 5, 0)),
        ("delta_0000001_0000009", Delta(1, 9)),
        ("delta_0000001_0000009_v0000123", Delta(1, 9, visibility_txn=123)),
        ("delete_delta_0000005_0000005_0001", Delta(5, 5, 1, is_delete=True)),
        ("delta_10000001_10000001_0000", Delta(10000001, 10000001, 0)),
    ],
)
def test_names_are_spelled_as_hive_spells_them(name, parsed):
    assert parse_directory(name) == parsed
    assert parsed.name == name


def test_names_with_other_padding_are_understood():
    assert parse_directory("delta_025_30_7") == Delta(25, 30, 7)


@pytest.mark.parametrize("name", ["p=1", "HIVE_UNION_SUBDIR_1", "base", "delta", "bases_1", "x"])
def test_other_directories_are_no_acid_directories(name):
    assert parse_directory(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_1_v",
        "base_1_2",
        "base_9223372036854775808",
        "delta_1",
        "delta_1_",
        "delta_2_1",
        "delta_1_2_3_4",
        "delta_1_2_v3 ",
        "delete_delta_a_b",
        "delta_\u0661_\u0661",
    ],
)
def test_broken_acid_names_are_errors(name):
    with pytest.raises(MalformedName, match="cannot be read"):
        parse_directory(name)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("bucket_00003", BucketFile(3)),
        ("bucket_00003_1", BucketFile(3, 1)),
        ("000001_0", OriginalFile(1, 0)),
        ("000001_0_copy_2", OriginalFile(1, 0, 2)),
        ("bucket_00003_flush_length", None),
        ("random", None),
        ("000001_0.orc", None),
    ],
)
def test_file_names(name, parsed):
    assert parse_file(name) == parsed


@pytest.mark.parametrize(
    ("name", "hidden"), [("_tmp_1", True), (".hive-staging", True), ("bucket_00000", False)]
)
def test_hidden_names(name, hidden):
    assert is_hidden(name) is hidden
    assert is_hidden_path(name) is hidden
    assert is_hidden_path(f"{name}/bucket_00000") is hidden
    assert is_hidden_path(f"delta_1_1/{name}") is hidden


@given(VALUES)
def test_escaping_is_undone(value):
    assert unescape_path_name(escape_path_name(value)) == (value or DEFAULT_PARTITION)


def test_escaping_is_hives():
    special = "\"#%'*/:=?\\{[]^\x7f\x00\x1f"
    assert escape_path_name(special) == ("%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E%7F%00%1F")
    assert escape_path_name("a b,ä}日") == "a b,ä}日"
    assert unescape_path_name("100%, %4, %zz, %2f") == "100%, %4, %zz, /"


@given(st.lists(st.tuples(VALUES.filter(str.strip), st.none() | VALUES), min_size=1))
def test_a_partition_name_gives_its_keys_and_values_back(spec):
    name = partition_name([key for key, _ in spec], [value for _, value in spec])
    assert parse_partition_name(name) == [(key.lower(), value or None) for key, value in spec]


def test_partition_names_are_spelled_as_hive_spells_them():
    name = partition_name(["Day", "shop"], ["2024-01-01", None])
    assert name == f"day=2024-01-01/shop={DEFAULT_PARTITION}"


@given(st.text("./\\ab=%", max_size=8))
def test_no_value_leaves_the_folder_of_the_table(value):
    path = posixpath.normpath(posixpath.join("/table", partition_name(["k"], [value])))
    assert posixpath.dirname(path) == "/table"


@pytest.mark.parametrize("name", ["", "p", "p=", "=1", "p=1/", "p=1//q=2", "../p=1", "p=1/.."])
def test_broken_partition_names_are_errors(name):
    with pytest.raises(MalformedName):
        parse_partition_name(name)


@pytest.mark.parametrize(("keys", "values"), [([], []), (["p"], []), ([""], ["1"])])
def test_values_must_fit_their_keys(keys, values):
    with pytest.raises(MalformedName):
        partition_name(keys, values)
