"""The proxy answers as the profile of a vendor states, and is otherwise invisible."""

import io
from random import Random
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.jobs.options import METASTORE_PROFILES
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from tests.vendors.profiles import PROFILES, Certainty
from tests.vendors.proxy import VendorMetastore
from tests.vendors.raw_client import RawClient, struct, text
from tests.vendors.wire import Field, Message, read, written

UNKNOWN, REQUIRED = TApplicationException.UNKNOWN_METHOD, TApplicationException.PROTOCOL_ERROR
of = pytest.mark.parametrize


def random_value(random: Random, of_type: tuple[int, Any]) -> Any:
    """A random value of a type of Thrift's codec."""
    kind, more = of_type
    match kind:
        case TType.BOOL:
            return random.random() < 0.5
        case TType.BYTE | TType.I16 | TType.I32 | TType.I64:
            return random.randrange(-100, 100)
        case TType.DOUBLE:
            return random.random()
        case TType.STRING:
            value = random.choice(["", "a", "ü" * 9])
            return value.encode() if more == "BINARY" else value
        case TType.STRUCT:
            return random_struct(random, more[0])
        case TType.LIST | TType.SET:
            values = [random_value(random, more[:2]) for _ in range(random.randrange(3))]
            return values if kind == TType.LIST else {*values}
        case TType.MAP:
            pairs = range(random.randrange(3))
            key = more[:2] if more[0] != TType.LIST else (TType.STRING, "UTF8")
            if more[0] == TType.LIST:
                return {}
            return {random_value(random, key): random_value(random, more[2:4]) for _ in pairs}
    raise AssertionError(kind)


def random_struct(random: Random, declared: Any) -> Any:
    fields = [each for each in declared.thrift_spec if each and random.random() < 0.7]
    return declared(
        **{name: random_value(random, (kind, more)) for _, kind, name, more, _ in fields}
    )


def test_messages_are_written_as_they_were_read() -> None:
    structs = [
        declared
        for module in (idl_tables, idl_txns)
        for declared in vars(module).values()
        if getattr(declared, "thrift_spec", None)
    ]
    for seed in range(100):
        random = Random(seed)
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.writeMessageBegin("a_call", TMessageType.CALL, seed)
        random_struct(random, random.choice(structs)).write(protocol)
        sent = buffer.getvalue()
        stream = io.BytesIO(sent * 2)
        for _ in range(2):
            message = read(stream.read)
            assert message is not None
            assert (message.name, message.sequence) == ("a_call", seed)
            assert written(message) == sent
        assert read(stream.read) is None


@of("cut", [2, 10, 30, -1])
def test_a_message_that_ends_early_is_no_message(cut: int) -> None:
    sent = written(Message("a_call", TMessageType.CALL, 1, {1: text("x" * 100)}))
    with pytest.raises(ValueError, match="ends in"):
        read(io.BytesIO(sent[:cut]).read)


def test_every_difference_has_a_source_and_a_certainty() -> None:
    for profile in PROFILES.values():
        for rule in profile.rules:
            assert rule.source
            assert rule.certainty in Certainty
            assert rule.unknown or rule.structs or rule.enums or rule.ignored or rule.answers
        changed = [name for rule in profile.rules for name in rule.answers]
        assert len(changed) == len({*changed}), profile.name


def test_users_can_state_the_profiles() -> None:
    names = {name for name, profile in PROFILES.items() if profile.is_stated}
    assert names < {*METASTORE_PROFILES}


def test_a_connection_survives_an_unknown_call(vendor: VendorMetastore) -> None:
    with RawClient(vendor) as raw:
        for call in (*vendor.profile.unknown, "no_such_call"):
            assert raw.error(call, _1=struct()) == UNKNOWN
        assert raw.result("get_all_databases")


