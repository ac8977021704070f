"""The page's routes in Airflow's own API server: permissions, and robustness."""

import csv
import io
import json
import socket
import time
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hiveacid.cluster.packaged import example_dags
from airflow_hiveacid.plugin import metastores
from airflow_hiveacid.plugin import routes as page_routes
from airflow_hiveacid.plugin.metastores import Measured
from hiveacid.errors import MetastoreUnreachable
from hiveacid.jobs import codec
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.stage_jobs import DiscardJob, StageJob
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.table_rules import located
from hiveacid.records.mirror_notes import MirrorNote, write_mirror_note
from hiveacid.records.stream_places import StreamPlaces, StreamState
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.health_score import TableHealth
from hiveacid.worker.staged_changes import discard_change, stage_change
from tests.airflow.page_users import bearer, token

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag, sync_bag_to_db

pytestmark = pytest.mark.filterwarnings("ignore:The HMAC key is")

ROUTES = [route for route in page_routes.app.routes if isinstance(route, APIRoute)]
PARTS = ("history", "streams", "mirrors", "staged", "oldest")
PATHS = [
    f"/hiveacid{route.path}".replace("{part}", part).format(
        dag_id="some_dag", table="shop.orders", write_id=7, request="r1"
    )
    for route in ROUTES
    for part in (PARTS if "{part}" in route.path else PARTS[:1])
]
CERTIFICATES = [path for path in PATHS if "certificate" in path]
TABLES = (
    TableHealth(table="shop.orders", kind="full_acid", deltas=3, measured_at=1.0),
    TableHealth(table="shop.<b>bold</b>", kind="full_acid", measured_at=1.0),
)


def unreachable(table, write_id=None):
    raise MetastoreUnreachable("No metastore answers.")


@pytest.fixture
def measured(airflow):
    """A metastore whose tables are known, and that does not answer any more."""
    known = SimpleNamespace(latest=lambda refresh=False: Measured(TABLES, 1.0, 0.5))
    fake = SimpleNamespace(
        measuring=known,
        history=unreachable,
        directories=unreachable,
        streams=unreachable,
        mirrors=unreachable,
        staged=unreachable,
        oldest=unreachable,
    )
    page_routes.app.dependency_overrides[page_routes._metastore] = lambda: fake
    yield
    page_routes.app.dependency_overrides.clear()


def test_airflow_mounts_the_page_and_shows_its_two_views(browser):
    answer = browser.get("/api/v2/plugins", headers=bearer("admin")).json()
    (plugin,) = [plugin for plugin in answer["plugins"] if plugin["name"] == "hiveacid"]
    assert [view["destination"] for view in plugin["external_views"]] == ["nav", "dag"]
    assert plugin["external_views"][0]["nav_top_level"] is True
    # A path of the server would leave out the one that Airflow itself may have.
    assert all(not view["href"].startswith("/") for view in plugin["external_views"])
    assert plugin["fastapi_apps"][0]["url_prefix"] == "/hiveacid"


def test_the_page_has_these_routes_and_no_others():
    assert {route.path for route in page_routes.app.routes} == {
        "/",
        "/api/tables",
        "/api/tables.csv",
        "/api/dags/{dag_id}/tables",
        "/api/dags/{dag_id}/tables.csv",
        "/api/maintenance",
        "/api/tables/{table}",
        "/api/tables/{table}/{part}",
        "/api/tables/{table}/versions/{write_id}",
        "/api/erasures",
        "/api/erasures/{request}/certificate",
        "/api/erasures/{request}/certificate.json",
    }
    # The buttons start DAGs by Airflow's own API: nothing here changes anything.
    assert {method for route in ROUTES for method in route.methods} == {"GET"}


@pytest.mark.parametrize("path", PATHS)
def test_access_requires_credentials(browser, path):
    assert browser.get(path).status_code == 401
    assert browser.get(path, headers={"Authorization": "Bearer nonsense"}).status_code == 403
    browser.cookies.set("_token", "nonsense")
    assert browser.get(path).status_code in (401, 403)


@pytest.mark.parametrize("path", PATHS)
def test_a_user_without_rights_is_turned_away(browser, path):
    assert browser.get(path, headers=bearer(None)).status_code == 403


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("path", PATHS)
def test_a_viewer_sees_everything(browser, path):
    # There is no folder of requests, and no certificate.
    status = 404 if path in CERTIFICATES else 200
    assert browser.get(path, headers=bearer("viewer")).status_code == status


