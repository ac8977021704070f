"""Columns that Hive or another client renames, swaps, widens or drops: Hive and Trino determine the
expected rows.

After each change of ours, both must show the earlier rows, except for the change.
"""

from contextlib import nullcontext
from itertools import product

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.errors import UnsupportedFile
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.test_evolved_reading import alter

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

PROPERTIES = {
    "full ACID": ("orc", ""),
    "insert-only ORC": ("orc", ", 'transactional_properties'='insert_only'"),
    "insert-only Parquet": ("parquet", ", 'transactional_properties'='insert_only'"),
    "insert-only Parquet by position": (
        "parquet",
        ", 'transactional_properties'='insert_only', 'parquet.column.index.access'='true'",
    ),
}
CHANGES = {
    "rename": ["change column b x string"],
    "swap": [
        "change column b tmp string",
        "change column c b string",
        "change column tmp c string",
    ],
    "widen": ["change column n n bigint"],
    "rename and widen": ["change column n m bigint"],
    "add": ["add columns (e int)"],
    "rename and add": ["change column b x string", "add columns (b string)"],
}
# Hive refuses these; other clients of the metastore do not.
BY_OTHERS = {
    "reorder": [("id", "int"), ("n", "int"), ("c", "string"), ("b", "string")],
    "drop": [("id", "int"), ("n", "int"), ("c", "string")],
}
CASES = [
    *product(PROPERTIES, ["unpartitioned"], [*CHANGES, *BY_OTHERS]),
    *product(PROPERTIES, ["cascade", "restrict"], ["rename", "swap"]),
]


@pytest.mark.parametrize(("format_", "partitions", "change"), CASES)
def test_hive_and_trino_see_no_other_values_than_before(
    spark, hive, trino, format_, partitions, change
):
    if VERSION < SPARK_4_0 and "widen" in change and "Parquet" in format_:
        pytest.skip("Spark 3.5 cannot widen the columns of Parquet files")
    name = "changed_" + "_".join(
        f"{format_} {partitions} {change}".lower().replace("-", "_").split()
    )
    partitioned = partitions != "unpartitioned"
    stored_as, more = PROPERTIES[format_]
    hive.sql(
        f"create table {name} (id int, n int, b string, c string)"
        f" {'partitioned by (p int)' if partitioned else ''} stored as {stored_as}"
        f" tblproperties ('transactional'='true'{more})"
    )
    where = "partition (p=7)" if partitioned else ""
    hive.sql(f"insert into {name} {where} values (1, 10, 'b1', 'c1'), (2, 20, 'b2', 'c2')")
    # The metastore refuses some changes of columns with statistics from Hive's inserts.
    with AcidTable(f"default.{name}", hive.metastore_uri, spark=spark, run_in="spark") as table:
        partition = ", 7 p" if partitioned else ""
        rows = [f"select {k} id, {k}0 n, 'b{k}' b, 'c{k}' c{partition}" for k in (3, 4)]
        table.append(spark.sql(" union all ".join(rows)))
    for step in CHANGES.get(change, ()):
        hive.sql(f"alter table {name} {step} {'cascade' if partitions == 'cascade' else ''}")
    client = MetastoreClient(MetastoreOptions(uris=hive.metastore_uri))
    ref = TableRef("default", name)
    with client, AcidTable(ref.full_name, hive.metastore_uri, spark=spark, run_in="spark") as table:
        if change in BY_OTHERS:
            alter(client, ref.full_name, BY_OTHERS[change])
        # Trino 476 maps the columns of Parquet files by name regardless of the table, and fails at
        # a full ACID file if a name of the table belongs to another field ("Multiple entries").
        by_position = "by position" in format_ and change not in ("widen", "add")
        is_read_by_trino = not by_position and (format_, change) != ("full ACID", "drop")
        names = [column.name for column in client.get_table(ref).columns]
        selected = ", ".join(names)

        def check(expected):
            assert sorted(hive.sql(f"select {selected} from {name}")) == expected
            if is_read_by_trino:
                assert sorted(trino.sql(f"select {selected} from hive.default.{name}")) == expected
            # A table that is open keeps its files from being cleaned.
            with AcidTable(
                ref.full_name, hive.metastore_uri, spark=spark, run_in="spark"
            ) as reading:
                assert texts(reading.to_df().select(names).collect()) == expected
                arrow = reading.scan(columns=names).to_arrow().to_pylist()
            assert texts(row.values() for row in arrow) == expected

        rows = sorted(hive.sql(f"select {selected} from {name}"))
        assert [row[0] for row in rows] == ["1", "2", "3", "4"]
        check(rows)
        if format_ == "full ACID":
            number = names[1]
            table.update({number: f"{number} + 1"}, "id = 2")
            rows[1] = ("2", str(int(rows[1][1]) + 1), *rows[1][2:])
            check(rows)
            source = spark.sql("select 3 k")
            table.merge(source, "t.id = s.k").when_matched_update({number: "0"}).execute()
            rows[2] = ("3", "0", *rows[2][2:])
            check(rows)
            table.delete("id = 4")
            check(rows := rows[:3])
        for kind in ("minor", "major"):
            by_name = "Parquet" in format_ and "position" not in format_
            refused = change == "drop" or (by_name and change not in ("widen", "add"))
            with pytest.raises(UnsupportedFile) if refused else nullcontext():
                (report,) = table.compact(kind).partitions
                assert report.outcome == "compacted", report
            check(rows)
            clean(client, CleanJob(target=ref.full_name, retention="0"))
            # Of a single directory there is nothing to compact.
            number = {"minor": "8", "major": "9"}[kind]
            types = [column.type for column in client.get_table(ref).columns]
            values = [f"'{number}'" if type_ == "string" else number for type_ in types]
            hive.sql(f"insert into {name} {where} values ({', '.join(values)})")
            check(rows := [*rows, (number,) * len(names)])
        hive.sql(f"drop table {name}")


def texts(rows):
    return sorted(tuple("NULL" if value is None else str(value) for value in row) for row in rows)
