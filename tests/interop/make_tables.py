"""Make the golden tables of tests/data/tables anew with real Hive: python -m tests.interop.make_tables.

Names as arguments choose some of them. Every row there is one that Hive 4.0.1 selected itself.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.snapshot import Snapshot
from tests.golden import TABLES
from tests.interop.engines import Hive

COLUMNS = "id int, name string, v decimal(12,2)"
ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
TO_ACID = "set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')"
# Hive 4 leaves such a file in place of the rows only when it is told to.
DROPPED_WITH_A_BASE = "set hive.acid.droppartition.usebase=true"
UNION = "select {} union all select {}"


class Making:
    """A table that Hive makes step by step, and what it selects in between."""

    def __init__(self, name: str, about: str, hive: Hive, client: MetastoreClient) -> None:
        self.ref = TableRef("default", name)
        self.about = about
        self.hive = hive
        self.client = client
        self.statements: list[str] = []
        self.snapshots: list[dict[str, Any]] = []

    @property
    def folder(self) -> Path:
        return Path(self.client.get_table(self.ref).folder.removeprefix("file:"))

    def run(self, *statements: str) -> None:
        """Run statements, T being the table."""
        for statement in statements:
            self.statements.append(statement)
            self.hive.sql(self._named(statement))

    def roll_back(self, statement: str) -> None:
        self.statements.append(f"{statement} -- rolled back")
        self.hive.roll_back(self._named(statement))

    def compact(self, kind: str, partition: str = "") -> None:
        where = f" of {partition}" if partition else ""
        self.statements.append(f"{kind} compaction{where}")
        self.hive.compact(self.ref.full_name, kind, partition)

    def _named(self, statement: str) -> str:
        return statement.replace("T ", f"{self.ref.full_name} ")

    def look(self) -> None:
        """Note down what Hive selects now."""
        seen = Snapshot.take(self.client, [self.ref])
        table = self.client.get_table(self.ref)
        names = [each.name for each in [*table.columns, *table.partition_keys]]
        identity = "row__id.writeid, row__id.bucketid, row__id.rowid"
        rows = self.hive.sql(f"select {identity}, {', '.join(names)} from {self.ref.full_name}")
        null = ("NULL", "__HIVE_DEFAULT_PARTITION__")
        has_ids = table.kind is TableKind.FULL_ACID
        self.snapshots.append(
            {
                "write_ids": seen.write_ids[self.ref.full_name].format(),
                "txns": seen.txns.format(),
                "rows": sorted(
                    [
                        [int(part) for part in row[:3]] if has_ids else None,
                        *(None if value in null else value for value in row[3:]),
                    ]
                    for row in rows
                ),
            }
        )

    def save(self) -> None:
        """Write it to where the tests find it."""
        table = self.client.get_table(self.ref)
        target = TABLES / self.ref.name
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(".*", "_tmp*"))
        known = {
            "about": self.about,
            "statements": self.statements,
            "columns": {each.name: each.type for each in table.columns},
            "partition_keys": {each.name: each.type for each in table.partition_keys},
            "kind": table.kind.name,
            "format": table.format.name,
            "serde_parameters": dict(table.serde_parameters),
        }
        head = json.dumps(known, ensure_ascii=False, indent=1).removesuffix("\n}")
        snapshots = ",\n".join(map(_snapshot_text, self.snapshots))
        text = f'{head},\n "snapshots": [\n{snapshots}]\n}}\n'
        (TABLES / f"{self.ref.name}.json").write_text(text)


def _snapshot_text(snapshot: dict[str, Any]) -> str:
    rows = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in snapshot["rows"])
    lines = ",\n".join(f"   {row}" for row in rows)
    ids = f'  {{"write_ids": "{snapshot["write_ids"]}",\n  "txns": "{snapshot["txns"]}",\n'
    return f'{ids}  "rows": [\n{lines}]}}'


def values(ids: Iterable[int], *more: str) -> str:
    """Rows in SQL; id 7 is null but for its id."""
    rows = []
    for id_ in ids:
        row = [str(id_), f"'n{id_}'", f"{id_}.5"] if id_ != 7 else ["7", "null", "null"]
        rows.append(f"({', '.join([*row, *more])})")
    return f"values {', '.join(rows)}"


def insert_only_shapes(make: Making, storage: str) -> None:
    """What an insert-only table goes through; the write in the middle fails."""
    make.run(f"create table T ({COLUMNS}) {storage} {INSERT_ONLY}")
    make.run(f"insert into T {values(range(1, 9))}")
    make.roll_back(f"insert into T {values(range(100, 104))}")
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
    make.look()


def insert_only_parquet(make: Making) -> None:
    """Insert-only Parquet: a failed write between two others, compacted, overwritten."""
    insert_only_shapes(make, "stored as parquet")


def insert_only_text(make: Making) -> None:
    """Insert-only text with an escape: a failed write between two others, compacted, overwritten."""
    separators = "fields terminated by ',' escaped by '\\\\' null defined as 'none'"
    insert_only_shapes(make, f"row format delimited {separators} stored as textfile")
    make.run("insert into T values (40, 'a,b', 1), (41, 'c\\\\d', null), (42, '', 3)")
    make.look()


def insert_only_csv(make: Making) -> None:
    """Insert-only text by OpenCSVSerde, whose columns are all strings."""
    serde = "'org.apache.hadoop.hive.serde2.OpenCSVSerde'"
    make.run(f"create table T ({COLUMNS}) row format serde {serde} stored as textfile {INSERT_ONLY}")
    make.run(f"insert into T {values(range(1, 9))}")
    make.run("insert into T values (40, 'a,b', 1), (41, 'c\"d', null), (42, '', 3)")
    make.look()


def insert_only_json(make: Making) -> None:
    """Insert-only text by JsonSerDe."""
    serde = "'org.apache.hadoop.hive.serde2.JsonSerDe'"
    make.run(f"create table T ({COLUMNS}) row format serde {serde} stored as textfile {INSERT_ONLY}")
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
    make.roll_back("insert into T " + values(range(50, 53), "'2024'"))
    make.run("insert into T " + values(range(10, 15), "'2024'"))
    make.look()
    make.compact("minor", "day=2024")
    make.run("insert overwrite table T partition (day='a b/c') " + values(range(60, 63)))
    make.look()
    make.compact("major", "day=2024")
    make.look()


def insert_only_union(make: Making) -> None:
    """Insert-only ORC, one write of which left folders inside its delta; once not transactional."""
    make.run(f"create table T ({COLUMNS}) stored as orc tblproperties ('transactional'='false')")
    make.run(f"insert into T {values(range(1, 4))}", f"insert into T {values(range(4, 9))}")
    make.run(f"alter table T {TO_ACID[:-1]}, 'transactional_properties'='insert_only')")
    make.look()
    make.run("insert into T " + UNION.format("10, 'a', 1.5", "11, 'b', 2.5"))
    make.look()
    make.compact("major")
    make.look()


def originals_bucketed(make: Making) -> None:
    """Two buckets with copies and partitions, made transactional, changed and compacted."""
    make.run(
        f"create table T ({COLUMNS}) partitioned by (day string) clustered by (id) into 2 buckets "
        "stored as orc tblproperties ('transactional'='false')"
    )
    make.run("insert into T " + values(range(1, 13), "'2024'"))
    make.run("insert into T " + values(range(20, 33), "'2024'"))
    make.run("insert into T " + values(range(40, 45), "null"))
    make.run(f"alter table T {TO_ACID}")
    make.look()
    make.run("update T set name = 'new' where id % 5 = 0", "delete from T where id % 7 = 1")
    make.look()
    make.compact("minor", "day=2024")
    make.compact("major", "day=__HIVE_DEFAULT_PARTITION__")
    make.look()
    make.run("delete from T where id = 30")
    make.compact("major", "day=2024")
    make.look()


def originals_union(make: Making) -> None:
    """Folders of a UNION ALL below a table that was made transactional, changed and compacted."""
    make.run("set hive.merge.tezfiles=false")
    make.run(
        "create table T stored as orc tblproperties ('transactional'='false') as "
        "select 1 id, 'a' name, 1.5 v union all select 2 id, 'b' name, 2.5 v"
    )
    make.run("insert into T select id + 10, name, v from default.numbers where id < 6")
    make.run(f"alter table T {TO_ACID}")
    make.look()
    make.run("update T set name = 'new' where id in (2, 14)", "delete from T where id in (1, 15)")
    make.look()
    make.compact("major")
    make.look()


def loaded(make: Making) -> None:
    """LOAD DATA into deltas of several files and into a base, changed and compacted in between."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    load = "load data inpath '{}' {} table T "
    for number, how in ((1, "into"), (2, "into"), (3, "overwrite into"), (4, "into")):
        source = f"default.loaded_source_{number}"
        make.run(
            f"create table {source} ({COLUMNS}) clustered by (id) into 2 buckets stored as orc "
            "tblproperties ('transactional'='false')"
        )
        make.run(f"insert into {source} {values(range(number * 10, number * 10 + 8))}")
        folder = make.client.get_table(TableRef.parse(source)).folder
        make.run(load.format(folder, how))
        make.look()
        make.run(f"update T set v = {number} where id % 4 = 1", "delete from T where id % 5 = 2")
        make.look()
    make.compact("major")
    make.look()


