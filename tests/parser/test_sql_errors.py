"""SQL that is not supported, or not valid."""

import random
import re

import pytest

from hiveacid.errors import InvalidJob, SqlError
from hiveacid.parser.script import to_jobs, to_script, to_steps
from tests.parser.test_sql_jobs import CASES

TANGLED = [
    "DELETE FROM t WHERE " + "(" * 50 + "1" + ")" * 50,
    "DELETE FROM t WHERE " + "NOT " * 5000 + "a",
    "DELETE FROM t WHERE " + "CASE WHEN a THEN " * 300 + "1" + " END" * 300,
    "INSERT INTO t SELECT 1 FROM a" + " JOIN c" * 60,
    "MERGE INTO t USING s",
]


@pytest.mark.parametrize("text", TANGLED, ids=range(len(TANGLED)))
@pytest.mark.timeout(20)
def test_excessive_nesting_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match=r"Line 1|too many ways"):
        to_jobs(text)


UNSUPPORTED = [
    ("EXPLAIN SELECT 1", 1, 1, "It only asks something"),
    ("INSERT INTO t PARTITION (p = 'x' 'y') SELECT 1", 1, 34, "Expected ) before 'Y'"),
    ("INSERT INTO t PARTITION (p = 1,, q) SELECT 1", 1, 32, "Expected a name before ','"),
    ("TRUNCATE TABLE t PARTITION (p = 'x' 'y')", 1, 37, "Expected ) before 'Y'"),
    ("CREATE TABLE t (a int COMMENT 'x' 'y')", 1, 35, "It cannot be read at"),
    ("UPDATE t SET 0x1F = 1", 1, 14, "Expected a name before '1F'"),
    ("UPDATE t SET", 1, 1, "SET takes column = value"),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, 2) VALUES (1, 2)",
        1,
        68,
        "Expected a name before '2'",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT () VALUES ()",
        1,
        1,
        "list of columns is empty",
    ),
    (
        "MERGE INTO t USING (u) AS s ON t.a = s.a WHEN MATCHED THEN DELETE",
        1,
        21,
        "Expected a query in brackets",
    ),
    (
        "DROP INDEX i",
        1,
        6,
        "DROP INDEX is not supported. There are DROP DATABASE, DROP TABLE, DROP VIEW",
    ),
    ("TRUNCATE t SOMETHING", 1, 10, "Expected TABLE before 'T'"),
    (
        "GRANT SELECT ON t TO someone",
        1,
        1,
        "does not manage rights. Grant rights in Hive or Ranger",
    ),
    ("REVOKE ALL ON t FROM someone", 1, 1, "Revoke rights in Hive or Ranger"),
    ("SET hive.exec.parallel = true", 1, 1, "Set options of Spark in the connection"),
    ("ABORT TRANSACTIONS 7", 1, 1, "Use `hiveacid txns abort`"),
    ("VACUUM t", 1, 1, "Use `hiveacid clean`"),
    ("CREATE OR REPLACE TABLE t (a int)", 1, 1, "INSERT OVERWRITE replaces the rows"),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", 1, 1, "Use WITH"),
    (
        "COMMENT ON DATABASE d IS 'c'",
        1,
        1,
        "a concurrent change of it would be lost. Write COMMENT in",
    ),
    ("COMMENT ON COLUMN a IS 'c'", 1, 19, "A column is named by its table and its name"),
    ("OPTIMIZE t ZORDER BY (a)", 1, 12, "COMPACT 'rebalance' ORDER BY sorts the rows"),
    ("DELETES FROM t", 1, 1, "DELETES is not supported. Did you mean DELETE?"),
    ("`DELETE` FROM t", 1, 1, "DELETE is not supported. There are ALTER, ANALYZE"),
    ("CREATE TABLES t (a int)", 1, 8, "CREATE TABLES is not supported. Did you mean CREATE TABLE?"),
    ("ALTER TABLES t COMPACT 'minor'", 1, 7, "Did you mean ALTER TABLE?"),
    ("ALTER TABLE t CHANGED a b int", 1, 15, "Did you mean CHANGE?"),
    ("CREATE VIEW v AS DELETE FROM t", 1, 18, "AS needs a query"),
    ("CREATE VIEW v AS", 1, 15, "AS needs a query"),
    ("CREATE VIEW v AS SELECT reflect('a', 'b') FROM t", 1, 18, "function reflect is not allowed"),
    ("CREATE VIEW v AS SELECT * FROM parquet.`/x`", 1, 18, "of the view default.v cannot be read"),
    (
        "CREATE VIEW v AS SELECT * FROM t FOR VERSION AS OF 3",
        1,
        18,
        "with VERSION is not supported",
    ),
    ("CREATE VIEW v AS SELECT * FROM v", 1, 1, "The view default.v would read itself"),
    ("EXPLAIN GRANT SELECT ON t TO x", 1, 9, "does not manage rights"),
    ("SELECT 1", 1, 1, "It only asks something"),
    ("TRUNCATE TABLE t;\nSHOW HISTORY t", 2, 1, "It only asks something"),
    ("WITH a AS (SELECT 1) SELECT * FROM a", 1, 1, "It only asks something"),
    ("INSERT INTO t SELECT 1;\n\n  LOAD DATA INPATH '/x' INTO TABLE t", 3, 3, "LOAD is not"),
    ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", 1, 28, "INSERT OVERWRITE DIRECTORY is not"),
    ("INSERT INTO t\nREPLACE WHERE a = 1 SELECT 1", 2, 15, "no other condition than TRUE"),
    ("INSERT OVERWRITE t REPLACE WHERE TRUE SELECT 1", 1, 20, "INSERT with REPLACE is not"),
    (
        "INSERT INTO t PARTITION (d = concat('a', 'b')) SELECT 1",
        1,
        30,
        "Expected a literal or a parameter before 'CONCAT'",
    ),
    ("INSERT INTO t PARTITION (a, A) SELECT 1", 1, 29, "The partition key a is there twice"),
    ("INSERT INTO t PARTITION (a, a = '1') SELECT 1", 1, 29, "The partition key a is there twice"),
    ("INSERT INTO t PARTITION (a, b = 1) SELECT 1", 1, 29, "Keys without a value come last"),
    ("OPTIMIZE t PARTITION (k = 1, K = 2)", 1, 30, "The partition key k is there twice"),
    ("INSERT INTO a.b.c SELECT 1", 1, 13, "a table of another catalog is not supported"),
    ("INSERT INTO t VALUES ('it''s')", 1, 27, "the end of one text and the start of another"),
    (
        "UPDATE t SET a = x\nFROM u JOIN v ON u.id = v.id WHERE t.id = u.id",
        1,
        18,
        "The table of the column x is not clear. Write t.x or u.x or v.x",
    ),
    ("UPDATE t SET a = 1 FROM s, s WHERE s.id = t.id", 1, 28, "Two sources are called s"),
    ("UPDATE t SET a = 1 FROM s, t WHERE s.id = t.id", 1, 28, "are both called t. Name one AS s"),
    ("UPDATE t SET a = 1 FROM s, (SELECT 1) WHERE s.id = t.id", 1, 36, "The source needs a name"),
    ("UPDATE t SET (a, b) = (1, 2, 3)", 1, 23, "SET has 2 columns and 3 values"),
    ("UPDATE t SET (a, b) = 1", 1, 23, "Expected ( before '1'"),
    ("UPDATE t SET (a, b) = (1, 2), b = 3", 1, 31, "The column b is set twice"),
    ("UPDATE t SET (a, b) = (1, 2) + 1", 1, 30, "Expected the end before '+'"),
    (
        "WITH c AS (SELECT 1) DELETE FROM t WHERE a = 1",
        1,
        1,
        "No subquery reads the queries that WITH",
    ),
    ("WITH c AS (SELECT 1) UPDATE t SET a = 1", 1, 1, "No subquery reads the queries that WITH"),
    ("USE a.b; TRUNCATE TABLE t", 1, 6, "Expected the end before '.'"),
    ("UPDATE t SET a = 1 FROM u", 1, 25, "UPDATE with FROM needs WHERE"),
    ("UPDATE t SET a = 1 FROM t WHERE t.id = 1", 1, 25, "are both called t. Name one AS s"),
    ("UPDATE t SET a = 1 FROM (SELECT 1) WHERE t.id = 1", 1, 33, "The source needs a name"),
    (
        "UPDATE t SET a = (SELECT 1) FROM u WHERE t.id = u.id",
        1,
        19,
        "A subquery in a condition or a value of UPDATE with FROM",
    ),
    ("UPDATE t SET s.f = 1", 1, 14, "SET takes a column, and s.f is a field of the struct s"),
    ("UPDATE db.t SET db.t.t.f = 1", 1, 17, "and t.f is a field of the struct t"),
    (
        "UPDATE t SET DEFAULT.T.S.g.f = 1",
        1,
        14,
        "s.g.f is a field of the struct s. Set all of it: s = ",
    ),
    ("UPDATE t SET s.f = 1", 1, 14, r"s = named_struct('f', <its value>, 'other', s.other)"),
    ("UPDATE t SET s.f = 1 FROM s WHERE t.id = s.id", 1, 14, "s is not the table that is changed"),
    (
        "MERGE INTO t USING u AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s.f = 1",
        1,
        71,
        "s is not the table that is changed. SET takes columns of t",
    ),
    (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.p.f = 1",
        1,
        66,
        "p.f is a field of the struct p",
    ),
    ("UPDATE t SET a = 1, A = 2", 1, 21, "The column a is set twice"),
    ("DELETE FROM t USING u WHERE id = u.id", 1, 29, "id is not clear. Write t.id or u.id"),
    ("DELETE FROM t USING u", 1, 21, "DELETE with USING needs a condition"),
    ("TRUNCATE TABLE t PARTITION (d)", 1, 28, "The partition key d has no value"),
    ("RESTORE TABLE t TO 7", 1, 20, "Expected SYSTEM_TIME before '7'"),
    ("RESTORE TABLE t TO VERSION AS OF '7'", 1, 34, "Expected a number before '7'"),
    ("RESTORE TABLE t TO VERSION AS OF 7.5", 1, 34, "7.5 is no number of a version"),
    ("RESTORE TABLE t TO SYSTEM_TIME AS OF '7'", 1, 38, "The time of a version cannot be '7'"),
    ("RESTORE TABLE t TO VERSION AS OF 7 WHERE a = 1", 1, 36, "Expected the end before 'WHERE'"),
    ("INSERT INTO t SELECT * FROM u FOR SYSTEM_TIME AS OF '7'", 1, 53, "cannot be '7'"),
    ("ALTER TABLE t DROP PARTITION (d = 1) PURGE", 1, 38, "Set the property 'auto.purge'"),
    ("ALTER TABLE t DROP PARTITION (d LIKE 'a')", 1, 33, "Expected a comparison with a value"),
    ("ALTER TABLE t DROP PARTITION (d = 1), (d = 2)", 1, 39, "Expected PARTITION before '('"),
    ("ALTER TABLE t ADD PARTITION (d = 1) LOCATION '/x'", 1, 37, "INSERT the rows of the files"),
    ("MSCK REPAIR TABLE t SYNC PARTITIONS", 1, 26, "does not drop partitions"),
    ("ALTER TABLE t COMPACT 'huge'", 1, 23, "'minor', 'major' or 'rebalance', not 'huge'"),
    ("ALTER TABLE t COMPACT 'minor' ORDER BY a", 1, 31, "A minor compaction sorts nothing"),
    ("ALTER TABLE t COMPACT 'rebalance' ORDER BY a + 1", 1, 46, "COMPACT with + is not supported"),
    ("ALTER TABLE t COMPACT 'major' CLUSTERED INTO 4 BUCKETS", 1, 31, "COMPACT with CLUSTERED"),
    ("ALTER TABLE t DROP COLUMNS (a)", 1, 15, "ALTER TABLE ... DROP COLUMNS is not supported"),
    ("ALTER TABLE t DROP COLUMN a", 1, 15, "The files keep the column"),
    ("ALTER TABLE t CHANGE a b int RESTRICT", 1, 15, "Partitions would keep other columns"),
    ("ALTER TABLE t CHANGE a b", 1, 24, "A column is a name and a type"),
    ("ALTER TABLE t CHANGE a b int, c int", 1, 15, "CHANGE COLUMN takes one column"),
    ("ALTER TABLE t CHANGE a `b c` int", 1, 1, "cannot have the name 'b c'"),
    ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", 1, 30, "There are TYPE, COMMENT, FIRST and"),
    ("ALTER TABLE t REPLACE COLUMNS (a int, a int)", 1, 1, "The column a is added twice"),
    ("ALTER TABLE t SET LOCATION '/x'", 1, 15, "Readers would look for the files"),
    ("ALTER TABLE t ADD COLUMNS (a int) RESTRICT", 1, 15, "with RESTRICT is not supported"),
    ("ALTER TABLE t ADD COLUMNS (a int", 1, 30, "A bracket is not closed"),
    ("ALTER TABLE t ADD COLUMNS (a int, A int)", 1, 1, "The column a is added twice"),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int", 1, 15, "with IF NOT EXISTS is not supported"),
    ("ALTER TABLE t ADD COLUMN a", 1, 26, "A column is a name and a type"),
    ("ALTER TABLE t ADD COLUMNS (a uuid)", 1, 28, "the type UUID is not supported"),
    ("ALTER TABLE t PARTITION (d = 1) RENAME TO u", 1, 33, "RENAME is not supported"),
    ("ALTER TABLE t RENAME TO other.t", 1, 1, "cannot be moved to another database"),
    ("ALTER TABLE t RENAME TO T", 1, 1, "has that name already"),
    ("ALTER TABLE t SET TBLPROPERTIES ('Transactional'='false')", 1, 1, "stays one of its kind"),
    ("ALTER TABLE t SET TBLPROPERTIES ('EXTERNAL'='TRUE')", 1, 1, "stays one of its kind"),
    ("ALTER TABLE t SET TBLPROPERTIES ('numRows'='7')", 1, 1, "keep their statistics in it"),
    ("ALTER TABLE t SET TBLPROPERTIES ('a'='b', 'a'='c')", 1, 43, "'a' is there twice"),
    ("ALTER TABLE t UNSET TBLPROPERTIES ('transactional')", 1, 1, "stays one of its kind"),
    (
        "CREATE TABLE t LIKE u TBLPROPERTIES ('transactional'='false')",
        1,
        14,
        "Only transactional tables",
    ),
    ("CREATE TABLE t LIKE u STORED AS ORC", 1, 21, "LIKE takes the keys, buckets, format"),
    ("CREATE DATABASE a.b", 1, 18, "Expected the end before '.'"),
    ("DROP DATABASE default CASCADE", 1, 1, "The database default cannot be dropped"),
    ("DROP TABLE t PURGE", 1, 14, "Expected the end before 'PURGE'"),
    ("CREATE EXTERNAL TABLE t (a int)", 1, 1, "Leave EXTERNAL out"),
    ("CREATE TABLE t AS SELECT a, count(*) FROM u", 1, 29, "column of the query has no name"),
    ("CREATE TABLE t (a int) AS SELECT 1 AS a", 1, 14, "the columns of the query alone"),
    ("CREATE TABLE t PARTITIONED BY (d int) AS SELECT 1 AS d", 1, 32, "name of one of its columns"),
    ("CREATE TABLE t LIKE u AS SELECT 1 AS a", 1, 21, "LIKE another one or AS a query"),
    (
        "CREATE TABLE t CLUSTERED BY (a) INTO 2 BUCKETS PARTITIONED BY (a) AS SELECT 1 AS a, 2 AS b",
        1,
        1,
        "clustered by a, which is no column of it",
    ),
    ("ALTER TABLE t ADD COLUMNS (a int NOT NULL)", 1, 28, "NOT NULL is not supported"),
    ("CREATE TABLE t (a uuid)", 1, 17, "the type UUID is not supported"),
    ("CREATE TABLE t (a int) CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS", 1, 38, "SORTED BY"),
    ("CREATE TABLE t (a int) STORED AS AVRO", 1, 1, "The format AVRO is not supported"),
    ("CREATE TABLE t (a int) TBLPROPERTIES ('transactional'='false')", 1, 14, "Only transactional"),
    ("CREATE TABLE t (a int) TBLPROPERTIES ('transactional'='false')", 1, 14, "Spark or Hive"),
    ("CREATE TABLE t (a int) TBLPROPERTIES ('bucketing_version'='1')", 1, 1, "have the value 2"),
    (
        "MERGE INTO (SELECT * FROM t) x USING s ON x.a = s.a WHEN MATCHED THEN DELETE",
        1,
        20,
        "Merging into something else than a table is not supported",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND t.b IN (SELECT 1) THEN DELETE",
        1,
        60,
        "A subquery in a condition",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
        1,
        64,
        "names 2 columns and has 1 value",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
        1,
        1,
        "can never be reached",
    ),
    ("INSERT INTO t TABLE u FOR VERSION AS OF 'x'", 1, 41, "A version is a number or a text"),
    ("INSERT INTO t SELECT * FROM u FOR SYSTEM_TIME AS OF now()", 1, 53, "A version is a number"),
    (
        "INSERT INTO t SELECT * FROM u TIMESTAMP AS OF 'noon'",
        1,
        47,
        "The time of a version cannot be",
    ),
    ("INSERT INTO t SELECT * FROM table_changes(u, 3)", 1, 29, "TABLE_CHANGES takes a table"),
    ("INSERT INTO t SELECT * FROM table_changes('u', 'x')", 1, 29, "time of a version cannot be"),
    ("DELETE FROM t", 1, 1, "DELETE FROM default.t has no condition: it would change all rows"),
    ("SELECT 1 AS a;\nUPDATE t SET a = 1", 1, 1, "It only asks something"),
    ("USE d;\nUPDATE t SET a = 1 -- WHERE a", 2, 1, "UPDATE d.t has no condition"),
    ("DELETE FROM t WHERE /* a */", 1, 15, "something is missing"),
    ("DELETE FROM t FOR VERSION AS OF 3", 1, 33, "with VERSION is not supported"),
    ("INSERT INTO t SELECT\n  FROM WHERE", 2, 8, "cannot be read at 'WHERE'"),
    ("DELETE FROM t WHERE a =", 1, 23, "something is missing"),
    ("MERGE INTO t USING s", 1, 20, "something is missing"),
]


