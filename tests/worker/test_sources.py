"""Sources of the worker: the rows that they have, and those that are left to Spark."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from hiveacid.api.rows import batch_of
from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    CheckFailed,
    SparkNeeded,
    StorageError,
    TypeMismatch,
    UnknownColumn,
)
from hiveacid.jobs.checks import NotNull
from hiveacid.jobs.quarantine import FAILED_CHECKS, RUN
from hiveacid.jobs.sources import PathSource, QuerySource, Source, TableSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker import files
from hiveacid.worker.run import change_rows
from hiveacid.worker.sources import source_of_rows

ONLY_HIVE4 = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
pytestmark = [ONLY_HIVE4, pytest.mark.usefixtures("hms")]
COLUMNS = {"id": "bigint", "v": "string", "p": "decimal(10,2)", "d": "date"}
ROWS = [
    {"id": 1, "v": "a", "p": Decimal("1.50"), "d": date(2026, 1, 31)},
    {"id": 2, "v": None, "p": None, "d": None},
]
ARROW = pa.Table.from_pylist(
    ROWS,
    pa.schema(
        [("id", pa.int64()), ("v", pa.string()), ("p", pa.decimal128(10, 2)), ("d", pa.date32())]
    ),
)
SCHEMA_OF_FEED = ARROW.schema.append(pa.field("op", pa.string()))
SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
Insert = Callable[[Source], list[dict[str, Any]]]


def create(client: MetastoreClient, name: str, **more: Any) -> HiveTable:
    columns = [HiveColumn(name, type_) for name, type_ in COLUMNS.items()]
    client.create_table(HiveTable.new(TableRef.parse(name), columns, **more))
    return client.get_table(TableRef.parse(name))


def worker_insert(client: MetastoreClient, name: str, source: Source) -> InsertJob:
    return InsertJob(target=name, source=source, metastore=client.options, run_in="worker")


@pytest.fixture
def insert(client: MetastoreClient, database: str) -> Insert:
    """Insert a source into a new table in the worker, and return the rows of the table."""
    name = f"{database}.t"
    create(client, name)

    def run(source: Source) -> list[dict[str, Any]]:
        change_rows(client, worker_insert(client, name, source))
        rows: list[dict[str, Any]] = TableScan(name, client.options).to_arrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["id"]))

    return run


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_files_of_columns(insert: Insert, tmp_path: Path, form: str) -> None:
    write = parquet.write_table if form == "parquet" else orc.write_table
    write(ARROW.slice(0, 1), str(tmp_path / "1"))
    write(ARROW.slice(1), str(tmp_path / "2"))
    (tmp_path / "_SUCCESS").touch()
    assert insert(PathSource(f"file:{tmp_path}", form)) == ROWS


def test_the_statements_of_a_quarantine_read_a_file_once(
    client: MetastoreClient, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another feed may replace the file between two reads."""
    path = tmp_path / "feed.parquet"
    parquet.write_table(ARROW, str(path))
    read = files.rows_of_files

    def replaced_afterwards(source: PathSource) -> tuple[pa.Table, int]:
        found = read(source)
        parquet.write_table(ARROW.slice(0, 0), str(path))
        return found

    monkeypatch.setattr("hiveacid.worker.sources.rows_of_files", replaced_afterwards)
    create(client, f"{database}.t")
    columns = [HiveColumn(name, type_) for name, type_ in COLUMNS.items()]
    more = [HiveColumn(name, "string") for name in (FAILED_CHECKS, RUN)]
    client.create_table(HiveTable.new(TableRef(database, "q"), [*columns, *more]))
    feed = PathSource(f"file:{path}", "parquet")
    for source in (feed, QuerySource("SELECT * FROM f WHERE id < 9", {"f": feed})):
        parquet.write_table(ARROW, str(path))
        job = worker_insert(client, f"{database}.t", source)
        check = NotNull(columns=["v"], severity="quarantine")
        report = change_rows(client, replace(job, checks=[check], quarantine=f"{database}.q"))
        assert [each.rows_inserted for each in report.tables] == [1, 1]
    found = TableScan(f"{database}.q", client.options).to_arrow().to_pylist()
    assert found == 2 * [ROWS[1] | {FAILED_CHECKS: "not_null(v)", RUN: None}]


