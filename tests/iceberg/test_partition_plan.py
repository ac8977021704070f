"""The rules by which data files of a mirror remain."""

from collections.abc import Sequence

import pytest

from hiveacid.iceberg.file_selection import (
    Age,
    MirroredFile,
    PartitionPlan,
    age,
    coverage,
    fully_covered,
    plan_partition,
)
from hiveacid.iceberg.mirror_state import Provenance, SourceStripes
from hiveacid.rules.names import parse_directory
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.listing import DataFile

# Write id 3 was open, and 4 aborted.
BEFORE = ValidWriteIdList("db.t", 5, 3, (3,), (4,))


def hive_file(name: str, size: int = 100) -> DataFile:
    return DataFile(f"{name}/bucket_00000", size, parse_directory(name), 0)


def mirrored(*names: str, complete: bool = True) -> MirroredFile:
    sources = tuple(SourceStripes(f"{name}/bucket_00000", 100, 2, (0, 1)) for name in names)
    origin = Provenance(
        partition=None, location="/t", sources=sources, complete=complete, whole=True
    )
    return MirroredFile(f"data/{'-'.join(names)}.orc", origin)


def plan(
    rows: Sequence[str],
    files: Sequence[MirroredFile],
    deletes: Sequence[str] = (),
    *,
    high: int = 9,
    columns_changed: bool = False,
) -> PartitionPlan:
    return plan_partition(
        [hive_file(name) for name in rows],
        [hive_file(name) for name in deletes],
        files,
        BEFORE,
        ValidWriteIdList("db.t", high, 3, (3,), (4,)),
        columns_changed=columns_changed,
    )


@pytest.mark.parametrize(
    ("directory", "now", "expected"),
    [
        (None, ValidWriteIdList("db.t", 9), Age.OLD),
        ("delta_5_5", ValidWriteIdList("db.t", 9), Age.OLD),
        ("delta_6_7", ValidWriteIdList("db.t", 9), Age.NEW),
        ("delta_5_6", ValidWriteIdList("db.t", 9), Age.MIXED),
        ("delete_delta_5_6", ValidWriteIdList("db.t", 9), Age.MIXED),
        # Nothing of the directory is visible yet.
        ("delta_5_6", ValidWriteIdList("db.t", 9, 6, (6,)), Age.OLD),
        ("delta_5_6", ValidWriteIdList("db.t", 9, 2**63 - 1, (), (6,)), Age.OLD),
        # The open write id has been committed, or aborted; an aborted one stays so.
        ("delta_3_3", ValidWriteIdList("db.t", 5), Age.NEW),
        ("delta_2_3", ValidWriteIdList("db.t", 5), Age.MIXED),
        ("delta_2_3", ValidWriteIdList("db.t", 5, 2**63 - 1, (), (3,)), Age.OLD),
        ("delta_4_4", ValidWriteIdList("db.t", 5, 3, (3,)), Age.OLD),
        ("base_2", ValidWriteIdList("db.t", 9), Age.OLD),
        ("base_5", ValidWriteIdList("db.t", 9), Age.MIXED),
        ("base_5", ValidWriteIdList("db.t", 9, 3, (3,)), Age.OLD),
        ("base_6", ValidWriteIdList("db.t", 9, 3, (3,)), Age.MIXED),
        ("base_-9223372036854775808", ValidWriteIdList("db.t", 9), Age.OLD),
    ],
)
def test_a_directory_is_compared_with_the_earlier_snapshot(
    directory: str | None, now: ValidWriteIdList, expected: Age
) -> None:
    assert age(directory and parse_directory(directory), BEFORE, now) is expected


def test_unchanged_files_remain_beside_new_ones() -> None:
    file = mirrored("delta_1_1", "delta_2_2")
    found = plan(["delta_1_1", "delta_2_2", "delta_6_6"], [file])
    assert found == PartitionPlan(kept=(file,))
    assert fully_covered(found.kept) == {f"delta_{n}_{n}/bucket_00000" for n in (1, 2)}


def test_new_delete_events_must_be_looked_for() -> None:
    found = plan(["delta_1_1"], [mirrored("delta_1_1")], ["delete_delta_2_2", "delete_delta_5_6"])
    assert [file.path for file in found.deletes] == ["delete_delta_5_6/bucket_00000"]


@pytest.mark.parametrize("compacted", ["delta_1_2", "base_2_v7", "base_5"])
def test_files_of_compacted_rows_remain_instead_of_the_compacted_files(compacted: str) -> None:
    file = mirrored("delta_1_1", "delta_2_2")
    found = plan([compacted, "delta_6_6"], [file])
    assert found == PartitionPlan((file,), (), frozenset({f"{compacted}/bucket_00000"}))


@pytest.mark.parametrize(
    ("rows", "deletes"),
    [
        # Deleted rows cannot be found in files without row ids.
        (["base_2_v7"], ["delete_delta_6_6"]),
        # The base also has new rows.
        (["base_6_v9"], []),
        # No other directory has the rows.
        ([], []),
        (["delta_6_6"], []),
        (["delta_1_1"], []),
        (["delta_2_4"], []),
    ],
)
def test_files_whose_sources_are_gone_are_removed(
    rows: Sequence[str], deletes: Sequence[str]
) -> None:
    file = mirrored("delta_1_1", "delta_2_2")
    found = plan(rows, [file], deletes)
    assert (found.kept, found.removed, found.skipped) == ((), (file,), frozenset())


def test_a_changed_file_of_the_same_directory_is_copied() -> None:
    rows = [hive_file("delta_1_1", 101)]
    now = ValidWriteIdList("db.t", 5, 3, (3,), (4,))
    file = mirrored("delta_1_1")
    assert plan_partition(rows, [], [file], BEFORE, now, columns_changed=False).removed == (file,)


@pytest.mark.parametrize("rows", ["delta_1_1", "base_1_v7"])
def test_values_of_an_added_column_that_files_lack_are_copied(rows: str) -> None:
    file = mirrored("delta_1_1", complete=False)
    assert plan([rows], [file]).kept == (file,)
    assert plan([rows], [file], columns_changed=True).removed == (file,)


def test_the_stripes_of_several_data_files_are_covered_together() -> None:
    def half(*stripes: int) -> MirroredFile:
        source = SourceStripes("delta_1_1/bucket_00000", 100, 3, stripes)
        origin = Provenance(
            partition=None, location="/t", sources=(source,), complete=True, whole=True
        )
        return MirroredFile(f"{stripes}", origin)

    first, second = half(0, 1), half(2)
    assert coverage([first]) == {"delta_1_1/bucket_00000": {0, 1}}
    assert fully_covered([first]) == set()
    assert fully_covered([first, second]) == {"delta_1_1/bucket_00000"}


def test_an_origin_survives_its_encoding() -> None:
    origin = mirrored("delta_1_1", "base_7").provenance
    assert Provenance.decode(origin.encode()) == origin
    for text in (b"null", b"{}", b"[1]", b"\xff"):
        with pytest.raises(ValueError, match=r"."):
            Provenance.decode(text)
