"""A stream of files, for the tests of streams."""

from pathlib import Path
from typing import Any

import pytest

from hiveacid.metastore.client import MetastoreClient
from tests.streams.stream_case import StreamCase


@pytest.fixture
def stream(spark: Any, client: MetastoreClient, database: str, tmp_path: Path) -> StreamCase:
    return StreamCase(spark, client, database, tmp_path)
