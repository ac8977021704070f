"""Methods of AcidTable that read without Spark: they work on a machine without Java."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create, left_behind

PROGRAM = """
import json, sys
from airflow_hiveacid import AcidTable

found = {}
for name in sys.argv[2:]:
    table = AcidTable(name, sys.argv[1])
    rows = sorted(table.to_arrow(columns=["id"]).column("id").to_pylist())
    assert sorted(table.to_pandas()["id"]) == rows
    assert sum(map(len, table.scan().batches())) == len(rows)
    assert [entry.write_id for entry in table.history()] == [3, 2, 1]
    assert table.detail().newest_version == 3
    assert table.schema.names == ["id", "day"]
    assert "id" in table._repr_html_()
    found[name] = rows, [[each.partition, each.inserted, each.deleted] for each in table.diff(1)]

from pyspark import SparkContext
assert SparkContext._gateway is None, "Java was started"
print(json.dumps(found))
"""


@pytest.fixture
def tables(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> list[str]:
    """Tables of three versions: two appends, then a change."""
    flat: dict[str, Any] = {"kind": TableKind.INSERT_ONLY}
    kinds = {"acid": {}, "orc": flat, "parquet": flat | {"format": StorageFormat.PARQUET}}
    for name, more in kinds.items():
        create(client, f"{database}.{name}", {"id": "int"}, {"day": "string"}, **more)
        with AcidTable(f"{database}.{name}", hms.uri, spark=spark, run_in="spark") as table:
            table.append(_rows(spark, (1, "mon"), (2, "mon"), (3, "tue")))
            table.append(_rows(spark, (4, "tue"), (5, "wed")))
            if more:
                table.overwrite(_rows(spark, (6, "mon")))
            else:
                table.update({"id": "id + 10"}, "id = 2")
    return [f"{database}.{name}" for name in kinds]


def _rows(spark: SparkSession, *rows: tuple[int, str]) -> Any:
    return spark.createDataFrame(rows, "id int, day string")


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_reading_starts_no_java(
    tables: list[str], hms: EmbeddedMetastore, client: MetastoreClient, tmp_path: Path
) -> None:
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    program = [sys.executable, "-c", PROGRAM, hms.uri, *tables]
    done = subprocess.run(
        program, check=False, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    acid, *flat = tables
    added = [["day=tue", 1, 0], ["day=wed", 1, 0]]
    assert json.loads(done.stdout) == {
        acid: [[1, 3, 4, 5, 12], [["day=mon", 1, 1], *added]],
        **{name: [[3, 4, 5, 6], [["day=mon", 1, 2], *added]] for name in flat},
    }
    assert left_behind(client) == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_the_command_diff_starts_no_java(
    tables: list[str],
    hms: EmbeddedMetastore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("hiveacid.cli.local_spark.a_spark", None)
    assert main(["changes", "--count", tables[0], "3", "1", "--metastore", hms.uri]) == 0
    assert capsys.readouterr().out.startswith(f"{tables[0]}: 1 row inserted, 3 deleted\n")


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_spark_counts_the_rows_of_text(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    text: dict[str, Any] = {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.TEXTFILE}
    for keys in ({}, {"day": "string"}):
        name = f"{database}.text{len(keys)}"
        create(
            client, name, {"id": "int"} if keys else {"id": "int", "day": "string"}, keys, **text
        )
        with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
            table.append(_rows(spark, (1, "mon"), (2, "mon")))
            table.append(_rows(spark, (3, "mon")))
            (found,) = table.diff(1)
            assert (found.inserted, found.deleted) == (1, 0)
