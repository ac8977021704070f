"""Hive and this package put equal values into the same buckets, where that depends on more."""

import json

import pytest

from airflow_hiveacid import AcidTable
from tests.interop.bucket_hashes import VALUES, VECTORS, hashes_by_hive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TIMESTAMPS = [
    "0001-01-01 00:00:00",
    "1500-02-28 12:00:00",
    "1582-10-04 23:59:59.999999",
    "1582-10-15 00:00:00",
    "1969-12-31 12:00:00.5",
    "2024-03-10 02:30:00.123456",
]
# A longer value before a shorter one: a buffer that Hive reused would still hold its bytes.
BINARY = ["41424344454647484950", "41", "414243", "41424344454647", "ff00fe", "41", ""]


def test_the_vectors_are_the_hashes_of_hive():
    vectors = json.loads(VECTORS.read_text())["vectors"]
    assert hashes_by_hive(VALUES) == [tuple(vector.values()) for vector in vectors]


def test_version_1_of_timestamps_alone_depends_on_the_time_zone_of_java():
    value = "2024-07-01 12:00:00"
    pairs = zip(
        hashes_by_hive([value, "2024-07-01"]),
        hashes_by_hive([value, "2024-07-01"], zone="America/Los_Angeles"),
        strict=True,
    )
    differing = {
        (utc[1], version)
        for utc, other in pairs
        for version in (1, 2)
        if utc[1 + version] != other[1 + version]
    }
    # Hive hashes the values of maps by version 1 in both versions.
    assert differing == {
        ("timestamp", 1),
        ("array<timestamp>", 1),
        ("map<timestamp,int>", 1),
        ("map<int,timestamp>", 1),
        ("map<int,timestamp>", 2),
        ("struct<a:int,b:timestamp>", 1),
        ("array<struct<a:int,b:timestamp>>", 1),
    }


@pytest.mark.parametrize(
    ("hive_type", "version", "values"),
    [
        ("timestamp", 1, [f"timestamp'{text}'" for text in TIMESTAMPS]),
        ("binary", 2, [f"unhex('{text}')" for text in BINARY]),
        ("array<binary>", 2, [f"array(unhex('{text}'))" for text in BINARY]),
    ],
)
def test_hive_and_we_insert_equal_values_into_the_same_buckets(
    spark, hive, hive_type, version, values
):
    # The plain table has one file, so that one task of Hive inserts all rows.
    rows = " union all ".join(f"select {id_} id, {value} c" for id_, value in enumerate(values))
    name = f"default.b{version}_{hive_type.strip('>').replace('<', '_')}"
    hive.sql(
        f"create table {name}_plain stored as orc as "
        f"select id, c from ({rows}) x distribute by 1 sort by id"
    )
    for table in (f"{name}_hive", f"{name}_ours"):
        hive.sql(
            f"create table {table} (id int, c {hive_type}) clustered by (c) into 97 buckets"
            f" stored as orc tblproperties ('transactional'='true','bucketing_version'='{version}')"
        )
    hive.sql(f"insert into {name}_hive select id, c from {name}_plain")
    with AcidTable(f"{name}_ours", hive.metastore_uri, spark=spark, run_in="spark") as ours:
        ours.append(spark.sql(rows))

    def buckets(table):
        return sorted(hive.sql(f"select id, shiftright(row__id.bucketid, 16) & 4095 from {table}"))

    assert buckets(f"{name}_ours") == buckets(f"{name}_hive")
    assert len(buckets(f"{name}_ours")) == len(values)
