"""Tables under names that plain SQL knows."""

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid import TableSource, register_views
from hiveacid.api.table import AcidTable
from hiveacid.errors import UserError, VersionUnknown, WrongTableKind
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create, left_behind

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def user(spark: SparkSession) -> SparkSession:
    """A session of a user's own."""
    return spark.newSession()


@pytest.fixture
def orders(
    spark: SparkSession, client: MetastoreClient, database: str, hms: EmbeddedMetastore
) -> str:
    """A table of two versions, and beside it others of all kinds."""
    for name, kind in (("orders", TableKind.FULL_ACID), ("lines", TableKind.INSERT_ONLY)):
        create(client, f"{database}.{name}", {"id": "int"}, kind=kind)
        with AcidTable(f"{database}.{name}", hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(spark.range(3).selectExpr("CAST(id AS INT) id"))
            acid.append(spark.range(3, 5).selectExpr("CAST(id AS INT) id"))
    create(client, f"{database}.plain", {"id": "int"}, kind=TableKind.NOT_ACID)
    create(client, f"{database}.odd", {"u": "uniontype<int,string>"})
    return f"{database}.orders"


def count(session: SparkSession, name: str) -> int:
    (row,) = session.sql(f"SELECT count(*) FROM {name}").collect()
    return int(row[0])


def views(session: SparkSession) -> set[str]:
    return {table.name for table in session.catalog.listTables() if table.isTemporary}


def test_the_tables_of_a_database_are_known_until_they_are_closed(
    orders: str, client: MetastoreClient, hms: EmbeddedMetastore, user: SparkSession
) -> None:
    database = orders.partition(".")[0]
    user.range(1).createOrReplaceTempView("mine")
    with register_views(hms.uri, f"{database}.*", spark=user) as tables:
        assert views(user) == {"mine", "orders", "lines"}
        assert tables.names["orders"] == TableSource(orders)
        assert list(tables.skipped) == [f"{database}.odd"]
        joined = user.sql("SELECT o.id FROM orders o JOIN lines l ON o.id = l.id WHERE l.id > 2")
        assert sorted(row.id for row in joined.collect()) == [3, 4]
        with AcidTable(orders, hms.uri, spark=user, run_in="spark") as acid:
            acid.delete("id > 0")
        assert count(user, "orders") == 5
        tables.refresh()
        assert (count(user, "orders"), count(user, "lines")) == (1, 5)
        client.drop_table(TableRef(database, "lines"))
        assert len(left_behind(client)) > 0
        tables.refresh()
        assert views(user) == {"mine", "orders"}
    assert views(user) == {"mine"}
    assert left_behind(client) == []


def test_names_and_versions_are_free(
    orders: str, client: MetastoreClient, hms: EmbeddedMetastore, user: SparkSession
) -> None:
    named = {"Now": orders, "before": TableSource(orders, as_of="1"), "odd name.x": orders}
    with register_views(hms.uri, named, spark=user):
        added = user.sql("SELECT id FROM now EXCEPT SELECT id FROM before")
        assert sorted(row.id for row in added.collect()) == [3, 4]
        assert count(user, "`odd name.x`") == 5
    assert views(user) == set()
    assert left_behind(client) == []


def test_failed_registrations_leave_nothing(
    orders: str, client: MetastoreClient, hms: EmbeddedMetastore, user: SparkSession
) -> None:
    database = orders.partition(".")[0]
    user.range(1).createOrReplaceTempView("orders")
    attempts: list[tuple[object, type[Exception], str]] = [
        (orders, UserError, "already"),
        ({"a": orders, "A": orders}, UserError, "would both be a"),
        ([f"{database}.plain"], WrongTableKind, "plain"),
        (f"{database}.nothing_*", UserError, "no transactional table"),
        ({"a": TableSource(orders, as_of="9")}, VersionUnknown, "9"),
        ({"a": f"{database}.odd"}, UserError, "union"),
    ]
    for tables, error, message in attempts:
        with pytest.raises(error, match=message):
            register_views(hms.uri, tables, spark=user)  # type: ignore[arg-type]
    assert views(user) == {"orders"}
    assert count(user, "orders") == 1
    assert left_behind(client) == []
