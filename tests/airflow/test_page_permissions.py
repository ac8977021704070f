"""The page shows to each user the tables and runs that Airflow and the authorizer permit."""

from types import SimpleNamespace
from typing import get_args

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.models.asset import AssetModel
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_hiveacid.plugin import routes as page_routes
from airflow_hiveacid.plugin.metastores import Measured
from hiveacid.records.history_entries import HistoryEntry, HistoryState
from hiveacid.records.mirror_notes import KnownMirror
from hiveacid.records.staged_changes import KnownStagedChange
from hiveacid.records.stream_places import StreamState
from hiveacid.records.table_history import OldestVersion
from hiveacid.rules.lag import MirrorLag
from hiveacid.upkeep.health_score import BlockingTxn, TableHealth
from tests.airflow.page_users import bearer

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag, sync_bag_to_db

pytestmark = pytest.mark.filterwarnings("ignore:The HMAC key is")

TWO_DAGS = """
from airflow.sdk import DAG, Asset
from airflow_hiveacid import HiveAcidCleanOperator
from hiveacid.jobs import CleanJob
for name, table in (("of_jane", "shop.orders"), ("of_john", "shop.returns")):
    with DAG(name) as globals()[name]:
        asset = Asset(f"hiveacid://hms:9083/shop/{table[5:]}")
        HiveAcidCleanOperator(task_id="clean", job=CleanJob(target=table), outlets=[asset])
"""


@pytest.fixture
def two_dags(airflow, tmp_path):
    """A DAG of Jane on shop.orders, and one of John on shop.returns."""
    (tmp_path / "two_dags.py").write_text(TWO_DAGS)
    with create_session() as session:
        # A DAG of another test, whose tables are unknown, would hide all tables.
        for dag in session.scalars(select(DagModel)):
            dag.is_stale = True
        session.merge(DagBundleModel(name="two"))
        session.commit()
        sync_bag_to_db(DagBag(tmp_path), "two", None, session=session)
    yield
    with create_session() as session:
        for dag in session.query(DagModel).filter(DagModel.bundle_name == "two"):
            dag.is_stale = True


@pytest.fixture
def two_teams(two_dags, monkeypatch):
    """Tables of both, and of none of them; each user may read their own DAG and assets."""
    run = "{}/manual__1/clean/-1".format
    txns = {
        "shop.orders": BlockingTxn(txn_id=1, user="hive", host="h", run_token=run("of_john")),
        "shop.returns": BlockingTxn(txn_id=2, user="hive", host="h", run_token=run("of_john")),
        "shop.other": BlockingTxn(txn_id=3, user="hive", host="h", run_token=run("of_jane")),
    }
    tables = tuple(
        TableHealth(table=name, kind="full_acid", measured_at=1.0, oldest_txn=txn)
        for name, txn in txns.items()
    )
    entries = [
        HistoryEntry(
            write_id=number,
            first_write_id=number,
            last_write_id=number,
            state=HistoryState.CURRENT,
            run_token=run(dag),
            run_id="manual__1",
            user="hive",
        )
        for number, dag in enumerate(("of_jane", "of_john"), start=1)
    ]
    streams = [
        StreamState(
            name="feed",
            run_token=run(dag),
            tables=("shop.orders", "shop.returns"),
            started_at=1.0,
            told_at=2.0,
        )
        for dag in ("of_jane", "of_john")
    ]
    mirrors = [
        KnownMirror(
            name="lake.orders",
            catalog="lake",
            location="s3://lake/orders",
            lag=MirrorLag(version=1, newest=1, versions=0, seconds=0.0),
            complete_at=1.0,
            run_token=run(dag),
        )
        for dag in ("of_jane", "of_john")
    ]
    staged = [
        KnownStagedChange(
            name=f"{'0' * 64}_1",
            tables=("shop.orders", "shop.returns"),
            job="transaction",
            rows_inserted=1,
            rows_updated=0,
            rows_deleted=0,
            user="hive",
            run_token=run(dag),
            run_id="manual__1",
            time="2026-11-29T00:00:00+00:00",
            expires="2026-12-06T00:00:00+00:00",
        )
        for dag in ("of_jane", "of_john")
    ]
    fake = SimpleNamespace(
        measuring=SimpleNamespace(latest=lambda refresh=False: Measured(tables, 1.0, 0.5)),
        history=lambda _: entries,
        directories=lambda *_: [],
        streams=lambda _: streams,
        mirrors=lambda _: mirrors,
        staged=lambda _: staged,
        oldest=lambda _: OldestVersion(),
    )
    page_routes.app.dependency_overrides[page_routes._metastore] = lambda: fake

    def reads_dag(*, user, details=None, **_):
        return details is None or details.id == f"of_{user.get_name()}"

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", reads_dag)
    yield
    page_routes.app.dependency_overrides.clear()


