"""Write events, held against the real metastores with a listener, and the fake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hiveacid.errors import MetastoreTroubled, UnsupportedMetastore
from hiveacid.jobs.options import ALWAYS, NEVER
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.metastore.write_events import AddedFile, AddedFiles, add_write_events, recycle
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import counted_calls
from tests.notifications.listener import StoredEvent, listener, listening, stored_events
from tests.versions import REAL, REAL_4, VERSIONS

DAY = (HiveColumn("day", "string"),)
# More than a batch.
PARTITIONS = 501
DELTA, DELETES = "delta_0000001_0000001_0000", "delete_delta_0000001_0000001_0000"


def metastore_with_listener(version: str, folder: Path) -> EmbeddedMetastore:
    return EmbeddedMetastore(
        version,
        directory=folder / "hms",
        settings=listening(version),
        libraries=listener(version, folder),
    )


@pytest.fixture
def with_listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetastoreClient]:
    """A client of a metastore that logs events."""
    metastore = metastore_with_listener(request.param, tmp_path)
    with metastore, MetastoreClient(metastore.options) as client:
        yield client


def real(*versions: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on real metastores with a listener."""
    each = pytest.mark.parametrize("with_listener", versions, indirect=True)
    return lambda test: pytest.mark.server(each(test))


def create(client: MetastoreClient, database: str, *keys: HiveColumn, name: str = "t") -> HiveTable:
    ref = TableRef(database, name)
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys))
    return client.get_table(ref)


def begin(client: MetastoreClient, table: HiveTable) -> Transaction:
    target = Target(table.ref, Operation.INSERT, bool(table.partition_keys), None)
    return Transaction(client, targets=[target], lock_wait_seconds=0)


def added(partition: HivePartition | None, *names: str, checksum: str = "") -> AddedFiles:
    root = "file:/w" if partition is None else partition.folder
    return AddedFiles(
        partition,
        [AddedFile(f"{root}/{name}", name.split("/")[0], checksum) for name in names],
    )


def make_files(partitions: Sequence[HivePartition]) -> None:
    for partition in partitions:
        path = Path(partition.folder.removeprefix("file:"), DELTA, "bucket_00000")
        path.parent.mkdir(parents=True)
        path.touch()


def without_batches(find: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda name: None if name.endswith("_in_batch") else find(name)


class Reported(NamedTuple):
    """What was reported of a table, and the events that the metastore has stored of it."""

    txn: int
    events: Sequence[AddedFiles]
    calls: Mapping[str, int]
    stored: Sequence[StoredEvent] = ()


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Reported]:
    """The writes of several tables, whose stored events can only be read after the metastore's end."""
    folder = tmp_path_factory.mktemp("reported")
    metastore = metastore_with_listener("4.0.1", folder)
    with metastore, MetastoreClient(metastore.options) as client:
        tables = {
            "days": report_days(client),
            "again": report_again(client),
            "many": report_many(client),
        }
        stored = stored_events(metastore, folder / "hms")
    return {
        name: done._replace(stored=[event for event in stored if event.table == name])
        for name, done in tables.items()
    }


def report(
    client: MetastoreClient, table: HiveTable, parts: Sequence[Sequence[AddedFiles]]
) -> Reported:
    """Report the files of one write in one or several steps."""
    with begin(client, table) as txn, counted_calls() as calls:
        for part in parts:
            add_write_events(client, table, txn.txn_id, 1, part)
        txn.commit()
    return Reported(txn.txn_id, [event for part in parts for event in part], dict(calls))


def report_days(client: MetastoreClient) -> Reported:
    table = create(client, "default", *DAY, name="days")
    days = [HivePartition.new(table, [day]) for day in ("a b/c=d:%#]", "é", None)]
    client.add_partitions(table.ref, days)
    files = [f"{DELTA}/bucket_00000", f"{DELETES}/bucket_00000"]
    partitions = client.get_partitions(table)
    return report(client, table, [[added(each, *files, checksum="ab12") for each in partitions]])


def report_again(client: MetastoreClient) -> Reported:
    table = create(client, "default", name="again")
    one, other = (added(None, f"{DELTA}/bucket_0000{number}") for number in range(2))
    return report(client, table, [[one], [one], [other], [one]])


def report_many(client: MetastoreClient) -> Reported:
    table = create(client, "default", *DAY, name="many")
    # Derby overflows its stack when many are added at once.
    for first in range(0, PARTITIONS, 100):
        numbers = range(first, min(first + 100, PARTITIONS))
        client.add_partitions(table.ref, [HivePartition.new(table, [str(n)]) for n in numbers])
    partitions = client.get_partitions(table)
    return report(client, table, [[added(each, f"{DELTA}/bucket_00000") for each in partitions]])


@pytest.mark.server
def test_the_metastore_stores_one_event_for_each_partition(reported):
    days = reported["days"]
    assert {(each.txn, each.write_id) for each in days.stored} == {(days.txn, 1)}
    assert {each.partition: {file[0] for file in each.files} for each in days.stored} == {
        event.partition.name: {file.location for file in event.files} for event in days.events
    }
    for event in days.stored:
        # Without a folder for removed files the metastore keeps no checksum.
        assert [directory for _, _, directory in event.files] == [DELTA, DELETES]


