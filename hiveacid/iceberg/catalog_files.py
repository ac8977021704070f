"""The files of Iceberg's tables: opened only in the folders of their catalog, and with limits.

The locations and the contents of these files are data of others. Files on HDFS are opened without
Java, which pyiceberg's own access would start.
"""

import io
import os
import posixpath
import re
from collections.abc import Callable
from typing import Any, BinaryIO

from pyarrow.fs import FileInfo
from pyiceberg.io import InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from pyiceberg.utils.decimal import decimal_required_bytes

from hiveacid.dataclass import dataclass
from hiveacid.errors import IcebergRefused
from hiveacid.foreign.compressed import first_zstd_frame, gunzipped, inflated
from hiveacid.foreign.text import parse_json
from hiveacid.rules.location import AllowedLocations, Location
from hiveacid.storage.filesystems import filesystem_of
from hiveacid.storage.hdfs import HdfsFileSystem

# Validation of Avro files of Iceberg before pyiceberg reads them.
#
# The decoder of pyiceberg trusts the lengths and counts in a file: wrong ones make it read memory
# that is not part of the file, end the process, or allocate gigabytes. So each value of a file is
# visited first.


MAGIC = b"Obj\x01"
_SYNC = 16
_VARINT_BYTES = 10
# Writers begin another block after some entries.
_LARGEST_BLOCK = 32 << 20
# Types in a schema, of which each becomes an object.
_MOST_TYPES = 100_000
_PARTITION_ID = 102
# The types in files that pyiceberg reads as logical types.
_LOGICAL = {"date": "int", "time-micros": "long", "timestamp-micros": "long"}

# Visits the value at a position, and returns the position behind it.
Visit = Callable[[bytes, int], int]


class AvroInvalid(Exception):
    """The file violates the format, or needs too much memory; the message contains none of its content."""


@dataclass(slots=True)
class Budget:
    """The remaining memory for the files of a table.

    Attributes:
        bytes: The size of files without compression.
        items: The number of values and entries in them.
    """

    bytes: int = 1 << 30
    items: int = 20_000_000

    def spend(self, *, bytes: int = 0, items: int = 0) -> None:
        """Subtract a part.

        Raises:
            AvroInvalid: Less is left.
        """
        if bytes > self.bytes or items > self.items:
            raise AvroInvalid("the files of its metadata are too large")
        self.bytes -= bytes
        self.items -= items


def require_valid(data: bytes, budget: Budget) -> None:
    """Validate an Avro file, so that reading it needs a limited amount of memory and time.

    Args:
        data: The file.
        budget: The remaining memory, which gets smaller.

    Raises:
        AvroInvalid: The file violates the format, or needs too much memory.
    """
    try:
        _visit_file(data, budget)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise AvroInvalid(f"it is no valid Avro file ({type(error).__name__})") from None


def _visit_file(data: bytes, budget: Budget) -> None:
    budget.spend(bytes=len(data))
    if not data.startswith(MAGIC):
        raise AvroInvalid("it is no Avro file")
    header, position = _header(data, len(MAGIC), budget)
    sync = data[position : position + _SYNC]
    position += _SYNC
    codec = header.get("avro.codec", b"").decode()
    visit, is_empty = _Schema(budget).record(parse_json(header["avro.schema"], limit=_MOST_TYPES))
    if is_empty:
        raise AvroInvalid("its records have no fields")
    while position < len(data):
        count, position = _integer(data, position)
        size, position = _integer(data, position)
        end = position + size
        if count < 0 or size < 0 or data[end : end + _SYNC] != sync:
            raise AvroInvalid("the length of a block is wrong")
        block = _decompress(codec, data[position:end], budget)
        if _items(count, block, 0, budget, visit) != len(block):
            raise AvroInvalid("a block has other values than its schema")
        position = end + _SYNC
    if position != len(data):
        raise AvroInvalid("it is incomplete")


def _header(data: bytes, position: int, budget: Budget) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}

    def entry(data: bytes, position: int) -> int:
        key = _text(data, position)
        end = _text(data, key)
        _, begin = _integer(data, position)
        _, value = _integer(data, key)
        metadata[data[begin:key].decode()] = data[value:end]
        return end

    return metadata, _blocks(data, position, budget, entry)


