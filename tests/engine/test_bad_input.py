"""An impossible request ends with one clear error and leaves nothing behind."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    MetastoreError,
    MetastoreUnreachable,
    StorageError,
    TableNotFound,
    TypeMismatch,
    UnknownColumn,
    WrongTableKind,
)
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.spark.application import main
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    ROWS,
    SCHEMA,
    create,
    everything,
    left_behind,
    rows_of,
)

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)

Attempt = tuple[Callable[[AcidTable, DataFrame], Any], type[HiveAcidError], str]

ATTEMPTS: dict[str, Attempt] = {
    "an update of a column that is not there": (
        lambda t, s: t.update({"v": "1", "nope": "1"}, all_rows=True),
        UnknownColumn,
        "nope",
    ),
    "an update from a column that is not there": (
        lambda t, s: t.update({"v": "nope + 1"}, all_rows=True),
        UnknownColumn,
        "nope",
    ),
    "a delete by a column that is not there": (
        lambda t, s: t.delete("nope = 1"),
        UnknownColumn,
        "nope",
    ),
    "a condition that does not parse": (
        lambda t, s: t.delete("id = = 1"),
        InvalidJob,
        "an operand is missing between = and =",
    ),
    "a condition that is none": (lambda t, s: t.delete("name"), TypeMismatch, "name"),
    "a merge by a column that is not there": (
        lambda t, s: t.merge(s, "t.id = s.nope").when_matched_delete().execute(),
        UnknownColumn,
        "nope",
    ),
    "a merge by a column of both": (
        lambda t, s: t.merge(s, "id = s.id").when_matched_delete().execute(),
        InvalidJob,
        "id",
    ),
    "a merge whose condition does not parse": (
        lambda t, s: t.merge(s, "t.id s.id").when_matched_delete().execute(),
        InvalidJob,
        "t.id s.id",
    ),
    "a clause whose condition does not parse": (
        lambda t, s: t.merge(s, "t.id = s.id").when_matched_delete("t.id >").execute(),
        InvalidJob,
        "t.id >",
    ),
    "a clause that names the source where there is none": (
        lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_insert({"id": "t.id"}).execute(),
        UnknownColumn,
        "`t`.`id`",
    ),
    "an insert of all columns that the source lacks": (
        lambda t, s: t.merge(s.drop("name"), "t.id = s.id").when_not_matched_insert_all().execute(),
        UnknownColumn,
        "name",
    ),
    "a merge without a clause": (
        lambda t, s: t.merge(s, "t.id = s.id").execute(),
        InvalidJob,
        "clause",
    ),
    "a value of the wrong type": (
        lambda t, s: t.append(s.selectExpr("array(id) as id", "day")),
        TypeMismatch,
        "column id",
    ),
    "a value that only turns out to be wrong": (
        lambda t, s: t.append(s.where("id = 2").selectExpr("name as v", "day")),
        TypeMismatch,
        "'b' does not fit into column v int",
    ),
    "an update to a wrong value": (
        lambda t, s: t.update({"v": "name"}, "id = 2"),
        TypeMismatch,
        "'b' does not fit into column v int",
    ),
    "a merge of a wrong value": (
        lambda t, s: (
            t.merge(s, "t.id = s.id")
            .when_matched_delete("s.id = 1")
            .when_matched_update({"v": "s.name"})
            .execute()
        ),
        TypeMismatch,
        "'b' does not fit into column v int",
    ),
    "an expression that fails": (
        lambda t, s: t.update({"v": "v / (id - 2)"}, all_rows=True),
        InvalidJob,
        "DIVIDE_BY_ZERO",
    ),
    "a column too many": (lambda t, s: t.append(s.withColumn("more", s.id)), UnknownColumn, "more"),
    "a source table that is not there": (
        lambda t, s: t.append(TableSource(f"{t.ref.database}.nope")),
        TableNotFound,
        "nope",
    ),
    "a query over a table that is not there": (
        lambda t, s: t.append(QuerySource("select * from nope")),
        InvalidJob,
        "nope",
    ),
    "a query that does not parse": (
        lambda t, s: t.append(QuerySource("selec 1")),
        InvalidJob,
        "selec",
    ),
    "a path that is not there": (
        lambda t, s: t.append(PathSource("/nope/at/all", "orc")),
        StorageError,
        "/nope/at/all",
    ),
    "a schema that does not parse": (
        lambda t, s: t.append(PathSource("/nope", "csv", {}, "id of int")),
        InvalidJob,
        "source.schema: the column id has the unknown type 'of'",
    ),
}


def test_every_error_is_clear_and_leaves_nothing_behind(
    spark: SparkSession, client: MetastoreClient, filled: AcidTable
) -> None:
    source = spark.createDataFrame(ROWS, SCHEMA)
    before = everything(client.get_table(filled.ref))
    partitions = client.get_partition_names(filled.ref)
    for name, (attempt, expected, part) in ATTEMPTS.items():
        with pytest.raises(expected) as refused:
            attempt(filled, source)
        assert part in str(refused.value), name
        assert "\n" not in str(refused.value), name
        assert "_ACID_" not in str(refused.value), name
        assert refused.value.exit_code != 0, name
        assert everything(client.get_table(filled.ref)) == before, name
        assert left_behind(client) == [], name
    assert client.get_partition_names(filled.ref) == partitions
    assert rows_of(filled.to_df()) == ROWS


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, dict.fromkeys(("append", "update", "to_df"), TableNotFound)),
        (TableKind.NOT_ACID, dict.fromkeys(("append", "update", "to_df"), WrongTableKind)),
    ],
)
def test_tables_that_cannot_be_written(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    kind: TableKind | None,
    expected: dict[str, type[HiveAcidError]],
) -> None:
    if kind is not None:
        location = str(tmp_path) if kind is TableKind.NOT_ACID else None
        create(client, f"{database}.t", {"id": "int"}, kind=kind, location=location)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        calls = {
            "append": lambda: acid.append(spark.range(1)),
            "update": lambda: acid.update({"id": "1"}, all_rows=True),
            "to_df": acid.to_df,
        }
        for name, error in expected.items():
            with pytest.raises(error, match=rf"{database}\.t"):
                calls[name]()
    assert left_behind(client) == []


class _Stranger(socketserver.BaseRequestHandler):
    """A service that is no metastore."""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def strange_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_metastore_that_is_none(
    spark: SparkSession, hms: EmbeddedMetastore, strange_port: int
) -> None:
    with (
        AcidTable("a.b", "thrift://127.0.0.1:1", spark=spark, run_in="spark") as acid,
        pytest.raises(MetastoreUnreachable, match=r"127\.0\.0\.1:1"),
    ):
        acid.to_df()
    uri = f"thrift://127.0.0.1:{strange_port}"
    options = MetastoreOptions(uris=uri, read_timeout_seconds=5)
    with (
        AcidTable("a.b", options, spark=spark, run_in="spark") as acid,
        pytest.raises(MetastoreError, match=str(strange_port)) as refused,
    ):
        acid.append(spark.range(1))
    assert refused.value.exit_code == 40


def test_a_failed_application_is_reported_in_one_line(
    hms: EmbeddedMetastore,
    filled: AcidTable,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = DeleteJob(target=filled.ref.full_name, metastore=hms.options, where="nope = 1")
    (tmp_path / "job.json").write_text(to_json(job))
    capfd.readouterr()
    arguments = ["--job", str(tmp_path / "job.json"), "--report", str(tmp_path / "report.json")]
    assert main(arguments) == UnknownColumn.exit_code
    errors = capfd.readouterr().err.strip()
    assert errors.startswith("UnknownColumn: The condition 'nope = 1' names an unknown column")
    assert "\n" not in errors
