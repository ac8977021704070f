from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.iceberg.hostile.lakehouse import Lakehouse
from tests.iceberg.hostile.rest_server import RestServer
from tests.iceberg.hostile.watch import watched
from tests.iceberg.lakes import sql_catalog


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[Lakehouse]:
    catalog = sql_catalog(tmp_path)
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    with watched(tmp_path / "outside") as watch:
        yield Lakehouse(tmp_path, table, watch)


@pytest.fixture
def server(lakehouse: Lakehouse) -> Iterator[RestServer]:
    with RestServer() as server:
        server.table = {
            "metadata-location": lakehouse.table.metadata_location,
            "metadata": lakehouse.metadata,
        }
        yield server
