"""Search for keys in the folder of a mirror in Iceberg, in its data files and in its metadata.

A manifest has bounds of all columns of each data file. The bound of a text is a part of it, which
the hashes of keys do not find. So bounds are not compared: each must belong to a data file that
exists, because all of these are searched. The bounds of a removed file, or of one elsewhere, count.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.erasure.search import NAMED, Listing, TableSearch
from hiveacid.foreign.avro import AVRO, AvroFile
from hiveacid.foreign.compressed import gunzipped
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.foreign.text import parse_json
from hiveacid.rules.location import Location
from hiveacid.storage.folder import ReadOnlyStorage

_PARQUET, _PUFFIN = b"PAR1", b"PFA1"
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
_UNKNOWN = "It is no file of an Iceberg table."


@dataclass(frozen=True, kw_only=True)
class MirrorSearch(TableSearch):
    """A search of the folder of a mirror.

    Attributes:
        location: The folder.
        deleted_by: The write id of the delete.
        others: The other tables of the request, whose mirrors are searched for their own keys.
    """

    location: Location
    deleted_by: int
    others: frozenset[str] = frozenset()

    @property
    def is_own(self) -> bool:
        """Whether the folder is a mirror of the table, as far as its snapshots name one of the request."""
        sources = {summary.get(_SOURCE) for summary in self._summaries.values()}
        return self.holder.name in sources or sources.isdisjoint(self.others)

    def _roots(self) -> Mapping[Location, list[tuple[str, str]]]:
        return {self.location: []}

    def _problem(self, listing: Listing, path: str, start: bytes) -> str:
        if start == _PARQUET:
            return _KEYS if self._is_in_parquet(listing.storage, path) else ""
        name = path.rpartition("/")[2]
        is_metadata = name.endswith(_METADATA)
        is_read = start in (AVRO, _PUFFIN) or name in _NOTES or is_metadata
        content = listing.storage.read_small(path, _LARGEST) if is_read else None
        if content is None:
            return _UNKNOWN
        if start == AVRO:
            return self._in_manifest(listing, AvroFile(content))
        if start == _PUFFIN:
            return self._in_statistics(content)
        if name in _NOTES:
            return NAMED if self.holder.keys.is_named_in(content) else ""
        # The metadata of a table have names, counters, and locations, and no values of columns.
        return "" if is_metadata and "format-version" in _parsed(content) else _UNKNOWN

    def _is_in_parquet(self, storage: ReadOnlyStorage, path: str) -> bool:
        column_name = self.holder.column.name.lower()
        with storage.open_input(path) as source:
            parquet = ParquetInput(source, path)
            names = [name for name in parquet.names if name.lower() == column_name]
            batches = parquet.batches(names) if names else ()
            return any(
                self.holder.keys.mask(values).any() for batch in batches for values in batch.columns
            )

    def _in_manifest(self, listing: Listing, manifest: AvroFile) -> str:
        """Return why a manifest counts; a list of manifests has bounds of partition keys only."""
        for entry in manifest.records():
            if "manifest_path" in entry:
                continue
            file = entry["data_file"]
            is_bounded = file.get("lower_bounds") or file.get("upper_bounds")
            if is_bounded and place_below(self.location, file["file_path"]) not in listing.sizes:
                return _BOUNDS.format(file["file_path"])
        return ""

    def _in_statistics(self, content: bytes) -> str:
        """Return why a file of statistics counts: they are made of all values of a column."""
        end = len(content) - _PUFFIN_END
        size = int.from_bytes(content[end : end + 4], "little")
        statistics = parse_json(content[max(end - size, 0) : end], limit=_MOST_VALUES)
        snapshots = {
            blob["snapshot-id"] for blob in statistics["blobs"] if blob["type"] != _POSITIONS
        }
        versions = (self._summaries.get(snapshot, {}).get(_VERSION, -1) for snapshot in snapshots)
        return "" if all(int(version) >= self.deleted_by for version in versions) else _SKETCHES

    @cached_property
    def _summaries(self) -> dict[int, Mapping[str, str]]:
        """The properties of all snapshots that some metadata of the table describe."""
        storage, summaries = ReadOnlyStorage.of(self.location), dict[int, Mapping[str, str]]()
        for path in Listing.of(self.location).sizes:
            content = storage.read_small(path, _LARGEST) if path.endswith(_METADATA) else None
            # The search names a file that is no metadata of a table.
            with suppress(*_INVALID):
                for snapshot in _parsed(content or b"{}").get("snapshots", ()):
                    summary = snapshot["summary"]
                    summaries[snapshot["snapshot-id"]] = {
                        name: str(summary[name]) for name in (_SOURCE, _VERSION) if name in summary
                    }
        return summaries


def place_below(folder: str, location: str) -> str | None:
    """Return the path of a file relative to a folder, whose locations may be written in two ways.

    It is None for a file that is elsewhere.
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
    metadata = parse_json(content, limit=_MOST_VALUES)
    return metadata if isinstance(metadata, dict) else {}
