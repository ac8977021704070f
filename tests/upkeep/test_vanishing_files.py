"""Readers whose listing contains directories that a cleaner removes before they read a note there."""

import json
import shutil

import pytest

from hiveacid.errors import CorruptFile, VersionGone
from hiveacid.records.proofs import note_readers, possible_readers
from hiveacid.rules.names import Base
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.listing import check_kept, list_files, read_marker
from hiveacid.tables.scan.visible_table import snapshot_of
from hiveacid.upkeep import table_detail as detail
from tests.upkeep.acid_folders import AcidFolders, removed

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def folders(client, database):
    """A table with an obsolete base, whose kind only its marker file shows, and a newer base."""
    folders = AcidFolders.create(client, f"{database}.t")
    for write_id in (1, 2):
        folders.insert()
        base = folders.compact(Base(write_id))
    # Like a compaction, so that later readers do not delay the cleaning.
    note_readers(possible_readers(client, folders.ref), Storage.of(folders.table.folder), base)
    return folders


@FAKES
def test_a_reader_does_not_need_a_base_that_is_cleaned_after_it_has_listed_it(client, folders):
    with snapshot_of(client, folders.ref) as table:
        (partition,) = table.partitions
        files = table.files(partition)
        old, new = sorted(name for name in folders.directories() if name.startswith("base_"))
        assert old in removed(folders.clean())
        state = table.state(partition, files)
    assert state.base == new


@FAKES
def test_the_description_of_a_table_does_not_need_it_either(client, folders, monkeypatch):
    def listed_before_a_cleaning(storage, table):
        files = list_files(storage, table)
        folders.clean()
        return files

    monkeypatch.setattr(detail, "list_files", listed_before_a_cleaning)
    assert detail.table_detail(client, folders.ref).bases == 1


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_a_base_that_is_lost_while_it_is_needed_is_an_error(client, folders):
    with snapshot_of(client, folders.ref) as table:
        (partition,) = table.partitions
        files = table.files(partition)
        (folders.root / "base_0000002" / "_metadata_acid").unlink()
        with pytest.raises(CorruptFile, match="base_0000002/_metadata_acid was removed"):
            table.state(partition, files)


@FAKES
@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "x" * 20_000_000])
def test_an_empty_cut_off_or_foreign_marker_file_is_an_error(folders, content):
    marker = folders.root / sorted(folders.directories())[0] / "_metadata_acid"
    marker.write_text(content)
    with pytest.raises(CorruptFile):
        read_marker(ReadOnlyStorage.of(folders.table.folder), marker.parent.name)


@FAKES
def test_a_version_is_not_read_from_a_directory_that_loses_its_note(client, folders, monkeypatch):
    note = {"format": 1, "files": {"bucket_00000": {"rows": 1, "bytes": 7}}}
    base = sorted(name for name in folders.directories() if name.startswith("base_"))[-1]
    (folders.root / base / "_hiveacid.json").write_text(json.dumps(note))
    storage = ReadOnlyStorage.of(folders.table.folder)
    with snapshot_of(client, folders.ref) as table:
        state = table.state(table.partitions[0], table.files(table.partitions[0]))
    check_kept(storage, [state])
    shutil.rmtree(folders.root / base)
    with pytest.raises(VersionGone, match=f"{base} was removed"):
        check_kept(storage, [state])
