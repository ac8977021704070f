"""Random catalogs: tables over tables, partitions over partitions, each in several spellings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import event
from hypothesis import strategies as st

from hiveacid.errors import SharedLocation
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import Base, Delta
from hiveacid.storage.folder import ReadOnlyStorage
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders

NAMES = ("a", "b", "p=1")


@dataclass(frozen=True)
class Spot:
    """A directory below the root of a world, in one of the spellings of the world."""

    path: tuple[str, ...]
    spelling: int


SPOTS = st.builds(
    Spot, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple), st.integers(0, 9)
)
# Tables with the spots of their own folder and of their partitions; None has none.
CATALOGS = st.lists(
    st.tuples(SPOTS, st.none() | st.lists(SPOTS, max_size=2)), min_size=1, max_size=4
)


@dataclass(frozen=True)
class World:
    """A folder with the directories of all tables.

    Attributes:
        root: The location of the folder.
        spellings: The spellings of a directory in it, with {} for its path.
    """

    root: str
    spellings: Sequence[str]

    def location(self, spot):
        spelling = self.spellings[spot.spelling % len(self.spellings)]
        return spelling.format("/".join(spot.path))

    def files(self):
        found = ReadOnlyStorage.of(self.root).walk()
        return {path for path, size, _ in found if size is not None}


def clean_random_catalog(world, catalog, directory, **metastore):
    """Clean all tables of a catalog; none may lose a file to the cleaning of another one."""
    with (
        FakeMetastore("4.0.1", directory=Path(directory), **metastore) as fake,
        MetastoreClient(fake.options) as client,
    ):
        tables = _create(client, world, catalog)
        cleaned = sum(_clean(world, index, tables, catalog) for index in range(len(tables)))
        event(f"{cleaned} tables cleaned")


def _create(client, world, catalog):
    tables = []
    for index, (spot, partitions) in enumerate(catalog):
        keys = None if partitions is None else []
        location = world.location(spot)
        table = AcidFolders.create(client, f"default.t{index}", keys, location=location)
        for number, partition in enumerate(partitions or ()):
            table.add(f"p={number}", location=world.location(partition))
        tables.append(table)
        for _ in range(2):  # Makes write ids 1 and 2 valid for the table.
            txn = client.open_txn("writer", "localhost", None)
            client.allocate_write_id(txn, table.ref)
            client.commit_txn(txn)
        for place in partitions or [spot]:
            own = place_of(f"{world.root}/{'/'.join(place.path)}")
            for name in (Delta(1, 1, 0).name, Delta(2, 2, 0).name, Base(2).name):
                if not (own / name).exists():
                    table.make(name, folder=own)
    return tables


def _clean(world, index, tables, catalog):
    foreign = tuple(
        f"{'/'.join(spot.path)}/"
        for other, (own, partitions) in enumerate(catalog)
        for spot in (own, *(partitions or ()))
        if other != index
    )
    before = world.files()
    try:
        tables[index].clean()
    except SharedLocation:
        return 0
    deleted = before - world.files()
    assert [file for file in deleted if file.startswith(foreign)] == []
    return 1
