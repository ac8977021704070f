"""The number of rows in the metastore: unknown from the first write on, so it is never wrong."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from tests.engine.acid_tables import create
from tests.observers import At

PROMISED = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "7"}


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def test_no_write_leaves_a_number_behind_and_later_ones_change_no_definition(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "counted")
    # As Hive leaves it.
    create(client, ref.full_name, {"id": "bigint"}, parameters=PROMISED)
    rows = spark.range(5)
    observers = [At(Phase.COMMIT, stop)]
    stopped = AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark", observers=observers)
    with stopped, pytest.raises(Stopped):
        stopped.append(rows)
    forgotten = client.get_table(ref)
    assert forgotten.parameters["numRows"] == ""
    assert "COLUMN_STATS_ACCURATE" not in forgotten.parameters

    with AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(rows)
        table.delete("id = 1")
        table.overwrite(rows)
    assert client.get_table(ref).raw == forgotten.raw
