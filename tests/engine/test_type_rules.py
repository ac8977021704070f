"""Values and expressions have the results of docs/types.md, under any settings of the cluster."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError, InvalidJob, TypeMismatch
from hiveacid.metastore.catalog import HiveColumn, HiveTable, TableRef
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.conversion import stored
from hiveacid.spark.session import scan_session
from tests.engine.acid_tables import create, rows_of

_PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
_ERROR = "error"
# The opposite of ANSI.
_CARELESS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
}


def _rows(*head: str) -> list[tuple[str, ...]]:
    """The rows of the table of the page that has a head."""
    _, _, rest = _PAGE.partition(f"| {' | '.join(head)} |\n")
    rows = []
    for line in rest.splitlines()[1:]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        rows.append(tuple(cell.strip().strip("`").replace("\\|", "|") for cell in cells))
    return rows


@pytest.fixture(params=["ANSI", "careless"])
def user(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A session of a user on a cluster with its own settings."""
    settings = _CARELESS if request.param == "careless" else {}
    cluster = spark.sparkContext._jsc.sc().conf()
    for name, value in settings.items():
        cluster.set(name, value)
    try:
        yield spark.newSession()
    finally:
        for name in settings:
            cluster.remove(name)


def _result(session: SparkSession, value: str, type_: str | None = None) -> str:
    """The text of a value, as a column of a type stores it."""
    table = HiveTable.new(TableRef("d", "t"), [HiveColumn("c", type_ or "string")])
    frame = session.range(1)
    try:
        with translated_spark_errors("The value"):
            if type_ is not None:
                value = stored(frame, {"c": value}, table, "The value")["c"]
            (found,) = frame.selectExpr(f"CAST({value} AS STRING)").collect()
    except (TypeMismatch, InvalidJob):
        return _ERROR
    return "NULL" if found[0] is None else str(found[0])


def test_values_are_stored_as_listed(user: SparkSession) -> None:
    rows = _rows("Value", "Column", "Stored")
    assert len(rows) > 30
    # A frame of the user's is converted in the session of the user.
    for session in (scan_session(user), user):
        found = [(value, type_, _result(session, value, type_)) for value, type_, _ in rows]
        assert found == rows


def test_expressions_have_the_results_listed(user: SparkSession) -> None:
    rows = _rows("Expression", "Result")
    assert len(rows) > 20
    session = scan_session(user)
    assert [(value, _result(session, value)) for value, _ in rows] == rows


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_statements_follow_the_rules_on_any_cluster(
    user: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int", "name": "string", "day": "date", "f": "float"})
    with AcidTable(f"{database}.t", hms.uri, spark=user, run_in="spark") as acid:
        acid.append(user.sql("SELECT 2147483647 id, 'x' name, DATE'2026-01-31' day, 1F f"))
        before = rows_of(acid.to_df())
        for values in (
            {"id": "id + 1"},
            {"id": "CAST(3000000000 AS INT)"},
            {"day": "'2026-02-01 10:00:00'"},
            {"f": "1e40"},
        ):
            with pytest.raises(HiveAcidError):
                acid.update(values, all_rows=True)
        with pytest.raises(TypeMismatch):
            acid.delete("name = 7")
        with pytest.raises(TypeMismatch):
            acid.merge(user.range(1), "t.name = s.id").when_matched_delete().execute()
        assert rows_of(acid.to_df()) == before
