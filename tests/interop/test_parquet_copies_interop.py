"""Insert-only Parquet tables that Hive wrote, whose pages are copied to Iceberg."""

from datetime import date
from decimal import Decimal

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from tests.iceberg.case import LakeCase

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

# A type, and the values of two rows: as Hive writes them, and as Iceberg's reader returns them.
COLUMNS = {
    "flag": ("boolean", ("true", "null"), (True, None)),
    "tiny": ("tinyint", ("3Y", "null"), (3, None)),
    "small": ("smallint", ("-4S", "null"), (-4, None)),
    "number": ("int", ("1", "2"), (1, 2)),
    "large": ("bigint", ("1099511627776L", "null"), (1 << 40, None)),
    "single": ("float", ("cast(1.5 as float)", "null"), (1.5, None)),
    "ratio": ("double", ("2.5D", "null"), (2.5, None)),
    "text": ("string", ("'größer'", "''"), ("größer", "")),
    "blob": ("binary", ("cast('b' as binary)", "null"), (b"b", None)),
    "day": ("date", ("date '2020-01-02'", "null"), (date(2020, 1, 2), None)),
    "price": ("decimal(15,2)", ("cast(-1.25 as decimal(15,2))", "null"), (Decimal("-1.25"), None)),
    "tags": ("array<int>", ("array(1, 2)", "array(3)"), ([1, 2], [3])),
    "counts": (
        "map<string,int>",
        ("map('k', 1)", "map('z', cast(null as int))"),
        ([("k", 1)], [("z", None)]),
    ),
    "place": (
        "struct<x:int,y:string>",
        ("named_struct('x', 1, 'y', 'z')", "named_struct('x', cast(null as int), 'y', 'q')"),
        ({"x": 1, "y": "z"}, {"x": None, "y": "q"}),
    ),
    "nested": (
        "array<struct<q:int,r:array<string>>>",
        (
            "array(named_struct('q', 1, 'r', array('u', cast(null as string))))",
            "array(named_struct('q', 1, 'r', array('v')))",
        ),
        ([{"q": 1, "r": ["u", None]}], [{"q": 1, "r": ["v"]}]),
    ),
}


def test_all_types_that_hive_wrote_are_equal_in_iceberg(hive, tmp_path):
    columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    hive.sql(
        f"create table default.copied ({columns}) partitioned by (p string) stored as parquet "
        "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    expected = []
    for row, key in enumerate("ab"):
        values = ", ".join(written[row] for _, written, _ in COLUMNS.values())
        hive.sql(f"insert into default.copied partition (p='{key}') select {values}")
        expected.append({name: each[2][row] for name, each in COLUMNS.items()} | {"p": key})
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
        lake = LakeCase(client, "default.copied", tmp_path)
        report = lake.run()
        rows = lake.table().scan().to_arrow().to_pylist()
    assert (report.stripes_copied, report.stripes_encoded) == (2, 0)
    assert sorted(rows, key=lambda row: row["p"]) == expected
