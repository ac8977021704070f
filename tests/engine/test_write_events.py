"""The files that the engine's writes report to a metastore with listeners."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import MetastoreTroubled
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import NEVER
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import removal_identity
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep import table_cleaning
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import create, everything, files, folder, left_behind
from tests.metastore_calls import counted_calls

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

LISTENERS = "hive.metastore.transactional.event.listeners"
COLUMNS, DAY = {"id": "int", "v": "string"}, {"day": "string"}


@pytest.fixture
def listening(hms, monkeypatch):
    monkeypatch.setitem(hms.settings, LISTENERS, "org.example.Listener")


@pytest.fixture
def table(spark, hms, client, database, listening) -> Iterator[AcidTable]:
    create(client, f"{database}.t", COLUMNS, DAY)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as table:
        yield table


def rows(spark, *rows):
    return spark.createDataFrame(rows, "id int, v string, day string")


def data_files(client: MetastoreClient, table: AcidTable) -> set[str]:
    known = client.get_table(table.ref)
    hidden = ("_", ".")
    shown = [
        name
        for name in files(known)
        if not any(part.startswith(hidden) for part in Path(name).parts)
    ]
    return {str(folder(known) / name) for name in shown}


def reported(hms, txn_id: int) -> dict[tuple[str, ...], set[str]]:
    """The locations of the files in the events of a transaction, by the values of the partition."""
    found: dict[tuple[str, ...], set[str]] = {}
    for place, told in hms.write_events.events.items():
        if place.txn == txn_id:
            assert all(Path(location).parent.name == name for location, _, name in told)
            locations = {location.removeprefix("file:") for location, _, _ in told}
            found.setdefault((place.table, *place.values), set()).update(locations)
    return found


def test_every_kind_of_write_reports_its_files_and_no_others(spark, hms, client, table):
    def merge():
        source = rows(spark, (1, "m", "a b/c"), (9, "m", "new"))
        merge = table.merge(source, "t.id = s.id")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def version():
        return next(each.write_id for each in list(table.history())[1:] if each.write_id)

    writes: list[Callable] = [
        lambda: table.append(rows(spark, (1, "a", "a b/c"), (2, "b", None), (3, "c", "mon"))),
        lambda: table.update({"v": "'u'"}, "id < 3"),
        lambda: table.delete("id = 2"),
        merge,
        lambda: table.overwrite(rows(spark, (4, "o", "mon"))),
        lambda: table.truncate({"day": "mon"}),
        lambda: table.restore(version()),
    ]
    before = data_files(client, table)
    for write in writes:
        txn_id = write().txn_id
        after = data_files(client, table)
        told = reported(hms, txn_id)
        assert set().union(*told.values()) == after - before != set()
        root = str(folder(client.get_table(table.ref)))
        for values, locations in told.items():
            (partition,) = {location[len(root) + 1 :].split("/")[0] for location in locations}
            (known,) = client.get_partitions(client.get_table(table.ref), [partition])
            assert values == ("t", *known.raw.values)
        before = after


def test_a_partition_that_two_statements_write_has_one_event(spark, hms, client, database, table):
    create(client, f"{database}.log", COLUMNS, DAY, kind=TableKind.INSERT_ONLY)
    table.append(rows(spark, (1, "a", "mon")))
    with AcidTransaction(hms.uri, spark=spark, run_in="spark") as txn:
        txn.table(table.ref.full_name).append(rows(spark, (2, "b", "mon")))
        txn.table(table.ref.full_name).delete("id = 1")
        txn.table(f"{database}.log").append(rows(spark, (3, "c", "tue")))
    told = reported(hms, txn.report.txn_id)
    assert {key: len(locations) for key, locations in told.items()} == {
        ("t", "mon"): 2,
        ("log", "tue"): 1,
    }
    assert {Path(location).parent.name.split("_")[0] for location in told["t", "mon"]} == {
        "delta",
        "delete",
    }


def test_a_write_without_files_reports_none(hms, spark, table):
    table.append(rows(spark, (1, "a", "mon")))
    with counted_calls() as calls:
        report = table.delete("id = 7")
    assert not report.files
    assert not [name for name in calls if "notification" in name]


def test_without_listeners_a_write_costs_no_further_call(spark, hms, client, database):
    create(client, f"{database}.t", COLUMNS, DAY)
    seen = []
    for options in (client.options, replace(client.options, write_events=NEVER)):
        with AcidTable(f"{database}.t", options, spark=spark, run_in="spark") as table:
            table.append(rows(spark, (1, "a", "mon")))
            with counted_calls() as calls:
                table.append(rows(spark, (2, "b", "mon")))
        seen.append({name: count for name, count in calls.items() if name != "heartbeat_txn_range"})
    assert seen[0] == seen[1]


def test_a_refused_event_undoes_the_write(spark, hms, client, table):
    table.append(rows(spark, (1, "a", "mon")))
    before = everything(client.get_table(table.ref))
    hms.write_events.refused = 1
    with pytest.raises(MetastoreTroubled, match="add_write_notification_log_in_batch"):
        table.append(rows(spark, (2, "b", "mon")))
    assert everything(client.get_table(table.ref)) == before
    assert left_behind(client) == []
    table.append(rows(spark, (3, "c", "mon")))
    assert sorted(row.id for row in table.to_df().collect()) == [1, 3]


def test_a_second_commit_reports_the_files_that_it_publishes(spark, hms, client, table):
    hms.write_events.refused = 1
    options = WriteOptions(run_token="d/1/t/-1")
    with AcidTable(
        table.ref.full_name, hms.uri, spark=spark, run_in="spark", options=options
    ) as retried:
        report = retried.append(rows(spark, (2, "b", "mon")))
    assert report.commit_retry is not None
    told = reported(hms, report.txn_id)
    assert told == {("t", "mon"): data_files(client, table)}
    assert reported(hms, report.commit_retry.txn_id) == {}


@pytest.mark.parametrize(("policy", "checksums"), [("1", True), ("", True), ("1", False)])
def test_a_cleaning_keeps_files_that_the_next_dump_can_find(
    spark, hms, client, policy, checksums, monkeypatch, request
):
    if checksums:
        # As on HDFS, without having one.
        monkeypatch.setattr(table_cleaning, "keeps_checksums", lambda _: True)
    database = f"replicated_{policy or 'not'}_{int(checksums)}"
    client.create_database(database, parameters={"repl.source.for": policy})
    request.addfinalizer(lambda: client.drop_database(database, cascade=True))
    known = create(client, f"{database}.t", COLUMNS, DAY)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as table:
        for number in range(3):
            table.append(rows(spark, (number, "a", "a b")))
        table.compact("major")
    removed = clean(client, CleanJob(target=f"{database}.t", retention="0")).removed
    directories = {f"{known.folder}/{each.path}" for each in removed}
    deltas = {each for each in directories if "/delta_" in each}
    assert len(deltas) == 3
    # The metastore finds a kept file by its name and its checksum, not by its folder.
    kept = {
        "/".join(part for part in each.split("/") if removal_identity(part) is None)
        for each in hms.write_events.recycled
        if each.startswith(f"{known.folder}/")
    }
    assert kept == (deltas if policy and checksums else set())
