"""What the live tests have in common."""

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore


@pytest.fixture(scope="session")
def connections(hms4: EmbeddedMetastore) -> Mapping[str, Mapping[str, Any]]:
    """The two connections of the example DAGs: a real metastore, and a small Spark in the worker."""
    host, port = hms4.uri.removeprefix("thrift://").split(":")
    return {
        "hive_acid_default": {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)},
        "spark_default": {"conn_type": "spark", "host": "local[1]"},
    }
