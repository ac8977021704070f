"""Buckets that Hive 4 alters after rows have been written: who finds which rows then.

Hive 4.0.1 leaves existing partitions and files as they are, and writes all new rows by the buckets
of the table. An insert that names a partition (``PARTITION (day = 'a')``) also gives it those
buckets; one by values, an update or a merge does not. Hive skips files by their numbers where the
partitions agree with the table, so that it misses rows of older files by itself.
"""

import pytest
from pyarrow import orc

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.tables.scan.table_scan import TableScan
from tests.interop.engines import EngineError
from tests.places import place_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

ACID = "stored as orc tblproperties ('transactional'='true')"
SCHEMA = "id int, v string, day string"
NAMES = "id, v, day"


class Buckets:
    """A table of Hive's, the rows it must have, and the engines that see them."""

    def __init__(self, name, spark, hive, trino, definition):
        self.ref, self.spark, self.hive, self.trino = TableRef("default", name), spark, hive, trino
        self.rows = {}
        hive.sql(f"create table {self.ref} {definition} {ACID}")

    def open(self):
        return AcidTable(
            self.ref.full_name, self.hive.metastore_uri, spark=self.spark, run_in="spark"
        )

    def insert_with_hive(self, day, ids):
        rows = ", ".join(f"({n}, 'hive', '{day}')" for n in ids)
        self.hive.sql(f"insert into {self.ref} values {rows}")
        self.rows |= {(n, day): "hive" for n in ids}

    def merge(self, *days, ids, v):
        rows = [(n, v, day) for day in days for n in ids]
        with self.open() as table:
            builder = table.merge(
                self.spark.createDataFrame(rows, SCHEMA), "t.id = s.id and t.day = s.day"
            )
            report = builder.when_matched_update_all().when_not_matched_insert_all().execute()
        known = [(n, day) for n, _, day in rows if (n, day) in self.rows]
        assert report.rows_updated == len(known)
        self.rows |= {(n, day): v for n, v, day in rows}

    def change(self, work):
        with self.open() as table:
            return work(table)

    def delete(self, *keys):
        for n, day in keys:
            self.change(lambda table, n=n, day=day: table.delete(f"id = {n} and day = '{day}'"))
            del self.rows[n, day]

    def compact(self, kind):
        report = self.change(lambda table: table.compact(kind))
        assert {(each.outcome, each.error) for each in report.partitions} == {("compacted", None)}

    def expected(self):
        return sorted((str(n), v, day) for (n, day), v in self.rows.items())

    def check_rows(self, *engines):
        """All rows, by this package and by engines that read all files."""
        with self.open() as table:
            rows = table.to_df(columns=NAMES.split(", ")).collect()
        scan = TableScan(self.ref.full_name, self.hive.metastore_uri, columns=NAMES.split(", "))
        scanned = [tuple(map(str, row.values())) for row in scan.to_arrow().to_pylist()]
        assert sorted(tuple(map(str, row)) for row in rows) == self.expected()
        assert sorted(scanned) == self.expected()
        for engine in engines:
            name = self.ref if engine is self.hive else f"hive.{self.ref}"
            assert sorted(engine.sql(f"select {NAMES} from {name}")) == self.expected()

    def found_by_us(self, ids):
        with self.open() as table:
            return {
                (row.id, row.day)
                for n in ids
                for row in table.to_df(where=f"id = {n}", columns=["id", "day"]).collect()
            }

    def found_by(self, engine, ids):
        name = self.ref if engine is self.hive else f"hive.{self.ref}"
        answers = [engine.sql(f"select id, day from {name} where id = {n}") for n in ids]
        return {(int(n), day) for answer in answers for n, day in answer}

    def there(self, ids):
        return {(n, day) for n, day in self.rows if n in ids}

    def partitions(self):
        with MetastoreClient(MetastoreOptions(uris=self.hive.metastore_uri)) as client:
            return {
                each.name: each.num_buckets
                for each in client.get_partitions(client.get_table(self.ref))
            }


@pytest.fixture
def make(spark, hive, trino):
    return lambda name, definition: Buckets(name, spark, hive, trino, definition)


