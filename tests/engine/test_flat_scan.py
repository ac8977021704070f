"""Scans of tables without row ids: partitions and files that queries open, and values of keys."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import TypeMismatch
from hiveacid.jobs.table_properties import PARQUET_BY_POSITION
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.session import in_session, scan_session
from tests.engine.acid_tables import rows_of
from tests.engine.test_partition_pruning import ids_and_files, scans
from tests.spark_versions.versions import NEEDS_SPARK_4_0

ORC, PARQUET, TEXTFILE, CSV, JSON = StorageFormat
# The name of a folder below that of the table, the values of the keys, and the ids of the rows.
Content = tuple[str, Sequence[str | None], Sequence[int]]


def write_ids(form: StorageFormat, path: Path, ids: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int32())})
    if form is ORC:
        orc.write_table(table, path)
    elif form is PARQUET:
        parquet.write_table(table, path)
    else:
        line = '{{"id": {}}}\n' if form is JSON else "{}\n"
        path.write_text("".join(line.format(each) for each in ids))


def snapshot(
    root: Path,
    keys: Mapping[str, str],
    contents: Sequence[Content],
    forms: Sequence[StorageFormat] = (ORC,),
) -> FlatSnapshot:
    """A table of ids in partitions, whose formats alternate."""
    partitions = []
    table = HiveTable.new(
        TableRef("db", "t"),
        [HiveColumn("id", "string" if CSV in forms else "int")],
        partition_keys=[HiveColumn(*key) for key in keys.items()],
        kind=TableKind.NOT_ACID,
        location=f"file:{root}",
        format=forms[0],
    )
    for at, (below, values, ids) in enumerate(contents):
        form = forms[at % len(forms)]
        write_ids(form, root / below / f"00000{at}_0", ids)
        partition = HivePartition.new(table, values)
        partition.raw.sd.location = f"file:{root / below}"
        partition.raw.sd.inputFormat = form.value.input_format
        partition.raw.sd.serdeInfo.serializationLib = form.value.serde
        partitions.append(HivePartition.from_thrift(table, partition.raw))
    return FlatSnapshot.of_plain(table, partitions)


@pytest.fixture
def view(spark: SparkSession) -> Callable[[FlatSnapshot], str]:
    """Makes a view of the rows of a snapshot."""

    def made(flat: FlatSnapshot) -> str:
        in_session(flat.rows(scan_session(spark)), spark).createOrReplaceTempView("flat")
        return "flat"

    return made


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    "form",
    # Spark 3.5 passes no condition through the function that splits lines of CSV.
    [
        # With Spark 3.5, Python splits the lines of all partitions.
        pytest.param(CSV, marks=NEEDS_SPARK_4_0),
        *(
            pytest.param(each, marks=pytest.mark.every_spark)
            for each in (ORC, PARQUET, TEXTFILE, JSON)
        ),
    ],
)
def test_a_condition_and_a_join_select_partitions_in_any_place(
    spark: SparkSession, tmp_path: Path, view: Any, form: StorageFormat
) -> None:
    contents = [(f"somewhere{at}", [f"é {at}", str(at)], [at]) for at in range(4)]
    name = view(snapshot(tmp_path, {"p": "string", "n": "int"}, contents, [form]))
    frame = spark.sql(f"SELECT CAST(id AS int) AS id FROM {name} WHERE p = 'é 2'")
    assert ids_and_files(frame) == ([2], 1)
    assert "PartitionFilters: [isnotnull(p" in plan_of(frame)
    spark.range(4).selectExpr("CAST(id AS int) AS n", "id % 2 AS odd").createOrReplaceTempView("d")
    columns = "/*+ BROADCAST(d) */ CAST(f.id AS int) AS id"
    frame = spark.sql(f"SELECT {columns} FROM {name} f JOIN d ON f.n = d.n WHERE odd = 1")
    assert "dynamicpruning" in plan_of(frame)
    assert ids_and_files(frame) == ([1, 3], 2)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ["", "a/b", "x=y", "%41", "A", "a", "__HIVE_DEFAULT_PARTITION__ ", None]),
        ("int", ["-7", "01", "2147483647", None]),
        ("bigint", ["99999999999999", "5"]),
        ("date", ["2024-02-29", "1500-03-01", "2024-1-5", None]),
        ("timestamp", ["2024-01-01 00:00:00", "1900-01-01 01:02:03.123456", None]),
        ("decimal(10,2)", ["1.5", "-3.00", None]),
        ("double", ["1e3", "0.5", "-0.0"]),
        ("boolean", ["true", "FALSE"]),
        ("char(3)", ["a", "abc"]),
        ("varchar(5)", ["a ", "a"]),
    ],
)
def test_the_value_of_a_key_selects_its_partition(
    spark: SparkSession, tmp_path: Path, view: Any, kind: str, values: list[str | None]
) -> None:
    contents = [(f"part={at}", [value], [at]) for at, value in enumerate(values)]
    name = view(snapshot(tmp_path, {"p": kind}, contents))
    shown = {row.id: row.p for row in spark.table(name).collect()}
    typed = "string" if "char" in kind else kind
    expected = spark.createDataFrame([(*each,) for each in enumerate(values)], "id int, v string")
    expected = expected.selectExpr("id", f"CAST(v AS {typed}) AS p")
    assert shown == {row.id: row.p for row in expected.collect()}
    for at, value in enumerate(values):
        wanted = "NULL" if value is None else f"CAST('{value}' AS {typed})"
        frame = spark.sql(f"SELECT id FROM {name} WHERE p <=> {wanted}")
        found, files = ids_and_files(frame)
        assert at in found
        assert files == len(found)


@pytest.mark.every_spark
def test_partitions_of_several_formats_are_one_table(
    spark: SparkSession, tmp_path: Path, view: Any
) -> None:
    contents = [(f"p={at}", [str(at)], [at, at + 10]) for at in range(4)]
    flat = snapshot(tmp_path, {"p": "int"}, contents, [ORC, PARQUET, TEXTFILE, JSON])
    name = view(flat)
    assert rows_of(spark.table(name)) == sorted((id, at) for at in range(4) for id in (at, at + 10))
    assert ids_and_files(spark.sql(f"SELECT * FROM {name} WHERE p IN (1, 2)")) == (
        [1, 2, 11, 12],
        2,
    )


def test_partitions_that_share_a_folder_have_the_same_rows(
    spark: SparkSession, tmp_path: Path, view: Any
) -> None:
    contents = [("shared", ["a"], [1]), ("shared", ["b"], [2]), ("other", ["c"], [3])]
    name = view(snapshot(tmp_path, {"p": "string"}, contents))
    rows = [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "c")]
    assert sorted(map(tuple, spark.table(name).collect())) == rows


def test_a_table_without_files_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    for form in StorageFormat:
        rows = snapshot(tmp_path, {"p": "date"}, [], [form]).rows(scan_session(spark))
        assert (rows.collect(), rows.columns) == ([], ["id", "p"])


def test_a_value_that_its_type_lacks_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    flat = snapshot(tmp_path, {"p": "int"}, [("p=x", ["x"], [1]), ("p=1", ["1"], [2])])
    with pytest.raises(TypeMismatch, match=r"db\.t.*'x'"):
        flat.rows(scan_session(spark)).collect()


def test_a_column_may_have_the_name_of_a_key_in_files(spark: SparkSession, tmp_path: Path) -> None:
    table = HiveTable.new(
        TableRef("db", "t"),
        [HiveColumn("id", "int"), HiveColumn("name", "string")],
        partition_keys=[HiveColumn("p", "string")],
        kind=TableKind.NOT_ACID,
        location=f"file:{tmp_path}",
        format=PARQUET,
        serde_parameters={PARQUET_BY_POSITION: "true"},
    )
    partitions = [HivePartition.new(table, [value]) for value in ("x", "y")]
    for partition in partitions:
        folder = Path(partition.folder.removeprefix("file:"))
        folder.mkdir()
        parquet.write_table(pa.table({"p": pa.array([1], pa.int32()), "q": ["a"]}), folder / "f")
    rows = FlatSnapshot.of_plain(table, partitions).rows(scan_session(spark))
    assert sorted(map(tuple, rows.collect())) == [(1, "a", "x"), (1, "a", "y")]
    assert ids_and_files(rows.where("p = 'y'")) == ([1], 1)


def test_stripes_of_orc_without_matching_rows_are_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = HiveTable.new(
        TableRef("db", "t"),
        [HiveColumn("renamed", "bigint"), HiveColumn("text", "string")],
        kind=TableKind.NOT_ACID,
        location=f"file:{tmp_path}",
    )
    texts = [f"{number:05}" * 20 for number in range(40_000)]
    columns = {"renamed": pa.array(range(40_000), pa.int64()), "text": texts}
    orc.write_table(pa.table(columns), tmp_path / "f", stripe_size=1 << 16, batch_size=1024)
    frame = FlatSnapshot.of_plain(table, []).rows(scan_session(spark)).where("renamed = 7")
    assert [row.renamed for row in frame.collect()] == [7]
    (scan,) = scans(frame._jdf.queryExecution().executedPlan())
    assert scan.metrics().apply("numOutputRows").value() <= 10_000


@pytest.mark.parametrize("form", [ORC, PARQUET])
def test_texts_are_cut_to_the_length_of_their_type(
    spark: SparkSession, tmp_path: Path, form: StorageFormat
) -> None:
    columns = [HiveColumn("v", "varchar(2)"), HiveColumn("c", "char(3)")]
    write = orc.write_table if form is ORC else parquet.write_table
    write(pa.table({"v": ["abc", "é"], "c": ["a   b", None]}), tmp_path / "f")
    assert rows_in(spark, tmp_path, columns, form) == [("ab", "a"), ("é", None)]


def test_files_without_names_may_have_more_columns_than_their_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    orc.write_table(pa.table({"_col0": ["a"], "_col1": ["b"]}), tmp_path / "f")
    assert rows_in(spark, tmp_path, [HiveColumn("id", "string")], ORC) == [("a",)]


def rows_in(
    spark: SparkSession, folder: Path, columns: Sequence[HiveColumn], form: StorageFormat
) -> list[tuple[Any, ...]]:
    """The rows of a table without partitions whose files are in a folder."""
    ref, location = TableRef("db", "t"), f"file:{folder}"
    table = HiveTable.new(ref, columns, kind=TableKind.NOT_ACID, location=location, format=form)
    return rows_of(FlatSnapshot.of_plain(table, []).rows(scan_session(spark)))
