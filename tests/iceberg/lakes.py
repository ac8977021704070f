"""Catalogs of Iceberg in a folder, and the rows of tables in them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from hiveacid.iceberg.attempt import Attempt
from hiveacid.iceberg.catalog_files import CatalogFiles, files_of
from hiveacid.iceberg.catalogs import KINDS, MetastoreCatalog
from hiveacid.iceberg.change_plan import ChangePlan
from hiveacid.iceberg.file_writing import WrittenFiles, write_files
from hiveacid.iceberg.guarded_catalog import require_data_only
from hiveacid.iceberg.lake import Lake
from hiveacid.iceberg.schema import field_ids, schema_of
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergExportJob, IcebergFileFormat
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import VisibleTable
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler


@dataclass(frozen=True)
class ServedCatalog:
    """A catalog on a server, with an empty namespace.

    Attributes:
        kind: Its type, with the version of a metastore.
        options: Its options.
        catalog: The catalog.
        namespace: The namespace.
        folder: The folder of the tables in it.
    """

    kind: str
    options: Mapping[str, str]
    catalog: Catalog
    namespace: str
    folder: Path


def sql_options(folder: Path) -> dict[str, str]:
    """The options of a catalog in a database of SQLite."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/lake",
    }


def sql_catalog(folder: Path) -> Catalog:
    folder.mkdir(parents=True, exist_ok=True)
    catalog = load_catalog("lake", **sql_options(folder))
    catalog.create_namespace_if_not_exists("ns")
    return catalog


def guarded(table: Table) -> Table:
    """Open the files of a table as jobs do."""
    table.io = CatalogFiles(table.catalog.properties)
    return require_data_only(table)


class ReadableMetastore(MetastoreCatalog):
    """A metastore whose tables can be read as a whole, by pyiceberg alone."""

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        table.io = files_of(table.io).data_files()
        return table


@contextmanager
def opened_as(kind: str, catalog: type[Catalog]) -> Iterator[None]:
    """Open the catalogs of a kind by another class."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, kind, catalog)
        yield


def exported(
    visible: VisibleTable,
    folder: Path,
    *,
    file_bytes: int = 256 << 20,
    format: IcebergFileFormat = "orc",
    deletes: IcebergDeletes = "apply",
    server: ServedCatalog | None = None,
    name: str = "t",
) -> tuple[Table, WrittenFiles]:
    """Export a snapshot without a metastore, and return the Iceberg table."""
    assert visible.table is not None
    catalog = sql_catalog(folder) if server is None else server.catalog
    options = sql_options(folder) if server is None else server.options
    full_name = f"{'ns' if server is None else server.namespace}.{name}"
    job = IcebergExportJob(target="db.t", table=full_name, catalog="lake", catalog_options=options)
    definition = schema_of(visible.table)
    assert definition.rejected == ()
    new = Lake(job).new_table(definition)
    fields = field_ids(new.schema, visible.table.columns)
    attempt = Attempt(new.location)
    plan = ChangePlan(
        visible,
        fields,
        mapping_is_chosen=True,
        parquet=new.schema if format == "parquet" else None,
        deletes_stay=deletes == "positions",
    )
    with WorkerScheduler() as scheduler, scheduler.tasks(0, "the test", 0) as tasks:
        written = write_files(tasks, plan.tasks(file_bytes), [], attempt.folder, format)
    keys = TableColumns((), visible.table.partition_keys)
    new.stage(written.described(new, keys), {}, attempt.id)
    new.commit()
    return catalog.load_table(full_name), written


def rows_of(table: Table, names: Sequence[str]) -> list[list[Any]]:
    """The rows of a table as pyiceberg reads them."""
    found = table.scan().to_arrow()
    return [list(row.values()) for row in found.select(names).to_pylist()]
