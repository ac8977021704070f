"""Damage that a client does to tables of a vendor if it takes the vendor's metastore for Apache's."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import MetastoreError, UnsupportedTable
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.metastore.alteration import compares_definitions, send_definition
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.constraints import all_constraints, as_structs
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.parser.script import to_jobs
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.constraints import Key, NotNull
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.tables.statistics import analyze
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.known_problems import Evidence
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas
from tests.metastore_calls import acting_before
from tests.stored_statistics import Stored
from tests.vendors.old_orc import rows_read_by_orc_1_5
from tests.vendors.profiles import PROFILES
from tests.vendors.proxy import VendorMetastore
from tests.vendors.wire import Message

pytestmark = pytest.mark.sampled(4)
MAJOR = CompactionType.MAJOR
TABLE_FIELDS = 22  # From this number on CDP numbers the fields of a table differently.


def of(*names: str) -> pytest.MarkDecorator:
    """Run a test with these profiles only."""
    return pytest.mark.parametrize("vendor", names, indirect=True)


def run(client: MetastoreClient, sql: str) -> None:
    for job in to_jobs(sql):
        run_ddl(client, job)


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int"), HiveColumn("v", "string")]))
    return ref


# 1. Codecs


@pytest.mark.server
@of(*(name for name, profile in PROFILES.items() if not profile.reads_zstd))
def test_rows_of_a_table_that_is_created_by_default_are_read_by_the_vendors_orc(
    client: MetastoreClient, database: str
) -> None:
    run(
        client,
        f"CREATE TABLE {database}.t (id int, v string) STORED AS ORC"
        " TBLPROPERTIES ('transactional' = 'true')",
    )
    table = WrittenTable(client, TableRef(database, "t"))
    with AcidTable(str(table.ref), client.options, run_in="worker") as writer:
        writer.append(pa.table({"id": [1, 2], "v": ["a", None]}))
        writer.append(pa.table({"id": [3], "v": ["c"]}))
    assert compacted(client, table).error is None
    (file,) = sorted(table.root.glob("base_*/bucket_*"))
    assert [row["row"] for row in rows_read_by_orc_1_5(file)] == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": None},
        {"id": 3, "v": "c"},
    ]


# 2. Filters of the queue


def test_the_queue_of_a_table_is_shown(
    client: MetastoreClient, apache: MetastoreClient, table: TableRef
) -> None:
    others = WrittenTable.create(apache, f"{table.database}.others").ref
    for ref in (others, table):
        CompactionQueue(apache).request(ref, None, MAJOR)
    queue = CompactionQueue(client)
    assert [entry.table for entry in queue.show(table)] == [table]
    assert [entry.table for entry in queue.live(table)] == [table]


# 3. Pools


def compacted(client: MetastoreClient, table: WrittenTable, mode: str = "auto") -> CompactReport:
    job = CompactJob(target=str(table.ref), type="major", mode=mode, metastore=client.options)
    with WorkerScheduler() as scheduler:
        return TableCompactor(scheduler, client, job).run()


@of("cdp-7.1.7", "cdp-7.1.9", "cdp-7.3", "apache-2020-12")
def test_a_compaction_leaves_the_requests_of_others_untouched(
    client: MetastoreClient, apache: MetastoreClient, database: str
) -> None:
    theirs = WrittenTable.create(apache, f"{database}.theirs")
    theirs.insert(1)
    queue = CompactionQueue(apache)
    queue.request(theirs.ref, None, MAJOR)
    (before,) = queue.show(theirs.ref)
    own = twelve_deltas(client, f"{database}.own")
    assert [each.outcome for each in compacted(client, own).partitions] == ["compacted"]
    assert own.rows() == expected_rows()
    assert any(name.startswith("base_") for name in own.directories())
    assert queue.show(theirs.ref) == [before]
    assert {entry.state for entry in queue.show(own.ref)} <= {"ready for cleaning"}


@of("cdp-7.1.7", "cdp-7.1.9", "apache-2020-12")
def test_the_directory_of_a_compaction_is_invisible_before_its_commit(
    client: MetastoreClient, apache: MetastoreClient, database: str
) -> None:
    """These servers have transactions of compactions, by which Hive hides directories."""
    own = twelve_deltas(client, f"{database}.own")
    assert [each.outcome for each in compacted(client, own).partitions] == ["compacted"]
    (base,) = [name for name in own.directories() if name.startswith("base_")]
    txn_id = int(base.partition("_v")[2])
    assert txn_id not in [txn.txn_id for txn in apache.get_open_txns_info()]


@of("cdp-7.1.9")
def test_every_request_that_is_handed_out_is_served_and_ended(
    client: MetastoreClient, apache: MetastoreClient, database: str
) -> None:
    """Without pools the server hands out the oldest request, of whatever table."""
    tables = [twelve_deltas(client, f"{database}.{name}") for name in ("other", "own")]
    queue = CompactionQueue(apache)
    for each in tables:
        queue.request(each.ref, None, MAJOR)
    report = compacted(client, tables[1], "serve")
    assert [each.outcome for each in report.partitions] == ["compacted"] * 2
    for each in tables:
        assert [entry.state for entry in queue.show(each.ref)] == ["ready for cleaning"]
        assert each.rows() == expected_rows()


# 4. Compare and swap


def refuses_a_wrong_expectation(client: MetastoreClient, ref: TableRef) -> bool:
    raw = client.get_table(ref).raw
    wrong = {"expected_parameter_key": "transient_lastDdlTime", "expected_parameter_value": "1"}
    try:
        send_definition(client, ref, raw, wrong)
    except MetastoreError:
        return True
    return False


def test_a_comparison_is_relied_on_only_if_the_metastore_compares(
    vendor: VendorMetastore, client: MetastoreClient, table: TableRef
) -> None:
    assert refuses_a_wrong_expectation(client, table) == (vendor.profile.name == "cdp-7.3")
    with ExclusiveTable(client, table, None, 5) as held:
        relied = compares_definitions(client, client.get_table(table), held.confirm_alive)
    assert not relied or refuses_a_wrong_expectation(client, table)


@of("cdp-7.1.7", "cdp-7.1.9", "apache-2020-12", "mr3-3.1")
def test_a_column_that_another_client_added_is_not_lost_without_an_error(
    client: MetastoreClient, apache: MetastoreClient, table: TableRef
) -> None:
    def add_column() -> None:
        """Add a column after the locks have expired, without a lock, as other engines do."""
        for txn in apache.get_open_txns_info():
            apache.abort_txn(txn.txn_id)
        raw = apache.get_table(table).raw
        raw.sd.cols = [*raw.sd.cols, type(raw.sd.cols[0])("w", "int", None)]
        send_definition(apache, table, raw)

    with (
        acting_before("alter_table_with_environment_context", add_column),
        pytest.raises(MetastoreError, match=f"The locks on {table} were lost"),
    ):
        run(client, f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")


# 5. Unknown calls and fields


@of("cdp-7.1.9")
def test_a_request_without_work_does_not_stay_claimed(
    client: MetastoreClient, apache: MetastoreClient, table: TableRef
) -> None:
    queue = CompactionQueue(apache)
    queue.request(table, None, MAJOR)
    served = CompactionTransaction.serve(client, table=table)
    assert served is not None
    with served:
        served.refuse("nothing to do")
    assert served.warnings == []
    assert "working" not in [entry.state for entry in queue.show(table)]


def test_all_constraints_are_read(
    client: MetastoreClient, apache: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "t")
    declared = [NotNull(column="id", name="nn"), Key(type="primary", columns=["id"], name="pk")]
    columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
    client.create_table(HiveTable.new(ref, columns), as_structs(ref, declared))
    assert {*all_constraints(client, ref).all} == {*declared}
    assert all_constraints(client, ref) == all_constraints(apache, ref)


def test_known_problems_are_found_without_a_refused_trial(client: MetastoreClient) -> None:
    assert Evidence.of(client).refusal == ""


@pytest.mark.parametrize("kind", ["hms"], indirect=True)
@pytest.mark.server
def test_statistics_of_timestamps_are_stored(
    client: MetastoreClient, apache: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "t")
    columns = [HiveColumn("id", "int"), HiveColumn("at", "timestamp")]
    client.create_table(HiveTable.new(ref, columns))
    with AcidTable(str(ref), client.options, run_in="worker") as writer:
        writer.append(pa.table({"id": [1, 2], "at": [datetime(2026, 1, 2), datetime(2026, 3, 4)]}))
    analyze(client, AnalyzeJob(target=str(ref), metastore=client.options))
    seconds = [datetime(2026, *day, tzinfo=UTC).timestamp() for day in ((1, 2), (3, 4))]
    assert Stored(apache, ref).columns == {"id": (0, 1, 2), "at": (0, *seconds)}


# 6. Fields of tables


def sent_tables(vendor: VendorMetastore) -> Iterator[dict[int, Any]]:
    """All definitions of tables that clients have sent, as fields by their numbers."""
    places: dict[str, Callable[[Message], Any]] = {
        "alter_table_with_environment_context": lambda call: call.fields[3],
        "alter_table_req": lambda call: call.fields[1].value.get(4),
    }
    for call in vendor.asked:
        # A question whether the call is known has none.
        if call.name in places and (table := places[call.name](call)):
            yield table.value


@of("cdp-7.1.7", "cdp-7.1.9", "cdp-7.3")
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {0} ADD COLUMNS (w int)",
        "ALTER TABLE {0} RENAME TO {0}_2",
        "ANALYZE TABLE {0} COMPUTE STATISTICS",
    ],
)
def test_fields_with_other_numbers_are_not_written_back(
    vendor: VendorMetastore,
    client: MetastoreClient,
    apache: MetastoreClient,
    database: str,
    statement: str,
) -> None:
    ref = TableRef(database, "t")
    table = HiveTable.new(ref, [HiveColumn("id", "int")])
    table.raw.requiredReadCapabilities = ["HIVEFULLACIDREAD"]
    table.raw.requiredWriteCapabilities = ["HIVEFULLACIDWRITE"]
    apache.create_table(table)
    run(client, statement.format(ref))
    sent = [*sent_tables(vendor)]
    assert sent
    assert all(number < TABLE_FIELDS for fields in sent for number in fields)


# 7. Columns by position


@pytest.fixture
def renamed(client: MetastoreClient, table: TableRef) -> TableRef:
    """A table with a row that was written before one of its columns was renamed."""
    with AcidTable(str(table), client.options, run_in="worker") as writer:
        writer.append(pa.table({"id": [1], "v": ["a"]}))
    raw = client.get_table(table).raw
    raw.sd.cols[1].name = "renamed"
    send_definition(client, table, raw)
    return table


@of("mr3-3.1", "cdp-7.1.7", "cdp-7.1.9", "cdp-7.3")
def test_a_renamed_column_is_read_by_the_stated_mapping(
    vendor: VendorMetastore, renamed: TableRef
) -> None:
    stated = vendor.stated(vendor.profile.name)
    assert TableScan(str(renamed), stated).to_arrow().to_pylist() == [{"id": 1, "renamed": "a"}]


@of("cdp-7.1.7", "cdp-7.1.9", "cdp-7.3", "apache-2020-12")
def test_a_renamed_column_is_not_read_before_the_mapping_is_stated(
    vendor: VendorMetastore, renamed: TableRef
) -> None:
    with pytest.raises(UnsupportedTable, match="metastore_profile"):
        TableScan(str(renamed), vendor.options).to_arrow()
