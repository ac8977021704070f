"""The features that follow from a release, from probes, and from a stated profile."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import UnsupportedMetastore, UnsupportedTable
from hiveacid.rules.features import (
    HIVE_4,
    PROFILES,
    Features,
    Source,
    is_known_release,
    may_name_conflicts,
)
from hiveacid.rules.schema import ChangeRules, Column, ColumnChange, ColumnMapping, MappedColumns

NAMES = {each.name for each in fields(Features)} - {"reasons"}


@pytest.mark.parametrize("release", ["4.0.0", "4.0.1", "4.1.0", "4.2.0", "4.2.1"])
def test_a_release_of_apache_hive_4_has_all_features(release: str) -> None:
    features = Features.of_release(release)
    assert features is not None
    assert features.values() == {**dict.fromkeys(NAMES, True), "column_mapping": "position"}
    for name in NAMES:
        assert features.reasons[name].source is Source.PROBED
        assert release in features.reasons[name].text


@pytest.mark.parametrize(
    "release",
    ["", "3.0", "3.1.3000.7.1.9.14-2", "4.0.0-SNAPSHOT", "4.0.0.1", "4.0.1-amzn-0", "5.0.0"],
)
def test_no_other_release_is_known(release: str) -> None:
    assert not is_known_release(release)
    assert Features.of_release(release) is None


def test_only_old_versions_state_the_release_3_0() -> None:
    assert not may_name_conflicts("3.0", "auto")
    assert not may_name_conflicts("3.0", "hdp-3.1")
    assert may_name_conflicts("3.0", "cdp-7.1.7")
    assert may_name_conflicts("3.1.3000.7.1.7.0-551", "auto")


@pytest.mark.parametrize("names_conflicts", [True, False])
def test_what_was_not_asked_has_a_careful_default(names_conflicts: bool) -> None:
    features = Features.of_probes({"names_conflicts": names_conflicts})
    careful = {name for name, value in features.values().items() if not value}
    assert careful >= {
        *("has_pools", "has_queue", "filters_queue", "compares_definitions", "has_table_fields"),
        *("keeps_constraints", "reads_zstd", "column_mapping"),
    }
    for name, reason in features.reasons.items():
        wanted = Source.PROBED if name == "names_conflicts" else Source.DEFAULT
        assert reason.source is wanted, name


def test_a_profile_states_what_was_not_asked() -> None:
    probed = {"names_conflicts": True, "has_queue": True, "returns_all_constraints": True}
    features = Features.of_probes(probed, "cdp-7.1.9")
    assert features.column_mapping is ColumnMapping.POSITION
    assert features.reasons["column_mapping"].source is Source.STATED
    assert "cdp-7.1.9" in features.reasons["column_mapping"].text
    assert features.reasons["has_queue"].source is Source.PROBED
    assert features.reads_zstd is False


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_only_features(profile: str) -> None:
    assert PROFILES[profile].keys() <= NAMES
    assert "names_conflicts" in PROFILES[profile]
    probed = {"names_conflicts": PROFILES[profile]["names_conflicts"]}
    assert Features.of_probes(probed, profile).values().keys() == NAMES


@pytest.mark.parametrize(
    ("profile", "known", "found"),
    [
        ("cdp-7.3", {"names_conflicts": True, "has_queue": False}, "has_queue=False"),
        ("cdp-7.1.7", {"names_conflicts": False}, "names_conflicts=False"),
        ("hive-3.1", {"names_conflicts": True}, "names_conflicts=True"),
    ],
)
def test_a_profile_that_a_probe_contradicts_is_refused_by_the_names_of_both(
    profile: str, known: dict[str, bool], found: str
) -> None:
    with pytest.raises(UnsupportedMetastore) as refused:
        Features.of_probes(known, profile)
    assert profile in str(refused.value)
    assert found in str(refused.value)


def test_a_profile_that_the_release_contradicts_is_refused() -> None:
    assert Features.of_release("4.0.1", "hive-4") is not None
    with pytest.raises(UnsupportedMetastore, match=r"cdp-7\.1\.9.*4\.0\.1 of Apache Hive"):
        Features.of_release("4.0.1", "cdp-7.1.9")


def test_nothing_in_hive_4_is_missing() -> None:
    assert HIVE_4.keys() == NAMES


_COLUMNS = {
    "hive-3.1": 1,
    "cdp-7.1.7": 2,
    "cdp-7.1.8": 3,
    "cdp-7.1.9": 3,
    "cdp-7.3": 4,
    "hdp-3.1": 5,
    "mr3-3.1": 6,
    "hive-4": 7,
}
_WORDS = {"yes": True, "no": False, "by name": "name", "by position": "position"}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_docs_have_the_features_of_each_profile(profile: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "platforms.md").read_text(encoding="utf-8")
    table = page[page.index("| Feature | Hive 3.1.3 |") :].partition("\n\n")[0]
    documented = {}
    for line in table.splitlines()[2:]:
        names, *_ = cells = [cell.strip() for cell in line.strip("|").split("|")]
        word = cells[_COLUMNS[profile]].rstrip(" ¹²³⁴")
        documented |= {name.strip("` "): word for name in names.split(",")}
    assert documented.keys() == NAMES
    stated = {name: _WORDS[word] for name, word in documented.items() if word in _WORDS}
    # What a profile does not state may have a default, which the page shows, too.
    assert stated == {**stated, **PROFILES[profile]}
    assert all(stated[name] is False for name in stated.keys() - PROFILES[profile].keys())


@pytest.mark.parametrize(
    "stored", [("id", "v"), ("id",), ("ID", "V"), ("_col0", "_col1"), ("id", "v", "gone")]
)
def test_columns_that_both_mappings_find_are_read_without_a_stated_one(
    stored: tuple[str, ...],
) -> None:
    unknown = MappedColumns(("id", "v"), None)
    assert unknown.fields(stored) == MappedColumns(("id", "v")).fields(stored)


@pytest.mark.parametrize("stored", [("id", "old"), ("v", "id"), ("gone", "id", "v")])
def test_renamed_columns_are_not_read_before_the_mapping_is_stated(stored: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedTable, match="metastore_profile") as refused:
        MappedColumns(("id", "v"), None).fields(stored)
    assert ", ".join(stored) in refused.value.what


@pytest.mark.parametrize("change", [{"name": "w"}, {"first": True}], ids=["rename", "move"])
def test_a_column_is_neither_renamed_nor_moved_if_the_mapping_is_unknown(
    change: dict[str, Any],
) -> None:
    columns = [Column("id", "int", None), Column("v", "int", None)]
    rules = ChangeRules("d.t", None)
    with pytest.raises(UnsupportedTable):
        rules.changed(columns, ColumnChange("v", **change))