@pytest.mark.parametrize(("sql", "line", "column", "message"), UNSUPPORTED)
def test_unsupported_parts_are_named_with_their_place(
    sql: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(SqlError) as caught:
        to_jobs(sql)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"Line {line}, column {column}: ")
    assert not caught.value.retryable


def test_all_rows_change_only_where_the_condition_is_missing() -> None:
    text = "DELETE FROM t; UPDATE t SET a = 1; DELETE FROM t WHERE a = 1"
    jobs = to_jobs(text, "db", all_rows=True)
    assert [(job.where, job.all_rows) for job in jobs] == [
        (None, True),
        (None, True),
        ("a = 1", False),
    ]


@pytest.mark.parametrize(
    ("text", "column", "quoted"),
    [
        ("DELETE FROM t WHERE \"day\" = '2026-01-01'", 21, "day"),
        ('DELETE FROM t WHERE id = 1 OR t."id" = 2', 33, "id"),
        ('UPDATE t SET a = 1 WHERE "a" IS NOT NULL', 26, "a"),
        ('UPDATE t SET "a" = 1 WHERE id = 1', 14, "a"),
        ('INSERT INTO t ("a") VALUES (1)', 16, "a"),
        ('INSERT INTO t SELECT a AS "some name" FROM s', 27, "some name"),
        ('DELETE FROM "t" WHERE id = 1', 13, "t"),
        ('CREATE TABLE "t" (a int)', 14, "t"),
        ('CREATE TABLE t ("a" int)', 17, "a"),
        ('INSERT INTO t SELECT a FROM "s"', 29, "s"),
        ('EXPLAIN DELETE FROM t WHERE "id" = 1', 29, "id"),
        ('CREATE VIEW v AS SELECT * FROM "t"', 32, "t"),
        ('CREATE OR REPLACE VIEW v AS SELECT a FROM s JOIN "t" ON s.id = t.id', 50, "t"),
        ('ALTER VIEW v AS WITH c AS (SELECT * FROM "t") SELECT * FROM c', 42, "t"),
    ],
)
def test_a_name_in_double_quotes_is_refused(text: str, column: int, quoted: str) -> None:
    with pytest.raises(SqlError) as caught:
        to_steps(text)
    assert caught.value.what == f'Line 1, column {column}: "{quoted}" is a text, not a name.'
    assert caught.value.remedy == (
        f"Write names in backquotes, `{quoted}`, and texts in single quotes."
    )


