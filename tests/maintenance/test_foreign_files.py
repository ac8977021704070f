"""Cleaning deletes no file in the directory of another table or partition, whatever the catalog."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.errors import SharedLocation
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import REAL_AND_FAKE, FakeMetastore
from tests.maintenance.acid_folders import AcidFolders, removed

NAMES = ("a", "b", "p=1")


@REAL_AND_FAKE
@pytest.mark.parametrize("where", ["p=1", "p=1/deep", ""])
def test_a_table_over_a_partition_elsewhere_is_not_cleaned(client, database, where):
    """The committed delta of the partition would look obsolete to the table over it."""
    owner = AcidFolders.create(client, f"{database}.owner", [])
    # Version 4 creates managed tables within the warehouse only.
    shared = owner.root.parent / "shared"
    owner.add("p=1", location=f"file:{shared}/p=1")
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
        table.add("p=2")
    for table, foreign in zip(tables, reversed(tables), strict=True):
        with pytest.raises(SharedLocation, match=f"{foreign.ref}/p=1"):
            table.clean()


@REAL_AND_FAKE
def test_tables_without_common_directories_are_cleaned(client, database, tmp_path):
    for name in ("one", "other"):
        table = AcidFolders.create(client, f"{database}.{name}", ["p=1"])
        table.add("p=2", location=f"file:{tmp_path}/{name}/p=2")
        table.insert("p=1")
        table.compact(Base(1), "p=1")
        assert removed(table.clean()) == ["p=1/delta_0000001_0000001_0000"]


@dataclass(frozen=True)
class Spot:
    """A directory in one of its spellings."""

    path: tuple[str, ...]
    spelling: int

    def location(self, root: Path) -> str:
        path = "/".join(self.path)
        return (
            f"file:{root}/real/{path}",
            f"file://{root}/real//{path}/",
            f"file:{root}/real/z/../{path}",
            f"file:{root}/link/{path}",
            f"file:{root}/link/../real/./{path}",
            f"{root}/real/{path}",
        )[self.spelling]


SPOTS = st.builds(
    Spot, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple), st.integers(0, 5)
)
# Tables with the spots of their own folder and of their partitions; None has none.
CATALOGS = st.lists(
    st.tuples(SPOTS, st.none() | st.lists(SPOTS, max_size=2)), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(CATALOGS)
def test_cleaning_in_a_random_catalog_deletes_no_foreign_file(catalog):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "real").mkdir()
        (root / "link").symlink_to(root / "real")
        with (
            FakeMetastore("4.0.1", directory=root) as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            tables = _create(client, root, catalog)
            cleaned = sum(_clean(root, index, tables, catalog) for index in range(len(tables)))
            event(f"{cleaned} tables cleaned")


def _create(client, root, catalog):
    tables = []
    for index, (spot, partitions) in enumerate(catalog):
        keys = None if partitions is None else []
        table = AcidFolders.create(client, f"default.t{index}", keys, location=spot.location(root))
        for number, partition in enumerate(partitions or ()):
            table.add(f"p={number}", location=partition.location(root))
        tables.append(table)
        for _ in range(2):  # Makes write ids 1 and 2 valid for the table.
            txn = client.open_txn("writer", "localhost", None)
            client.allocate_write_id(txn, table.ref)
            client.commit_txn(txn)
        for own in _directories(root, catalog[index]):
            for name in (Delta(1, 1, 0).name, Delta(2, 2, 0).name, Base(2).name):
                if not (own / name).exists():
                    table.make(name, folder=own)
    return tables


def _directories(root, entry):
    spot, partitions = entry
    return [root.joinpath("real", *each.path) for each in (partitions or [spot])]


def _clean(root, index, tables, catalog):
    foreign = [
        directory
        for other, (spot, partitions) in enumerate(catalog)
        for directory in _directories(root, (spot, [spot, *(partitions or ())]))
        if other != index
    ]
    before = {Path(at, name) for at, _, names in os.walk(root / "real") for name in names}
    try:
        tables[index].clean()
    except SharedLocation:
        return 0
    deleted = {file for file in before if not file.exists()}
    assert [
        file for file in deleted if any(file.is_relative_to(directory) for directory in foreign)
    ] == []
    return 1
