"""The sources of a job's rows."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.sources import PathSource, QuerySource, TableSource
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind, rows_of

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
TEXT = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
JSON = "org.apache.hive.hcatalog.data.JsonSerDe"
COLUMNS = [HiveColumn("id", "int"), HiveColumn("name", "string")]

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


def _plain_table(
    client: MetastoreClient,
    name: str,
    location: Path,
    serde: str | None = None,
    serde_parameters: dict[str, str] | None = None,
    keys: tuple[HiveColumn, ...] = (),
) -> HiveTable:
    table = HiveTable.new(
        TableRef.parse(name),
        COLUMNS,
        kind=TableKind.NOT_ACID,
        location=str(location),
        partition_keys=keys,
    )
    table.raw.tableType = "EXTERNAL_TABLE"
    table.raw.parameters["EXTERNAL"] = "TRUE"
    if serde is not None:
        table.raw.sd.serdeInfo.serializationLib = serde
    table.raw.sd.serdeInfo.parameters = serde_parameters or {}
    client.create_table(table)
    return client.get_table(table.ref)


def test_tables_paths_and_queries(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
) -> None:
    def rows(number: int, letter: str) -> list[tuple[int, str]]:
        return [(number, f"{letter}{number}"), (number + 1, None)]

    for number, form in enumerate(("orc", "parquet")):
        frame = spark.createDataFrame(rows(number * 10, form[0]), "id int, name string")
        frame.write.format(form).save(str(tmp_path / form))
    for name, text in {
        "text": "20|t20\n21|\\N\n",
        "csv": 'id,name\n30,"c ""30"""\n',
        "json": json.dumps({"id": 40, "name": "j40"}) + "\n" + json.dumps({"id": 41}),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text(text)
    _plain_table(client, f"{database}.orc", tmp_path / "orc")
    _plain_table(client, f"{database}.parquet", tmp_path / "parquet", PARQUET)
    _plain_table(client, f"{database}.text", tmp_path / "text", TEXT, {"field.delim": "|"})
    _plain_table(client, f"{database}.json", tmp_path / "json", JSON)
    parts = _plain_table(client, f"{database}.parts", tmp_path, keys=(HiveColumn("day", "date"),))
    partition = HivePartition.new(parts, ["2026-01-02"])
    partition.raw.sd.location = str(tmp_path / "orc")
    client.add_partitions(parts.ref, [partition])

    create(client, f"{database}.t", {"id": "int", "name": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for form in ("orc", "parquet", "text", "json"):
            acid.append(TableSource(f"{database}.{form}"))
        acid.append(PathSource(str(tmp_path / "csv"), "csv", {"header": "true", "escape": '"'}))
        expected = [*rows(0, "o"), *rows(10, "p"), (20, "t20"), (21, None), (30, 'c "30"')]
        expected += [(40, "j40"), (41, None)]
        assert rows_of(acid.to_df()) == expected

        query = QuerySource(
            "select new.id, concat(old.name, cast(parts.day as string)) as name"
            " from new join parts using (id) join old using (id)",
            {
                "new": PathSource(str(tmp_path / "orc"), "orc"),
                "parts": TableSource(f"{database}.parts"),
                "old": TableSource(f"{database}.t"),
            },
        )
        report = acid.merge(query, "t.id = s.id").when_matched_update_all().execute()
        assert report.rows_updated == 2
        assert rows_of(acid.to_df())[:2] == [(0, "o02026-01-02"), (1, None)]

        csv = PathSource(str(tmp_path / "csv"), "csv", {"header": "true"}, "id int, name string")
        merge = acid.merge(csv, "changed.id = feed.id", source_alias="feed", target_alias="changed")
        assert merge.when_matched_delete("feed.id = changed.id").execute().rows_deleted == 1
    assert left_behind(client) == []


def test_the_target_and_other_acid_tables_as_source(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int", "v": "int"}, {"day": "string"})
    create(client, f"{database}.other", {"id": "int", "v": "int", "day": "string"})
    schema = "id int, v int, day string"
    itself, other = TableSource(f"{database}.t"), TableSource(f"{database}.other")
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        AcidTable(f"{database}.other", hms.uri, spark=spark, run_in="spark") as source,
    ):
        acid.append(spark.createDataFrame([(1, 1, "mon"), (2, 2, "tue")], schema))
        source.append(spark.createDataFrame([(1, 10, "mon"), (3, 30, "wed"), (4, 0, "x")], schema))
        source.delete("id = 4")

        merge = acid.merge(other, "t.id = s.id and t.day = s.day")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        report = merge.execute()
        assert (report.rows_updated, report.rows_inserted) == (1, 1)
        assert list(report.write_ids) == [f"{database}.t"]
        assert rows_of(acid.to_df()) == [(1, 10, "mon"), (2, 2, "tue"), (3, 30, "wed")]

        merge = acid.merge(itself, "t.id = s.id + 1").when_matched_update({"v": "s.v"})
        assert merge.execute().rows_updated == 2
        assert rows_of(acid.to_df()) == [(1, 10, "mon"), (2, 10, "tue"), (3, 2, "wed")]

        assert acid.append(itself).rows_inserted == 3
        query = QuerySource("select id, max(v) as v, day from t group by id, day", {"t": itself})
        acid.overwrite(query)
        assert rows_of(acid.to_df()) == [(1, 10, "mon"), (2, 10, "tue"), (3, 2, "wed")]
        acid.overwrite(acid.to_df().selectExpr("id", "v + 1 as v", "day"))
        assert rows_of(acid.to_df()) == [(1, 11, "mon"), (2, 11, "tue"), (3, 3, "wed")]
        acid.merge(acid.to_df().where("id = 3"), "t.id = s.id").when_matched_delete().execute()
        assert acid.to_df().count() == 2
    assert left_behind(client) == []
