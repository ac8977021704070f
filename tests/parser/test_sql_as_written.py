"""Statements keep the meaning of their text: no part is dropped or changed."""

import inspect

import pytest
from sqlglot import exp

from hiveacid.errors import SqlError
from hiveacid.parser.script import to_jobs, to_script
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.tables import UNDERSTOOD, require_understood

CONDITIONS = [
    "ts < X - INTERVAL 1 DAY 12 HOURS",
    "a BETWEEN SYMMETRIC 2 AND 1",
    "a = 0x1F",
    "a = X 'F0'",
    "a >>> 2 = 1",
    "t.a << 1 >> 2 = 3",
    "x = TIME'10:00:00'",
    "d = DATE'2026-01-01' AND s = r'a\\b'",
    "CASE a WHEN 1 THEN b ELSE c END IS NOT DISTINCT FROM `where`",
    "a IN (1, 2) -- of old\n AND b /* and new */ > 1",
    "`set` = '(' AND b = ']'",
    "a /*+ no hint */ = 1.5e3BD",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_passed_on_as_they_are_written(condition: str) -> None:
    assert to_jobs(f"DELETE FROM t WHERE {condition}")[0].where == condition
    assert to_jobs(f"UPDATE t SET a = 1 WHERE {condition}")[0].where == condition
    (merge,) = to_jobs(
        f"MERGE INTO t USING s ON {condition} WHEN MATCHED AND {condition} THEN DELETE"
        f" WHEN NOT MATCHED AND {condition} THEN INSERT (a) VALUES ({condition})"
    )
    assert merge.on == condition
    assert [clause.condition for clause in merge.when] == [condition] * 2
    assert merge.when[1].values == {"a": condition}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_values_are_passed_on_as_they_are_written(condition: str) -> None:
    (job,) = to_jobs(f"UPDATE t SET a = {condition}, b = 2 WHERE c")
    assert job.set == {"a": condition, "b": "2"}
    (job,) = to_jobs(f"INSERT INTO t SELECT a FROM u WHERE {condition}", "db")
    assert job.source.sql == f"SELECT a FROM `db__u` AS `u` WHERE {condition}"


@pytest.mark.parametrize(
    "query",
    [
        "VALUES 'a','b' AS v(x)",
        "SELECT * FROM VALUES 'a','b' AS v(x)",
        "(SELECT 1)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT 1 AS a QUALIFY row_number() OVER (ORDER BY a) = 1",
        "SELECT DISTINCT ON (a) a FROM VALUES (1) AS v(a)",
        "SELECT ts AT TIME ZONE 'UTC' FROM VALUES (1) AS v(ts)",
    ],
)
def test_queries_are_passed_on_as_they_are_written(query: str) -> None:
    assert to_jobs(f"INSERT INTO t {query}")[0].source.sql == query


def test_tables_are_replaced_where_they_are_named() -> None:
    (job,) = to_jobs(
        "INSERT INTO t SELECT /* u */ u.a, other.v.b, 'u' FROM u JOIN other.v TABLESAMPLE (10 ROWS)"
        " CROSS JOIN x TABLESAMPLE (10 PERCENT) REPEATABLE (3) LEFT JOIN w VERSION AS OF 7 ON u . a = w.a WHERE a IN (SELECT 1 FROM `x y`)",
        "db",
    )
    assert job.source.sql == (
        "SELECT /* u */ u.a, v.b, 'u' FROM `db__u` AS `u` JOIN `other__v` TABLESAMPLE (10 ROWS) AS `v`"
        " CROSS JOIN `db__x` TABLESAMPLE (10 PERCENT) REPEATABLE (3) AS `x` LEFT JOIN `db__w` AS `w` ON u . a = w.a WHERE a IN (SELECT 1 FROM `db__x_y` AS `x y`)"
    )
    assert job.source.inputs["db__w"].as_of == "7"


REFUSED = [
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * EXCEPT (secret)",
    "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT * EXCEPT (secret)",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *, v = 'x'",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET v = s.v WHERE s.x > 1",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE WHERE s.x > 1",
    "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a) WHERE s.x > 1",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE RETURNING *",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DO NOTHING",
    "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a,)",
    "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a), (s.b)",
    "MERGE INTO t USING u AS s (b, a) ON t.a = s.a WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT 1, 2) AS s (b, a) ON t.a = s.a WHEN MATCHED THEN DELETE",
    "MERGE INTO t@v1 USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING s@v1 ON t.a = s.a WHEN MATCHED THEN DELETE",
    "DELETE FROM t@v1",
    "UPDATE t@v1 SET a = 1",
    "INSERT INTO t@v1 SELECT 1",
    "INSERT INTO t SELECT * FROM u@v1",
    "TRUNCATE TABLE t@v1",
    "DELETE FROM t AS x (b)",
    "UPDATE t AS x (b) SET a = 1",
    "UPDATE t SET a = 1, WHERE b",
    "UPDATE t SET a := 1",
    "UPDATE t SET a = 1 WHERE b ORDER BY c LIMIT 1",
    "DELETE FROM t WHERE a LIMIT 1",
    "DELETE FROM t WHERE a RETURNING b",
    "INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING",
    "INSERT OR REPLACE INTO t SELECT 1",
    "INSERT INTO t AS x SELECT 1",
    "INSERT INTO t (a b) SELECT 1",
    "TRUNCATE TABLE t CASCADE",
    "TRUNCATE TABLE IF EXISTS t",
    "ALTER TABLE t ADD COLUMNS (c INT AFTER a)",
    "ALTER TABLE t ADD COLUMNS (c INT FIRST)",
    "ALTER TABLE t ADD COLUMN c INT AFTER a",
    "ALTER TABLE t ADD COLUMN c INT NOT NULL",
    "ALTER TABLE t ADD COLUMNS (c INT COMMENT 'x' AFTER a)",
    "CREATE TABLE t (a int AFTER b)",
    "CREATE TABLE t (a int) STORED AS ORC STORED AS PARQUET",
    "CREATE TABLE t (a int) COMMENT 'x' COMMENT 'y'",
    "CREATE TABLE t (a int) TBLPROPERTIES ('a' = 'b', 'a' = 'c')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('numRows' = '7')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('bucketing_version' = '1')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('hiveacid.retention' = 'bananas')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('hiveacid.retentoin' = '7 days')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('hiveacid.column_mapping' = 'number')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('hiveacid.reads_per_day' = 'often')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('orc.compress' = 'SNAPY')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('orc.stripe.size' = '64MB')",
    "CREATE TABLE t (a int) TBLPROPERTIES ('orc.bloom.filter.fpp' = '5')",
    "CREATE TABLE t LIKE u TBLPROPERTIES ('NO_AUTO_COMPACTION' = 'yes')",
    "CREATE TABLE t LIKE u TBLPROPERTIES ('transactional' = 'false')",
    "ALTER TABLE t SET TBLPROPERTIES ('no_auto_compaction' = '1')",
    "ALTER TABLE t SET TBLPROPERTIES"
    " ('compactorthreshold.hive.compactor.delta.num.threshold' = 'ten')",
    "ALTER TABLE t SET TBLPROPERTIES"
    " ('compactorthreshold.hive.compactor.delta.pct.threshold' = '10%')",
    "CREATE TABLE t (a int) PARTITIONED BY (m map<int,int>)",
    "CREATE TABLE t LIKE u INCLUDING ALL",
    "CREATE TABLE t LIKE u WITH SERDEPROPERTIES ('k' = 'v')",
    "CREATE TABLE t LIKE u ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'",
    "CREATE TABLE t LIKE u CLUSTERED BY (a) INTO 2 BUCKETS",
    "CREATE TABLE t (a int) ROW FORMAT DELIMITED LINES TERMINATED BY '|' STORED AS TEXTFILE",
    "CREATE TABLE t (a int) STORED AS TEXTFILE WITH SERDEPROPERTIES ('line.delim' = ';')",
    "CREATE TABLE t STORED AS TEXTFILE WITH SERDEPROPERTIES ('line.delim' = ';') AS SELECT 1 AS a",
    "CREATE TABLE t (a varchar)",
    "CREATE TABLE t (a array<char>)",
    "CREATE TABLE t (a timestamp(3))",
    "CREATE TABLE t (a struct<b:float(3)>)",
    "CREATE TABLE t (a string(3))",
    "CREATE TABLE t (a date(3))",
    "ALTER TABLE t ADD COLUMNS (a varchar)",
    "ALTER TABLE t CHANGE a a timestamp(3)",
    "CREATE OR REPLACE TABLE t (a int)",
    "CREATE TABLE t (a int) SKEWED BY (a) ON (1)",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_clauses_that_would_be_ignored_are_refused(sql: str, caplog) -> None:
    with pytest.raises(SqlError, match=r"Line 1, column \d+"):
        to_jobs(sql)
    assert not caplog.records


def _kinds() -> list[type[exp.Expr]]:
    classes = [kind for _, kind in inspect.getmembers(exp, inspect.isclass)]
    return [kind for kind in classes if issubclass(kind, exp.Expression)]


def test_every_clause_of_a_table_is_understood_or_refused() -> None:
    statement = SqlStatement.of("CREATE TABLE t (a int)", "db")
    tree = statement.parse()
    for kind in _kinds():
        understood = UNDERSTOOD.get(kind)
        for name in kind.arg_types:
            tree.set("properties", exp.Properties(expressions=[node := kind()]))
            node.args[name] = True
            if understood is not None and name in understood:
                require_understood(statement, tree)
            else:
                with pytest.raises(SqlError, match="is not supported"):
                    require_understood(statement, tree)


def test_columns_of_every_type_can_be_created() -> None:
    types = [
        *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string"),
        *("char(3)", "varchar(65535)", "binary", "date", "timestamp", "decimal(38,38)"),
        "timestamp with local time zone",
        "map<string,array<struct<a:decimal(10,0),b:timestamp with local time zone>>>",
    ]
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(types))
    (job,) = to_jobs(f"CREATE TABLE t ({columns})")
    assert [column.type for column in job.columns] == types


@pytest.mark.parametrize(
    "expression",
    [
        "to_date(a), datediff(a, b), unix_timestamp(a), date_add(a, 1), substring(a, 1, 2)",
        "a / b, a div b, a % b, a || b, a rlike 'x\\\\d', a like '%!%' escape '!'",
        "m['k'], l[0], array(1, 2)[0], s.f.g, transform(l, e -> e + 1)",
        "row_number() over (partition by a order by b rows between 1 preceding and current row)",
        "sum(distinct a) filter(where b > 1), count(*), collect_list(a), approx_percentile(a, 0.5)",
        "cast(a as decimal(38, 5)), try_cast(a as timestamp_ntz), extract(year from a)",
        "case when a then b else c end, if(a, b, c), nvl(a, b), coalesce(a, b)",
        "'a\\n\\'b', current_date, interval '1' day, exists(l, e -> e > 1)",
    ],
)
def test_spark_is_given_what_the_author_wrote(expression: str) -> None:
    (job,) = to_jobs(f"INSERT INTO t SELECT {expression} FROM VALUES (1) AS v(a)")
    given = job.source.sql.removeprefix("SELECT ").removesuffix(" FROM VALUES (1) AS v(a)")
    assert given.lower() == expression


def test_every_statement_of_a_script_has_a_run_token_of_its_own() -> None:
    script = to_script("DELETE FROM t WHERE a; DELETE FROM t WHERE a; -- done", "db")
    assert [job.run_token for job in script.runs()] == [None, None]
    script = type(script)(target="db.t", statements=script.statements, run_token="d/r/t/-1")
    tokens = [job.run_token for job in script.runs()]
    assert len(set(tokens)) == 2
    assert all(token.startswith("d/r/t/-1") for token in tokens)