@pytest.mark.parametrize(
    ("form", "text", "options"),
    [
        ("csv", "1,a,1.5,2026-01-31\n2,,,", {}),
        ("csv", "id;v;p;d\r\n1;a;1.50;2026-01-31\r\n2;;;\r\n", {"header": "true", "sep": ";"}),
        (
            "json",
            '{"d": "2026-01-31", "v": "a", "id": 1, "p": 1.5, "x": 1}\n{"id": 2, "v": null}\n',
            {},
        ),
    ],
)
def test_files_of_lines(
    insert: Insert, tmp_path: Path, form: str, text: str, options: dict[str, str]
) -> None:
    (tmp_path / f"feed.{form}").write_bytes(text.encode())
    source = PathSource(f"{tmp_path}/feed.*", form, options, SCHEMA)
    assert insert(source) == ROWS
    query = QuerySource(
        "SELECT id + 10 AS id, v, p, d FROM feed AS f WHERE f.v = :v",
        {"feed": source},
        params={"v": "a"},
    )
    assert insert(query) == [*ROWS, {**ROWS[0], "id": 11}]


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [
        ("1.csv", b"1,a,1.5\n", {}),
        ("1.csv", b'1,"a",1.5,\n', {}),
        ("1.csv", b"1,a\\,1.5,\n", {}),
        ("1.csv", b"1, a,1.5,\n", {}),
        ("1.csv", b"01,a,1.5,\n", {}),
        ("1.csv", b"1,a,1.555,\n", {}),
        ("1.csv", b"1,a,1.5,2026-02-30\n", {}),
        ("1.csv", b"1,a,,\n\n2,b,,\n", {}),
        ("1.csv", b"1,a,,\r2,b,,\n", {}),
        ("1.csv", b"1,\xe4,,\n", {}),
        ("1.csv", b"\xef\xbb\xbf1,a,,\n", {}),
        ("1.csv", b"9223372036854775808,a,,\n", {}),
        ("1.csv", b"v,id,p,d\n", {"options": {"header": "true"}}),
        ("1.csv", b"1,a,,\n", {"options": {"nullValue": "a"}}),
        ("1.csv", b"1,a,,\n", {"schema": None}),
        ("1.csv", b"1,a,,\n", {"schema": "id bigint, v varchar(5), p int, d date"}),
        ("1.csv", b"1,a,,\n", {"schema": "id bigint, ID string, p int, d date"}),
        ("1.csv.gz", b"1,a,,\n", {}),
        ("1.json", b'{"id": "1"}\n', {}),
        ("1.json", b'{"id": 1.0}\n', {}),
        ("1.json", b'{"id": 1, "id": 2}\n', {}),
        ("1.json", b'{"v": 1}\n', {}),
        ("1.json", b'{"v": {"a": 1}}\n', {}),
        ("1.json", b'{"v": "\\ud83d"}\n', {}),
        ("1.json", b'[{"id": 1}]\n', {}),
        ("1.json", b'{"id": 1}\n\n{"id": 2}', {}),
        ("1.json", b'{"id": \n', {}),
        ("1.json", b'{"p": NaN}\n', {}),
        (
            "1.json",
            b'{"id": 1, "_corrupt_record": "x"}\n',
            {"schema": "id int, _corrupt_record string"},
        ),
        ("1.parquet", b"", {"schema": None}),
        ("1.orc", b"ORC", {"schema": None}),
    ],
)
def test_what_spark_might_read_differently_is_left_to_it(
    insert: Insert,
    client: MetastoreClient,
    tmp_path: Path,
    name: str,
    content: bytes,
    more: dict[str, Any],
) -> None:
    (tmp_path / name).write_bytes(content)
    form = name.split(".")[1]
    with pytest.raises(SparkNeeded):
        insert(PathSource(f"file:{tmp_path}/{name}", form, **{"schema": SCHEMA, **more}))
    assert client.show_locks() == []


