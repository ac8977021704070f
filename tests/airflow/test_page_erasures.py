"""The page shows requests to erase keys and their certificates, and who may see which of them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from airflow.api_fastapi.app import get_auth_manager

from airflow_hiveacid.plugin import metastores
from hiveacid.cli.main import main
from hiveacid.erasure.requests import Eraser
from hiveacid.jobs import EraseJob
from hiveacid.jobs.sources import BatchSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from tests.airflow.page_users import bearer
from tests.conftest import KEY_FILE
from tests.fakes.metastore import FakeMetastore

pytestmark = pytest.mark.filterwarnings("ignore:The HMAC key is")
PAGE = "/hiveacid/api/erasures"
CERTIFICATE = f"{PAGE}/done/certificate"


class Shop:
    """Two tables, a folder of requests, and a browser."""

    def __init__(self, browser, client, folder):
        self.browser, self.client, self.folder = browser, client, folder
        for name in ("orders", "visits"):
            self.sql(f"CREATE TABLE {name} (customer bigint, n int)")
            self.insert(name)

    def sql(self, script):
        uris = self.client.options.uris
        assert main(["sql", script, "--run-in", "worker", "--metastore", uris]) == 0

    def insert(self, table):
        self.sql(f"INSERT INTO {table} VALUES (7, 1), (8, 2), (9, 3)")

    def erase(self, request, *tables, within_days=30):
        job = EraseJob(
            request=request,
            keys=BatchSource("keys"),
            columns={f"default.{table}": "customer" for table in tables},
            folder=self.folder,
            retention="0",
            within_days=within_days,
        )
        return Eraser(self.client, self.folder).run(job, ["7", "8"])

    def get(self, path, role="viewer"):
        return self.browser.get(path, headers=bearer(role))

    def listed(self):
        answer = self.get(PAGE).json()
        assert answer["error"] is None
        return answer["erasures"]


@pytest.fixture
def shop(browser, monkeypatch, tmp_path):
    metastores.metastore_of.cache_clear()
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        name, port = metastore.uri.removeprefix("thrift://").split(":")
        connection = {"conn_type": "hive_acid_metastore", "host": name, "port": int(port)}
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        folder = f"file:{tmp_path}/erasures"
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__ERASURES", folder)
        yield Shop(browser, client, folder)
    metastores.metastore_of.cache_clear()


def files_of(shop):
    return sorted(Path(shop.folder.removeprefix("file:")).rglob("*"))


def test_without_a_folder_or_requests_there_is_nothing_to_show(shop, monkeypatch):
    assert shop.listed() == []
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ERASURES", "")
    assert shop.listed() == []
    assert shop.get(CERTIFICATE).status_code == 404


def test_requests_are_listed_with_what_they_wait_for_and_without_hashes(shop):
    shop.erase("done", "visits")
    with Transaction(shop.client, reads=[TableRef.parse("default.orders")]):
        shop.erase("late", "orders", within_days=3)
    before = files_of(shop)
    late, done = shop.listed()
    assert (late["request"], late["is_certified"], late["keys"]) == ("late", False, 2)
    assert {wait["kind"] for wait in late["waits"]} == {"reader"}
    assert late["files"] > 0
    (table,) = late["tables"]
    assert table == {
        "table": "default.orders",
        "column": "customer",
        "join": "",
        "rows_deleted": 2,
    }
    assert (done["request"], done["is_certified"], done["waits"]) == ("done", True, [])
    assert not re.search(r"[0-9a-f]{32}", json.dumps([late, done]))
    assert files_of(shop) == before
    # The page follows the request.
    Eraser(shop.client, shop.folder).advance("late")
    assert [each["is_certified"] for each in shop.listed()] == [True, True]


def test_a_damaged_record_does_not_hide_other_requests(shop):
    with Transaction(shop.client, reads=[TableRef.parse("default.orders")]):
        shop.erase("r1", "orders")
    shop.erase("r2", "visits")
    (record,) = Path(shop.folder.removeprefix("file:"), "r1", "record").iterdir()
    record.write_text("{")
    damaged, whole = shop.listed()
    assert (damaged["request"], damaged["tables"]) == ("r1", [])
    assert "cannot be read as the record of a request" in damaged["problem"]
    assert (whole["request"], whole["problem"]) == ("r2", "")


def test_forged_entries_hide_no_other_request(shop, signing_key, monkeypatch):
    monkeypatch.delenv(KEY_FILE)
    with Transaction(shop.client, reads=[TableRef.parse("default.orders")]):
        shop.erase("unsigned", "orders")
    monkeypatch.setenv(KEY_FILE, str(signing_key))
    shop.erase("r2", "visits")
    folder = Path(shop.folder.removeprefix("file:"))
    shutil.copytree(folder / "r2", folder / "copied")
    (folder / "file").mkdir()
    (folder / "file" / "record").write_text("{}")
    shown = {each["request"]: each["problem"] for each in shop.listed()}
    assert shown.pop("r2") == ""
    assert "with the signature of this installation" in shown.pop("unsigned")
    assert sorted(shown) == ["copied", "file"]
    assert all(shown.values())
    # A server without the key shows what it cannot verify, and the requests of workers with one.
    signing_key.unlink()
    shown = {each["request"]: each["problem"] for each in shop.listed()}
    assert (shown["r2"], shown["unsigned"]) == ("", "")


def test_the_certificate_of_another_request_is_not_shown(shop):
    shop.erase("other", "orders")
    shop.erase("done", "visits")
    folder = Path(shop.folder.removeprefix("file:"))
    shutil.copy(folder / "other" / "certificate.json", folder / "done" / "certificate.json")
    answer = shop.get(CERTIFICATE)
    assert (answer.status_code, "of another request" in answer.text) == (503, True)


def test_a_request_that_is_made_again_is_read_again(shop):
    shop.erase("r1", "orders")
    assert shop.listed()[0]["is_certified"]
    folder = Path(shop.folder.removeprefix("file:"))
    (folder / "r1").rename(folder.parent / "moved")
    assert shop.listed() == []
    with Transaction(shop.client, reads=[TableRef.parse("default.visits")]):
        shop.erase("r1", "visits")
    (again,) = shop.listed()
    assert (again["is_certified"], again["tables"][0]["table"]) == (False, "default.visits")


def test_a_certificate_is_shown_to_viewers_and_saved_by_others(shop, signing_key, monkeypatch):
    assert shop.get(CERTIFICATE).status_code == 404
    shop.erase("done", "orders", "visits")
    shown = shop.get(CERTIFICATE).json()
    assert shown["text"].startswith("Certificate of erasure: request done\n")
    assert (shown["signature"], shown["may_save"]) == ("valid", False)
    assert shop.get(f"{CERTIFICATE}.json").status_code == 403
    assert shop.get(CERTIFICATE, "op").json()["may_save"] is True
    answer = shop.get(f"{CERTIFICATE}.json", "op")
    assert answer.headers["content-disposition"] == 'attachment; filename="erasure-done.json"'
    file = Path(shop.folder.removeprefix("file:"), "done", "certificate.json")
    assert answer.content == file.read_bytes()
    salted = answer.json()["keys"]
    assert len(salted) == 2
    assert not any(each in json.dumps(shown) for each in salted)
    signing_key.write_text("another key of 16 bytes")
    assert shop.get(CERTIFICATE).json()["signature"] == "invalid"
    signing_key.unlink()
    assert shop.get(CERTIFICATE).json()["signature"] == "no key"
    monkeypatch.setenv(KEY_FILE, "")
    assert shop.get(CERTIFICATE).json()["signature"] == "no key"


@pytest.mark.parametrize("name", ["..", "no%20name", "%2e%2e%2fdone", "gone", "*"])
def test_other_names_are_no_requests(shop, name):
    shop.erase("done", "orders")
    for end in ("", ".json"):
        assert shop.get(f"{PAGE}/{name}/certificate{end}", "op").status_code in (404, 503)


def refuse_visits(*, user, table, columns, action):
    assert user == "user:jane"
    return table != "default.visits"


def test_dags_that_a_user_may_not_read_are_hidden(shop, monkeypatch):
    """Runs that a request waits for are not named, and a request of a DAG is its own."""
    runs = ("of_john/manual__1/export/-1", "of_jane/manual__2/export/-1", "nightly")
    for number, run in enumerate(runs):
        shop.insert("orders")
        with Transaction(shop.client, reads=[TableRef.parse("default.orders")], run_token=run):
            shop.erase(f"r{number}", "orders")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "of_john")
    shop.erase("done", "visits")

    def reads_dag(*, details=None, **_):
        return details is None or details.id != "of_john"

    before = {each["request"]: each["waits"] for each in shop.listed()}
    assert shop.get(CERTIFICATE).status_code == 200
    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", reads_dag)
    after = {each["request"]: each["waits"] for each in shop.listed()}
    assert (sorted(before), sorted(after)) == (["done", "r0", "r1", "r2"], ["r0", "r1", "r2"])
    assert "of DAG of_john" in json.dumps(before)
    assert "of_john" not in json.dumps(after)
    assert after["r0"] != before["r0"]
    assert "may still read it: transaction " in json.dumps(after["r0"])
    assert "of DAG of_jane" in json.dumps(after["r1"])
    assert "nightly" not in json.dumps(before)
    assert shop.get(CERTIFICATE).status_code == 404


def refuse_erasures(*, user, table, columns, action):
    return action == "show"


def test_a_request_is_shown_to_users_who_see_all_of_its_tables(shop, monkeypatch):
    shop.erase("done", "orders", "visits")
    shop.erase("orders", "orders")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_visits")
    assert [each["request"] for each in shop.listed()] == ["orders"]
    for end in ("", ".json"):
        assert shop.get(f"{CERTIFICATE}{end}", "op").status_code == 404


def test_the_authorizer_decides_who_saves_certificates(shop, monkeypatch):
    shop.erase("done", "orders")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_erasures")
    assert shop.get(CERTIFICATE, "op").json()["may_save"] is False
    assert shop.get(f"{CERTIFICATE}.json", "op").status_code == 403


def test_a_folder_outside_of_the_locations_of_the_page_is_not_opened(shop, monkeypatch):
    shop.erase("done", "orders")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_LOCATIONS", "s3a://bucket")
    answer = shop.get(PAGE).json()
    assert (answer["erasures"], answer["error"]["id"]) == ([], "AccessRefused")
    assert shop.get(CERTIFICATE).status_code == 503