def statements(make: Making) -> None:
    """Several statement ids in one write: a merge, a union, inserts into one table from one scan."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    make.run(f"insert into T {values(range(1, 9))}")
    make.run(
        "merge into T using (select * from default.numbers) s on T.id = s.id".replace("T.", "t.")
        .replace("into T ", "into T t ")
        + " when matched and s.id < 3 then delete when matched then update set v = s.id"
        " when not matched then insert values (s.id, s.name, s.v)"
    )
    make.look()
    make.run("insert into T " + UNION.format("30, 'a', 1.5", "31, 'b', 2.5"))
    make.run(
        "from default.numbers insert into T select id + 40, name, v where id < 4 "
        "insert into T select id + 60, name, v where id > 8"
    )
    make.look()
    make.run("delete from T where id in (4, 31, 41, 69)")
    make.look()


def truncated(make: Making) -> None:
    """Hive 4's marker for a truncated table, and rows after it."""
    make.run(f"create table T ({COLUMNS}) {ACID}", f"insert into T {values(range(1, 9))}")
    make.look()
    make.run("truncate table T ")
    make.look()
    make.run(f"insert into T {values(range(20, 24))}")
    make.look()


def dropped(make: Making) -> None:
    """Hive 4's marker for a dropped partition that came again."""
    make.run(f"create table T ({COLUMNS}) partitioned by (day string) {ACID}")
    for day in ("'2024'", "'2025'"):
        make.run("insert into T " + values(range(1, 5), day))
    make.look()
    make.run(DROPPED_WITH_A_BASE, "alter table T drop partition (day='2024')")
    make.look()
    make.run("insert into T " + values(range(20, 24), "'2024'"))
    make.look()


