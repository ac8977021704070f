"""The list of the page: measured in the background, filtered, sorted; and the tables of a DAG."""

import csv
import io
import itertools
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from airflow.sdk import DAG, Asset, AssetWatcher, task
from hypothesis import given
from hypothesis import strategies as st

from airflow_hiveacid import (
    ChangesSource,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidMaintainOperator,
    HiveAcidMergeOperator,
    HiveAcidSqlOperator,
    HiveAcidTransactionOperator,
    MatchedUpdate,
    PathSource,
    QuerySource,
)
from airflow_hiveacid.assets import table_asset
from airflow_hiveacid.cluster.packaged import example_dags
from airflow_hiveacid.plugin.access import DagTables, tables_of
from airflow_hiveacid.plugin.metastores import Measuring
from airflow_hiveacid.plugin.routes import TableQuery, listing, table_csv
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor, HiveAcidMirrorFreshSensor
from airflow_hiveacid.triggers import HiveAcidCompactionEventTrigger
from hiveacid.errors import MetastoreUnreachable
from hiveacid.jobs import InsertJob, MergeJob, TransactionJob
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import ErrorReport
from hiveacid.jobs.sources import TableSource
from hiveacid.upkeep.health_score import BlockingTxn, QueueEntry, TableHealth

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag
try:
    from airflow.serialization.serialized_objects import DagSerialization as Serialization
except ImportError:  # Before Airflow 3.2.
    from airflow.serialization.serialized_objects import SerializedDAG as Serialization

WORKING = QueueEntry(id=1, partition=None, type="major", state="working")
FAILED = QueueEntry(id=2, partition=None, type="minor", state="failed")
TXN = BlockingTxn(txn_id=9, user="jane", host="h", opened_at=50.0)
NEED = {"table": "a.wide", "partition": "p=1", "type": "major", "reason": "Many deltas."}
TABLES = (
    TableHealth(table="a.calm", kind="full_acid", measured_at=1),
    TableHealth(
        table="a.wide", kind="full_acid", deltas=30, needs=(NEED,), score=60, measured_at=1
    ),
    TableHealth(table="b.busy", kind="full_acid", oldest_txn=TXN, score=90, measured_at=1),
    TableHealth(table="b.lost", kind="full_acid", queue=(FAILED,), obsolete_bytes=7, measured_at=1),
    TableHealth(
        table="b.slow", kind="full_acid", queue=(WORKING,), base_written_at=5, measured_at=1
    ),
)
BROKEN = replace(TABLES[0], table="c.x", error=ErrorReport(id="TableNotFound", message="Gone."))


def names(**query):
    return [row["table"] for row in listing((*TABLES, BROKEN), TableQuery(**query))["rows"]]


def test_the_worst_come_first():
    assert names() == ["a.wide", "b.busy", "a.calm", "b.lost", "b.slow", "c.x"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"database": "a"}, ["a.wide", "a.calm"]),
        ({"text": " LO"}, ["b.lost", "b.slow"]),
        ({"show": "needs"}, ["a.wide"]),
        ({"show": "busy"}, ["b.busy"]),
        ({"show": "queued"}, ["b.lost", "b.slow"]),
        ({"show": "failed"}, ["b.lost", "c.x"]),
        ({"patterns": ["a.*", "b.busy"]}, ["a.wide", "b.busy", "a.calm"]),
        ({"sort": "table", "descending": True, "size": 2}, ["c.x", "b.slow"]),
        ({"sort": "deltas", "descending": True, "size": 1}, ["a.wide"]),
        ({"sort": "table", "size": 4, "page": 2}, ["b.slow", "c.x"]),
        ({"page": 99}, []),
        ({"database": "nothing"}, []),
    ],
)
def test_tables_are_picked_and_sorted(query, expected):
    assert names(**query) == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("sort", "first"), [("base", "b.slow"), ("txn", "b.busy")])
def test_unknown_values_are_last_in_both_orders(sort, first, descending):
    assert names(sort=sort, descending=descending)[0] == first


