"""Times of Parquet files, as the Python scan reads them."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hiveacid.cli.values import json_values
from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.metastore.catalog import HiveColumn
from airflow_hiveacid.scan.columns import TableColumns
from airflow_hiveacid.scan.parquet_file import ParquetFile
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from tests.scan.parquet_cases import CASES, NEW_YORK, Case


def shown(path: Path, type_: str, name: str = "at", unit: str | None = None) -> list[str | None]:
    """The values of a column of a file."""
    columns = TableColumns([HiveColumn(name, type_)], unit=unit)
    file = ParquetFile(ReadOnlyStorage.of(str(path.parent)), path.name)
    return [
        value
        for batch in file.batches([name])
        for value in json_values(columns.batch(batch, [])[name])
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_times_are_those_that_hive_shows(case: Case, tmp_path: Path) -> None:
    assert shown(case.write(tmp_path), case.type) == case.shown


def test_nested_local_times_have_no_zone(tmp_path: Path) -> None:
    nested = pa.array([[1_577_872_800_000_000]], pa.list_(pa.timestamp("us")))
    table = pa.table({"at": nested}).replace_schema_metadata(NEW_YORK)
    parquet.write_table(table, tmp_path / "local")
    assert shown(tmp_path / "local", "array<timestamp>") == [["2020-01-01 10:00:00"]]
    parquet.write_table(table, tmp_path / "instants", use_deprecated_int96_timestamps=True)
    with pytest.raises(
        UnsupportedFile, match=r"instants: at holds .* the clock of America/New_York"
    ):
        shown(tmp_path / "instants", "array<timestamp>")
