"""The origin of the rows of a data file of Iceberg, which its own footer contains.

So the mapping between the files of both tables is as atomic and as durable as the file itself, and
no maintenance of Iceberg removes it without the file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

from hiveacid.errors import CorruptFile
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail
from hiveacid.storage.threads import in_threads

# The name of the user metadata of the file.
PROVENANCE = "hiveacid.provenance"


@dataclass(frozen=True, slots=True)
class SourceStripes:
    """Stripes of a file of a Hive table.

    Attributes:
        path: The path of the file below the folder of its partition.
        size: The length of its valid part in bytes.
        count: The number of all of its stripes.
        stripes: The numbers of the stripes.
    """

    path: str
    size: int
    count: int
    stripes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of the rows of a data file.

    Attributes:
        partition: The name of the partition of the Hive table; None without partitions.
        location: Its folder.
        sources: The stripes whose visible rows the file has.
        complete: Whether the file has all values of these stripes: all their columns, with types at
            least as wide.
        whole: Whether the file has all rows of these stripes in their order, so that a position
            identifies a row.
    """

    partition: str | None
    location: str
    sources: tuple[SourceStripes, ...]
    complete: bool
    whole: bool

    def encode(self) -> bytes:
        """Format the origin as user metadata."""
        return json.dumps(
            {
                "format": 1,
                "partition": self.partition,
                "location": self.location,
                "complete": self.complete,
                "whole": self.whole,
                "sources": [[s.path, s.size, s.count, s.stripes] for s in self.sources],
            }
        ).encode()

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Parse user metadata.

        Raises:
            ValueError: The text has another form.
        """
        try:
            fields = json.loads(text)
            return cls(
                partition=fields["partition"],
                location=fields["location"],
                complete=fields["complete"],
                whole=fields["whole"],
                sources=tuple(
                    SourceStripes(path, size, count, tuple(stripes))
                    for path, size, count, stripes in fields["sources"]
                ),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"This is no origin of rows: {error}") from error


def read_provenance(files: Mapping[str, int]) -> dict[str, Provenance]:
    """Read the origins of data files by their locations.

    Args:
        files: The sizes of the files by their locations.

    Raises:
        CorruptFile: A file has no origin, so that no export has written it.
    """
    found = in_threads(partial(_read_one, {}), files.items())
    return dict(zip(files, found, strict=True))


def _metadata(storage: ReadOnlyStorage, name: str, size: int) -> bytes:
    if not name.endswith(".parquet"):
        return read_tail(storage, name, size).user_metadata.get(PROVENANCE, b"null")
    # Processes that copy stripes do not need it.

    # Processes that copy stripes do not need it.
    import pyarrow as pa
    from pyarrow import parquet

    path = f"{storage.location.rstrip('/')}/{name}"
    with translated_os_errors(path), storage.open_input(name) as source:
        try:
            metadata = parquet.read_metadata(source).metadata or {}
        except pa.ArrowInvalid as error:
            raise CorruptFile(f"{path} cannot be read as Parquet: {error}") from error
        found: bytes = metadata.get(PROVENANCE.encode(), b"null")
        return found


def _read_one(storages: dict[str, ReadOnlyStorage], file: tuple[str, int]) -> Provenance:
    folder, _, name = file[0].rpartition("/")
    # Threads may open the same folder twice, which is harmless.
    if folder not in storages:
        storages[folder] = ReadOnlyStorage.of(folder)
    try:
        return Provenance.decode(_metadata(storages[folder], name, file[1]))
    except ValueError as error:
        raise CorruptFile(
            f"{file[0]} does not contain the origin of its rows.",
            remedy="No export has written this file. Export to another Iceberg table.",
        ) from error
