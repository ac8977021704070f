"""Engines find rows by statistics and row indexes of ours.

Because of NaN, the two zeros, and texts beyond U+E000, Hive loses rows by statistics that mislead. Decimals have statistics and
row indexes that we make ourselves where compactions write rows again.
"""

import math
from decimal import Decimal

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

COLUMNS = {"id": "int", "d": "double", "f": "float", "s": "struct<x:double>", "text": "string"}
SCHEMA = "id int, d double, f float, s struct<x:double>, text string"
# Every row group begins otherwise: with NaN, with NaN later on, and with both zeros at both ends.
GROUPS = [
    [math.nan, 0.0, 1.0, 7.0],
    [0.0, math.nan, -3.0, 9.0],
    [-5.0, -0.0, 0.0, -1.0],
    [0.0, -0.0, 5.0, 6.0],
    [math.inf, -math.inf, 0.0, 2.0],
    [5.0, 6.0, 7.0, 8.0],
]
VALUES = [value for group in GROUPS for value in group * 250]
CONDITIONS = {
    "{} = 0": lambda value: value == 0,
    "{} < 5": lambda value: value < 5,
    "{} > 5": lambda value: value > 5,
    "{} >= 0": lambda value: value >= 0,
    "{} <= 0": lambda value: value <= 0,
    "{} between 5 and 6": lambda value: 5 <= value <= 6,
    "{} = -0.0D": lambda value: value == 0,
    "{} >= -0.0D": lambda value: value >= 0,
    "{} in (5, 8)": lambda value: value in (5, 8),
}


@pytest.fixture
def create(spark, hive):
    def created(name, columns=COLUMNS):
        table = f"default.{name}"
        columns = [HiveColumn(*each) for each in columns.items()]
        parameters = {"orc.row.index.stride": "1000", "orc.compress": "ZLIB"}
        with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
            client.create_table(
                HiveTable.new(TableRef.parse(table), columns, parameters=parameters)
            )
        return table, AcidTable(table, hive.metastore_uri, spark=spark, run_in="spark")

    return created


def rows(first, text):
    """Rows of all values, ids from `first` on."""
    return [
        (number, value, value, (value,), text(number)) for number, value in enumerate(VALUES, first)
    ]


def lost(hive, table, expected):
    """For each condition how many of the rows that match Hive does not find."""
    missing = {}
    for column in ("d", "f", "s.x"):
        for condition, holds in CONDITIONS.items():
            text = condition.format(column)
            found = {int(row[0]) for row in hive.sql(f"select id from {table} where {text}")}
            wanted = {id_ for id_, value in expected.items() if holds(value)}
            if wanted - found:
                missing[text] = len(wanted - found)
            # Hive defines the comparison of NaN in conditions.
            assert all(math.isnan(expected[id_]) for id_ in found - wanted), text
    return missing


def small(number):
    return "x"


def large(number):
    """Texts that make a stripe too large to be written again."""
    return "".join(f"{number * 7919 + k:x}" for k in range(300))


@pytest.mark.parametrize(("name", "text"), [("encoded", small), ("copied", large)])
def test_hive_finds_every_row_that_we_write_and_compact(spark, hive, create, name, text):
    table, acid = create(f"ranges_{name}")
    with acid:
        acid.append(spark.createDataFrame(rows(0, text), SCHEMA).coalesce(1))
        acid.append(spark.createDataFrame(rows(10_000, text), SCHEMA).coalesce(1))
        expected = dict(enumerate(VALUES)) | dict(enumerate(VALUES, 10_000))
        assert lost(hive, table, expected) == {}
        acid.update({"id": "id + 50000"}, "id < 1010")
        moved = {id_ + 50_000: expected.pop(id_) for id_ in range(1010)}
        acid.delete("id = 1500")
        expected = {id_: value for id_, value in (expected | moved).items() if id_ != 1500}
        assert lost(hive, table, expected) == {}
        for number, kind in enumerate(("minor", "major"), 60_000):
            # The metastore compacts nothing again before the next write.
            acid.append(spark.createDataFrame([(number, 5.0, 5.0, (5.0,), "x")], SCHEMA))
            expected[number] = 5.0
            (done,) = acid.compact(kind).partitions
            assert done.outcome == "compacted"
            assert lost(hive, table, expected) == {}
        assert (done.stripes_copied > 0) == (name == "copied")