def test_the_counts_match_the_filters():
    listed = listing((*TABLES, BROKEN), TableQuery(database="b", show="failed"))
    assert listed["counts"] == {"all": 3, "needs": 0, "busy": 1, "queued": 2, "failed": 1}
    assert listed["obsolete_bytes"] == 7
    assert listed["total"] == 1
    assert listed["databases"] == [
        {"name": "a", "tables": 2},
        {"name": "b", "tables": 3},
        {"name": "c", "tables": 1},
    ]


def test_the_queue_shows_the_names_of_its_states():
    entries = [
        QueueEntry(id=number, partition=None, type="major", state=state)
        for number, state in enumerate(
            ["ready for cleaning", "working", "ready for cleaning", "failed"]
        )
    ]
    (row,) = listing([replace(TABLES[0], queue=tuple(entries))], TableQuery())["rows"]
    assert row["queue"] == [
        {"state": "failed", "count": 1, "failed": True},
        {"state": "ready for cleaning", "count": 2, "failed": False},
        {"state": "working", "count": 1, "failed": False},
    ]


def test_the_file_has_all_pages_in_their_order():
    text = table_csv(TABLES, TableQuery(sort="table", descending=True, size=1, page=3))
    assert [row["table"] for row in csv.DictReader(io.StringIO(text))] == [
        "b.slow", "b.lost", "b.busy", "a.wide", "a.calm",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["=1+1.x", "+a.b", "-a.b", "@sum.x", "\ta.b"])
def test_no_name_becomes_a_formula_of_a_spreadsheet(name):
    table = replace(TABLES[2], table=name, verdict='=cmd|"/c calc"!A1')
    (row,) = csv.DictReader(io.StringIO(table_csv([table], TableQuery())))
    assert row["table"] == f"'{name}"
    assert row["verdict"].startswith("'=")
    assert row["oldest_txn_by"] == "jane@h"


def test_a_row_shows_the_first_need_and_the_details_show_all():
    (row,) = listing(TABLES, TableQuery(show="needs"))["rows"]
    assert (row["needs"], row["need"]["reason"]) == (1, "Many deltas.")
    assert not {"penalties", "error"} & row.keys()


@given(
    st.lists(st.sampled_from(TABLES), max_size=12),
    st.sampled_from(["score", "table", "deltas", "bytes", "base", "obsolete", "txn", "queue"]),
    st.booleans(),
    st.integers(1, 5),
)
def test_the_pages_together_are_the_whole_list(tables, sort, descending, size):
    tables = [replace(table, table=f"{table.table}{n}") for n, table in enumerate(tables)]
    query = TableQuery(sort=sort, descending=descending, size=size)
    pages = [listing(tables, replace(query, page=page))["rows"] for page in range(1, 14)]
    whole = listing(tables, replace(query, size=200))["rows"]
    assert list(itertools.chain(*pages)) == whole
    assert len(whole) == len(tables)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def settled(measuring, eventually):
    eventually("it has measured", lambda: not measuring.latest().running)
    return measuring.latest()


def test_answers_do_not_wait_for_measurements(eventually):
    go, clock, runs = threading.Event(), Clock(), []

    def measure():
        runs.append(threading.current_thread().daemon)
        yield TABLES[0]
        assert go.wait(60)
        yield TABLES[1]

    measuring = Measuring(measure, 60, clock)
    first = measuring.latest()
    assert (first.at, first.running) == (None, True)
    # The first measurement of thousands of tables takes long.
    eventually("the first table is shown", lambda: measuring.latest().tables == TABLES[:1])
    assert (measuring.latest().at, measuring.latest().done) == (None, 1)
    go.set()
    known = settled(measuring, eventually)
    assert (known.tables, known.at) == (TABLES[:2], 1000.0)
    # Old figures are shown during a new measurement, which is shared by all users.
    go.clear()
    clock.now += 59
    assert not measuring.latest().running
    clock.now += 1
    assert [measuring.latest().running for _ in range(3)] == [True] * 3
    assert measuring.latest().tables == TABLES[:2]
    go.set()
    assert settled(measuring, eventually).at == 1060.0
    assert runs == [True, True]


def test_users_can_request_measurements_at_a_limited_rate(eventually):
    clock, runs = Clock(), []

    def measure():
        runs.append(clock.now)
        clock.now += 3
        yield TABLES[0]

    measuring = Measuring(measure, 60, clock)
    measuring.latest()
    assert settled(measuring, eventually).seconds == 3
    for _ in range(3):  # However often it is asked for.
        clock.now += 3
        assert not measuring.latest(refresh=True).running
    clock.now += 1
    assert not measuring.latest().running
    measuring.latest(refresh=True)
    settled(measuring, eventually)
    assert runs == [1000, 1013]


