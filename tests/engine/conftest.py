"""Tables for tests that want any."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.report import ScriptReport
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_script
from hiveacid.rules.locks import Operation, Target
from hiveacid.spark.run import run
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from tests.engine.acid_tables import ROWS, SCHEMA, create, folder
from tests.engine.compaction_case import Case
from tests.engine.killed_load import kill, load  # noqa: F401
from tests.engine.lost_commit import OLD, Lost
from tests.places import copy_all

# Spark 3.5 has no data sources in Python.
collect_ignore = ["test_data_source.py"] if VERSION < SPARK_4_0 else []


@pytest.fixture
def filled(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[AcidTable]:
    """A partitioned table with the rows ROWS."""
    create(client, f"{database}.t", {"id": "int", "v": "int", "name": "string"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame(ROWS, SCHEMA))
        yield acid


@pytest.fixture
def run_in() -> Place:
    """Where compactions run."""
    return "auto"


@pytest.fixture
def sql(spark: SparkSession, hms: EmbeddedMetastore, database: str) -> Callable[..., ScriptReport]:
    """Run statements on Spark."""

    def run_sql(text: str, run_token: str | None = None) -> ScriptReport:
        script = replace(to_script(text, database), metastore=hms.options, run_token=run_token)
        report = run(spark, script)
        assert isinstance(report, ScriptReport)
        return report

    return run_sql


@pytest.fixture
def make(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    run_in: Place,
) -> Callable[..., Case]:
    def made(name: str = "t", keys: dict[str, str] | None = None, **more: Any) -> Case:
        columns = {"id": "int", "v": "string"}
        columns |= {} if keys else {"p": "string"}
        create(client, f"{database}.{name}", columns, keys, **more)
        return Case(spark, client, hms.uri, f"{database}.{name}", run_in)

    return made


@pytest.fixture(scope="session")
def directories_of_busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of a table of the fixture `busy`, created once on each version."""
    return tmp_path_factory.mktemp("busy")


@pytest.fixture
def busy(make: Callable[..., Case], directories_of_busy: Path) -> Case:
    """Three deltas and one delete delta, without a base."""
    case = make()
    root = folder(case.client.get_table(case.ref))
    kept = directories_of_busy / case.client.version.name
    if not kept.exists():
        case.append((1, "a", "x"), (2, "b", "x"))
        case.append((3, "c", "y"))
        case.append((4, "d", "y"))
        case.change(lambda table: table.delete("id = 2"))
        copy_all(root, kept)
        return case
    # Spark is dear: the same bytes, by the same transactions.
    for write_id, operation in enumerate([Operation.INSERT] * 3 + [Operation.DELETE], start=1):
        with Transaction(case.client, targets=[Target(case.ref, operation)]) as txn:
            assert txn.write_ids == {case.name: write_id}
            for directory in kept.glob(f"*delta_{write_id:07d}_*"):
                copy_all(directory, root / directory.name)
            txn.commit()
    return case


@pytest.fixture
def lost(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Lost:
    """A table with the rows OLD, and jobs on it that lose their transactions."""
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"})
    case = Case(spark, client, hms.uri, f"{database}.t")
    case.append(*OLD)
    return Lost(case, monkeypatch)
