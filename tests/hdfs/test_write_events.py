"""Write events of tables on HDFS have the checksums by which Hive finds removed files."""

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from tests.engine.acid_tables import create
from tests.fakes.metastore import FakeMetastore
from tests.places import path_on_hdfs

pytestmark = pytest.mark.hdfs


def test_events_have_the_checksums_of_hdfs(spark, hdfs, hdfs_folder, tmp_path):
    with (
        FakeMetastore("4.0.1", directory=tmp_path, location=hdfs_folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        metastore.settings["hive.metastore.transactional.event.listeners"] = "org.example.Listener"
        client.create_database("db")
        create(client, "db.t", {"id": "int"}, {"day": "string"})
        with AcidTable("db.t", metastore.uri, spark=spark, run_in="spark") as table:
            table.append(spark.sql("select 1 id, 'a b/c%#' day union all select 2, null"))
            table.delete("id = 1")
        told = [file for files in metastore.write_events.events.values() for file in files]
        assert len(told) == 3
        for location, checksum, _ in told:
            assert checksum == hdfs.checksum(path_on_hdfs(location)), location
