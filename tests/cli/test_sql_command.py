"""`hiveacid sql`, as far as it needs no Spark; other tests cover the effects of statements."""

import json
import shutil
from pathlib import Path

import pytest

from hiveacid.cli import local_spark
from hiveacid.cli.main import main
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders

HIVE_WRITTEN = Path(__file__).parents[1] / "data" / "hive-written"
pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


def test_tables_are_created(hiveacid, client, database) -> None:
    sql = "CREATE TABLE t (id int); CREATE TABLE IF NOT EXISTS t (id int)"
    status, said = hiveacid("sql", sql, "--database", database)
    assert (status, said.splitlines()) == (
        0,
        [f"1. create_table {database}.t: done", f"2. create_table {database}.t: done"],
    )
    assert client.get_table(TableRef(database, "t")).kind is TableKind.FULL_ACID


def test_statements_come_from_a_file(hiveacid, client, database, tmp_path) -> None:
    file = tmp_path / "tables.sql"
    file.write_text(f"-- all of them\nCREATE TABLE {database}.t (id int)")
    status, said = hiveacid("sql", "--file", str(file), "--json")
    assert status == 0
    (statement,) = json.loads(said)["statements"]
    assert statement["run"]["target"] == f"{database}.t"


def test_questions_are_answered_without_spark(hiveacid, client, database) -> None:
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(3):
        folders.insert()
    shown = hiveacid("sql", f"SHOW HISTORY {database}.t LIMIT 2;")
    assert shown == hiveacid("history", f"{database}.t", "--limit", "2")
    assert shown[1].startswith(f"{database}.t: 2 entries")
    status, told = hiveacid("sql", "describe detail t", "--database", database, "--json")
    assert (status, json.loads(told)["newest_version"]) == (0, 3)
    status, told = hiveacid("sql", f"DESC DETAIL {database}.t")
    assert ["newest", "version", "3"] in [line.split() for line in told.splitlines()]


def test_databases_and_tables_are_shown_in_milliseconds(hiveacid, client, database) -> None:
    sql = """
        CREATE TABLE orders (id int COMMENT 'k', note string) PARTITIONED BY (day date)
        TBLPROPERTIES ('a' = 'b');
        SHOW TABLES LIKE 'o*';
        DESCRIBE EXTENDED orders;
        ALTER TABLE orders RENAME TO sold;
        SHOW TABLES;
        DROP TABLE sold
    """
    status, said = hiveacid("sql", sql, "--database", database)
    assert status == 0
    lines = [line.split() for line in said.splitlines()]
    assert lines[:5] == [
        ["1.", "create_table", f"{database}.orders:", "done"],
        [],
        ["tab_name"],
        ["orders"],
        [],
    ]
    assert lines[5:9] == [
        ["col_name", "data_type", "comment"],
        ["id", "int", "k"],
        ["note", "string"],
        ["day", "date"],
    ]
    assert ["a", "b"] in lines
    assert ["num_buckets", "-1"] in lines
    assert lines[-3:] == [["tab_name"], ["sold"], ["6.", "drop_table", f"{database}.sold:", "done"]]
    status, said = hiveacid("sql", "SHOW TABLES; SHOW DATABASES", "--database", database, "--json")
    tables, databases = json.loads(said)["results"]
    assert tables == {"columns": ["tab_name"], "rows": []}
    assert {"database_name": database} in databases["rows"]


def test_completed_statements_are_reported_if_a_question_fails(
    hms, client, database, capsys
) -> None:
    sql = f"CREATE TABLE {database}.t (id int); DESCRIBE {database}.gone"
    assert main(["sql", sql, "--json", "--metastore", hms.uri]) != 0
    printed = capsys.readouterr()
    (statement,) = json.loads(printed.out)["statements"]
    assert statement["run"]["target"] == f"{database}.t"
    assert f"{database}.gone does not exist" in printed.err


