"""The ticket that `airflow kerberos` renews is all that a connection needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from hiveacid.errors import NoTicket
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.airflow import conftest as of_airflow
from tests.secure.kdc import Kdc
from tests.secure.kinit import kinit
from tests.versions import VERSIONS

pytestmark = pytest.mark.secure


@pytest.mark.parametrize(
    "secured", [(version, "integrity") for version in VERSIONS], indirect=True, ids="-".join
)
def test_connections_log_in_with_airflow_s_own_ticket(
    secured: EmbeddedMetastore, kdc: Kdc, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of_airflow  # It gives Airflow a home, before it is imported.
    host, port = secured.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    for name, value in {
        "CORE__SECURITY": "kerberos",
        "KERBEROS__PRINCIPAL": kdc.principal("airflow/localhost"),
        "KERBEROS__KEYTAB": str(kdc.keytab),
        "KERBEROS__CCACHE": str(cache),
        "KERBEROS__KINIT_PATH": str(kinit()),
        # The KDC sees all come from 127.0.0.1.
        "KERBEROS__INCLUDE_IP": "False",
    }.items():
        monkeypatch.setenv(f"AIRFLOW__{name}", value)
    hook = HiveAcidMetastoreHook()
    with hook.get_conn() as client, pytest.raises(NoTicket, match=str(cache)):
        client.get_databases()

    # The renewer asks for a database that is as new as Airflow, and keeps nothing there.
    for command in (["db", "migrate"], ["kerberos", "--one-time"]):
        airflow = [sys.executable, "-m", "airflow", *command]
        ended = subprocess.run(airflow, env=os.environ, capture_output=True, text=True, check=False)

    assert cache.exists(), ended.stdout + ended.stderr
    with hook.get_conn() as client:
        assert client.user == "airflow"
        assert "default" in client.get_databases()
    fine, said = hook.test_connection()
    assert fine
    assert "airflow" in said
