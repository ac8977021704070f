"""Texts of other clients in the metastore, or in a condition, on a real Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import SqlError, UnsupportedTable, UserError
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.views import FUNCTIONS
from hiveacid.rules.names import TableRef
from tests.engine.acid_tables import rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0
from tests.stored_views import store_view

COLUMNS = (HiveColumn("id", "int"), HiveColumn("name", "string"))
REFLECT = "reflect('java.lang.System', 'getProperty', 'user.name')"


@pytest.fixture
def table(spark: SparkSession, hms: EmbeddedMetastore, database: str, client: MetastoreClient):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, COLUMNS))
    with AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark") as opened:
        opened.append(spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string"))
        yield opened


def view(client: MetastoreClient, database: str, text: str) -> TableSource:
    store_view(client, TableRef(database, "v"), text, COLUMNS)
    return TableSource(f"{database}.v")


@pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
def test_a_view_runs_no_program(
    table: AcidTable, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    text = f"SELECT TRANSFORM(id, name) USING 'touch {ran}; cat' AS (id, name) FROM t"
    with pytest.raises(SqlError, match="ScriptTransformation, which is not allowed in a view"):
        table.append(view(client, database, text))
    assert not ran.exists()
    assert len(rows_of(table.to_df())) == 2


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize(
    "text",
    [
        f"SELECT id, {REFLECT} FROM t",
        "SELECT 1, value FROM text.`{secret}`",
        "SELECT 1, value FROM text.`file:{secret}`",
        "SELECT 1, (SELECT max(value) FROM text.`{secret}`)",
    ],
)
def test_a_view_reads_tables_alone(
    table: AcidTable, client: MetastoreClient, database: str, tmp_path: Path, text: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with pytest.raises(SqlError):
        table.append(view(client, database, text.replace("{secret}", str(secret))))


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_values_of_a_view_keep_their_meaning_in_spark(
    table: AcidTable, client: MetastoreClient, database: str
) -> None:
    values = [
        "it's",
        "\\",
        "\\'",
        "/* no */ -- comment",
        "`",
        '"',
        "\n\t\0é😀",
        "${x}",
        "${env:PATH}",
        "%_",
        "\\u0041",
    ]
    texts = [value.replace("\\", "\\\\").replace("'", "\\'") for value in values]
    selects = [f"SELECT {number}, '{text}'" for number, text in enumerate(texts)]
    table.overwrite(view(client, database, " UNION ALL ".join(selects)))
    assert rows_of(table.to_df()) == list(enumerate(values))


@pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
@pytest.mark.parametrize("how", ["condition", "value", "source", "common table"])
def test_no_scalar_subquery_runs_a_script(table: AcidTable, tmp_path: Path, how: str) -> None:
    ran = tmp_path / "ran"
    script = f"(SELECT TRANSFORM(1) USING 'touch {ran}; cat' AS (x) FROM VALUES (1) v(x))"
    attempts: dict[str, Callable[[], object]] = {
        "condition": lambda: table.delete(f"name = {script}"),
        "value": lambda: table.update({"name": script}, all_rows=True),
        "source": lambda: table.append(QuerySource(f"SELECT 1 id, {script} name")),
        "common table": lambda: table.append(
            QuerySource(f"WITH c AS {script} SELECT 1 id, x AS name FROM c")
        ),
    }
    with pytest.raises(UserError, match="TRANSFORM"):
        attempts[how]()
    assert not ran.exists()
    assert len(rows_of(table.to_df())) == 2


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_no_condition_and_no_value_calls_java(table: AcidTable, spark: SparkSession) -> None:
    source = QuerySource("SELECT 1 AS id, 'x' AS name", {})
    attempts = [
        lambda: table.delete(f"name = {REFLECT}"),
        lambda: table.update({"name": REFLECT}, all_rows=True),
        lambda: table.append(QuerySource(f"SELECT 1 AS id, {REFLECT} AS name", {})),
        lambda: (
            table.merge(source, f"t.id = s.id AND {REFLECT} <> ''").when_matched_delete().execute()
        ),
        lambda: table.merge(source, "t.id = s.id").when_matched_update({"name": REFLECT}).execute(),
    ]
    attempts += [
        lambda other=other: table.delete(f"name = {REFLECT.replace('reflect', other)}")
        for other in ("java_method", "try_reflect")
    ]
    for attempt in attempts:
        with pytest.raises(UserError, match=r"reflect|java_method"):
            attempt()
    # The user's own session has all its functions.
    assert spark.sql(f"SELECT {REFLECT}").count() == 1
    assert rows_of(table.to_df()) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("how", ["condition", "value", "source", "view"])
def test_settings_of_a_user_hide_no_part_of_a_text_from_its_check(
    table: AcidTable, client: MetastoreClient, database: str, spark: SparkSession, how: str
) -> None:
    # The session of the user replaces ${...}, and the one that runs the text does not.
    assert spark.sql("SELECT '${hiveconf:a}'").head() == ("",)
    hidden = f"'${{hiveconf:a'||{REFLECT.replace(' ', '')}||'b}}'"
    attempts: dict[str, Callable[[], object]] = {
        "condition": lambda: table.delete(f"name = {hidden}"),
        "value": lambda: table.update({"name": hidden}, all_rows=True),
        "source": lambda: table.append(QuerySource(f"SELECT 1 AS id, {hidden} AS name", {})),
        "view": lambda: table.append(view(client, database, f"SELECT 1, {hidden}")),
    }
    with pytest.raises(UserError, match="reflect"):
        attempts[how]()
    assert len(rows_of(table.to_df())) == 2


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_view_of_spark_names_tables_and_columns_as_spark_does(
    table: AcidTable, client: MetastoreClient, database: str
) -> None:
    # The view is in another database than the one that was current when Spark created it.
    other = f"{database}_views"
    client.create_database(other)
    client.create_table(HiveTable.new(TableRef(other, "t"), COLUMNS))
    parameters = {
        "view.catalogAndNamespace.numParts": "2",
        "view.catalogAndNamespace.part.0": "spark_catalog",
        "view.catalogAndNamespace.part.1": database,
        "view.query.out.numCols": "2",
        "view.query.out.col.0": "ID",
        "view.query.out.col.1": "name",
    }

    def read(name: str, text: str, **changed: str | None) -> list[tuple]:
        changes = {key.replace("_", "."): value for key, value in changed.items()}
        stored = {k: v for k, v in (parameters | changes).items() if v is not None}
        store_view(client, TableRef(other, name), text, COLUMNS, stored)
        table.overwrite(TableSource(f"{other}.{name}"))
        return rows_of(table.to_df())

    try:
        rows = [(1, "a"), (2, "b")]
        assert read("by_name", "SELECT name, upper(name) AS more, id FROM t") == rows
        older = {"view.catalogAndNamespace.part.0": None, "view.default.database": database}
        assert read("older", "SELECT * FROM t", **older) == rows
        equal = {"view.query.out.col.0": "x", "view.query.out.col.1": "x"}
        assert read("equal", "SELECT id AS x, name AS X FROM t", **equal) == rows
        with pytest.raises(
            UnsupportedTable, match="has other columns than its query, which returns a"
        ):
            read("missing", "SELECT id AS a, name FROM t")
        with pytest.raises(UnsupportedTable, match="has other columns than its query"):
            read("twice", "SELECT id, name, name FROM t")
        with pytest.raises(UnsupportedTable, match="of the catalog ice of Spark"):
            read("foreign", "SELECT * FROM t", **{"view.catalogAndNamespace.part.0": "ice"})
    finally:
        client.drop_database(other, cascade=True)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_names_of_inputs_of_two_views_do_not_collide(
    table: AcidTable,
    client: MetastoreClient,
    database: str,
    spark: SparkSession,
    hms: EmbeddedMetastore,
) -> None:
    first, second = f"{database}__a", f"{database}"
    client.create_database(first)
    try:
        ref = TableRef(first, "b__t")
        client.create_table(HiveTable.new(ref, COLUMNS))
        # Both views, and both of their tables, have the same name with underscores for dots.
        inner, outer = TableRef(first, "b_v"), TableRef(second, "_a_b_v")
        store_view(client, inner, f"SELECT * FROM {ref.full_name}", COLUMNS)
        client.create_table(HiveTable.new(TableRef(second, "a__b__t"), COLUMNS))
        text = f"SELECT q.id, q.name FROM {second}.a__b__t q UNION ALL SELECT id + 5, name FROM {inner}"
        store_view(client, outer, text, COLUMNS)
        for name, rows in ((ref.full_name, [(1, "inner")]), (f"{second}.a__b__t", [(2, "outer")])):
            with AcidTable(name, hms.uri, spark=spark, run_in="spark") as opened:
                opened.append(spark.createDataFrame(rows, "id int, name string"))
        table.overwrite(TableSource(outer.full_name))
        assert rows_of(table.to_df()) == [(2, "outer"), (6, "inner")]
    finally:
        client.drop_database(first, cascade=True)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_no_condition_and_no_value_reads_the_environment(table: AcidTable) -> None:
    table.delete("name = '${env:PATH}' OR id = 2")
    table.update({"name": "'${env:PATH}'"}, all_rows=True)
    assert rows_of(table.to_df()) == [(1, "${env:PATH}")]


@NEEDS_SPARK_4_0
def test_spark_has_every_function_of_views_built_in(spark: SparkSession) -> None:
    known = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert FUNCTIONS - known == set()
