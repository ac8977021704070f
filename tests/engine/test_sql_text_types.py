"""A table of a query keeps the char and varchar columns whose lengths are known, as Hive does."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.definition_jobs import CreateTableAsJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift import idl_tables
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import ONLY_HIVE4, rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0

pytestmark = [pytest.mark.parametrize(*ONLY_HIVE4, indirect=True), NEEDS_SPARK_4_0]

Created = Callable[[str], dict[str, str]]
NESTED = "struct<x:array<varchar(4)>,y:map<char(2),string>>"


@pytest.fixture
def run_sql(spark: SparkSession, hms: EmbeddedMetastore, database: str) -> Callable[[str], None]:
    """Run statements."""

    def run_text(text: str) -> None:
        run(spark, replace(to_script(text, database), metastore=hms.options))

    return run_text


@pytest.fixture
def created(run_sql: Callable[[str], None], client: MetastoreClient, database: str) -> Created:
    """Create a table of a query over `src` and return the types of its columns."""
    run_sql(
        f"CREATE TABLE src (id int, c char(5), v varchar(7), t string, n {NESTED});"
        "INSERT INTO src SELECT 1, 'ab', 'abcdefg', 'abcdefghij', "
        "named_struct('x', array('abcd'), 'y', map('k', 'v'))"
    )

    def types(statement: str) -> dict[str, str]:
        run_sql(statement)
        table = client.get_table(TableRef(database, "made"))
        return {column.name: column.type for column in (*table.columns, *table.partition_keys)}

    return types


def test_columns_and_casts_keep_their_lengths(created: Created) -> None:
    types = created(
        """
        CREATE TABLE made PARTITIONED BY (key) AS
        SELECT c, v AS renamed, n, n.x[0] AS element, CAST(id AS varchar(3)) AS number,
            CAST(t AS varchar(20)) AS wide, CAST(upper(v) AS varchar(8)) AS upper,
            array(v) AS several, coalesce(c, v) AS best, CAST(c AS string) AS text, v AS key
        FROM src
        """
    )
    assert types == {
        "c": "char(5)",
        "renamed": "varchar(7)",
        "n": NESTED,
        "element": "varchar(4)",
        "number": "varchar(3)",
        "wide": "varchar(20)",
        "upper": "varchar(8)",
        "several": "array<varchar(7)>",
        "best": "varchar(7)",
        "text": "string",
        "key": "varchar(7)",
    }


def test_results_of_functions_are_strings_because_they_may_be_longer(
    created: Created, spark: SparkSession, hms: EmbeddedMetastore, database: str
) -> None:
    types = created(
        """
        CREATE TABLE made AS
        SELECT upper(c) AS a, replace(v, 'a', 'aaa') AS b, concat(c, v) AS c, repeat(v, 2) AS d,
            coalesce(v, t) AS e, coalesce(replace(v, 'a', 'aaa'), v) AS f,
            array(replace(v, 'a', 'aaa')) AS g, max(replace(v, 'a', 'aaa')) OVER () AS h
        FROM src
        """
    )
    assert types == {**dict.fromkeys("abcdefh", "string"), "g": "array<string>"}
    with AcidTable(f"{database}.made", hms.uri, spark=spark) as made:
        assert rows_of(made.to_df().select("a", "b", "f")) == [("AB", "aaabcdefg", "aaabcdefg")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.c, w.v FROM src s LEFT JOIN (SELECT DISTINCT v, id FROM src) w ON s.id = w.id",
        "SELECT max(c) AS c, v FROM src GROUP BY v",
        "SELECT c, v FROM src UNION ALL SELECT c, CAST(id AS varchar(2)) FROM src",
        "WITH w AS (SELECT c, v FROM src), x AS (SELECT * FROM w) SELECT * FROM x ORDER BY c LIMIT 1",
        "SELECT c, v FROM seen",
        "SELECT c, v FROM plain",
    ],
)
def test_lengths_are_kept_through_queries_and_views(
    created: Created, client: MetastoreClient, database: str, query: str, tmp_path
) -> None:
    columns = [HiveColumn("c", "char(5)"), HiveColumn("v", "varchar(7)")]
    view = HiveTable.new(TableRef(database, "seen"), columns, owner="olga")
    view.raw.tableType = "VIRTUAL_VIEW"
    view.raw.parameters = {}
    view.raw.viewOriginalText = view.raw.viewExpandedText = (
        f"SELECT `src`.`c`, `src`.`v` FROM `{database}`.`src`"
    )
    client.call(idl_tables.create_table, view.raw)
    plain = HiveTable.new(TableRef(database, "plain"), columns, location=tmp_path.as_uri())
    plain.raw.tableType = "EXTERNAL_TABLE"
    plain.raw.parameters = {"EXTERNAL": "TRUE"}
    client.call(idl_tables.create_table, plain.raw)
    assert created(f"CREATE TABLE made AS {query}") == {"c": "char(5)", "v": "varchar(7)"}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c AS a FROM src UNION ALL SELECT t FROM src",
        "SELECT v AS a FROM src UNION ALL SELECT replace(v, 'a', 'aaa') FROM src",
        "WITH w AS (SELECT replace(v, 'a', 'aaa') AS a FROM src) SELECT a FROM w",
        "SELECT a FROM (SELECT replace(v, 'a', 'aaa') AS a FROM src GROUP BY 1)",
        "SELECT array_distinct(array(v, replace(v, 'a', 'aaa')))[1] AS a FROM src",
    ],
)
def test_one_longer_text_makes_a_string_of_a_column(created: Created, query: str) -> None:
    assert created(f"CREATE TABLE made AS {query}") == {"a": "string"}


def test_a_text_that_is_longer_than_its_cast_is_refused_and_not_cut(created: Created) -> None:
    with pytest.raises(HiveAcidError, match="'abcdefghij' is longer than column a varchar"):
        created("CREATE TABLE made AS SELECT CAST(t AS varchar(3)) AS a FROM src")


def test_a_job_keeps_the_lengths_of_its_inputs(
    created: Created,
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
) -> None:
    source = QuerySource("SELECT c, v FROM s", inputs={"s": TableSource(f"{database}.src")})
    run(spark, CreateTableAsJob(target=f"{database}.other", source=source, metastore=hms.options))
    columns = client.get_table(TableRef(database, "other")).columns
    assert [column.type for column in columns] == ["char(5)", "varchar(7)"]
    assert spark.conf.get("spark.sql.preserveCharVarcharTypeInfo") == "false"
