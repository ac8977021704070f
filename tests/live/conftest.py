"""The common fixtures of the live tests."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.live.chromium import Chromium
from tests.live.page_airflow import PICTURES, PageAirflow


@pytest.fixture(scope="session")
def connections(hms4: EmbeddedMetastore) -> Mapping[str, Mapping[str, Any]]:
    """The two connections of the example DAGs: a real metastore, and a small Spark in the worker."""
    host, port = hms4.uri.removeprefix("thrift://").split(":")
    return {
        "hive_acid_default": {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)},
        "spark_default": {"conn_type": "spark", "host": "local[1]"},
    }


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(directory=tmp_path_factory.mktemp("hms")) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def airflow(
    metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageAirflow]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    airflow = PageAirflow(tmp_path_factory.mktemp("airflow") / "home", metastore)
    try:
        airflow.start()
        yield airflow
    finally:
        airflow.processes.stop()


@pytest.fixture
def browser(airflow: PageAirflow, tmp_path: Path) -> Iterator[Chromium]:
    """Jane's browser; a page that complains of anything fails the test."""
    with Chromium(tmp_path / "profile") as browser:
        browser.cookie(airflow.url, "_token", airflow.token("jane"))
        yield browser
        assert browser.complaints == []
