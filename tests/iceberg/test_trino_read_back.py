"""Exports and mirrors as Trino's connector for Iceberg reads them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.jobs.iceberg_job import (
    IcebergDeletes,
    IcebergExportReport,
    IcebergFileFormat,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import Delta, TableRef, parse_partition_name
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable
from tests.cli.acid_files import write_events
from tests.compaction.written_table import WrittenTable
from tests.fakes.metastore import FakeMetastore
from tests.golden import GoldenSnapshot
from tests.iceberg.conftest import in_database
from tests.iceberg.lakes import ServedCatalog, exported
from tests.iceberg.mirror_history import MirrorHistory, counted
from tests.iceberg.test_golden_exports import COPIED
from tests.iceberg.test_mirror import Mirror
from tests.iceberg.trino_lake import TrinoLake
from tests.interop.engines import Trino
from tests.live.postgres import Postgres
from tests.orc import orc_tables
from tests.orc.acid_files import enveloped, with_acid_metadata
from tests.samples import random_of_commit
from tests.scan.test_golden_tables import opened

pytestmark = pytest.mark.iceberg

# The columns of the table, and the types that Trino shows.
TYPES = {
    "flag": ("boolean", pa.bool_(), "boolean"),
    "tiny": ("tinyint", pa.int8(), "integer"),
    "small": ("smallint", pa.int16(), "integer"),
    "n": ("int", pa.int32(), "integer"),
    "number": ("bigint", pa.int64(), "bigint"),
    "single": ("float", pa.float32(), "real"),
    "real": ("double", pa.float64(), "double"),
    "text": ("string", pa.string(), "varchar"),
    "code": ("varchar(20)", pa.string(), "varchar"),
    "blob": ("binary", pa.binary(), "varbinary"),
    "day": ("date", pa.date32(), "date"),
    "moment": ("timestamp", pa.timestamp("ns"), "timestamp(6)"),
    "instant": (
        "timestamp with local time zone",
        pa.timestamp("ns", "UTC"),
        "timestamp(6) with time zone",
    ),
    "price": ("decimal(15,2)", pa.decimal128(15, 2), "decimal(15,2)"),
    "wide": ("decimal(38,10)", pa.decimal128(38, 10), "decimal(38,10)"),
    "tags": ("array<string>", pa.list_(pa.string()), "array(varchar)"),
    "counts": ("map<string,int>", pa.map_(pa.string(), pa.int32()), "map(varchar, integer)"),
    "place": (
        "struct<x:int,inner:struct<names:array<string>>>",
        orc_tables.SCHEMA.field("place").type,
        "row(x integer, inner row(names array(varchar)))",
    ),
}
EXTREMES: list[dict[str, Any]] = [
    {
        "flag": False,
        "tiny": -128,
        "small": -32768,
        "n": -(1 << 31),
        "number": -(1 << 63),
        "single": float("nan"),
        "real": float("nan"),
        "text": "",
        "code": "",
        "blob": b"",
        "day": date(1582, 10, 15),
        "moment": datetime(1969, 12, 31, 23, 59, 58),
        "instant": datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC),
        "price": Decimal("-9999999999999.99"),
        "wide": Decimal("-9999999999999999999999999999.9999999999"),
        "tags": [],
        "counts": [],
        "place": {"x": None, "inner": {"names": []}},
    },
    {
        "flag": True,
        "tiny": 127,
        "small": 32767,
        "n": (1 << 31) - 1,
        "number": (1 << 63) - 1,
        "single": float("inf"),
        "real": float("-inf"),
        "text": "\U0001f600" * 30,
        "code": "ü '%/=",
        "blob": b"\x00\xff",
        "day": date(9999, 12, 31),
        "moment": datetime(2200, 3, 29, 2, 30, 0, 123456),
        "instant": datetime(2200, 3, 29, 2, 30, 0, 123456, UTC),
        "price": Decimal("9999999999999.99"),
        "wide": Decimal("9999999999999999999999999999.9999999999"),
        "tags": [None, ""],
        "counts": [("", None)],
        "place": {"x": 1, "inner": None},
    },
    {"real": -0.0, "single": 0.1},
    {},
]


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    with closing(Trino(tmp_path_factory.mktemp("trino"))) as server:
        yield server


@pytest.fixture
def in_trino(trino: Trino) -> Iterator[Callable[[ServedCatalog], TrinoLake]]:
    """Open a catalog in Trino."""
    opened: list[TrinoLake] = []

    def open_(served: ServedCatalog) -> TrinoLake:
        opened.append(TrinoLake(trino, served))
        return opened[-1]

    yield open_
    for lake in opened:
        lake.close()


@pytest.fixture(scope="module")
def database_of_all(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> ServedCatalog:
    return in_database(postgres, tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def lake_of_all(trino: Trino, database_of_all: ServedCatalog) -> Iterator[TrinoLake]:
    """That catalog in Trino."""
    with closing(TrinoLake(trino, database_of_all)) as lake:
        yield lake


def shown(value: Any) -> Any:
    """Return a value that equals itself: NaN is one, and times are in UTC."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return {key: shown(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [shown(inside) for inside in value]
    return value


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(str(shown(dict(row))) for row in rows)


