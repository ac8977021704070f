"""Airflow, YARN, HDFS and metastores that all ask for Kerberos, with tickets of two minutes."""

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import HeldLock
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import Storage
from tests.hadoop.hdfs import Hdfs
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses
from tests.live.process_group import ProcessGroup
from tests.live.yarn import Yarn
from tests.rows import rows_of
from tests.secure.hadoop import (
    HOST,
    core_site,
    give_folder,
    hdfs_site,
    logged_in,
    owners,
    secured_hdfs,
    secured_yarn,
)
from tests.secure.kdc import Kdc
from tests.secure.kinit import kinit

pytestmark = [pytest.mark.secure, pytest.mark.timeout(3000)]

TICKET_SECONDS = 120
RENEWAL_SECONDS = 60
JOB_SECONDS = 240
# A busy machine takes more than two minutes to start a driver.
TOKEN_SECONDS = 210
METASTORES = {"hms4": "4.0.1", "hms3": "3.1.3"}
TABLE = TableRef("bank", "accounts")
FEED = [{"account": n, "cents": 10 * n} for n in range(5)]


@dataclass
class Bank:
    """A table in one of the metastores, and the DAGs that work on it.

    Attributes:
        name: The connection of the metastore.
        client: Airflow's own way to it.
        run: A run of one of the DAGs, by `airflow dags test`.
    """

    name: str
    client: MetastoreClient
    run: ProcessGroup | None = None

    def locks(self) -> list[HeldLock]:
        """Those of the DAG's jobs."""
        locks = [*self.client.show_locks(TABLE), *self.client.show_locks(queue_of(TABLE))]
        return [lock for lock in locks if lock.user != "bob"]

    def waits(self) -> bool:
        """Return whether a job waits for the table."""
        assert self.run is not None
        assert not self.run.ended, self.run.tail(200)
        return bool(self.locks())

    def has_ended(self) -> bool:
        """Return whether the run is over."""
        assert self.run is not None
        return self.run.ended

    def rows(self) -> list[dict[str, int]]:
        options = self.client.options
        return rows_of(
            *(options.uris, str(TABLE), "--auth-mechanism", "GSSAPI"),
            *("--kerberos-principal", str(options.kerberos_principal)),
            *("--kerberos-keytab", str(options.kerberos_keytab)),
        )