def test_active_transactions_are_shown(hiveacid, client, database) -> None:
    folders = AcidFolders.create(client, f"{database}.t")
    with Transaction(client, targets=[Target(folders.ref, Operation.UPDATE)], user="ann") as txn:
        shown = {}
        for what in ("TRANSACTIONS", f"LOCKS {database}.t", "COMPACTIONS"):
            shown[what.split()[0]] = json.loads(hiveacid("sql", f"SHOW {what}", "--json")[1])[
                "rows"
            ]
    assert txn.txn_id in [row["txnid"] for row in shown["TRANSACTIONS"]]
    (lock,) = shown["LOCKS"]
    assert (lock["lock_type"], lock["lock_state"], lock["user"]) == (
        "EXCL_WRITE",
        "ACQUIRED",
        "ann",
    )
    assert shown["COMPACTIONS"] == []


def test_a_statement_is_explained_without_spark(hiveacid, client, database) -> None:
    ref = TableRef(database, "t")
    sql = (
        f"CREATE TABLE {ref} (id int) PARTITIONED BY (day date); CREATE TABLE {database}.s (id int)"
    )
    assert hiveacid("sql", sql)[0] == 0
    table = client.get_table(ref)
    days = ["2026-11-01", "2026-11-02"]
    client.add_partitions(ref, [HivePartition.new(table, [day]) for day in days])
    merge = f"""
        EXPLAIN MERGE INTO {ref} t USING {database}.s s ON t.id = s.id AND t.day = DATE '{days[0]}'
        WHEN MATCHED THEN DELETE
    """
    with Transaction(client, targets=[Target(ref, Operation.UPDATE)], user="ann") as txn:
        status, said = hiveacid("sql", merge, "--json")
    assert status == 0
    told = json.loads(said)
    assert [row["partition"] for row in told["rows"]] == [f"day={days[0]}"]
    assert [told["rows"][0][what] for what in ("base", "deltas", "files")] == [None, 0, 0]
    assert told["statement"]["partitions"] == "at most 1 of 2"
    where = "EXCL_WRITE on the partitions that the source has rows for"
    assert told["locks"][ref.full_name] == where
    assert told["locks"][f"{database}.s"] == "SHARED_READ on the table"
    (waits,) = told["in the way now"].values()
    assert f"transaction {txn.txn_id} (user ann" in waits
    told = json.loads(hiveacid("sql", f"EXPLAIN DELETE FROM {ref}", "--json")[1])
    assert (len(told["rows"]), "in the way now" in told) == (2, False)
    assert client.show_locks(ref) == []
    create = f"EXPLAIN CREATE TABLE {database}.new PARTITIONED BY (day) AS SELECT * FROM {ref}"
    told = json.loads(hiveacid("sql", create, "--json")[1])
    assert told["statement"]["does"] == "creates the table, then inserts"
    assert told["statement"]["partitions"] == "by day"
    assert told["locks"][ref.full_name] == "SHARED_READ on the table"
    assert list(told["locks"]) == [f"{database}.new", ref.full_name]
    assert "new" not in client.get_tables(database)