def written(
    folder: Path,
    columns: Mapping[str, str],
    partitions: Mapping[str | None, pa.Table],
    keys: Mapping[str, str],
    deleted: Sequence[int],
) -> VisibleTable:
    """Write a table of one write id, some of whose rows a second one deletes in each partition."""
    for name, rows in partitions.items():
        root = folder / (name or "")
        row_ids = [(1, encode_bucket(0), number) for number in range(rows.num_rows)]
        file = with_acid_metadata(
            orc_tables.flat_file(enveloped(orc_tables.flat_file(rows), row_ids)), row_ids
        )
        delta = root / Delta(1, 1, 0).name
        delta.mkdir(parents=True)
        (delta / "bucket_00000").write_bytes(file.getvalue())
        if deleted:
            delete = root / Delta(2, 2, 0, is_delete=True).name
            write_events(delete / "bucket_00000", [(1, number, 2) for number in deleted])
    table = HiveTable.new(
        TableRef("default", "t"),
        [HiveColumn(*each) for each in columns.items()],
        partition_keys=[HiveColumn(*each) for each in keys.items()],
        location=str(folder),
    )
    table.raw.createTime = 1
    return VisibleTable(
        title="t",
        partitioned=bool(keys),
        partitions=[
            PartitionDirectory(
                name,
                {} if name is None else dict(parse_partition_name(name)),
                Storage.of(str(folder / (name or ""))),
                StorageFormat.ORC,
            )
            for name in partitions
        ],
        write_ids=ValidWriteIdList.parse("default.t:2:9223372036854775807::"),
        txns=ValidTxnList.parse("2:9223372036854775807::"),
        rules=Rules.HIVE4,
        strict=True,
        table=table,
    )


def every_type() -> pa.Table:
    """Random rows, with extreme ones at the end."""
    schema = pa.schema({name: type_ for name, (_, type_, _) in TYPES.items()})
    random = orc_tables.table(50).to_pylist()
    for row in random:
        more = {"small": row["tiny"], "n": row["tiny"], "code": row["text"]}
        # Arrow's times in nanoseconds are texts of pandas where that is installed.
        moment = row["moment"] and datetime.fromisoformat(str(row["moment"]))
        instant = moment and moment.replace(tzinfo=UTC)
        row |= {**more, "single": row["tiny"], "wide": row["price"], "moment": moment}
        row["instant"] = instant
    rows = [{name: row.get(name) for name in TYPES} for row in [*random, *EXTREMES]]
    return pa.Table.from_pylist(rows, schema)


def in_microseconds(rows: pa.Table) -> list[dict[str, Any]]:
    found = [
        column.cast(pa.timestamp("us", column.type.tz))
        if pa.types.is_timestamp(column.type)
        else column
        for column in rows.columns
    ]
    return pa.table(found, names=rows.column_names).to_pylist()


@pytest.mark.parametrize(
    ("deleted", "deletes"),
    [((), "apply"), ((3, 7, 49), "apply"), ((3, 7, 49), "positions")],
    ids=["whole", "deleted", "positions"],
)
def test_every_type_is_read_back_by_trino(
    lake_of_all: TrinoLake,
    database_of_all: ServedCatalog,
    tmp_path: Path,
    deleted: Sequence[int],
    deletes: IcebergDeletes,
) -> None:
    rows = every_type()
    hive = written(
        tmp_path / "hive",
        {name: type_ for name, (type_, _, _) in TYPES.items()},
        {None: rows},
        {},
        deleted,
    )
    name = f"types{len(deleted)}{deletes}"
    exported(hive, tmp_path, server=database_of_all, name=name, deletes=deletes)
    expected = [row for number, row in enumerate(in_microseconds(rows)) if number not in deleted]
    assert lake_of_all.types(f"ns.{name}") == {name: shown for name, (_, _, shown) in TYPES.items()}
    assert in_order(lake_of_all.rows(f"ns.{name}")) == in_order(expected)
    for column, (_, _, type_) in TYPES.items():
        if type_.startswith(("array", "map", "row", "varbinary")):
            continue
        for value in {str(row[column]): row[column] for row in expected}.values():
            if value is None or value != value:
                continue
            text = str(value).replace("'", "''")
            text = text.replace("+00:00", " UTC").replace("inf", "Infinity")
            count = sum(shown(row[column]) == shown(value) for row in expected)
            condition = f"{column} = cast('{text}' as {type_})"
            assert lake_of_all.count(f"ns.{name}", condition) == count, condition


