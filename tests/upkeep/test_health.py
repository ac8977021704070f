"""The measurements of tables, and the conditions for listing a table again."""

import shutil
import socket
from datetime import UTC, datetime

import pytest

from hiveacid.errors import MetastoreUnreachable, TableNotFound
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import SIDECAR_FILE, Base, Delta
from hiveacid.rules.notes import WrittenFile, directory_note
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.health import HealthMeter
from tests.fakes.metastore import REAL_AND_FAKE
from tests.upkeep.acid_folders import AcidFolders

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
FILE_BYTES = len("no rows")
NUM_THRESHOLD = "compactorthreshold.hive.compactor.delta.num.threshold"


@pytest.fixture
def meter(client):
    return HealthMeter(client)


@pytest.fixture
def measure(meter, database):
    """The health of the only table of the database."""

    def measure():
        (health,) = meter.measure(database)
        return health

    return measure


@REAL_AND_FAKE
def test_a_table_has_all_its_figures(client, database, folders, meter):
    token = "nightly/scheduled__2026-01-02/merge/-1"
    for _ in range(12):
        folders.insert()
    folders.make(Delta(12, 12, 1, is_delete=True).name)
    with Transaction(
        client, targets=[Target(folders.ref, Operation.INSERT)], run_token=token, user="ann"
    ) as txn:
        (health,) = meter.measure(database)
    assert health.table == folders.ref.full_name
    assert (health.kind, health.partitions) == ("full_acid", 1)
    assert (health.deltas, health.max_deltas) == (13, 13)
    assert health.delta_bytes == 13 * FILE_BYTES
    assert health.delete_bytes == FILE_BYTES
    assert health.delete_ratio == round(1 / 13, 4)
    assert (health.base_bytes, health.base_written_at) == (0, None)
    assert health.oldest_txn is not None
    assert (health.oldest_txn.txn_id, health.oldest_txn.user) == (txn.txn_id, "ann")
    assert health.oldest_txn.run_token == token
    assert health.oldest_txn.host == socket.gethostname()[:33]
    assert health.oldest_txn.opened_at is not None
    assert abs(health.measured_at - health.oldest_txn.opened_at) < 600
    (need,) = health.needs
    assert (need["type"], need["deltas"]) == ("major", 13)
    assert health.verdict.startswith("13 deltas (limit 10)")
    assert (health.score, health.penalties[0].points) == (90, 10)
    assert health.error is None


@FAKE
def test_replaced_directories_wait_for_cleaning_and_disappear(folders, measure):
    for _ in range(3):
        folders.insert()
    before = measure()
    assert (before.obsolete_directories, before.deltas, before.score) == (0, 3, 100)
    # Too few for a decision: only its obsolete directories reveal it, later.
    folders.compact(Base(3))
    folders.insert()
    compacted = measure()
    assert (compacted.obsolete_directories, compacted.deltas) == (3, 1)
    assert compacted.obsolete_bytes == 3 * FILE_BYTES
    assert compacted.base_bytes == FILE_BYTES
    assert compacted.base_written_at is not None
    assert compacted.base_written_at <= compacted.measured_at
    assert [penalty.points for penalty in compacted.penalties] == [10, 10]
    folders.clean()
    # No write has happened meanwhile.
    cleaned = measure()
    assert (cleaned.retained_bytes, cleaned.retained_directories) == (0, 0)
    assert (cleaned.obsolete_directories, cleaned.obsolete_bytes) == (0, 0)


@FAKE
@pytest.mark.parametrize(
    ("partition", "parameters"), [(None, {}), ("p=1", {"hiveacid.retention": "7 days"})]
)
def test_directories_kept_for_earlier_versions_cost_no_points(
    client, database, measure, partition, parameters
):
    partitions = [partition] if partition else None
    folders = AcidFolders.create(client, f"{database}.r", partitions, parameters=parameters)
    old = [folders.insert(partition) for _ in range(3)]
    base = folders.compact(Base(3), partition)
    unknown = measure()
    assert (unknown.obsolete_directories, unknown.retained_directories) == (3, 0)
    told = {"replaces": old, "aborted": [], "time": datetime.now(UTC).isoformat()}
    note = directory_note(told, [WrittenFile("bucket_00000", 0, FILE_BYTES)])
    (folders.root / (partition or "") / base / SIDECAR_FILE).write_bytes(note)
    kept = measure()
    assert (kept.obsolete_directories, kept.obsolete_bytes) == (0, 0)
    assert (kept.retained_directories, kept.retained_bytes) == (3, 3 * FILE_BYTES)
    assert (kept.score, kept.penalties) == (100, ())
    assert {one.retained for one in folders.clean(dry_run=True).kept} == {True}


@FAKE
def test_a_table_without_writes_is_not_listed_again(folders, measure):
    folders.insert()
    first = measure()
    shutil.rmtree(folders.root)
    second = measure()
    assert (second.deltas, second.delta_bytes) == (first.deltas, first.delta_bytes) == (1, 7)
    assert second.measured_at > first.measured_at
    folders.insert()
    assert measure().deltas == 1