def test_control_columns_are_not_part_of_the_row(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    name = f"{database}.t"
    create(client, name)
    feed = PathSource(f"file:{tmp_path}", "parquet")
    inserting = replace(worker_insert(client, name, feed), exclude=["OP", "d"])
    merging = MergeJob(
        target=name,
        source=feed,
        on="t.id = s.id",
        when=[
            MatchedDelete("s.op = 'D'"),
            MatchedUpdate(),
            NotMatchedInsert(condition="s.op <> 'D'"),
        ],
        exclude=["op", "P"],
        metastore=client.options,
        run_in="worker",
    )

    def write(*rows: dict[str, Any]) -> None:
        parquet.write_table(pa.Table.from_pylist([*rows], SCHEMA_OF_FEED), str(tmp_path / "1"))

    write(*({**row, "op": "I"} for row in ROWS))
    change_rows(client, inserting)
    first, second = ({**row, "d": None} for row in ROWS)
    assert TableScan(name, client.options).to_arrow().to_pylist() == [first, second]
    third = {"id": 3, "v": "c", "p": Decimal(3), "d": date(2026, 3, 3)}
    changed = {**first, "v": "A", "p": Decimal(9)}
    write({**changed, "op": "U"}, {"id": 2, "op": "D"}, {**third, "op": "I"}, {"id": 4, "op": "D"})
    report = change_rows(client, merging)
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 1)
    rows = TableScan(name, client.options).to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: int(row["id"])) == [
        {**changed, "p": first["p"]},
        {**third, "p": None},
    ]
    for job in (inserting, merging):
        with pytest.raises(UnknownColumn, match="excludes nope, but the source has no such"):
            change_rows(client, replace(job, exclude=["nope"]))
    small = QuerySource("SELECT id, v, op FROM f", {"f": feed})
    with pytest.raises(UnknownColumn, match=r"has no p, d\. .*merge_schema=True"):
        change_rows(client, replace(merging, source=small, exclude=["op"]))


def test_files_that_spark_may_know_otherwise(insert: Insert, tmp_path: Path) -> None:
    def refused(source: PathSource, why: str) -> None:
        with pytest.raises(SparkNeeded, match=why):
            insert(source)

    folder = tmp_path / "k=1"
    folder.mkdir()
    parquet.write_table(ARROW, str(folder / "1.parquet"))
    refused(PathSource(f"file:{tmp_path}", "parquet"), "folders or summaries")
    refused(PathSource(f"file:{tmp_path}/*", "parquet"), "hidden files or partitions")
    refused(PathSource(f"file:{folder}", "parquet", schema=SCHEMA), "options or a schema")
    refused(PathSource(f"{tmp_path}/none", "parquet"), "does not have")
    refused(PathSource("relative", "parquet"), "the path relative")
    refused(PathSource("other://store/1.parquet", "parquet"), "not supported")
    with pytest.raises(StorageError, match="no file was found"):
        insert(PathSource(f"file:{tmp_path}/none", "parquet"))
    parquet.write_table(ARROW.select(["id", "v"]), str(folder / "2.parquet"))
    refused(PathSource(f"file:{folder}", "parquet"), "different columns")
    columns = (
        (pa.array([date(1582, 10, 4)]), "days before"),
        (pa.array([0], pa.timestamp("us")), "type timestamp"),
        (pa.array([b"1"]), "type binary"),
        (pa.array([None]), "without a type"),
    )
    for number, (column, why) in enumerate(columns):
        parquet.write_table(pa.table({"d": column}), str(tmp_path / f"{number}.parquet"))
        refused(PathSource(f"file:{tmp_path}/{number}.parquet", "parquet"), why)
    fields = [{"name": "v", "type": "string", "nullable": True, "metadata": {"__CHAR": "char(5)"}}]
    written = {
        b"org.apache.spark.sql.parquet.row.metadata": json.dumps({"fields": fields}).encode()
    }
    chars = ARROW.select(["v"]).replace_schema_metadata(written)
    parquet.write_table(chars, str(tmp_path / "char.parquet"))
    refused(PathSource(f"file:{tmp_path}/char.parquet", "parquet"), "types of Spark")