@pytest.mark.server
def test_an_event_that_is_sent_again_changes_nothing(reported):
    again = reported["again"]
    (event,) = again.stored
    locations = [location for location, _, _ in event.files]
    assert sorted(locations) == sorted({each.files[0].location for each in again.events})
    assert event.partition == ""


@pytest.mark.server
def test_events_of_many_partitions_are_sent_in_batches(reported):
    many = reported["many"]
    assert many.calls.get("add_write_notification_log", 0) == 0
    assert many.calls["add_write_notification_log_in_batch"] == 2
    assert {each.partition for each in many.stored} == {f"day={n}" for n in range(PARTITIONS)}


@real(*VERSIONS)
def test_a_metastore_with_a_listener_receives_writes(with_listener):
    client = with_listener
    with counted_calls() as calls:
        assert client.listeners.want_events
        assert client.listeners.want_events
    assert calls["get_config_value"] == 1
    with MetastoreClient(replace(client.options, write_events=NEVER)) as silent:
        assert not silent.listeners.want_events


@REAL_AND_FAKE
def test_a_metastore_without_listeners_is_asked_once(client):
    with counted_calls() as calls:
        assert not client.listeners.want_events
        asked = dict(calls)
        assert not client.listeners.want_events
    assert dict(calls) == asked == {"get_config_value": 2}
    with (
        MetastoreClient(replace(client.options, write_events=ALWAYS)) as wanted,
        counted_calls() as calls,
    ):
        assert wanted.listeners.want_events
    assert not calls


@real("3.1.3")
def test_hive_3_has_no_write_events(with_listener):
    client = with_listener
    plain, days = create(client, "default"), create(client, "default", *DAY, name="days")
    client.add_partitions(days.ref, [HivePartition.new(days, ["1"])])
    event = added(None, f"{DELTA}/bucket_00000")
    events = [
        added(each, f"{DELTA}/bucket_00000")
        for each in client.get_partitions(client.get_table(days.ref))
    ]
    with begin(client, plain) as txn, counted_calls() as calls:
        for _ in range(2):
            add_write_events(client, plain, txn.txn_id, 1, [event])
            add_write_events(client, days, txn.txn_id, 1, events)
        txn.commit()
    asked = {name: count for name, count in calls.items() if "notification" in name}
    assert asked == {"add_write_notification_log": 1, "add_write_notification_log_in_batch": 1}
    with (
        MetastoreClient(replace(client.options, write_events=ALWAYS)) as wanted,
        begin(client, plain) as txn,
        pytest.raises(UnsupportedMetastore, match="no write events"),
    ):
        add_write_events(wanted, plain, txn.txn_id, 2, [event])


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_metastore_without_batches_takes_single_events(hms, client, database, monkeypatch):
    monkeypatch.setattr(hms, "find", without_batches(hms.find))
    table = create(client, database, *DAY)
    client.add_partitions(table.ref, [HivePartition.new(table, [str(n)]) for n in range(3)])
    partitions = client.get_partitions(table)
    make_files(partitions)
    with begin(client, table) as txn:
        events = [added(each, f"{DELTA}/bucket_00000") for each in partitions]
        add_write_events(client, table, txn.txn_id, 1, events)
        txn.commit()
    reported = [place for place in hms.write_events.events if place.database == database]
    assert {place.values for place in reported} == {("0",), ("1",), ("2",)}


@pytest.mark.parametrize("hms", [*REAL_4, "fake 4.0.1"], indirect=True)
def test_a_metastore_without_listeners_takes_events(hms, client, database):
    table = create(client, database, *DAY)
    client.add_partitions(table.ref, [HivePartition.new(table, [str(n)]) for n in range(3)])
    partitions = client.get_partitions(table)
    make_files(partitions)
    with begin(client, table) as txn:
        events = [added(each, f"{DELTA}/bucket_00000") for each in partitions]
        add_write_events(client, table, txn.txn_id, 1, events)
        txn.commit()


@pytest.mark.server
@pytest.mark.parametrize("version", REAL)
def test_the_metastore_keeps_removed_files_for_the_next_dump(version, tmp_path):
    kept, delta = tmp_path / "kept", tmp_path / "t" / DELTA
    settings = {
        "metastore.repl.cm.enabled": "true",
        "metastore.repl.cmrootdir": kept.as_uri(),
        "hive.repl.cm.enabled": "true",
        "hive.repl.cmrootdir": kept.as_uri(),
    }
    metastore = EmbeddedMetastore(version, directory=tmp_path / "hms", settings=settings)
    with metastore, MetastoreClient(metastore.options) as client:
        delta.mkdir(parents=True)
        (delta / "bucket_00000").write_bytes(b"rows")
        for _ in range(2):
            recycle(client, f"file:{delta}")
        assert [*delta.iterdir()] == []
        (file,) = [path for path in kept.rglob("bucket_00000*") if path.is_file()]
        assert file.read_bytes() == b"rows"


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_dml_events_in_the_metastore_s_configuration_are_enough(hms, client, monkeypatch):
    monkeypatch.setitem(hms.settings, "hive.metastore.dml.events", "True")
    assert client.listeners.want_events


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_failure_to_answer_is_no_answer(hms, client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(getattr(hms, "behind", hms), "settings", None)
        with pytest.raises(MetastoreTroubled):
            _ = client.listeners.want_events
    monkeypatch.setitem(hms.settings, "hive.metastore.dml.events", "true")
    assert client.listeners.want_events
