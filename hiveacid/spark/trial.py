"""A trial of the installed Spark: the parts of the engine that depend on its version."""

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import SoftwareMissing
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.directory import Rules
from hiveacid.rules.location import Location
from hiveacid.rules.names import BucketFile, Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.session import scan_session
from hiveacid.spark.spark_versions import (
    bound_text,
    from_arrow,
    is_same_expression,
    java_expression,
    rebalanced,
    to_arrow,
    try_cast,
    with_arrow_column,
)
from hiveacid.spark.write.flat_rows import AcidRowFiles, FlatRowsWriter
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.storage.staging import Folder, NewFile, delete_stager, row_stager
from hiveacid.tables.visible_files import partition_files

_ROWS, _DELETED = 1000, 7


def run_trial(spark: SparkSession, folder: str) -> None:
    """Write rows as files of a table, delete one, read the others, and use what versions differ in.

    Args:
        spark: The session.
        folder: An empty folder of this machine.

    Raises:
        SoftwareMissing: The result differs from that of the tested versions.
    """
    columns = [HiveColumn("id", "int"), HiveColumn("name", "string")]
    # A folder that the caller has made.
    location = Location(f"file:{folder}")
    table = HiveTable.new(TableRef("trial", "rows"), columns, location=location)
    with translated_spark_errors("The trial of Spark"):
        _write(spark, table)
        answer = _read(spark, table)
        _require(answer == (_ROWS - 1, "name 8"), "rows that were written and read", answer)
        _try_differences(spark)


def _write(spark: SparkSession, table: HiveTable) -> None:
    storage, types = Storage.of(table.folder), orc_row_types(table)
    session = scan_session(spark)
    rows = session.sql(f"SELECT int(id) id, concat('name ', id) name FROM range({_ROWS})")
    writer = FlatRowsWriter(table, AcidRowFiles(table, "zlib"), None, None)
    flat = writer.write(rows.coalesce(1), Folder(table.folder, "_flat"), [])
    inserts, deletes = Delta(1, 1, 0), Delta(2, 2, 0, is_delete=True)
    stage = row_stager(1, 0, types)
    new = stage(NewFile(tuple(flat.files), Folder(table.folder, inserts.name), 0))
    event = pa.record_batch([[0], [0], [1], [encode_bucket(0, 0)], [_DELETED]], names=[*"pbwxr"])
    (delete_row,) = delete_stager([Folder(table.folder, deletes.name)], 2, types, "zlib")([event])
    for directory, path in ((inserts, new.path), (deletes, delete_row["path"][0].as_py())):
        storage.rename(path, f"{directory.name}/{BucketFile(0).name}")


def _read(spark: SparkSession, table: HiveTable) -> tuple[int, str]:
    """Return the number of rows, and the first name after that of the deleted row."""
    storage, write_ids = Storage.of(table.folder), ValidWriteIdList(None, 2)
    state = read_state(storage, list_files(storage, None), write_ids, None, rules=Rules.HIVE4)
    files = partition_files(storage, table, None, state, write_ids)
    rows = AcidSnapshot(table, [files], write_ids).rows(scan_session(spark)).drop(*KEY)
    (first,) = rows.where(f"id >= {_DELETED}").orderBy("id").limit(1).select("name").collect()
    return rows.count(), str(first[0])


def _try_differences(spark: SparkSession) -> None:
    """Use the functions of ``spark_versions`` that statements need."""
    frame = from_arrow(spark, pa.table({"id": [1, 2], "text": ["7", "x"]}))
    doubled = with_arrow_column(frame, "more", _doubled, frame.schema["id"].dataType, ["id"])
    cast = doubled.withColumn("text", try_cast(F.col("text"), frame.schema["id"].dataType))
    columns = to_arrow(rebalanced(cast, ["`id`"])).sort_by("id").to_pydict()
    _require(
        columns == {"id": [1, 2], "text": [7, None], "more": [2, 4]}, "computed values", columns
    )
    text = bound_text(spark, "SELECT :a + 1 AS b", {"a": F.lit(41)})
    (answer,) = spark.sql(text).collect()
    _require(answer[0] == 42, "a parameter", answer)
    first_expression, second_expression = (
        java_expression(spark, F.expr(text)) for text in ("id + 1", "id + 2")
    )
    are_same = (
        is_same_expression(first_expression, first_expression),
        is_same_expression(first_expression, second_expression),
    )
    _require(are_same == (True, False), "compared expressions", are_same)


def _doubled(numbers: pa.Array) -> pa.Array:
    return pa.compute.multiply(numbers, 2)


def _require(holds: bool, subject: str, outcome: object) -> None:
    if not holds:
        raise SoftwareMissing(
            f"The trial of this Spark has another result for {subject}: {outcome}.",
            remedy="Name the folder of a tested Spark in SPARK_HOME.",
        )