def test_partitions_with_null_and_special_characters_are_read_back_by_trino(
    lake_of_all: TrinoLake, database_of_all: ServedCatalog, tmp_path: Path
) -> None:
    keys = {
        "day": "date",
        "name": "string",
        "amount": "decimal(9,2)",
        "n": "int",
        "big": "bigint",
        "flag": "boolean",
    }
    null = "__HIVE_DEFAULT_PARTITION__"
    values: list[dict[str, Any]] = [
        {"day": date(1969, 12, 30), "name": "a/b=c %20", "amount": Decimal("0.25"), "n": 1},
        {"day": None, "name": "ü '", "amount": Decimal("-1.50"), "n": None, "flag": True},
        {"day": date(9999, 12, 31), "name": None, "amount": None, "n": -1, "big": 1 << 62},
        {},
    ]
    values = [{key: each.get(key) for key in keys} for each in values]
    texts = [
        {key: null if value is None else str(value).lower() for key, value in each.items()}
        for each in values
    ]
    names = ["/".join(f"{key}={escaped(text)}" for key, text in each.items()) for each in texts]
    parts = {
        name: pa.table({"id": pa.array(range(10 * place, 10 * place + 5), pa.int32())})
        for place, name in enumerate(names)
    }
    hive = written(tmp_path / "hive", {"id": "int"}, parts, keys, [1])
    exported(hive, tmp_path, server=database_of_all, name="partitions")
    expected = [
        {"id": 10 * place + number, **each}
        for place, each in enumerate(values)
        for number in (0, 2, 3, 4)
    ]
    assert in_order(lake_of_all.rows("ns.partitions")) == in_order(expected)
    for condition, count in {
        "day is null": 8,
        "name = 'a/b=c %20'": 4,
        "name is null": 8,
        "name < 'b'": 4,
        "amount < 0": 4,
        "amount <> 0.25": 4,
        "n <= -1": 4,
        "big > 5": 4,
        "flag": 4,
        "day < date '1970-01-01'": 4,
        "day = date '9999-12-31'": 4,
    }.items():
        assert lake_of_all.count("ns.partitions", condition) == count, condition


def escaped(text: str) -> str:
    """Return the text of a partition as in the name of a directory."""
    return "".join(f"%{ord(letter):02X}" if letter in "/=%'" else letter for letter in text)


@pytest.mark.parametrize(("snapshot", "format"), COPIED, ids=str)
@pytest.mark.parametrize("deletes", ["apply", "positions"])
def test_tables_of_real_engines_are_read_back_by_trino(
    lake_of_all: TrinoLake,
    database_of_all: ServedCatalog,
    snapshot: GoldenSnapshot,
    format: IcebergFileFormat,
    deletes: IcebergDeletes,
    tmp_path: Path,
) -> None:
    name = f"golden{COPIED.index((snapshot, format))}{deletes}"
    table, _ = exported(
        opened(snapshot),
        tmp_path,
        format=format,
        server=database_of_all,
        name=name,
        deletes=deletes,
    )
    found = lake_of_all.rows(f"ns.{name}")
    assert in_order(found) == in_order(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("deletes", ["apply", "positions"])
@pytest.mark.parametrize("served", ["jdbc", "rest", "hive3", "hive4"], indirect=True)
def test_a_mirror_in_each_catalog_is_read_by_trino(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    served: ServedCatalog,
    in_trino: Callable[[ServedCatalog], TrinoLake],
    deletes: IcebergDeletes,
) -> None:
    hive = WrittenTable.create(client, f"{database}.t")
    mirror = Mirror(hive, tmp_path, served)
    mirror.deletes = deletes
    lake = in_trino(served)
    second = 0

    def check() -> None:
        mirror.update()
        assert sorted(row["id"] for row in lake.rows(mirror.name)) == mirror.hive.rows()

    check()
    hive.insert(1, 2, 3)
    check()
    second = hive.insert(4, 5)
    hive.delete((1, 0))
    check()
    mirror.change_columns(("id", "bigint"), ("w", "struct<a:int>"))
    check()
    assert lake.types(mirror.name) == {"id": "bigint", "w": "row(a integer)"}
    hive.delete((second, 0))
    check()
    mirror.compact("major")
    check()
    newest = f'{served.namespace}."t$snapshots"'
    versions = {row["summary"]["hiveacid.write-id"] for row in map(with_summary, lake.rows(newest))}
    assert str(mirror.run().write_id) in versions


def with_summary(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "summary": dict(row["summary"])}


class TrinoHistory(MirrorHistory):
    """A history whose mirror Trino reads after each run."""

    lake: TrinoLake

    def _check(self, report: IcebergExportReport) -> None:
        super()._check(report)
        table = self._case.table()
        assert table is not None
        found = counted(self.lake.rows(self._case.name))
        assert found == counted(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("number", range(3))
def test_a_mirror_is_read_by_trino_in_any_history(
    jdbc: ServedCatalog,
    in_trino: Callable[[ServedCatalog], TrinoLake],
    version: str,
    number: int,
    tmp_path: Path,
) -> None:
    with (
        FakeMetastore(version, directory=tmp_path / "hive") as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        seed = random_of_commit().randrange(1 << 30) + number
        history = TrinoHistory(
            seed, client, "db", metastore.keep_house, folder=tmp_path, server=jdbc
        )
        history.lake = in_trino(jdbc)
        history.run(steps=20)
        client.drop_database("db", cascade=True)
