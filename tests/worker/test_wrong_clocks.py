"""Times of versions where the clocks of writers and readers are wrong: they are those of the storage."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hiveacid.errors import VersionGone, VersionUnknown
from hiveacid.jobs.definition_jobs import PartitionsJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.table_history import table_history, version_of
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import KeyComparison
from hiveacid.rules.versions import newest_version
from hiveacid.rules.write_ids import AsOf
from hiveacid.tables.definitions.partitions import change_partitions
from tests.clocks import set_clock
from tests.worker.staging import BOTH, Warehouse, changes

pytestmark = BOTH
DAY = timedelta(days=1)
CLOCKS = pytest.mark.parametrize(
    "errors", [[10 * DAY], [-10 * DAY], [-10 * DAY, 10 * DAY]], ids=["ahead", "behind", "jumps"]
)
# The times of files are those of the last tick, and times in notes have milliseconds.
TICK = timedelta(milliseconds=3)


@pytest.fixture
def warehouse(client: MetastoreClient, database: str) -> Warehouse:
    return Warehouse(client, database)


@pytest.fixture
def clock(tmp_path: Path) -> Callable[[], datetime]:
    """Return a time such that earlier files are not younger, and later ones are."""
    file = tmp_path / "now"

    def written() -> datetime:
        file.write_bytes(b"")
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)

    def now() -> datetime:
        moment = written()
        while written() < moment + TICK:
            pass
        return moment

    return now


def version_at(warehouse: Warehouse, moment: datetime) -> int:
    ref = TableRef.parse(warehouse.t)
    now = Snapshot.take(warehouse.client, [ref]).write_ids[ref.full_name]
    return newest_version(version_of(warehouse.client, ref, AsOf(time=moment), now))


@CLOCKS
def test_a_time_selects_the_version_that_was_the_newest_then(
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    clock: Callable[[], datetime],
    errors: Sequence[timedelta],
) -> None:
    warehouse.create("plain")
    times, newest = [clock()], []
    for kind in ("insert", "update", "delete"):
        with monkeypatch.context() as patched:
            # Each writer has another clock.
            set_clock(patched.setattr, [error * (1 - len(newest)) for error in errors])
            newest.append(warehouse.change(changes(warehouse.t)[kind][0]).write_ids[warehouse.t])
        times.append(clock())
    first = version_at(warehouse, times[0])
    for reader in ([timedelta()], errors):
        with monkeypatch.context() as patched:
            set_clock(patched.setattr, reader)
            assert [version_at(warehouse, each) for each in times] == [first, *newest]
    history = table_history(warehouse.client, TableRef.parse(warehouse.t))
    known = [each.time for each in history if each.write_id in newest][::-1]
    for before, own, after in zip(times, known, times[1:], strict=False):
        assert own is not None
        assert before.timestamp() < own <= after.timestamp()


@CLOCKS
def test_the_future_has_no_version(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, errors: Sequence[timedelta]
) -> None:
    warehouse.create("plain")
    set_clock(monkeypatch.setattr, errors)
    with pytest.raises(VersionUnknown, match="as it will be"):
        version_at(warehouse, datetime.now(UTC) + DAY)


@CLOCKS
def test_versions_before_a_drop_of_partitions_are_refused_from_its_time_on(
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    clock: Callable[[], datetime],
    errors: Sequence[timedelta],
) -> None:
    warehouse.create("partitioned")
    (name, *_) = warehouse.client.get_partition_names(TableRef.parse(warehouse.t))
    key, _, value = name.partition("=")
    drop = PartitionsJob(
        target=warehouse.t, action="drop", partitions=((KeyComparison(key, value),),)
    )
    before = clock()
    with monkeypatch.context() as patched:
        set_clock(patched.setattr, errors)
        change_partitions(warehouse.client, TableRef.parse(warehouse.t), warehouse.job(drop))
    with pytest.raises(VersionGone, match="dropped"):
        version_at(warehouse, before)
    assert version_at(warehouse, clock())