def test_a_clock_that_is_set_back_does_not_stop_measurements(eventually):
    clock, runs = Clock(), []

    def measure():
        runs.append(clock.now)
        yield TABLES[0]

    measuring = Measuring(measure, 60, clock)
    for _ in range(3):
        measuring.latest()
        assert settled(measuring, eventually).at == clock.now
        clock.now -= 10
    assert runs == [1000, 990, 980]


def test_a_first_measurement_that_fails_leaves_no_tables(eventually):
    fails = [True]

    def measure():
        yield TABLES[0]
        if fails:
            raise MetastoreUnreachable("It is down.")
        yield TABLES[1]

    clock = Clock()
    measuring = Measuring(measure, 60, clock)
    measuring.latest()
    known = settled(measuring, eventually)
    assert (known.tables, known.at, known.error.id) == (None, None, "MetastoreUnreachable")
    fails.clear()
    clock.now += 60
    measuring.latest()
    assert settled(measuring, eventually).tables == TABLES[:2]


class Panic(BaseException):
    """PyO3's exception for a panic."""


def test_an_error_is_shown_beside_known_figures_until_it_is_resolved(eventually):
    failures = [MetastoreUnreachable("It is down."), RuntimeError("Strange."), Panic("In Rust.")]
    clock = Clock()

    def measure():
        yield TABLES[0]
        if clock.now > 1000 and failures:
            raise failures.pop(0)

    measuring = Measuring(measure, 60, clock)
    settled(measuring, eventually)
    for name in ("MetastoreUnreachable", "RuntimeError", "Panic"):
        clock.now += 60
        assert measuring.latest().running
        known = settled(measuring, eventually)
        assert (known.error.id, known.tables, known.at) == (name, TABLES[:1], 1000.0)
    clock.now += 60
    assert measuring.latest().running
    assert settled(measuring, eventually).error is None


def serialized(dag):
    return Serialization.to_dict(dag)


@pytest.mark.parametrize(
    ("dag_id", "tables"),
    [
        ("hourly_merge", ("demo.customers",)),
        ("automatic_compaction", ("default.*",)),
        ("warehouse_maintenance", ("default.*",)),
        ("event_driven_compaction", ("default.customers", "default.orders")),
    ],
)
def test_the_tables_of_the_example_dags_are_declared(dag_id, tables):
    """They are those of the defaults: parameters and events of assets can name others."""
    bag = DagBag(example_dags() / f"{dag_id}.py")
    assert tables_of(serialized(bag.dags[dag_id])) == DagTables(tables, complete=False)


def test_the_tables_of_a_dag_come_from_its_jobs_sensors_sources_and_assets():
    with DAG("d", params={"table": "Sales.Refunds", "days": 3}) as dag:
        HiveAcidDeltaCountSensor(task_id="s", table="web.*")
        HiveAcidMaintainOperator(task_id="w", tables=["logs.*", "logs.old"])
        HiveAcidCleanOperator(task_id="c", job=CleanJob(target="{{ params.table }}"))
        HiveAcidMergeOperator(
            task_id="m",
            job=MergeJob(
                target="sales.orders",
                source=TableSource("stage.orders"),
                on="t.id = s.id",
                when=(MatchedUpdate(),),
            ),
            outlets=[table_asset("crm.leads", "hms:9083")],
        )
        copied = InsertJob(
            target="sales.\u00e9t\u00e9", source=ChangesSource("raw.events", after="0")
        )
        views = {"a": TableSource("sales.a"), "b": PathSource(path="/x", format="json")}
        joined = InsertJob(
            target="sales.b", source=QuerySource(sql="SELECT 1\nname: x.y", inputs=views)
        )
        HiveAcidTransactionOperator(
            task_id="t", job=TransactionJob(target=copied.target, statements=[copied, joined])
        )
    # The table of a parameter may be any other one in another run.
    assert not tables_of(serialized(dag)).complete
    assert list(tables_of(serialized(dag)).patterns) == [
        "crm.leads",
        "logs.*",
        "logs.old",
        "raw.events",
        "sales.a",
        "sales.b",
        "sales.orders",
        "sales.refunds",
        "sales.\u00e9t\u00e9",
        "stage.orders",
        "web.*",
    ]


