"""Neither the columns of a table nor its files cost calls of Java."""

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.spark.spark_versions import SPARK_4_1, VERSION
from tests.engine.acid_tables import create
from tests.java_calls import counted_java_calls

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


def merge(table: AcidTable, batch):
    changes = table.merge(batch, "t.id = s.id")
    changes.when_matched_update_all().when_not_matched_insert_all().execute()


def update(table: AcidTable, batch):
    table.update({"c1": "c1 + 1"}, "id < 10")


def delete(table: AcidTable, batch):
    table.delete("id < 2")


def append(table: AcidTable, batch):
    table.append(batch)


def read(table: AcidTable, batch):
    table.to_df().collect()


def merge_repeated(table: AcidTable, batch):
    """Update several rows by each source row, so that the files of the source are written again."""
    merge(table, batch.withColumn("id", batch.id + 1000))


# A statement that passes each of the 41 columns, or of the 12 files, to Java exceeds these numbers. Each
# expression takes three calls that make the session active whose settings its parser uses.
MOST = {merge: 200, update: 185, delete: 180, append: 60, read: 60, merge_repeated: 300}
# Spark before 4.1 has to be asked whether it has repeated stages.
MORE = 0 if VERSION >= SPARK_4_1 else 80


def test_neither_columns_nor_files_cost_calls(spark, hms, client, database):
    names = [f"c{number}" for number in range(40)]
    create(client, f"{database}.t", {"id": "int", **dict.fromkeys(names, "int")})
    rows = spark.range(20).selectExpr("int(id) id", *[f"int(id) {name}" for name in names])
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for number in range(10):
            acid.append(rows.selectExpr(f"id + {100 * number} AS id", *names).coalesce(1))
        for _ in range(2):
            acid.append(rows.withColumn("id", rows.id + 1000))
        delete(acid, rows)
        seen = {}
        for work in MOST:
            with counted_java_calls() as calls:
                work(acid, rows.where("id >= 2"))
            seen[work] = calls.count
    assert {work.__name__: count for work, count in seen.items() if count > MOST[work] + MORE} == {}
