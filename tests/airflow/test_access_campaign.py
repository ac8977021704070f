"""No operator or sensor reaches a table of another team, by its name or by its location."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG

from airflow_hiveacid import sensors
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.records.erasures import ErasedTable, Erasure, ErasureFolder, hash_of_key
from hiveacid.rules.location import AllowedLocations
from hiveacid.rules.names import TableRef
from tests.airflow.test_template_fields import CLASSES, make
from tests.fakes.metastore import FakeMetastore
from tests.upkeep.acid_folders import AcidFolders

# The locations of the database, and of the tables of the DAG, by the folder of the other team's.
LOCATIONS: dict[str, tuple[str | None, str | None]] = {
    "by name": (None, None),
    "by location": (None, "{secret}/{name}"),
    "by another spelling of it": (None, "{secret}//../secret.db/{name}/"),
    "by the location of the database": ("{secret}", None),
    "not at all": (None, None),
}
REFUSED = {"database": ""}


def permit(*, table: str, **_: object) -> bool:
    return table.partition(".")[0] != REFUSED["database"]


@dataclass(frozen=True)
class Lake:
    """A metastore in which tables of a DAG have files of another team, in one of the ways."""

    metastore: FakeMetastore
    way: str

    @property
    def is_refused(self) -> bool:
        return self.way != "not at all"


@pytest.fixture(scope="module", params=LOCATIONS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["4.0.1", "3.1.3"])
def lake(
    request: pytest.FixtureRequest, way: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    database, table = LOCATIONS[way]
    with (
        FakeMetastore(request.param, directory=tmp_path_factory.mktemp("lake")) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("secret")
        secret = AcidFolders.create(client, "secret.days")
        AcidFolders.create(client, "secret.feed")
        home = secret.table.folder.rpartition("/")[0]
        client.create_database("shop", location=database and database.format(secret=home))
        for name in ("days", "feed"):
            place = table and table.format(secret=home, name=name)
            AcidFolders.create(client, f"shop.{name}", location=place)
        _ = secret.insert(), secret.insert()
        yield Lake(metastore, way)


@pytest.fixture
def authorizer(
    lake: Lake, spark_submit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[None]:
    host, port = lake.metastore.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.permit")
    REFUSED["database"] = "shop" if lake.way == "by name" else "secret"
    yield
    REFUSED["database"] = ""


def request_erasure(lake: Lake, folder: str) -> None:
    """Write a request of somebody else, for the sensor."""
    with MetastoreClient(lake.metastore.options) as client:
        table = located(client.get_table(TableRef.parse("shop.days")))
    erasure = Erasure(
        request="r1",
        user="dag:d",
        requested_at="2026-03-01T10:00:00+00:00",
        deadline="2026-03-31T10:00:00+00:00",
        source="The caller",
        salt="00",
        hashes=hash_of_key(b"\0", "7"),
        tables=(ErasedTable(table=table, column="id", type="int"),),
    )
    record = ErasureFolder(AllowedLocations.parse("").require(folder), None).open("r1")
    record.write(1, erasure)


def test_the_authorizer_is_asked_for_the_files_of_others(
    lake: Lake, authorizer: None, context: dict[str, Any], tmp_path: Any
) -> None:
    for class_ in CLASSES:
        more = {}
        if class_ is sensors.HiveAcidErasedSensor:
            more["folder"] = f"file:{tmp_path}/erasures"
            request_erasure(lake, more["folder"])
        with DAG("d"):
            task: Any = make(class_, **more)
        refused = ""
        try:
            (task.poke if hasattr(task, "poke") else task.execute)(context)
        except HiveAcidTaskFailure as error:
            refused = error.error.id  # Another failure comes after all questions.
        except AirflowException:
            pass
        assert (refused == "AccessRefused") == lake.is_refused, class_