@pytest.mark.parametrize(
    "text",
    [
        'DELETE FROM t WHERE day = "2026-01-01" AND EXTRACT(DAY FROM "2026-01-01") = d',
        'DELETE FROM t WHERE "2026-01-01" = day OR "a" IN (b, c) OR "a" || b = "ab"',
        'UPDATE t SET a = "b", c = CASE "x" WHEN d THEN "e" END WHERE f LIKE "g%"',
        'INSERT INTO t PARTITION (day = "2026-01-01") VALUES (1, "as")',
        """INSERT INTO t SELECT '{"a": "b"}', "it's" FROM s""",
        'ALTER TABLE t DROP PARTITION (day = "2026-01-01")',
        'CREATE TABLE t (a int COMMENT "b") TBLPROPERTIES ("c" = "d")',
        'CREATE VIEW v AS SELECT "a", b FROM t WHERE c = "d"',
    ],
)
def test_texts_in_double_quotes_are_texts(text: str) -> None:
    assert to_jobs(text)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("INSERT INTO t SELECT 'abc", 1, 22),
        ("DELETE FROM t WHERE a = 'it''s';\nDELETE FROM t\n WHERE `b = 'x'", 3, 8),
        ("SELECT 1 -- it's\n, \"x", 2, 3),
        ("SELECT 1\n/* x /* y */", 2, 1),
        ("SELECT r'a\\' || r'b", 1, 18),
    ],
)
def test_a_quote_without_an_end_is_located(text: str, line: int, column: int) -> None:
    message = f"^Line {line}, column {column}: A quote or a comment does not end"
    with pytest.raises(SqlError, match=message):
        to_steps(text)


