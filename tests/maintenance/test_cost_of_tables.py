"""The cost of a survey in the metastore depends on the written tables, not on all of them."""

from collections import Counter

import pytest

from airflow_hiveacid.acid.compaction_policy import CompactionPolicy
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.maintenance import health
from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll
from airflow_hiveacid.maintenance.health import HealthMeter
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.maintenance.acid_folders import AcidFolders
from tests.metastore_calls import counted_calls

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@FAKES
def test_unwritten_tables_cost_no_call(hms, client, database):
    tables = [AcidFolders.create(client, f"{database}.t{number}") for number in range(5)]
    for table in tables:
        table.insert()
    few = _calls_of_looks(hms, database, tables)
    for number in range(5, 15):
        AcidFolders.create(client, f"{database}.t{number}").insert()
    many = _calls_of_looks(hms, database, tables)
    assert few == many


def _calls_of_looks(hms, database: str, tables: list[AcidFolders]) -> list[Counter[str]]:
    """Of a first look at all tables, of one when none was written, and of one after a write."""
    seen = []
    with MetastoreClient(hms.options) as client:
        poll, meter = CompactionPoll(hms.options, CompactionPolicy()), HealthMeter(client)
        for written in (False, False, True):
            if written:
                tables[2].insert()
            with counted_calls() as calls:
                poll.survey([f"{database}.*"])
                list(meter.measure(database))
            seen.append(calls)
    return seen


@FAKES
def test_the_first_tables_are_measured_before_others_are_described(
    hms, client, database, monkeypatch
):
    monkeypatch.setattr(health, "TABLES_PER_CALL", 2)
    for number in range(5):
        AcidFolders.create(client, f"{database}.t{number}").insert()
    names = [f"{database}.t{number}" for number in range(5)]
    with MetastoreClient(hms.options) as other:
        measured = HealthMeter(other).measure(database)
        with counted_calls() as calls:
            assert next(measured).table == names[0]
        assert calls["get_table_objects_by_name_req"] == 1
        with counted_calls() as calls:
            assert [each.table for each in measured] == names[1:]
        assert calls["get_table_objects_by_name_req"] == 2
        # Asked once, for all tables.
        assert not calls["show_compact"]
        assert not calls["show_locks"]


@FAKES
def test_a_cleaning_asks_no_more_of_a_table_with_more_partitions(hms, client, database):
    seen = []
    for count in (4, 8):
        names = [f"p={number}" for number in range(count)]
        folders = AcidFolders.create(client, f"{database}.t{count}", names)
        for _ in range(2):
            folders.insert("p=1")
        with counted_calls() as calls:
            clean(client, CleanJob(target=folders.ref.full_name, partitions=("p=1",)))
            clean(client, CleanJob(target=folders.ref.full_name))
        client.drop_table(folders.ref)  # Its partitions would be compared with those of the next.
        seen.append(calls)
    assert seen[0] == seen[1]
