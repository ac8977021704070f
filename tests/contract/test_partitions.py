"""ALTER TABLE ... ADD and DROP PARTITION and MSCK REPAIR, on the fake metastores and real ones."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.api.explained import explain
from hiveacid.errors import (
    InvalidJob,
    LockTimeout,
    MetastoreUnreachable,
    SharedLocation,
    TableExists,
    TableNotFound,
    UnsupportedTable,
    UserError,
    VersionGone,
    WrongTableKind,
)
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.owner import Owner, Snapshot, open_transaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.questions import Explain
from hiveacid.parser.script import to_jobs, to_steps
from hiveacid.records.table_history import table_history, version_of
from hiveacid.rules.cleaning import PARTITIONS_DROPPED
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import AsOf
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.upkeep.table_detail import table_detail
from tests.fakes.metastore import REAL_AND_FAKE

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def run(client: MetastoreClient, sql: str, **options: object) -> list[RunReport]:
    return [run_ddl(client, replace(job, **options)) for job in to_jobs(sql)]


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    """A table of three days and one partition of unknown days, each with a file of ten bytes."""
    ref = TableRef(database, "events")
    run(
        client,
        f"""
        CREATE TABLE {ref} (id bigint) PARTITIONED BY (day date);
        ALTER TABLE {ref} ADD PARTITION (day = '2026-01-01') PARTITION (day = '2026-01-02')
            PARTITION (day = DATE '2026-01-03') PARTITION (day = NULL)
        """,
    )
    for partition in client.get_partitions(client.get_table(ref)):
        write(client, ref, partition.name)
    return ref


def write(
    client: MetastoreClient, ref: TableRef, partition: str, name: str = "delta_{0}_{0}_0000"
) -> Path:
    """Commit a file of ten bytes to a partition, which is created if it is missing."""
    with writing(client, ref, partition) as txn:
        new = HivePartition.new(client.get_table(ref), [partition.partition("=")[2]])
        client.add_partitions(ref, [new])
        (known,) = client.get_partitions(client.get_table(ref), [partition])
        delta = name.format(f"{txn.write_ids[ref.full_name]:07d}")
        file = path_of(known.folder) / delta / "bucket_00000"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"0123456789")
        txn.commit()
    return file


def writing(client: MetastoreClient, ref: TableRef, partition: str) -> Transaction:
    return Transaction(client, targets=[Target(ref, Operation.INSERT, True, [partition])])


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


def names(client: MetastoreClient, ref: TableRef) -> list[str]:
    return sorted(client.get_partition_names(ref))


NULL = "day=__HIVE_DEFAULT_PARTITION__"
DAYS = ["day=2026-01-01", "day=2026-01-02", "day=2026-01-03"]


@REAL_AND_FAKE
def test_partitions_are_dropped_with_their_files(client, table) -> None:
    folders = {
        each.name: path_of(each.folder) for each in client.get_partitions(client.get_table(table))
    }
    (report,) = run(client, f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-03')")
    assert report.job == "drop_partitions"
    assert report.partitions == tuple(DAYS[:2])
    assert names(client, table) == [DAYS[2], NULL]
    assert {name for name, folder in folders.items() if folder.exists()} == {NULL, DAYS[2]}
    assert client.show_locks(table) == []
    run(client, f"ALTER TABLE {table} DROP PARTITION (day = NULL), PARTITION (day > '2026-01-02')")
    assert names(client, table) == []


@REAL_AND_FAKE
def test_an_added_partition_has_the_definition_of_the_table(client, table) -> None:
    (report,) = run(client, f"ALTER TABLE {table} ADD PARTITION (day = '2026-02-01')")
    assert (report.job, report.partitions) == ("add_partitions", ("day=2026-02-01",))
    (added,) = client.get_partitions(client.get_table(table), ["day=2026-02-01"])
    definition = client.get_table(table)
    assert added.columns == definition.columns
    assert (added.input_format, added.serde) == (definition.input_format, definition.serde)
    assert path_of(added.folder).is_dir()
    sql = (
        f"ALTER TABLE {table} ADD {{}}PARTITION (day = '2026-02-01') PARTITION (day = '2026-02-02')"
    )
    with pytest.raises(TableExists, match=r"day=2026-02-01 already. Write ADD IF NOT EXISTS"):
        run(client, sql.format(""))
    assert "day=2026-02-02" not in names(client, table)
    (report,) = run(client, sql.format("IF NOT EXISTS "))
    assert report.partitions == ("day=2026-02-02",)
    assert "day=2026-02-01 already" in report.warnings[0]
    # Another attempt of a task finds the partitions of the first one.
    (report,) = run(client, sql.format(""), run_token="d/r/t/-1")
    assert report.partitions == ()


@REAL_AND_FAKE
def test_a_drop_waits_for_readers_and_writers_of_the_same_partition(client, table) -> None:
    drop = f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-02')"
    with writing(client, table, DAYS[0]) as txn, pytest.raises(LockTimeout, match=str(txn.txn_id)):
        run(client, drop, lock_wait_seconds=0)
    with Transaction(client, reads=[table]) as txn, pytest.raises(LockTimeout):
        run(client, drop, lock_wait_seconds=0)
    assert DAYS[0] in names(client, table)
    with writing(client, table, DAYS[2]) as txn:
        run(client, drop, lock_wait_seconds=0)
        txn.commit()
    assert names(client, table) == [*DAYS[1:], NULL]


@REAL_AND_FAKE
def test_versions_before_a_drop_are_refused_and_later_ones_are_read(client, table) -> None:
    # The clock of the files, which dates the drop, is behind by one tick of the kernel.
    started = datetime.now(UTC) - timedelta(milliseconds=20)
    before = Snapshot.take(client, [table]).write_ids[table.full_name].high_watermark
    run(client, f"ALTER TABLE {table} DROP PARTITION (day = '2026-01-01')")
    now = Snapshot.take(client, [table]).write_ids[table.full_name]
    assert now.high_watermark == before + 1
    for as_of in (AsOf(before), AsOf(0), AsOf(time=started)):
        with pytest.raises(VersionGone, match=f"dropped in version {before + 1}"):
            version_of(client, table, as_of, now)
    assert version_of(client, table, AsOf(before + 1), now) == now
    later = AsOf(time=datetime.now(UTC) - timedelta(microseconds=1))
    assert version_of(client, table, later, now).high_watermark == before + 1
    assert table_detail(client, table).oldest_version == before + 1
    entry, *_ = table_history(client, table)
    assert (entry.write_id, entry.operation, entry.time) == (
        before + 1,
        "drop_partition",
        pytest.approx(started.timestamp(), abs=60),
    )


@FAKE
def test_a_drop_of_no_partition(client, table) -> None:
    with pytest.raises(TableNotFound, match="no partition with day = '2027-01-01'"):
        run(client, f"ALTER TABLE {table} DROP PARTITION (day = '2027-01-01')")
    for sql, options in (
        ("DROP IF EXISTS PARTITION (day = '2027-01-01')", {}),
        ("DROP PARTITION (day > '2027-01-01')", {}),
        ("DROP PARTITION (day = '2027-01-01')", {"run_token": "d/r/t/-1"}),
    ):
        (report,) = run(client, f"ALTER TABLE {table} {sql}", **options)
        assert report.partitions == ()
        assert "No partition" in report.warnings[0]
    assert len(names(client, table)) == 4


@FAKE
def test_a_drop_that_ends_in_the_middle_is_completed_by_the_next_try(
    client, table, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-03')"
    with killed(client, monkeypatch, after=1):
        run(client, drop, run_token="d/r/t/-1")
    assert names(client, table) == [*DAYS[1:], NULL]
    assert client.show_locks(table) == []
    now = Snapshot.take(client, [table]).write_ids[table.full_name]
    with pytest.raises(VersionGone):
        version_of(client, table, AsOf(1), now)
    assert run(client, drop, run_token="d/r/t/-1")[0].partitions == (DAYS[1],)
    assert names(client, table) == [DAYS[2], NULL]


@contextmanager
def killed(client: MetastoreClient, patch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """End a drop after so many partitions, as the kill of its process does."""
    really = client.drop_partitions

    def drop_some(ref: TableRef, dropped: Sequence[str], confirm: Callable[[], None]) -> None:
        really(ref, dropped[:after], confirm)
        raise MetastoreUnreachable("The metastore has gone.")

    patch.setattr(client, "drop_partitions", drop_some)
    with pytest.raises(MetastoreUnreachable):
        yield
    patch.undo()


@REAL_AND_FAKE
def test_each_attempt_drops_what_is_there_then(client, table, monkeypatch) -> None:
    drop = f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-03')"
    with killed(client, monkeypatch, after=1):
        run(client, drop, run_token="d/r/t/-1")
    write(client, table, DAYS[0])
    assert run(client, drop, run_token="d/r/t/-1")[0].partitions == tuple(DAYS[:2])


@FAKE
def test_a_retry_that_finds_nothing_to_drop_ends_the_earlier_attempt(client, table) -> None:
    drop = f"ALTER TABLE {table} DROP PARTITION (day < '2026-01-03')"
    run(client, drop, run_token="d/r/t/-1")
    last = client.get_table(table).parameters[PARTITIONS_DROPPED]
    killed_job = replace(*to_jobs(drop), run_token="d/r/t/-1")
    left = open_transaction(client, Owner.of(killed_job.token, "ann"))
    assert run(client, drop, run_token="d/r/t/-1")[0].partitions == ()
    assert left in Snapshot.take(client, []).txns.aborted
    assert client.get_table(table).parameters[PARTITIONS_DROPPED] == last


@FAKE
@pytest.mark.parametrize("place", ["", "/day=2026-01-02", "/.."])
def test_a_drop_removes_no_folder_with_other_rows(client, table, place: str) -> None:
    described = client.get_table(table)
    new = HivePartition.new(described, ["2026-05-01"])
    new.raw.sd.location = f"{described.folder}{place}".replace("/events/..", "")
    client.add_partitions(table, [new])
    for day in ("2026-05-01", "2026-01-02"):
        with pytest.raises(SharedLocation, match=r" and .* have, or may have, files in one"):
            run(client, f"ALTER TABLE {table} DROP PARTITION (day = '{day}')")
    assert len(names(client, table)) == 5
    assert path_of(f"{described.folder}/day=2026-01-02").exists()


@FAKE
def test_a_drop_of_other_partitions_is_not_affected_by_a_shared_folder(client, table) -> None:
    described = client.get_table(table)
    new = HivePartition.new(described, ["2026-05-01"])
    new.raw.sd.location = f"{described.folder}/day=2026-01-03"
    client.add_partitions(table, [new])
    run(client, f"ALTER TABLE {table} DROP PARTITION (day = '2026-01-02')")
    assert len(names(client, table)) == 4


@REAL_AND_FAKE
@pytest.mark.parametrize("place", ["{}/day=2026-01-02", "{}/day=2026-01-02/inside", "{}/.."])
def test_a_drop_removes_no_folder_that_another_table_uses(
    client, table, database, place: str
) -> None:
    root, keys = client.get_table(table).folder, [HiveColumn("day", "date")]
    other = HiveTable.new(
        TableRef(database, "other"), [HiveColumn("id", "bigint")], partition_keys=keys
    )
    client.create_table(other)
    new = HivePartition.new(client.get_table(other.ref), ["2026-05-01"])
    new.raw.sd.location = str(path_of(place.format(root)).resolve())
    client.add_partitions(other.ref, [new])
    with pytest.raises(SharedLocation, match=r"day=2026-01-02 and .*other/day=2026-05-01"):
        run(client, f"ALTER TABLE {table} DROP PARTITION (day = '2026-01-02')")
    assert len(names(client, table)) == 4
    assert path_of(f"{root}/day=2026-01-02").exists()
    assert client.show_locks(table) == []


@FAKE
def test_tables_that_have_no_partitions_to_change(client, database) -> None:
    run(client, f"CREATE TABLE {database}.t (id int)")
    with pytest.raises(UserError, match="has no partitions"):
        run(client, f"ALTER TABLE {database}.t DROP PARTITION (id = 1)")
    plain = HiveTable.new(
        TableRef(database, "plain"), [HiveColumn("id", "int")], kind=TableKind.NOT_ACID
    )
    client.call(idl_tables.create_table, plain.raw)
    with pytest.raises(WrongTableKind):
        run(client, f"ALTER TABLE {database}.plain ADD PARTITION (id = 1)")


@FAKE
def test_an_explanation_lists_partitions_files_and_locks_and_changes_nothing(client, table) -> None:
    (step,) = to_steps(f"EXPLAIN ALTER TABLE {table} DROP PARTITION (day <= '2026-01-02')")
    assert isinstance(step, Explain)
    with Transaction(client, reads=[table]) as txn:
        answer = explain(client, step.job)
        assert answer.columns == ("partition", "files", "bytes")
        assert answer.rows == [(name, 1, 10) for name in DAYS[:2]]
        assert answer.details["statement"]["partitions"] == "2 of 4"
        assert answer.details["statement"]["bytes"] == 20
        assert answer.details["locks"] == {table.full_name: "EXCLUSIVE on the partitions below"}
        (waits,) = answer.details["in the way now"].values()
        assert str(txn.txn_id) in str(waits)
    assert len(names(client, table)) == 4
    (step,) = to_steps(f"EXPLAIN ALTER TABLE {table} ADD PARTITION (day = '2027-01-01')")
    assert isinstance(step, Explain)
    assert explain(client, step.job).rows == [("day=2027-01-01", 0, 0)]
    (step,) = to_steps(f"EXPLAIN MSCK REPAIR TABLE {table}")
    with pytest.raises(InvalidJob, match="cannot be explained"):
        explain(client, step.job)  # type: ignore[union-attr]


@REAL_AND_FAKE
def test_a_repair_registers_folders_without_files_only(client, table) -> None:
    root = path_of(client.get_table(table).folder)
    for name in ("day=2026-03-01", "day=2026-03-02/delta_0000001_0000001_0000", "month=1", "_x=1"):
        (root / name).mkdir(parents=True)
    (report,) = run(client, f"MSCK REPAIR TABLE {table}")
    assert (report.job, report.partitions) == (
        "repair_partitions",
        ("day=2026-03-01", "day=2026-03-02"),
    )
    assert names(client, table) == sorted([*DAYS, *report.partitions, NULL])
    assert run(client, f"MSCK REPAIR TABLE {table} ADD PARTITIONS")[0].partitions == ()


@REAL_AND_FAKE
@pytest.mark.parametrize(
    "sql", ["MSCK REPAIR TABLE {}", "ALTER TABLE {} ADD PARTITION (day='2026-03-01')"]
)
def test_files_of_a_write_that_was_never_committed_stay_invisible(client, table, sql: str) -> None:
    txn = client.open_txn("user", "host", None)
    write_id = client.allocate_write_id(txn, table)
    client.abort_txn(txn)
    file = path_of(client.get_table(table).folder) / (
        f"day=2026-03-01/delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000"
    )
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    with pytest.raises(
        UnsupportedTable, match=r"day=2026-03-01 in .* have files, but the metastore"
    ):
        run(client, sql.format(table))
    assert names(client, table) == [*DAYS, NULL]
    assert client.show_locks(table) == []