@pytest.mark.usefixtures("two_teams")
@pytest.mark.parametrize(
    ("user", "own", "foreign"),
    [
        ("jane", "shop.orders", "shop.returns"),
        ("john", "shop.returns", "shop.orders"),
    ],
)
def test_each_of_two_users_sees_permitted_tables_and_runs_alone(browser, user, own, foreign):
    headers = bearer("viewer", user)
    listed = browser.get("/hiveacid/api/tables", headers=headers).json()
    rows = {row["table"]: row for row in listed["rows"]}
    assert sorted(rows) == sorted([own, "shop.other"])
    assert (listed["total"], listed["databases"]) == (2, [{"name": "shop", "tables": 2}])
    for row in rows.values():
        token = row["oldest_txn"]["run_token"]
        assert token is None or token.startswith(f"of_{user}/")
        assert row["oldest_txn"]["user"] == "hive"
    text = browser.get("/hiveacid/api/tables.csv", headers=headers).text
    assert own in text
    assert foreign not in text
    other = {"jane": "john", "john": "jane"}[user]
    assert f"of_{other}" not in text
    assert f"of_{other}" not in str(rows)
    for part in ("", "/history", "/streams", "/mirrors", "/staged", "/oldest", "/versions/1"):
        path = f"/hiveacid/api/tables/{{}}{part}".format
        assert browser.get(path(foreign), headers=headers).status_code == 404
        assert browser.get(path(own), headers=headers).status_code == 200
    history = browser.get(f"/hiveacid/api/tables/{own}/history", headers=headers).json()
    own_run = f"of_{user}/manual__1/clean/-1"
    assert [(entry["run_token"], entry["run_id"]) for entry in history["history"]].count(
        (None, None)
    ) == 1
    assert own_run in [entry["run_token"] for entry in history["history"]]
    for kind in ("streams", "mirrors", "staged"):
        found = browser.get(f"/hiveacid/api/tables/{own}/{kind}", headers=headers).json()[kind]
        assert {each["run_token"] for each in found} == {None, own_run}
        assert all(each.get("tables", [own]) == [own] for each in found)


SQL_DAGS = """
from airflow.sdk import DAG
from airflow_hiveacid import HiveAcidSqlOperator
with DAG("sql_of_john", params={"table": "shop.sold"}) as dag:
    HiveAcidSqlOperator(task_id="t", sql="DELETE FROM {} WHERE id = 1")
"""


@pytest.fixture
def sql_of_john(request, two_dags, tmp_path):
    """Another DAG of John, with a statement on a table."""
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "sql_dags.py").write_text(SQL_DAGS.replace("{}", request.param))
    with create_session() as session:
        session.merge(DagBundleModel(name="sql"))
        session.commit()
        sync_bag_to_db(DagBag(tmp_path / "sql"), "sql", None, session=session)
    yield
    with create_session() as session:
        for dag in session.query(DagModel).filter(DagModel.bundle_name == "sql"):
            dag.is_stale = True


@pytest.mark.usefixtures("two_teams")
@pytest.mark.parametrize(
    "sql_of_john", ["shop.other", "{{ params.table }}"], indirect=True, ids=["known", "unknown"]
)
def test_a_table_of_a_hidden_statement_is_hidden(browser, sql_of_john, monkeypatch):
    """If it is unknown, every table may be the table of the statement that no other DAG works on."""

    def reads_dag(*, user, details=None, **_):
        return details is None or details.id in (
            f"of_{user.get_name()}",
            f"sql_of_{user.get_name()}",
        )

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", reads_dag)
    seen = {
        user: [
            row["table"]
            for row in browser.get("/hiveacid/api/tables", headers=bearer("viewer", user)).json()[
                "rows"
            ]
        ]
        for user in ("jane", "john")
    }
    assert seen["jane"] == ["shop.orders"]
    assert sorted(seen["john"]) == ["shop.other", "shop.returns"]


@pytest.mark.usefixtures("two_teams")
def test_a_table_needs_the_right_to_read_its_asset(browser, monkeypatch):
    with create_session() as session:
        uri = "hiveacid://hms:9083/shop/orders"
        [asset_id] = session.scalars(select(AssetModel.id).where(AssetModel.uri == uri))

    def reads_asset(*, details=None, **_):
        return details is None or details.id != str(asset_id)

    monkeypatch.setattr(get_auth_manager(), "is_authorized_asset", reads_asset)
    listed = browser.get("/hiveacid/api/tables", headers=bearer("viewer", "jane")).json()
    assert [row["table"] for row in listed["rows"]] == ["shop.other"]


def refuse_orders(*, user, table, columns, action):
    assert (user, columns, action) == ("user:jane", (), "show")
    return table != "shop.orders"


def fail(**_):
    raise RuntimeError("The directory of users is away.")


@pytest.mark.usefixtures("two_teams")
@pytest.mark.parametrize(
    ("authorizer", "tables"),
    [("refuse_orders", ["shop.other"]), ("fail", []), ("missing", [])],
)
def test_the_authorizer_decides_on_each_row(browser, monkeypatch, authorizer, tables):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.{authorizer}")
    listed = browser.get("/hiveacid/api/tables", headers=bearer("viewer", "jane")).json()
    assert [row["table"] for row in listed["rows"]] == tables


@pytest.mark.usefixtures("two_teams")
def test_a_table_at_a_location_of_others_needs_the_right_to_see_them(browser, monkeypatch):
    alias = TableHealth(
        table="shop.alias", kind="full_acid", measured_at=1.0, shared_with=("shop.orders",)
    )
    fake = page_routes.app.dependency_overrides[page_routes._metastore]()
    fake.measuring.latest = lambda refresh=False: Measured((alias,), 1.0, 0.5)
    parts = ["", *(f"/{part}" for part in (*get_args(page_routes.Part), "versions/1"))]

    def answers():
        listed = browser.get("/hiveacid/api/tables", headers=bearer("viewer", "jane")).json()
        shown = [
            browser.get(
                f"/hiveacid/api/tables/shop.alias{part}", headers=bearer("viewer", "jane")
            ).status_code
            for part in parts
        ]
        return [row["table"] for row in listed["rows"]], {*shown}

    assert answers() == (["shop.alias"], {200})
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_orders")
    assert answers() == ([], {404})