@pytest.mark.usefixtures("measured")
def test_the_cookie_of_a_signed_in_browser_is_enough(browser):
    browser.cookies.set("_token", token("viewer"))
    assert browser.get("/hiveacid/").headers["content-type"].startswith("text/html")
    assert browser.get("/hiveacid/api/tables").json()["total"] == 2


@pytest.mark.usefixtures("measured")
def test_the_tables_of_a_dag_need_the_right_to_see_the_dag(browser, monkeypatch):
    asked = []

    def refuse(**details):
        asked.append((details["method"], details["details"].id))
        return False

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", refuse)
    headers = bearer("viewer")
    assert browser.get("/hiveacid/api/dags/secret/tables", headers=headers).status_code == 403
    assert asked == [("GET", "secret")]
    assert browser.get("/hiveacid/api/tables", headers=headers).status_code == 200


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("path", [*PATHS, "/hiveacid/api/tables?size=0", "/hiveacid/nothing"])
def test_every_answer_has_strict_security_headers(browser, path):
    for headers in (bearer("viewer"), {}):
        answer = browser.get(path, headers=headers)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.usefixtures("measured")
def test_names_travel_as_json_and_never_as_markup(browser):
    answer = browser.get("/hiveacid/api/tables?text=bold", headers=bearer("viewer"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["rows"][0]["table"] == "shop.<b>bold</b>"
    assert "bold" not in browser.get("/hiveacid/", headers=bearer("viewer")).text


@pytest.fixture(scope="module")
def buttons(airflow):
    """The DAG of the buttons, as Airflow knows it."""
    bag = DagBag(example_dags() / "compact_or_clean.py")
    with create_session() as session:
        session.merge(DagBundleModel(name="examples"))
        session.commit()
        sync_bag_to_db(bag, "examples", None, session=session)
    return "compact_or_clean"


@pytest.mark.parametrize(("role", "allowed"), [("viewer", False), ("user", True), ("admin", True)])
def test_only_who_may_trigger_the_dag_has_buttons(browser, buttons, role, allowed, monkeypatch):
    path, headers = "/hiveacid/api/maintenance", bearer(role)
    assert browser.get(path, headers=headers).json() == {"dag_id": None}
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_DAG", buttons)
    told = browser.get(path, headers=headers).json()
    assert (told["dag_id"], told["allowed"], told["there"]) == (buttons, allowed, allowed)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_DAG", "no_such_dag")
    assert browser.get(path, headers=headers).json()["there"] is False
    run = browser.post(
        f"/api/v2/dags/{buttons}/dagRuns",
        json={"logical_date": None, "conf": {"action": "clean", "table": "shop.orders"}},
        headers=headers,
    )
    assert run.status_code == (200 if allowed else 403)


@pytest.mark.parametrize(
    ("conf", "status"),
    [
        ({"action": "compact", "table": "shop.orders", "type": "major"}, 200),
        # A text that looks like code remains a name, which no table has.
        ({"action": "clean", "table": "shop.{{ 7 + 7 }}'; DROP TABLE x --"}, 200),
        ({"action": "clean", "table": "shop.*"}, 400),
        ({"action": "clean", "table": "*.orders"}, 400),
        ({"action": "clean", "table": "shop.[a-z]"}, 400),
        ({"action": "drop", "table": "shop.orders"}, 400),
        ({"action": "compact", "table": "shop.orders", "type": "{{ 1 }}"}, 400),
        ({"action": "compact", "table": "shop.orders", "connection": "other"}, 400),
    ],
)
def test_a_button_means_one_table_and_what_the_dag_allows(browser, buttons, conf, status):
    path, body = f"/api/v2/dags/{buttons}/dagRuns", {"logical_date": None, "conf": conf}
    answer = browser.post(path, json=body, headers=bearer("user"))
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["conf"] == conf


def test_another_site_cannot_press_the_buttons(browser, buttons):
    # All that a form of another site can send: a cookie, if the browser gave it away, and text.
    browser.cookies.set("_token", token("user"))
    body = '{"logical_date": null, "conf": {"action": "compact", "table": "shop.orders"}}'
    path = f"/api/v2/dags/{buttons}/dagRuns"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = browser.post(path, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 422


def test_tasks_receive_any_name_of_a_table_unchanged(buttons):
    dag = DagBag(example_dags() / f"{buttons}.py").dags[buttons]
    name = "shop.{{ params.clear() }}' OR 1=1"
    context = {"params": {"table": name, "type": "major", "connection": "hive_acid_default"}}
    for task_id in ("compact", "clean"):
        task = dag.get_task(task_id)
        assert task.render_template(task.job, context).target == name
    assert dag.get_task("clean").job.dry_run


@pytest.mark.usefixtures("measured")
def test_all_tables_are_a_file(browser):
    answer = browser.get("/hiveacid/api/tables.csv?size=1&sort=table", headers=bearer("viewer"))
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")
    first, *rows = csv.DictReader(io.StringIO(answer.text))
    assert (first["table"], first["deltas"]) == ("shop.<b>bold</b>", "0")
    assert [row["table"] for row in rows] == ["shop.orders"]
    only = browser.get("/hiveacid/api/tables.csv?text=bold", headers=bearer("viewer"))
    assert len(only.text.splitlines()) == 2


@pytest.mark.usefixtures("measured")
def test_unreadable_parts_have_a_reason(browser):
    for kind in PARTS:
        path = f"/hiveacid/api/tables/shop.orders/{kind}"
        answer = browser.get(path, headers=bearer("viewer"))
        assert answer.status_code == 200
        assert answer.json()[kind] == []
        assert answer.json()["error"]["message"] == "No metastore answers."
    answer = browser.get("/hiveacid/api/tables/shop.orders/versions/7", headers=bearer("viewer"))
    assert (answer.status_code, answer.json()["directories"]) == (200, [])
    for wrong in ("-1", "x", str(2**63)):
        path = f"/hiveacid/api/tables/shop.orders/versions/{wrong}"
        assert browser.get(path, headers=bearer("viewer")).status_code == 422


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("path", ["api/tables/shop.gone", "api/tables/shop.gone/history"])
def test_a_table_that_is_not_there_is_not_found(browser, path):
    assert browser.get(f"/hiveacid/{path}", headers=bearer("viewer")).status_code == 404


anything = st.one_of(
    st.text(max_size=300),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "true", "score", "table", "needs", "shop", "../..", "%00", "\0", "~"]),
)
names = st.sampled_from(
    ["connection", "database", "text", "show", "sort", "descending", "page", "size", "dag_id"]
)
parts = st.one_of(anything, st.sampled_from(["shop.orders", "history", "tables", "dags"]))


@pytest.mark.usefixtures("measured")
def test_nothing_that_is_asked_breaks_it(airflow):
    headers = bearer("viewer")
    with TestClient(airflow, base_url="http://localhost") as client:

        @settings(max_examples=60)
        @given(st.lists(parts, max_size=4), st.lists(st.tuples(names, anything), max_size=6))
        def ask(path, query):
            below = "/".join(quote(part, safe="", errors="replace") for part in path)
            told = [(name, value.encode(errors="replace").decode()) for name, value in query]
            for start in ("api/tables", f"api/tables/{below}", f"api/dags/{below}/tables"):
                answer = client.get(f"/hiveacid/{start}", params=told, headers=headers)
                assert answer.status_code in (200, 404, 422)

        ask()


def ask_until_measured(browser, eventually, path="/hiveacid/api/tables"):
    answers = []

    def measured():
        answer = browser.get(path, headers=bearer("viewer"))
        assert answer.status_code == 200
        answers.append(answer.json())
        return not answers[-1]["running"]

    eventually("the tables are measured", measured)
    return answers[-1]


def test_it_shows_real_tables_and_no_secret(
    browser, orders, metastore_connection, eventually, monkeypatch
):
    metastores.metastore_of.cache_clear()
    orders.insert()
    listed = ask_until_measured(browser, eventually)
    (row,) = [row for row in listed["rows"] if row["table"] == "shop.orders"]
    assert (row["deltas"], row["broken"]) == (1, False)
    path = "/hiveacid/api/tables/shop.orders"
    health = browser.get(path, headers=bearer("viewer")).json()
    history = browser.get(f"{path}/history", headers=bearer("viewer")).json()
    assert health["deltas"] == 1
    write, compaction = history["history"]
    assert (compaction["write_id"], compaction["operation"]) == (None, "major")
    below = browser.get(f"{path}/versions/{write['write_id']}", headers=bearer("viewer")).json()
    assert [each["name"] for each in below["directories"]] == [
        each["name"] for each in write["directories"]
    ]
    assert "s3cret" not in json.dumps([listed, health, history])
    assert browser.get(f"{path}/streams", headers=bearer("viewer")).json()["streams"] == []
    state = StreamState(name="feed", run_token="d/r/t/-1", started_at=1.0, told_at=2.0)
    StreamPlaces(Storage.of(orders.table.folder), "feed").write_state(state)
    streams = browser.get(f"{path}/streams", headers=bearer("viewer")).json()
    assert streams == {"instance": "", "streams": [codec.encode(state)], "error": None}
    assert browser.get(f"{path}/mirrors", headers=bearer("viewer")).json()["mirrors"] == []
    write_mirror_note(orders.table, mirror_note(orders.table, write["write_id"]), is_new=True)
    (mirror,) = browser.get(f"{path}/mirrors", headers=bearer("viewer")).json()["mirrors"]
    assert (mirror["name"], mirror["lag"]["versions"]) == ("lake.orders", 0)
    orders.insert()
    (mirror,) = browser.get(f"{path}/mirrors", headers=bearer("viewer")).json()["mirrors"]
    assert mirror["lag"]["versions"] == 1
    assert mirror["lag"]["seconds"] > 0
    assert browser.get(f"{path}/staged", headers=bearer("viewer")).json()["staged"] == []
    new = QuerySource("VALUES (1)")
    change = InsertJob(target="shop.orders", source=new, by_position=True)
    job = StageJob(change=change, metastore=orders.client.options, run_token="d/r/t/-1")
    report = stage_change(orders.client, job)
    (staged,) = browser.get(f"{path}/staged", headers=bearer("viewer")).json()["staged"]
    assert (staged["name"], staged["expires"]) == (report.staged, report.expires)
    assert (staged["tables"], staged["rows_inserted"]) == (["shop.orders"], 1)
    assert staged["run_token"] == "d/r/t/-1"
    discard_change(orders.client, DiscardJob.of(report.to_dict()))
    oldest = browser.get(f"{path}/oldest", headers=bearer("viewer")).json()
    # The base of its compaction does not list what it has replaced.
    assert (oldest["oldest"]["version"], oldest["error"]) == (1, None)
    assert oldest["oldest"]["at"] <= time.time()
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_LOCATIONS", "s3a://bucket")
    for kind in PARTS:
        refused = browser.get(f"{path}/{kind}", headers=bearer("viewer")).json()
        assert (refused[kind], refused["error"]["id"]) == ([], "AccessRefused")


def mirror_note(table, version):
    return MirrorNote(
        mirror="lake.orders",
        catalog="lake",
        location="s3://lake/orders",
        table=located(table),
        write_ids=f"{table.ref.full_name}:{version}:{2**63 - 1}::",
        complete_at=1.0,
        run_token="d/r/t/-1",
    )


def test_a_metastore_that_does_not_answer_is_an_answer(browser, monkeypatch, eventually):
    metastores.metastore_of.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    connection = {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": port}
    monkeypatch.setenv(
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection | {"password": "s3cret"})
    )
    answer = ask_until_measured(browser, eventually)
    assert (answer["measured"], answer["rows"]) == (False, [])
    assert answer["error"]["id"] == "MetastoreUnreachable"
    assert str(port) in answer["error"]["message"]
    assert "s3cret" not in json.dumps(answer)


def test_only_the_configured_metastores_are_shown(browser, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_CONNECTIONS", "one, two")
    headers = bearer("viewer")
    path = "/hiveacid/api/tables?connection=spark_default"
    assert browser.get(path, headers=headers).status_code == 404


def test_a_policy_that_makes_no_sense_is_shown(browser, monkeypatch, eventually):
    metastores.metastore_of.cache_clear()
    monkeypatch.setenv(
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT", '{"conn_type": "hive_acid_metastore", "host": "h"}'
    )
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_POLICY", '{"max_delta": 3}')
    answer = ask_until_measured(browser, eventually)
    assert answer["error"]["id"] == "InvalidJob"
    assert "page_policy" in answer["error"]["message"]