def test_an_explanation_lists_the_partitions_that_may_change(hiveacid, client, database) -> None:
    tables = "CREATE TABLE t (id int) PARTITIONED BY (p int, s string); CREATE TABLE u (id int)"
    add = "ALTER TABLE t ADD PARTITION (p=1,s='x') PARTITION (p=1,s='y') PARTITION (p=2,s='x')"
    assert hiveacid("sql", f"{tables}; {add}", "--database", database)[0] == 0

    def told(sql: str, *arguments: str) -> tuple[dict[str, str], str, list[str]]:
        given = ["--database", database, "--json", *arguments]
        status, said = hiveacid("sql", f"EXPLAIN {sql}", *given)
        assert status == 0, said
        answer = json.loads(said)
        touched = [row["partition"] for row in answer["rows"]]
        waits = [*answer.get("in the way now", {}).values()]
        return answer["locks"][f"{database}.t"], touched, waits

    one, two, three = "p=1/s=x", "p=1/s=y", "p=2/s=x"
    ref = TableRef(database, "t")
    update = Target(ref, Operation.UPDATE, partitioned=True, partitions=[three])
    with Transaction(client, targets=[update], user="ann"):
        # A lock on another partition is not in the way.
        below = "EXCL_WRITE on the partitions below"
        assert told("DELETE FROM t WHERE p = 1") == (below, [one, two], [])
        assert told("DELETE FROM t WHERE p < :p", "--param", "p=2") == (below, [one, two], [])
        lock, touched, (waits,) = told("UPDATE t SET id = 1 WHERE p = 2")
        assert (lock, touched) == (below, [three])
        assert "user ann" in waits
        lock, touched, (waits,) = told(
            "INSERT OVERWRITE TABLE t PARTITION (p = 1, s) SELECT id, 'x' FROM u"
        )
        assert (lock, touched) == ("EXCLUSIVE on the table", [one, two])
    read = "SHARED_READ on the table"
    assert told("INSERT INTO t SELECT id, 1, 'x' FROM u") == (read, [one, two, three], [])
    named = "INSERT INTO t PARTITION (p = 9, s = 'x') SELECT id FROM u"
    assert told(named) == ("SHARED_READ on the partitions p=9/s=x", [], [])


def test_a_drop_of_many_partitions_locks_the_table(hiveacid, client, database) -> None:
    ref = TableRef(database, "t")
    assert hiveacid("sql", f"CREATE TABLE {ref} (id int) PARTITIONED BY (n int)")[0] == 0
    table = client.get_table(ref)
    client.add_partitions(ref, [HivePartition.new(table, [str(n)]) for n in range(102)])
    for condition, where in (("n > 1", "partitions below"), ("n > 0", "table")):
        drop = f"ALTER TABLE {ref} DROP PARTITION ({condition})"
        told = json.loads(hiveacid("sql", f"EXPLAIN {drop}", "--json")[1])
        assert told["locks"] == {ref.full_name: f"EXCLUSIVE on the {where}"}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM t WHERE ida = 1", "unknown column: ida. Did you mean id?"),
        ("DELETE FROM t USING u WHERE t.id = u.b", "unknown column: u.b"),
        ("UPDATE t SET id = b", "unknown column: b"),
        ("SELECT b FROM t", "The query names an unknown column: b. The columns are id, day."),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.id)", "column: u.b"),
        ("INSERT INTO t SELECT b, day FROM t", "The query names an unknown column: b"),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT *",
            "takes all columns from the source, which has no day",
        ),
        (
            "MERGE INTO t USING (SELECT id FROM u) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "takes all columns from the source, which has no day",
        ),
        ("SELECT * FROM TABLE_CHANGES('gone', 0, 1)", "gone does not exist"),
        ("SELECT * FROM TABLE_CHANGES('t', 2, 1)", "had version 2 only after version 1"),
        ("INSERT INTO u SELECT id FROM TABLE_CHANGES('t', 2, 1)", "only after version 1"),
        ("TRUNCATE TABLE t PARTITION (day = '2026-01-02')", "has no partition where day ="),
        ("TRUNCATE TABLE t PARTITION (day = 'monday')", "'monday' is not a value"),
        (
            "INSERT OVERWRITE TABLE t PARTITION (day = 'monday') SELECT id FROM u",
            "has no partition where day is 'monday': that is no date",
        ),
    ],
)
@pytest.mark.parametrize("explain", ["", "EXPLAIN "])
def test_errors_are_found_without_spark(
    hiveacid, client, database, monkeypatch, explain, sql, message
) -> None:
    monkeypatch.setattr(local_spark, "a_spark", None)
    tables = "CREATE TABLE t (id int) PARTITIONED BY (day date); CREATE TABLE u (id int)"
    add = "ALTER TABLE t ADD PARTITION (day = '2026-01-01')"
    assert hiveacid("sql", f"{tables}; {add}", "--database", database)[0] == 0
    for _ in range(2):
        txn = client.open_txn("tests", "localhost", None)
        client.allocate_write_id(txn, TableRef(database, "t"))
        client.commit_txn(txn)
    status, said = hiveacid("sql", explain + sql, "--database", database, "--all-rows")
    assert status == 20, said
    assert message in said


