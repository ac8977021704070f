"""`hiveacid changes`, and `hiveacid` without a command."""

import json

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import create, left_behind


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_the_changes_between_two_versions_are_printed(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "int", "v": "string"})
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(spark.sql("SELECT 1 AS id, 'a' AS v UNION ALL SELECT 2, 'b'"))
        table.update({"v": "'c'"}, "id = 2")
        table.delete("id = 1")

    def printed(*arguments: str) -> str:
        assert main(["changes", name, *arguments, "--metastore", hms.uri]) == 0
        return capsys.readouterr().out

    def kinds(*arguments: str) -> list[tuple[int, str, int]]:
        told = json.loads(printed(*arguments, "--json"))
        return [(row["_write_id"], row["_change_type"], row["id"]) for row in told["rows"]]

    assert kinds("1") == [(2, "delete", 2), (2, "insert", 2), (3, "delete", 1)]
    assert kinds("1", "2", "--key", "id") == [(2, "update_before", 2), (2, "update_after", 2)]
    assert kinds("0", "--net") == [(2, "insert", 2)]
    assert kinds("0", "--limit", "1") == [(1, "insert", 1)]
    assert printed("2").splitlines()[0].split() == [
        "_change_type",
        "_write_id",
        "_row_id",
        "id",
        "v",
    ]
    assert left_behind(client) == []
    for arguments, message in (
        (["9"], "has no version 9: its newest one is 3"),
        (["noon"], "time of a version"),
    ):
        assert main(["changes", name, *arguments, "--metastore", hms.uri]) != 0
        assert message in capsys.readouterr().err
    assert main(["changes", f"{name}s", "1", "--metastore", hms.uri]) == 20
    assert f"{name}s does not exist" in capsys.readouterr().err


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    help_ = capsys.readouterr().out
    assert help_.startswith("usage: hiveacid")
    assert "print or count the rows that changed between two versions" in help_
