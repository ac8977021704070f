"""The sizes of all directories below a folder, from one listing of it.

A table may have hundreds of thousands of files, so little is done for each of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_hiveacid.acid.names import METADATA_FILE, SIDECAR_FILE, is_hidden
from airflow_hiveacid.acid.trino import is_named_after_attempt
from airflow_hiveacid.storage import ReadOnlyStorage

# Stands for what lies in a partition without an ACID directory around it: files that are older than
# the table is transactional.
ORIGINALS = ""

_ACID = ("base_", "delta_", "delete_delta_")
_NANOSECONDS_PER_HOUR = 3600 * 10**9


@dataclass(slots=True)
class DirectorySizes:
    """The sizes of all directories below a folder, by their path.

    Attributes:
        storage: The folder.
        bytes: The size of the data files of a directory.
        written: When one of them was written, in nanoseconds since 1970.
        marked: The directories with the marker file of a base.
        noted: Those with a note of ours.
        with_attempts: Those with a file that is named after the attempt of a task.
    """

    storage: ReadOnlyStorage
    bytes: dict[str, int] = field(default_factory=dict)
    written: dict[str, int | None] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    noted: set[str] = field(default_factory=set)
    with_attempts: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, location: str) -> "DirectorySizes":
        """List a folder."""
        storage = ReadOnlyStorage.of(location)
        sizes = cls(storage)
        for path, size, written in storage.walk():
            if size is None:
                sizes.bytes.setdefault(path, 0)
                continue
            directory, _, name = path.rpartition("/")
            if is_hidden(name):
                if name == METADATA_FILE:
                    sizes.marked.add(directory)
                elif name == SIDECAR_FILE:
                    sizes.noted.add(directory)
                continue
            if directory not in sizes.with_attempts and is_named_after_attempt(name):
                sizes.with_attempts.add(directory)
            sizes.bytes[directory] = sizes.bytes.get(directory, 0) + size
            sizes.written[directory] = written
        return sizes

    def contents(self, partitions: Iterable[str]) -> dict[str, dict[str, int]]:
        """The sizes of each partition's directories, by their names and by the partition's path.

        Args:
            partitions: The paths of the partitions' folders; "" is the folder itself.
        """
        contents: dict[str, dict[str, int]] = {partition: {} for partition in partitions}
        for path, size in self.bytes.items():
            partition, _, directory = path.rpartition("/")
            if partition not in contents or path in contents:
                split = _split(path, contents)
                if split is None:
                    continue
                partition, directory = split
            if not directory.startswith(_ACID):
                if is_hidden(directory):
                    continue
                directory = ORIGINALS
            sizes = contents[partition]
            sizes[directory] = sizes.get(directory, 0) + size
        return contents

    def age(self, paths: Iterable[str], now: datetime) -> float | None:
        """The age in hours of the oldest of some directories, if known."""
        times = [time for time in map(self.written.get, paths) if time is not None]
        if not times:
            return None
        return max(0.0, (now.timestamp() * 10**9 - min(times)) / _NANOSECONDS_PER_HOUR)


def parted(
    folder: str, locations: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Tell the partitions in a table's folder, which one listing shows, from all others.

    Args:
        folder: The table's.
        locations: Where the partitions lie, by their names.

    Returns:
        The names of those in the folder by their paths below it, and the locations of the others
        by their names.
    """
    root = f"{folder.rstrip('/')}/"
    inside: dict[str, str | None] = {}
    outside = {}
    for name, location in locations.items():
        if location.startswith(root):
            inside[location.removeprefix(root)] = name
        else:
            outside[name] = location
    return inside, outside


def _split(path: str, contents: Mapping[str, object]) -> tuple[str, str] | None:
    """Which partition a directory belongs to, and below which directory of it."""
    if path in contents:
        return path, ORIGINALS
    while path:
        path, _, directory = path.rpartition("/")
        if path in contents:
            return path, directory
    return None
