"""Insert-only tables as Hive makes them: each function makes the table of its name."""

from tests.interop.making import Making
from tests.interop.phrases import COLUMNS, INSERT_ONLY, TO_ACID, UNION, values


def insert_only_shapes(make: Making, storage: str) -> None:
    """The steps of an insert-only table; the write in the middle fails."""
    make.run(f"create table T ({COLUMNS}) {storage} {INSERT_ONLY}")
    make.run(f"insert into T {values(range(1, 9))}")
    make.insert_copy("delta_0000001_0000001_0000", commit=False)
    make.run(f"insert into T {values(range(10, 14))}")
    make.look()
    make.compact("minor")
    make.look()
    make.roll_back(f"insert overwrite table T {values(range(200, 203))}")
    make.run(f"insert into T {values(range(20, 22))}")
    make.look()
    make.compact("major")
    make.look()
    make.run(f"insert overwrite table T {values(range(7, 10))}", f"insert into T {values([30])}")
    make.insert_copy("base_0000006", commit=None)
    make.run(f"insert into T {values([31])}")
    make.look()


def insert_only_orc(make: Making) -> None:
    """Insert-only ORC: a failed write between two others, compacted, overwritten; one is open."""
    insert_only_shapes(make, "stored as orc")


def insert_only_parquet(make: Making) -> None:
    """Insert-only Parquet: a failed write between two others, compacted, overwritten; one is open."""
    insert_only_shapes(make, "stored as parquet")


def insert_only_text(make: Making) -> None:
    """Insert-only text with an escape: a failed write between two others, compacted, overwritten; one is open."""
    separators = "fields terminated by ',' escaped by '\\\\' null defined as 'none'"
    insert_only_shapes(make, f"row format delimited {separators} stored as textfile")
    make.run("insert into T values (40, 'a,b', 1), (41, 'c\\\\d', null), (42, '', 3)")
    make.look()


def insert_only_csv(make: Making) -> None:
    """Insert-only text by OpenCSVSerde, whose columns are all strings."""
    serde = "'org.apache.hadoop.hive.serde2.OpenCSVSerde'"
    make.run(
        f"create table T ({COLUMNS}) row format serde {serde} stored as textfile {INSERT_ONLY}"
    )
    # Hive makes empty strings of nulls; we leave them out at the end of a line, so that they stay.
    make.run_with_hive(f"insert into T {values(range(1, 9))}")
    make.run("insert into T values (40, 'a,b', 1), (41, 'c\"d', 2), (42, '', 3)")
    make.look()


def insert_only_json(make: Making) -> None:
    """Insert-only text by JsonSerDe."""
    serde = "'org.apache.hadoop.hive.serde2.JsonSerDe'"
    make.run(
        f"create table T ({COLUMNS}) row format serde {serde} stored as textfile {INSERT_ONLY}"
    )
    make.run(f"insert into T {values(range(1, 9))}")
    make.run("insert into T values (40, 'a,b', 1), (41, 'c\"d', null), (42, '', 3)")
    make.look()


def insert_only_partitioned(make: Making) -> None:
    """Insert-only ORC with partitions and buckets, rolled back in one, compacted in another."""
    make.run(
        f"create table T ({COLUMNS}) partitioned by (day string) "
        f"clustered by (id) into 2 buckets stored as orc {INSERT_ONLY}"
    )
    for day in ("'a b/c'", "null", "'2024'"):
        make.run(f"insert into T {values(range(1, 9), day)}")
    make.insert_copy("delta_0000003_0000003_0000", commit=False)
    make.run("insert into T " + values(range(10, 15), "'2024'"))
    make.look()
    make.compact("minor", "day=2024")
    make.run("insert overwrite table T partition (day='a b/c') " + values(range(60, 63)))
    make.look()
    make.run("insert into T " + values([70], "'2024'"))
    make.compact("major", "day=2024")
    make.look()


def insert_only_union(make: Making) -> None:
    """Insert-only ORC with folders inside a delta; at first not transactional."""
    make.run(f"create table T ({COLUMNS}) stored as orc tblproperties ('transactional'='false')")
    make.run(f"insert into T {values(range(1, 4))}", f"insert into T {values(range(4, 9))}")
    make.run(f"alter table T {TO_ACID[:-1]}, 'transactional_properties'='insert_only')")
    make.look()
    make.run("insert into T " + UNION.format(10))
    make.look()
    make.compact("major")
    make.look()
