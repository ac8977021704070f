"""A worker of the queue claims no request of a table that it may not compact."""

import pytest

from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import INITIATED, CompactionQueue
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable, twelve_deltas
from tests.contract.compactions import needs_pools

pytestmark = [pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True), needs_pools]


def refuse_secret(*, table: str, **_: object) -> bool:
    return not table.endswith(".secret")


@pytest.fixture
def tables(client: MetastoreClient, database: str) -> list[WrittenTable]:
    return [twelve_deltas(client, f"{database}.{name}") for name in ("own", "secret", "other")]


def served(client: MetastoreClient, table: WrittenTable) -> CompactReport:
    job = CompactJob(target=str(table.ref), mode="serve", metastore=client.options)
    with WorkerScheduler() as scheduler:
        return TableCompactor(scheduler, client, job).run()


def test_a_refused_request_is_not_claimed(
    client: MetastoreClient, tables: list[WrittenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_secret")
    own, secret, other = tables
    queue = CompactionQueue(client)
    for table in (other, secret, own):
        queue.request(table.ref, None, CompactionType.MAJOR)
    before = secret.directories()
    report = served(client, own)
    assert [each.outcome for each in report.partitions] == ["compacted", "failed"]
    assert report.error is not None
    assert report.error.id == "AccessRefused"
    assert secret.directories() == before
    assert [each.state for each in queue.show(secret.ref)] == [INITIATED]
    monkeypatch.delenv("AIRFLOW__HIVE_ACID__AUTHORIZER")
    assert [each.outcome for each in served(client, own).partitions] == ["compacted"] * 2


def test_the_request_of_a_missing_table_fails_and_the_next_one_is_served(
    client: MetastoreClient, tables: list[WrittenTable]
) -> None:
    own, *_ = tables
    queue = CompactionQueue(client)
    for ref in (TableRef(own.ref.database, "missing"), own.ref):
        queue.request(ref, None, CompactionType.MAJOR)
    report = served(client, own)
    assert [each.outcome for each in report.partitions] == ["failed", "compacted"]
    assert queue.waiting(None, None) is None
