"""The mistakes of newcomers: the moment of each error, its class, its text, and the delay.

No mistake starts Spark. "parse" is while the DAG file is read, "worker" is the task's first second.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

from airflow_hiveacid import (
    BatchSource,
    CompactionPolicy,
    HiveAcidCompactOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidSqlOperator,
    HiveAcidStreamOperator,
    HiveAcidUpdateOperator,
    MatchedUpdate,
    MetastoreOptions,
    NotMatchedInsert,
    PathSource,
    StreamSource,
    TableSource,
)
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from airflow_hiveacid.sensors import HiveAcidNewDataSensor
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs import (
    CompactJob,
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    StreamJob,
    UpdateJob,
)
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.rules.merge import duplicates

FEED = TableSource("db.feed")
HEADER = {"header": "true"}
NOW = datetime(2026, 1, 2, tzinfo=UTC)
CLAUSES = [MatchedUpdate(), NotMatchedInsert()]
Operator = HiveAcidJobOperator[Any]


def delete(table: str = "db.t", where: str | None = "t.id = 1", **options: Any) -> Operator:
    return HiveAcidDeleteOperator(
        task_id="t", job=DeleteJob(target=table, where=where, run_in="spark"), **options
    )


def update(set_: Any) -> Operator:
    return HiveAcidUpdateOperator(
        task_id="t", job=UpdateJob(target="db.t", set=set_, where="true", run_in="spark")
    )


def merge(on: str = "t.id = s.id", when: Any = CLAUSES, source: Any = FEED) -> Operator:
    job = MergeJob(target="db.t", source=source, on=on, when=when, run_in="spark")
    return HiveAcidMergeOperator(task_id="t", job=job)


def insert(path: str, format_: str, schema: str | None = None) -> Operator:
    return insert_from(PathSource(path, format_, schema=schema))


def insert_from(source: Any) -> Operator:
    return HiveAcidInsertOperator(
        task_id="t", job=InsertJob(target="db.t", source=source, run_in="spark")
    )


def stream_of_csv(here: Path) -> Operator:
    job = StreamJob(
        name="feed",
        source=StreamSource("csv", HEADER | {"path": f"file:{here}/csv"}, "id int, a string"),
        statements=[InsertJob(target="db.t", source=BatchSource())],
        checkpoint=f"file:{here}/checkpoint",
    )
    return HiveAcidStreamOperator(task_id="t", job=job)


def sql(text: str) -> Operator:
    return HiveAcidSqlOperator(task_id="t", sql=text, run_in="spark")


def compact(type_: str | None = None, **policy: Any) -> Operator:
    job = CompactJob(target="db.t", type=type_, policy=CompactionPolicy(**policy))
    return HiveAcidCompactOperator(task_id="t", job=job)


def on_metastore(uri: str) -> Operator:
    job = DeleteJob(
        target="db.t", where="id = 1", metastore=MetastoreOptions(uris=uri), run_in="spark"
    )
    return HiveAcidDeleteOperator(task_id="t", job=job)


@dataclass(frozen=True)
class Mistake:
    """One of them.

    Attributes:
        moment: The moment of the error.
        made: Writes the task; it is given a folder of the test.
        error: The id of the error.
        text: A part of the error's text.
        master: The master of the Spark connection.
    """

    moment: str
    made: Callable[[Path], Operator]
    error: str
    text: str
    master: str = "local[2]"


MISTAKES = {
    # While the DAG is parsed.
    "a condition with an operator too many": Mistake(
        "parse",
        lambda here: merge(on="t.id = = s.id"),
        "InvalidJob",
        "on does not parse: an operand is missing between = and = in '= ='.",
    ),
    "a merge by a column without aliases": Mistake(
        "parse",
        lambda here: merge(on="id = id"),
        "InvalidJob",
        "on compares id with itself. Compare columns of the target and the source by their aliases",
    ),
    "a condition that goes on": Mistake(
        "parse",
        lambda here: delete(where="t.id = 1 AND"),
        "InvalidJob",
        "where does not parse: an operand is missing after 't.id = 1 AND'.",
    ),
    "a type misspelt": Mistake(
        "parse",
        lambda here: compact("mayor"),
        "InvalidJob",
        "type: 'mayor' is not one of major, minor, rebalance. Did you mean major?",
    ),
    "hours without minutes": Mistake(
        "parse",
        lambda here: compact(quiet_hours="22-5"),
        "InvalidJob",
        "policy.quiet_hours: '22-5' cannot be read. Write the first and the last time in UTC",
    ),
    "a threshold of nothing": Mistake(
        "parse",
        lambda here: compact(max_deltas=0),
        "InvalidJob",
        "policy.max_deltas must be at least 1, not 0.",
    ),
    "assignments as a text": Mistake(
        "parse",
        lambda here: update("a = 'x'"),
        "InvalidJob",
        "set must be a dict of columns and expressions, not \"a = 'x'\". Write {",
    ),
    "a value that is no SQL": Mistake(
        "parse",
        lambda here: update({"a": 1}),
        "InvalidJob",
        "set: the expression of the column 'a' is 1. Write a text of SQL, like '1'.",
    ),
    "one clause without brackets": Mistake(
        "parse",
        lambda here: merge(when=MatchedUpdate()),
        "InvalidJob",
        "when is a single MatchedUpdate; it must be a list of clauses. Write when=[MatchedUpdate(",
    ),
    "memory in words": Mistake(
        "parse",
        lambda here: delete(executor_memory="4 gigs"),
        "InvalidJob",
        "executor_memory: '4 gigs' is no size of memory.",
    ),
    "a delete without a condition": Mistake(
        "parse",
        lambda here: delete(where=None),
        "InvalidJob",
        "DELETE FROM db.t has no condition: it would change all rows of the table. Add a condition,",
    ),
    "a pattern in place of a table": Mistake(
        "parse",
        lambda here: HiveAcidCompactOperator(task_id="t", job=CompactJob(target="db.*")),
        "InvalidJob",
        "target: 'db.*' is a pattern, and this takes one table. HiveAcidMaintainOperator and",
    ),
    "a pattern without a database": Mistake(
        "parse",
        lambda here: insert_from(TableSource("sales_*")),
        "InvalidJob",
        "source: 'sales_*' is a pattern, and this takes one table. HiveAcidMaintainOperator and",
    ),
    "a percentage in place of a share": Mistake(
        "parse",
        lambda here: compact(max_delta_ratio=10),
        "InvalidJob",
        "policy.max_delta_ratio must be at most 1, not 10. It is a share: write 0.1 for 10 %.",
    ),
    "a job field misspelt": Mistake(
        "parse",
        lambda here: HiveAcidDeleteOperator(
            task_id="t",
            job=DeleteJob(target="db.t", wher="id = 1"),  # type: ignore[call-arg]
        ),
        "InvalidJob",
        "DeleteJob has no field 'wher'. Did you mean where?",
    ),
    "a type of the schema misspelt": Mistake(
        "parse",
        lambda here: insert("s3a://b/f", "csv", "id bigin, a string"),
        "InvalidJob",
        "source.schema: the column id has the unknown type 'bigin'. Did you mean bigint?",
    ),
    "values for other columns": Mistake(
        "parse",
        lambda here: sql("INSERT INTO db.t (id, a) VALUES (1, 'x'),\n(2)"),
        "SqlError",
        "Line 2, column 1: The row has 1 value, and the INSERT names 2 columns.",
    ),
    "an UPDATE without WHERE": Mistake(
        "parse",
        lambda here: sql("UPDATE db.t SET a = 1"),
        "SqlError",
        "Line 1, column 1: UPDATE db.t has no condition: it would change all rows of the table.",
    ),
    "a table of a view in double quotes": Mistake(
        "parse",
        lambda here: sql('CREATE VIEW db.v AS SELECT * FROM "t"'),
        "SqlError",
        'Line 1, column 35: "t" is a text, not a name. Write names in backquotes, `t`,',
    ),
    # In the first second of the task.
    "a metastore that is not there": Mistake(
        "worker",
        lambda here: on_metastore(f"thrift://127.0.0.1:{free_port()}"),
        "MetastoreUnreachable",
        "Check the metastore uri, that the service runs and that the port is open.",
    ),
    "a master that is none": Mistake(
        "worker",
        lambda here: delete(),
        "InvalidConnection",
        "has the invalid master 'localhost'. It is local[*], spark://host:port",
        master="localhost",
    ),
    "a master that does not answer": Mistake(
        "worker",
        lambda here: delete(),
        "ClusterUnreachable",
        "Spark's master spark://127.0.0.1:9 does not answer.",
        master="spark://127.0.0.1:9",
    ),
    "a table misspelt": Mistake(
        "worker",
        lambda here: delete("db.ordrs"),
        "TableNotFound",
        "db.ordrs does not exist. Did you mean db.orders?",
    ),
    "a database misspelt": Mistake(
        "worker", lambda here: delete("shp.orders"), "TableNotFound", "Did you mean shop?"
    ),
    "a plain table": Mistake(
        "worker",
        lambda here: delete("db.plain"),
        "WrongTableKind",
        "db.plain is not a transactional table. Use a table created with TBLPROPERTIES",
    ),
    "a column of SET misspelt": Mistake(
        "worker",
        lambda here: update({"ida": "1"}),
        "UnknownColumn",
        "The update of db.t sets ida, but db.t has no such column. Did you mean id?",
    ),
    "a column of ON misspelt": Mistake(
        "worker",
        lambda here: merge(on="t.idd = s.id"),
        "UnknownColumn",
        "The merge condition names an unknown column: t.idd. Did you mean id? The columns are id, a.",
    ),
    "a value too few": Mistake(
        "worker",
        lambda here: sql("INSERT INTO db.t VALUES (1)"),
        "UnknownColumn",
        "The insert into db.t has 1 value for 2 columns: id, a. Give a value for each of them",
    ),
    "a column of a SELECT misspelt": Mistake(
        "worker",
        lambda here: sql(
            "INSERT INTO db.t WITH c AS (SELECT id, a FROM db.orders) SELECT id, aa FROM c"
        ),
        "UnknownColumn",
        "The query names an unknown column: aa. The columns are id, a.",
    ),
    "a table function misspelt": Mistake(
        "worker",
        lambda here: sql("INSERT INTO db.t SELECT id, 'x' FROM rnge(10)"),
        "InvalidJob",
        "The query calls rnge(), which is no table function. Did you mean range?",
    ),
    "a column of the schema misspelt": Mistake(
        "worker",
        lambda here: insert("s3a://b/f", "csv", "idd int, a string"),
        "UnknownColumn",
        "The insert into db.t sets idd, but db.t has no such column. Did you mean id?",
    ),
    "a data interval of a schedule without intervals": Mistake(
        "worker",
        lambda here: sql(
            "DELETE FROM db.t WHERE a >= '{{ data_interval_start }}' AND a < '{{ data_interval_end }}'"
        ),
        "InvalidJob",
        "sql of HiveAcidSqlOperator 't' selects an empty data interval, and so no rows: ",
    ),
    "a version that does not exist": Mistake(
        "worker",
        lambda here: insert_from(TableSource("db.orders", as_of="9")),
        "VersionUnknown",
        "db.orders has no version 9: its newest one is 2.",
    ),
    "a restore of a version that does not exist": Mistake(
        "worker",
        lambda here: HiveAcidRestoreOperator(
            task_id="t", job=RestoreJob(target="db.orders", as_of="9")
        ),
        "VersionUnknown",
        "db.orders has no version 9: its newest one is 2.",
    ),
    "a compaction of a missing partition": Mistake(
        "worker",
        lambda here: HiveAcidCompactOperator(
            task_id="t",
            job=CompactJob(target="db.days", type="major", partitions=["day=1"]),
        ),
        "UserError",
        "db.days has no partition day=1. It has none.",
    ),
    "an empty folder": Mistake(
        "worker",
        lambda here: insert(f"file:{here}/empty", "csv"),
        "EmptySource",
        "/empty: the folder is empty, so that its columns are unknown. Check the path of the source",
    ),
    "a path misspelt": Mistake(
        "worker",
        lambda here: insert(f"file:{here}/nowhere", "json"),
        "EmptySource",
        "/nowhere: the path does not exist. Check the path of the source.",
    ),
    "a header with a column misspelt": Mistake(
        "worker",
        lambda here: insert_from(PathSource(f"file:{here}/csv", "csv", HEADER, "id int, a string")),
        "UnknownColumn",
        "/csv/part has no column id, which is in the schema. Did you mean idd? Name the columns",
    ),
    "a header of a stream with a column misspelt": Mistake(
        "worker",
        stream_of_csv,
        "UnknownColumn",
        "/csv/part has no column id, which is in the schema. Did you mean idd? Name the columns",
    ),
    "a format that the files have not": Mistake(
        "worker",
        lambda here: insert(f"file:{here}/feed", "orc"),
        "CorruptFile",
        "/feed/part is a Parquet file, not an ORC file.",
    ),
}


def when_told(
    mistake: Mistake, here: Path, context: Any
) -> tuple[str, HiveAcidError | ErrorReport]:
    try:
        with DAG("d"):
            operator = mistake.made(here)
    except HiveAcidError as error:
        return "parse", error
    # A run that another test has applied to these tables would not be checked.
    context["ti"].run_id = "mistaken"
    # As in a run of a DAG with the schedule "@daily".
    values = {**context, "data_interval_start": NOW, "data_interval_end": NOW}

    def run() -> None:
        operator.render_template_fields(values)
        operator.execute(context)

    with pytest.raises(HiveAcidTaskFailure) as failed:
        run()
    return "worker", failed.value.error


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=[*MISTAKES])
def test_an_error_is_reported_before_spark_starts(
    mistake: Mistake,
    spark_submit: Any,
    context: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = {"conn_type": "spark", "host": mistake.master}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    (tmp_path / "empty").mkdir()
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "part").write_bytes(b"PAR1 and so on")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "part").write_text("idd,a\n1,x\n")
    moment, error = when_told(mistake, tmp_path, context)
    assert (moment, error.id) == (mistake.moment, mistake.error)
    assert mistake.text in str(error)
    assert not spark_submit.seen_file.exists()


def test_a_template_that_fails_names_its_field(context: Any) -> None:
    operator = delete(where="t.id = {{ 1 / 0 }}")
    with pytest.raises(InvalidJob, match=r"job.where: the template .* fails: ZeroDivisionError"):
        operator.render_template(operator.job, context)


def sql_task(**fields: Any) -> Any:
    return HiveAcidSqlOperator(
        task_id="t", **{"sql": "DELETE FROM db.t WHERE id = 1", "run_in": "spark", **fields}
    )


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("sql", lambda: sql_task(sql="DELETE FROM db.t WHERE id = {{ params.absent }}")),
        ("sql", lambda: sql_task(sql="DELETE FROM db.t WHERE id = {{ absent }}")),
        (
            "parameters",
            lambda: sql_task(
                sql="DELETE FROM db.t WHERE id = :id", parameters={"id": "{{ params.absent }}"}
            ),
        ),
        ("once_per", lambda: delete(once_per="{{ absent }}")),
        ("conf", lambda: delete(conf={"a": ["{{ absent }}"]})),
        ("job.where", lambda: delete(where="t.id = {{ params.absent }}")),
        (
            "consumer",
            lambda: HiveAcidNewDataSensor(task_id="t", table="db.t", consumer="{{ absent }}"),
        ),
    ],
)
def test_an_undefined_name_in_a_template_names_the_field(field: str, make: Any) -> None:
    with DAG("d", params={"day": "2026-01-01"}) as dag:
        operator = make()
    with pytest.raises(AirflowFailException) as caught:
        operator.render_template_fields({"params": dag.params.dump()})
    assert str(caught.value).startswith(f"InvalidJob: {field}")
    assert "absent" in str(caught.value)
    assert "is undefined" in str(caught.value) or "has no attribute" in str(caught.value)


def test_duplicate_rows_are_reported_in_sql_notation() -> None:
    """The mistake that only the job can find: any values may compare equal."""
    from datetime import date, datetime
    from decimal import Decimal

    key = {
        "day": date(2026, 11, 20),
        "at": datetime(2026, 11, 20, 8),
        "price": Decimal("1.50"),
        "name": "o'x",
        "gone": None,
        "paid": True,
        "hash": b"\x01",
    }
    assert duplicates("db.t", [(key, 2), ({"day": date(2026, 1, 1)}, 3)], has_more=True).what == (
        "Several source rows match one row of db.t: day=2026-11-20, at=2026-11-20 08:00:00, "
        "price=1.50, name=\"o'x\", gone=NULL, paid=true, hash=X'01' (2 source rows); "
        "day=2026-01-01 (3 source rows) and more."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"driver_memory": "1.5g"}, r"driver_memory: '1.5g' is no size of memory.*like 4g"),
        ({"conf": {"spark.executor.memory": "4 gb"}}, r"conf\['spark.executor.memory'\]: '4 gb'"),
        ({"conf": "spark.a=b"}, r"conf must be a dict, not 'spark.a=b'"),
        ({"poll_seconds": 0}, r"poll_seconds must be more than 0"),
    ],
)
def test_unreadable_spark_texts_are_refused_at_parse_time(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        delete(**options)


def test_sizes_that_spark_reads_are_taken() -> None:
    conf = {"spark.executor.memoryOverhead": "{{ params.memory }}", "spark.driver.memory": "2GB"}
    delete(driver_memory="512m", executor_memory="4096", conf=conf)
