"""The calls by which a client gets to know a metastore."""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.thrift import session
from hiveacid.parser.script import to_jobs
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.vendors.profiles import PROFILES, Profile
from tests.vendors.proxy import VendorMetastore

pytestmark = pytest.mark.sampled(2)
MOST_PROBES = 15
APACHE = {
    version: Profile(f"apache-{version}", version, (), True) for version in ("4.0.1", "3.1.3")
}
VENDORS = {name: each for name, each in PROFILES.items() if each.rules}
# They depend on the speed of the machine.
TIMED = ("heartbeat", "heartbeat_txn_range", "check_lock", "show_locks")
# A new connection needs so many calls: the release, or two calls instead, and the user.
INTRODUCTION = {"4.0.1": 2, "3.1.3": 3}


@pytest.fixture
def database(kind: str, profile: Profile, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database, which no client of the proxy has seen."""
    metastore = request.getfixturevalue(f"{kind}{profile.apache[0]}")
    with MetastoreClient(metastore.options) as client:
        client.create_database("test_calls")
        yield "test_calls"
        client.drop_database("test_calls", cascade=True)


@pytest.fixture
def metastore(
    kind: str,
    profile: Profile,
    database: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[VendorMetastore]:
    """A metastore that no client has asked yet."""
    # An earlier proxy may have had the same port.
    monkeypatch.setattr(session, "_IDENTIFIED", {})
    monkeypatch.setattr(session, "_FEATURES", {})
    behind = request.getfixturevalue(f"{kind}{profile.apache[0]}")
    with VendorMetastore(profile, behind) as metastore:
        yield metastore


def work(metastore: VendorMetastore, database: str, name: str) -> Counter[str]:
    """Do all kinds of work on a new table by a new client.

    Returns:
        The number of calls by name.
    """
    before = len(metastore.asked)
    with MetastoreClient(metastore.options) as client:
        ref = TableRef(database, name)
        client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
        with AcidTable(str(ref), client.options, run_in="worker") as table:
            table.append(pa.table({"id": [1]}))
            table.delete("id = 1")
        for job in to_jobs(f"ALTER TABLE {ref} SET TBLPROPERTIES ('a' = 'b')"):
            run_ddl(client, job)
        all_constraints(client, ref)
        compaction = CompactJob(target=str(ref), type="major", metastore=client.options)
        with WorkerScheduler() as scheduler:
            assert TableCompactor(scheduler, client, compaction).run().error is None
    names = (call.name for call in metastore.asked[before:])
    return Counter(name for name in names if name not in TIMED)


@pytest.mark.parametrize("profile", VENDORS.values(), ids=VENDORS)
def test_a_vendors_metastore_is_probed_once_by_few_calls(
    metastore: VendorMetastore, database: str
) -> None:
    first, second = work(metastore, database, "one"), work(metastore, database, "two")
    assert 0 < (first - second).total() <= MOST_PROBES
    assert not second - first


@pytest.mark.parametrize("profile", APACHE.values(), ids=APACHE)
def test_an_apache_metastore_is_known_without_a_probe(
    metastore: VendorMetastore, database: str
) -> None:
    with MetastoreClient(metastore.options) as client:
        client.get_databases()
    assert len(metastore.asked) == INTRODUCTION[metastore.version] + 1
    assert work(metastore, database, "one") == work(metastore, database, "two")


@pytest.mark.parametrize("profile", VENDORS.values(), ids=VENDORS)
def test_a_probe_leaves_no_entry_lock_or_transaction(
    metastore: VendorMetastore, database: str
) -> None:
    with MetastoreClient(metastore.behind.options) as apache:
        ref, queue = TableRef(database, "t"), CompactionQueue(apache)
        apache.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
        queue.request(ref, None, CompactionType.MAJOR)

        def state() -> list[object]:
            txns = [txn.txn_id for txn in apache.get_open_txns_info()]
            return [queue.show(), apache.show_locks(), txns, apache.get_databases()]

        before = state()
        with MetastoreClient(metastore.options) as client:
            all_constraints(client, ref)
            CompactionQueue(client).live(ref)
        assert state() == before
