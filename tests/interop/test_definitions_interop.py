"""Statements that change definitions: Hive and Trino see the same tables, rows and views after each."""

from dataclasses import replace

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.fixture
def sql(spark, hive):
    """Run statements of this package."""

    def run_sql(text: str):
        options = MetastoreOptions(uris=hive.metastore_uri)
        report = run(spark, replace(to_script(text, "default"), metastore=options))
        assert report.error is None
        return report

    return run_sql


@pytest.fixture
def check(hive, trino):
    """Compare the rows, and Hive's definition, with the expected ones."""

    def compare(name: str, columns: list[str], expected: list[tuple[str, ...]], order: str = "id"):
        selected = ", ".join(column.split()[0] for column in columns)
        assert hive.sql(f"select {selected} from {name} order by {order}") == expected
        assert trino.sql(f"select {selected} from hive.default.{name} order by {order}") == expected
        shown = " ".join(row[0].strip() for row in hive.sql(f"show create table {name}"))
        for column in columns:
            column_name, _, type_ = column.partition(" ")
            assert f"`{column_name}` {type_}" in shown, shown

    return compare


PARTITIONED = "PARTITIONED BY (day date)"


@pytest.mark.parametrize("kind", ["", "TBLPROPERTIES ('transactional_properties'='insert_only')"])
def test_hive_and_trino_read_and_write_after_each_change_of_columns(sql, hive, trino, check, kind):
    name = "columns_of_ours" if not kind else "columns_of_inserts"
    sql(f"CREATE TABLE {name} (id int, n int, f float, v varchar(3), d decimal(5,2)) {kind}")
    hive.sql(f"insert into {name} values (1, 10, 0.5, 'abc', 1.25)")
    sql(f"INSERT INTO {name} VALUES (2, 20, 1.5, 'def', 2.50)")
    rows = [("1", "10", "0.5", "abc", "1.25"), ("2", "20", "1.5", "def", "2.50")]
    columns = ["id int", "n int", "f float", "v varchar(3)", "d decimal(5,2)"]
    # Each change, with the place of the column, its definition, and values that only it can have.
    changes = [
        ("RENAME COLUMN n TO m", 1, "m int", "30"),
        ("CHANGE m k bigint COMMENT 'wider'", 1, "k bigint", "3000000000"),
        ("ALTER COLUMN f TYPE double", 2, "f double", "0.1"),
        ("ALTER COLUMN v TYPE string", 3, "v string", "a long text"),
        ("ALTER COLUMN d TYPE decimal(8,3)", 4, "d decimal(8,3)", "12345.125"),
        ("ALTER COLUMN id COMMENT 'the key'", 0, "id int", None),
    ]
    for number, (change, place, column, value) in enumerate(changes):
        sql(f"ALTER TABLE {name} {change}")
        columns[place] = column
        if place == 4:
            rows = [(*row[:4], f"{row[4]}0") for row in rows]
        check(name, columns, rows)
        for engine, key in ((hive, 10 + number), (trino, 20 + number)):
            row = ["1", "0.5", "x", "1.25" if number < 4 else "1.250"]
            if value is not None:
                row[place - 1] = value
            table = name if engine is hive else f"hive.default.{name}"
            literals = [str(key), row[0], f"cast({row[1]} as {columns[2].split()[1]})"]
            if engine is trino:
                literals[2] = f"cast({row[1]} as {'real' if number < 2 else 'double'})"
            literals += [f"'{row[2]}'", row[3]]
            engine.sql(f"insert into {table} values ({', '.join(literals)})")
            rows.append((str(key), *row))
        rows.sort(key=lambda each: int(each[0]))
        check(name, columns, rows)
    sql(
        f"ALTER TABLE {name} REPLACE COLUMNS (id bigint, k bigint, f double, v string, d decimal(8,3), e date)"
    )
    check(name, ["id bigint", *columns[1:], "e date"], [(*row, "NULL") for row in rows])


@pytest.mark.parametrize(
    ("before", "value", "after", "shown"),
    [
        ("tinyint", "7", "smallint", "7"),
        ("int", "10", "decimal(12,2)", "10.00"),
        ("char(3)", "'abc'", "char(5)", "abc"),
        ("varchar(3)", "'abc'", "varchar(5)", "abc"),
        ("decimal(5,2)", "1.25", "decimal(20,4)", "1.2500"),
    ],
)
def test_hive_and_trino_read_old_rows_of_wider_types(
    sql, hive, trino, check, before, value, after, shown
):
    sql(f"CREATE TABLE wider (id int, v {before})")
    hive.sql(f"insert into wider values (1, {value})")
    sql(f"INSERT INTO wider VALUES (2, {value}); ALTER TABLE wider ALTER COLUMN v TYPE {after}")
    selected = [(key, shown) for key in ("1", "2")]
    rows = [
        [(key, text.strip()) for key, text in engine.sql(f"select * from {table} order by id")]
        for engine, table in ((hive, "wider"), (trino, "hive.default.wider"))
    ]
    sql("DROP TABLE wider")
    assert rows == [selected, selected]