@pytest.mark.parametrize(
    ("text", "column", "type_", "remedy"),
    [
        ("CREATE TABLE t (a strng)", 19, "strng", "Did you mean string?"),
        ("CREATE TABLE t (a int, `b` bigit COMMENT 'c')", 28, "bigit", "Did you mean bigint?"),
        ("CREATE TABLE t (a array<intt>)", 25, "intt", "Did you mean int?"),
        ("CREATE TABLE t (a map<int, foo>)", 28, "foo", ""),
        ("CREATE TABLE t (a int, b struct<x:int, y:strng>)", 42, "strng", "Did you mean string?"),
        ("CREATE TABLE t (a int) PARTITIONED BY (d dat)", 42, "dat", "Did you mean date?"),
        ("ALTER TABLE t ADD COLUMNS (a int, c strng)", 37, "strng", "Did you mean string?"),
        ("ALTER TABLE t CHANGE a b timestmp", 26, "timestmp", "Did you mean timestamp?"),
        ("SELECT CAST(a AS strng) FROM t", 18, "strng", "Did you mean string?"),
    ],
)
def test_a_misspelled_type_is_located(text: str, column: int, type_: str, remedy: str) -> None:
    with pytest.raises(SqlError) as caught:
        to_steps(text)
    assert caught.value.what == f"Line 1, column {column}: {type_} is not a type."
    assert remedy in (caught.value.remedy or "")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a int b int)",
        "CREATE TABLE t AS SELECT f(a b) FROM x",
        "INSERT INTO t (a b) SELECT 1",
        "SELECT a AS foo FROM WHERE b AS c",
    ],
)
def test_another_unreadable_word_is_not_taken_for_a_type(text: str) -> None:
    with pytest.raises(SqlError, match="It cannot be read at"):
        to_steps(text)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("DELETE FROM t\n WHERE a = :id", 2, 12),
        ("SELECT * FROM t WHERE a = :id", 1, 27),
        ("EXPLAIN UPDATE t SET a = ':no', b = :id WHERE c", 1, 37),
        ("DELETE FROM t WHERE a = :given;\nTRUNCATE TABLE t PARTITION (a = :id)", 2, 33),
    ],
)
def test_a_parameter_without_a_value_is_located(text: str, line: int, column: int) -> None:
    with pytest.raises(SqlError) as caught:
        to_steps(text, params={"given": 1} if ":given" in text else {})
    assert caught.value.what == f"Line {line}, column {column}: The parameter :id has no value."
    assert "params=" not in str(caught.value)


