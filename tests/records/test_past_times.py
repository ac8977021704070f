"""Times before the first version of a table, which no reader has ever seen."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.errors import VersionUnknown
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.table_history import version_of
from hiveacid.rules.names import Base
from hiveacid.rules.write_ids import AsOf

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def created(folders):
    return datetime.fromtimestamp(folders.table.identity.created, UTC)


def version(folders, time):
    """The newest write id of the version at a time."""
    now = Snapshot.take(folders.client, [folders.ref]).write_ids[folders.ref.full_name]
    return version_of(folders.client, folders.ref, AsOf(time=time), now).high_watermark


def set_time(folders, name, time):
    for path in (folders.root / name).iterdir():
        os.utime(path, (time.timestamp(), time.timestamp()))


def test_a_time_before_the_creation_is_an_error_with_the_oldest_time(folders):
    begin = created(folders)
    for _ in range(2):
        with pytest.raises(VersionUnknown, match=f"exists since {begin:%F %T} UTC") as raised:
            version(folders, begin - timedelta(seconds=1))
        assert (
            raised.value.remedy
            == f"The oldest version that can be read is 0, of {begin:%F %T} UTC."
        )
        assert version(folders, begin) == 0
        folders.insert()


def test_the_error_names_the_oldest_version_that_is_left(folders):
    folders.insert()
    base = folders.compact(Base(1))
    ended = datetime(2090, 1, 2, tzinfo=UTC)
    set_time(folders, base, ended)
    with pytest.raises(VersionUnknown) as raised:
        version(folders, created(folders) - timedelta(days=1))
    assert raised.value.remedy == f"The oldest version that can be read is 1, of {ended:%F %T} UTC."


def test_a_copied_table_begins_with_its_first_version(folders):
    """The metastore of the copy has created it later."""
    first = datetime(2001, 2, 3, tzinfo=UTC)
    set_time(folders, folders.insert(), first)
    set_time(folders, folders.insert(), first + timedelta(days=2))
    assert version(folders, first + timedelta(days=1)) == 1
    with pytest.raises(VersionUnknown, match=f"exists since {first:%F %T} UTC"):
        version(folders, first - timedelta(seconds=1))