def rolled_back(make: Making) -> None:
    """Aborted inserts, changes and overwrites between others, compacted."""
    make.run(f"create table T ({COLUMNS}) {ACID}", f"insert into T {values(range(1, 12))}")
    make.roll_back(f"insert into T {values(range(50, 54))}")
    make.roll_back("update T set name = 'no' where id % 2 = 0")
    make.roll_back("delete from T where id % 2 = 1")
    make.run("delete from T where id = 5")
    make.roll_back(f"insert overwrite table T {values(range(60, 62))}")
    make.run(f"insert into T {values([20])}")
    make.look()
    make.compact("minor")
    make.look()


def streamed(make: Making) -> None:
    """Three files as of Hive Streaming, of several write ids each: some open, some aborted."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    txns = [make.client.open_txn() for _ in range(9)]
    for number, txn in enumerate(txns, 1):
        assert make.client.allocate_write_id(txn, make.ref) == number
    rows = {number: [f"{number} {number}{row} s{row} {row}" for row in range(3)] for number in range(1, 10)}
    with_footer = [*rows[1], "flush", *rows[2], "flush", *rows[3], "flush"]
    make.hive.stream(make.folder, 1, 3, with_footer)
    make.hive.stream(make.folder, 4, 6, [*rows[4], "flush", *rows[5], "flush", *rows[6], "flush"])
    make.hive.stream(make.folder, 7, 9, [*rows[7]])
    # As if it had been killed between the last footer and the note of its length.
    lengths = make.folder / "delta_0000004_0000006" / "bucket_00000_flush_length"
    lengths.write_bytes(lengths.read_bytes()[:-8])
    for number in (1, 3, 4, 5):
        make.client.commit_txn(txns[number - 1])
    make.client.abort_txn(txns[1])
    make.look()
    for number in (7, 8, 9):
        make.client.abort_txn(txns[number - 1])
    make.client.abort_txn(txns[5])
    make.look()
    make.run("update T set name = 'new' where id in (10, 51)", "delete from T where id = 32")
    make.look()
    make.compact("minor")
    make.look()
    make.compact("major")
    make.look()


def compactions_that_did_not_commit(make: Making) -> None:
    """Compacted folders whose transactions are open or aborted, with less in them than there is."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    make.run(f"insert into T {values(range(1, 5))}", f"insert into T {values(range(5, 9))}")
    make.look()
    make.compact("major")
    (base,) = make.folder.glob("base_*")
    make.run(f"insert into T {values(range(10, 14))}", "delete from T where id = 3")
    open_, aborted = make.client.open_txn(), make.client.open_txn()
    for txn in (open_, aborted):
        shutil.copytree(base, make.folder / f"base_0000004_v{txn:07d}")
        (make.folder / f"delta_0000003_0000004_v{txn:07d}").mkdir()
    make.client.abort_txn(aborted)
    make.look()
    make.client.abort_txn(open_)


