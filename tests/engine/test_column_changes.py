"""Tables whose columns were renamed, moved, dropped or added after there was data.

The expected rows come from a model of stored files, field by field. By position, a column of the
table is the field of the same number, as in Hive 4 and Trino. By name, it is the field of its name.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.errors import UnsupportedFile
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.alteration import change_columns
from hiveacid.metastore.catalog import HiveColumn, StorageFormat
from hiveacid.rules.schema import ColumnMapping, MappedColumns, TableKind
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create
from tests.engine.test_evolved_reading import alter

WAS = {"id": "int", "n": "int", "b": "string", "c": "string", "d": "string"}
ROWS = [(k, 10 * k, f"b{k}", f"c{k}", f"d{k}") for k in (1, 2, 3)]
# The changes of columns by a client of the metastore, step by step.
CHANGES: dict[str, list[dict[str, str]]] = {
    "rename": [{"id": "int", "n": "int", "x": "string", "c": "string", "d": "string"}],
    "swap": [{"id": "int", "n": "int", "c": "string", "b": "string", "d": "string"}],
    "reorder": [{"id": "int", "n": "int", "d": "string", "b": "string", "c": "string"}],
    "widen": [{**WAS, "n": "bigint"}],
    "rename and widen": [{"id": "int", "m": "bigint", "b": "string", "c": "string", "d": "string"}],
    "add": [{**WAS, "e": "int"}],
    "rename and add": [
        {"id": "int", "n": "int", "x": "string", "c": "string", "d": "string"},
        {"id": "int", "n": "int", "x": "string", "c": "string", "d": "string", "b": "string"},
    ],
    "drop": [{"id": "int", "n": "int", "c": "string", "d": "string"}],
    "drop the last and add it again": [
        {"id": "int", "n": "int", "b": "string", "c": "string"},
        WAS,
    ],
}
AMBIGUOUS = {"rename", "swap", "reorder", "rename and widen", "rename and add", "drop"}
FORMATS: dict[str, dict[str, Any]] = {
    "full ACID": {},
    "insert-only ORC": {"kind": TableKind.INSERT_ONLY},
    "insert-only Parquet": {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET},
}
PARTITIONS = ("unpartitioned", "cascade", "restrict")


class Changed:
    """A table with the rows ROWS whose columns are changed, and a model of its rows."""

    def __init__(self, spark, client, uri, name, format_, partitions, mapping):
        self.spark, self.client, self.uri, self.name = spark, client, uri, name
        self.mapping = ColumnMapping(mapping)
        parameters = {"hiveacid.column_mapping": mapping}
        if format_ == "insert-only Parquet":
            parameters = {"parquet.column.index.access": str(mapping == "position")}
        self.keys = {} if partitions == "unpartitioned" else {"p": "int"}
        self.cascade = partitions == "cascade"
        self.ref = create(
            client, name, WAS, self.keys, parameters=parameters, **FORMATS[format_]
        ).ref
        self.columns = WAS
        # Field names and values as the files store them.
        self.stored: list[dict[str, Any]] = []
        self.append(*ROWS)

    def open(self) -> AcidTable:
        return AcidTable(self.name, self.uri, spark=self.spark, run_in="spark")

    def frame(self, *rows: Sequence[Any]):
        types = {**self.columns, **self.keys}
        schema = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
        keys = tuple(7 for _ in self.keys)
        return self.spark.createDataFrame([(*row, *keys) for row in rows], schema).coalesce(1)

    def append(self, *rows: Sequence[Any]) -> None:
        with self.open() as table:
            table.append(self.frame(*rows))
        self.stored += [dict(zip(self.columns, row, strict=True)) for row in rows]

    def change(self, steps: Sequence[dict[str, str]]) -> None:
        for columns in steps:
            new = [HiveColumn(*column) for column in columns.items()]
            if self.cascade:
                change_columns(
                    self.client,
                    self.client.get_table(self.ref),
                    lambda _, new=new: new,
                    run_token=None,
                    lock_wait_seconds=9,
                )
            else:
                alter(self.client, self.name, [*columns.items()])
            self.columns = columns

    def expected(self) -> list[tuple[Any, ...]]:
        mapped = MappedColumns((*self.columns,), self.mapping)
        rows = []
        for stored in self.stored:
            values = [*stored.values()]
            fields = mapped.fields([*stored])
            rows.append(tuple(None if field is None else values[field] for field in fields))
        return sorted(rows, key=str)

    def rewrite(self, id_: int, **values: Any) -> None:
        """Replace a row of the model by one with the columns of today."""
        (row,) = [row for row in self.expected() if row[0] == id_]
        self.stored = [stored for stored in self.stored if stored["id"] != id_]
        self.stored.append(dict(zip(self.columns, row, strict=True)) | values)

    def compact(self, kind: str, refused: bool) -> None:
        refusal = pytest.raises(UnsupportedFile, match="a compaction would drop values")
        with self.open() as table, refusal if refused else nullcontext():
            (report,) = table.compact(kind).partitions
            assert report.outcome == "compacted", report
        clean(self.client, CleanJob(target=self.name, retention="0"))

    def check(self, capsys) -> None:
        names, wanted = [*self.columns], self.expected()
        with self.open() as table:
            frame = table.to_df().select(names)
            assert sorted(map(tuple, frame.collect()), key=str) == wanted
            # A single column, and a condition on it.
            last, value = names[-1], wanted[0][-1]
            where = f"{last} IS NULL" if value is None else f"{last} = '{value}'"
            frame = table.to_df(where=where).select(last)
            assert [row[0] for row in frame.collect()] == [
                row[-1] for row in wanted if row[-1] == value
            ]
        arrow = self.open().scan(columns=names).to_arrow().to_pylist()
        assert sorted((tuple(row[name] for name in names) for row in arrow), key=str) == wanted
        capsys.readouterr()
        assert main(["cat", self.name, "--metastore", self.uri, "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert sorted((tuple(row[name] for name in names) for row in lines), key=str) == wanted


@pytest.fixture
def changed(spark, hms, client, database, request):
    change, format_, partitions, mapping = request.param
    table = Changed(spark, client, hms.uri, f"{database}.t", format_, partitions, mapping)
    table.append((4, 40, "b4", "c4", "d4"))
    table.change(CHANGES[change])
    return table


def cases(*formats: str) -> list[Any]:
    return [
        pytest.param(case, id=" | ".join(case))
        for case in (
            (change, format_, partitions, mapping)
            for change in CHANGES
            for format_ in formats
            for partitions in PARTITIONS
            for mapping in ColumnMapping
        )
    ]


def is_refused(case: tuple[str, ...]) -> bool:
    """Return whether a compaction would have to drop visible values."""
    change, _, _, mapping = case
    return change in AMBIGUOUS and (mapping == "name" or change == "drop")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("changed", cases("full ACID"), indirect=True)
@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_full_acid_tables_keep_their_values(changed, request, capsys):
    case = request.node.callspec.params["changed"]
    changed.check(capsys)
    at_first = changed.expected()
    with changed.open() as table:
        version = table.history()[0].write_id
        updated = table.update({"id": "id"}, "id = 2")
        assert updated.column_mapping == (case[3] if case[0] in AMBIGUOUS else None)
    changed.rewrite(2)
    changed.check(capsys)
    assert changed.expected() == at_first
    with changed.open() as table:
        row = next(row for row in at_first if row[0] == 3)
        source = changed.frame((9, *row[1:]), row)
        merge = table.merge(source, "t.id = s.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    changed.rewrite(3)
    changed.stored.append(dict(zip(changed.columns, (9, *row[1:]), strict=True)))
    changed.check(capsys)
    with changed.open() as table:
        inserted = [r for r in table.changes(version).collect() if r["_change_type"] == "insert"]
        names = [*changed.columns]
        assert sorted((tuple(r[name] for name in names) for r in inserted), key=str) == [
            row for row in changed.expected() if row[0] in (2, 3, 9)
        ]
    with changed.open() as table:
        restored = table.restore(version)
        assert restored.column_mapping == updated.column_mapping
    changed.stored = [stored for stored in changed.stored if stored["id"] != 9]
    assert changed.expected() == at_first
    changed.check(capsys)
    changed.compact("minor", is_refused(case))
    changed.check(capsys)
    changed.compact("major", is_refused(case))
    changed.check(capsys)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("changed", cases("insert-only ORC", "insert-only Parquet"), indirect=True)
@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_insert_only_tables_keep_their_values(changed, request, capsys):
    case = request.node.callspec.params["changed"]
    if VERSION < SPARK_4_0 and "widen" in str(case) and "Parquet" in str(case):
        pytest.skip("Spark 3.5 cannot widen the columns of Parquet files")
    changed.check(capsys)
    new = tuple(5 if type_ != "string" else "5" for type_ in changed.columns.values())
    changed.append(new)
    changed.check(capsys)
    changed.compact("minor", is_refused(case))
    changed.check(capsys)
    changed.append(new)
    changed.compact("major", is_refused(case))
    changed.check(capsys)
