"""Scripts and definitions, as far as they check themselves."""

import re
from dataclasses import replace

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import ColumnSpec, CreateTableJob, TruncateJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, TransactionJob, UpdateJob
from hiveacid.parser.script import to_script
from hiveacid.rules.cleaning import describe_run, task_of_run
from hiveacid.rules.merge import NotMatchedInsert, validate_clauses
from hiveacid.rules.run_tokens import (
    agent_info,
    dag_of,
    marked_token,
    split_transaction_host,
    transaction_host,
    unmarked_token,
)

ID = ColumnSpec("id", "int")


def statement_key(job: DeleteJob) -> str:
    """The key of a statement in the tokens of its script."""
    (run,) = ScriptJob(target=job.target, statements=[job], run_token="x").runs()
    return (run.run_token or "").removeprefix("x#")


def test_the_options_of_a_script_are_those_of_its_statements() -> None:
    metastore = MetastoreOptions(uris="thrift://hms:9083")
    script = ScriptJob(
        target="a.b",
        statements=[DeleteJob(target="a.b", where="true"), CompactJob(target="a.c")],
        metastore=metastore,
        run_token="run",
        lock_wait_seconds=7,
        conflict_policy="strict",
    )
    runs = list(script.runs())
    assert [run.metastore for run in runs] == [metastore] * 2
    assert [run.lock_wait_seconds for run in runs] == [7, 7]
    assert [run.conflict_policy for run in runs] == ["strict", "strict"]
    assert all(re.fullmatch("run#[0-9a-f]{12}", run.run_token or "") for run in runs)


def test_a_statement_is_named_by_what_it_does_and_not_by_its_place() -> None:
    first, second = (
        InsertJob(target="a.b", source=TableSource("a.c")),
        DeleteJob(target="a.b", where="true"),
    )
    script = ScriptJob(target="a.b", statements=[first, second, first, first], run_token="run")
    tokens = [job.run_token for job in script.runs()]
    assert tokens[2:] == [f"{tokens[0]}.2", f"{tokens[0]}.3"]
    fewer = replace(script, statements=[second, first], lock_wait_seconds=7, orc_codec="zstd")
    assert [job.run_token for job in fewer.runs()] == [tokens[1], tokens[0]]
    others = [replace(first, source=TableSource("a.d")), replace(second, where="x = 1")]
    changed = replace(script, statements=others)
    assert not {job.run_token for job in changed.runs()} & {*tokens}
    assert [unmarked_token(agent_info(token)) for token in script.tokens[::2]] == tokens


@pytest.mark.parametrize(
    "token", ["d/r/t/-1", "x" * 200, "d/r#t/-1", "d/r#x", "dag/" + "r" * 90 + "/t/-1"]
)
def test_the_transactions_of_statements_are_identified_by_the_run(token: str) -> None:
    script = ScriptJob(
        target="a.b", statements=[DeleteJob(target="a.b", where="true")] * 11, run_token=token
    )
    infos = [agent_info(token) for token in script.tokens]
    assert len(set(infos)) == 22
    key = statement_key(DeleteJob(target="a.b", where="true"))
    assert [unmarked_token(info) for info in infos[::2]] == [
        f"{agent_info(token)}#{key}{number}"
        for number in ("", *(f".{number}" for number in range(2, 12)))
    ]
    assert max(map(len, infos)) <= 87


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (
            "orders_of_all_shops/scheduled__2026-11-20T02:00:00+00:00/merge/-1",
            "Airflow task merge of DAG orders_of_all_shops",
        ),
        (
            "orders/manual__a/b/2026-11-20T02:00:00.123456+00:00/merge_orders/12",
            "Airflow task merge_orders[12] of DAG orders",
        ),
    ],
)
def test_a_long_run_id_leaves_room_for_the_task(token: str, words: str) -> None:
    stored = agent_info(marked_token(token, ["a.b"]))
    assert describe_run(unmarked_token(stored)) == words
    assert agent_info(token.replace("-20T", "-21T")) not in stored
    assert dag_of(stored, "") == token.partition("/")[0]


def test_each_statement_has_a_name_for_its_transactions_that_only_read() -> None:
    merge = MergeJob(target="a.b", source=TableSource("a.c"), on="true", when=())
    delete = DeleteJob(target="a.b", where="true")
    jobs = {"script": ScriptJob, "transaction": TransactionJob}
    tokens = {
        name: [
            agent_info(t)
            for t in kind(target="a.b", statements=(delete, merge), run_token="r").tokens
        ]
        for name, kind in jobs.items()
    }
    token = agent_info(marked_token("r", ["a.b"]))
    assert tokens["transaction"] == [token, f"source of {token}"]
    first, *sources = tokens["script"]
    assert sources[::2] == [f"source of {first}", f"source of {sources[1]}"]
    assert unmarked_token(first) == f"r#{statement_key(delete)}"


def test_the_same_run_on_other_tables_has_other_transactions() -> None:
    jobs = [
        DeleteJob(target=target, where="true", run_token="d/r/t/-1")
        for target in ("a.b", "A.B", "a.c")
    ]
    assert jobs[0].token == jobs[1].token != jobs[2].token


