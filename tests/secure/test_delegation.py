"""Delegation tokens of real metastores, for drivers that have no ticket, and for long."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid import MatchedUpdate, NotMatchedInsert
from hiveacid.errors import NoTicket
from hiveacid.jobs import MergeJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.delegation import TokenKeeper, new_token
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import HeldLock
from hiveacid.metastore.thrift.idl_txns import cancel_delegation_token
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.faults.submitted_driver import json_source, run_driver
from tests.secure.kdc import Kdc
from tests.versions import VERSIONS

pytestmark = pytest.mark.secure

VARIABLE = "HIVEACID_DELEGATION_TOKEN"
TABLE = TableRef("tokens", "orders")
TICKET_SECONDS = 15
# A busy machine takes half of that to start a driver.
TOKEN_SECONDS, MOST_TOKEN_SECONDS = 60, 70
WAIT_SECONDS = 45
_TOKENS = "metastore.cluster.delegation.token"


@pytest.fixture
def token(alice: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> str:
    token = new_token(alice)
    monkeypatch.setenv(VARIABLE, token)
    return token


def test_a_token_authenticates_its_owner(alices: MetastoreOptions, token: str) -> None:
    options = alices.with_delegation_token(VARIABLE)
    name = "of_a_token"
    with MetastoreClient(options) as client:
        assert client.user == "alice"
        client.create_database(name, parameters={str(n): "ü" * 1500 for n in range(30)})
        assert len(client.get_database(name).parameters) == 30
        client.drop_database(name)
        # And gets another one.
        assert new_token(client) != token


def test_a_kept_token_is_renewed_and_cancelled(
    alices: MetastoreOptions, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = alices.with_delegation_token(VARIABLE)
    caplog.set_level("INFO", "hiveacid")
    renewed = threading.Event()
    with TokenKeeper(options) as keeper:
        while not any("seconds more" in line for line in caplog.messages):
            assert not renewed.wait(0.05)
            assert keeper._thread is not None
            assert keeper._thread.is_alive()
    assert "lives for 86" in caplog.text
    assert token not in caplog.text
    with MetastoreClient(options) as client, pytest.raises(NoTicket, match="refuses"):
        client.get_databases()


def test_open_connections_survive_a_cancelled_token(
    alices: MetastoreOptions, alice: MetastoreClient, token: str
) -> None:
    with MetastoreClient(alices.with_delegation_token(VARIABLE)) as client:
        client.get_databases()
        alice.call(cancel_delegation_token, token)
        client.get_databases()


@pytest.fixture(scope="module", params=VERSIONS)
def short_lived(
    request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A metastore whose tokens live for some seconds."""
    with EmbeddedMetastore(
        request.param,
        directory=tmp_path_factory.mktemp("short"),
        kerberized=kdc.kerberized("privacy" if request.param == "4.0.1" else "integrity"),
        settings={
            f"{_TOKENS}.renew-interval": f"{TOKEN_SECONDS}s",
            f"{_TOKENS}.max-lifetime": f"{MOST_TOKEN_SECONDS}s",
            f"{_TOKENS}.gc-interval": "5s",
        },
    ) as metastore:
        yield metastore


@pytest.fixture
def keytab(short_lived: EmbeddedMetastore, kdc: Kdc) -> MetastoreOptions:
    return replace(
        short_lived.options,
        kerberos_principal=kdc.principal("alice"),
        kerberos_keytab=str(kdc.keytab),
    )


@pytest.fixture
def orders(keytab: MetastoreOptions) -> Iterator[MetastoreClient]:
    """Alice's client; her table is there, and empty."""
    with MetastoreClient(keytab) as client:
        client.create_database(TABLE.database)
        client.create_table(
            HiveTable.new(TABLE, [HiveColumn("id", "int"), HiveColumn("v", "string")])
        )
        yield client
        client.drop_database(TABLE.database, cascade=True)


@pytest.mark.parametrize("by", ["token", "keytab", "ticket"])
def test_a_job_outlives_what_it_has_logged_in_with(
    by: str,
    orders: MetastoreClient,
    keytab: MetastoreOptions,
    kdc: Kdc,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
) -> None:
    """A merge that waits for a lock for longer than its token or its ticket lives, in a driver."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.short_tickets(TICKET_SECONDS)))
    options = keytab
    if by == "token":
        monkeypatch.setenv(VARIABLE, new_token(orders))
        options = keytab.with_delegation_token(VARIABLE)
    elif by == "ticket":
        options = MetastoreOptions(uris=keytab.uris, auth_mechanism="GSSAPI")
        kdc.log_in("alice", cache)
    job = MergeJob(
        target=TABLE.full_name,
        source=json_source(tmp_path / "rows.json", [{"id": 1, "v": "a"}], "id INT, v STRING"),
        on="t.id = s.id",
        when=[MatchedUpdate({"v": "s.v"}), NotMatchedInsert()],
        metastore=options,
        run_token="d/r/t/-1",
        lock_wait_seconds=300,
    )

    def locks() -> list[HeldLock]:
        return [*orders.show_locks(TABLE), *orders.show_locks(queue_of(TABLE))]

    over = threading.Event()

    def renew() -> None:
        # As `airflow kerberos` does it, in time.
        while by == "ticket" and not over.wait(TICKET_SECONDS / 3):
            kdc.log_in("alice", cache)

    ended: list[tuple[int, str]] = []
    driver = threading.Thread(target=lambda: ended.append(run_driver(job, "", tmp_path)))
    renewer = threading.Thread(target=renew, daemon=True)
    renewer.start()
    with Transaction(orders, targets=[Target(TABLE, Operation.UPDATE, False, None)]):
        driver.start()
        eventually("the job waits", lambda: len(locks()) > 1 or bool(ended), 120)
        assert not ended, ended
        assert {lock.user for lock in locks()} == {"alice"}
        assert not over.wait(WAIT_SECONDS)
        assert not ended, ended
    driver.join(200)
    over.set()
    renewer.join()
    ((status, said),) = ended
    assert status == 0, said
    report = RunReport.from_dict(json.loads((tmp_path / "report.json").read_text()))
    assert report.rows_inserted == 1
    if by == "token":
        assert os.environ[VARIABLE] not in said
        with MetastoreClient(options) as late, pytest.raises(NoTicket, match="refuses"):
            late.get_databases()