def test_a_watched_table_is_listed():
    trigger = HiveAcidCompactionEventTrigger(table="web.clicks")
    asset = Asset("clicks", watchers=[AssetWatcher(name="w", trigger=trigger)])
    assert tables_of(serialized(DAG("d", schedule=[asset]))) == DagTables(("web.clicks",))


def test_a_dag_that_finds_its_tables_at_run_time_declares_none():
    with DAG("d", params={"days": 3}) as dag:
        HiveAcidCompactOperator.partial(task_id="m").expand(need=[1, 2])
        HiveAcidCleanOperator(task_id="c", job=CleanJob(target="{{ params.days }}"))
        HiveAcidDeltaCountSensor(task_id="s", table="{{ ti.xcom_pull('x') }}")
    assert tables_of(serialized(dag)) == DagTables((), complete=False)


SQL = {
    "MERGE INTO sales.o USING stage.o s ON o.id = s.id WHEN MATCHED THEN DELETE; DELETE FROM x": (
        ("default.x", "sales.o", "stage.o"),
        True,
    ),
    "INSERT INTO t SELECT * FROM u WHERE d = '{{ ds }}' AND id = {{ params.id }}": (
        ("default.t", "default.u"),
        True,
    ),
    "UPDATE hr.t SET a = :v WHERE a = 1; DROP DATABASE IF EXISTS hr CASCADE": (
        ("hr.*", "hr.t"),
        True,
    ),
    "DELETE FROM {{ params.table }}": (("sales.refunds",), False),
    "DELETE FROM sales.{{ ds }}": ((), False),
    "{% if true %} DELETE FROM sales.t {% endif %}": ((), False),
    "This is no SQL {{ ds }}": ((), False),
}


@pytest.mark.parametrize(("sql", "tables"), SQL.items(), ids=SQL)
def test_the_tables_of_statements_are_declared(sql, tables):
    with DAG("d", params={"table": "sales.refunds"}) as dag:
        HiveAcidSqlOperator(
            task_id="t",
            sql=sql,
            parameters={"v": "{{ ds }}"} if ":v" in sql else None,
            all_rows=True,
        )
    assert tables_of(serialized(dag)) == DagTables(*tables)


def test_a_function_that_returns_statements_declares_no_table():
    with DAG("d") as dag:

        @task.hive_acid_sql
        def forget():
            return "DELETE FROM sales.t WHERE true"

        forget()
    assert tables_of(serialized(dag)) == DagTables((), complete=False)


def test_a_function_that_returns_a_source_declares_the_target_only():
    with DAG("d") as dag:

        @task.hive_acid_insert(target="sales.orders")
        def load():
            return {"name": "sales.feed"}

        load()
    assert tables_of(serialized(dag)) == DagTables(("sales.orders",), complete=False)


def test_a_sensor_of_a_mirror_declares_the_hive_table():
    with DAG("d") as dag:
        HiveAcidMirrorFreshSensor(task_id="s", target="sales.orders", table="lake.orders")
    assert tables_of(serialized(dag)) == DagTables(("sales.orders",))


@pytest.mark.parametrize("source", ["sensor", "function"])
def test_the_tables_of_a_need_are_those_of_the_sensor(source):
    with DAG("d") as dag:
        needed = HiveAcidDeltaCountSensor(task_id="s", table="web.*")

        @task
        def choose():
            return []

        output = needed.output if source == "sensor" else choose()
        HiveAcidCompactOperator.partial(task_id="m").expand(need=output)
    assert tables_of(serialized(dag)) == DagTables(("web.*",), complete=source == "sensor")


def test_the_plugin_costs_other_processes_next_to_nothing():
    load = (
        "import sys; from airflow_hiveacid.plugin.plugin import HiveAcidPlugin; HiveAcidPlugin();"
        "print({'fastapi', 'thrift', 'airflow_hiveacid.plugin.routes'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", load], check=True, capture_output=True, text=True)
    assert told.stdout.strip().splitlines()[-1] == "set()"
