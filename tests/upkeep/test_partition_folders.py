"""Cleaning never leaves the table's own folder, and never shares it."""

import shutil

import pytest

from hiveacid.errors import SharedLocation
from hiveacid.metastore.catalog import HivePartition
from hiveacid.rules.names import Base
from tests.upkeep.acid_folders import AcidFolders, kept, removed, tree

# The requests to the file system do not depend on the metastore.
pytestmark = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)


@pytest.fixture
def folders(client, database):
    """A partition with two obsolete directories, an aborted one and a base."""
    folders = AcidFolders.create(client, f"{database}.t", ["p=1"])
    folders.insert("p=1")
    folders.insert("p=1")
    folders.compact(Base(2), "p=1")
    folders.insert("p=1", commit=False)
    return folders


@pytest.fixture
def outside(tmp_path):
    """A folder that is not the table's."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "bucket_00000").write_text("somebody's rows")
    (folder / "deep" / "file").write_text("somebody's file")
    return folder


OBSOLETE, ABORTED = "p=1/delta_0000001_0000001_0000", "p=1/delta_0000003_0000003_0000"


@pytest.mark.parametrize("name", [OBSOLETE, ABORTED])
def test_a_directory_that_is_a_link_stays_with_what_it_leads_to(folders, outside, name):
    before = tree(outside)
    shutil.rmtree(folders.root / name)
    (folders.root / name).symlink_to(outside)
    report = folders.clean()
    assert name not in removed(report)
    assert len(report.removed) == 2
    assert "symbolic link" in kept(report)[name]
    assert (folders.root / name).is_symlink()
    assert tree(outside) == before


def test_a_link_inside_of_a_removed_directory_is_removed_without_its_target(folders, outside):
    before = tree(outside)
    (folders.root / OBSOLETE / "sub").mkdir()
    (folders.root / OBSOLETE / "sub" / "link").symlink_to(outside)
    (folders.root / OBSOLETE / "file").symlink_to(outside / "bucket_00000")
    assert OBSOLETE in removed(folders.clean())
    assert not (folders.root / OBSOLETE).exists()
    assert tree(outside) == before


@pytest.mark.parametrize("link", ["p=1", ""])
def test_nothing_behind_a_link_is_cleaned(folders, tmp_path, link):
    real = tmp_path / "moved"
    shutil.move(folders.root / link, real)
    (folders.root / link).symlink_to(real)
    before = tree(real)
    report = folders.clean()
    assert report.removed == ()
    assert "symbolic link" in kept(report)["p=1"]
    assert tree(real) == before


def test_staging_folders_and_notes_behind_links_stay(folders, outside):
    before = tree(outside)
    for name in ("_tmp_hiveacid_1_x", "p=1/_tmp_hiveacid_1_x", "_hiveacid_runs"):
        (folders.root / name).symlink_to(outside)
    assert removed(folders.clean(keep_notes_days=0)) == sorted(
        [OBSOLETE, OBSOLETE.replace("1_", "2_"), ABORTED]
    )
    assert tree(outside) == before


@pytest.mark.parametrize("how", ["same", "inside", "around", "link"])
def test_a_folder_that_another_table_uses_as_well_is_not_cleaned(client, database, folders, how):
    root = folders.root
    (root.parent / "link").symlink_to(root)
    location = {
        "same": f"file:{root}",
        "inside": f"file:{root}/p=1/deep",
        "around": f"file:{root.parent}",
        "link": f"file:{root.parent}/link",
    }[how]
    AcidFolders.create(client, f"{database}.other", location=location)
    before = folders.tree()
    for dry_run in (True, False):
        with pytest.raises(SharedLocation) as error:
            folders.clean(dry_run=dry_run)
        assert f"{database}.t" in error.value.what
        assert f"{database}.other" in error.value.what
    assert folders.tree() == before


@pytest.mark.parametrize("where", ["p=1", "p=1/deep", "", "..", "../other/p=1"])
def test_a_partition_in_the_folder_of_something_else_stops_the_cleaning(
    client, database, folders, where
):
    AcidFolders.create(client, f"{database}.other", ["p=1"])
    folders.add("p=2", location=f"file:{folders.root}/{where}".rstrip("/"))
    before = folders.tree()
    with pytest.raises(SharedLocation, match=f"{database}.t/p="):
        folders.clean(partitions=["p=1"])
    assert folders.tree() == before


def test_neighbours_with_like_names_share_nothing(client, database, folders):
    AcidFolders.create(client, f"{database}.t2", location=f"file:{folders.root}2")
    assert len(folders.clean().removed) == 3


def test_partition_names_are_taken_literally(client, database):
    name = "p=a%2Fb %25"
    folders = AcidFolders.create(client, f"{database}.escaped", ["p=x"])
    client.add_partitions(folders.ref, [HivePartition.new(folders.table, ["a/b %"])])
    folders.insert(name)
    folders.compact(Base(1), name)
    assert removed(folders.clean(partitions=[name])) == [f"{name}/delta_0000001_0000001_0000"]
