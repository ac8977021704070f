"""Quoted words: texts and names in quotes are never keywords."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from hiveacid.errors import SqlError
from hiveacid.parser.script import to_jobs, to_steps
from hiveacid.parser.statement import tokens_of
from hiveacid.rules.constraints import NotNull
from hiveacid.rules.partitions import KeyComparison

# A name has one letter.
STATEMENTS = [
    "ALTER TABLE t ADD IF NOT EXISTS PARTITION (k = TRUE, a = NULL) PARTITION (k = DATE '2026-01-01')",
    "ALTER TABLE t ADD COLUMNS (a int COMMENT 'c') CASCADE",
    "ALTER TABLE t ALTER COLUMN a TYPE bigint COMMENT 'c' AFTER b",
    "ALTER TABLE t CHANGE COLUMN a b bigint COMMENT 'c' FIRST",
    "ALTER TABLE t DROP IF EXISTS PARTITION (k = FALSE), PARTITION (k = NULL)",
    "ALTER TABLE t PARTITION (k = TRUE) COMPACT 'rebalance' AND WAIT ORDER BY a DESC NULLS LAST",
    "ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')",
    "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('k')",
    "ANALYZE TABLE t PARTITION (k = FALSE, a) COMPUTE STATISTICS FOR COLUMNS b",
    "COMMENT ON COLUMN t.a IS NULL",
    "CREATE DATABASE IF NOT EXISTS u COMMENT 'c' LOCATION '/l' WITH DBPROPERTIES ('k' = 'v')",
    "CREATE OR REPLACE VIEW v (a) COMMENT 'c' AS SELECT b FROM t",
    "CREATE TABLE IF NOT EXISTS t (a int NOT NULL DISABLE, b int DEFAULT 1, CONSTRAINT k CHECK (a > 1),"
    " PRIMARY KEY (a) DISABLE NOVALIDATE RELY) PARTITIONED BY (k int) STORED AS ORC",
    "CREATE TABLE t AS SELECT a FROM u",
    "CREATE TABLE t LIKE u LOCATION '/l'",
    "DELETE FROM t WHERE a IS NULL",
    "DESCRIBE EXTENDED t PARTITION (k = TRUE)",
    "DROP DATABASE IF EXISTS u CASCADE",
    "EXPLAIN DELETE FROM t WHERE a",
    "FROM u INSERT INTO TABLE t SELECT a WHERE b INSERT OVERWRITE TABLE v SELECT b",
    "INSERT INTO TABLE t BY NAME SELECT 1 AS a",
    "INSERT OVERWRITE TABLE t PARTITION (k = TRUE) (a) VALUES (DEFAULT)",
    "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED AND b THEN"
    " UPDATE SET * WHEN NOT MATCHED THEN INSERT (a) VALUES (DEFAULT)",
    "MSCK REPAIR TABLE t ADD PARTITIONS",
    "OPTIMIZE TABLE t PARTITION (k = NULL)",
    "RESTORE TABLE t TO VERSION AS OF 7",
    "SELECT a FROM t FOR VERSION AS OF 7 LIMIT 3",
    "SHOW LOCKS t EXTENDED",
    "SHOW PARTITIONS t PARTITION (k = TRUE)",
    "TRUNCATE TABLE t PARTITION (k = TRUE)",
    "UPDATE t SET a = DEFAULT WHERE b",
    "USE u; DROP TABLE IF EXISTS t",
]
TYPES_AND_FORMATS = ("int", "bigint", "ORC")


def _with_a_quoted_word(sql: str, quotes: str) -> Iterator[str]:
    for token in tokens_of(sql):
        written = sql[token.start : token.end + 1]
        is_keyword = len(written) > 1 and written.replace(" ", "").isalpha()
        if is_keyword and written not in TYPES_AND_FORMATS:
            yield f"{sql[: token.start]}{quotes}{written}{quotes}{sql[token.end + 1 :]}"


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_keyword_in_quotes_is_not_a_keyword(sql: str) -> None:
    meaning = to_steps(sql)
    for changed in (*_with_a_quoted_word(sql, "`"), *_with_a_quoted_word(sql, "'")):
        with suppress(SqlError):
            assert to_steps(changed) != meaning, changed


@pytest.mark.parametrize("quoted", ["'TRUE'", '"TRUE"', "'DATE'", "'NULL'"])
def test_a_quoted_value_of_a_partition_key_is_a_text(quoted: str) -> None:
    text = quoted[1:-1]
    clause = f"PARTITION (k = {quoted})"
    add, drop, truncate, insert, optimize, analyze = to_jobs(
        f"ALTER TABLE t ADD {clause}; ALTER TABLE t DROP {clause}; TRUNCATE TABLE t {clause};"
        f"INSERT INTO t {clause} SELECT 1; OPTIMIZE t {clause};"
        f"ANALYZE TABLE t {clause} COMPUTE STATISTICS"
    )
    assert add.partitions == drop.partitions == ((KeyComparison("k", text),),)
    assert truncate.partition == {"k": text}
    assert insert.partitions == ({"k": text},)
    assert optimize.partitions == analyze.partitions == (f"k={text}",)


def test_columns_can_have_quoted_keywords_as_names() -> None:
    names = [
        "constraint",
        "primary key",
        "check",
        "unique",
        "default",
        "comment",
        "references",
        "not",
    ]
    columns = ", ".join(f"`{name}` int" for name in names)
    (job,) = to_jobs(f"CREATE TABLE t ({columns} NOT NULL, CONSTRAINT k CHECK (`check` > 1))")
    assert [column.name for column in job.columns] == names
    assert job.constraints[0] == NotNull(column="not", rely=True)
    assert len(job.constraints) == 2


@pytest.mark.parametrize("first", ["a", "x", "X"])
def test_two_comments_in_a_row_are_refused(first: str) -> None:
    with pytest.raises(SqlError, match="cannot be read at"):
        to_jobs(f"ALTER TABLE t ADD COLUMNS (a int COMMENT '{first}' 'b')")