def test_every_kind_of_statement_is_explained_and_changes_nothing(
    hiveacid, client, database
) -> None:
    create = "CREATE TABLE {} (id int, a string) PARTITIONED BY (day string)"
    tables = f"{create.format('t')}; {create.format('s')}; CREATE TABLE u (id int)"
    assert hiveacid("sql", tables, "--database", database)[0] == 0
    ref = TableRef(database, "t")
    client.add_partitions(ref, [HivePartition.new(client.get_table(ref), ["mon"])])
    definitions = {ref.full_name: client.get_table(ref).raw for ref in [ref]}

    def told(sql: str) -> dict[str, object]:
        status, said = hiveacid("sql", f"EXPLAIN {sql}", "--database", database, "--json")
        assert status == 0, said
        assert hiveacid("sql", f"EXPLAIN {sql}", "--database", database)[0] == 0
        return json.loads(said)

    name = ref.full_name
    update = told("UPDATE t SET (a, id) = ('x', 1) WHERE day = 'mon'")
    assert update["clauses"] == {"SET": "a = 'x', id = 1", "WHERE": "day = 'mon'"}
    merge = told(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.a = 'x' THEN UPDATE SET a = s.a "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert merge["clauses"] == {
        "ON": "t.id = s.id",
        "1. WHEN MATCHED AND s.a = 'x'": "UPDATE SET a = s.a",
        "2. WHEN NOT MATCHED": "INSERT *",
        "3. WHEN NOT MATCHED BY SOURCE": "DELETE",
    }
    several = told("FROM s INSERT INTO u SELECT id INSERT OVERWRITE TABLE t SELECT *")
    assert several["1. statement"]["table"] == f"{database}.u"
    assert [row["statement"] for row in several["rows"]] == [1, 2]
    selected = told("SELECT max(t.id) FROM t JOIN u ON t.id = u.id")
    assert selected["locks"] == {
        name: "SHARED_READ on the table",
        f"{database}.u": "SHARED_READ on the table",
    }
    assert [(row["table"], row["partitions"], row["files"]) for row in selected["rows"]] == [
        (name, 1, 0),
        (f"{database}.u", None, 0),
    ]
    locks = {
        "DROP TABLE t": "EXCLUSIVE on the table",
        "ALTER TABLE t RENAME TO x": "EXCLUSIVE on the table",
        "ALTER TABLE t ADD COLUMNS (b int)": "EXCLUSIVE on the table",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')": "SHARED_READ on the table",
        "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a')": "EXCLUSIVE on the table",
        "ANALYZE TABLE t COMPUTE STATISTICS": "SHARED_READ on the table",
        "RESTORE TABLE t TO VERSION AS OF 0": "EXCL_WRITE on the table",
        "TRUNCATE TABLE t": "EXCLUSIVE on the table",
    }
    for statement, lock in locks.items():
        assert told(statement)["locks"][name] == lock, statement
    assert "partitions below" in told("ALTER TABLE t COMPACT 'minor'")["locks"][name]
    for type_, reason in (("minor", "no"), ("rebalance", f"The rows of {name} must be sorted.")):
        compaction = told(f"ALTER TABLE t COMPACT '{type_}'")["statement"]
        assert compaction["requires Spark"] == reason
    rebalance = told("ALTER TABLE t COMPACT 'rebalance'")["locks"][name]
    assert rebalance == "EXCL_WRITE on the partitions below, one after the other"
    nothing = told("ALTER TABLE t DROP IF EXISTS PARTITION (day = 'tue')")
    assert (nothing["rows"], nothing["locks"]) == ([], {"none": None})
    for statement in ("CREATE TABLE x (a int)", "CREATE DATABASE x", "SHOW TABLES", "DESCRIBE t"):
        assert told(statement)["locks"] == {"none": None}
    dropped = told(f"DROP DATABASE {database} CASCADE")["locks"]
    assert [*dropped] == [f"{database}.{table}" for table in ("s", "t", "u")]
    assert sorted(client.get_tables(database)) == ["s", "t", "u"]
    assert {ref.full_name: client.get_table(ref).raw for ref in [ref]} == definitions
    assert client.show_locks(ref) == []
    assert Snapshot.take(client, [ref]).write_ids[name].high_watermark == 0


