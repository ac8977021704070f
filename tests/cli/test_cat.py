import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.cli.main import main
from hiveacid.rules.schema import TableKind
from tests.cli.acid_files import ACID_NAMES, ids, write_events
from tests.golden import GoldenTable, golden_snapshots

DATA = Path(__file__).parents[1] / "data"
HIVE_WRITTEN = json.loads((DATA / "hive-written" / "README.json").read_text())
# Columns are printed as each file has them.
OF_OTHER_COLUMNS = ("evolved",)
ALL_OF_5 = "db.t:5:9223372036854775807::"


@pytest.fixture
def cat(capsys):
    """Run the command and return its output as rows."""

    def run(path, write_ids, *options):
        assert main(["cat", "--path", str(path), "--write-ids", write_ids, "--json", *options]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def refused(capsys):
    """Run the command and return its exit status and its message."""

    def run(path, write_ids, *options):
        status = main(["cat", "--path", str(path), "--write-ids", write_ids, *options])
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize("writer", ["hive3", "hive4"])
@pytest.mark.parametrize("expected", HIVE_WRITTEN["expect"], ids=lambda e: e["validWriteIds"])
def test_directories_written_by_hive_have_the_rows_hive_wrote(cat, writer, expected):
    rows = cat(DATA / "hive-written" / writer, expected["validWriteIds"])
    assert sorted([row["a"], row["b"]] for row in rows) == expected["rows"]


@pytest.mark.parametrize(
    "snapshot",
    [case for case in golden_snapshots(TableKind.FULL_ACID) if case.table not in OF_OTHER_COLUMNS],
    ids=str,
)
def test_tables_of_real_engines_have_the_rows_and_row_ids_hive_selected(cat, snapshot):
    golden = GoldenTable.read(snapshot.table)
    printed = [
        [[row["row_id"][part] for part in ("write_id", "bucket", "row")]]
        + [
            None if row[column] is None else str(row[column])
            for column in [*golden.columns, *golden.partition_keys]
        ]
        for row in cat(
            golden.folder,
            snapshot.write_ids.format(),
            "--row-ids",
            "--txns",
            snapshot.txns.format(),
        )
    ]
    assert sorted(printed, key=str) == sorted(snapshot.rows, key=str)


def test_query_compacted_files_spell_the_columns_in_lower_case(cat, tmp_path):
    names = [name.lower() for name in ACID_NAMES]
    write_events(
        tmp_path / "base_0000002_v9/bucket_00000", [(1, 0, 1), (1, 1, 1)], ids(7, 8), names
    )
    write_events(
        tmp_path / "delete_delta_0000003_0000003_0000/bucket_00000", [(1, 0, 3)], names=names
    )
    assert cat(tmp_path, ALL_OF_5) == [{"id": 8}]


def test_rows_and_deletes_of_aborted_write_ids_inside_a_compacted_delta_are_skipped(cat, tmp_path):
    rows = [(2, 0, 2), (3, 0, 3), (4, 0, 4)]
    write_events(tmp_path / "delta_0000002_0000005/bucket_00000", rows, ids(2, 3, 4))
    deletes = [(2, 0, 3), (4, 0, 5)]
    write_events(tmp_path / "delete_delta_0000002_0000005/bucket_00000", deletes)
    # 3 is aborted: its row does not count, nor does its delete of row 2.
    assert cat(tmp_path, "db.t:5:9223372036854775807::3") == [{"id": 2}]


@pytest.mark.parametrize(
    ("statement", "rules", "visible"),
    [(0, "hive4", [1]), (1, "hive4", [1]), (2, "hive4", []), (0, "hive3", [])],
)
def test_a_delete_of_the_same_write_id_needs_a_later_statement(
    cat, tmp_path, statement, rules, visible
):
    write_events(tmp_path / "delta_0000004_0000004_0001/bucket_00000", [(4, 0, 4)], ids(1))
    delete = tmp_path / f"delete_delta_0000004_0000004_{statement:04d}"
    write_events(delete / "bucket_00000", [(4, 0, 4)])
    assert [row["id"] for row in cat(tmp_path, ALL_OF_5, "--rules", rules)] == visible


def test_a_delete_counts_in_any_file(cat, tmp_path):
    """Trino writes it into the data file's place, Hive into that of the row id."""
    write_events(tmp_path / "delta_0000001_0000001/bucket_00000", [(1, 0, 1), (1, 1, 1)], ids(1, 2))
    write_events(tmp_path / "delete_delta_0000002_0000002_0000/bucket_00001", [(1, 0, 2)])
    assert cat(tmp_path, ALL_OF_5) == [{"id": 2}]


def test_a_base_directory_without_files_hides_the_rows_before_it(cat, tmp_path):
    write_events(tmp_path / "delta_0000001_0000001_0000/bucket_00000", [(1, 0, 1)], ids(1))
    (tmp_path / "base_0000002").mkdir()
    assert cat(tmp_path, ALL_OF_5) == []
    assert cat(tmp_path, "db.t:1:9223372036854775807::") == [{"id": 1}]


def test_text_is_tab_separated_with_a_header(capsys, tmp_path):
    rows = pa.array([{"id": 1, "s": "a\tb\n"}, {"id": None, "s": "c\\"}])
    write_events(
        tmp_path / "k=x y/delta_0000001_0000001_0000/bucket_00000", [(1, 0, 1), (1, 1, 1)], rows
    )
    assert main(["cat", "--path", str(tmp_path), "--write-ids", ALL_OF_5, "--row-ids"]) == 0
    assert capsys.readouterr().out == (
        "row_id\tid\ts\tk\n1/536870912/0\t1\ta\\tb\\n\tx y\n1/536870912/1\tNULL\tc\\\\\tx y\n"
    )


@pytest.mark.parametrize(("limit", "printed"), [(0, 0), (3, 3), (1000, 174)])
def test_a_limit_stops_the_output(cat, limit, printed):
    write_ids = "default.plain_crud:4:9223372036854775807::"
    assert len(cat(DATA / "tables/plain_crud", write_ids, "--limit", str(limit))) == printed


def test_a_truncated_file_is_named(refused, tmp_path):
    shutil.copytree(DATA / "hive-written/hive4/delta_0000001_0000001_0000", tmp_path / "delta_1_1")
    file = tmp_path / "delta_1_1/bucket_00001"
    file.write_bytes(file.read_bytes()[:-40])
    status, said = refused(tmp_path, ALL_OF_5)
    assert status == 30
    assert str(file) in said
    assert len(said.splitlines()) == 1


def test_rows_without_row_ids_are_counted_per_bucket(cat, tmp_path):
    for path, first in [
        ("000000_0", 1),
        ("000000_0_copy_1", 3),
        ("000001_0", 5),
        ("part-1.orc", 7),
        ("delta_0000001_0000001_0002/000000_0", 9),
    ]:
        pa.orc.write_table(pa.table({"id": [first, first + 1]}), _in_folder(tmp_path / path))
    write_events(tmp_path / "delete_delta_0000002_0000002_0000/bucket_00000", [(0, 3, 2)])
    statuses = {
        tuple(row["row_id"].values()): row["id"] for row in cat(tmp_path, ALL_OF_5, "--row-ids")
    }
    zero, one = 1 << 29, 1 << 29 | 1 << 16
    assert statuses == {
        (0, zero, 0): 1,
        (0, zero, 1): 2,
        (0, zero, 2): 3,
        (0, one, 0): 5,
        (0, one, 1): 6,
        (0, -1, 0): 7,
        (0, -1, 1): 8,
        (1, zero + 2, 0): 9,
        (1, zero + 2, 1): 10,
    }


def test_a_bucket_file_without_row_ids_is_an_error(refused, tmp_path):
    pa.orc.write_table(pa.table({"id": [1]}), _in_folder(tmp_path / "base_0000001/bucket_00000"))
    status, said = refused(tmp_path, ALL_OF_5)
    assert status == 30
    assert "bucket_00000 has the columns id" in said


def _in_folder(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--path", "/nowhere/at/all", "--write-ids", ALL_OF_5], 50, "/nowhere/at/all"),
        (["--path", "."], 20, "--write-ids"),
        (["--path", ".", "--write-ids", "db.t:x"], 30, "write id list"),
        (["db.t"], 20, "--metastore"),
        (["db.t", "--metastore", "thrift://127.0.0.1:1"], 40, "127.0.0.1:1"),
        ([], 20, "--path"),
    ],
)
def test_bad_arguments_give_one_clear_message(capsys, arguments, status, words):
    assert main(["cat", *arguments]) == status
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_column_called_row_id_is_not_hidden_by_row_ids(refused, tmp_path):
    rows = pa.array([{"row_id": 9}])
    write_events(tmp_path / "delta_0000001_0000001_0000/bucket_00000", [(1, 0, 1)], rows)
    status, said = refused(tmp_path, ALL_OF_5, "--row-ids")
    assert status == 20
    assert "--row-ids" in said


def test_a_reader_that_goes_away_ends_the_command_silently(tmp_path):
    events = [(1, number, 1) for number in range(50_000)]
    write_events(tmp_path / "delta_0000001_0000001/bucket_00000", events, ids(*range(50_000)))
    command = [sys.executable, "-m", "hiveacid.cli.main", "cat", "--json"]
    with subprocess.Popen(
        [*command, "--path", str(tmp_path), "--write-ids", ALL_OF_5],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        assert process.stdout.readline() == b'{"id": 0}\n'
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("day", ["0001-01-01", "1582-10-04", "1582-10-15", "9999-12-31"])
def test_days_before_1582_are_printed_as_spark_wrote_them(cat, spark, tmp_path, day):
    frame = spark.sql(f"SELECT date'{day}' AS d, array(struct(date'{day}' AS d)) AS ds")
    frame.coalesce(1).write.orc(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.orc")
    file.rename(_in_folder(tmp_path / "t/000000_0"))
    assert cat(tmp_path / "t", ALL_OF_5) == [{"d": day, "ds": [{"d": day}]}]
