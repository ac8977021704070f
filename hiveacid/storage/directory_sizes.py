"""Sizes of all directories below a folder, from one listing.

A table may have hundreds of thousands of files, so the work per file is small.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from hiveacid.rules.names import ACID_PREFIXES, METADATA_FILE, SIDECAR_FILE, is_hidden
from hiveacid.rules.trino import is_named_after_attempt
from hiveacid.storage.folder import ReadOnlyStorage

# Name for the files of a partition outside of any ACID directory, which are older than the
# conversion of the table to a transactional one.
ORIGINALS = ""

_NANOSECONDS_PER_HOUR = 3600 * 10**9
# Each listing takes long on an object store.
_LISTERS = 8


@dataclass(slots=True)
class DirectorySizes:
    """Sizes of all directories below a folder, by path.

    Attributes:
        storage: The folder.
        bytes: The size of the data files of a directory.
        written: The time of one of these files, in nanoseconds since 1970.
        marked: The directories with the marker file of a base.
        noted: The directories with a note of this package, and the time of the note.
        with_attempts: The directories with a file that is named after a task attempt.
        unlisted: The directories known by name only.
    """

    storage: ReadOnlyStorage
    bytes: dict[str, int] = field(default_factory=dict)
    written: dict[str, int | None] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    noted: dict[str, int | None] = field(default_factory=dict)
    with_attempts: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, location: str) -> "DirectorySizes":
        """List a folder."""
        sizes = cls(ReadOnlyStorage.of(location))
        sizes._take(sizes.storage.walk())
        return sizes

    @classmethod
    def names_in(cls, location: str) -> "DirectorySizes":
        """List the names of the directories in a folder, without their content."""
        storage = ReadOnlyStorage.of(location)
        names = storage.list_directories(missing_ok=True)
        return cls(storage, dict.fromkeys(names, 0), unlisted=set(names))

    def list_contents(self, names: Iterable[str]) -> None:
        """List the content of directories known by name only; some may be missing by now."""
        new = self.unlisted.intersection(names)
        with ThreadPoolExecutor(_LISTERS) as pool:
            listings = pool.map(lambda name: list(self.storage.walk(name)), new)
            for name, listed in zip(new, listings, strict=True):
                if listed or self.storage.exists(name):
                    self._take(listed)
                else:
                    del self.bytes[name]
        self.unlisted -= new

    def _take(self, listed: Iterable[tuple[str, int | None, int | None]]) -> None:
        for path, size, written in listed:
            if size is None:
                self.bytes.setdefault(path, 0)
                continue
            directory, _, name = path.rpartition("/")
            if is_hidden(name):
                if name == METADATA_FILE:
                    self.marked.add(directory)
                elif name == SIDECAR_FILE:
                    self.noted[directory] = written
                continue
            if directory not in self.with_attempts and is_named_after_attempt(name):
                self.with_attempts.add(directory)
            self.bytes[directory] = self.bytes.get(directory, 0) + size
            self.written[directory] = written

    def contents(self, partitions: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the sizes of each partition's directories, by name and by the partition's path.

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
            if not directory.startswith(ACID_PREFIXES):
                if is_hidden(directory):
                    continue
                directory = ORIGINALS
            sizes = contents[partition]
            sizes[directory] = sizes.get(directory, 0) + size
        return contents

    def age(self, paths: Iterable[str], now: datetime) -> float | None:
        """Return the age in hours of the oldest of some directories, if known."""
        return self.ages(paths, now)[0]

    def ages(self, paths: Iterable[str], now: datetime) -> tuple[float | None, float | None]:
        """Return the ages in hours of the oldest and the newest of some directories, if known."""
        times = [time for time in map(self.written.get, paths) if time is not None]
        if not times:
            return None, None
        nanoseconds = now.timestamp() * 10**9
        oldest, newest = (
            max(0.0, (nanoseconds - time) / _NANOSECONDS_PER_HOUR)
            for time in (min(times), max(times))
        )
        return oldest, newest


def parted(
    folder: str, locations: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Separate the partitions in a table's folder, which one listing covers, from all others.

    Args:
        folder: The folder of the table.
        locations: The locations of the partitions, by their names.

    Returns:
        The names of the partitions in the folder by their paths below it, and the locations of the
        others by their names.
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
    """Return the partition of a path and the directory within the partition."""
    if path in contents:
        return path, ORIGINALS
    while path:
        path, _, directory = path.rpartition("/")
        if path in contents:
            return path, directory
    return None
