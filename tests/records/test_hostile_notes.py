"""Locations in forged notes on runs are reported, and never opened."""

import json

import pytest

from hiveacid.errors import UnprovenRun
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.table_history import table_history
from tests.fakes.metastore import REAL_AND_FAKE
from tests.records.forged_notes import RUN, forge_note
from tests.silent_host import silent_host
from tests.upkeep.acid_folders import AcidFolders

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def host():
    with silent_host() as host:
        yield host


@pytest.fixture
def table(client, database, tmp_path):
    table = AcidFolders.create(client, f"{database}.t", ["p=1"])
    table.add("p=2", location=f"file:{tmp_path}/elsewhere")
    return table


@FAKES
def test_a_host_in_a_note_is_never_connected_to(client, table, host):
    note = forge_note(table, f"{host.url}/warehouse")
    with pytest.raises(UnprovenRun, match=f"{host.url}/warehouse/delta_.*neither"):
        EarlierAttempts(client, [table.ref], RUN).end()
    report = table.clean()
    assert [(kept.path, host.url in kept.reason) for kept in report.kept] == [(note.path, True)]
    assert [txn for txn in client.get_open_txns_info() if txn.state is TxnState.OPEN] == []
    table_history(client, table.ref)
    assert host.connections == []


@FAKES
@pytest.mark.parametrize("location", ["/etc", "file:/etc", "../other", "p=1/../../other", "p=3:/x"])
def test_a_directory_outside_of_the_table_proves_nothing(client, table, location):
    forge_note(table, location)
    with pytest.raises(UnprovenRun, match="neither in the table nor in one of its partitions"):
        EarlierAttempts(client, [table.ref], RUN).end()


@REAL_AND_FAKE
@pytest.mark.parametrize("slashes", ["", "//"])
def test_a_directory_of_a_partition_elsewhere_proves_a_run(client, table, tmp_path, slashes):
    elsewhere = tmp_path / "elsewhere"
    note = forge_note(table, f"file:{slashes}{elsewhere}")
    directory = elsewhere / note.note.directories[0].rpartition("/")[2]
    directory.mkdir(parents=True)
    sidecar = {"format": 1, "txn_id": note.name.txn_id, "files": {}}
    (directory / "_hiveacid.json").write_text(json.dumps(sidecar))
    with pytest.raises(AlreadyApplied):
        EarlierAttempts(client, [table.ref], RUN).end()
