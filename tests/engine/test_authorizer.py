"""Programs ask the authorizer for each table that they read or change with Spark."""

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import AccessRefused
from hiveacid.jobs.sources import TableSource
from hiveacid.spark.python.registered_tables import read_together, register_views
from tests.engine.acid_tables import create

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

PERMITTED = set()


def permit(*, table, columns, action, **_):
    return (table.partition(".")[2], columns, action) in PERMITTED


@pytest.fixture
def permitted(monkeypatch):
    """The permissions of the authorizer: only those that a test adds."""
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.permit")
    PERMITTED.clear()
    return PERMITTED


@pytest.fixture
def tables(spark, client, database):
    for name in ("t", "other"):
        create(client, f"{database}.{name}", {"id": "int", "v": "int"})
    return f"{database}.t", f"{database}.other"


def test_each_method_of_a_table_asks_for_its_action(spark, hms, tables, permitted):
    name, other = tables
    with pytest.raises(AccessRefused, match="may not read"):
        AcidTable(name, hms.uri, spark=spark, run_in="spark")
    permitted.add(("t", None, "read"))
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        assert table.to_df().count() == 0
        for refused in (
            lambda: table.update({"v": "1"}, all_rows=True),
            lambda: table.delete(all_rows=True),
            lambda: table.append(TableSource(name)),
            table.truncate,
            lambda: table.restore(0),
            table.compact,
            table.analyze,
            lambda: table.merge(TableSource(name), "t.id = s.id").when_matched_delete().execute(),
        ):
            with pytest.raises(AccessRefused, match=r"may not [a-z]+ "):
                refused()
        permitted |= {("t", ("v",), "update"), ("t", None, "insert")}
        table.update({"v": "1"}, all_rows=True)
        with pytest.raises(AccessRefused, match="may not update"):
            table.update({"id": "1"}, all_rows=True)
        with pytest.raises(AccessRefused, match=rf"may not read {other}"):
            table.append(TableSource(other))


def test_programs_on_several_tables_ask_for_each(spark, hms, tables, permitted):
    name, other = tables
    permitted |= {("t", None, "read"), ("t", None, "insert")}
    rows = spark.sql("SELECT 1 AS id, 2 AS v")
    txn = AcidTransaction(hms.uri, spark=spark, run_in="spark")
    txn.table(name).append(rows)
    txn.table(other).append(rows)
    with pytest.raises(AccessRefused, match=rf"may not insert {other}"):
        txn.__exit__(None, None, None)
    with pytest.raises(AccessRefused), read_together(tables, hms.uri, spark=spark):
        pass
    with pytest.raises(AccessRefused):
        register_views(hms.uri, tables, spark=spark)
    with register_views(hms.uri, f"{name.partition('.')[0]}.*", spark=spark) as known:
        assert list(known.names) == ["t"]
        assert "may not read" in known.skipped[other]
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        assert table.to_df().count() == 0
