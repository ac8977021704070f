import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.golden_versions import adopted
from tests.iceberg.case import ExportCase
from tests.iceberg.lakes import ReadableMetastore, ServedCatalog
from tests.iceberg.rest_catalog import RestCatalog
from tests.live.postgres import Postgres

_NUMBERS = itertools.count(1)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[ExportCase]:
    """A table of Hive with deletes, and an empty catalog of Iceberg."""
    with adopted("plain_crud", None, tmp_path / "hive") as hive:  # type: ignore[arg-type]
        yield ExportCase(hive, tmp_path)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with closing(RestCatalog(tmp_path_factory.mktemp("rest"))) as server:
        yield server


@pytest.fixture
def jdbc(postgres: Postgres, tmp_path: Path) -> ServedCatalog:
    """A catalog in a database of its own."""
    return in_database(postgres, tmp_path)


def in_database(postgres: Postgres, folder: Path) -> ServedCatalog:
    """Create a database with a catalog."""
    address = postgres.create_database(f"lake{next(_NUMBERS)}")
    options = {
        "type": "sql",
        "uri": f"postgresql+psycopg2:{address}",
        "warehouse": f"file://{folder}/lake",
    }
    catalog = load_catalog("lake", **options)
    catalog.create_namespace("ns")
    return ServedCatalog("jdbc", options, catalog, "ns", folder / "lake")


@pytest.fixture
def rest(rest_catalog: RestCatalog) -> ServedCatalog:
    """A namespace of its own in the catalog of a REST server."""
    catalog = load_catalog("lake", **rest_catalog.options)
    namespace = f"ns{next(_NUMBERS)}"
    catalog.create_namespace(namespace)
    folder = rest_catalog.folder / namespace
    return ServedCatalog("rest", rest_catalog.options, catalog, namespace, folder)


@pytest.fixture
def hive3(hms3: EmbeddedMetastore, tmp_path: Path) -> Iterator[ServedCatalog]:
    yield from in_metastore(hms3, tmp_path)


@pytest.fixture
def hive4(hms4: EmbeddedMetastore, tmp_path: Path) -> Iterator[ServedCatalog]:
    yield from in_metastore(hms4, tmp_path)


def in_metastore(hms: EmbeddedMetastore, folder: Path) -> Iterator[ServedCatalog]:
    """Create a database of a metastore, which is dropped at the end."""
    options = {"type": "hive", "uri": hms.uri}
    catalog = ReadableMetastore("lake", uri=hms.uri)
    namespace = f"ns{next(_NUMBERS)}"
    catalog.create_namespace(namespace, {"location": f"file:{folder}/lake"})
    yield ServedCatalog(f"hive {hms.version}", options, catalog, namespace, folder / "lake")
    with MetastoreClient(hms.options) as client:
        client.drop_database(namespace, cascade=True)


@pytest.fixture(params=["jdbc", "rest", "hive3", "hive4"])
def served(request: pytest.FixtureRequest) -> ServedCatalog:
    """Each kind of catalog."""
    found: ServedCatalog = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """The settings of a Spark with Iceberg's runtime, which is fetched once."""
    return {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
        ",org.postgresql:postgresql:42.7.7",
        "spark.jars.excludes": "org.slf4j:*",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