def test_hive_and_trino_read_and_write_after_partitions_are_added_and_dropped(
    sql, hive, trino, check
):
    sql(
        f"""
        CREATE TABLE days (id int, n int) {PARTITIONED};
        ALTER TABLE days ADD PARTITION (day = '2026-01-01') PARTITION (day = DATE '2026-01-02')
        """
    )
    columns = ["id int", "n int", "day date"]
    check("days", columns, [])
    hive.sql("insert into days partition (day='2026-01-01') values (1, 10)")
    trino.sql(
        "insert into hive.default.days values (2, 20, date '2026-01-02'), (3, 30, date '2026-01-03')"
    )
    sql("INSERT INTO days VALUES (4, 40, DATE '2026-01-03')")
    report = sql("ALTER TABLE days DROP PARTITION (day < '2026-01-03')").statements[0].report
    assert report.partitions == ("day=2026-01-01", "day=2026-01-02")
    check("days", columns, rows := [("3", "30", "2026-01-03"), ("4", "40", "2026-01-03")])
    hive.sql("insert into days partition (day='2026-01-01') values (5, 50)")
    trino.sql("insert into hive.default.days values (6, 60, date '2026-01-02')")
    rows += [("5", "50", "2026-01-01"), ("6", "60", "2026-01-02")]
    check("days", columns, rows)
    # Partitions have the columns of the table after a change.
    sql("ALTER TABLE days CHANGE n m bigint; DELETE FROM days WHERE id = 3")
    columns[1] = "m bigint"
    check("days", columns, rows := rows[1:])
    hive.sql("insert into days partition (day='2026-01-03') values (7, 7000000000)")
    trino.sql("insert into hive.default.days values (8, 8000000000, date '2026-01-03')")
    sql("UPDATE days SET m = m + 1 WHERE id = 6")
    rows[2] = ("6", "61", "2026-01-02")
    rows += [("7", "7000000000", "2026-01-03"), ("8", "8000000000", "2026-01-03")]
    check("days", columns, rows)
    assert sql("MSCK REPAIR TABLE days").statements[0].report.partitions == ()
    sql("OPTIMIZE days; ALTER TABLE days COMPACT 'major'; COMMENT ON TABLE days IS 'all days'")
    check("days", columns, rows)
    shown = " ".join(row[0].strip() for row in hive.sql("show create table days"))
    assert "COMMENT 'all days'" in shown


def test_hive_and_trino_read_views(sql, hive, trino):
    sql(
        """
        CREATE TABLE people (id int, name varchar(5), born date);
        INSERT INTO people VALUES (1, 'Ada', DATE '1815-12-10'), (2, 'Alan', DATE '1912-06-23');
        CREATE VIEW names (key, name) COMMENT 'short' AS SELECT id, upper(name) AS upper_name FROM people;
        CREATE VIEW everybody AS SELECT * FROM people WHERE id > 0
        """
    )
    names = [("1", "ADA"), ("2", "ALAN")]
    people = [("1", "Ada", "1815-12-10"), ("2", "Alan", "1912-06-23")]

    def check(view: str, columns: str, expected: list[tuple[str, ...]]) -> None:
        assert hive.sql(f"select {columns} from {view} order by 1") == expected
        assert trino.sql(f"select {columns} from hive.default.{view} order by 1") == expected

    check("names", "key, name", names)
    check("everybody", "*", people)
    # A view keeps its columns when its table gets more.
    sql("ALTER TABLE people ADD COLUMNS (died date)")
    check("everybody", "*", people)
    sql("ALTER VIEW names AS SELECT id AS key, lower(name) AS name, born FROM people WHERE id = 2")
    check("names", "*", [("2", "alan", "1912-06-23")])
    sql("CREATE OR REPLACE VIEW names AS SELECT count(*) AS n FROM everybody")
    check("names", "*", [("2",)])
    assert "VIRTUAL_VIEW" in str(hive.sql("describe formatted names"))
    sql("DROP VIEW names; DROP VIEW IF EXISTS names")
    assert ("names",) not in hive.sql("show views")
