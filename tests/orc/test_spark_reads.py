"""Files we made, read by ORC's Java library; it seeks by our row indexes and trusts our statistics."""

import io
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import EnvelopeColumn, wrap_types
from hiveacid.orc.format.streams import StripeFooter
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.orc.row_keys.delete_file import write_delete_file, write_empty_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import row_struct
from tests.orc.bucket_files import compact, planned
from tests.orc.orc_tables import CODECS, group_starts, with_tail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5000
STRIDE = 1000
BUCKET = encode_bucket(1)
FIRST_ROW = 1 << 35
ROW_IDS = [(3, BUCKET, FIRST_ROW + n) for n in range(ROWS)]
COLUMNS = """
    id, id * 7919 % 5003 as spread, cast(id % 100 as tinyint) as small, if(id % 7 = 0, null, concat('text ', id % 50)) as text,
    if(id % 3 = 0, null, id / 3.0D) as real, cast(id as decimal(20, 3)) as price, id % 2 = 0 as flag,
    timestamp_micros(id * 1000003) as moment, date_add(date'2020-01-01', cast(id as int)) as day,
    if(id % 5 = 0, null, array(id, null, id + 1)) as list,
    map('a', id, 'b', null) as pairs, if(id % 11 = 0, null, named_struct('x', id, 'y', array('z'))) as st
"""
HIVE_COLUMNS = [
    ("id", "bigint"),
    ("spread", "bigint"),
    ("small", "tinyint"),
    ("text", "string"),
    ("real", "double"),
    ("price", "decimal(20,3)"),
    ("flag", "boolean"),
    ("moment", "timestamp"),
    ("day", "date"),
    ("list", "array<bigint>"),
    ("pairs", "map<string,bigint>"),
    ("st", "struct<x:bigint,y:array<string>>"),
]


def flat_file(spark: "SparkSession", folder: Path, **options: object) -> Path:
    """A flat file as Spark's writer leaves it."""
    rows = spark.range(0, ROWS, 1, 1).selectExpr(*_expressions())
    options = {name.replace("_", "."): str(value) for name, value in options.items()}
    rows.write.options(**options).orc(str(folder))
    (file,) = folder.glob("part-*")
    return file


def _expressions() -> list[str]:
    depth, start, found = 0, 0, []
    for at, symbol in enumerate(COLUMNS + ","):
        depth += (symbol == "(") - (symbol == ")")
        if symbol == "," and depth == 0:
            found.append(COLUMNS[start:at].strip())
            start = at + 1
    return found


def acid_file(spark: "SparkSession", folder: Path, **options: object) -> Path:
    flat = flat_file(spark, folder / "flat", **options)
    with open(flat, "rb") as source, open(folder / "bucket_00001", "wb") as sink:
        transplant([source], sink, write_id=3, bucket=BUCKET, first_row=FIRST_ROW)
    return folder / "bucket_00001"


def acid_rows(spark: "SparkSession", file: Path, row: str, **options: str) -> "DataFrame":
    schema = (
        "operation int, originalTransaction bigint, bucket int, rowId bigint, "
        f"currentTransaction bigint, row {row}"
    )
    return spark.read.schema(schema).options(**options).orc(str(file))


def row_type(spark: "SparkSession") -> str:
    fields = spark.range(1).selectExpr(*_expressions()).schema.fields
    return f"struct<{','.join(f'{f.name}:{f.dataType.simpleString()}' for f in fields)}>"


def read_back(
    spark: "SparkSession", file: Path, **options: str
) -> tuple[list[tuple[int, int, int]], list]:
    """The row ids and the rows that the Java library delivers."""
    rows = acid_rows(spark, file, row_type(spark), **options).collect()
    assert {row.operation for row in rows} <= {0}
    return [(row.originalTransaction, row.bucket, row.rowId) for row in rows], [r.row for r in rows]


def search_options(spark: "SparkSession", column: str, low: int, high: int) -> dict[str, str]:
    """Read options that let ORC skip row groups that cannot hold values of a range."""
    jvm = spark._jvm
    sources = jvm.org.apache.spark.sql.sources
    wanted = sources.EqualTo(column, low)
    if low < high:
        wanted = sources.And(
            sources.GreaterThanOrEqual(column, low), sources.LessThanOrEqual(column, high)
        )
    flat = spark._jsparkSession.parseDataType(spark.range(0).toDF(column).schema.json())
    filters = jvm.PythonUtils.toSeq([wanted])
    argument = jvm.org.apache.spark.sql.execution.datasources.orc.OrcFilters.createFilter(
        flat, filters
    )
    names = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)
    names[0] = column
    configuration = jvm.org.apache.hadoop.conf.Configuration(False)
    jvm.org.apache.orc.mapred.OrcInputFormat.setSearchArgument(configuration, argument.get(), names)
    return {name: configuration.get(name) for name in ("orc.kryo.sarg", "orc.sarg.column.names")}


