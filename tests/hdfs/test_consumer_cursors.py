"""Cursors of consumers in the folder of a table on HDFS."""

import pytest

from hiveacid.errors import PositionMismatch
from hiveacid.records.consumers import Consumer, consumer_versions, forget_consumer
from hiveacid.storage.folder import Storage
from tests.faults.operations import Tables

pytestmark = pytest.mark.hdfs


def test_a_cursor_moves_on_and_belongs_to_one_target(tables: Tables) -> None:
    client, ref = tables.client, tables.main

    def consumer(target: str = "d.copy") -> Consumer:
        return Consumer(client, ref.full_name, "log", [target])

    one, slow, other = consumer(), consumer(), consumer("d.other")
    one.begin(0)
    consumer().begin(1)
    slow.begin(1)
    with pytest.raises(PositionMismatch):
        other.begin(0)
    one.advance(3)
    slow.advance(2)
    table = client.get_table(ref)
    assert (consumer().after, consumer_versions(table)) == (3, {"log": 3})
    files = Storage.of(table.folder).list_files("_hiveacid_consumers", recursive=True)
    assert [file.path for file in files] == ["log/3.json"]
    assert forget_consumer(client, ref, "log")
    assert consumer("d.other").after is None