def test_our_compactions_repair_hive_s_files(spark, hive, create):
    ours, acid = create("ranges_ours")
    with acid:
        acid.append(spark.createDataFrame(rows(0, large), SCHEMA).coalesce(1))
    table, acid = create("ranges_of_hive")
    expected = dict(enumerate(VALUES))
    with acid:
        hive.sql(f"insert into {table} select * from {ours} where id < 3000 order by id")
        hive.sql(f"insert into {table} select * from {ours} where id >= 3000 order by id")
        assert lost(hive, table, expected) != {}
        (done,) = acid.compact("minor").partitions
        assert (done.outcome, done.stripes_encoded) == ("compacted", 0)
        assert lost(hive, table, expected) == {}
        hive.sql(f"insert into {table} select id + 10000, d, f, s, text from {ours} where id < 600")
        expected |= dict(enumerate(VALUES[:600], 10_000))
        assert lost(hive, table, expected) != {}
        (done,) = acid.compact("major").partitions
        assert done.outcome == "compacted"
        assert lost(hive, table, expected) == {}


def test_hive_finds_texts_whose_encodings_have_different_orders(spark, hive, create):
    wave, grin = "\uff5e", "\U0001f600"
    texts = ["a", wave, grin, "b" + wave, "b" + grin] * 400
    columns = {"id": "int", "text": "string"}
    ours, acid = create("ranges_texts", columns)
    of_hive, acid_of_hive = create("ranges_texts_of_hive", columns)

    def lost(table):
        found = {}
        for text in (wave, grin, "b" + wave, "b" + grin):
            for operator in ("=", "<=", ">="):
                condition = f"text {operator} '{text}'"
                ((count,),) = hive.sql(f"select count(id) from {table} where {condition}")
                # The order of Python's texts is that of their bytes.
                compare = {"=": text.__eq__, "<=": text.__ge__, ">=": text.__le__}[operator]
                found[condition] = sum(map(compare, texts)) - int(count)
        return {condition: count for condition, count in found.items() if count}

    with acid, acid_of_hive:
        acid.append(
            spark.createDataFrame(list(enumerate(texts)), "id int, text string").coalesce(1)
        )
        assert lost(ours) == {}
        for half in ("<", ">="):
            rows = f"select id, text from {ours} where id {half} 1000 order by id"
            hive.sql(f"insert into {of_hive} {rows}")
        assert lost(of_hive) != {}
        (done,) = acid_of_hive.compact("major").partitions
        assert done.outcome == "compacted"
        assert lost(of_hive) == {}


def test_hive_and_trino_find_decimals_that_were_written_again(spark, hive, trino, create):
    columns = {"id": "int", "p": "decimal(15,2)", "r": "decimal(18,6)", "wide": "decimal(20,2)"}
    table, acid = create("ranges_decimals", columns)
    prices = {
        number: None if number % 9 == 0 else Decimal(number * 7919 % 100_003 - number**2) / 100
        for number in range(9_500)
    }
    rows = [(number, price, price and price / 1000, price) for number, price in prices.items()]
    schema = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    with acid:
        acid.append(spark.createDataFrame(rows, schema).coalesce(1))
        acid.delete("id % 50 = 3")
        (done,) = acid.compact("major").partitions
    assert (done.outcome, done.stripes_copied, done.stripes_encoded) == ("compacted", 0, 1)
    left = {number: price for number, price in prices.items() if number % 50 != 3}
    known = {number: price for number, price in left.items() if price is not None}
    for engine in (hive, trino):
        for low, high in [(0, 9_500), (950, 1_050), (3_999, 4_001), (6_000, 6_001), (9_400, 9_500)]:
            wanted = [known[number] for number in range(low, high) if number in known]
            sums = f"select count(*), sum(p), sum(r) * 1000, sum(wide) from {table}"
            ((count, *totals),) = engine.sql(f"{sums} where id >= {low} and id < {high}")
            assert int(count) == sum(low <= number < high for number in left)
            assert [Decimal(total) for total in totals] == [sum(wanted)] * 3
        for number in (1, 1_001, 5_555, 9_499):
            # Of the same value there are others.
            wanted = {id_ for id_, price in known.items() if price == prices[number]}
            found = engine.sql(f"select id from {table} where p = {prices[number]}")
            assert {int(row[0]) for row in found} == wanted
        ((nulls,),) = engine.sql(f"select count(*) from {table} where p is null")
        assert int(nulls) == len(left) - len(known)
