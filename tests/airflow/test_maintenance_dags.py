"""The example DAGs that compact, by `airflow dags test` on a real metastore."""

import json
import re

import pytest

from airflow_hiveacid import AcidTable
from airflow_hiveacid.cluster.packaged import example_dags
from airflow_hiveacid.playground.local_airflow import LocalAirflow
from hiveacid.errors import JobFailed
from hiveacid.metastore.client import MetastoreClient
from tests.compaction.written_table import expected_rows, twelve_deltas
from tests.rows import rows_of
from tests.upkeep.acid_folders import AcidFolders

DELTAS = 12


@pytest.fixture(scope="module")
def airflow(hms4, tmp_path_factory):
    """An Airflow of its own; runs a DAG and returns its log."""
    airflow = LocalAirflow(
        tmp_path_factory.mktemp("airflow"),
        dags=example_dags(),
        metastore_uri=hms4.uri,
        master="local[2]",
    )
    airflow.run("db", "migrate")
    return airflow.run


@pytest.fixture(scope="module")
def shop(hms4, spark):
    """Two tables of twelve deltas each."""
    with MetastoreClient(hms4.options) as client:
        client.create_database("dag_shop")
        at_once = {"hiveacid.retention": "0"}
        tables = [
            AcidFolders.create(client, f"dag_shop.{name}", parameters=at_once)
            for name in ("orders", "visits")
        ]
        for folders in tables:
            with AcidTable(folders.ref.full_name, hms4.uri, spark=spark, run_in="spark") as table:
                for number in range(DELTAS):
                    table.append(spark.createDataFrame([(number,)], "id int").coalesce(1))
        yield tables
        client.drop_database("dag_shop", cascade=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dag", "number"), [("automatic_compaction", 0), ("event_driven_compaction", 1)]
)
def test_twelve_deltas_come_out_compacted_and_cleaned(dag, number, airflow, shop, hms4):
    table = shop[number]
    name = table.ref.full_name
    before, deltas = rows_of(hms4.uri, name), table.directories()
    assert len(deltas) == DELTAS
    log = airflow("dags", "test", dag, "--conf", json.dumps({"table": name}))
    (base,) = table.directories()
    assert re.fullmatch(rf"base_{DELTAS:07d}_v\d+", base)
    assert rows_of(hms4.uri, name) == before
    assert f"{name} needs a major compaction: {DELTAS} deltas (limit 10)" in log
    for delta in deltas:
        assert f"Removed {delta}" in log
    assert f"{base} holds its content." in log


def test_a_warehouse_is_maintained_although_a_table_is_corrupt(airflow, hms4):
    with MetastoreClient(hms4.options) as client:
        client.create_database("dag_warehouse")
        tables = [twelve_deltas(client, f"dag_warehouse.{name}") for name in ("a", "b", "corrupt")]
        next(tables[-1].root.rglob("bucket_00000")).write_bytes(b"no ORC file")
        options = json.dumps({"tables": "dag_warehouse.*"})
        with pytest.raises(JobFailed) as failed:
            airflow("dags", "test", "warehouse_maintenance", "--conf", options)
        for table in tables[:2]:
            assert len(table.directories()) == 1
            assert table.rows() == expected_rows()
        assert len(tables[-1].directories()) == DELTAS
        assert "1 of 3 tables failed (dag_warehouse.corrupt)" in str(failed.value)
        client.drop_database("dag_warehouse", cascade=True)
