"""Parameters and metadata of tables in a metastore are data of their creators."""

import json
from pathlib import Path
from typing import Any

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.iceberg.hostile.lakehouse import NAMES, Lakehouse

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
PROVIDER = "write.py-location-provider.impl"


class Creator:
    """A user who creates a table.

    Args:
        lakehouse: The metadata of a table.
        client: The metastore.
        database: The database of the user.
    """

    def __init__(self, lakehouse: Lakehouse, client: MetastoreClient, database: str) -> None:
        self.lakehouse = lakehouse
        self.client = client
        self.ref = TableRef(database, "t")
        location = client.get_database(database).location
        self.folder = Path("/" + location.removeprefix("file:").lstrip("/"))
        self.folder.mkdir(parents=True, exist_ok=True)

    def create(
        self,
        parameters: dict[str, str],
        properties: dict[str, str],
        location: str | None = None,
    ) -> None:
        metadata: dict[str, Any] = {
            **self.lakehouse.metadata,
            "location": f"file:{self.folder}/t",
            "properties": properties,
            "snapshots": [],
            "snapshot-log": [],
            "refs": {},
            "current-snapshot-id": -1,
        }
        path = self.folder / "v1.metadata.json"
        path.write_text(json.dumps(metadata))
        own = {"table_type": "ICEBERG", "metadata_location": location or f"file:{path}"}
        table = HiveTable.new(
            self.ref,
            [HiveColumn("id", "bigint")],
            kind=TableKind.NOT_ACID,
            parameters={**parameters, **own},
        )
        self.client.create_table(table)

    def read(self, *, must_be_refused: bool = False) -> str:
        return self.lakehouse.read(
            {},
            must_be_refused=must_be_refused,
            table=self.ref.full_name,
            metastore=self.client.options,
        )


@pytest.fixture
def creator(lakehouse: Lakehouse, client: MetastoreClient, database: str) -> Creator:
    return Creator(lakehouse, client, database)


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_no_property_of_a_table_is_more_than_data(creator: Creator, kind: int) -> None:
    texts = {name: str(creator.lakehouse.values(name)[kind]) for name in NAMES}
    creator.create(texts, {name: text for name, text in texts.items() if name != PROVIDER})
    assert creator.read() == ""
    creator.lakehouse.watch.require_nothing()


@pytest.mark.parametrize("name", ["py-io-impl", PROVIDER])
def test_no_property_of_a_table_names_code(creator: Creator, name: str) -> None:
    code = {name: creator.lakehouse.values(name)[0]}
    creator.create(code, code)
    message = creator.read()
    assert ("names code" in message) == (name == PROVIDER)
    creator.lakehouse.watch.require_nothing()


@pytest.mark.parametrize("target", ["file", "hdfs"])
def test_no_metadata_outside_of_the_database_are_opened(creator: Creator, target: str) -> None:
    watch = creator.lakehouse.watch
    hdfs = f"hdfs://127.0.0.1:{watch.trap.port}/x.metadata.json"
    creator.create({}, {}, hdfs if target == "hdfs" else f"file:{watch.file}")
    assert "outside of the folders" in creator.read(must_be_refused=True)
    watch.require_nothing()


def test_a_message_quotes_no_content_of_a_file(creator: Creator) -> None:
    creator.create({}, {})
    (creator.folder / "v1.metadata.json").write_text(creator.lakehouse.watch.file.read_text())
    assert "invalid" in creator.read(must_be_refused=True)
