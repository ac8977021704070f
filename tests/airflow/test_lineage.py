"""The information that OpenLineage receives, through its own provider."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import HookLineageCollector
from openlineage.client.serde import Serde

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedDelete,
    MatchedUpdate,
    MetastoreOptions,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
    TableSource,
)
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from airflow_hiveacid.lineage import lineage_of, with_parent_job
from hiveacid.jobs import (
    CompactJob,
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.jobs.outcome import outcome
from hiveacid.jobs.report import (
    CheckResult,
    CompactReport,
    PartitionReport,
    RunReport,
    TableReport,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_script
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef

TARGET = "lineage.orders"
FEED = PathSource(path="s3a://landing/feeds/orders/", format="json")
FEED_COLUMN = ("s3://landing", "feeds/orders")


@pytest.fixture(scope="module")
def metastore(fake4):
    """A metastore with orders (id, amount, note, by day) and the changes of some of them."""
    with MetastoreClient(fake4.options) as client:
        client.create_database("lineage")
        orders = [
            HiveColumn("id", "bigint"),
            HiveColumn("amount", "decimal(10,2)"),
            HiveColumn("note", "string"),
        ]
        days = [HiveColumn("day", "date")]
        client.create_table(HiveTable.new(TableRef.parse(TARGET), orders, partition_keys=days))
        changes = [HiveColumn("id", "bigint"), HiveColumn("amount", "decimal(10,2)")]
        client.create_table(HiveTable.new(TableRef.parse("lineage.changes"), changes))
        yield fake4.options
        client.drop_database("lineage", cascade=True)


@pytest.fixture
def told(metastore):
    """The lineage of a job, in its serialized form."""

    def tell(job_type, report=None, **fields):
        job = job_type(target=TARGET, metastore=metastore, **fields)
        return json.loads(Serde.to_json(lineage_of(job, report)))

    return tell


def columns_of(lineage):
    """Each column of the output with the (dataset, column) pairs that it is made of."""
    facet = lineage["outputs"][0]["facets"]["columnLineage"]
    return {
        column: {(read["name"], read["field"]) for read in made["inputFields"]}
        for column, made in facet["fields"].items()
    }


def merge(told, *when, source=FEED, **fields):
    return columns_of(told(MergeJob, source=source, on="t.id = s.id", when=when, **fields))


def test_tables_are_reported_with_their_columns_and_places(told, metastore):
    lineage = told(InsertJob, source=TableSource("lineage.changes"))
    (changes,), (orders,) = lineage["inputs"], lineage["outputs"]
    namespace = metastore.uris.replace("thrift", "hive")
    assert (changes["namespace"], changes["name"]) == (namespace, "lineage.changes")
    assert (orders["namespace"], orders["name"]) == (namespace, TARGET)
    assert [
        (dataset["name"], dataset["type"]) for dataset in orders["facets"]["schema"]["fields"]
    ] == [
        ("id", "bigint"),
        ("amount", "decimal(10,2)"),
        ("note", "string"),
        ("day", "date"),
    ]
    (place,) = orders["facets"]["symlinks"]["identifiers"]
    assert (place["namespace"], place["type"]) == ("file", "LOCATION")
    assert place["name"].endswith("/lineage.db/orders")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/landing/orders", ("file", "/landing/orders")),
        ("s3a://landing/feeds/orders/", FEED_COLUMN),
        ("hdfs://nn:8020/landing", ("hdfs://nn:8020", "/landing")),
    ],
)
def test_files_are_identified_by_their_place(told, path, place):
    lineage = told(InsertJob, source=PathSource(path=path, format="json"))
    assert [(dataset["namespace"], dataset["name"]) for dataset in lineage["inputs"]] == [place]


def test_results_of_checks_are_the_quality_of_the_table(told):
    checks = tuple(
        CheckResult(check=name, table=TARGET, severity="warn", passed=passed)
        for name, passed in (("not_null(id)", True), ("unique(id)", False))
    )
    report = RunReport(job="insert", target=TARGET, checks=checks).to_dict()
    lineage = told(InsertJob, source=TableSource("lineage.changes"), report=report)
    quality = {
        dataset["name"]: dataset["inputFacets"].get("dataQualityAssertions")
        for dataset in lineage["inputs"]
    }
    assert quality["lineage.changes"] is None
    assert [(each["assertion"], each["success"]) for each in quality[TARGET]["assertions"]] == [
        ("not_null(id)", True),
        ("unique(id)", False),
    ]
    assert outcome(report, 1).endswith("1 of 2 checks passed, 1.0 s")


def test_a_query_is_shown_with_its_inputs(told):
    query = QuerySource(
        "SELECT * FROM feed", {"feed": FEED, "known": TableSource("lineage.changes")}
    )
    lineage = told(InsertJob, source=query)
    assert [dataset["name"] for dataset in lineage["inputs"]] == ["feeds/orders", "lineage.changes"]
    assert lineage["job_facets"]["sql"]["query"] == "SELECT * FROM feed"


def test_excluded_columns_are_not_read(told):
    inserted = columns_of(told(InsertJob, source=FEED, exclude=["Note"]))
    assert inserted.keys() == {"id", "amount", "day"}
    assert merge(told, MatchedUpdate(), exclude=["id", "note", "day"]).keys() == {"amount"}


def test_writes_are_reported(told):
    report = RunReport(
        job="insert",
        target=TARGET,
        rows_inserted=5,
        rows_updated=2,
        rows_deleted=9,
        bytes=70,
        files=3,
    )
    lineage = told(InsertJob, report.to_dict(), source=FEED)
    statistics = lineage["outputs"][0]["outputFacets"]["outputStatistics"]
    assert [statistics[key] for key in ("rowCount", "size", "fileCount")] == [7, 70, 3]


def test_the_output_of_a_compaction_is_reported(told):
    done = PartitionReport(table=TARGET, outcome="compacted", reason="", rows=4, bytes_written=40)
    report = CompactReport(target=TARGET, partitions=(done, done))
    statistics = told(CompactJob, report.to_dict())["outputs"][0]["outputFacets"][
        "outputStatistics"
    ]
    assert (statistics["rowCount"], statistics["size"]) == (8, 80)


def test_a_failed_run_reports_its_datasets_without_figures(told):
    (output,) = told(DeleteJob)["outputs"]
    assert output["name"] == TARGET
    assert not output["outputFacets"]
    assert output["facets"].keys() == {"schema", "symlinks"}


def test_rows_that_are_inserted_come_column_by_column_from_the_source(told):
    assert columns_of(told(InsertJob, source=FEED)) == {
        column: {("feeds/orders", column)} for column in ("id", "amount", "note", "day")
    }


@pytest.mark.parametrize(
    ("partitions", "query"),
    [
        ([{"day": "mon"}], "SELECT id, amount, note FROM feed"),
        ([{"day": "mon"}, {"day": "tue"}], "SELECT id, amount, note, weekday FROM feed"),
    ],
)
def test_only_rows_for_one_partition_lack_the_partition_keys(told, partitions, query):
    source = QuerySource(query, {"feed": FEED})
    columns = columns_of(told(InsertJob, source=source, partitions=partitions, by_position=True))
    assert columns["note"] == {("feeds/orders", "note")}
    assert columns.get("day") == ({("feeds/orders", "weekday")} if partitions[1:] else None)


def test_an_update_reads_its_own_table(told):
    columns = columns_of(told(UpdateJob, set={"Amount": "amount * 2", "note": "'none'"}))
    assert columns == {"amount": {(TARGET, "amount")}}


def test_a_restore_reads_every_column_of_its_own_table(told):
    assert columns_of(told(RestoreJob, as_of="7")) == {
        column: {(TARGET, column)} for column in ("id", "amount", "note", "day")
    }


def test_the_lineage_of_a_merge_follows_its_clauses(told):
    columns = merge(
        told,
        MatchedDelete(condition="s.op = 'd'"),
        MatchedUpdate(
            set={"amount": "t.amount + S.delta", "note": "concat(s.who, ': ', `s`.text)"}
        ),
        NotMatchedInsert(values={"id": "s.id", "amount": "cast(s.delta as decimal(10,2))"}),
        NotMatchedBySourceUpdate(set={"note": "coalesce(t.note, 'gone')"}),
    )
    assert columns == {
        "id": {("feeds/orders", "id")},
        "amount": {(TARGET, "amount"), ("feeds/orders", "delta")},
        "note": {("feeds/orders", "who"), ("feeds/orders", "text"), (TARGET, "note")},
    }


def test_a_merge_by_name_reads_every_column_of_the_source(told):
    columns = merge(
        told, MatchedUpdate(), NotMatchedInsert(), source_alias="source", target_alias="target"
    )
    assert columns["amount"] == {("feeds/orders", "amount")}
    assert columns.keys() == {"id", "amount", "note", "day"}


def test_a_column_without_an_alias_is_the_target_s_only_if_the_target_has_it(told):
    columns = merge(told, MatchedUpdate(set={"note": "text || note", "amount": "s.item.price"}))
    assert columns["note"] == {("feeds/orders", "text"), (TARGET, "note")}
    assert columns["amount"] == {("feeds/orders", "item")}


def test_a_query_is_seen_through(told):
    query = QuerySource(
        "SELECT f.id, f.price * c.amount AS amount, 'fix' AS note FROM feed f JOIN changes c "
        "ON f.id = c.id",
        {"feed": FEED, "changes": TableSource("lineage.changes")},
    )
    columns = merge(told, MatchedUpdate(), NotMatchedInsert(), source=query)
    assert columns == {
        "id": {("feeds/orders", "id")},
        "amount": {("feeds/orders", "price"), ("lineage.changes", "amount")},
    }


def test_a_transaction_reports_all_its_tables(metastore):
    job = TransactionJob(
        metastore=metastore,
        statements=(
            InsertJob(target=TARGET, source=FEED),
            UpdateJob(target="lineage.changes", set={"amount": "amount + 1"}, where="true"),
            InsertJob(target=TARGET, source=TableSource("lineage.changes")),
        ),
    )
    tables = (
        TableReport(table=TARGET, rows_inserted=5, files=2),
        TableReport(table="lineage.changes", rows_updated=1, files=1),
    )
    report = RunReport(job="transaction", target=TARGET, tables=tables).to_dict()
    lineage = lineage_of(job, report)
    assert [dataset.name for dataset in lineage.inputs] == ["feeds/orders", "lineage.changes"]
    assert [dataset.name for dataset in lineage.outputs] == [TARGET, "lineage.changes"]
    rows = [dataset.outputFacets["outputStatistics"].rowCount for dataset in lineage.outputs]
    assert rows == [5, 1]
    amount = lineage.outputs[0].facets["columnLineage"].fields["amount"].inputFields
    assert [dataset.name for dataset in amount] == ["feeds/orders", "lineage.changes"]


def test_errors_of_sql_contain_positions(metastore):
    script = to_script(
        """
        INSERT INTO orders (id, day) SELECT id, DATE '2026-01-01' FROM changes;
        INSERT INTO orders PARTITION (day = '2026-01-02') SELECT id, 2 * amount, note FROM orders;
        UPDATE orders o SET note = o.day WHERE o.id IN (SELECT id FROM changes);
        MERGE INTO orders t USING changes s ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.amount, 'new', DATE '2026-01-01')
        """,
        "lineage",
    )
    lineage = json.loads(Serde.to_json(lineage_of(replace(script, metastore=metastore), None)))
    assert {read["name"] for read in lineage["inputs"]} == {"lineage.orders", "lineage.changes"}
    orders, changes = TARGET, "lineage.changes"
    assert columns_of(lineage) == {
        "id": {(changes, "id"), (orders, "id")},
        "amount": {(orders, "amount"), (changes, "amount")},
        "note": {(orders, "note"), (orders, "day")},
    }


@pytest.mark.parametrize("expression", ["amount +", "((", "s.a s.b, ;"])
def test_an_expression_that_cannot_be_read_hides_nothing_else(told, expression):
    columns = merge(told, MatchedUpdate(set={"amount": expression, "note": "s.text"}))
    assert columns["note"] == {("feeds/orders", "text")}


def test_without_the_metastore_there_are_no_columns_but_all_else():
    down = MetastoreOptions(uris="thrift://127.0.0.1:9", connect_timeout_seconds=1)
    job = InsertJob(target=TARGET, metastore=down, source=TableSource("lineage.changes"))
    lineage = lineage_of(job, None)
    assert [dataset.name for dataset in (*lineage.inputs, *lineage.outputs)] == [
        "lineage.changes",
        TARGET,
    ]
    assert lineage.outputs[0].facets == {}


def test_openlineage_asks_the_operator_when_the_task_has_ended(
    spark_submit, context, metastore, monkeypatch
):
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    report = RunReport(job="merge", target=TARGET, rows_inserted=3)
    spark_submit.will(report=report.to_dict())
    operator = HiveAcidMergeOperator(
        task_id="t",
        job=MergeJob(
            target=TARGET,
            metastore=metastore,
            source=FEED,
            on="t.id = s.id",
            when=[NotMatchedInsert()],
        ),
    )
    extractor = DefaultExtractor(operator)
    assert extractor.extract_on_complete(context["ti"]) is None
    operator.execute(context)
    (output,) = extractor.extract_on_complete(context["ti"]).outputs
    assert output.outputFacets["outputStatistics"].rowCount == 3
    assert output.facets["columnLineage"].fields.keys() == {"id", "amount", "note", "day"}


def test_airflow_learns_which_tables_a_transaction_of_a_task_s_own_touches(metastore, monkeypatch):
    collector = HookLineageCollector()
    monkeypatch.setattr(
        "airflow_hiveacid.hooks.metastore.get_hook_lineage_collector", lambda: collector
    )
    host, port = metastore.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    hook = HiveAcidMetastoreHook()
    with hook.transaction(Operation.UPDATE, TARGET, reads=["lineage.changes"]):
        pass
    touched = collector.collected_assets
    place = f"hiveacid://{host}:{port}/lineage"
    assert [dataset.asset.uri for dataset in touched.inputs] == [f"{place}/changes"]
    assert [dataset.asset.uri for dataset in touched.outputs] == [f"{place}/orders"]


@pytest.fixture
def running(monkeypatch):
    """A running task, as OpenLineage's macros want it, and a place for events to go to."""
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", '{"type": "console"}')
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    run = SimpleNamespace(
        run_id="r", logical_date=moment, run_after=moment, conf={}, clear_number=0
    )
    return {
        "ti": SimpleNamespace(
            dag_id="d",
            task_id="t",
            run_id="r",
            map_index=-1,
            try_number=1,
            logical_date=moment,
            dag_run=run,
            task=SimpleNamespace(task_id="t"),
            get_template_context=lambda: {"dag_run": run},
        )
    }


def test_spark_receives_its_parent_task(running):
    conf = with_parent_job({"spark.executor.cores": "2"}, running)
    assert conf["spark.executor.cores"] == "2"
    assert conf["spark.openlineage.parentJobName"] == "d.t"
    assert len(conf["spark.openlineage.parentRunId"]) == 36


def test_a_parent_that_was_named_already_is_kept(running):
    named = {"spark.openlineage.parentJobName": "mine"}
    assert with_parent_job(named, running) == named


def test_spark_gets_no_lineage_without_a_transport(running, monkeypatch):
    monkeypatch.delenv("AIRFLOW__OPENLINEAGE__TRANSPORT")
    assert with_parent_job(None, running) == {}


def test_spark_gets_no_lineage_without_openlineage(running, monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert with_parent_job({"a": "b"}, running) == {"a": "b"}