def _decompress(codec: str, block: bytes, budget: Budget) -> bytes:
    if codec == "null":
        return block
    if codec not in ("deflate", "zstandard"):
        raise AvroInvalid("its compression is not supported")
    try:
        content = (inflated if codec == "deflate" else first_zstd_frame)(block, _LARGEST_BLOCK)
    except ValueError:
        raise AvroInvalid("a block is too large, or does not decompress") from None
    budget.spend(bytes=len(content))
    return content


def _integer(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    for place in range(position, position + _VARINT_BYTES):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    raise AvroInvalid("a number is too long")


def _long(data: bytes, position: int) -> int:
    if data[position] < 0x80:
        return position + 1
    return _integer(data, position)[1]


def _text(data: bytes, position: int) -> int:
    size, position = _integer(data, position)
    if not 0 <= size <= len(data) - position:
        raise AvroInvalid("the length of a text is wrong")
    return position + size


def _fixed(size: int) -> Visit:
    def visit(data: bytes, position: int) -> int:
        if size > len(data) - position:
            raise AvroInvalid("it is incomplete")
        return position + size

    return visit


def _items(count: int, data: bytes, position: int, budget: Budget, visit: Visit) -> int:
    if count > len(data) - position:
        raise AvroInvalid("the number of values is wrong")
    budget.spend(items=count)
    for _ in range(count):
        position = visit(data, position)
    return position


def _blocks(data: bytes, position: int, budget: Budget, visit: Visit) -> int:
    """Visit the blocks of an array or a map."""
    while True:
        count, position = _integer(data, position)
        if not count:
            return position
        size = None
        if count < 0:
            size, position = _integer(data, position)
        end = _items(abs(count), data, position, budget, visit)
        if size not in (None, end - position):
            raise AvroInvalid("the length of an array is wrong")
        position = end


class _Schema:
    """Builds the visits of the types of a schema, each with the information whether it has no bytes."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def record(self, schema: dict[str, Any], *, decimals: bool = False) -> tuple[Visit, bool]:
        if schema["type"] != "record":
            raise AvroInvalid("its type is no record")
        visits, is_empty = [], True
        for field in schema["fields"]:
            is_partition = field.get("field-id") == _PARTITION_ID
            visit, without_bytes = self._type(field["type"], decimals or is_partition)
            visits.append(visit)
            is_empty = is_empty and without_bytes

        def visit_all(data: bytes, position: int) -> int:
            for visit in visits:
                position = visit(data, position)
            return position

        return visit_all, is_empty

    def _type(self, schema: Any, decimals: bool) -> tuple[Visit, bool]:
        if isinstance(schema, list):
            return self._optional(schema, decimals), False
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if kind == "record":
            return self.record(schema, decimals=decimals)
        if kind == "array":
            return self._array(schema, logical, decimals), False
        if kind == "map" and logical is None:
            value, _ = self._type(schema["values"], decimals)
            return self._repeated(lambda data, position: value(data, _text(data, position))), False
        if kind == "fixed":
            size = int(schema["size"])
            if size <= 0 or not _is_plain_fixed(schema, logical, size, decimals):
                raise AvroInvalid("it has a type that is not supported")
            return _fixed(size), False
        visit = _PRIMITIVES.get(kind)
        if visit is None or _LOGICAL.get(logical or "", kind if logical is None else None) != kind:
            raise AvroInvalid("it has a type that is not supported")
        return visit, False

    def _optional(self, schema: list[Any], decimals: bool) -> Visit:
        null, value_type = schema
        if null != "null" or isinstance(value_type, list):
            raise AvroInvalid("it has a type that is not supported")
        visit, _ = self._type(value_type, decimals)

        def visit_optional(data: bytes, position: int) -> int:
            index, position = _integer(data, position)
            if index not in (0, 1):
                raise AvroInvalid("a value has an unknown type")
            return visit(data, position) if index else position

        return visit_optional

    def _array(self, schema: dict[str, Any], logical: str | None, decimals: bool) -> Visit:
        item, is_empty = self._type(schema["items"], decimals)
        names = logical == "map" and [field["name"] for field in schema["items"]["fields"]]
        if is_empty or logical not in (None, "map") or names not in (False, ["key", "value"]):
            raise AvroInvalid("it has a type that is not supported")
        return self._repeated(item)

    def _repeated(self, item: Visit) -> Visit:
        return lambda data, position: _blocks(data, position, self._budget, item)


def _is_plain_fixed(schema: dict[str, Any], logical: str | None, size: int, decimals: bool) -> bool:
    if logical == "uuid":
        return size == 16
    if logical == "decimal":
        # pyiceberg skips a decimal in another way than it reads one, but reads those of partitions.
        return decimals and size == decimal_required_bytes(int(schema["precision"]))
    return logical is None


_PRIMITIVES: dict[str, Visit] = {
    "boolean": _fixed(1),
    "int": _long,
    "long": _long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _text,
    "string": _text,
}


# The remedy if an Iceberg table cannot follow the Hive table any more.
EXPORT_ANEW = "Drop the Iceberg table, or export to another name; then all rows are copied."
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

    def require(self, location: str) -> Location:
        """Return a location, unless it is outside of the folders of the catalog.

        Raises:
            IcebergRefused: The location is outside of them.
            AccessRefused: The connection of the metastore does not allow it.
        """
        folders = folders_of(self.properties)
        is_strange = _AMBIGUOUS.search(location) or (
            local_path(location) is None and _PARENT.search(location)
        )
        if is_strange or not any(_contains(folder, location) for folder in folders):
            raise IcebergRefused(
                f"{location[:_LONGEST_SHOWN]!r} is outside of the folders of the catalog.",
                remedy="If tables may have files there, add the folder to its option locations:"
                " locations=s3://lake,hdfs://nn:8020/lake.",
            )
        return AllowedLocations.parse(self.properties.get(ALLOWED, "")).require(location)

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
        try:
            return gunzipped(data, LARGEST_JSON)
        except ValueError as error:
            raise IcebergRefused(f"{self.location} cannot be read: {error}.") from None


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
        file_info = self._of(path).get_file_info(path)
        assert isinstance(file_info, FileInfo)
        return file_info

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
        # `new_output` has required it.
        filesystem, _ = filesystem_of(Location(f"{self._url}{path}"))
        assert isinstance(filesystem, HdfsFileSystem)
        return filesystem


# Comparison of the folders of two locations


_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
# Different names of one kind of store.
_KINDS = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_HADOOP = ("hdfs", "viewfs")
_LOCAL_HOSTS = ("", "localhost")


def overlap(location: str, other_location: str) -> bool:
    """Return whether one folder is the other one, or inside of it.

    Args:
        location: A location; links are not resolved.
        other_location: Another location.
    """
    (kind, host, path), (other_kind, other_host, other_path) = map(
        _parts, (location, other_location)
    )
    # The configuration of Hadoop may determine a missing host.
    host_is_unknown = kind in _HADOOP and "" in (host, other_host)
    if kind != other_kind or not (host == other_host or host_is_unknown):
        return False
    shorter, longer = sorted((path, other_path), key=len)
    return longer == shorter or longer.startswith(f"{shorter.rstrip('/')}/")


def is_inside(location: str, folder: str) -> bool:
    """Return whether a location is a folder, or inside of it.

    A location without a host, whose host the configuration of Hadoop determines, is inside of a folder
    with any host; but a location with a host is not inside of a folder without one.

    Args:
        location: A location; links are not resolved.
        folder: A folder.
    """
    (kind, host, path), (folder_kind, folder_host, folder_path) = map(_parts, (location, folder))
    is_default = kind in _HADOOP and not host
    if kind != folder_kind or not (host == folder_host or is_default):
        return False
    return path == folder_path or path.startswith(f"{folder_path.rstrip('/')}/")


def local_path(location: str) -> str | None:
    """Return the path of a location on this machine; None if it is elsewhere."""
    kind, host, path = _parts(location)
    return path if kind == "file" and not host else None


def _parts(location: str) -> tuple[str, str, str]:
    match = _LOCATION.fullmatch(location)
    assert match is not None
    scheme, host, path = match.groups(default="")
    kind = scheme.lower() or "file"
    if kind == "file" and host in _LOCAL_HOSTS:
        host = ""
    return _KINDS.get(kind, kind), host.lower(), posixpath.normpath(f"/{path.lstrip('/')}")
