"""Everything on an S3 store: the metastores keep their tables there, and Spark can write there."""

from collections.abc import Iterator

import pytest

from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.faults import submitted_driver
from tests.s3.store import S3Store


@pytest.fixture(scope="session")
def spark_settings(s3: S3Store) -> dict[str, str]:
    return s3.spark_settings


def _metastore(
    version: str, store: S3Store, factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(
        version,
        directory=factory.mktemp(f"hms{version[0]}"),
        settings={"metastore.warehouse.dir": f"{store.uri}/warehouse{version[0]}"},
        hadoop=store.hadoop,
        libraries=store.libraries,
    ) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hms4(s3: S3Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("4.0.1", s3, tmp_path_factory)


@pytest.fixture(scope="session")
def hms3(s3: S3Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("3.1.3", s3, tmp_path_factory)


@pytest.fixture(autouse=True)
def drivers_know_the_store(s3: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications of their own process find the store as the tests' Spark does."""
    lines = "".join(f"{key} {value}\n" for key, value in s3.spark_settings.items())
    monkeypatch.setattr(submitted_driver, "SPARK_DEFAULTS", submitted_driver.SPARK_DEFAULTS + lines)
    s3.proxy.reset()
