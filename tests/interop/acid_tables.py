"""Full ACID tables as Hive makes them: each function makes the table of its name."""

import shutil

from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.names import TableRef
from tests.interop.making import Making
from tests.interop.phrases import ACID, COLUMNS, TO_ACID, UNION, values


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
    make.run(f"create table T ({COLUMNS}) stored as orc tblproperties ('transactional'='false')")
    make.run("insert into T " + UNION.format(0), "insert into T " + UNION.format(10))
    make.run("insert into T select id + 20, name, v from default.numbers where id < 6")
    make.run(f"alter table T {TO_ACID}")
    make.look()
    make.run(
        "update T set name = 'new' where id in (2, 19, 24)", "delete from T where id in (1, 9, 25)"
    )
    make.look()
    make.compact("major")
    make.look()


def loaded(make: Making) -> None:
    """LOAD DATA into deltas of several files and into a base, changed and compacted in between."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    load = "load data inpath '{}' {} table T "
    for number, how in ((1, "into"), (2, "into"), (3, "overwrite into"), (4, "into")):
        source = f"{make.ref.full_name}_source_{number}"
        make.hive.sql(
            f"create table {source} ({COLUMNS}) clustered by (id) into 2 buckets stored as orc "
            "tblproperties ('transactional'='false')"
        )
        make.hive.sql(f"insert into {source} {values(range(number * 10, number * 10 + 8))}")
        folder = make.client.get_table(TableRef.parse(source)).folder
        make.run(load.format(folder, how))
        make.look()
        make.run(f"update T set v = {number} where id % 4 = 1", "delete from T where id % 5 = 2")
        make.look()
    make.compact("major")
    make.look()


def statements(make: Making) -> None:
    """Several statement ids in one write: a merge and a union."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    make.run(f"insert into T {values(range(1, 9))}")
    make.run(
        "merge into T t using default.numbers s on t.id = s.id "
        "when matched and s.id < 3 then delete when matched then update set v = s.id "
        "when not matched then insert values (s.id, s.name, s.v)"
    )
    make.look()
    make.run("insert into T " + UNION.format(30))
    make.run("delete from T where id in (4, 31, 39)")
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
    make.run("alter table T drop partition (day='2024')")
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
    txns = [make.begin()[0] for _ in range(9)]
    rows = {
        number: [f"{number} {number}{row} s{row} {row}" for row in range(3)]
        for number in range(1, 10)
    }
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
    make.run("delete from T where id = 40")
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
    open_, aborted = make.open_compaction(), make.open_compaction()
    for txn in (open_, aborted):
        shutil.copytree(base, make.folder / f"base_0000004_v{txn:07d}")
        delta = make.folder / "delta_0000003_0000003_0000"
        shutil.copytree(delta, make.folder / f"delta_0000003_0000004_v{txn:07d}")
    make.client.abort_txn(aborted)
    make.look()
    make.client.abort_txn(open_)


def old_row_ids(make: Making) -> None:
    """Row ids of before Hive 3, whose bucket property is the number of the bucket."""
    make.run(f"create table T ({COLUMNS}) {ACID}")
    (flat,) = make.folder.parent.glob("plain/0*")
    for write_id in (1, 2):
        txn, _ = make.begin()
        for bucket in (0, 1):
            path = make.folder / f"delta_{write_id:07d}_{write_id:07d}" / f"bucket_{bucket:05d}"
            path.parent.mkdir(exist_ok=True)
            with flat.open("rb") as source, path.open("wb") as sink:
                transplant([source], sink, write_id=write_id, bucket=bucket)
        make.client.commit_txn(txn)
    make.statements.append("two deltas of two buckets written by the tests")
    make.look()
    make.run("update T set name = 'new' where id = 2", "delete from T where id in (3, 7)")
    make.look()
    make.compact("minor")
    make.look()
    make.run("delete from T where id = 4")
    make.compact("major")
    make.look()


def evolved(make: Making) -> None:
    """Columns added and widened, and a field of a struct, between writes."""
    make.run(
        "create table T (id int, name string, v decimal(12,2), small tinyint, ratio float) "
        "partitioned by (day string) " + ACID
    )
    make.run("insert into T " + values(range(1, 9), "3", "1.5", "'2024'"))
    make.run("alter table T add columns (extra string)")
    make.run("insert into T " + values(range(10, 14), "100", "2.5", "'x'", "'2024'"))
    make.run("insert into T " + values(range(14, 18), "100", "2.5", "'x'", "'2025'"))
    make.run("alter table T change column small small bigint")
    make.run("alter table T change column v v decimal(20,4)")
    make.run(
        "alter table T change column id id bigint", "alter table T change column ratio ratio double"
    )
    make.look()
    make.run("insert into T " + values(range(20, 24), "5000000000", "0.25", "'y'", "'2024'"))
    make.run("update T set extra = 'upd' where id in (2, 11, 15)")
    make.look()
    make.compact("minor", "day=2024")
    make.look()
    make.run("delete from T where id = 1")
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