def evolved(make: Making) -> None:
    """Columns added and widened, and a field of a struct, between writes."""
    make.run(
        "create table T (id int, name string, v decimal(12,2), small tinyint, ratio float) "
        "partitioned by (day string) " + ACID
    )
    make.run("insert into T " + values(range(1, 9), "3", "1.5", "'2024'"))
    make.run("alter table T add columns (more string)")
    make.run("insert into T " + values(range(10, 14), "100", "2.5", "'x'", "'2024'"))
    make.run("insert into T " + values(range(14, 18), "100", "2.5", "'x'", "'2025'"))
    make.run("alter table T change column small small bigint")
    make.run("alter table T change column v v decimal(20,4)")
    make.run("alter table T change column id id bigint", "alter table T change column ratio ratio double")
    make.look()
    make.run("insert into T " + values(range(20, 24), "5000000000", "0.25", "'y'", "'2024'"))
    make.run("update T set more = 'upd' where id in (2, 11, 15)")
    make.look()
    make.compact("minor", "day=2024")
    make.look()
    make.compact("major", "day=2024")
    make.look()


def query_compacted(make: Making) -> None:
    """Compacted by queries: the names of the ACID columns are in lower case."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    make.run(f"insert into T {values(range(1, 9))}", "update T set name = 'new' where id % 3 = 0")
    make.run("delete from T where id = 4")
    make.look()
    make.compact("minor")
    make.look()
    make.run("update T set name = 'newer' where id in (2, 3)", f"insert into T {values([20])}")
    make.look()
    make.compact("major")
    make.run("delete from T where id = 5")
    make.look()


PLAIN: list[Callable[[Making], None]] = [
    insert_only_parquet,
    insert_only_text,
    insert_only_csv,
    insert_only_json,
    insert_only_partitioned,
    insert_only_union,
    originals_bucketed,
    originals_union,
    loaded,
    statements,
    truncated,
    dropped,
    rolled_back,
    streamed,
    compactions_that_did_not_commit,
    evolved,
]
BY_QUERY = [query_compacted]


def main(wanted: Iterable[str]) -> None:
    """Make the tables of these names, or all."""
    chosen = set(wanted)
    for shapes, by_query in ((PLAIN, "false"), (BY_QUERY, "true")):
        asked = [shape for shape in shapes if not chosen or shape.__name__ in chosen]
        if not asked:
            continue
        with tempfile.TemporaryDirectory(prefix="golden-") as name:
            folder = Path(name)
            (folder / "warehouse").mkdir()
            settings = {"hive.compactor.crud.query.based": by_query}
            with closing(Hive(folder, folder / "warehouse", settings)) as hive:
                options = MetastoreOptions(uris=hive.metastore_uri)
                hive.sql(f"create table default.numbers ({COLUMNS}) {ACID}")
                hive.sql(f"insert into default.numbers {values(range(1, 11))}")
                with MetastoreClient(options) as client:
                    for shape in asked:
                        about = (shape.__doc__ or "").splitlines()[0]
                        making = Making(shape.__name__, about, hive, client)
                        try:
                            shape(making)
                        except Exception as error:
                            print(shape.__name__, "failed:", str(error)[:3000], flush=True)
                            continue
                        making.save()
                        print(shape.__name__, len(making.snapshots), "snapshots", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
