"""The lineage of a run, as OpenLineage receives it."""

import json
import os
import subprocess
from urllib.parse import urlsplit

import pytest
from dbt.adapters.hiveacid.lineage import namespace
from dbt.tests.util import run_dbt

TASK = "01890a5d-ac96-774b-bcce-b302099a8057"


class TestLineage:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "raw.sql": "{{ config(materialized='view') }} select 1 as id, 2.5 as paid",
            "orders.sql": "{{ config(materialized='table') }}"
            " select id as order_id, paid as amount from {{ ref('raw') }}",
        }

    def test_an_event_names_the_tables_and_columns_of_a_model(self, project, metastore, tmp_path):
        run_dbt(["run"])
        received = tmp_path / "events"
        subprocess.run(
            ["dbt-ol-hiveacid", "send-events", "--project-dir", str(project.project_root)],
            env=os.environ
            | {
                "OPENLINEAGE__TRANSPORT__TYPE": "file",
                "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(received),
                "OPENLINEAGE__TRANSPORT__APPEND": "true",
                "OPENLINEAGE_PARENT_ID": f"airflow/shop.build/{TASK}",
            },
            check=True,
        )
        events = [json.loads(line) for line in received.read_text().splitlines()]
        (event,) = (
            each
            for each in events
            if each["eventType"] == "COMPLETE" and ".orders" in each["job"]["name"]
        )
        schema = project.test_schema
        tables = f"hive://{urlsplit(metastore.uri).netloc}"
        (read,), (written,) = event["inputs"], event["outputs"]
        assert (read["namespace"], read["name"]) == (tables, f"{schema}.raw")
        assert (written["namespace"], written["name"]) == (tables, f"{schema}.orders")
        assert {
            column: [(origin["name"], origin["field"]) for origin in origins["inputFields"]]
            for column, origins in written["facets"]["columnLineage"]["fields"].items()
        } == {"order_id": [(f"{schema}.raw", "id")], "amount": [(f"{schema}.raw", "paid")]}
        assert event["job"]["facets"]["sql"]["dialect"] == "spark"
        assert event["run"]["facets"]["parent"]["root"]["run"]["runId"] == TASK


@pytest.mark.parametrize(
    ("metastore", "name"),
    [
        ("thrift://HMS-1:9083", "hms-1:9083"),
        ("thrift://hms-1:9083,thrift://hms-2:9083", "hms-1:9083"),
        ({"uris": "thrift://hms-1:9083", "connect_timeout_seconds": 5}, "hms-1:9083"),
        ("https://gateway/metastore", "gateway:443"),
        ("thrift://[::1]:9083", "[::1]:9083"),
    ],
)
def test_tables_have_the_namespace_of_the_first_server(metastore, name):
    assert namespace({"schema": "shop", "metastore": metastore}) == f"hive://{name}"
