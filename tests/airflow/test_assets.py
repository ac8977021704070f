"""Tables as assets, and the information in events of outlets."""

from types import SimpleNamespace

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_hiveacid.assets import emit_assets, table_asset
from hiveacid.errors import InvalidJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import (
    CompactReport,
    PartitionReport,
    RunReport,
    TableReport,
)

METASTORE = MetastoreOptions(uris="thrift://hms-1:9083,thrift://hms-2:9084")
URI = "hiveacid://hms-1:9083/sales/orders"
MERGED = RunReport(
    job="merge",
    target="sales.orders",
    txn_id=7,
    write_ids={"sales.orders": 3},
    rows_inserted=2,
    partitions=("d=1", "d=2"),
).to_dict()


def events_of(report, *outlets, keys_at_runtime=False):
    events = OutletEventAccessors()
    timetable = SimpleNamespace(partitioned_at_runtime=True) if keys_at_runtime else object()
    context = {
        "task": SimpleNamespace(outlets=list(outlets)),
        "dag": SimpleNamespace(timetable=timetable),
        "outlet_events": events,
    }
    emit_assets(context, [report], METASTORE)
    return events


@pytest.mark.parametrize(
    ("metastore", "uri"),
    [
        ("hms-1", URI),
        ("HMS-1:9083", URI),
        ("hms-1:9084", "hiveacid://hms-1:9084/sales/orders"),
        ("thrift://hms-1:9083,thrift://hms-2:9083", URI),
        ("https://hms/metastore", "hiveacid://hms:443/sales/orders"),
        ("thrift://[::1]:9083", "hiveacid://[::1]:9083/sales/orders"),
    ],
)
def test_a_table_has_one_uri_however_its_metastore_is_written(metastore, uri):
    assert table_asset("Sales.Orders", metastore).uri == uri


@pytest.mark.parametrize(
    "written", [URI, "hiveacid://HMS-1/Sales/Orders/", "hiveacid://ada:pw@hms-1/sales/orders#part"]
)
@pytest.mark.filterwarnings("ignore:An Asset URI should not contain a password")
def test_airflow_gives_every_spelling_of_a_table_the_same_uri(written):
    assert Asset(uri=written).uri == URI


@pytest.mark.parametrize(
    "written",
    ["hiveacid://hms-1", "hiveacid://hms-1/sales", "hiveacid:///sales/orders", f"{URI}/x?d=1"],
)
def test_airflow_refuses_a_uri_that_names_no_table(written):
    with pytest.raises(ValueError, match="not of the form hiveacid://host:port/database/table"):
        Asset(uri=written)


def test_an_asset_is_named_after_its_table():
    asset = table_asset("Sales.Orders", "hms-1")
    assert (asset.name, asset.uri) == ("sales.orders", "hiveacid://hms-1:9083/sales/orders")
    assert table_asset("sales.orders", "hms-1", by_partition=True).name == "sales.orders/partitions"


def test_further_fields_of_assets_can_be_set():
    asset = table_asset("sales.orders", "hms-1", name="orders", extra={"owner": "ada"})
    assert (asset.name, asset.extra) == ("orders", {"owner": "ada"})


def test_only_a_table_is_an_asset():
    with pytest.raises(InvalidJob, match="'orders' is not the name of a table"):
        table_asset("orders", "hms-1")


@pytest.mark.parametrize("outlet", [table_asset("sales.orders", "hms-1"), Asset("my orders")])
def test_the_event_of_an_outlet_describes_the_write(outlet):
    event = events_of(MERGED, outlet)[outlet]
    assert event.extra["table"] == "sales.orders"
    assert event.extra["write_ids"] == {"sales.orders": 3}
    assert (event.extra["txn_id"], event.extra["rows_inserted"]) == (7, 2)
    assert event.extra["partitions"] == ["d=1", "d=2"]


def test_the_event_has_the_results_of_the_checks_of_its_table():
    outlet = table_asset("sales.orders", "hms-1")
    checks = [
        {"check": name, "table": table, "passed": passed}
        for name, table, passed in (
            ("unique(id)", "sales.orders", False),
            ("not_null(id)", "sales.customers", True),
        )
    ]
    event = events_of({**MERGED, "checks": checks}, outlet)[outlet]
    assert event.extra["checks"] == {"unique(id)": False}


@pytest.mark.parametrize(
    "uri", [URI, "hiveacid://HMS-1/Sales/Orders", "hiveacid://hms-2:9084/sales/orders"]
)
def test_a_table_is_found_by_every_address_of_its_metastore(uri, caplog):
    outlet = Asset(name="o", uri=uri)
    assert events_of(MERGED, outlet)[outlet].extra["txn_id"] == 7
    assert caplog.text == ""


@pytest.mark.parametrize(
    "other",
    [
        table_asset("sales.customers", "hms-1"),
        table_asset("sales.orders", "staging", name="staging.orders"),
        table_asset("sales.orders", "hms-1:9084", name="other.orders"),
        table_asset("sales.orders", "staging", by_partition=True),
    ],
)
def test_the_event_of_another_table_has_no_results_and_the_log_warns(other, caplog):
    orders = table_asset("sales.orders", "hms-1")
    events = events_of(MERGED, orders, other)
    assert events[other].extra == {}
    (record,) = caplog.records
    assert f"not written the table of its outlet {other.uri}" in record.getMessage()