def test_columns_and_partitions_are_described(hiveacid, client, database) -> None:
    ref = TableRef(database, "t")
    columns = [HiveColumn("id", "int"), HiveColumn("info", "struct<a:int>", "more of it")]
    keys = [HiveColumn("day", "string"), HiveColumn("n", "int")]
    client.create_table(HiveTable.new(ref, columns, partition_keys=keys))
    table = client.get_table(ref)
    client.add_partitions(ref, [HivePartition.new(table, ["a/b", "7"])])

    def told(sql: str) -> tuple[int, object]:
        status, said = hiveacid("sql", sql, "--database", database, "--json")
        return status, json.loads(said) if status == 0 else said

    _, answer = told("DESCRIBE t INFO")
    assert answer["rows"] == [
        {"col_name": "info", "data_type": "struct<a:int>", "comment": "more of it"}
    ]
    _, answer = told("DESC EXTENDED t PARTITION (day = 'a/b', n = 7)")
    assert answer["partition"] == {"day": "a/b", "n": "7"}
    assert [row["col_name"] for row in answer["rows"]] == ["id", "info", "day", "n"]
    assert answer["storage"]["location"].endswith("/day=a%2Fb/n=7")
    for sql, message in {
        "DESCRIBE t oops": "has no column oops. Its columns are id, info, day, n",
        "DESCRIBE t PARTITION (day = 'a', n = 7)": "has no partition day=a/n=7",
        "DESCRIBE t PARTITION (day = 'a')": "The value of the partition key n is missing",
    }.items():
        status, said = told(sql)
        assert status != 0
        assert message in said


def test_an_explained_statement_has_its_files_and_buckets(hiveacid, client, database) -> None:
    ref = TableRef(database, "t")
    merge = f"EXPLAIN MERGE INTO {ref} t USING {ref} s ON t.a = s.a WHEN MATCHED THEN DELETE"
    columns = [HiveColumn("a", "int"), HiveColumn("b", "string")]
    client.create_table(HiveTable.new(ref, columns, bucket_columns=["a"], num_buckets=2))
    root = place_of(client.get_table(ref).folder)
    shutil.copytree(HIVE_WRITTEN / "hive4", root, dirs_exist_ok=True)
    shutil.rmtree(root / "base_0000003")
    for _ in range(2):
        txn = client.open_txn("tests", "localhost", None)
        client.allocate_write_id(txn, ref)
        client.commit_txn(txn)
    written = [*root.glob("*/bucket_0*")]
    told = json.loads(hiveacid("sql", merge, "--json")[1])
    assert told["statement"]["buckets"] == "2 by a"
    assert told["locks"] == {ref.full_name: "EXCL_WRITE on the table"}
    (row,) = told["rows"]
    assert (row["partition"], row["base"], row["deltas"], row["files"]) == ("", None, 3, 3)
    assert row["delta_bytes"] == sum(file.stat().st_size for file in written)
    assert row["buckets"] == "1"
    # Unreadable parts of the statement are reported before it fails.
    (root / "base_0000002").mkdir()
    (root / "base_0000002" / "_metadata_acid").write_text("{}")
    (root / "base_0000002" / "bucket_00000").write_text("ORC")
    told = json.loads(hiveacid("sql", merge, "--json")[1])
    assert told["rows"] == []
    assert "marker file" in told["cannot be read"]["table"]


def test_answers_of_one_command_stand_apart(hiveacid, client, database, capsys) -> None:
    sql = f"SHOW TABLES IN {database}; SHOW DATABASES LIKE '{database}'"
    main(["sql", sql, "--metastore", client.options.uris])
    assert [*map(str.strip, capsys.readouterr().out.split("\n"))][:-1] == [
        *("tab_name", "", "database_name", database)
    ]


