"""The files of Iceberg's tables: opened only in the folders of their catalog, and with limits.

The locations and the contents of these files are data of others. Files on HDFS are opened without
Java, which pyiceberg's own access would start.
"""

import io
import os
import re
import zlib
from typing import Any, BinaryIO

from pyarrow.fs import FileInfo
from pyiceberg.io import InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.avro_check import AvroInvalid, Budget, require_valid
from hiveacid.jobs.options.allowed_locations import AllowedLocations
from hiveacid.storage.filesystems import filesystem_of
from hiveacid.storage.hdfs import HdfsFileSystem
from hiveacid.storage.places import is_inside, local_path

# Options of a catalog: its folders besides the warehouse, and the stores that the metastore allows.
LOCATIONS, ALLOWED, WAREHOUSE = "locations", "allowed-locations", "warehouse"

# pyiceberg needs about 5 KB for an object in the metadata of a table.
LARGEST_JSON, MOST_OBJECTS = 64 << 20, 100_000
# These have another meaning for pyiceberg's parser of URLs than for file systems.
_AMBIGUOUS = re.compile(r"[\x00-\x1f\x7f?#]|^ ")
_PARENT = re.compile(r"(?:^|/)\.\.(?:/|$)")
_LONGEST_SHOWN = 300


class CatalogFiles(PyArrowFileIO):
    """The files of a catalog, or of a table in it.

    Args:
        properties: The options of the catalog, never properties of a table.

    Attributes:
        holds_manifests: Whether input files are Avro files; otherwise they are metadata files of tables.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self.holds_manifests = False
        self._budget = Budget()

    def require(self, location: str) -> None:
        """Refuse a location outside of the folders of the catalog.

        Raises:
            IcebergRefused: The location is outside of them.
            AccessRefused: The connection of the metastore does not allow it.
        """
        folders = folders_of(self.properties)
        is_strange = _AMBIGUOUS.search(location) or (
            local_path(location) is None and _PARENT.search(location)
        )
        if is_strange or not any(_contains(each, location) for each in folders):
            raise IcebergRefused(
                f"{location[:_LONGEST_SHOWN]!r} is outside of the folders of the catalog.",
                remedy="If tables may have files there, add the folder to its option locations:"
                " locations=s3://lake,hdfs://nn:8020/lake.",
            )
        AllowedLocations.parse(self.properties.get(ALLOWED, "")).require(location)

    def new_input(self, location: str) -> PyArrowFile:
        """Return a file of metadata, which is read and checked as a whole."""
        file = self.new_output(location)
        return _MetadataFile(file, self._budget, is_manifest=self.holds_manifests)

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to write."""
        self.require(location)
        scheme, host, path = self.parse_location(local_path(location) or location)
        return PyArrowFile(location, path, self.fs_by_scheme(scheme, host))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file in the folders of the catalog."""
        self.require(location if isinstance(location, str) else location.location)
        super().delete(location)

    def data_files(self) -> "DataFiles":
        """Return the access to data files and delete files of the same catalog."""
        return DataFiles(self.properties)

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> Any:
        return _Hdfs(f"{scheme}://{netloc or ''}")


class DataFiles(CatalogFiles):
    """Data files and delete files, which are read in parts."""

    def new_input(self, location: str) -> PyArrowFile:
        """Return a file without reading it."""
        return self.new_output(location)


def files_of(files: Any) -> CatalogFiles:
    """Return the files of a table as those of its catalog.

    Raises:
        IcebergRefused: Another class would open them.
    """
    if not isinstance(files, CatalogFiles):
        raise IcebergRefused(f"{type(files).__name__} would open the files of the table.")
    return files


def folders_of(properties: Properties) -> list[str]:
    """Return the folders of a catalog: its warehouse, unless that is only a name, and its locations."""
    texts = [properties.get(WAREHOUSE) or "", *(properties.get(LOCATIONS) or "").split(",")]
    return [text.strip() for text in texts if "/" in text]


def require_small_json(data: bytes) -> None:
    """Refuse metadata of tables that need too much memory.

    Raises:
        IcebergRefused: The text is too long, or has too many objects.
    """
    if len(data) > LARGEST_JSON or data.count(b"{") > MOST_OBJECTS:
        raise IcebergRefused(
            f"The metadata of the table have more than {LARGEST_JSON >> 20} MiB, or more than"
            f" {MOST_OBJECTS} objects.",
            remedy="Remove old snapshots with Iceberg's procedure expire_snapshots.",
        )


class _MetadataFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, budget: Budget, *, is_manifest: bool) -> None:
        super().__init__(file.location, file._path, file._filesystem)
        self._budget = budget
        self._is_manifest = is_manifest

    def open(self, seekable: bool = True) -> InputStream:
        size, limit = len(self), self._budget.bytes if self._is_manifest else LARGEST_JSON
        if size > limit:
            raise IcebergRefused(f"{self.location} has {size} bytes, and at most {limit} are read.")
        with super().open(seekable) as file:
            data = file.read()
        if self._is_manifest:
            try:
                require_valid(data, self._budget)
            except AvroInvalid as error:
                raise IcebergRefused(
                    f"The manifest {self.location} cannot be read: {error}.",
                    remedy="Repair the Iceberg table, or drop it, and export again.",
                ) from None
        else:
            require_small_json(self._plain(data))
        return io.BytesIO(data)

    def _plain(self, data: bytes) -> bytes:
        """Decompress metadata, as pyiceberg does later."""
        if not self.location.endswith(".gz.metadata.json"):
            return data
        stream = zlib.decompressobj(wbits=31)
        try:
            found = stream.decompress(data, LARGEST_JSON + 1)
        except zlib.error:
            found = b""
        if not found or stream.unused_data:
            raise IcebergRefused(f"{self.location} is not compressed by gzip.")
        return found


def _contains(folder: str, location: str) -> bool:
    path, root = local_path(location), local_path(folder)
    if path is None or root is None:
        return is_inside(location, folder)
    # A link may lead out of the folder.
    return is_inside(os.path.realpath(path), os.path.realpath(root))


class _Hdfs:
    """The methods of a file system of Arrow that pyiceberg calls."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get_file_info(self, path: str) -> FileInfo:
        found = self._of(path).get_file_info(path)
        assert isinstance(found, FileInfo)
        return found

    def open_input_file(self, path: str) -> BinaryIO:
        return self._of(path).open_input_file(path)

    def open_input_stream(self, path: str, buffer_size: int) -> BinaryIO:
        return self._of(path).open_input_file(path)

    def open_output_stream(self, path: str, buffer_size: int) -> BinaryIO:
        folder = path.rpartition("/")[0]
        self._of(path).create_dir(folder)
        return self._of(path).open_output_stream(path)

    def delete_file(self, path: str) -> None:
        self._of(path).delete_file(path)

    def _of(self, path: str) -> HdfsFileSystem:
        found, _ = filesystem_of(f"{self._url}{path}")
        assert isinstance(found, HdfsFileSystem)
        return found
