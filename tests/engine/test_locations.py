"""Exports and streams write beside tables only, and names of functions and files lead nowhere else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import AccessRefused, InvalidJob, SharedLocation
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.sources import BatchSource, ChangesSource, PathSource, QuerySource
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import InsertJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.spark.run import run
from tests.engine.acid_tables import create, files, folder, rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

GRANTED: set[tuple[str, str]] = set()


def grant(*, table: str, action: str, **_: object) -> bool:
    return (table.partition(".")[2], action) in GRANTED


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.grant")
    GRANTED.clear()
    return GRANTED


@pytest.fixture
def tables(spark: SparkSession, hms: Any, client: MetastoreClient, database: str) -> dict[str, str]:
    """Tables with a row each: their folders by their names."""
    found = {}
    for name in ("mine", "salaries"):
        created = create(client, f"{database}.{name}", {"id": "int"})
        with AcidTable(f"{database}.{name}", hms.uri, spark=spark, run_in="spark") as table:
            table.append(spark.sql("SELECT 1 id"))
        found[name] = created.folder
    return found


def content(client: MetastoreClient, database: str, name: str) -> list[str]:
    from hiveacid.rules.names import TableRef

    return files(client.get_table(TableRef(database, name)))


@pytest.mark.parametrize("below", ["", "/delta_0000009_0000009_0000", "/../salaries/x"])
@pytest.mark.parametrize("source", ["mine", "salaries"])
def test_no_export_is_written_into_the_folder_of_a_table(
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    below: str,
    source: str,
) -> None:
    """Not even of the exported table."""
    job = ExportChangesJob(
        source=ChangesSource(f"{database}.{source}", after="0", up_to="1"),
        path=f"{tables['salaries']}{below}",
        metastore=client.options,
    )
    before = content(client, database, "salaries")
    with pytest.raises(SharedLocation, match=rf"share files with {database}\.salaries"):
        run(spark, job)
    assert content(client, database, "salaries") == before


def stream(client: MetastoreClient, database: str, path: Path, **more: Any) -> StreamJob:
    given = {
        "name": "feed",
        "source": StreamSource("json", {"path": f"file:{path}/feed"}, "id int"),
        "statements": [InsertJob(target=f"{database}.mine", source=BatchSource())],
        "checkpoint": f"file:{path}/checkpoint",
        "trigger": "available_now",
        "metastore": client.options,
    }
    (path / "feed").mkdir(exist_ok=True)
    return StreamJob(**given | more)


@pytest.mark.parametrize(
    "options",
    [
        {"cleanSource": "delete"},
        {"CLEANSOURCE": "Archive", "sourceArchiveDir": "file:/tmp/archive"},
        {"path": "", "cleanSource": "archive", "sourceArchiveDir": "{}/old"},
        {},
    ],
    ids=["deletes", "moves", "archives", "checkpoint"],
)
def test_no_stream_writes_or_removes_files_of_a_table(
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    salaries = tables["salaries"]
    job = stream(client, database, tmp_path)
    if options:
        given = {"path": salaries} | {name: text.format(salaries) for name, text in options.items()}
        given["path"] = given["path"] or f"file:{tmp_path}/feed"
        job = replace(job, source=replace(job.source, options=given))
    else:
        job = replace(job, checkpoint=f"{salaries}/_checkpoint")
    before = content(client, database, "salaries")
    with pytest.raises(SharedLocation, match=rf"share files with {database}\.salaries"):
        run(spark, job)
    assert content(client, database, "salaries") == before


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Any]:
    """Set properties of the application."""
    conf: Any = spark.sparkContext._conf  # type: ignore[attr-defined]
    names: list[str] = []

    def set_property(name: str, value: str) -> None:
        names.append(name)
        spark.sparkContext._jsc.sc().conf().set(name, value)  # type: ignore[union-attr]
        conf.set(name, value)

    yield set_property
    for name in names:
        spark.sparkContext._jsc.sc().conf().remove(name)  # type: ignore[union-attr]


def test_a_secret_option_of_a_stream_is_no_location(
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    tmp_path: Path,
    setting: Any,
) -> None:
    setting("spark.hiveacid.secret.path", tables["salaries"])
    source = StreamSource("text")
    with pytest.raises(InvalidJob, match=r"spark\.hiveacid\.secret\.path sets a location"):
        run(spark, stream(client, database, tmp_path, source=source))


def test_the_allowed_locations_apply_to_each_path(
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    tmp_path: Path,
) -> None:
    """Also in a driver, which gets them with the job."""
    metastore = replace(client.options, allowed_locations="file")
    insert = InsertJob(
        target=f"{database}.mine", source=PathSource("hdfs://nn/x", "orc"), metastore=metastore
    )
    query = replace(
        insert, source=QuerySource("SELECT * FROM x", {"x": PathSource("s3a://b/x", "orc")})
    )
    checkpoint = stream(client, database, tmp_path, checkpoint="hdfs://nn/x", metastore=metastore)
    for job in (insert, query, checkpoint):
        with pytest.raises(AccessRefused, match="is not among the locations"):
            run(spark, job)


def test_a_program_asks_for_the_owner_of_files(
    spark: SparkSession,
    hms: Any,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    granted: set[tuple[str, str]],
) -> None:
    granted |= {("mine", "read"), ("mine", "insert"), ("mine", "update")}
    path = f"{tables['salaries']}/delta_0000001_0000001_0000"
    with AcidTable(f"{database}.mine", hms.uri, spark=spark, run_in="spark") as table:
        for refused in (
            lambda: table.append(PathSource(path, "orc")),
            lambda: table.append(QuerySource("SELECT 1 id FROM x", {"x": PathSource(path, "orc")})),
            lambda: table.update(
                {"id": "1"}, "id IN (SELECT id FROM x)", inputs={"x": PathSource(path, "orc")}
            ),
        ):
            with pytest.raises(AccessRefused, match=rf"may not read {database}\.salaries"):
                refused()


def test_a_table_over_the_files_of_another_one_is_read_by_those_who_may_read_that_one(
    spark: SparkSession,
    hms: Any,
    client: MetastoreClient,
    database: str,
    tables: dict[str, str],
    granted: set[tuple[str, str]],
) -> None:
    create(client, f"{database}.x", {"id": "int"}, location=tables["salaries"])
    granted.add(("x", "read"))
    with pytest.raises(AccessRefused, match=rf"may not read {database}\.salaries"):
        AcidTable(f"{database}.x", hms.uri, spark=spark, run_in="spark")
    granted.add(("salaries", "read"))
    AcidTable(f"{database}.x", hms.uri, spark=spark, run_in="spark").close()


@pytest.mark.parametrize("name", ["path", "Paths"])
def test_options_name_no_other_files(hms: Any, name: str) -> None:
    """Spark would read the files of both."""
    source = PathSource("file:/landing", "csv", {name: '["file:/hr/salaries"]'})
    with pytest.raises(InvalidJob, match=rf"source\.options has '{name}'"):
        source.validate()


@pytest.fixture
def leak(spark: SparkSession) -> Iterator[str]:
    """A function that another user has stored in the catalog."""
    spark.sql("CREATE FUNCTION default.leak(x INT) RETURNS INT RETURN x + 1")
    yield "leak"
    spark.sql("DROP FUNCTION default.leak")


@NEEDS_SPARK_4_0
@pytest.mark.parametrize("call", ["leak(id)", "default.leak(id)", "`leak` (id)", "leak/**/(id)"])
def test_functions_of_a_catalog_are_called_by_trusted_texts_only(
    spark: SparkSession, hms: Any, database: str, tables: dict[str, str], leak: str, call: str
) -> None:
    with AcidTable(f"{database}.mine", hms.uri, spark=spark, run_in="spark") as table:
        for refused in (
            lambda: table.to_df(where=f"{call} = 2"),
            lambda: table.update({"id": call}, all_rows=True),
            lambda: table.delete(f"id IN (SELECT {call} FROM VALUES (1) v (id))"),
            lambda: table.append(QuerySource(f"SELECT {call} AS id FROM VALUES (1) v (id)")),
            lambda: table.append(QuerySource("SELECT id FROM leak(1) f (id)")),
        ):
            with pytest.raises(InvalidJob, match="is no function of Spark"):
                refused()
        assert rows_of(table.to_df(where=f"{call} = 2", trusted=True)) == [(1,)]


def test_functions_of_spark_are_called(
    spark: SparkSession, hms: Any, client: MetastoreClient, database: str, tables: dict[str, str]
) -> None:
    name = f"{database}.mine"
    sets = {"id": "CAST(abs(id) AS int) + (CASE WHEN (id > 0) THEN (1) ELSE (id) END)"}
    run(spark, UpdateJob(target=name, set=sets, where="id IN (1, 2)", metastore=client.options))
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        assert rows_of(table.to_df()) == [(2,)]
    assert folder(client.get_table(table.ref)).exists()
