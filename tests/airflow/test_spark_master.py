import json

import pytest
from airflow.sdk import Connection

from airflow_hiveacid.cluster.spark_master import require_master
from hiveacid.errors import ClusterUnreachable, InvalidConnection
from hiveacid.metastore.dev.embedded import free_port
from tests.fakes.metastore import FakeMetastore


def connection(host: str) -> Connection:
    return Connection(conn_id="spark", conn_type="spark", host=host, extra=json.dumps({}))


@pytest.mark.parametrize(
    "host",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[*, 3]",
        "local-cluster[2, 1, 1024]",
        "yarn",
        "k8s://https://h:6443",
    ],
)
def test_masters_that_spark_knows_are_taken(host: str) -> None:
    require_master(connection(host), driver_is_here=True)


@pytest.mark.parametrize(
    "host", ["localhost", "local[x]", "local[0]", "spark://", "spark://h", "yarn-client", "h,g"]
)
def test_invalid_masters_are_reported(host: str) -> None:
    with pytest.raises(InvalidConnection, match=r"'spark' has the invalid master .* It is"):
        require_master(connection(host), driver_is_here=True)


def test_an_unreachable_master_is_reported_unless_another_one_answers(
    small_tables: FakeMetastore,
) -> None:
    closed = f"127.0.0.1:{free_port()}"
    open_ = small_tables.uri.removeprefix("thrift://")
    with pytest.raises(ClusterUnreachable, match=f"spark://{closed} does not answer"):
        require_master(connection(f"spark://{closed}"), driver_is_here=True)
    require_master(connection(f"spark://{closed}"), driver_is_here=False)
    require_master(connection(f"spark://{closed},{open_}"), driver_is_here=True)
