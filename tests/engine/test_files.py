"""Every file that a write leaves: sound, and read alike by readers that are not of our making."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hiveacid.api.table import AcidTable
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import Base, Delta, TableRef, parse_directory, parse_file
from hiveacid.rules.row_id import RowId
from hiveacid.rules.schema import parse_type
from hiveacid.rules.write_ids import NO_OPEN, ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import (
    ACID_FIELDS,
    BUCKET,
    PARTITION,
    ROW,
    WRITE_ID,
    AcidSnapshot,
)
from hiveacid.spark.rows.columns import spark_struct
from hiveacid.spark.session import scan_session
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.tables.scan.table_part import visible_rows
from hiveacid.tables.visible_files import list_partitions

COLUMNS = [
    HiveColumn("id", "bigint"),
    HiveColumn("name", "string"),
    HiveColumn("v", "decimal(12,2)"),
    HiveColumn("tags", "array<string>"),
]
KEYS = [HiveColumn("ds", "string"), HiveColumn("k", "int")]
TXNS = ValidTxnList(high_watermark=1_000_000)
# The write ids of the steps of a table's life.
APPEND, UPDATE, DELETE, MERGE, APPEND_MORE, OVERWRITE, EMPTY = range(1, 8)


@dataclass(frozen=True)
class Shape:
    """A kind of table."""

    rows: int = 300
    partition_keys: Sequence[HiveColumn] = ()
    bucket_columns: Sequence[str] = ()
    num_buckets: int = -1
    parameters: Mapping[str, str] = field(default_factory=dict)


SHAPES = {
    "plain": Shape(),
    "stripes": Shape(
        rows=18_000,
        parameters={
            "orc.stripe.size": "65536",
            "orc.row.index.stride": "1000",
            "orc.bloom.filter.columns": "id",
        },
    ),
    "partitioned": Shape(partition_keys=KEYS, parameters={"orc.compress": "SNAPPY"}),
    "bucketed": Shape(bucket_columns=["name", "id"], num_buckets=3),
    "bucketed by version 1": Shape(
        partition_keys=KEYS[:1],
        bucket_columns=["id"],
        num_buckets=2,
        parameters={"bucketing_version": "1", "orc.compress": "SNAPPY"},
    ),
}


@dataclass(frozen=True)
class Life:
    """A table after every kind of write; the write ids count from 1."""

    shape: Shape
    table: HiveTable
    partitions: Sequence[HivePartition]
    reports: Mapping[int, RunReport]
    rows: Mapping[int, list[tuple[Any, ...]]]

    @property
    def folders(self) -> list[tuple[tuple[str | None, ...], Path]]:
        """The values of each partition, and where it is."""
        located = [(partition.values, partition.location) for partition in self.partitions]
        return [
            (values, Path(location.removeprefix("file:")))
            for values, location in located or [((), self.table.location)]
        ]

    @property
    def directories(self) -> Iterator[tuple[Base | Delta, Path]]:
        for _, folder in self.folders:
            for path in sorted(folder.iterdir()):
                directory = parse_directory(path.name)
                if directory is not None:
                    yield directory, path

    @property
    def files(self) -> Iterator[tuple[Base | Delta, Path]]:
        for directory, path in self.directories:
            for file in sorted(path.glob("bucket_*")):
                yield directory, file


@pytest.fixture(scope="module", params=SHAPES)
def life(
    request: pytest.FixtureRequest, spark: SparkSession, hms4: EmbeddedMetastore
) -> Iterator[Life]:
    shape = SHAPES[request.param]
    ref = TableRef("files", re.sub(r"\W", "_", request.param))
    keys = [key.name for key in shape.partition_keys]
    n = shape.rows

    def rows(start: int, end: int, tasks: int = 1) -> DataFrame:
        return spark.range(start, end, 1, tasks).selectExpr(
            "id",
            "if(id % 7 = 0, null, concat('name ', id % 50)) name",
            "cast(id / 4 as decimal(12,2)) v",
            "array(string(id), null) tags",
            *(
                {"ds": "if(id % 2 = 0, 'd1', 'a b/c=%') ds", "k": "int(id % 2) k"}[key]
                for key in keys
            ),
        )

    on = " AND ".join(f"t.{name} = s.{name}" for name in ["id", *keys])
    odd = [dict(zip(keys, ["a b/c=%", "1"], strict=False))] if keys else None
    steps: Mapping[int, Callable[[AcidTable], RunReport]] = {
        APPEND: lambda it: it.append(rows(0, n, tasks=3)),
        UPDATE: lambda it: it.update({"name": "concat(name, '!')", "v": "v + 1"}, "id % 10 = 1"),
        DELETE: lambda it: it.delete("id % 10 = 2 OR name = 'name 13!'"),
        MERGE: lambda it: (
            it.merge(rows(n // 2, n + 50), on)
            .when_matched_delete("s.id % 10 = 4")
            .when_matched_update({"name": "'merged'", "tags": "t.tags"}, "s.id % 10 < 4")
            .when_not_matched_insert_all()
            .execute()
        ),
        APPEND_MORE: lambda it: it.append(rows(n + 50, n + 60)),
        OVERWRITE: lambda it: it.overwrite(rows(0, 30)),
        EMPTY: lambda it: it.overwrite(rows(0, 0), odd),
    }
    with closing(MetastoreClient(hms4.options)) as client:
        client.create_database("files")
        client.create_table(
            HiveTable.new(
                ref,
                COLUMNS,
                partition_keys=shape.partition_keys,
                bucket_columns=shape.bucket_columns,
                num_buckets=shape.num_buckets,
                parameters=shape.parameters,
            )
        )
        reports, rows_after = {}, {}
        for step, write in steps.items():
            with AcidTable(ref.full_name, hms4.uri, spark=spark, run_in="spark") as table:
                reports[step] = write(table)
                rows_after[step] = sorted(map(as_text, table.to_df().collect()))
        partitions = client.get_partitions(client.get_table(ref)) if keys else []
        yield Life(shape, client.get_table(ref), partitions, reports, rows_after)
        client.drop_database("files", cascade=True)


def as_text(row: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, row))


def seen(write_id: int) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"files.any:{write_id}:{NO_OPEN}::")


def test_every_file_is_what_hive_takes_it_for(life):
    for directory, path in life.files:
        deletes = isinstance(directory, Delta) and directory.is_delete
        write_id = directory.write_id if isinstance(directory, Base) else directory.min_write_id
        with open(path, "rb") as file:
            problems = verify_file(
                file,
                kind="delete" if deletes else "insert",
                bucket=parse_file(path.name).bucket,
                write_ids=range(write_id, write_id + 1),
            )
        assert problems == [], path


def test_directories_hold_one_canonical_file_of_each_bucket_and_hidden_notes(life):
    left = {
        path.name
        for _, folder in life.folders
        for path in folder.iterdir()
        if not path.name.startswith(("ds=", "k="))
    }
    deltas = [f"delta_{n:07d}_{n:07d}_0000" for n in (APPEND, UPDATE, MERGE, APPEND_MORE)]
    deletes = [f"delete_delta_{n:07d}_{n:07d}_0000" for n in (UPDATE, DELETE, MERGE)]
    assert left == {*deltas, *deletes, *(f"base_{n:07d}" for n in (OVERWRITE, EMPTY))}

    for directory, path in life.directories:
        names = {file.name for file in path.iterdir()}
        data = {name for name in names if re.fullmatch(r"bucket_\d{5}", name)}
        assert data, f"{path} holds no file, so Trino would not see it"
        assert names - data == {"_orc_acid_version", "_hiveacid.json"}
        assert (path / "_orc_acid_version").read_bytes() == b"2"
        note = json.loads((path / "_hiveacid.json").read_text())
        newest = directory.write_id if isinstance(directory, Base) else directory.max_write_id
        assert note["write_id"] == newest
        assert note["report"]["target"] == life.table.ref.full_name
        assert "partitions" not in note["report"]
        assert note["report"]["partition_count"] == len(life.reports[newest].partitions)


def test_the_report_counts_files_bytes_rows_and_partitions(life):
    for step, report in life.reports.items():
        files = [
            path
            for directory, path in life.files
            if step
            == (directory.write_id if isinstance(directory, Base) else directory.min_write_id)
        ]
        assert report.files == len(files)
        assert report.bytes == sum(path.stat().st_size for path in files)
        written = {"insert": 0, "delete": 0}
        for path in files:
            kind = "delete" if path.parent.name.startswith("delete_delta_") else "insert"
            written[kind] += orc.ORCFile(path).nrows
        assert written["insert"] == report.rows_inserted + report.rows_updated
        assert written["delete"] == report.rows_deleted + report.rows_updated
        assert len(report.partitions) == (
            len({path.parent.parent for path in files}) if life.partitions else 0
        )


def test_a_file_holds_a_bucket_or_what_one_task_wrote(life):
    table = life.table
    tasks = 1 if life.partitions else 3
    assert {
        parse_file(path.name).bucket
        for _, path in life.files
        if f"_{APPEND:07d}_" in path.parent.name
    } == set(range(table.num_buckets if table.num_buckets > 0 else tasks))


def test_rows_are_in_the_file_of_their_bucket(life):
    table = life.table
    if table.num_buckets < 1:
        return
    types = {column.name: parse_type(column.type) for column in table.columns}
    for _, path in life.files:
        row = orc.ORCFile(path).read().column("row").combine_chunks()
        if row.null_count < len(row):
            expected = bucket_numbers(
                [row.field(name) for name in table.bucket_columns],
                [types[name] for name in table.bucket_columns],
                table.num_buckets,
                table.bucketing_version,
            )
            assert set(expected) == {parse_file(path.name).bucket}


def test_the_properties_of_the_table_shape_its_files(life):
    parameters = life.shape.parameters
    codec = Codec.named(parameters.get("orc.compress", "ZLIB"))
    assert life.table.bucketing_version == int(parameters.get("bucketing_version", 2))
    # A change joins the output of several tasks, stripe by stripe; each task of an insert writes a
    # file.
    written_at_once = [path for _, path in life.files if f"_{APPEND:07d}_" in path.parent.name]
    largest = max(written_at_once, key=lambda path: path.stat().st_size)
    for _, path in life.files:
        with open(path, "rb") as file:
            assert OrcTail.read(file).codec is codec
    with open(largest, "rb") as file:
        tail = OrcTail.read(file)
        assert tail.stride == int(parameters.get("orc.row.index.stride", 10_000))
        assert (len(tail.stripes) > 1) == ("orc.stripe.size" in parameters)
        # The columns of the row come after the envelope's six, counted from 1.
        bloom = {
            stream.number(2)
            for stream in tail.stripe_footer(file, tail.stripes[0]).all_messages(1)
            if stream.number(1) == StreamKind.BLOOM_FILTER_UTF8
        }
        assert bloom == ({7} if "orc.bloom.filter.columns" in parameters else set())


def test_spark_and_the_orc_library_of_arrow_read_the_same_from_every_file(spark, life):
    paths = [path for _, path in life.files]
    schema = StructType([*ACID_FIELDS, StructField("row", spark_struct(life.table.columns))])
    envelope = [field.name for field in ACID_FIELDS]
    frame = (
        scan_session(spark)
        .read.schema(schema)
        .orc([str(path) for path in paths])
        # Always true; it keeps Spark from reading fewer columns, which ORC would take for others.
        .where(f"row.id IS NULL OR {' + '.join(envelope)} IS NOT NULL")
        .select("*", "_metadata.file_path")
    )
    by_file: dict[str, list[dict[str, Any]]] = {str(path): [] for path in paths}
    for row in frame.collect():
        read = row.asDict(recursive=True)
        path = unquote(read.pop("file_path")).removeprefix("file:").lstrip("/")
        by_file[f"/{path}"].append(read)
    assert by_file == {str(path): orc.ORCFile(path).read().to_pylist() for path in paths}


@pytest.mark.parametrize("step", range(APPEND, EMPTY + 1))
def test_a_reader_without_spark_sees_the_same_rows_after_every_write(life, step):
    assert sorted(as_text(row) for _, _, row in without_spark(life, step)) == life.rows[step]
    report = life.reports[step]
    if step < OVERWRITE:
        before = len(life.rows[step - 1]) if step > APPEND else 0
        assert len(life.rows[step]) == before + report.rows_inserted - report.rows_deleted


def test_a_reader_without_spark_sees_the_same_row_ids(spark, life):
    partitions = list_partitions(life.table, life.partitions, seen(APPEND_MORE), TXNS, Rules.HIVE4)
    snapshot = AcidSnapshot(life.table, partitions, seen(APPEND_MORE))
    names = [column.name for column in (*life.table.columns, *life.table.partition_keys)]
    rows = [
        (row[PARTITION], RowId(row[WRITE_ID], row[BUCKET], row[ROW]), as_text(row[: len(names)]))
        for row in snapshot.rows(scan_session(spark)).collect()
    ]
    expected = [(at, key, as_text(row)) for at, key, row in without_spark(life, APPEND_MORE)]
    assert sorted(rows) == sorted(expected)
    assert len({(at, key) for at, key, _ in rows}) == len(rows)


def without_spark(life: Life, write_id: int) -> Iterator[tuple[int, RowId, tuple[Any, ...]]]:
    """The rows as `hiveacid cat` reads them: partition, row id, values."""
    for number, (values, folder) in enumerate(life.folders):
        storage = Storage.of(str(folder))
        state = read_state(
            storage, list_files(storage, None), seen(write_id), TXNS, rules=Rules.HIVE4
        )
        for batch in visible_rows(storage, state, seen(write_id), Rules.HIVE4):
            rows = batch.columns.to_pylist()
            for row_id, row in zip(batch.row_ids(), rows, strict=True):
                yield number, row_id, (*row.values(), *values)