@pytest.mark.parametrize("form", [StorageFormat.ORC, StorageFormat.PARQUET])
@pytest.mark.parametrize("kind", [TableKind.NOT_ACID, TableKind.INSERT_ONLY])
def test_tables_whose_files_are_rows(
    insert: Insert, client: MetastoreClient, database: str, form: StorageFormat, kind: TableKind
) -> None:
    table = create(
        client,
        f"{database}.s",
        kind=kind,
        format=form,
        partition_keys=[HiveColumn("k", "int")],
    )
    write = orc.write_table if form is StorageFormat.ORC else parquet.write_table
    for key in (1, None):
        text = None if key is None else str(key)
        client.add_partitions(table.ref, [HivePartition.new(table, [text])])
        (partition,) = [p for p in client.get_partitions(table) if p.values == (text,)]
        folder = Path(partition.folder.removeprefix("file:"))
        folder.mkdir(parents=True, exist_ok=True)
        rows = ARROW.slice(0, 1) if key else ARROW.slice(1)
        write(rows, str(folder / "000000_0"))
        (folder / ".hidden").write_text("no rows")
    query = "SELECT id, v, p, d FROM s WHERE k IS NULL OR k = 1"
    assert insert(QuerySource(query, {"s": TableSource(f"{database}.s")})) == ROWS


