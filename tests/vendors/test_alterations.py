"""Alterations through a vendor's metastore change nothing else in a definition, byte by byte."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import as_structs
from hiveacid.metastore.thrift import idl_tables
from hiveacid.parser.script import to_jobs
from hiveacid.rules.constraints import Check, Constraint, Default, Key, NotNull
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from tests.vendors.proxy import VendorMetastore
from tests.vendors.raw_client import RawClient
from tests.vendors.wire import Fields, Items, Pairs

pytestmark = pytest.mark.sampled(4)
NAME, STORAGE, PARAMETERS, WRITE_ID = 1, 7, 9, 19
COLUMNS, LOCATION = 1, 2
# The time of the last change, and the revocation of statistics.
TIMES = {"transient_lastDdlTime", "COLUMN_STATS_ACCURATE"}
DECLARED: list[Constraint] = [
    Key(type="primary", columns=["id", "v"], name="pk", rely=True),
    Key(type="unique", columns=["k"], name="uq"),
    NotNull(column="id", name="nn"),
    Check(expression="`k` > 0", column="k", name="ck"),
    Default(column="v", value="'x'", name="df"),
]


@pytest.fixture
def table(apache: MetastoreClient, database: str) -> TableRef:
    """A table that another engine has created, with as much in its definition as there can be."""
    ref = TableRef(database, "t")
    columns = [HiveColumn("id", "int", "a comment"), HiveColumn("v", "string")]
    table = HiveTable.new(
        ref,
        [*columns, HiveColumn("k", "int")],
        partition_keys=[HiveColumn("p", "string", "a key")],
        owner="olga",
        parameters={"comment": "ä", "an.empty": ""},
    )
    raw: Any = table.raw
    raw.retention, raw.lastAccessTime = 3, 5
    raw.sd.bucketCols, raw.sd.numBuckets = ["id"], 4
    raw.sd.serdeInfo.parameters = {"serialization.format": "1"}
    raw.sd.skewedInfo = idl_tables.SkewedInfo(
        skewedColNames=["v"], skewedColValues=[["a"], ["b"]], skewedColValueLocationMaps={}
    )
    apache.create_table(table, as_structs(ref, DECLARED))
    return ref


def run(client: MetastoreClient, sql: str) -> None:
    for job in to_jobs(sql):
        run_ddl(client, job)


def comparable(definition: Fields) -> Fields:
    """Return a definition with its parameters in order, and without those of its last change."""
    found = dict(definition)
    found.pop(WRITE_ID, None)
    pairs: Pairs = found[PARAMETERS].value
    kept = sorted(pair for pair in pairs.entries if pair[0].decode() not in TIMES)
    found[PARAMETERS] = found[PARAMETERS]._replace(value=pairs._replace(entries=kept))
    return found


def with_property(definition: Fields) -> None:
    pairs: Pairs = definition[PARAMETERS].value
    pairs.entries.append((b"a", b"b"))


def with_column(definition: Fields) -> None:
    columns: Items = definition[STORAGE].value[COLUMNS].value
    first = columns.values[0]
    named = {1: b"w", 2: b"int"}
    columns.values.append({n: first[n]._replace(value=value) for n, value in named.items()})


def with_name(definition: Fields) -> None:
    definition[NAME] = definition[NAME]._replace(value=b"other")
    storage = definition[STORAGE].value
    place = storage[LOCATION].value.rpartition(b"/")[0] + b"/other"
    storage[LOCATION] = storage[LOCATION]._replace(value=place)


@pytest.mark.parametrize(
    ("statement", "name", "change"),
    [
        ("ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'b')", "t", with_property),
        ("ALTER TABLE {0} ADD COLUMNS (w int)", "t", with_column),
        ("ALTER TABLE {0} RENAME TO {1}.other", "other", with_name),
    ],
    ids=["property", "column", "name"],
)
def test_nothing_else_changes(
    vendor: VendorMetastore,
    client: MetastoreClient,
    table: TableRef,
    statement: str,
    name: str,
    change: Callable[[Fields], None],
) -> None:
    with RawClient(vendor.behind) as raw:
        expected = raw.definition(table.database, table.name)
        constraints = raw.constraints(table.database, table.name)
        # The metastore perhaps moves constraints to other columns.
        with suppress(UnsupportedTable):
            run(client, statement.format(table, table.database))
            change(expected)
        assert comparable(raw.definition(table.database, name)) == comparable(expected)
        renamed = {kind: _with_name(answer, name.encode()) for kind, answer in constraints.items()}
        assert raw.constraints(table.database, name) == renamed


def _with_name(answer: Any, name: bytes) -> Any:
    """Return the answer of a call for constraints with another name of their table."""
    match answer:
        case dict():
            return {number: _with_name(each, name) for number, each in answer.items()}
        case Items():
            return answer._replace(values=[_with_name(each, name) for each in answer.values])
        case tuple():
            return answer._replace(value=_with_name(answer.value, name))
        case b"t":
            return name
    return answer
