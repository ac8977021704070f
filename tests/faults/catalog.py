"""A catalog of Iceberg in a database of SQLite: its places for faults, and the rows of a mirror in it."""

from typing import TYPE_CHECKING, Any

from pyarrow import orc

from hiveacid.jobs.iceberg_job import IcebergExportJob
from tests.faults.rows import Row
from tests.places import place_of

if TYPE_CHECKING:
    from tests.faults.effects import Effects


def watch_catalog(effects: "Effects") -> None:
    """Count the calls of a catalog, and the files of its metadata, which Arrow reads and writes."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import PyArrowFile

    effects.count_reads(SqlCatalog, "load_table")
    effects.count_changes(SqlCatalog, "commit_table")
    effects.count_reads(PyArrowFile, "open")
    effects.count_changes(PyArrowFile, "create")
    # Files that are verified, and that a later file refers to, are stored.
    create = PyArrowFile.create

    def stored(file: PyArrowFile, overwrite: bool = False) -> Any:
        effects.wrote(None)
        return create(file, overwrite)

    PyArrowFile.create = stored  # type: ignore[method-assign]


def create_namespace(job: IcebergExportJob) -> None:
    """Create the namespace of a mirror."""
    _catalog(job).create_namespace(job.table.split(".")[0])


def drop_mirror(job: IcebergExportJob) -> None:
    """Drop a mirror, whose files stay in the folder of the next one."""
    _catalog(job).drop_table(job.table)


def mirrored_rows(job: IcebergExportJob) -> list[Row]:
    """The rows of a mirror, read from its data files by Arrow."""
    rows = []
    for task in _catalog(job).load_table(job.table).scan().plan_files():
        assert not task.delete_files
        with place_of(task.file.file_path).open("rb") as source:
            content = orc.ORCFile(source).read()
        for row in content.to_pylist():
            rows.append(Row(row["id"], row["v"], task.file.partition[0]))
    return sorted(rows)


def _catalog(job: IcebergExportJob) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(job.catalog, **job.catalog_options)