def test_rows_of_a_table_are_selected_without_spark(hiveacid, client, database, capsys) -> None:
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("a", "int"), HiveColumn("b", "string")]))
    root = place_of(client.get_table(ref).folder)
    shutil.copytree(HIVE_WRITTEN / "hive4", root, dirs_exist_ok=True)
    shutil.rmtree(root / "base_0000003")
    for _ in range(2):
        txn = client.open_txn("tests", "localhost", None)
        client.allocate_write_id(txn, ref)
        client.commit_txn(txn)
    everything = [json.loads(line) for line in hiveacid("cat", str(ref), "--json")[1].splitlines()]
    assert len(everything) > 2
    status, said = hiveacid("sql", f"SELECT B, a FROM {ref} LIMIT 2", "--json")
    assert (status, json.loads(said)) == (
        0,
        {"columns": ["b", "a"], "rows": [{"b": row["b"], "a": row["a"]} for row in everything[:2]]},
    )
    main(["sql", f"SELECT * FROM {ref}", "--limit", "1", "--metastore", client.options.uris])
    said = capsys.readouterr()
    assert said.out.split() == ["a", "b", str(everything[0]["a"]), everything[0]["b"]]
    assert "there are more than 1 row" in said.err


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat {} --directories",
            "history {}",
            "cat {}",
            "plan {}",
            "clean {}",
            "compact {}",
            "locks {}",
        ),
        *("consumers list {}", "mirrors list {}", "changes --count {} 0 1"),
        *("sql DESCRIBE#{}", "sql EXPLAIN#DELETE#FROM#{}", "sql SELECT#a#FROM#{}"),
        *("sql SHOW#LOCKS#{}", "sql ALTER#TABLE#{}#ADD#COLUMNS#(b#int)", "sql SHOW#HISTORY#{}"),
    ],
)
def test_a_table_misspelt_is_asked_for_by_each_command(hiveacid, client, database, command) -> None:
    client.create_table(HiveTable.new(TableRef(database, "orders"), [HiveColumn("a", "int")]))
    words = [word.replace("#", " ") for word in command.format(f"{database}.ordrs").split()]
    status, said = hiveacid(*words)
    assert status == 20
    assert f"{database}.ordrs does not exist. Did you mean {database}.orders?" in said


def test_a_database_misspelt_is_asked_for(hiveacid, database) -> None:
    for command in (["tables", f"{database}s"], ["sql", f"SHOW TABLES IN {database}s"]):
        status, said = hiveacid(*command)
        assert status == 20
        assert f"{database}s does not exist. Did you mean {database}?" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SHOW GRANTS"], "Line 1, column 6: SHOW GRANTS is not supported"),
        (["SHOW TABLES IN nowhere"], "nowhere does not exist"),
        (["SHOW PARTITIONS nowhere.t"], "nowhere.t does not exist"),
        (["SHOW HISTORY t LIMIT 1.5"], "1.5 is no number of lines"),
        (["DESCRIBE DETAIL t x"], "Expected the end before 'X'"),
        # These two would want Spark.
        (["DELETE FROM nowhere.t", "--all-rows"], "nowhere.t does not exist"),
        (["SHOW DATABASES; UPDATE defaultt.t SET a = 1 WHERE b"], "Did you mean default?"),
        (["DELETE FROM nowhere.t"], "DELETE FROM nowhere.t has no condition"),
        (["DROP TABLE nowhere.t"], "There is no table nowhere.t"),
        ([], "Give the statements as an argument, or a file with --file"),
        (["DELETE FROM t", "--file", "x.sql"], "Give the statements as an argument, or"),
        (["--file", "/nowhere/x.sql"], "/nowhere/x.sql cannot be read"),
    ],
)
def test_unsupported_jobs_are_reported(hiveacid, arguments, message) -> None:
    status, said = hiveacid("sql", *arguments)
    assert status == 20
    assert message in said