@pytest.fixture(scope="module")
def hdfs(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    tokens = {"dfs.namenode.delegation.token.renew-interval": str(TICKET_SECONDS * 1000)}
    with (
        secured_hdfs(kdc, tmp_path_factory.mktemp("hdfs"), further=tokens) as hdfs,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
        give_folder(hdfs, kdc, "/user/airflow", "airflow")
        give_folder(hdfs, kdc, "/feeds", "airflow")
        for name in METASTORES:
            give_folder(hdfs, kdc, f"/warehouse/{name}", "hive", 0o1777)
        yield hdfs


@pytest.fixture(scope="module")
def yarn(kdc: Kdc, hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with secured_yarn(kdc, tmp_path_factory.mktemp("yarn"), hdfs) as yarn:
        yield yarn


@pytest.fixture(scope="module")
def metastores(
    kdc: Kdc, hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, MetastoreOptions]]:
    """Return airflow's options for each of them, by its key."""
    with ExitStack() as running:
        options = {}
        for name, version in METASTORES.items():
            metastore = EmbeddedMetastore(
                version,
                directory=tmp_path_factory.mktemp(name),
                kerberized=kdc.kerberized(),
                settings={
                    "metastore.warehouse.dir": f"{hdfs.uri}/warehouse/{name}",
                    "metastore.cluster.delegation.token.renew-interval": f"{TOKEN_SECONDS}s",
                },
                hadoop=core_site(kdc) | hdfs_site(kdc) | {"fs.defaultFS": hdfs.uri},
            )
            options[name] = replace(
                running.enter_context(metastore).options,
                kerberos_principal=kdc.principal(f"airflow/{HOST}"),
                kerberos_keytab=str(kdc.keytab),
            )
        yield options


@pytest.fixture(scope="module")
def airflow(
    kdc: Kdc,
    yarn: Yarn,
    hdfs: Hdfs,
    metastores: Mapping[str, MetastoreOptions],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AirflowProcesses]:
    """An Airflow with a ticket that `airflow kerberos` renews, and nothing else to log in with."""
    folder = tmp_path_factory.mktemp("airflow")
    cache, krb5_conf = folder / "tickets", kdc.short_tickets(TICKET_SECONDS)
    conf = yarn.spark_conf | {"spark.yarn.stagingDir": f"{hdfs.uri}/user/airflow"}
    for process in ("appMasterEnv", "executorEnv"):
        name = f"spark.yarn.{process}" if process == "appMasterEnv" else f"spark.{process}"
        conf[f"{name}.HADOOP_CONF_DIR"] = yarn.environment["HADOOP_CONF_DIR"]
    connections = {"spark_default": yarn.connection | {"login": "airflow"}}
    for name, options in metastores.items():
        port = int(options.uris.rpartition(":")[2])
        connections[name] = {"conn_type": "hive_acid_metastore", "host": HOST, "port": port}
    environment = yarn.environment | {
        "SPARK_CONF_OF_YARN": json.dumps(conf),
        "SPARK_SUBMIT_OPTS": f"-Djava.security.krb5.conf={krb5_conf}",
        "KRB5_CONFIG": str(krb5_conf),
        "AIRFLOW__CORE__SECURITY": "kerberos",
        "AIRFLOW__KERBEROS__PRINCIPAL": kdc.principal(f"airflow/{HOST}"),
        "AIRFLOW__KERBEROS__KEYTAB": str(kdc.keytab),
        "AIRFLOW__KERBEROS__CCACHE": str(cache),
        "AIRFLOW__KERBEROS__KINIT_PATH": str(kinit()),
        # The KDC sees them all come from 127.0.0.1.
        "AIRFLOW__KERBEROS__INCLUDE_IP": "False",
        "AIRFLOW__KERBEROS__REINIT_FREQUENCY": str(RENEWAL_SECONDS),
    }
    airflow = AirflowProcesses(
        folder / "home",
        [Path(__file__).parent / "dags" / "on_yarn.py"],
        connections=connections,
        environment=environment,
    )
    airflow.cli("db", "migrate")
    airflow.cli("dags", "reserialize")
    renewer = ProcessGroup(
        [sys.executable, "-m", "airflow", "kerberos"],
        log=folder / "renewer.log",
        environment=airflow.environment,
    )
    try:
        wait_until("there is a ticket", cache.exists, 300)
        yield airflow
    finally:
        renewer.kill()
        airflow.stop()


@pytest.fixture
def banks(kdc: Kdc, hdfs: Hdfs, metastores: Mapping[str, MetastoreOptions]) -> Iterator[list[Bank]]:
    """An empty table in each metastore, and one feed for both."""
    with logged_in(kdc, f"airflow/{HOST}"):
        lines = "\n".join(map(json.dumps, FEED)).encode()
        Storage.of(f"{hdfs.uri}/feeds").write_file("feed.json", lines, replace=True)
    with ExitStack() as clients:
        banks = []
        for name, options in metastores.items():
            client = clients.enter_context(MetastoreClient(options))
            client.create_database(TABLE.database)
            columns = [HiveColumn("account", "bigint"), HiveColumn("balance", "bigint")]
            client.create_table(HiveTable.new(TABLE, columns))
            banks.append(Bank(name, client))
        yield banks
        for bank in banks:
            if bank.run is not None:
                bank.run.kill()
            bank.client.drop_database(TABLE.database, cascade=True)


@pytest.mark.parametrize("first", ["merge", "deferred_merge"])
def test_work_continues_after_expired_tickets_and_tokens(
    first: str, banks: list[Bank], airflow: AirflowProcesses, kdc: Kdc, hdfs: Hdfs, tmp_path: Path
) -> None:
    """A merge that waits for its table for four minutes, then all the others."""
    renewed = hdfs.calls("RenewDelegationToken")
    conf = json.dumps({"table": str(TABLE), "feed": f"{hdfs.uri}/feeds/feed.json"})
    with ExitStack() as locks:
        for bank in banks:
            options = replace(bank.client.options, kerberos_principal=kdc.principal("bob"))
            bob = locks.enter_context(MetastoreClient(options))
            locks.enter_context(
                Transaction(bob, targets=[Target(TABLE, Operation.UPDATE, False, None)])
            )
            command = ["dags", "test", f"{bank.name}_{first}", "--conf", conf]
            bank.run = ProcessGroup(
                [sys.executable, "-m", "airflow", *command],
                log=tmp_path / f"{bank.name}.log",
                environment=airflow.environment,
            )
        for bank in banks:
            wait_until(f"{bank.name}: {first} waits for the table", bank.waits, 900, every=1)
            assert {lock.user for lock in bank.locks()} == {"airflow"}
        assert not threading.Event().wait(JOB_SECONDS)
        assert all(bank.waits() for bank in banks)
        # YARN renews the token of an application at its start, and then before it ends.
        assert hdfs.calls("RenewDelegationToken") - renewed >= 2 * len(banks)
    for bank in banks:
        wait_until(f"{bank.name} has ended", bank.has_ended, 900, every=1)
        assert bank.run is not None
        with logged_in(kdc, f"airflow/{HOST}"):
            rows = bank.rows()
        assert rows == [{"account": n, "balance": 20 * n} for n in range(5)], bank.run.tail(200)
        folder = bank.client.get_table(TABLE).folder.removeprefix(hdfs.uri)
        assert owners(hdfs, kdc, folder) == {"airflow"}