@pytest.mark.parametrize("sql", ["", "  \n", ";;", "-- nothing"])
def test_a_text_without_a_statement_is_no_script(sql: str) -> None:
    assert to_jobs(sql) == ()
    with pytest.raises(InvalidJob, match="no statement"):
        to_script(sql)


def test_any_content_causes_the_same_error() -> None:
    """Statements with some words left out, put in or exchanged."""
    corpus = [*CASES, *(case[0] for case in UNSUPPORTED)]
    texts = [re.findall(r"\w+|'[^']*'|`[^`]*`|\s+|[^\w\s]", text) for text in corpus]
    vocabulary = [word for words in texts for word in words]
    choice, read, refused = random.Random(20261120), 0, 0
    for _ in range(1000):
        words = list(choice.choice(texts))
        for _ in range(choice.randint(1, 3)):
            at = choice.randrange(len(words))
            words[at : at + choice.randint(0, 1)] = choice.sample(vocabulary, choice.randint(0, 1))
        try:
            read += len(to_jobs("".join(words), "db"))
        except SqlError:
            refused += 1
    assert read > 0
    assert refused > 0


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (id int, `tick``tick` int)",
        "CREATE TABLE t (id int) PARTITIONED BY (`tick``tick` string)",
        "CREATE TABLE t (id int, s struct<`tick``tick`: int>)",
        "CREATE TABLE t (id int, s array<map<int, struct<`tick``tick`: int>>>)",
        "ALTER TABLE t ADD COLUMNS (`tick``tick` int)",
        "ALTER TABLE t RENAME COLUMN id TO `tick``tick`",
        "ALTER TABLE t CHANGE COLUMN id `tick``tick` int",
        "ALTER TABLE t REPLACE COLUMNS (id int, `tick``tick` int)",
        "CREATE VIEW t (id, `tick``tick` COMMENT 'c') AS SELECT 1, 2",
    ],
)
def test_names_with_backticks_are_refused(sql: str) -> None:
    with pytest.raises(SqlError, match=r"backtick|letters, digits and underscores"):
        to_jobs(sql, "db")
    (job,) = to_jobs(sql.replace("``", "_"), "db")
    assert job.target == "db.t"