@FAKE4
def test_a_request_in_the_queue_lets_the_table_be_listed_again(client, folders, measure):
    queue = CompactionQueue(client)
    for _ in range(2):
        folders.insert()
    assert measure().queue == ()
    queue.request(folders.ref, None, CompactionType.MAJOR)
    (waiting,) = measure().queue
    assert (waiting.state, waiting.type, waiting.unfinished) == ("initiated", "major", True)
    claimed = queue.claim("somebody")
    folders.compact(Base(2))
    queue.compacted(claimed)
    done = measure()
    assert (done.deltas, done.obsolete_directories) == (0, 2)
    assert [entry.state for entry in done.queue] == ["ready for cleaning"]


@FAKE4
def test_a_failed_compaction_stays_until_the_next_one(client, folders, measure):
    queue = CompactionQueue(client)
    folders.insert()
    queue.request(folders.ref, None, CompactionType.MAJOR)
    queue.failed(queue.claim("somebody"), "no space left")
    health = measure()
    (failed,) = health.queue
    assert (failed.state, failed.error, failed.unfinished) == ("failed", "no space left", False)
    assert health.score == 90
    assert "no space left" in health.penalties[0].reason
    queue.request(folders.ref, None, CompactionType.MAJOR)
    assert [entry.state for entry in measure().queue] == ["initiated"]


@FAKE
def test_partitions_are_added_up_and_the_worst_one_counts(client, database, meter):
    parted = AcidFolders.create(client, f"{database}.parted", ["p=1", "p=2", "p=3"])
    for partition, deltas in (("p=1", 11), ("p=2", 12), ("p=3", 1)):
        for _ in range(deltas):
            parted.insert(partition)
    (health,) = meter.measure(database)
    assert (health.partitions, health.deltas, health.max_deltas) == (3, 24, 12)
    assert [need["partition"] for need in health.needs] == ["p=2", "p=1"]
    assert health.verdict.startswith("12 deltas (limit 10)")
    assert "worth it in 2 of 3 partitions, first of all in p=2." in health.verdict


@FAKE
def test_a_table_has_thresholds_of_its_own(client, database, meter):
    strict = AcidFolders.create(client, f"{database}.strict", parameters={NUM_THRESHOLD: "1"})
    for _ in range(2):
        strict.insert()
    (health,) = meter.measure(database)
    assert len(health.needs) == 1
    assert health.score == 80  # Twice the limit.


@FAKE
def test_an_insert_only_table_is_measured_too(client, database, meter):
    only = AcidFolders.create(client, f"{database}.only", kind=TableKind.INSERT_ONLY)
    only.insert()
    (health,) = meter.measure(database)
    assert (health.kind, health.deltas, health.score) == ("insert_only", 1, 100)
    assert "insert-only" not in health.verdict
    assert health.needs == ()


@FAKE
def test_a_table_that_cannot_be_measured_does_not_stop_the_others(client, database, meter):
    good = AcidFolders.create(client, f"{database}.good")
    odd = AcidFolders.create(client, f"{database}.odd", parameters={NUM_THRESHOLD: "many"})
    broken = AcidFolders.create(client, f"{database}.broken")
    broken.make("delta_1_x")
    for table in (good, odd):
        table.insert()
    client.create_table(
        type(good.table).new(
            type(good.ref)(database, "plain"), good.table.columns, kind=TableKind.NOT_ACID
        )
    )
    healths = {health.table.partition(".")[2]: health for health in meter.measure(database)}
    assert list(healths) == ["broken", "good", "odd"]
    assert (healths["good"].score, healths["good"].error) == (100, None)
    assert healths["odd"].error is not None
    assert (healths["odd"].error.id, healths["odd"].score) == ("InvalidJob", 0)
    assert healths["broken"].error is None
    assert healths["broken"].score == 40
    assert healths["broken"].penalties[0].reason.startswith("The name 'delta_1_x' cannot be read")


@FAKE
def test_some_tables_are_measured_by_name(client, database, folders, meter):
    AcidFolders.create(client, f"{database}.other")
    (health,) = meter.measure(tables=[folders.ref.full_name])
    assert health.table == folders.ref.full_name
    (missing,) = meter.measure(tables=[f"{database}.missing"])
    assert missing.error is not None
    assert missing.error.id == "TableNotFound"


@FAKE
def test_a_database_that_is_not_there_is_an_error(client, meter):
    with pytest.raises(TableNotFound, match="nowhere"):
        list(meter.measure("nowhere"))


def test_a_metastore_that_is_not_there_is_an_error():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # It does not listen, and no other process can.
        uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        meter = HealthMeter(MetastoreClient(MetastoreOptions(uris=uri)))
        with pytest.raises(MetastoreUnreachable):
            list(meter.measure())
