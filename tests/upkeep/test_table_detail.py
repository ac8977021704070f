"""The current state of a table."""

import json
import shutil

import pytest

from hiveacid.errors import WrongTableKind
from hiveacid.rules.names import Base, Delta
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_detail import table_detail
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def test_it_counts_opened_directories_and_available_versions(client, database):
    parted = AcidFolders.create(client, f"{database}.t", ["p=1", "p=2"])
    names = [parted.insert("p=1") for _ in range(3)]
    parted.make(Delta(3, 3, 0, is_delete=True).name, "p=2")
    before = table_detail(client, parted.ref)
    assert (before.partitions, before.files, before.bytes) == (2, 4, 4 * len("no rows"))
    assert (before.bases, before.deltas, before.delete_deltas) == (0, 3, 1)
    assert (before.newest_version, before.oldest_version, before.last_compaction) == (3, 0, None)
    base = parted.compact(Base(2), "p=1")
    told = {"format": 1, "replaces": names[:2], "aborted": [], "time": "2026-11-20T12:00:00+00:00"}
    (parted.root / "p=1" / base / "_hiveacid.json").write_text(json.dumps(told))
    after = table_detail(client, parted.ref)
    assert (after.bases, after.deltas, after.oldest_version) == (1, 1, 0)
    assert after.last_compaction is not None
    assert (after.last_compaction.operation, after.last_compaction.merged) == ("major", ((1, 2),))
    shutil.rmtree(parted.root / "p=1" / names[0])
    assert table_detail(client, parted.ref).oldest_version == 2
    lines = [line.split(maxsplit=1) for line in repr(after).splitlines()]
    assert lines[0] == [f"{database}.t"]
    assert ["columns", "id int"] in lines
    assert ["last", "compaction  major of p=1, at 2026-11-20 12:00:00"] in lines
    assert "<td>major of p=1, at 2026-11-20 12:00:00</td>" in after._repr_html_()


def test_an_unwritten_table_has_few_figures(client, database):
    empty = AcidFolders.create(client, f"{database}.t", num_buckets=4, bucket_columns=["id"])
    detail = table_detail(client, empty.ref)
    assert (detail.files, detail.newest_version, detail.partitions) == (0, 0, None)
    assert (detail.buckets, detail.bucket_columns) == (4, ("id",))
    plain = AcidFolders.create(client, f"{database}.plain", kind=TableKind.NOT_ACID)
    with pytest.raises(WrongTableKind, match="plain"):
        table_detail(client, plain.ref)
