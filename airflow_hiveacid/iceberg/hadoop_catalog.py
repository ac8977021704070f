"""Iceberg's Hadoop catalog: tables in the folders of a warehouse, without a server.

The newest of the files ``v1.metadata.json``, ``v2.metadata.json``, ... of a table is its state. So a
commit is the creation of the next file, which succeeds only once, and Iceberg for Java commits in the
same way.
"""

import re
from typing import Any, NoReturn

from pyiceberg.catalog import WAREHOUSE_LOCATION, Catalog, MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

from airflow_hiveacid.errors import IcebergRefused, StorageError
from airflow_hiveacid.iceberg.catalog_files import CatalogFiles
from airflow_hiveacid.iceberg.guarded_catalog import GuardedCatalog, require_data_only
from airflow_hiveacid.storage.folder import ReadOnlyStorage, Storage

_METADATA = "metadata"
_HINT = "version-hint.text"
_VERSION = re.compile(r"v([0-9]+)(\.gz)?\.metadata\.json(\.gz)?")


class HadoopCatalog(GuardedCatalog, MetastoreCatalog, NoopCatalog):
    """A catalog in a folder, with the calls that exports and comparisons make.

    Args:
        name: Its name.
        properties: Its options, with the folder as ``warehouse``.

    Raises:
        IcebergRefused: The folder is missing.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        if not self.properties.get(WAREHOUSE_LOCATION):
            raise IcebergRefused(
                f"The Hadoop catalog {name} has no folder.",
                remedy="Set the option warehouse, for example hdfs://namenode/warehouse.",
            )

    def require_commits(self) -> None:
        """Check that only one of several concurrent commits succeeds.

        Raises:
            IcebergRefused: The store of the warehouse lets two programs create the same file.
        """
        warehouse = self._allowed(self.properties[WAREHOUSE_LOCATION])
        if not Storage.of(warehouse).creates_once:
            raise IcebergRefused(
                f"The store of {warehouse} lets two programs create the same file.",
                remedy="Use another catalog: of two concurrent commits, one would be lost here.",
            )

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load the newest version of a table."""
        path = Catalog.identifier_to_tuple(identifier)
        folder = self._folder(path)
        version = _newest(ReadOnlyStorage.of(folder))
        if version is None:
            raise NoSuchTableError(f"There is no table in {folder}.")
        location = f"{folder}/{_METADATA}/{_file(version)}"
        io = self._load_file_io(location=location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return require_data_only(Table(path, metadata, location, self._load_file_io(), self))

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Create the next version of a table, or its first one."""
        path = table.name()
        folder = self._folder(path)
        try:
            current: Table | None = self.load_table(path)
        except NoSuchTableError:
            current = None
        metadata = self._update_and_stage_table(current, path, requirements, updates).metadata
        version = 1 if current is None else _version(current.metadata_location) + 1
        content = metadata.model_dump_json().encode()
        self.require_commits()
        storage = Storage.of(f"{folder}/{_METADATA}")
        try:
            storage.write_file(_file(version), content)
        except StorageError as error:
            found = storage.read_small(_file(version))
            if found is None:
                raise
            if found != content:
                taken = f"{folder}/{_METADATA}/{_file(version)} exists: {error}"
                if current is None:
                    raise TableAlreadyExistsError(taken) from error
                raise CommitFailedException(taken) from error
        self._hint(storage, version)
        location = f"{folder}/{_METADATA}/{_file(version)}"
        return CommitTableResponse(metadata=metadata, **{"metadata-location": location})

    @staticmethod
    def _hint(storage: Storage, version: int) -> None:
        """Help readers to find the version, who otherwise list the folder."""
        try:
            storage.write_file(_HINT, str(version).encode(), replace=True)
        except StorageError:
            # The table has its new version; an earlier hint leads to it, too.
            return

    def _folder(self, path: Identifier) -> str:
        return self._allowed("/".join((self.properties[WAREHOUSE_LOCATION].rstrip("/"), *path)))

    def _allowed(self, folder: str) -> str:
        """Return a folder that is listed, and not only opened by the files of the catalog."""
        CatalogFiles(self.properties).require(folder)
        return folder

    def _resolve_table_location(
        self, location: str | None, database_name: str, table_name: str
    ) -> str:
        folder = self._folder((*database_name.split("."), table_name))
        if location is not None and location.rstrip("/") != folder:
            raise IcebergRefused(
                f"Tables of a Hadoop catalog have no other folder than {folder}.",
                remedy="Omit the location.",
            )
        return folder


def _newest(storage: ReadOnlyStorage) -> int | None:
    """Return the newest version in the folder of a table; None without any."""
    found = [
        match
        for file in storage.list_files(_METADATA, missing_ok=True)
        if (match := _VERSION.fullmatch(file.path)) is not None
    ]
    if not found:
        return None
    newest = max(found, key=lambda match: int(match[1]))
    if newest[2] or newest[3]:
        _refuse_compressed(storage)
    return int(newest[1])


def _refuse_compressed(storage: ReadOnlyStorage) -> NoReturn:
    raise IcebergRefused(
        f"The metadata of {storage.location} is compressed.",
        remedy="Remove the property write.metadata.compression-codec of the table, and change it once.",
    )


def _file(version: int) -> str:
    return f"v{version}.metadata.json"


def _version(location: str) -> int:
    match: Any = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(match[1])
