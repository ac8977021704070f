"""Mirrors that Spark reads, and changes, in the catalogs of Iceberg for Java."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from hiveacid.errors import IcebergRefused, TableReplaced
from hiveacid.metastore.client import MetastoreClient
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_catalogs import AtCommit
from tests.iceberg.test_mirror import Mirror
from tests.iceberg.trino_lake import java_address
from tests.live.database_server import USER
from tests.live.postgres import Postgres

pytestmark = [
    pytest.mark.iceberg,
    pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True),
]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, whose catalogs no other test has opened."""
    return spark.newSession()


@pytest.fixture
def created(
    client: MetastoreClient, database: str, tmp_path: Path
) -> Callable[[ServedCatalog], Mirror]:
    """A table with three rows, which is not mirrored yet."""

    def create(served: ServedCatalog) -> Mirror:
        table = WrittenTable.create(client, f"{database}.t")
        table.insert(1, 2, 3)
        return Mirror(table, tmp_path, served)

    return create


def open_in_spark(session: SparkSession, served: ServedCatalog, **more: str) -> None:
    """Configure the catalog `lake`: rows of a JDBC catalog contain this name."""
    uri = served.options.get("uri", "")
    own = {
        "jdbc": {
            "type": "jdbc",
            "uri": java_address(uri) if served.kind == "jdbc" else "",
            "jdbc.user": USER,
            "warehouse": f"file:{served.folder}",
        },
        "rest": {**served.options},
        "hive": {"type": "hive", "uri": uri},
    }
    options = {**own[served.kind.partition(" ")[0]], **more}
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    # Spark otherwise shows the snapshots that it has read once.
    for name, value in {"cache-enabled": "false", **options}.items():
        session.conf.set(f"spark.sql.catalog.lake.{name}", value)


def ids(session: SparkSession, mirror: Mirror) -> list[int]:
    return sorted(row[0] for row in session.table(f"lake.{mirror.name}").collect())


@pytest.mark.parametrize("kind", ["jdbc", "rest", "hive3"])
def test_spark_reads_a_mirror_and_sets_it_back_with_the_statement_of_the_error(
    request: pytest.FixtureRequest,
    created: Callable[[ServedCatalog], Mirror],
    session: SparkSession,
    kind: str,
) -> None:
    served = request.getfixturevalue(kind)
    mirror = created(served)
    open_in_spark(session, served)
    mirror.update()
    assert ids(session, mirror) == [1, 2, 3]
    second = mirror.hive.insert(4, 5)
    mirror.hive.delete((second, 1))
    mirror.update()
    assert ids(session, mirror) == [1, 2, 3, 4]
    session.sql(f"INSERT INTO lake.{mirror.name} VALUES (77)")
    with pytest.raises(IcebergRefused) as raised:
        mirror.run()
    found = re.search(r"rollback_to_snapshot\('[\w.]+', \d+\)", raised.value.remedy)
    assert found is not None
    session.sql(f"CALL lake.system.{found[0]}")
    mirror.hive.insert(6)
    assert mirror.run().outcome == "updated"
    assert ids(session, mirror) == [1, 2, 3, 4, 6]
    # After the switch, Spark writes the table, and replaces the files of the mirror.
    session.sql(f"DELETE FROM lake.{mirror.name} WHERE id = 1")
    rewritten = session.sql(
        f"CALL lake.system.rewrite_data_files('{mirror.name}', options => map('rewrite-all', 'true'))"
    )
    assert rewritten.collect()[0][0] > 0
    assert ids(session, mirror) == [2, 3, 4, 6]


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_commit_of_spark_during_a_run_wins(
    request: pytest.FixtureRequest,
    created: Callable[[ServedCatalog], Mirror],
    session: SparkSession,
    kind: str,
) -> None:
    served = request.getfixturevalue(kind)
    mirror = created(served)
    open_in_spark(session, served)
    mirror.update()
    mirror.hive.insert(4)

    def rival() -> None:
        session.sql(f"INSERT INTO lake.{mirror.name} VALUES (77)")

    with pytest.raises(TableReplaced):
        mirror.run(AtCommit(rival))
    assert ids(session, mirror) == [1, 2, 3, 77]


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_table_that_spark_has_dropped_is_created_again(
    request: pytest.FixtureRequest,
    created: Callable[[ServedCatalog], Mirror],
    session: SparkSession,
    kind: str,
) -> None:
    served = request.getfixturevalue(kind)
    mirror = created(served)
    open_in_spark(session, served)
    mirror.update()
    session.sql(f"DROP TABLE lake.{mirror.name}")
    assert mirror.run().outcome == "created"
    assert ids(session, mirror) == [1, 2, 3]


@pytest.mark.parametrize("version", ["V0", "V1"])
def test_the_tables_of_a_jdbc_catalog_of_spark_are_used(
    created: Callable[[ServedCatalog], Mirror],
    session: SparkSession,
    postgres: Postgres,
    tmp_path: Path,
    version: str,
) -> None:
    database = f"spark_{version.lower()}"
    options = {
        "type": "sql",
        "uri": f"postgresql+psycopg2:{postgres.create_database(database)}",
        "warehouse": f"file://{tmp_path}/lake",
    }
    # pyiceberg creates the tables of the catalog when it opens the catalog: Spark is first.
    unopened: Any = None
    served = ServedCatalog("jdbc", options, unopened, "ns", tmp_path / "lake")
    open_in_spark(session, served, **{"jdbc.schema-version": version})
    session.sql("CREATE NAMESPACE lake.ns")
    mirror = created(served)
    mirror.catalog = load_catalog("lake", **options)
    mirror.update()
    mirror.hive.insert(4)
    mirror.update()
    assert ids(session, mirror) == [1, 2, 3, 4]
    columns = postgres.query(
        database,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'iceberg_tables'",
    )
    assert ("iceberg_type" in columns) == (version == "V1")
    if version == "V1":
        assert postgres.query(database, "SELECT iceberg_type FROM iceberg_tables") == "TABLE"


def test_a_view_of_the_same_name_is_a_conflict_that_leaves_no_file(
    created: Callable[[ServedCatalog], Mirror], session: SparkSession, jdbc: ServedCatalog
) -> None:
    mirror = created(jdbc)
    open_in_spark(session, jdbc, **{"jdbc.schema-version": "V1"})
    session.sql(f"CREATE VIEW lake.{mirror.name} AS SELECT 1 AS id")
    before = mirror.files()
    with pytest.raises(TableReplaced, match="was not created"):
        mirror.run()
    assert mirror.files() == before