def test_a_full_acid_table_has_its_visible_rows(
    insert: Insert, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.s"
    create(client, name, partition_keys=[HiveColumn("k", "string")])
    with AcidTable(name, client.options, run_in="worker") as table:
        for key in ("x", "y"):
            table.append(ARROW.append_column("k", pa.array([key, key])))
        table.delete("k = 'x' AND id = 2")
        table.update({"v": "'b'"}, "k = 'y' AND id = 2")
    query = "SELECT id, v, p, d FROM s WHERE k = 'x' OR v = 'b'"
    changed = {**ROWS[1], "v": "b"}
    assert insert(QuerySource(query, {"s": TableSource(name)})) == [ROWS[0], changed]


def test_a_row_that_several_rows_of_the_source_match_is_deleted_once(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    name = f"{database}.t"
    create(client, name)
    with AcidTable(name, client.options, run_in="worker") as table:
        table.append(ARROW)
    (tmp_path / "feed.csv").write_text("1,a\n1,b\n3,c\n")
    merge = MergeJob(
        target=name,
        source=PathSource(f"file:{tmp_path}", "csv", schema="id bigint, v string"),
        on="t.id = s.id",
        when=[MatchedDelete(), NotMatchedInsert({"id": "s.id", "v": "s.v"})],
        metastore=client.options,
        run_in="worker",
    )
    with pytest.raises(CheckFailed, match=r": id=1 \(2 source rows\)\."):
        change_rows(client, replace(merge, when=[MatchedDelete("s.v <> 'c'")]))
    report = change_rows(client, merge)
    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    rows = TableScan(name, client.options).to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [2, 3]


def test_a_partition_of_a_day_that_hive_does_not_know_is_left_to_spark_which_refuses_it(
    client: MetastoreClient, database: str
) -> None:
    name = f"{database}.days"
    create(client, name, partition_keys=[HiveColumn("k", "date")])
    with AcidTable(name, client.options, run_in="worker") as table:
        for day in (date(1582, 10, 4), date(1582, 10, 15)):
            table.append(ARROW.append_column("k", pa.array([day, None])))
        for day in (date(1582, 10, 5), date(1582, 10, 14)):
            with pytest.raises(SparkNeeded, match=f"{day} of a partition key"):
                table.append(ARROW.append_column("k", pa.array([day, None])))
        assert table.scan().count_rows() == 4
    assert len(client.get_partition_names(TableRef.parse(name))) == 3


def test_tables_of_text_and_earlier_versions_are_left_to_spark(
    insert: Insert, client: MetastoreClient, database: str
) -> None:
    for form in (StorageFormat.TEXTFILE, StorageFormat.JSON):
        name = f"{database}.{form.name.lower()}"
        create(client, name, kind=TableKind.NOT_ACID, format=form)
        with pytest.raises(SparkNeeded, match="lines of text"):
            insert(TableSource(name))
    with pytest.raises(SparkNeeded, match="earlier version"):
        insert(TableSource(f"{database}.t", as_of="1"))


def test_large_sources_are_left_to_spark(
    insert: Insert,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parquet.write_table(ARROW, str(tmp_path / "1.parquet"))
    (tmp_path / "1.csv").write_text("1,a,,\n2,b,,\n")
    sources = (
        PathSource(f"file:{tmp_path}/1.parquet", "parquet"),
        PathSource(f"file:{tmp_path}/1.csv", "csv", schema=SCHEMA),
        TableSource(f"{database}.s"),
    )
    create(client, f"{database}.s")
    change_rows(client, worker_insert(client, f"{database}.s", sources[0]))
    limits = (("MOST_ROWS", 1), ("MOST_BYTES", 10), ("MOST_HELD", 10), ("_LONGEST_LINE", 4))
    limited = (sources, sources[:1], sources, sources[1:2])
    for (limit, most), left in zip(limits, limited, strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(files, limit, most)
            for source in left:
                with pytest.raises(SparkNeeded, match="more than"):
                    insert(source)
    assert client.show_locks() == []
    assert len(insert(sources[2])) == len(ROWS)


def test_lines_are_read_some_at_a_time(
    insert: Insert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ROWS", 2)
    parts = []
    original = files._batch_of
    monkeypatch.setattr(
        files, "_batch_of", lambda rows, *more: (parts.append(len(rows)), original(rows, *more))[1]
    )
    for number, text in enumerate(("id,v\n1,a\n2,b\n3,c\n", "id,v\n4,d", "id,v\n", "")):
        (tmp_path / f"{number}.csv").write_text(text)
    schema, options = "id bigint, v string", {"header": "true"}
    found = insert(PathSource(f"file:{tmp_path}/*.csv", "csv", options=options, schema=schema))
    assert [(row["id"], row["v"]) for row in found] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert parts == [2, 1, 1]


def test_rows_of_a_program() -> None:
    import pandas
    import polars

    text = pa.array(["a", "b", None]).dictionary_encode()
    given = pa.table(
        {
            "ID": pa.array([1, 2, 3], pa.uint8()),
            "v": text,
            "w": pa.array(["x"] * 3, pa.large_string()),
        }
    )
    expected = pa.table(
        {"id": pa.array([1, 2, 3], pa.int16()), "v": ["a", "b", None], "w": ["x"] * 3}
    )
    forms = (given, given.to_batches()[0], given.to_reader(), polars.from_arrow(given))
    for form in (*forms, given.to_pandas().set_index(pandas.Index([7, 8, 9]))):
        source = source_of_rows(batch_of(form))
        assert source.evaluate(None) == expected
    categories = polars.DataFrame({"v": ["a", None]}).with_columns(
        polars.col("v").cast(polars.Categorical)
    )
    assert source_of_rows(batch_of(categories)).evaluate(None) == pa.table({"v": ["a", None]})


def test_rows_of_a_program_that_are_not_evaluated() -> None:
    for given, why in (
        (pa.table({"a": [1], "A": [2]}), "different names"),
        (pa.table({"a": [[1]]}), "the type list"),
        (pa.table({"a": pa.array([1], pa.uint64())}), "the type uint64"),
        (pa.table({}), "different names"),
    ):
        with pytest.raises(SparkNeeded, match=why):
            source_of_rows(given)
    broken = pa.StringArray.from_buffers(1, *pa.array([b"\xff"]).buffers()[1:])
    with pytest.raises(SparkNeeded, match="not valid"):
        source_of_rows(pa.table({"a": broken}))
    with pytest.raises(TypeError, match="not of type list"):
        batch_of([1])
    with pytest.raises(TypeMismatch, match="cannot be stored"):
        batch_of(pa.table({"a": pa.array([1], pa.timestamp("ns"))}))
