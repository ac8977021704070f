"""Every type: Hive and Trino copy our rows into other tables, and this package reads them
unchanged.

A copy proves more than an engine's output, because printing loses values of nested types.
"""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from airflow_hiveacid import AcidTable
from hiveacid.errors import UnsupportedFile
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from tests.engine.typed_values import (
    FAR_MOMENTS,
    LARGE,
    MOMENTS,
    OLD_MOMENTS,
    differences,
    frame_of,
)
from tests.interop.engines import EngineError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

PRIMITIVES = [
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("decimal(38,0)", "decimal(38,38)", "decimal(18,3)", "decimal(5,2)"),
    *("string", "char(3)", "varchar(3)", "binary", "date", "timestamp"),
]
ROW = f"struct<{','.join(f'f{number}:{text}' for number, text in enumerate(PRIMITIVES))}>"
NESTED = [
    *[f"array<{text}>" for text in PRIMITIVES],
    f"map<string,{ROW}>",
    f"array<{ROW}>",
    "map<timestamp,array<date>>",
    "struct<a:struct<b:struct<c:char(3)>>,d:array<array<timestamp>>>",
    "array<map<int,struct<x:binary,y:array<float>>>>",
]
TYPES = {f"c{number}": text for number, text in enumerate([*PRIMITIVES, *NESTED])}
STRANGE = dict.fromkeys(("bucket", "operation", "row", "rowid", "currenttransaction"), "int")
ROWS = 9


@pytest.fixture
def tables(spark, hive):
    """Create a table of ours with values of some types, and an empty one of the same columns."""
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:

        def create(name, types):
            for table in (name, f"{name}_copy"):
                columns = [HiveColumn(*each) for each in {"id": "int", **types}.items()]
                client.create_table(HiveTable.new(TableRef.parse(table), columns))
            return tuple(
                AcidTable(table, hive.metastore_uri, spark=spark, run_in="spark")
                for table in (name, f"{name}_copy")
            )

        yield create


# The text of a row decides whether stripes without deleted rows are large enough to be copied. The
# last two values tell apart copied stripes and rewritten ones.
MIXED = ("mixed", MOMENTS, LARGE, "major", (True, True))


def changed(spark, table, moments, text, compaction):
    """Write values into a table in all our ways; return the frame of its rows.

    Also answers whether stripes were copied, and whether some were written again.
    """
    values = frame_of(spark, TYPES | STRANGE, ROWS, moments).withColumn("text", F.expr(text))
    values = values.coalesce(1).localCheckpoint()
    table.append(values)
    table.update({"id": "id + 100"}, "id < 6")
    table.merge(values.where("id < 3"), "t.id = s.id").when_not_matched_insert_all().execute()
    (done,) = table.compact(compaction).partitions
    assert done.outcome == "compacted"
    names = [f"`{name}`" for name in values.columns[1:]]
    moved = values.selectExpr("if(id < 6, id + 100, id) as id", *names)
    left = moved.union(values.where("id < 3"))
    return left, (done.stripes_copied > 0, done.stripes_encoded > 0)


@pytest.mark.parametrize(
    ("name", "moments", "text", "compaction", "stripes"),
    [
        MIXED,
        ("again", MOMENTS + OLD_MOMENTS + FAR_MOMENTS, "'small'", "major", (False, True)),
        ("copied", MOMENTS + OLD_MOMENTS + FAR_MOMENTS, LARGE, "minor", (True, False)),
    ],
)
def test_hive_copies_every_value_that_we_write(
    spark, hive, tables, name, moments, text, compaction, stripes
):
    table = f"default.for_hive_{name}"
    ours, copy = tables(table, TYPES | STRANGE | {"text": "string"})
    with ours, copy:
        expected, found = changed(spark, ours, moments, text, compaction)
        assert found == stripes
        assert differences(ours.to_df(), expected) == []
        hive.sql(f"insert into {table}_copy select * from {table}")
        assert differences(copy.to_df(), expected) == []


@pytest.mark.parametrize(
    ("name", "moments", "text", "compaction", "stripes"),
    [MIXED, ("again", MOMENTS + OLD_MOMENTS, "'small'", "major", (False, True))],
)
def test_trino_copies_every_value_that_we_write(
    spark, trino, tables, name, moments, text, compaction, stripes
):
    table = f"default.for_trino_{name}"
    ours, copy = tables(table, TYPES | STRANGE | {"text": "string"})
    with ours, copy:
        expected, found = changed(spark, ours, moments, text, compaction)
        assert found == stripes
        trino.sql(f"insert into hive.{table}_copy select * from hive.{table}")
        assert differences(copy.to_df(), expected) == []


