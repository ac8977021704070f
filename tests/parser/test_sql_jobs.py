"""The jobs of SQL statements, as they could be written manually."""

from dataclasses import replace

import pytest

from hiveacid.jobs.definition_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    AnalyzeJob,
    ColumnSpec,
    ConvertJob,
    CreateDatabaseJob,
    CreateTableAsJob,
    CreateTableJob,
    CreateTableLikeJob,
    CreateViewJob,
    DropDatabaseJob,
    DropTableJob,
    PartitionsJob,
    RenameTableJob,
    TablePropertiesJob,
    TruncateJob,
)
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import ChangesSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.parser.script import to_jobs, to_script
from hiveacid.rules.merge import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.partitions import KeyComparison
from hiveacid.rules.schema import ColumnChange

FEED = {"db__feed": TableSource("db.feed")}


def insert(sql: str, inputs=None, **fields) -> InsertJob:
    return InsertJob(
        target="db.t", source=QuerySource(sql, inputs or {}), by_position=True, **fields
    )


A = "WITH a AS (SELECT * FROM `db__feed` AS `feed`)"
COMMON = {
    "_common_1": f"{A} SELECT *, rand() AS r FROM a",
    "_common_2": f"{A} SELECT 1 AS n",
}

CASES = {
    "INSERT INTO t SELECT 1, 'a'": insert("SELECT 1, 'a'"),
    "INSERT INTO TABLE db.t (id, name) VALUES (1, 'a'), (2, NULL)": insert(
        "VALUES (1, 'a'), (2, NULL)", columns=("id", "name")
    ),
    "INSERT INTO t TABLE feed": insert("TABLE `db__feed`", FEED),
    "INSERT INTO t PARTITION (day = '2026-01-01', hour = 3) SELECT id FROM feed f": insert(
        "SELECT id FROM `db__feed` f", FEED, partitions=({"day": "2026-01-01", "hour": "3"},)
    ),
    "INSERT OVERWRITE TABLE t PARTITION (D = NULL, h) SELECT id FROM feed f": insert(
        "SELECT id FROM `db__feed` f", FEED, overwrite=True, static={"d": None}, dynamic=["h"]
    ),
    "INSERT INTO t SELECT * FROM feed FOR VERSION AS OF 7 JOIN feed b ON b.id = feed.id": insert(
        "SELECT * FROM `db__feed` AS `feed` JOIN `db__feed_2` b ON b.id = feed.id",
        {"db__feed": TableSource("db.feed", as_of="7"), "db__feed_2": TableSource("db.feed")},
    ),
    "INSERT INTO t SELECT * FROM feed FOR SYSTEM_TIME AS OF '2026-03-01 12:00:00' AS f": insert(
        "SELECT * FROM `db__feed` AS f",
        {"db__feed": TableSource("db.feed", as_of="2026-03-01 12:00:00")},
    ),
    "INSERT INTO t SELECT * FROM TABLE_CHANGES('feed', 3, 9) c JOIN table_changes('e.f', 4) d ON true": insert(
        "SELECT * FROM `db__feed` c JOIN `e__f` d ON true",
        {"db__feed": ChangesSource("db.feed", "3", "9"), "e__f": ChangesSource("e.f", "4")},
    ),
    "INSERT INTO t (id) REPLACE WHERE TRUE SELECT id FROM feed f": insert(
        "SELECT id FROM `db__feed` f", FEED, columns=("id",), overwrite=True, whole_table=True
    ),
    "INSERT INTO t PARTITION (d, h) SELECT 1": insert("SELECT 1", dynamic=["d", "h"]),
    "INSERT INTO t BY NAME SELECT 1 AS id": InsertJob(
        target="db.t", source=QuerySource("SELECT 1 AS id")
    ),
    "WITH a AS (SELECT * FROM feed) INSERT INTO t WITH b AS (SELECT * FROM a) SELECT * FROM b": (
        insert(
            "WITH a AS (SELECT * FROM `db__feed` AS `feed`), b AS (SELECT * FROM a) "
            "SELECT * FROM b",
            FEED,
        )
    ),
    "FROM feed INSERT INTO t SELECT id WHERE id > 1 INSERT OVERWRITE TABLE other.u SELECT max(id)": (
        TransactionJob(
            statements=[
                insert("SELECT id FROM `db__feed` AS `feed` WHERE id > 1", FEED),
                InsertJob(
                    target="other.u",
                    source=QuerySource("SELECT max(id) FROM `db__feed` AS `feed`", FEED),
                    by_position=True,
                    overwrite=True,
                ),
            ]
        )
    ),
    # Expressions that may differ the next time are evaluated once for all.
    "WITH a AS (SELECT * FROM feed) FROM (SELECT *, rand() AS r FROM a) s JOIN (SELECT 1 AS n) ON "
    "s.id = n INSERT INTO t SELECT s.id INSERT INTO t WITH b AS (SELECT 2) SELECT n, (SELECT * FROM b)": (
        TransactionJob(
            statements=[
                replace(insert(selected), source=QuerySource(selected, FEED, COMMON))
                for selected in (
                    f"{A} SELECT s.id FROM _common_1 s JOIN _common_2 ON s.id = n",
                    f"{A}, b AS (SELECT 2) SELECT n, (SELECT * FROM b) "
                    "FROM _common_1 s JOIN _common_2 ON s.id = n",
                )
            ]
        )
    ),
    "FROM (SELECT id FROM feed) INSERT INTO t SELECT id": insert(
        "SELECT id FROM (SELECT id FROM `db__feed` AS `feed`)", FEED
    ),
    "FROM feed INSERT INTO t SELECT id": insert("SELECT id FROM `db__feed` AS `feed`", FEED),
    "UPDATE t SET name = upper(name), t.n = n + 1 WHERE t.id = 1": UpdateJob(
        target="db.t", set={"name": "upper(name)", "n": "n + 1"}, where="t.id = 1"
    ),
    "UPDATE other.t x SET n = (SELECT max(n) FROM feed) WHERE db.feed.n > 1": UpdateJob(
        target="other.t",
        set={"n": "(SELECT max(n) FROM `db__feed` AS `feed`)"},
        where="db.feed.n > 1",
        inputs=FEED,
        target_alias="x",
    ),
    "UPDATE t SET a = s.a, t.n = t.n + 1 FROM feed AS s WHERE t.id = s.id AND s.n > 1": MergeJob(
        target="db.t",
        source=TableSource("db.feed"),
        on="t.id = s.id AND s.n > 1",
        when=(MatchedUpdate({"a": "s.a", "n": "t.n + 1"}),),
    ),
    "UPDATE t SET a = s.x, (b, c) = (u.`q r`.f + t.b, DEFAULT) FROM feed AS s, u WHERE t.id = s.id "
    "AND t.a BETWEEN s.p AND 9 AND u.k = s.k AND s.z > 7": MergeJob(
        target="db.t",
        source=QuerySource(
            "SELECT `s`.`x` AS `s__x`, `u`.`q r` AS `u__q r`, `s`.`id` AS `s__id`, `s`.`p` AS "
            "`s__p` FROM `db__feed` AS s, `db__u` AS `u` WHERE u.k = s.k AND s.z > 7",
            {**FEED, "db__u": TableSource("db.u")},
        ),
        on="t.id = _joined.`s__id` AND t.a BETWEEN _joined.`s__p` AND 9",
        when=(
            MatchedUpdate({"a": "_joined.`s__x`", "b": "_joined.`u__q r`.f + t.b", "c": "DEFAULT"}),
        ),
        source_alias="_joined",
    ),
    "WITH c AS (SELECT 1 AS k) UPDATE t SET a = s.x FROM feed s LEFT JOIN c USING (k) WHERE t.id = "
    "s.id OR c.k = 2": MergeJob(
        target="db.t",
        source=QuerySource(
            "WITH c AS (SELECT 1 AS k) SELECT `s`.`x` AS `s__x`, `s`.`id` AS `s__id`, `c`.`k` AS "
            "`c__k` FROM `db__feed` s LEFT JOIN c USING (k)",
            FEED,
        ),
        on="t.id = _joined.`s__id` OR _joined.`c__k` = 2",
        when=(MatchedUpdate({"a": "_joined.`s__x`"}),),
        source_alias="_joined",
    ),
    "UPDATE t SET (a, t.b) = (SELECT x, y FROM feed WHERE feed.id = t.id), c = 1 WHERE d": UpdateJob(
        target="db.t",
        set={
            column: "(SELECT named_struct('_1', `_1`, '_2', `_2`) FROM (SELECT x, y FROM "
            f"`db__feed` AS `feed` WHERE feed.id = t.id) AS _row(`_1`, `_2`)).`_{number}`"
            for number, column in ((1, "a"), (2, "b"))
        }
        | {"c": "1"},
        where="d",
        inputs=FEED,
    ),
    "WITH c AS (SELECT x FROM feed) UPDATE t SET a = (SELECT max(x) FROM c) WHERE b IN "
    "(WITH d AS (SELECT 1) SELECT * FROM d, c)": UpdateJob(
        target="db.t",
        set={"a": "(WITH c AS (SELECT x FROM `db__feed` AS `feed`) SELECT max(x) FROM c)"},
        where="b IN (WITH c AS (SELECT x FROM `db__feed` AS `feed`), d AS (SELECT 1) "
        "SELECT * FROM d, c)",
        inputs=FEED,
    ),
    "WITH c AS (SELECT 1 AS x) DELETE FROM t WHERE a IN (SELECT x FROM c)": DeleteJob(
        target="db.t", where="a IN (WITH c AS (SELECT 1 AS x) SELECT x FROM c)"
    ),
    "DELETE FROM t USING feed s, other.u WHERE db.t.id=s.id AND u.k=s.k": DeleteJob(
        target="db.t",
        where="EXISTS (SELECT 1 FROM `db__feed` s, `other__u` AS `u` WHERE _t_1.id=s.id AND u.k=s.k)",
        inputs={**FEED, "other__u": TableSource("other.u")},
        target_alias="_t_1",
    ),
    "WITH c AS (SELECT 1 AS x) DELETE FROM t USING c WHERE t.id = c.x": DeleteJob(
        target="db.t",
        where="EXISTS (WITH c AS (SELECT 1 AS x) SELECT 1 FROM c WHERE _t_1.id = c.x)",
        target_alias="_t_1",
    ),
    "WITH u AS (SELECT * FROM feed) UPDATE other.t o SET a = u.a FROM u WHERE o.id = u.id": MergeJob(
        target="other.t",
        source=QuerySource("WITH u AS (SELECT * FROM `db__feed` AS `feed`) SELECT * FROM u", FEED),
        on="o.id = u.id",
        when=(MatchedUpdate({"a": "u.a"}),),
        target_alias="o",
        source_alias="u",
    ),
    "DELETE FROM t WHERE TRUE": DeleteJob(target="db.t", where="TRUE"),
    "DELETE FROM t WHERE db.t.id IN (SELECT f.id FROM db.feed AS f WHERE f.day = t.day)": DeleteJob(
        target="db.t",
        where="t.id IN (SELECT f.id FROM `db__feed` AS f WHERE f.day = t.day)",
        inputs=FEED,
    ),
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM db.feed WHERE db.feed.id = t.id)": DeleteJob(
        target="db.t",
        where="EXISTS (SELECT 1 FROM `db__feed` AS `feed` WHERE feed.id = t.id)",
        inputs=FEED,
    ),
    """
    MERGE INTO t USING feed AS s ON t.id = s.id
    WHEN MATCHED AND s.op = 'd' THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
    """: MergeJob(
        target="db.t",
        source=TableSource("db.feed"),
        on="t.id = s.id",
        when=(MatchedDelete("s.op = 'd'"), MatchedUpdate(), NotMatchedInsert()),
    ),
    """
    MERGE INTO other.orders o USING (SELECT * FROM feed) s ON o.id = s.id
    WHEN MATCHED AND o.n < s.n THEN UPDATE SET n = s.n, o.name = 'x'
    WHEN NOT MATCHED BY TARGET AND s.n > 0 THEN INSERT (id, n) VALUES (s.id, s.n)
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, 'y')
    WHEN NOT MATCHED BY SOURCE AND o.n = 0 THEN DELETE
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = o.n - 1
    """: MergeJob(
        target="other.orders",
        source=QuerySource("SELECT * FROM (SELECT * FROM `db__feed` AS `feed`) s", FEED),
        on="o.id = s.id",
        when=(
            MatchedUpdate({"n": "s.n", "name": "'x'"}, "o.n < s.n"),
            NotMatchedInsert({"id": "s.id", "n": "s.n"}, "s.n > 0"),
            NotMatchedInsert(row=("s.id", "0", "'y'")),
            NotMatchedBySourceDelete("o.n = 0"),
            NotMatchedBySourceUpdate({"n": "o.n - 1"}),
        ),
        target_alias="o",
    ),
    "WITH f AS (SELECT * FROM feed) MERGE INTO t USING f ON t.id = f.id WHEN MATCHED THEN DELETE": (
        MergeJob(
            target="db.t",
            source=QuerySource(
                "WITH f AS (SELECT * FROM `db__feed` AS `feed`) SELECT * FROM f", FEED
            ),
            on="t.id = f.id",
            when=(MatchedDelete(),),
            source_alias="f",
        )
    ),
    "TRUNCATE TABLE t": TruncateJob(target="db.t"),
    "truncate table t partition (day = '2026-01-01', n = -3)": TruncateJob(
        target="db.t", partition={"day": "2026-01-01", "n": "-3"}
    ),
    "RESTORE TABLE t TO VERSION AS OF 7": RestoreJob(target="db.t", as_of="7"),
    "restore table other.`t` to system_time as of '2026-03-01 12:00'": RestoreJob(
        target="other.t", as_of="2026-03-01 12:00:00+00:00"
    ),
    "RESTORE TABLE t TO TIMESTAMP AS OF TIMESTAMP '20260301'": RestoreJob(
        target="db.t", as_of="2026-03-01 00:00:00+00:00"
    ),
    "ALTER TABLE t COMPACT 'MAJOR' AND WAIT": CompactJob(target="db.t", type="major"),
    "ALTER TABLE `t` PARTITION (day='a b', hour=3) COMPACT 'minor'": CompactJob(
        target="db.t", type="minor", partitions=("day=a b/hour=3",)
    ),
    "ALTER TABLE t COMPACT 'Rebalance'": CompactJob(target="db.t", type="rebalance"),
    "alter table t partition (day='a') compact 'rebalance' order by ts desc, `a b` nulls first": (
        CompactJob(
            target="db.t",
            type="rebalance",
            order_by=("ts DESC", "`a b` NULLS FIRST"),
            partitions=("day=a",),
        )
    ),
    "ALTER TABLE t ADD IF NOT EXISTS PARTITION (day='a', N=7) PARTITION (day=DATE '2026-01-01', n=-1)": (
        PartitionsJob(
            target="db.t",
            action="add",
            partitions=(
                (KeyComparison("day", "a"), KeyComparison("n", "7", is_number=True)),
                (KeyComparison("day", "2026-01-01"), KeyComparison("n", "-1", is_number=True)),
            ),
            lenient=True,
        )
    ),
    "alter table t drop partition (day < '2026-01-01', ok <> true), partition (n == null)": (
        PartitionsJob(
            target="db.t",
            action="drop",
            partitions=(
                (KeyComparison("day", "2026-01-01", "<"), KeyComparison("ok", "true", "!=")),
                (KeyComparison("n", None),),
            ),
        )
    ),
    "ALTER TABLE t DROP IF EXISTS PARTITION (d >= 1.5)": PartitionsJob(
        target="db.t",
        action="drop",
        partitions=((KeyComparison("d", "1.5", ">=", is_number=True),),),
        lenient=True,
    ),
    "ALTER TABLE t CHANGE COLUMN A B struct<X:int> COMMENT 'first' AFTER C CASCADE": AlterColumnsJob(
        target="db.t",
        change=ColumnChange("a", name="b", type="struct<X:int>", comment="first", after="c"),
    ),
    "alter table t change a A bigint first": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", type="bigint", first=True)
    ),
    "ALTER TABLE t RENAME COLUMN A TO `b`": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", name="b")
    ),
    "ALTER TABLE t ALTER COLUMN a TYPE decimal(5,2)": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", type="decimal(5,2)")
    ),
    "ALTER TABLE t ALTER COLUMN a COMMENT 'c'": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", comment="c")
    ),
    "ALTER TABLE t REPLACE COLUMNS (A int, b string COMMENT 'c') CASCADE": AlterColumnsJob(
        target="db.t", columns=(ColumnSpec("a", "int"), ColumnSpec("b", "string", "c"))
    ),
    "COMMENT ON TABLE t IS 'c'": TablePropertiesJob(target="db.t", set={"comment": "c"}),
    "comment on table other.t is null": TablePropertiesJob(
        target="other.t", unset=("comment",), if_exists=True
    ),
    "COMMENT ON COLUMN t.A IS 'c'": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", comment="c")
    ),
    "COMMENT ON COLUMN other.t.a IS NULL": AlterColumnsJob(
        target="other.t", change=ColumnChange("a", comment="")
    ),
    "OPTIMIZE t": CompactJob(target="db.t"),
    "optimize other.t partition (day='a')": CompactJob(target="other.t", partitions=("day=a",)),
    "CREATE VIEW v AS SELECT a, b > 1 AS c FROM t JOIN other.u USING (a) /* joined */": CreateViewJob(
        target="db.v",
        text="SELECT a, b > 1 AS c FROM t JOIN other.u USING (a)",
        expanded="SELECT a, b > 1 AS c FROM `db`.t JOIN other.u USING (a)",
        reads=("db.t", "other.u"),
    ),
    "create or replace view v (X, `y`) comment 'c' as with w as (select 1 as a) select a, 2 from w": (
        CreateViewJob(
            target="db.v",
            text="with w as (select 1 as a) select a, 2 from w",
            expanded="with w as (select 1 as a) select a, 2 from w",
            mode="replace",
            columns=("X", "y"),
            comment="c",
        )
    ),
    "CREATE VIEW IF NOT EXISTS other.v AS (SELECT a FROM t)": CreateViewJob(
        target="other.v",
        text="(SELECT a FROM t)",
        expanded="(SELECT a FROM `db`.t)",
        reads=("db.t",),
        mode="create_if_missing",
    ),
    "ALTER VIEW v AS SELECT 1 AS a": CreateViewJob(
        target="db.v", text="SELECT 1 AS a", expanded="SELECT 1 AS a", mode="alter"
    ),
    "DROP VIEW IF EXISTS v": DropTableJob(target="db.v", if_exists=True, view=True),
    "MSCK REPAIR TABLE other.t ADD PARTITIONS": PartitionsJob(target="other.t", action="repair"),
    "ANALYZE TABLE t COMPUTE STATISTICS": AnalyzeJob(target="db.t", rows_only=True),
    "analyze table other.t compute statistics for columns": AnalyzeJob(target="other.t"),
    "ANALYZE TABLE t PARTITION (day='a b', hour) COMPUTE STATISTICS FOR COLUMNS A, `b`": AnalyzeJob(
        target="db.t", partitions=("day=a b",), columns=("A", "b")
    ),
    "ANALYZE TABLE t PARTITION (day, hour) COMPUTE STATISTICS": AnalyzeJob(
        target="db.t", rows_only=True
    ),
    "CONVERT TABLE other.t": ConvertJob(target="other.t"),
    "CONVERT TABLE t TO ACID": ConvertJob(target="db.t"),
    "ALTER TABLE t SET TBLPROPERTIES ('transactional' = 'true')": ConvertJob(target="db.t"),
    "alter table other.t rename to other.`u`": RenameTableJob(target="other.t", new_name="other.u"),
    "ALTER TABLE t SET TBLPROPERTIES ('A' = 'B', 'c' = '')": TablePropertiesJob(
        target="db.t", set={"A": "B", "c": ""}
    ),
    "ALTER TABLE t SET TBLPROPERTIES ('hiveacid.reads_per_day' = '240')": TablePropertiesJob(
        target="db.t", set={"hiveacid.reads_per_day": "240"}
    ),
    "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('A', 'b')": TablePropertiesJob(
        target="db.t", unset=("A", "b"), if_exists=True
    ),
    "ALTER TABLE t ADD COLUMNS (A struct<X:int,y:array<date>> COMMENT 'c', b decimal(5,2)) CASCADE": (
        AddColumnsJob(
            target="db.t",
            columns=(
                ColumnSpec("a", "struct<X:int,y:array<date>>", "c"),
                ColumnSpec("b", "decimal(5,2)"),
            ),
        )
    ),
    "ALTER TABLE t ADD COLUMN A struct<X:int> COMMENT 'c' CASCADE": AddColumnsJob(
        target="db.t", columns=(ColumnSpec("a", "struct<X:int>", "c"),)
    ),
    "ALTER TABLE t ADD COLUMN (a int)": AddColumnsJob(
        target="db.t", columns=(ColumnSpec("a", "int"),)
    ),
    "CREATE TABLE t (a int) TBLPROPERTIES ('bucketing_version' = '2', 'a' = 'b')": CreateTableJob(
        target="db.t", columns=(ColumnSpec("a", "int"),), properties={"a": "b"}
    ),
    "CREATE TABLE IF NOT EXISTS t LIKE other.u LOCATION '/x' TBLPROPERTIES ('transactional' = 'true', 'a' = 'b')": (
        CreateTableLikeJob(
            target="db.t",
            like="other.u",
            location="/x",
            properties={"a": "b"},
            if_not_exists=True,
        )
    ),
    "CREATE SCHEMA IF NOT EXISTS S COMMENT 'c' LOCATION '/s' MANAGEDLOCATION '/m' WITH "
    "DBPROPERTIES ('A' = 'B')": CreateDatabaseJob(
        target="S",
        comment="c",
        location="/s",
        managed_location="/m",
        properties={"A": "B"},
        if_not_exists=True,
    ),
    "CREATE DATABASE `s`": CreateDatabaseJob(target="s"),
    "DROP DATABASE IF EXISTS s CASCADE": DropDatabaseJob(target="s", if_exists=True, cascade=True),
    "DROP SCHEMA s RESTRICT": DropDatabaseJob(target="s"),
    "DROP TABLE t": DropTableJob(target="db.t"),
    "drop table if exists other.t": DropTableJob(target="other.t", if_exists=True),
    """
    CREATE TRANSACTIONAL TABLE IF NOT EXISTS t (ID int COMMENT 'k', x struct<A:int,b:array<date>>)
    COMMENT 'c' PARTITIONED BY (d date) CLUSTERED BY (ID) INTO 4 BUCKETS STORED AS ORC
    LOCATION '/data/t' TBLPROPERTIES ('a' = 'b', 'transactional' = 'true')
    """: CreateTableJob(
        target="db.t",
        columns=(ColumnSpec("id", "int", "k"), ColumnSpec("x", "struct<A:int,b:array<date>>")),
        partition_keys=(ColumnSpec("d", "date"),),
        bucket_columns=("id",),
        num_buckets=4,
        properties={"comment": "c", "a": "b"},
        location="/data/t",
        if_not_exists=True,
    ),
    "CREATE TABLE t (a int) TBLPROPERTIES ('transactional_properties' = 'insert_only')": (
        CreateTableJob(target="db.t", columns=(ColumnSpec("a", "int"),), insert_only=True)
    ),
    "CREATE TABLE t (a int) STORED AS PARQUET": CreateTableJob(
        target="db.t", columns=(ColumnSpec("a", "int"),), insert_only=True, format="PARQUET"
    ),
    """
    CREATE TABLE t PARTITIONED BY (D) CLUSTERED BY (a) INTO 2 BUCKETS TBLPROPERTIES ('x' = 'y')
    AS WITH w AS (SELECT 1 AS a) SELECT w.*, u.d FROM w JOIN u ON u.a = w.a
    """: CreateTableAsJob(
        target="db.t",
        source=QuerySource(
            "WITH w AS (SELECT 1 AS a) SELECT w.*, u.d FROM w JOIN `db__u` AS `u` ON u.a = w.a",
            {"db__u": TableSource("db.u")},
        ),
        partition_keys=("d",),
        bucket_columns=("a",),
        num_buckets=2,
        properties={"x": "y"},
    ),
    """
    CREATE TABLE t (a string) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'
    WITH SERDEPROPERTIES ('separatorChar' = ';') STORED AS TEXTFILE
    """: CreateTableJob(
        target="db.t",
        columns=(ColumnSpec("a", "string"),),
        insert_only=True,
        format="CSV",
        serde_parameters={"separatorChar": ";"},
    ),
    r"""
    CREATE TABLE t (a int) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\'
    COLLECTION ITEMS TERMINATED BY ',' MAP KEYS TERMINATED BY ':' NULL DEFINED AS 'NUL'
    STORED AS TEXTFILE
    """: CreateTableJob(
        target="db.t",
        columns=(ColumnSpec("a", "int"),),
        insert_only=True,
        format="TEXTFILE",
        serde_parameters={
            "field.delim": "|",
            "escape.delim": "\\",
            "collection.delim": ",",
            "mapkey.delim": ":",
            "serialization.null.format": "NUL",
        },
    ),
}


@pytest.mark.parametrize(("sql", "job"), CASES.items(), ids=[" ".join(s.split()) for s in CASES])
def test_a_statement_becomes_an_equivalent_job(sql, job) -> None:
    assert to_jobs(sql, "db") == (job,)


def test_use_is_where_later_statements_find_their_tables() -> None:
    jobs = to_jobs(
        "DELETE FROM t; USE Other; DELETE FROM t; use schema third; DELETE FROM db.t",
        "db",
        all_rows=True,
    )
    assert [job.target for job in jobs] == ["db.t", "other.t", "db.t"]
    assert to_jobs("USE database; TRUNCATE TABLE t")[0].target == "database.t"


def test_a_script_travels_as_json() -> None:
    script = to_script(";\n".join(CASES), "db")
    assert script.statements == tuple(CASES.values())
    # The first table that no statement drops.
    assert script.target == "other.orders"
    assert from_json(to_json(script)) == script