def test_partitions_keep_their_buckets_until_hive_inserts_into_them(make, hive, trino):
    table = make(
        "old_and_new",
        "(id int, v string) partitioned by (day string) clustered by (id) into 2 buckets",
    )
    table.insert_with_hive("a", range(1, 9))
    hive.sql(f"alter table {table.ref} clustered by (id) into 4 buckets")
    assert table.partitions() == {"day=a": 2}

    table.merge("a", "b", ids=range(4, 12), v="merged")
    table.delete((2, "a"), (5, "b"))
    table.change(lambda own: own.update({"v": "'up'"}, "id = 6"))
    table.rows |= {(6, "a"): "up", (6, "b"): "up"}
    assert table.partitions() == {"day=a": 2, "day=b": 4}
    ids = (1, 3, 5, 12)
    for kind in ("minor", "major"):
        table.check_rows(hive, trino)
        assert table.found_by_us(ids) == table.found_by(hive, ids) == table.there(ids)
        table.compact(kind)
        table.check_rows(hive, trino)
        table.merge("a", "b", ids=[1, 12], v=kind)
    table.check_rows(hive, trino)
    assert table.found_by(hive, ids) == table.found_by(trino, ids) == table.there(ids)

    # An update of Hive writes new rows by the buckets of the table. Trino then takes the partition
    # for corrupt, as a file has a number beyond its buckets; Hive reads all files of it.
    hive.sql(f"update {table.ref} set v = 'hive' where id in (3, 7)")
    table.rows |= dict.fromkeys(table.there([3, 7]), "hive")
    assert table.partitions() == {"day=a": 2, "day=b": 4}
    with pytest.raises(EngineError, match="exceeds the bucket number range"):
        trino.sql(f"select * from hive.{table.ref}")
    table.check_rows(hive)
    assert table.found_by_us(ids) == table.found_by(hive, ids) == table.there(ids)

    # From here on Hive misses rows of the older files: the partition has the buckets of the table.
    table.insert_with_hive("a", range(31, 35))
    assert table.partitions() == {"day=a": 2, "day=b": 4}
    hive.sql(f"insert into {table.ref} partition (day = 'a') values (35, 'hive')")
    table.rows[35, "a"] = "hive"
    assert table.partitions() == {"day=a": 4, "day=b": 4}
    ids = (1, 5, 12, 31, 33)
    assert table.found_by(hive, ids) < table.there(ids)
    assert table.found_by_us(ids) == table.there(ids)
    table.merge("a", "b", ids=range(1, 36), v="again")
    table.delete((3, "a"), (33, "a"))
    table.compact("major")
    table.check_rows(hive)
    assert table.found_by_us(ids) == table.there(ids)

    # An overwrite by its own rows repairs it for Hive.
    rows = [(n, v, day) for (n, day), v in table.rows.items() if day == "a"]
    table.change(lambda own: own.overwrite(table.spark.createDataFrame(rows, SCHEMA)))
    table.check_rows(hive, trino)
    assert table.found_by(hive, ids) == table.found_by(trino, ids) == table.there(ids)


@pytest.mark.parametrize("buckets", ["clustered by (id) into 2 buckets", ""], ids=["two", "none"])
def test_an_unpartitioned_table_is_altered_under_its_files(make, hive, buckets):
    name = "two_to_four" if buckets else "none_to_four"
    table = make(name, f"(id int, v string, day string) {buckets}")
    table.insert_with_hive("a", range(1, 9))
    hive.sql(f"alter table {table.ref} clustered by (id) into 4 buckets")
    ids = (1, 2, 3, 5, 9, 15)
    assert table.found_by(hive, ids) < table.there(ids)
    assert table.found_by_us(ids) == table.there(ids)
    table.merge("a", ids=range(4, 12), v="merged")
    table.insert_with_hive("a", range(12, 20))
    table.delete((2, "a"), (15, "a"))
    table.compact("minor")
    table.check_rows(hive)
    table.merge("a", ids=range(1, 20), v="again")
    table.compact("major")
    table.check_rows(hive)
    assert table.found_by_us(ids) == table.there(ids)

    rows = [(n, v, day) for (n, day), v in table.rows.items()]
    table.change(lambda own: own.overwrite(table.spark.createDataFrame(rows, SCHEMA)))
    table.check_rows(hive, table.trino)
    assert table.found_by(hive, ids) == table.found_by_us(ids) == table.there(ids)


def test_updates_of_trino_come_before_the_buckets(make, spark, hive, trino):
    table = make("updated_by_trino", "(id int, v string, day string)")
    rows = [(n, "ours", "a") for n in range(1, 9)]
    # Two files, without statistics, which keep Trino from writing.
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
        client.drop_table(table.ref)
        columns = [HiveColumn("id", "int"), HiveColumn("v", "string"), HiveColumn("day", "string")]
        client.create_table(HiveTable.new(table.ref, columns))
    halves = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), SCHEMA)
    table.change(lambda own: own.append(halves))
    table.rows |= {(n, day): v for n, v, day in rows}
    trino.sql(f"update hive.{table.ref} set v = 'trino'")
    table.rows |= dict.fromkeys(table.rows, "trino")
    events = {
        (path.name, bucket)
        for path in _folder(table).glob("delete_delta_0000002*/bucket_*")
        for bucket in orc.ORCFile(str(path)).read(columns=["bucket"])["bucket"].to_pylist()
    }
    # One file holds the events for the rows of both files.
    assert events == {("bucket_00000", encode_bucket(0)), ("bucket_00000", encode_bucket(1))}
    hive.sql(f"alter table {table.ref} clustered by (id) into 2 buckets")
    table.check_rows()
    table.delete((5, "a"))
    table.merge("a", ids=[1, 9], v="merged")
    table.check_rows()
    rows = [(n, v, day) for (n, day), v in table.rows.items()]
    table.change(lambda own: own.overwrite(spark.createDataFrame(rows, SCHEMA)))
    table.check_rows(hive, trino)


def _folder(table):
    with MetastoreClient(MetastoreOptions(uris=table.hive.metastore_uri)) as client:
        return place_of(client.get_table(table.ref).folder)