def test_the_question_whether_a_call_is_known_executes_nothing(vendor: VendorMetastore) -> None:
    """An empty struct lacks fields that the call requires."""
    expected = UNKNOWN if vendor.profile.apache == "3.1.3" else REQUIRED
    for call in ("mark_failed", "create_table_req", "alter_table_req", "update_compactor_state"):
        with RawClient(vendor) as raw:
            assert raw.error(call, _1=struct()) == expected, call


@of("vendor", ["cdp-7.3"], indirect=True)
def test_the_newest_cdp_selects_requests_by_its_own_numbers(
    vendor: VendorMetastore, apache: MetastoreClient, database: str
) -> None:
    ref = table(apache, database)
    CompactionQueue(apache).request(ref, None, CompactionType.MAJOR)
    with RawClient(vendor) as raw:

        def shown(**filters: Field) -> list[Any]:
            return list(raw.result("show_compact", _1=struct(**filters))[1].value.values)

        (entry,) = shown(_4=text(database), _5=text("t"))
        assert entry[2].value == b"t"
        assert shown(_3=text(database), _4=text("t")) == []


@of("vendor", ["cdp-7.1.9"], indirect=True)
def test_an_old_cdp_neither_filters_requests_nor_has_pools(
    vendor: VendorMetastore, apache: MetastoreClient, database: str
) -> None:
    ref, other = table(apache, database), table(apache, database, "other")
    CompactionQueue(apache).request(other, None, CompactionType.MAJOR)
    with RawClient(vendor) as raw:
        requested = struct(
            _1=text(database), _2=text("t"), _4=Field(TType.I32, 2), _9=text("a_pool")
        )
        assert 4 not in raw.result("compact2", _1=requested)
        filters = struct(_3=text(database), _4=text("t"))
        shown = raw.result("show_compact", _1=filters)[1].value.values
        assert {entry[2].value for entry in shown} >= {b"t", b"other"}
        assert all(number <= 18 for entry in shown for number in entry)
        request = struct(_1=text("me"), _2=text("1"), _3=text("a_pool"))
        claimed = raw.result("find_next_compact2", _1=request)[1].value
        assert claimed[3].value == b"other"
        assert raw.error("find_next_compact2", _1=struct(_1=text("me"))) == REQUIRED
        assert raw.ask("get_all_databases") is None
    assert CompactionQueue(apache).show(ref)[0].pool is None


@of("vendor", ["cdp-7.1.7", "cdp-7.1.9", "cdp-7.3"], indirect=True)
def test_cdp_has_the_number_of_a_table_in_another_field(
    vendor: VendorMetastore, apache: MetastoreClient, database: str
) -> None:
    table(apache, database)
    with RawClient(vendor) as raw, RawClient(vendor.behind) as behind:
        seen, known = raw.definition(database, "t"), behind.definition(database, "t")
    assert known[25].value > 0
    assert 25 not in seen or seen[25].type == TType.LIST
    assert seen[26] == known[25]
    assert {number: field for number, field in seen.items() if number < 22} == {
        number: field for number, field in known.items() if number < 22
    }


@of("vendor", ["cdp-7.1.7", "cdp-7.1.9", "apache-2020-12"], indirect=True)
def test_an_unknown_type_of_a_transaction_is_the_usual_one(
    vendor: VendorMetastore, apache: MetastoreClient
) -> None:
    """Java leaves a field with an unknown value of an enum unset, unless it is required."""
    request = struct(_1=Field(TType.I32, 1), _2=text("u"), _3=text("h"), _7=Field(TType.I32, 6))
    with RawClient(vendor) as raw:
        (txn_id,) = raw.result("open_txns", _1=request)[1].value.values
        assert apache.heartbeat(txn_id).value == "open"
        apache.abort_txn(txn_id)
        rebalance = struct(_1=text("default"), _2=text("t"), _4=Field(TType.I32, 3))
        assert raw.error("compact2", _1=rebalance) == REQUIRED


def table(apache: MetastoreClient, database: str, name: str = "t") -> TableRef:
    ref = TableRef(database, name)
    apache.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    return ref
