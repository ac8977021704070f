import pytest
from tests.maintenance.acid_folders import AcidFolders, kept, removed
pytestmark = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_probe(client, database):
    f = AcidFolders.create(client, f"{database}.t")
    for _ in range(3): f.insert(commit=False)
    r = f.clean(dry_run=True)
    print(removed(r), kept(r), f.directories())
    r = f.clean()
    print(removed(r), kept(r), f.directories())
    f.insert()
    r = f.clean()
    print(removed(r), kept(r), f.directories())