def test_only_definitions_need_no_spark() -> None:
    create = CreateTableJob(target="a.b", columns=[ID])
    assert not ScriptJob(target="a.b", statements=[create]).needs_spark
    assert ScriptJob(
        target="a.b", statements=[create, DeleteJob(target="a.b", where="true")]
    ).needs_spark


DELETE = "DELETE FROM t WHERE a = 1"
TASK = r"into a task of its own\."


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("CREATE DATABASE d", rf"Write CREATE DATABASE IF NOT EXISTS, or put it {TASK}"),
        ("DROP DATABASE d", rf"Write DROP DATABASE IF EXISTS, or put it {TASK}"),
        ("CREATE TABLE u (a int)", rf"Write CREATE TABLE IF NOT EXISTS, or put it {TASK}"),
        ("CREATE TABLE u LIKE t", "Write CREATE TABLE IF NOT EXISTS, "),
        ("CREATE TABLE u AS SELECT a FROM t", "Write CREATE TABLE IF NOT EXISTS, "),
        ("DROP TABLE u", "Write DROP TABLE IF EXISTS, "),
        ("CREATE VIEW u AS SELECT a FROM t", "Write CREATE OR REPLACE VIEW, "),
        ("ALTER VIEW u AS SELECT a FROM t", "Write CREATE OR REPLACE VIEW, "),
        ("DROP VIEW u", "Write DROP VIEW IF EXISTS, "),
        ("ALTER TABLE u ADD PARTITION (d = 1)", "TABLE … ADD IF NOT EXISTS PARTITION, "),
        ("ALTER TABLE u DROP PARTITION (d = 1)", "TABLE … DROP IF EXISTS PARTITION, "),
        ("ALTER TABLE u UNSET TBLPROPERTIES ('a')", "UNSET TBLPROPERTIES IF EXISTS, "),
        ("ALTER TABLE u ADD COLUMNS (b int)", f"Put it {TASK}"),
        ("ALTER TABLE u RENAME COLUMN a TO b", f"Put it {TASK}"),
        ("ALTER TABLE u RENAME TO v", f"Put it {TASK}"),
        ("CONVERT TABLE u", f"Put it {TASK}"),
    ],
)
def test_a_definition_that_cannot_run_again_is_the_only_statement(
    statement: str, remedy: str
) -> None:
    script = to_script(f"{DELETE}; {statement}")
    script.validate()
    message = rf"Statement 2 of 2, \w+ of [\w.]+, cannot run again when the script is retried\. .*{remedy}"
    with pytest.raises(InvalidJob, match=message):
        replace(script, run_token="r").validate()
    replace(to_script(statement), run_token="r").validate()


@pytest.mark.parametrize(
    "text",
    [
        f"DROP TABLE IF EXISTS T; {DELETE}",
        f"DROP DATABASE IF EXISTS DEFAULT_2 CASCADE; {DELETE}; DELETE FROM default_2.u WHERE a = 1",
        "DROP DATABASE IF EXISTS d; CREATE DATABASE IF NOT EXISTS d",
        "DROP TABLE IF EXISTS t; INSERT INTO u SELECT * FROM t",
        "DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS u LIKE t",
        "DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a",
        "DROP VIEW IF EXISTS v; CREATE OR REPLACE VIEW v AS SELECT a FROM t",
        "ALTER TABLE t DROP IF EXISTS PARTITION (d = 1); INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t DROP IF EXISTS PARTITION (d = 1); FROM u INSERT INTO t SELECT a",
    ],
)
def test_nothing_is_dropped_that_a_later_statement_names(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"Statement 1 of \d, .* the result of statement .*behind"):
        replace(to_script(text), run_token="r").validate()


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE IF NOT EXISTS u AS SELECT a FROM t; MERGE INTO t USING u ON t.a = u.a WHEN "
        "NOT MATCHED THEN INSERT *; ALTER TABLE t COMPACT 'minor'; DROP TABLE IF EXISTS u",
        "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (a int); "
        "CREATE VIEW IF NOT EXISTS v AS SELECT a FROM t; CREATE OR REPLACE VIEW w AS SELECT a FROM t;"
        "DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS d.t; DROP DATABASE IF EXISTS d CASCADE",
        "INSERT INTO t VALUES (1, 1); ALTER TABLE t DROP IF EXISTS PARTITION (d = 1);"
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (d = 2); ANALYZE TABLE t COMPUTE STATISTICS;"
        "OPTIMIZE t; INSERT INTO u SELECT * FROM t",
        "RESTORE TABLE t TO VERSION AS OF 7; ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a')",
        "TRUNCATE TABLE t; MSCK REPAIR TABLE t; ALTER TABLE t SET TBLPROPERTIES ('a' = 'b');"
        "COMMENT ON TABLE t IS 'c'; INSERT INTO t VALUES (1, 1)",
    ],
)
def test_a_script_that_can_run_again_is_accepted(text: str) -> None:
    replace(to_script(text), run_token="r").validate()


