"""Real metastores for every test that wants one; each version starts at most once, when asked."""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore

VERSIONS = ("4.0.1", "3.1.3")


def _metastore(version: str, factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(version, directory=factory.mktemp(f"hms{version[0]}")) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hms4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("4.0.1", tmp_path_factory)


@pytest.fixture(scope="session")
def hms3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("3.1.3", tmp_path_factory)


@pytest.fixture(scope="session", params=VERSIONS)
def hms(request: pytest.FixtureRequest) -> EmbeddedMetastore:
    """The metastore, once per version."""
    return request.getfixturevalue(f"hms{request.param[0]}")


@pytest.fixture
def client(hms: EmbeddedMetastore) -> Iterator[MetastoreClient]:
    client = MetastoreClient(hms.options)
    yield client
    client.close()


_NUMBERS = itertools.count(1)


@pytest.fixture
def database(client: MetastoreClient) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"test_{next(_NUMBERS)}"
    client.create_database(name)
    yield name
    client.drop_database(name, cascade=True)


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait until something holds: eventually("the lock waits", lambda: ...)."""

    def wait(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.02)

    return wait