def test_an_alias_gets_an_event_of_the_table():
    alias = AssetAlias("written")
    (event,) = events_of(MERGED, alias)[alias].asset_alias_events
    assert event.dest_asset_key.uri == URI
    assert event.extra["txn_id"] == 7


def test_each_table_of_a_transaction_is_reported_by_its_own_outlet():
    tables = (
        TableReport(table="sales.orders", rows_inserted=2, bytes=20, partitions=("d=1",)),
        TableReport(table="sales.customers", rows_updated=1, bytes=10),
    )
    report = RunReport(
        job="transaction",
        target="sales.orders",
        txn_id=7,
        write_ids={"sales.orders": 3, "sales.customers": 9},
        rows_inserted=2,
        rows_updated=1,
        bytes=30,
        partitions=("d=1",),
        tables=tables,
    ).to_dict()
    names = ("sales.orders", "sales.customers", "sales.others")
    orders, customers, others = (table_asset(name, "hms-1") for name in names)
    anything, alias = Asset("the load"), AssetAlias("written")
    events = events_of(report, orders, customers, others, anything, alias)

    def told(extra):
        keys = ("table", "txn_id", "rows_inserted", "rows_updated", "bytes", "partitions")
        return [extra.get(key) for key in keys]

    of_orders = ["sales.orders", 7, 2, 0, 20, ["d=1"]]
    of_customers = ["sales.customers", 7, 0, 1, 10, []]
    assert told(events[orders].extra) == of_orders
    assert told(events[customers].extra) == of_customers
    assert events[others].extra == {}
    assert told(events[anything].extra) == ["sales.orders", 7, 2, 1, 30, ["d=1"]]
    aliased = events[alias].asset_alias_events
    assert [told(event.extra) for event in aliased] == [of_orders, of_customers]


def test_outlets_that_are_no_assets_are_left_alone():
    assert len(events_of(MERGED, SimpleNamespace(namespace="file", name="/orders"))) == 0


def test_a_compaction_reports_its_partitions():
    def partition(name, outcome, **figures):
        return PartitionReport(
            table="sales.orders", partition=name, outcome=outcome, reason="", **figures
        )

    report = CompactReport(
        target="sales.orders",
        partitions=(
            partition("d=1", "compacted", txn_id=4, rows=10, deletes=1, bytes_written=100),
            partition("d=2", "skipped"),
            partition("d=3", "compacted", txn_id=5, rows=20, bytes_read=900),
        ),
    ).to_dict()
    outlet = table_asset("sales.orders", "hms-1")
    extra = events_of(report, outlet)[outlet].extra
    assert extra["partitions"] == ["d=1", "d=3"]
    assert extra["txn_ids"] == [4, 5]
    assert [extra[key] for key in ("rows", "deletes", "bytes_read", "bytes_written")] == [
        30,
        1,
        900,
        100,
    ]


needs_runtime_partitions = pytest.mark.skipif(
    not hasattr(OutletEventAccessors()[Asset("probe")], "add_partitions"),
    reason="Airflow knows partitions of assets since 3.3",
)


@needs_runtime_partitions
def test_where_keys_are_set_at_runtime_there_is_an_event_for_each_partition():
    outlet = table_asset("sales.orders", "hms-1")
    assert events_of(MERGED, outlet, keys_at_runtime=True)[outlet].partition_keys == {"d=1", "d=2"}


@needs_runtime_partitions
def test_an_asset_by_partition_has_an_event_for_each_beside_that_of_the_table():
    table = table_asset("sales.orders", "hms-1")
    days = table_asset("sales.orders", "hms-1", by_partition=True)
    other = table_asset("sales.customers", "hms-1", by_partition=True)
    events = events_of(MERGED, table, days, other)
    assert days.uri == f"{URI}/partitions"
    assert events[days].partition_keys == {"d=1", "d=2"}
    assert (events[days].extra["txn_id"], "partitions" in events[days].extra) == (7, False)
    assert (events[table].partition_keys, events[table].extra["partitions"]) == (
        set(),
        ["d=1", "d=2"],
    )
    assert events[other].partition_keys == set()


@needs_runtime_partitions
def test_a_task_has_no_more_events_than_airflow_can_take_while_it_waits(caplog):
    days = table_asset("sales.orders", "hms-1", by_partition=True)
    report = MERGED | {"partitions": [f"d={number:04}" for number in range(1003)]}
    keys = events_of(report, days)[days].partition_keys
    assert (len(keys), max(keys)) == (1000, "d=0999")
    assert "for 3 partitions, from d=1000 to d=1002" in caplog.text


@needs_runtime_partitions
def test_elsewhere_the_one_event_has_no_key_so_that_dags_waiting_for_the_table_run():
    outlet = table_asset("sales.orders", "hms-1")
    assert events_of(MERGED, outlet)[outlet].partition_keys == set()


@needs_runtime_partitions
def test_a_partition_whose_name_is_too_long_for_a_key_does_not_fail_the_task(caplog):
    outlet = table_asset("sales.orders", "hms-1")
    report = MERGED | {"partitions": ["d=1", "d=" + "x" * 249]}
    assert events_of(report, outlet, keys_at_runtime=True)[outlet].partition_keys == {"d=1"}
    assert "No separate event for 1 partition with" in caplog.text