def test_the_target_of_a_script_is_a_table_that_it_does_not_drop() -> None:
    own = "CREATE TABLE IF NOT EXISTS own (a int)"
    script = to_script(f"{own}; INSERT INTO t SELECT a FROM own; DROP TABLE IF EXISTS own")
    assert script.target == "default.t"
    assert to_script(f"{own}; DROP TABLE IF EXISTS own").target == "default.own"


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (ScriptJob(target="a.b"), "no statement"),
        (
            ScriptJob(target="a.b", statements=[DeleteJob(target="b", where="true")]),
            "not the name of a table",
        ),
        (
            ScriptJob(target="a.b", statements=[ScriptJob(target="a.b")]),  # type: ignore[list-item]
            "ScriptJob cannot be part of a script",
        ),
        (TruncateJob(target="a.b", partition={}), "names no key"),
        (CreateTableJob(target="a.b", columns=[]), "no columns"),
        (CreateTableJob(target="a.b", columns=[ID], partition_keys=[ID]), "column id twice"),
        (CreateTableJob(target="a.b", columns=[ColumnSpec("x", "uuid")]), "column x: .* 'uuid'"),
        (CreateTableJob(target="a.b", columns=[ID], format="AVRO"), "not one of ORC, PARQUET"),
        (CreateTableJob(target="a.b", columns=[ID], format="JSON"), "stored as ORC, not as JSON"),
        (CreateTableJob(target="a.b", columns=[ID], num_buckets=4), "belong together"),
        (
            CreateTableJob(target="a.b", columns=[ID], num_buckets=4097, bucket_columns=["id"]),
            "4097 buckets are too many",
        ),
        (
            CreateTableJob(target="a.b", columns=[ID], num_buckets=4, bucket_columns=["x"]),
            "clustered by x",
        ),
        (
            CreateTableJob(target="a.b", columns=[ID], properties={"transactional": "false"}),
            "The property 'transactional' cannot be changed",
        ),
        (UpdateJob(target="a.b", set={"x": "1"}, target_alias="a b"), "cannot be an alias"),
        (DeleteJob(target="a.b", inputs={"x-y": TableSource("a.b")}), "name of a view"),
        (DeleteJob(target="a.b", inputs={"x": TableSource("b")}), "not the name of a table"),
    ],
)
def test_unsupported_jobs_are_refused(job: ScriptJob, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        job.validate()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": ["a"]}, "needs by_position"),
        ({"by_position": True, "columns": ["a", "A"]}, "a column twice"),
        ({"by_position": True, "columns": []}, "no name"),
        ({"static": {"d": "1"}, "partitions": [{"d": "1"}]}, "exclude each other"),
        ({"static": {}}, "static must name every partition key"),
        ({"static": {"d": ""}}, "static has an empty value"),
        ({"dynamic": ["d"], "partitions": [{"d": "1"}]}, "exclude each other"),
        ({"dynamic": ["d", "D"]}, "name a partition key twice"),
        ({"dynamic": ["d"], "static": {"D": "1"}}, "name a partition key twice"),
        ({"dynamic": [" "]}, "an empty name"),
        ({"dynamic": "d"}, "dynamic must be a list"),
        ({"whole_table": True}, "needs overwrite"),
        ({"whole_table": True, "overwrite": True, "static": {"d": "1"}}, "omit partitions"),
        ({"whole_table": True, "overwrite": True, "partitions": [{"d": "1"}]}, "omit partitions"),
    ],
)
def test_where_columns_go_must_be_clear(fields: dict, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        InsertJob(target="a.b", source=TableSource("a.c"), **fields).validate()


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        (NotMatchedInsert({"a": "1"}, row=("1",)), "both values and a row"),
        (NotMatchedInsert(row=()), "no expression"),
        (NotMatchedInsert(row=("1", " ")), "an empty one"),
    ],
)
def test_the_row_of_an_insert_clause_is_complete(clause: NotMatchedInsert, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        validate_clauses([clause])


def test_a_statement_of_a_task_is_shown_as_that_task() -> None:
    (run,) = ScriptJob(
        target="a.b", statements=[DeleteJob(target="a.b", where="true")], run_token="d/r/t/-1"
    ).runs()
    assert task_of_run(run.run_token or "") == "d.t"
    assert describe_run(run.run_token or "") == "Airflow task t of DAG d, run r"


@pytest.mark.parametrize(
    ("host", "machine", "token"),
    [
        (
            transaction_host("worker-1", "d/r/t/-1#2@01234567", "0a1b2c"),
            "worker-1",
            "d/r/t/-1#2@01234567",
        ),
        (transaction_host("worker-1", "d~1/r", "0a1b2c"), "worker-1", "d~1/r"),
        # Of other engines.
        ("worker-1/d/r/t/-1", "worker-1/d/r/t/-1", ""),
        ("hive-worker~1", "hive-worker~1", ""),
    ],
)
def test_a_stored_host_name_is_split_into_the_machine_and_the_token(
    host: str, machine: str, token: str
) -> None:
    assert split_transaction_host(host) == (machine, token)
