"""Cleaning deletes no file in the directory of another table or partition, in any catalog."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from hiveacid.errors import SharedLocation
from hiveacid.metastore.locations import Locations
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.rules.names import Base, Delta
from hiveacid.upkeep.table_cleaning import clean, cleaning
from tests.fakes.metastore import REAL_AND_FAKE
from tests.upkeep.acid_folders import AcidFolders, removed
from tests.upkeep.random_catalogs import CATALOGS, World, clean_random_catalog


def add_obsolete(folders, partition="p=2"):
    """Add a partition of a place of its own, with a removable directory."""
    folders.add(partition)
    folders.insert(partition)
    folders.compact(Base(1), partition)


@REAL_AND_FAKE
@pytest.mark.parametrize("where", ["p=1", "p=1/deep", ""])
def test_a_table_over_a_partition_elsewhere_is_not_cleaned(client, database, where):
    """The committed delta of the partition would look obsolete to the table over it."""
    owner = AcidFolders.create(client, f"{database}.owner", [])
    # Version 4 creates managed tables within the warehouse only.
    shared = owner.root.parent / "shared"
    owner.add("p=1", location=f"file:{shared}/p=1")
    add_obsolete(owner)
    above = AcidFolders.create(client, f"{database}.above", location=f"file:{shared}/{where}")
    for _ in range(2):
        above.insert()
    above.compact(Base(2))
    delta = owner.make(Delta(1, 1, 0).name, folder=shared / "p=1" / "inside")
    before = above.tree()
    for dry_run in (True, False):
        with pytest.raises(SharedLocation, match=f"{database}.owner/p=1"):
            above.clean(dry_run=dry_run)
    with pytest.raises(SharedLocation, match=f"{database}.above"):
        owner.clean()
    assert above.tree() == before
    assert (shared / "p=1" / "inside" / delta).exists()


@REAL_AND_FAKE
def test_a_partition_over_a_partition_of_another_table_is_not_cleaned(client, database, tmp_path):
    tables = [AcidFolders.create(client, f"{database}.{name}", []) for name in ("one", "other")]
    for table, spelling in zip(tables, ("x", "y/../x/"), strict=True):
        table.add("p=1", location=f"file:{tmp_path}/{spelling}")
        add_obsolete(table)
    for table, foreign in zip(tables, reversed(tables), strict=True):
        with pytest.raises(SharedLocation, match=f"{foreign.ref}/p=1"):
            table.clean()


@REAL_AND_FAKE
def test_cleanings_that_share_a_list_of_locations_refuse_the_same(client, database, tmp_path):
    tables = [AcidFolders.create(client, f"{database}.{name}", []) for name in ("one", "other")]
    for table in tables:
        table.add("p=1", location=f"file:{tmp_path}/x")
        add_obsolete(table)
    steps = [cleaning(client, table.job(), lambda: locations) for table in tables]
    for each in steps:
        next(each)
    locations = Locations(client)
    for each, foreign in zip(steps, reversed(tables), strict=True):
        with pytest.raises(SharedLocation, match=f"{foreign.ref}/p=1"):
            next(each)


@REAL_AND_FAKE
def test_a_cleaning_without_removable_files_does_not_need_the_locations_of_others(
    client, database, tmp_path
):
    tables = [AcidFolders.create(client, f"{database}.{name}", []) for name in ("one", "other")]
    for table in tables:
        table.add("p=1", location=f"file:{tmp_path}/x")
        table.insert("p=1")
    for dry_run in (True, False):
        assert removed(tables[0].clean(dry_run=dry_run)) == []
    (tmp_path / "x" / "_tmp_hiveacid_1_x").mkdir()
    for dry_run in (True, False):
        with pytest.raises(SharedLocation):
            tables[0].clean(dry_run=dry_run)


@REAL_AND_FAKE
def test_a_table_that_appears_during_a_cleaning_keeps_its_files(client, database):
    """The cleaning has hidden a delta of the new table."""
    table = AcidFolders.create(client, f"{database}.one", [])
    add_obsolete(table, "p=2")
    other = AcidFolders.create(client, f"{database}.other", [])

    class Register(PhaseObserver):
        def enter(self, phase):
            if phase is Phase.CLEAN and not client.get_partition_names(other.ref):
                other.add("p=2", location=f"file:{table.root}/p=2")

    before = table.tree()
    with pytest.raises(SharedLocation, match=f"{other.ref}/p=2"):
        clean(client, table.job(), phases=PhaseClock([Register()]))
    assert table.tree() == before


@REAL_AND_FAKE
def test_tables_without_common_directories_are_cleaned(client, database, tmp_path):
    for name in ("one", "other"):
        table = AcidFolders.create(client, f"{database}.{name}", ["p=1"])
        table.add("p=2", location=f"file:{tmp_path}/{name}/p=2")
        table.insert("p=1")
        table.compact(Base(1), "p=1")
        assert removed(table.clean()) == ["p=1/delta_0000001_0000001_0000"]


@settings(max_examples=60, deadline=None)
@given(CATALOGS)
def test_cleaning_in_a_random_catalog_deletes_no_foreign_file(catalog):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "real").mkdir()
        (root / "link").symlink_to(root / "real")
        spellings = (
            f"file:{root}/real/{{}}",
            f"file://{root}/real//{{}}/",
            f"file:{root}/real/z/../{{}}",
            f"file:{root}/link/{{}}",
            f"file:{root}/link/../real/./{{}}",
            f"{root}/real/{{}}",
        )
        clean_random_catalog(World(f"file:{root}/real", spellings), catalog, root)