@pytest.fixture(scope="module")
def expected(spark: "SparkSession") -> list:
    return spark.range(0, ROWS, 1, 1).selectExpr(*_expressions()).collect()


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    return request.param


def test_rows_and_row_ids_are_read_and_row_groups_skipped(spark, tmp_path, expected, codec):
    file = acid_file(
        spark,
        tmp_path,
        orc_compress=codec,
        orc_row_index_stride=STRIDE,
        orc_compress_size=512,
        orc_buffer_size_enforce="true",
    )
    assert read_back(spark, file) == (ROW_IDS, expected)
    with open(file, "rb") as written:
        assert verify_file(written, kind="insert", bucket=1, write_ids=range(3, 5)) == []
        if codec != "none":
            assert OrcTail.read(written).block_size == 512

    for low, high in ((1500, 1600), (2999, 3000), (4999, 4999)):
        options = search_options(spark, "id", low, high)
        delivered = read_back(spark, file, **options)
        groups = slice(low // STRIDE * STRIDE, (high // STRIDE + 1) * STRIDE)
        assert delivered == (ROW_IDS[groups], expected[groups])


def test_bloom_filters_still_work(spark, tmp_path, expected):
    file = acid_file(
        spark, tmp_path, orc_bloom_filter_columns="id,text,spread", orc_row_index_stride=STRIDE
    )
    assert read_back(spark, file) == (ROW_IDS, expected)
    row = 2345
    # Every row group has smaller and larger values: only its bloom filter can rule it out.
    value = expected[row].spread
    delivered = read_back(spark, file, **search_options(spark, "spread", value, value))
    assert ROW_IDS[row] in delivered[0]
    assert len(delivered[0]) < ROWS


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd"])
def test_columns_behind_those_of_the_table_are_left_out(spark, tmp_path, expected, codec):
    numbered = spark.range(0, 3 * ROWS, 1, 3).selectExpr("id as n", f"id % {ROWS} as id")
    numbered.selectExpr(
        *_expressions(),
        "cast(n as int) as file",
        "if(n % 2 = 0, null, n) as row_id",
        "concat('note ', n % 10) as note",
        "n % 3 = 0 as changed",
        "cast(n as decimal(38, 0)) as amount",
        "date_add(date'2020-01-01', cast(n as int)) as at",
    ).write.options(
        **{
            "orc.compress": codec,
            "orc.bloom.filter.columns": "id,text,spread,note",
            "orc.row.index.stride": str(STRIDE),
            "orc.stripe.size": "1",
            "orc.rows.between.memory.checks": "1500",
        }
    ).orc(str(tmp_path / "flat"))
    file = tmp_path / "bucket_00001"
    with ExitStack() as stack:
        flat = [
            stack.enter_context(open(f, "rb")) for f in sorted((tmp_path / "flat").glob("*.orc"))
        ]
        types = row_types(row_struct(HIVE_COLUMNS))
        with open(file, "wb") as sink:
            written = transplant(
                flat,
                sink,
                write_id=3,
                bucket=BUCKET,
                first_row=FIRST_ROW,
                width=len(HIVE_COLUMNS),
                types=types,
            )
        for source in flat:
            tail = OrcTail.read(source)
            for stripe in tail.stripes:
                footer = StripeFooter.read(source, tail, stripe)
                for half in (footer.index, footer.data):
                    # The condition for a fast copy.
                    numbers = [stream.column for stream in half]
                    assert numbers == sorted(numbers)
    assert (len(flat), written.rows) == (3, 3 * ROWS)
    assert len(written.key_index) >= 6
    with open(file, "rb") as source:
        assert verify_file(source, kind="insert", bucket=1, write_ids=range(3, 4)) == []
        assert OrcTail.read(source).types == wrap_types(types)
    row_ids = [(3, BUCKET, FIRST_ROW + n) for n in range(3 * ROWS)]
    assert read_back(spark, file) == (row_ids, expected * 3)

    # By the row indexes, and by the bloom filters.
    for column, value in [("id", 2345), ("spread", expected[2345].spread)]:
        ids, found = read_back(spark, file, **search_options(spark, column, value, value))
        assert [row for row in found if row[column] == value] == [expected[2345]] * 3
        assert len(ids) < ROWS


@pytest.mark.parametrize(
    ("layout", "stride", "several_stripes"),
    [
        ({"orc_create_index": "false"}, 0, False),
        ({"orc_stripe_size": 1, "orc_rows_between_memory_checks": 1500}, 10_000, True),
    ],
    ids=["no row index", "several stripes"],
)
def test_other_layouts_are_read(spark, tmp_path, expected, layout, stride, several_stripes):
    file = acid_file(spark, tmp_path, **layout)
    with open(file, "rb") as written:
        tail = OrcTail.read(written)
        assert verify_file(written, kind="insert", bucket=1) == []
    assert (tail.stride, len(tail.stripes) > 1) == (stride, several_stripes)
    assert read_back(spark, file) == (ROW_IDS, expected)


def test_joined_files_are_read(spark, tmp_path, expected):
    small = acid_file(
        spark, tmp_path / "small", orc_compress_size=512, orc_buffer_size_enforce="true"
    )
    flat = flat_file(spark, tmp_path / "large")
    with open(flat, "rb") as source, open(tmp_path / "second", "wb") as sink:
        transplant([source], sink, write_id=9, bucket=BUCKET)
    with (
        open(small, "rb") as one,
        open(tmp_path / "second", "rb") as two,
        open(tmp_path / "joined", "wb") as sink,
    ):
        assemble([Part(file, OrcTail.read(file)) for file in (one, two)], sink)
    row_ids = ROW_IDS + [(9, BUCKET, row) for row in range(ROWS)]
    assert read_back(spark, tmp_path / "joined") == (row_ids, expected + expected)


@pytest.mark.parametrize(
    ("codec", "declared_stride"), [*[(codec, STRIDE) for codec in CODECS], ("zlib", 0)]
)
def test_copied_and_new_stripes_are_read_together(
    spark, tmp_path, expected, codec, declared_stride
):
    flat = flat_file(
        spark,
        tmp_path / "flat",
        orc_compress=codec,
        orc_row_index_stride=STRIDE,
        # So that many streams have several chunks.
        orc_compress_size=4096,
        orc_buffer_size_enforce="true",
    )
    files = []
    for write_id in (1, 2, 3):
        file = io.BytesIO()
        with open(flat, "rb") as source:
            transplant([source], file, write_id=write_id, bucket=BUCKET)
        if declared_stride == 0:
            file = with_tail(file, replace(OrcTail.read(file), stride=0))
        files.append(planned(file, exact=True))
    plan, found = compact(files, [(2, BUCKET, row) for row in range(0, ROWS, 10)], tiny_bytes=0)
    assert [group.copy for group in plan.groups] == [True, False, True]
    file = tmp_path / "bucket_00001"
    file.write_bytes(found.getvalue())
    ids = [(w, BUCKET, n) for w in (1, 2, 3) for n in range(ROWS) if w != 2 or n % 10]
    assert read_back(spark, file) == (ids, [expected[n] for _, _, n in ids])

    search = search_options(spark, "id", 2500, 2501)
    some = acid_rows(spark, file, row_type(spark), **search).collect()
    assert [row.row for row in some] == [expected[row.rowId] for row in some]
    assert sorted(row.row.id for row in some if 2500 <= row.row.id <= 2501) == [
        2500,
        2500,
        2501,
        2501,
        2501,
    ]
    # The others were not even looked at, if there is an index.
    assert (len(some) < len(ids)) == (declared_stride > 0)


def test_deletes_are_read(spark, tmp_path, codec):
    rows = np.cumsum(np.arange(ROWS) % 3 + 1)
    same = np.ones(ROWS, dtype=int)
    file = tmp_path / "bucket_00001"
    with open(file, "wb") as sink:
        write_delete_file(
            sink,
            [Keys.deletes(same * 3, same * BUCKET, rows, write_id=8)],
            row_types=row_types(row_struct(HIVE_COLUMNS)),
            codec=codec,
            block_size=512,
            stride=STRIDE,
        )
    found = acid_rows(spark, file, row_type(spark)).collect()
    assert [(row.originalTransaction, row.bucket, row.rowId) for row in found] == [
        (3, BUCKET, row) for row in rows.tolist()
    ]
    assert {(row.operation, row.currentTransaction, row.row) for row in found} == {(2, 8, None)}
    with open(file, "rb") as written:
        starts = list(group_starts(written, EnvelopeColumn.ROW_ID))
    assert starts == rows[::STRIDE].tolist()


def test_an_empty_file_is_read(spark, tmp_path):
    with open(tmp_path / "bucket_00000", "wb") as sink:
        write_empty_file(sink, row_types(row_struct(HIVE_COLUMNS)))
    assert spark.read.orc(str(tmp_path)).schema["row"].dataType.simpleString() == row_type(spark)
    assert acid_rows(spark, tmp_path, row_type(spark)).collect() == []
