"""Search for keys in the folder of a mirror in Iceberg, in its data files and in its metadata.

A manifest has bounds of all columns of each data file. The bound of a text is a part of it, which
the hashes of keys do not find. So bounds are not compared: each must belong to a data file that
exists, because all of these are searched. The bounds of a removed file, or of one elsewhere, count.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hiveacid.erasure.search import FileFindings, TableSearch
from hiveacid.foreign.avro import AVRO, AvroFile
from hiveacid.foreign.compressed import gunzipped
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.foreign.text import parse_json
from hiveacid.rules.location import Location
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile

_ORC, _PARQUET, _PUFFIN, _CHECKSUM = b"ORC", b"PAR1", b"PFA1", b"crc\0"
_GZIP = b"\x1f\x8b"
_METADATA = (".metadata.json", ".metadata.json.gz")
_NOTES = frozenset({"_attempt.json", "version-hint.text"})
_LARGEST = 256 << 20
# Metadata without compression: those of most tables, and for each byte of compressed ones.
_LARGEST_PLAIN, _RATIO = 16 << 20, 16
_MOST_VALUES = 1_000_000
# The properties of a snapshot with the name and the version of the Hive table.
_SOURCE, _VERSION = "hiveacid.table", "hiveacid.write-id"
# The end of a Puffin file: the size of the description of its parts, flags, and the magic number.
_PUFFIN_END = 12
_POSITIONS = "deletion-vector-v1"
_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_KINDS = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_INVALID = (ValueError, LookupError, TypeError, AttributeError)
_KEYS = "Rows have keys."
_BOUNDS = "It has bounds of columns of a file that does not exist below the folder: {}."
_SKETCHES = "It has statistics of a snapshot without the delete, or of an unknown snapshot."
_NAMED = "A key is in its text."
_UNKNOWN = "It is no file of an Iceberg table."


@dataclass(frozen=True, kw_only=True)
class MirrorSearch(TableSearch):
    """A search of the folder of a mirror.

    Attributes:
        location: The folder.
        deleted_by: The write id of the delete.
        others: The other tables of the request, whose mirrors are searched for their own keys.
        listed: The files that the search has found, which are all searched.
    """

    location: Location
    deleted_by: int
    others: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()

    @property
    def is_own(self) -> bool:
        """Whether the folder is a mirror of the table, as far as its snapshots name one of the request."""
        storage = ReadOnlyStorage.of(self.location)
        paths = [path for path, size, _ in storage.walk() if size is not None]
        sources = {each.get(_SOURCE) for each in _summaries(storage, paths).values()}
        return self.table.ref.full_name in sources or sources.isdisjoint(self.others)

    def _roots(self) -> Mapping[Location, Sequence[tuple[str, str]]]:
        return {self.location: []}

    def _found(
        self, storage: ReadOnlyStorage, paths: Sequence[tuple[str, int]]
    ) -> list[FileFindings]:
        listed = frozenset(path for path, _ in paths)
        return TableSearch._found(replace(self, listed=listed), storage, paths)

    def _search(self, storage: ReadOnlyStorage, path: str, size: int) -> FileFindings:
        name = path.rpartition("/")[2]
        with storage.open_input(path) as source:
            start = source.read(4)
        if start.startswith(_ORC):
            return self._search_orc(storage, DataFile(path, size, None, None), is_later=False)
        if start == _PARQUET:
            return FileFindings(problem=_KEYS if self._is_in_parquet(storage, path) else "")
        if not size or (start == _CHECKSUM and name.endswith(".crc")):
            return FileFindings()
        is_known = start in (AVRO, _PUFFIN) or name in _NOTES or name.endswith(_METADATA)
        content = storage.read_small(path, _LARGEST) if is_known else None
        if content is None:
            return FileFindings(problem=_UNKNOWN)
        if start == AVRO:
            return FileFindings(problem=self._in_manifest(AvroFile(content)))
        if start == _PUFFIN:
            return FileFindings(problem=self._in_statistics(content))
        if name in _NOTES:
            return FileFindings(problem=_NAMED if self.keys.is_named_in(content) else "")
        # The metadata of a table have names, counters, and locations, and no values of columns.
        is_metadata = name.endswith(_METADATA) and "format-version" in _parsed(content)
        return FileFindings(problem="" if is_metadata else _UNKNOWN)

    def _is_in_parquet(self, storage: ReadOnlyStorage, path: str) -> bool:
        wanted = self.column.name.lower()
        with storage.open_input(path) as source:
            opened = ParquetInput(source, path)
            names = [name for name in opened.names if name.lower() == wanted]
            batches = opened.batches(names) if names else ()
            return any(
                self.keys.mask(column).any() for batch in batches for column in batch.columns
            )

    def _in_manifest(self, manifest: AvroFile) -> str:
        """Return why a manifest counts; a list of manifests has bounds of partition keys only."""
        for entry in manifest.records():
            if "manifest_path" in entry:
                continue
            file = entry["data_file"]
            is_bounded = file.get("lower_bounds") or file.get("upper_bounds")
            if is_bounded and place_below(self.location, file["file_path"]) not in self.listed:
                return _BOUNDS.format(file["file_path"])
        return ""

    def _in_statistics(self, content: bytes) -> str:
        """Return why a file of statistics counts: they are made of all values of a column."""
        end = len(content) - _PUFFIN_END
        size = int.from_bytes(content[end : end + 4], "little")
        described = parse_json(content[max(end - size, 0) : end], most=_MOST_VALUES)
        of = {each["snapshot-id"] for each in described["blobs"] if each["type"] != _POSITIONS}
        known = [
            each
            for each in of
            if int(self._known_summaries.get(each, {}).get(_VERSION, -1)) >= self.deleted_by
        ]
        return "" if len(known) == len(of) else _SKETCHES

    @cached_property
    def _known_summaries(self) -> dict[int, Mapping[str, str]]:
        return _summaries(ReadOnlyStorage.of(self.location), self.listed)


def _summaries(storage: ReadOnlyStorage, paths: Iterable[str]) -> dict[int, Mapping[str, str]]:
    """Read the properties of all snapshots that some metadata of the table describe."""
    found: dict[int, Mapping[str, str]] = {}
    for path in paths:
        content = storage.read_small(path, _LARGEST) if path.endswith(_METADATA) else None
        # The search names a file that is no metadata of a table.
        with suppress(*_INVALID):
            for each in _parsed(content or b"{}").get("snapshots", ()):
                summary = each["summary"]
                found[each["snapshot-id"]] = {
                    name: str(summary[name]) for name in (_SOURCE, _VERSION) if name in summary
                }
    return found


def place_below(folder: str, location: str) -> str | None:
    """Return the path of a file relative to a folder; None if it is elsewhere.

    Args:
        folder: The location of the folder.
        location: The location of the file, which may be written in another way.
    """
    (kind, host, root), (own_kind, own_host, path) = map(_parts, (folder, location))
    if any(a and b and a != b for a, b in ((kind, own_kind), (host, own_host))):
        return None
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _parts(location: str) -> tuple[str, str, str]:
    match = _LOCATION.fullmatch(location)
    assert match is not None
    kind, host, path = match.groups("")
    return _KINDS.get(kind.lower(), kind.lower()), host.lower(), re.sub("/+", "/", path).rstrip("/")


def _parsed(content: bytes) -> dict[str, Any]:
    """Parse the metadata of a table, which may be compressed; return nothing for other content."""
    if content.startswith(_GZIP):
        content = gunzipped(content, min(_LARGEST_PLAIN + _RATIO * len(content), _LARGEST))
    found = parse_json(content, most=_MOST_VALUES)
    return found if isinstance(found, dict) else {}
