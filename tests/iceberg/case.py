"""An export from a metastore to a catalog of Iceberg in a folder."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from hiveacid.cli.values import json_values
from hiveacid.iceberg.attempt import SPARED_SECONDS
from hiveacid.iceberg.run import export_to_iceberg
from hiveacid.jobs.iceberg_job import (
    IcebergDeletes,
    IcebergExportJob,
    IcebergExportReport,
    IcebergFileFormat,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.names import MIRROR_NOTES
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.golden_versions import Adopted, Row, in_order
from tests.iceberg.lakes import ServedCatalog, sql_catalog, sql_options


class LakeCase:
    """A table of a metastore, and a catalog.

    Attributes:
        catalog: The catalog.
        lake: The folder of its tables.
        format: The format that jobs ask for.
        deletes: How jobs carry out deletes.
        options: The options of the catalog.
        name: The name of the Iceberg table.
    """

    format: IcebergFileFormat | None = None
    deletes: IcebergDeletes = "apply"

    def __init__(
        self,
        client: MetastoreClient,
        target: str,
        folder: Path,
        server: ServedCatalog | None = None,
    ) -> None:
        self.client = client
        self.target = target
        self.folder = folder
        self.options = sql_options(folder) if server is None else dict(server.options)
        self.catalog = sql_catalog(folder) if server is None else server.catalog
        self.lake = folder / "lake" if server is None else server.folder
        self.name = f"{'ns' if server is None else server.namespace}.t"

    def job(self, **fields: Any) -> IcebergExportJob:
        defaults: dict[str, Any] = {
            "target": self.target,
            "metastore": self.client.options,
            "table": self.name,
            "format": self.format,
            "deletes": self.deletes,
            "catalog": "lake",
            "catalog_options": self.options,
        }
        return IcebergExportJob(**{**defaults, **fields})

    def run(self, *observers: PhaseObserver, **fields: Any) -> IcebergExportReport:
        with WorkerScheduler() as scheduler:
            return export_to_iceberg(
                self.client, self.job(**fields), scheduler, phases=PhaseClock(observers)
            )

    def command(
        self, *more: str, fault: str = "", name: str = "to-iceberg"
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command in a process of its own."""
        options = [f"--option={name}={value}" for name, value in self.options.items()]
        return subprocess.run(
            [
                *(sys.executable, "-m", "hiveacid.cli.main", name),
                *(self.target, self.name, "--metastore", self.client.options.uris),
                *("--catalog", "lake", *options, *more),
            ],
            env={**os.environ, "HIVEACID_FAULT": fault},
            capture_output=True,
            text=True,
            check=False,
        )

    def table(self) -> Table | None:
        try:
            return self.catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def let_files_age(self) -> None:
        """Let all files of the Iceberg table have been written some days earlier."""
        for path in self.lake.rglob("*"):
            if path.is_file():
                written = path.stat().st_mtime - 2 * SPARED_SECONDS
                os.utime(path, (written, written))

    def files(self) -> set[str]:
        """All files in the folder of the Iceberg table, except those of Hadoop's client."""
        found = (path for path in self.lake.rglob("*") if path.is_file() and path.suffix != ".crc")
        return {str(path.relative_to(self.lake)) for path in found}

    def used_files(self) -> set[str]:
        """The files that the Iceberg table refers to."""
        table = self.table()
        if table is None:
            return set()
        used = [table.metadata_location]
        used += [entry.metadata_file for entry in table.metadata.metadata_log]
        for snapshot in table.metadata.snapshots:
            used.append(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                used.append(manifest.manifest_path)
                used += [
                    entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)
                ]
        # Catalogs write locations with one slash, with three, or without a scheme.
        paths = [Path("/" + path.removeprefix("file:").lstrip("/")) for path in used]
        return {str(path.relative_to(self.lake)) for path in paths}


class ExportCase(LakeCase):
    """A table of a real engine."""

    def __init__(self, hive: Adopted, folder: Path) -> None:
        self.source = hive.folder
        self.golden = hive.versions.golden
        super().__init__(hive.client, f"default.{self.golden.name}", folder)

    def rows(self) -> list[Row]:
        table = self.table()
        assert table is not None
        found = table.scan().to_arrow()
        names = [*self.golden.columns, *self.golden.partition_keys]
        columns = [json_values(found[name].combine_chunks()) for name in names]
        return in_order(zip(*columns, strict=True))

    @property
    def expected(self) -> list[Row]:
        """The rows that Hive selected."""
        return in_order(row[1:] for row in self.golden.snapshots[-1].rows)

    def hive_files(self) -> dict[str, bytes]:
        """All files in the folder of the Hive table, apart from the notes on its mirrors."""
        return {
            str(path.relative_to(self.source)): path.read_bytes()
            for path in self.source.rglob("*")
            if path.is_file() and MIRROR_NOTES not in path.parts
        }