def test_trino_mixes_up_the_keys_of_a_map_beside_deleted_rows(spark, trino, tables):
    """It does so with any writer of the rows and deletes; major compactions keep none of these."""
    table = "default.for_trino_deleted"
    ours, copy = tables(table, TYPES | STRANGE | {"text": "string"})
    with ours, copy:
        expected, _ = changed(spark, ours, MOMENTS + OLD_MOMENTS, LARGE, "minor")
        assert differences(ours.to_df(), expected) == []
        trino.sql(f"insert into hive.{table}_copy select * from hive.{table}")
        ((_, column, *_),) = differences(copy.to_df(), expected)
        assert TYPES[column] == f"map<string,{ROW}>"


def test_hive_does_not_read_timestamps_with_local_time_zone(spark, hive, trino, tables):
    ours, _ = tables("default.zoned", {"at": "timestamp with local time zone"})
    with ours:
        ours.append(spark.sql("select 1 as id, timestamp'2024-01-01 12:00:00' as at"))
        assert ours.to_df().count() == 1
    with pytest.raises(EngineError, match="TIMESTAMP_INSTANT"):
        hive.sql("select * from default.zoned")
    seen = trino.sql("select cast(at as varchar) from hive.default.zoned")
    assert seen == [("2024-01-01 12:00:00.000000000 UTC",)]


def test_we_read_and_change_timestamps_with_local_time_zone_of_hive(spark, hive, trino, tables):
    """Hive 4.0.1 loses the values: its files have the beginning of 1970, according to Arrow, too."""
    ours, _ = tables("default.moments", {"at": "timestamp with local time zone"})
    for id_ in (1, 2):
        hive.sql(f"insert into default.moments select {id_}, timestamp '2024-01-01 12:00:00'")
    with pytest.raises(EngineError, match="timestamp with local time zone not supported"):
        trino.sql("insert into hive.default.moments select 3, timestamp '2024-01-01 12:00:00 UTC'")
    with ours:
        at = spark.sql("select timestamp'1970-01-01 00:00:00 UTC' as at")
        expected = spark.range(1, 3).selectExpr("cast(id as int) id").crossJoin(at)
        assert differences(ours.to_df(), expected) == []
        assert ours.delete("id = 1").rows_deleted == 1
        assert differences(ours.to_df(), expected.where("id = 2")) == []


FINE = [
    "2024-01-02 03:04:05.123456789",
    "2024-01-02 03:04:05.1",
    "1969-12-31 12:00:00.000000001",
    "1910-05-06 07:08:09.999999999",
    "9999-12-31 23:59:59.987654321",
    "1600-01-01 00:00:00.000000007",
]


def test_compactions_keep_nanoseconds_and_writes_refuse_to_cut_them(spark, hive, trino, tables):
    """Our files return to Hive and Trino the values that these have written, alone and together,
    moment by moment."""
    columns = {"at": "timestamp", "times": "array<timestamp>", "st": "struct<a:map<timestamp,int>>"}
    ours, _ = tables("default.fine", columns)
    shown = "id, cast(at as {text}), cast(times[{second}] as {text})"
    by_hive = f"select {shown.format(text='string', second=1)} from default.fine"
    by_trino = f"select {shown.format(text='varchar', second=2)} from hive.default.fine"
    with ours:
        hive.sql("alter table default.fine set tblproperties ('no_auto_compaction' = 'true')")
        for number, text in enumerate(FINE):
            values = (
                f"select {number}, t, array(cast(null as timestamp), t),"
                f" named_struct('a', map(t, {number}))"
                f" from (select cast('{text}' as timestamp) as t) x"
            )
            hive.sql(f"insert into default.fine {values}")
        trino.sql(
            "insert into hive.default.fine select id + 10, at, times, st from hive.default.fine"
            " where id < 4"
        )
        expected = sorted([*hive.sql(by_hive)])
        assert [row[1] for row in expected if len(row[0]) == 1] == [t.rstrip("0") for t in FINE]
        seen = sorted(trino.sql(by_trino))
        with pytest.raises(
            UnsupportedFile, match=r"default\.fine has nanoseconds in the column at"
        ):
            ours.update({"id": "id + 100"}, "id = 1")
        assert ours.delete("id = 1").rows_deleted == 1
        (done,) = ours.compact("major").partitions
        assert (done.outcome, done.stripes_encoded > 0) == ("compacted", True), done
        assert sorted(hive.sql(by_hive)) == [row for row in expected if row[0] != "1"]
        assert sorted(trino.sql(by_trino)) == [row for row in seen if row[0] != "1"]


def test_long_strings_and_many_columns(spark, hive, trino, tables):
    columns = {f"column_{number}": "string" for number in range(500)}
    ours, copy = tables("default.wide", columns)
    with ours, copy:
        values = [f"repeat('{name}', 3) as {name}" for name in list(columns)[1:]]
        row = spark.range(2).selectExpr(
            "cast(id as int) id", "repeat('ä', 1000000) column_0", *values
        )
        ours.append(row)
        hive.sql("insert into default.wide_copy select * from default.wide")
        assert differences(copy.to_df(), row) == []
        seen = trino.sql("select id, length(column_0), column_499 from hive.default.wide")
        assert sorted(seen) == [(id_, "1000000", "column_499" * 3) for id_ in ("0", "1")]
