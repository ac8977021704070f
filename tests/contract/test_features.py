"""What a client learns of a metastore, and what it does where that is not known."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import AlreadyCompacting, MetastoreError, UnsupportedMetastore
from hiveacid.metastore.alteration import alter_table
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.constraints import all_constraints, as_structs
from hiveacid.metastore.endpoint import Endpoint
from hiveacid.metastore.thrift import session
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.thrift.probes import Probes
from hiveacid.metastore.thrift.transport import Connection, Deadline
from hiveacid.metastore.txn.owner import Outcome, outcome
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.constraints import NotNull
from hiveacid.rules.features import HIVE_4
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import REAL_AND_FAKE
from tests.proxy import Harm, Proxy

FAKE_4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all calls, also of those that identify a server."""
    made: list[str] = []
    invoke = Connection.invoke

    def note(self: Connection, call: Any, *arguments: Any, **options: Any) -> Any:
        made.append(call.name)
        return invoke(self, call, *arguments, **options)

    monkeypatch.setattr(Connection, "invoke", note)
    return made


@contextmanager
def having(client: MetastoreClient, **values: Any) -> Iterator[None]:
    """Let the metastore lack features, as the metastores of vendors do."""
    features = replace(client.features, **values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.Session, "features", features)
        yield


@REAL_AND_FAKE
def test_apache_s_metastores_are_known_by_as_many_calls_as_ever(
    hms: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Like a process that knows no metastore.
    monkeypatch.setattr(session, "_IDENTIFIED", {})
    monkeypatch.setattr(session, "_FEATURES", {})
    for others in (["get_valid_write_ids"] if hms.version == "3.1.3" else [], []):
        calls.clear()
        with MetastoreClient(hms.options) as client:
            assert client.features.names_conflicts == (hms.version != "3.1.3")
            client.get_databases()
        assert calls == ["getVersion", *others, "set_ugi", "get_all_databases"]


@REAL_AND_FAKE
def test_probes_find_what_is_known_of_apache_s_metastores_and_leave_nothing(
    hms: Any, client: MetastoreClient, database: str, calls: list[str]
) -> None:
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    queue = CompactionQueue(client)
    queue.request(ref, None, CompactionType.MAJOR)

    def state() -> Any:
        return queue.show(ref), client.show_locks(), client.get_open_txns_info()

    before = state()
    calls.clear()

    def connect(deadline: Deadline) -> Connection:
        return Connection(Endpoint.parse(hms.uri)[0], hms.options, deadline)

    found = Probes(connect, Deadline(60), "tests").features()
    # A client makes two more: the release, and the call for conflicts.
    assert len(calls) + 2 <= 15
    expected = HIVE_4 if hms.version != "3.1.3" else dict.fromkeys(HIVE_4, False)
    assert found == {name: expected[name] for name in found}
    assert state() == before


@REAL_AND_FAKE
@pytest.mark.parametrize("harm", [Harm.FAIL, Harm.LOSE, Harm.GARBLE])
@pytest.mark.parametrize("call", ["lock", "show_locks", "unlock"])
def test_a_probe_leaves_no_lock_where_calls_fail_at_first(
    hms: Any, client: MetastoreClient, call: str, harm: Harm
) -> None:
    before = client.show_locks()
    with closing(Proxy(hms, call, harm=harm, arrives=call == "lock", times=2)) as proxy:

        def connect(deadline: Deadline) -> Connection:
            return Connection(Endpoint.parse(proxy.uri)[0], hms.options, deadline)

        found = Probes(connect, Deadline(60), "tests").features()
    assert proxy.cuts or hms.version == "3.1.3"  # There, no such lock exists.
    assert found["has_excl_write"] == (hms.version != "3.1.3")
    assert client.show_locks() == before


@REAL_AND_FAKE
def test_a_profile_of_another_metastore_is_refused(hms: Any) -> None:
    other = "cdp-7.3" if hms.version == "3.1.3" else "hive-3.1"
    with (
        MetastoreClient(replace(hms.options, metastore_profile=other)) as client,
        pytest.raises(UnsupportedMetastore, match=f"The profile {other} states"),
    ):
        _ = client.features


@FAKE_4
def test_constraints_that_a_metastore_changes_with_a_definition_are_an_error(
    hms: Any, client: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "t")
    named = as_structs(ref, [NotNull(column="id", name="nn")])
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]), named)
    table, constraints = client.get_table(ref), hms._catalog._constraints

    def setting(value: str) -> Callable[[Any], bool]:
        def change(raw: Any) -> bool:
            is_new = raw.parameters.get("a") != value
            raw.parameters["a"] = value
            return bool(is_new)

        return change

    def forget() -> None:
        constraints.forget(ref.database, ref.name)

    with having(client, keeps_constraints=None):
        assert alter_table(client, table, setting("b"), lambda: None)
        with pytest.raises(MetastoreError, match=r"changed the constraints of .*: nn\."):
            alter_table(client, table, setting("c"), forget)
    assert all_constraints(client, ref).all == ()


@FAKE_4
def test_the_fields_of_a_table_with_other_numbers_are_forgotten(
    client: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "t")
    table = HiveTable.new(ref, [HiveColumn("id", "int")])
    table.raw.requiredReadCapabilities = ["R"]
    client.create_table(table)
    assert client.get_table(ref).raw.requiredReadCapabilities == ["R"]
    with having(client, has_table_fields=False):
        raw = client.get_table(ref).raw
        assert (raw.requiredReadCapabilities, raw.id, raw.txnId) == (None, None, None)


@pytest.fixture
def compacted(client: MetastoreClient, database: str) -> TableRef:
    """A table with a write."""
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    with Transaction(client, targets=[Target(ref, Operation.INSERT)]) as transaction:
        transaction.commit()
    return ref


@FAKE_4
def test_the_abort_of_a_compaction_without_a_request_is_remembered(
    hms: Any, client: MetastoreClient, compacted: TableRef
) -> None:
    """Its directory would otherwise be read later, beside those of the next compaction."""
    compaction = CompactionTransaction(client, compacted, None, CompactionType.MAJOR)
    with having(client, has_pools=False), compaction:
        assert compaction.visibility_txn == compaction.txn_id
    hms.keep_house()
    assert client.show_locks() == []
    assert CompactionQueue(client).show(compacted) == []
    txns = {txn.txn_id: txn.state for txn in client.get_open_txns_info()}
    assert txns[compaction.txn_id] is TxnState.ABORTED


@FAKE_4
def test_a_compaction_without_a_request_gives_way_to_a_request_of_others(
    client: MetastoreClient, compacted: TableRef
) -> None:
    with having(client, has_pools=False):
        with CompactionTransaction(client, compacted, None, CompactionType.MAJOR) as compaction:
            CompactionQueue(client).request(compacted, None, CompactionType.MINOR)
            with pytest.raises(AlreadyCompacting, match="is initiated"):
                compaction.commit()
        assert outcome(client, compaction.txn_id, {}) is Outcome.ABORTED


@FAKE_4
def test_two_compactions_without_requests_exclude_each_other(
    client: MetastoreClient, compacted: TableRef
) -> None:
    with having(client, has_pools=False):
        with CompactionTransaction(client, compacted, None, CompactionType.MAJOR) as first:
            second = CompactionTransaction(client, compacted, None, CompactionType.MINOR)
            with pytest.raises(AlreadyCompacting, match="Another compactor"), second:
                pass
            first.commit()
        assert outcome(client, first.txn_id, {}) is Outcome.COMMITTED
        with CompactionTransaction(client, compacted, None, CompactionType.MAJOR) as third:
            third.commit()
    assert client.show_locks() == []
