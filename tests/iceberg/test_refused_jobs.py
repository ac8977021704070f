"""A job that is refused opens no catalog: opening one of SQLite creates its database."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import (
    AccessRefused,
    HiveAcidError,
    IcebergRefused,
    InvalidJob,
    TableNotFound,
    WrongTableKind,
)
from hiveacid.iceberg import catalogs
from hiveacid.iceberg.run import compare_with_iceberg, export_to_iceberg, lag_of_mirror
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.iceberg.lakes import sql_options

pytestmark = pytest.mark.parametrize(
    "hms", ["fake 4.0.1", "fake 3.1.3"], ids=["4.0.1", "3.1.3"], indirect=True
)


def export(client: MetastoreClient, job: dict[str, Any]) -> object:
    with WorkerScheduler() as scheduler:
        return export_to_iceberg(client, IcebergExportJob(**job), scheduler)


def compare(client: MetastoreClient, job: dict[str, Any]) -> object:
    return compare_with_iceberg(client, IcebergCompareJob(**job))


def lag(client: MetastoreClient, job: dict[str, Any]) -> object:
    return lag_of_mirror(client, IcebergExportJob(**job))


Run = Callable[[MetastoreClient, dict[str, Any]], object]


REFUSALS: list[tuple[str, str, type[HiveAcidError]]] = [
    ("gone", "ns.t", TableNotFound),
    ("plain", "ns.t", WrongTableKind),
    ("t", "t", InvalidJob),
    ("elsewhere", "ns.t", AccessRefused),
]


@pytest.mark.parametrize(
    ("run", "table", "iceberg", "error"),
    [
        (run, *refusal)
        for run in (export, compare, lag)
        for refusal in REFUSALS
        # A lag is that of the versions of any table.
        if (run, refusal[0]) != (lag, "plain")
    ],
)
def test_a_refused_job_creates_no_catalog(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    run: Run,
    table: str,
    iceberg: str,
    error: type[HiveAcidError],
) -> None:
    for name, kind in (("t", TableKind.FULL_ACID), ("plain", TableKind.NOT_ACID)):
        created = HiveTable.new(TableRef(database, name), [HiveColumn("id", "int")], kind=kind)
        client.create_table(created)
    options = client.options
    if table == "elsewhere":
        options = replace(options, allowed_locations="hdfs://nn1")
    job = {
        "target": f"{database}.{'t' if table == 'elsewhere' else table}",
        "table": iceberg,
        "catalog": "lake",
        "catalog_options": sql_options(tmp_path),
        "metastore": options,
    }
    with MetastoreClient(options) as limited, pytest.raises(error):
        run(limited, job)
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize("run", [export, compare, lag])
def test_errors_of_a_catalog_do_not_quote_its_secrets(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> None:
    """Servers quote what they were sent, in any form."""
    client.create_table(HiveTable.new(TableRef(database, "t"), [HiveColumn("id", "int")]))
    options = {
        "type": "rest",
        "uri": "http://127.0.0.1:1",
        "credential": "client:s3/cr3t value",
        "warehouse": f"file:{tmp_path}",
    }

    def refuse(name: str, **given: str) -> None:
        secret = given["credential"].partition(":")[2]
        raise ValueError(f"invalid_client: {secret} or s3%2Fcr3t%20value or s3%2Fcr3t+value")

    monkeypatch.setitem(catalogs.KINDS, "rest", refuse)
    job = {
        "target": f"{database}.t",
        "table": "ns.t",
        "catalog": "lake",
        "catalog_options": options,
        "metastore": client.options,
    }
    with pytest.raises(IcebergRefused) as refused:
        run(client, job)
    assert "cr3t" not in f"{refused.value} {refused.value!r}"
    assert "invalid_client: *** or *** or ***" in str(refused.value)
