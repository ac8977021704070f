"""The scan returns the rows of random files; `make layouts` scans thousands of tables."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from hiveacid.metastore.catalog import HivePartition
from hiveacid.rules.directory import Rules
from hiveacid.rules.write_ids import ValidTxnList
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.rows.columns import quoted, spark_struct
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from tests.engine.random_layouts import Query, RandomTable, hive_table, visible_writes
from tests.samples import random_of_commit

COUNT = int(os.environ.get("LAYOUTS", "12"))
SEED = os.environ.get("LAYOUT_SEED") or str(random_of_commit().randrange(1 << 31))
FIRST = int(os.environ.get("LAYOUT_FIRST") or 0)
# The tables of one query.
_TOGETHER = 24
_KEY_TYPES = (LongType(), IntegerType(), LongType(), IntegerType())


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, _TOGETHER))
def test_the_scan_returns_the_visible_rows(first: int, spark: SparkSession, tmp_path: Path) -> None:
    numbers = range(first, min(first + _TOGETHER, FIRST + COUNT))
    tables = [RandomTable(SEED, number, tmp_path / str(number)) for number in numbers]
    session = scan_session(spark)
    # Java would compile some hundred small queries.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # Larger files are read in parts.
    session.conf.set("spark.sql.files.maxPartitionBytes", "16k")
    assert not differences(session, tables)
    rmtree(tmp_path)


def differences(session: SparkSession, tables: Sequence[RandomTable]) -> list[str]:
    """Describe the queries of tables whose rows are wrong, and how to repeat them."""
    try:
        frames = [frame for table in tables for frame in results(session, table)]
        found: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        # Most tasks would read a few rows.
        for number, query, sign, row in union(frames).coalesce(2).collect():
            found[number, query][row] += sign
    except Exception as error:  # noqa: BLE001
        if len(tables) > 1:
            return [text for table in tables for text in differences(session, [table])]
        return [f"{_again(tables[0])}: {error}"]
    return [
        f"{_again(table)}: {query}: additional {list(+rows)[:3]}, missing {list(-rows)[:3]}"
        for table in tables
        for at, query in enumerate(table.queries)
        if any((rows := found[table.number, at]).values())
    ]


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames; every union is analyzed with all below it, so few are nested."""
    half = len(frames) // 2
    return union(frames[:half]).unionAll(union(frames[half:])) if half else frames[0]


def _again(table: RandomTable) -> str:
    return f"make layouts SEED={SEED} FIRST={table.number} COUNT=1"


def results(session: SparkSession, table: RandomTable) -> Iterator[DataFrame]:
    """Frames of the number of the table, that of a query, 1 or -1, and the text of a row.

    The scan has rows of 1. Those of -1 come from the expected rows, and no condition is pushed into
    their file.
    """
    found = snapshot(table)
    for at, query in enumerate(table.queries):
        rows = found.rows(session, with_key=query.with_key).where(query.where)
        yield rows.selectExpr(str(table.number), str(at), "1", _text(table, query))
    columns = (*found.table.columns, *found.table.partition_keys)
    key = [StructField(*field) for field in zip(KEY, _KEY_TYPES, strict=True)]
    expected = (
        session.read.schema(StructType([*spark_struct(columns).fields, *key]))
        .option("datetimeRebaseMode", "CORRECTED")
        .parquet(f"file:{table.rows}")
    )
    texts = [
        f"IF({query.where}, struct({at} AS query, {_text(table, query)} AS text), NULL)"
        for at, query in enumerate(table.queries)
    ]
    rows = expected.selectExpr(f"inline(filter(array({', '.join(texts)}), x -> x IS NOT NULL))")
    yield rows.selectExpr(str(table.number), "query", "-1", "text")


def _text(table: RandomTable, query: Query) -> str:
    """The columns and row ids that a query selects, in SQL, as one text."""
    types = table.columns | table.keys
    shown = []
    for name in query.columns:
        if types[name] == "binary":
            shown.append(f"hex({quoted(name)})")
        elif types[name].startswith("map"):
            shown.append(f"array_sort(map_entries({quoted(name)}))")
        else:
            shown.append(quoted(name))
    return f"CAST(struct({', '.join([*shown, *(KEY if query.with_key else ())])}) AS STRING)"


def snapshot(table: RandomTable) -> AcidSnapshot:
    """The visible files of a table, which no metastore knows."""
    hive, seen = hive_table(table), visible_writes(table)
    partitions = []
    for at, values in enumerate(table.partitions if table.keys else []):
        partition = HivePartition.new(hive, values)
        partition.raw.sd.location = f"file:{table.folder / f'p{at}'}"
        partitions.append(HivePartition.from_thrift(hive, partition.raw))
    txns = ValidTxnList(high_watermark=1_000_000)
    return AcidSnapshot(hive, list_partitions(hive, partitions, seen, txns, Rules.HIVE4), seen)
