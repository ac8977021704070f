"""Hive replicates tables with writes of this package only, by dumps and loads of its events."""

from contextlib import ExitStack, closing
from itertools import count

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_cleaning import clean
from tests.interop.engines import Hive
from tests.notifications.listener import listener, listening

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

COLUMNS = [HiveColumn("id", "int"), HiveColumn("name", "string")]
DAY = HiveColumn("day", "string")
TABLES = {
    "plain": {},
    "days": {"partition_keys": [DAY]},
    "buckets": {"bucket_columns": ["id"], "num_buckets": 2},
    "log": {"kind": TableKind.INSERT_ONLY},
}
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def replicating(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replication")
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    settings = {
        **listening("4.0.1"),
        "hive.metastore.dml.events": "true",
        "hive.repl.rootdir": (folder / "dumps").as_uri(),
        "hive.repl.replica.functions.root.dir": (folder / "functions").as_uri(),
        # Hive's folder for files that are removed before a dump, if they have checksums.
        "hive.repl.cm.enabled": "true",
        "hive.repl.cmrootdir": (folder / "removed").as_uri(),
    }
    with closing(Hive(folder, warehouse, settings, listener("4.0.1", folder))) as hive:
        yield hive


class Replicated:
    """A database that this package writes, and its copy.

    Attributes:
        name: The database.
        options: The options of this package for the metastore.
    """

    def __init__(self, hive, spark, write_events):
        number = next(_NUMBERS)
        self.name, self.copy = f"source_{number}", f"copy_{number}"
        self.hive, self.spark = hive, spark
        self.options = MetastoreOptions(uris=hive.metastore_uri, write_events=write_events)
        with MetastoreClient(self.options) as client:
            client.create_database(self.name, parameters={"repl.source.for": "1"})
            for table, more in TABLES.items():
                client.create_table(HiveTable.new(TableRef(self.name, table), COLUMNS, **more))
        self.replicate()

    def replicate(self):
        self.hive.sql(f"repl dump {self.name}")
        self.hive.sql(f"repl load {self.name} into {self.copy}")

    def table(self, name):
        return AcidTable(f"{self.name}.{name}", self.options, spark=self.spark, run_in="spark")

    def rows(self, *ids, name="a", day=None):
        days = "" if day is None else f", '{day}' day"
        texts = [f"select {id_} id, '{name}{id_}' name{days}" for id_ in ids]
        return self.spark.sql(" union all ".join(texts))

    def in_hive(self, database, table):
        return sorted(self.hive.sql(f"select * from {database}.{table}"))

    def seen_by_us(self, database, table):
        with AcidTable(
            f"{database}.{table}", self.options, spark=self.spark, run_in="spark"
        ) as found:
            return sorted(tuple(map(str, row)) for row in found.to_df().collect())

    def check(self, *tables):
        """Find the same rows in the original and in the copy, by Hive's reader and by ours."""
        for table in tables:
            original = self.in_hive(self.name, table)
            assert self.seen_by_us(self.name, table) == original, table
            assert self.in_hive(self.copy, table) == original, table
            assert self.seen_by_us(self.copy, table) == original, table


def steps(db):
    """Writes of every kind, each with the tables that it changes."""
    rows = db.rows
    with ExitStack() as stack:
        plain, days, buckets, log = (stack.enter_context(db.table(name)) for name in TABLES)

        def merge(table, source, on="t.id = s.id"):
            merge = table.merge(source, on)
            merge.when_matched_update_all().when_not_matched_insert_all().execute()

        def all_at_once():
            with AcidTransaction(db.options, spark=db.spark, run_in="spark") as txn:
                txn.table(f"{db.name}.plain").append(rows(50, 51))
                txn.table(f"{db.name}.plain").delete("id = 3")
                txn.table(f"{db.name}.days").append(rows(52, day="2024-01-03"))
                txn.table(f"{db.name}.log").append(rows(53))

        def compacted(table, kind):
            outcomes = {each.outcome for each in table.compact(kind).partitions}
            assert "compacted" in outcomes, outcomes

        def versions(table):
            return [each.write_id for each in table.history() if each.write_id is not None]

        def cleaned(table):
            with MetastoreClient(db.options) as client:
                clean(client, CleanJob(target=f"{db.name}.{table}", retention="0"))

        yield lambda: plain.append(rows(*range(1, 9))), ["plain"]
        yield lambda: days.append(rows(1, 2, day="2024-01-01")), ["days"]
        yield lambda: buckets.append(rows(*range(1, 7))), ["buckets"]
        yield lambda: log.append(rows(1, 2)), ["log"]
        yield lambda: plain.update({"name": "'new'"}, "id < 3"), ["plain"]
        yield lambda: plain.delete("id = 8"), ["plain"]
        yield lambda: merge(plain, rows(4, 20, name="m")), ["plain"]
        yield (
            lambda: days.append(
                rows(3, day="a b/c=d:%").union(rows(4, day="x#]").union(rows(5, day="2024-01-01")))
            ),
            ["days"],
        )
        yield lambda: days.update({"name": "'u'"}, "id in (3, 5)"), ["days"]
        yield lambda: merge(buckets, rows(2, 3, 30, name="m")), ["buckets"]
        yield lambda: buckets.delete("id = 5"), ["buckets"]
        yield lambda: log.overwrite(rows(7)), ["log"]
        yield all_at_once, ["plain", "days", "log"]
        yield lambda: days.overwrite(rows(6, day="2024-01-01")), ["days"]
        yield lambda: compacted(plain, "minor"), ["plain"]
        yield lambda: plain.update({"name": "'after'"}, "id = 4"), ["plain"]
        yield lambda: compacted(plain, "major"), ["plain"]
        yield lambda: cleaned("plain"), ["plain"]
        yield lambda: merge(plain, rows(4, 21, name="late")), ["plain"]
        yield plain.truncate, ["plain"]
        yield lambda: plain.restore(versions(plain)[1]), ["plain"]
        yield lambda: days.truncate({"day": "2024-01-01"}), ["days"]
        yield lambda: days.append(rows(8, day="2024-01-01")), ["days"]
        yield lambda: compacted(buckets, "major"), ["buckets"]
        yield lambda: buckets.overwrite(rows(1, 2, name="o")), ["buckets"]
        yield lambda: log.append(rows(9)), ["log"]
        yield lambda: compacted(log, "major"), ["log"]
        yield log.truncate, ["log"]
        yield lambda: log.append(rows(10)), ["log"]
        yield lambda: plain.delete("id % 2 = 0"), ["plain"]


def test_a_copy_equals_its_original_after_each_of_thirty_dumps(replicating, spark):
    db = Replicated(replicating, spark, "auto")
    dumps = 0
    for write, tables in steps(db):
        write()
        db.replicate()
        db.check(*tables)
        dumps += 1
    assert dumps == 30
    db.check(*TABLES)


def test_without_write_events_a_copy_lacks_rows(replicating, spark):
    db = Replicated(replicating, spark, "never")
    with db.table("plain") as plain, db.table("days") as days:
        plain.append(db.rows(1, 2))
        db.replicate()
        days.append(db.rows(3, day="2024-01-01"))
        db.replicate()
    assert db.in_hive(db.name, "plain") == [("1", "a1"), ("2", "a2")]
    assert db.in_hive(db.copy, "plain") == []
    assert db.in_hive(db.copy, "days") == []
