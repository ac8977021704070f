"""The results of a survey of real tables, and the conditions for another listing."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.orc import ORCFile, write_table

from hiveacid.errors import (
    CorruptFile,
    TableNotFound,
    VersionGone,
    WrongTableKind,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import Base, Delta, TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DirectorySizes, list_files, read_state
from hiveacid.upkeep.compaction_poll import CompactionPoll
from hiveacid.upkeep.survey import PartitionSizes, Survey
from tests.proxy import Proxy
from tests.upkeep.acid_folders import AcidFolders

DATA = Path(__file__).parents[1] / "data"
NOW = datetime.now(UTC)
EAGER = CompactionPolicy(max_deltas=2)
NUM_THRESHOLD = "compactorthreshold.hive.compactor.delta.num.threshold"


@pytest.fixture
def parted(client, database):
    return AcidFolders.create(client, f"{database}.parted", ["p=1", "p=2"])


def decisions(folders, policy=EAGER, **options):
    return Survey(folders.client, policy).survey([folders.ref], **options)


def test_a_table_without_partitions_is_measured_as_a_whole(folders):
    names = [folders.insert() for _ in range(3)]
    (decision,) = decisions(folders)
    size = decision.size
    assert (size.table, size.partition, size.problem) == (folders.ref.full_name, None, None)
    assert (size.base, size.deltas, size.delta_bytes) == (None, tuple(names), 3 * len("no rows"))
    assert decision.type is CompactionType.MAJOR
    assert "3 deltas (limit 2)" in decision.reason


@pytest.mark.parametrize(
    ("file", "size", "streams", "lost"),
    [
        ("bucket_00001", 0, False, True),
        ("bucket_00001", 1, False, False),
        # Of a streaming writer that has just begun, and of others without row ids.
        ("bucket_00001", 0, True, False),
        ("000001_0", 0, False, False),
    ],
)
def test_a_file_without_content_makes_its_partition_unreadable(parted, file, size, streams, lost):
    for partition in ("p=1", "p=2"):
        delta = parted.insert(partition)
    path = parted.root / "p=2" / delta / file
    path.write_bytes(bytes(size))
    if streams:
        path.with_name(f"{file}_flush_length").write_bytes(b"")
    one, two = decisions(parted)
    assert one.size.problem is None
    assert (two.size.problem is not None) is lost
    if lost:
        assert f"p=2/{delta}/{file} is empty" in two.size.problem
        assert CorruptFile.default_remedy in two.size.problem


def test_every_partition_has_its_decision(parted):
    for _ in range(3):
        parted.insert("p=2")
    first = parted.insert("p=1")
    one, two = decisions(parted)
    assert (one.size.partition, one.size.deltas, one.type) == ("p=1", (first,), None)
    assert (two.size.partition, len(two.size.deltas), two.type) == ("p=2", 3, CompactionType.MAJOR)
    assert "1 delta (limit 2)" in one.reason


def test_partitions_are_found_in_any_place(parted, tmp_path):
    root = parted.table.folder
    parted.add("p=moved", location=f"{root}/deep/down")
    parted.add("p=outside", location=f"file:{tmp_path}/far")
    # Its path begins like that of the table, and is not in it.
    parted.add("p=beside", location=f"{root}2/p=beside")
    parted.add("p=a/b %=c")
    parted.add("p=empty")
    places = {
        "p=moved": parted.root / "deep/down",
        "p=outside": tmp_path / "far",
        "p=beside": Path(f"{parted.root}2/p=beside"),
        "p=a%2Fb %25%3Dc": parted.root / "p=a%2Fb %25%3Dc",
    }
    for number, folder in enumerate(places.values(), start=1):
        parted.insert("p=1")
        parted.make(Delta(number, number, 0).name, folder=folder)
    deltas = {decision.size.partition: decision.size.deltas for decision in decisions(parted)}
    assert deltas.keys() == {"p=1", "p=2", "p=empty", *places}
    assert [deltas[name] for name in places] == [(Delta(n, n, 0).name,) for n in range(1, 5)]
    assert (len(deltas["p=1"]), deltas["p=2"], deltas["p=empty"]) == (4, (), ())
    shutil.rmtree(f"{parted.root}2")


def test_only_the_partitions_that_were_asked_for_are_measured(parted):
    parted.insert("p=1")
    (one,) = decisions(parted, partitions=["p=1", "p=not yet there"])
    assert (one.size.partition, len(one.size.deltas)) == ("p=1", 1)


@pytest.mark.parametrize("version", ["hive3", "hive4"])
def test_rows_are_counted_in_the_footers_when_they_are_the_measure(version, folders):
    for source in sorted((DATA / "hive-written" / version).iterdir()):
        shutil.copytree(source, folders.root / source.name)
    for _ in range(3):
        txn = folders.client.open_txn("writer", "localhost", None)
        folders.client.allocate_write_id(txn, folders.ref)
        folders.client.commit_txn(txn)
    (by_bytes,) = decisions(folders)
    assert (by_bytes.size.base_rows, by_bytes.size.delta_rows) == (None, None)
    shutil.rmtree(folders.root / "base_0000003")
    (by_rows,) = decisions(folders, CompactionPolicy(measure="rows"))
    files = folders.root.glob("de*/bucket_*")
    assert by_rows.size.base_rows == 0
    assert by_rows.size.delta_rows == sum(ORCFile(str(file)).nrows for file in files)
    (folders.root / "delta_0000002_0000002_0000" / "bucket_00001").write_bytes(b"no orc at all")
    (broken,) = decisions(folders, CompactionPolicy(measure="rows"))
    assert broken.type is None
    assert "delta_0000002_0000002_0000/bucket_00001 cannot be read as ORC" in broken.reason


def test_open_writes_wait_and_the_reason_names_their_holder(folders):
    for _ in range(3):
        folders.insert()
    with Transaction(
        folders.client,
        targets=[Target(folders.ref, Operation.INSERT, partitioned=False)],
        run_token="d/r/load/-1",
    ) as txn:
        (write_id,) = txn.write_ids.values()
        open_ = folders.make(Delta(write_id, write_id, 0).name)
        (decision,) = decisions(folders)
    assert (decision.size.invisible, len(decision.size.deltas)) == ((open_,), 3)
    assert f"1 delta more cannot be taken yet because of transaction {txn.txn_id} of " in (
        decision.reason
    )
    assert "(Airflow task load of DAG d, run r)" in decision.reason
    (aborted,) = decisions(folders)
    assert (aborted.size.invisible, aborted.size.aborted_write_ids) == ((), 1)
    assert aborted.size.aborted == (open_,)
    assert aborted.size.oldest_abort_hours == pytest.approx(0, abs=0.1)


def test_original_files_count_as_the_base(folders):
    original = folders.root / "HIVE_UNION_SUBDIR_1" / "000000_0"
    original.parent.mkdir()
    write_table(pa.table({"id": list(range(1000))}), original)
    folders.insert()
    (delta,) = folders.root.glob("delta_*/bucket_*")
    write_table(pa.table({"id": [1]}), delta)
    size = decisions(folders, CompactionPolicy(measure="rows"))[0].size
    assert (size.base, size.base_bytes) == (None, original.stat().st_size)
    assert (size.base_rows, size.delta_rows, size.has_originals) == (1000, 1, True)
    (major,) = decisions(folders, CompactionPolicy(max_delta_ratio=0.0))
    assert major.type is CompactionType.MAJOR
    assert major.bytes == size.base_bytes + size.delta_bytes
    (idle,) = decisions(folders, CompactionPolicy(max_delta_ratio=100.0, max_deltas=0))
    assert idle.type is None
    assert "is the only delta" in idle.reason


def test_a_directory_of_a_strange_name_is_a_problem_of_its_partition_alone(parted):
    parted.make("delta_x", "p=1")
    for _ in range(3):
        parted.insert("p=2")
    one, two = decisions(parted)
    assert "'delta_x' cannot be read" in one.reason
    assert two.type is CompactionType.MAJOR


def test_an_unwritten_table_is_not_listed_again(folders):
    folders.insert()
    survey = Survey(folders.client, EAGER)
    (before,) = survey.survey([folders.ref], now=NOW)
    # Only who lists the table can see this one: no write id has moved.
    folders.make(Delta(1, 1, 1).name)
    (unchanged,) = survey.survey([folders.ref], now=NOW + timedelta(minutes=50))
    assert unchanged.size.deltas == before.size.deltas
    (later,) = survey.survey([folders.ref], now=NOW + timedelta(minutes=61))
    assert len(later.size.deltas) == 2
    folders.insert()
    (written,) = survey.survey([folders.ref], now=NOW + timedelta(minutes=62))
    assert (len(written.size.deltas), written.type) == (3, CompactionType.MAJOR)


def test_partitions_that_come_and_go_are_noticed_with_the_next_write(parted, tmp_path):
    parted.insert("p=1")
    survey = Survey(parted.client, EAGER)
    survey.survey([parted.ref], now=NOW)

    def delta_counts(minutes):
        parted.insert("p=1")
        decisions = survey.survey([parted.ref], now=NOW + timedelta(minutes=minutes))
        return {decision.size.partition: len(decision.size.deltas) for decision in decisions}

    assert delta_counts(1) == {"p=1": 2, "p=2": 0}
    parted.add("p=3", location=f"file:{tmp_path}/far")
    parted.make(Delta(1, 1, 0).name, folder=tmp_path / "far")
    assert delta_counts(2) == {"p=1": 3, "p=2": 0, "p=3": 1}
    parted.client.drop_table(parted.ref)
    again = AcidFolders.create(parted.client, parted.ref.full_name, ["p=1"])
    again.insert("p=1")
    assert delta_counts(3) == {"p=1": 2}


def test_tables_in_need_are_listed_until_their_compaction(folders):
    for _ in range(3):
        folders.insert()
    survey = Survey(folders.client, EAGER)
    (needed,) = survey.survey([folders.ref])
    assert needed.type is CompactionType.MAJOR
    base = folders.compact(Base(3))
    (done,) = survey.survey([folders.ref])
    assert (done.type, done.size.base, len(done.size.obsolete)) == (None, base, 3)


def test_time_goes_by_even_for_a_table_that_is_not_listed_again(folders):
    folders.insert()
    folders.compact(Base(1))
    folders.insert()
    policy = CompactionPolicy(max_delta_ratio=None, major_after_hours=0.5)
    survey = Survey(folders.client, policy)
    (young,) = survey.survey([folders.ref], now=NOW)
    (old,) = survey.survey([folders.ref], now=NOW + timedelta(minutes=45))
    assert young.type is None
    assert old.type is CompactionType.MAJOR
    assert "The base is 45 min old (limit 30 min)" in old.reason


def test_a_table_sets_its_own_thresholds_or_stays_out(client, database):
    own = AcidFolders.create(client, f"{database}.own", parameters={NUM_THRESHOLD: "5"})
    off = AcidFolders.create(client, f"{database}.off", parameters={"no_auto_compaction": "true"})
    for folders in (own, off):
        for _ in range(3):
            folders.insert()
        (decision,) = decisions(folders)
        assert decision.type is None
    assert "no_auto_compaction" in decision.reason


def test_of_several_tables_one_that_cannot_be_measured_stops_no_other(client, database):
    bad = AcidFolders.create(client, f"{database}.bad", parameters={NUM_THRESHOLD: "many"})
    good = AcidFolders.create(client, f"{database}.good")
    for _ in range(3):
        good.insert()
    gone = TableRef(database, "gone")
    first, second = Survey(client, EAGER).survey([bad.ref, gone, good.ref])
    assert f"The table's {NUM_THRESHOLD} is 'many'" in first.reason
    assert (second.size.table, second.type) == (good.ref.full_name, CompactionType.MAJOR)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": TableKind.NOT_ACID}, WrongTableKind, "not a transactional table"),
        (None, TableNotFound, "does not exist"),
    ],
)
def test_the_only_table_must_be_one_that_can_be_compacted(
    options, error, message, client, database
):
    ref = TableRef(database, "other")
    if options is not None:
        client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], **options))
    with pytest.raises(error, match=message):
        Survey(client).survey([ref])


def measured(sizes, folder, partitions):
    return sizes.measure(DirectorySizes.of(str(folder)), partitions, NOW)


@pytest.mark.parametrize(
    "table", sorted(path.name for path in (DATA / "tables").iterdir() if path.is_dir())
)
def test_a_partition_is_measured_as_a_reader_lists_it(table):
    for watermark in (2, 5, 100):
        check_sizes(DATA / "tables" / table, watermark)


def check_sizes(root, watermark):
    table = root.name
    partitions = sorted(
        {str(path.parent.relative_to(root)) for path in root.rglob("*") if "delta_" in path.name}
    )
    write_ids, txns = CompactorWriteIdList(table, watermark), ValidTxnList(1000)
    sizes = PartitionSizes(table, write_ids, txns, Rules.HIVE4, owner=None)
    names = {("" if name == "." else name): name for name in partitions if "delta_" not in name}
    assert names
    for size in measured(sizes, root, names):
        storage = ReadOnlyStorage.of(str(root / size.partition))
        if size.problem is not None:
            with pytest.raises(VersionGone, match=re.escape(size.problem)):
                read_state(storage, list_files(storage, None), write_ids, txns, rules=Rules.HIVE4)
            continue
        state = read_state(storage, list_files(storage, None), write_ids, txns, rules=Rules.HIVE4)
        assert (size.base, size.deltas) == (state.base, state.deltas)
        assert (size.obsolete, size.aborted) == (state.obsolete, state.aborted)
        data = {name: sum(f.size for f in state.files(name)) for name in state.deltas}
        assert size.delta_bytes == sum(data.values())


def test_the_marker_of_an_aborted_base_is_read(tmp_path):
    # A compaction may end at an aborted write id; an aborted overwrite leaves an unused base.
    aborted = CompactorWriteIdList("d.t", 5, aborted=(3,))
    for name, data_format in (("p=1", "compacted"), ("p=2", "truncated")):
        base = tmp_path / name / "base_0000003"
        base.mkdir(parents=True)
        marker = {"thisFileVersion": "0", "dataFormat": data_format}
        (base / "_metadata_acid").write_text(json.dumps(marker))
    sizes = PartitionSizes("d.t", aborted, ValidTxnList(9), Rules.HIVE4, owner=None)
    one, two = measured(sizes, tmp_path, {"p=1": "p=1", "p=2": "p=2"})
    assert (one.base, one.aborted) == ("base_0000003", ())
    assert (two.base, two.aborted) == (None, ("base_0000003",))


def test_a_poll_finds_the_tables_of_a_pattern_with_reasons(client, database):
    tables = [AcidFolders.create(client, f"{database}.day_{n}") for n in range(3)]
    AcidFolders.create(client, f"{database}.other")
    for count, folders in zip((3, 1, 4), tables, strict=True):
        for _ in range(count):
            folders.insert()
    poll = CompactionPoll(client.options, EAGER, Budget(max_partitions=1))
    result = poll.survey([f"{database}.day_*"])
    (need,) = result.needs
    assert (need.table, need.partition, need.type) == (f"{database}.day_2", None, "major")
    assert (need.deltas, need.delta_ratio) == (4, None)
    assert result.log[0].startswith(f"{database}.day_2 needs a major compaction: 4 delta")
    others = "\n".join(result.log[1:])
    assert f"{database}.day_0 needs none: 3 deltas" in others
    assert "budget of 1 partition is used up" in others
    assert f"{database}.day_1 needs none: 1 delta" in others
    assert "other" not in others


def test_a_poll_of_thousands_names_the_most_telling_ones(parted):
    parted.add(*(f"p=x{number}" for number in range(20)))
    parted.insert("p=x7")
    parted.make("base_strange", "p=x9")
    result = CompactionPoll(parted.client.options, EAGER).survey([parted.ref.full_name])
    assert result.needs == ()
    assert "p=x9 needs none: It cannot be read" in result.log[0]
    assert "p=x7 needs none: 1 delta" in result.log[1]
    assert result.log[-1] == "17 more of 1 table need none."
    assert len(result.log) == 6


def test_a_poll_holds_one_connection_and_none_in_between(hms, parted, eventually):
    proxy = Proxy(hms)
    parted.insert("p=1", commit=False)
    poll = CompactionPoll(MetastoreOptions(uris=proxy.uri), EAGER)
    for _ in range(2):
        poll.survey([f"{parted.ref.database}.*"])
        eventually("the connection is closed", lambda: proxy.open == 0)
    assert proxy.most_open == 1
    proxy.close()
