"""Search for keys in every file below the folders of a table, also in hidden and aborted ones.

An ORC file is decoded, whichever transaction wrote it; a file of this package or of Hive beside the
data is searched as text; any other file counts as one that may hold a key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.erasure.keys import KeyHolder, date_text, key_texts
from hiveacid.errors import HiveAcidError, MalformedName
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, column_names
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import DATES, DECIMALS, INTEGERS, STRINGS
from hiveacid.orc.format.streams import StreamKind, StripeFooter
from hiveacid.orc.format.tail import OrcTail
from hiveacid.records.erasures import HeldFile, now_text
from hiveacid.records.staged_changes import LARGEST_MANIFEST
from hiveacid.records.store import table_folders
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    READER_NOTE_FILE,
    SIDECAR_FILE,
    UNFINISHED_PREFIX,
    VIEW_REPORTS,
    Base,
    parse_directory,
)
from hiveacid.rules.schema import AS_STORED, ColumnMapping, MappedColumns, TableKind
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, open_data, read_tail
from hiveacid.storage.uploads import Uploads
from hiveacid.tables.locations import TableFolders
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.times import Int64s

_SIDE_FILES = frozenset({ACID_VERSION_FILE, METADATA_FILE, SIDECAR_FILE, READER_NOTE_FILE})
_ORC, _CHECKSUM = b"ORC", b"crc\0"
_MOST_SEARCHES = 3
# Of the rows of a column in a stripe.
_LARGEST_INDEX = 32 << 20
_UNKNOWN = "It is neither an ORC file nor a file that Hive or this package writes beside the data."
_LINK = "It is, or is behind, a symbolic link, which is not followed."
_BOUND = "Its statistics have a key as the smallest or the largest value."
NAMED = "A key is in its text."
_VANISHED = "It was removed or renamed while it was searched."
_PENDING = "It is uploaded in parts, and the upload has not ended."


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search of a table.

    Attributes:
        held: The files that hold keys, or may hold some.
        later: The number of rows with keys that were written after the delete.
        files: The number of files.
        bytes: Their size.
    """

    held: tuple[HeldFile, ...]
    later: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileFindings:
    """Keys in one file: rows of the time of the delete, later rows, and another reason to name it."""

    rows: int = 0
    later: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Listing:
    """The files below a folder at one time: all of them are searched.

    Attributes:
        storage: The folder.
        sizes: The size of each file, by its path.
    """

    storage: ReadOnlyStorage
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, location: Location) -> Self:
        """List a folder."""
        storage = ReadOnlyStorage.of(location)
        return cls(storage, {path: size for path, size, _ in storage.walk() if size is not None})

    @cached_property
    def links(self) -> frozenset[str]:
        """The files that are links, or in a folder that is one."""
        storage = self.storage
        if not storage.is_local:
            return frozenset()
        folders = {path.rpartition("/")[0] for path in self.sizes}
        linked = {folder for folder in folders if folder and storage.is_link(folder)}
        return frozenset(
            path
            for path in self.sizes
            if path.rpartition("/")[0] in linked or storage.is_link(path)
        )


@dataclass(frozen=True)
class TableSearch:
    """A search of a table for rows that a delete should have removed.

    Attributes:
        client: The metastore.
        holder: The table with the keys.
        after: The write id of the delete; rows with a higher one are new. None counts all rows.
    """

    client: MetastoreClient
    holder: KeyHolder
    after: int | None = None

    def run(self) -> SearchResult:
        """Search all files that the folders of the table have now.

        A file that vanishes meanwhile may have got another name, under which it was not listed. Then
        the search begins again; if files vanish each time, they count as files with keys.
        """
        for _ in range(_MOST_SEARCHES):
            result = self._once()
            if not any(file.problem == _VANISHED for file in result.held):
                break
        return result

    def _once(self) -> SearchResult:
        held_files: list[HeldFile] = []
        rows_later = files = size = 0
        for location, partitions in self._roots().items():
            held_in = partial(self._held, location, partitions)
            listing = Listing.of(location)
            paths = sorted(listing.sizes)
            for path, findings in zip(
                paths, in_threads(partial(self.look, listing), paths), strict=True
            ):
                bytes_ = listing.sizes[path]
                files, size, rows_later = files + 1, size + bytes_, rows_later + findings.later
                if findings.rows or findings.problem:
                    held_files.append(held_in(path, bytes_, findings))
            uploads = Uploads.of(location)
            for pending in () if uploads is None else uploads.pending():
                held_files.append(held_in(pending.path, 0, FileFindings(problem=_PENDING)))
        return SearchResult(tuple(held_files), rows_later, files, size)

    def _roots(self) -> Mapping[Location, Sequence[tuple[str, str]]]:
        """Return the folders to walk, each with the partitions below it: the path and the name."""
        table = self.holder.table
        places = partition_locations(self.client, table) if table.partition_keys else {}
        roots: dict[Location, list[tuple[str, str]]] = {table.folder: []}
        for folder in TableFolders(table, places).folders:
            if folder.partition is None:
                continue
            if folder.path:
                roots[table.folder].append((folder.path, folder.partition))
            else:
                roots[folder.location] = [("", folder.partition)]
        return roots

    def _held(
        self,
        location: str,
        partitions: Sequence[tuple[str, str]],
        path: str,
        bytes_: int,
        findings: FileFindings,
    ) -> HeldFile:
        partition_names = [
            name for top, name in partitions if not top or path.startswith(f"{top}/")
        ]
        return HeldFile(
            table=self.holder.name,
            partition=partition_names[0] if partition_names else None,
            path=f"{location.rstrip('/')}/{path}",
            bytes=bytes_,
            rows=findings.rows,
            problem=findings.problem,
            found_at=now_text(),
        )

    def look(self, listing: Listing, path: str) -> FileFindings:
        """Search one file."""
        if path in listing.links:
            return FileFindings(problem=_LINK)
        try:
            return self._search(listing, path)
        except Exception as error:  # noqa: BLE001 - a hostile file must not end the search
            if not listing.storage.exists(path):
                return FileFindings(problem=_VANISHED)
            why = error.what if isinstance(error, HiveAcidError) else repr(error)
            return FileFindings(problem=f"It cannot be searched: {why}")

    def _search(self, listing: Listing, path: str) -> FileFindings:
        if not (size := listing.sizes[path]):
            return FileFindings()
        with listing.storage.open_input(path) as source:
            start = source.read(4)
        if start.startswith(_ORC):
            return self._search_orc(listing.storage, DataFile(path, size, None, None))
        if start == _CHECKSUM and path.endswith(".crc"):
            return FileFindings()
        return FileFindings(problem=self._problem(listing, path, start))

    def _problem(self, listing: Listing, path: str, start: bytes) -> str:
        """Return why a file counts that is no ORC file, by its first bytes; empty if it does not."""
        plain = path.rpartition("/")[2].removeprefix(UNFINISHED_PREFIX)
        if plain.endswith(FLUSH_LENGTH_SUFFIX):
            return ""
        is_beside = any(name in plain for name in _SIDE_FILES)
        is_note = not {VIEW_REPORTS, *table_folders()}.isdisjoint(path.split("/"))
        if not (is_beside or is_note) or listing.sizes[path] > LARGEST_MANIFEST:
            return _UNKNOWN
        content = listing.storage.read_small(path, LARGEST_MANIFEST)
        return NAMED if content is not None and self.holder.keys.is_named_in(content) else ""

    def _is_later(self, path: str) -> bool:
        """Whether all rows in a directory were written after the delete."""
        if self.after is None or any(part.startswith(("_", ".")) for part in path.split("/")):
            return False
        try:
            directory = parse_directory(path.rpartition("/")[2])
        except MalformedName:
            return False
        if directory is None:
            return False
        if isinstance(directory, Base):
            # In a full ACID table, the rows of a base have their own write ids. In an insert-only
            # table, no base after that of the erasure has earlier rows.
            is_flat = self.holder.table.kind is TableKind.INSERT_ONLY
            return is_flat and directory.write_id > self.after
        return directory.min_write_id > self.after

    def _search_orc(self, storage: ReadOnlyStorage, file: DataFile) -> FileFindings:
        is_later = self._is_later(file.path.rpartition("/")[0])
        tail = read_tail(storage, file.path, file.size)
        rows = rows_later = 0
        later_texts: set[str] = set()
        for mapping in self._mappings(tail):
            for write_ids, values in self._batches(OrcFile(storage, file, mapping), tail):
                hits = self.holder.mask(values)
                if not hits.any():
                    continue
                new = np.full(len(hits), is_later)
                if not is_later and write_ids is not None and self.after is not None:
                    new = write_ids > self.after
                rows_later += int((hits & new).sum())
                rows += int((hits & ~new).sum())
                new_values = values.filter(pa.array(hits & new))
                later_texts |= {*key_texts(new_values, padded=self.holder.is_padded).to_pylist()}
        if rows:
            return FileFindings(rows, rows_later)
        bounds = {*self._bounds(storage, file, tail)} - later_texts
        is_bound = any(text in self.holder.keys for text in bounds)
        return FileFindings(0, rows_later, _BOUND if is_bound else "")

    def _batches(self, file: OrcFile, tail: OrcTail) -> Iterator[tuple[Int64s | None, pa.Array]]:
        """Yield the values of the column, with the write ids of their rows where these have some."""
        name = self.holder.column.name.lower()
        batches: Iterator[tuple[Int64s | None, pa.RecordBatch]]
        if tail.is_acid:
            batches = ((rows.ids.write_ids, rows.columns) for rows in file.keyed([name]))
        else:
            batches = ((None, rows) for rows in file.flat([name]))
        for write_ids, batch in batches:
            for stored, values in zip(batch.schema.names, batch.columns, strict=True):
                if stored.lower() == name:
                    yield write_ids, values

    def _mappings(self, tail: OrcTail) -> list[MappedColumns]:
        """Return all rules by which an engine may find the column in a file, if they differ."""
        mapped = self.holder.table.mapped_columns
        mapped = replace(mapped, mapping=mapped.mapping or ColumnMapping.POSITION)
        stored_names = column_names(tail.types)
        return [mapped] if mapped.renamed(stored_names) == stored_names else [mapped, AS_STORED]

    def _bounds(self, storage: ReadOnlyStorage, file: DataFile, tail: OrcTail) -> Iterator[str]:
        """Yield the smallest and largest values in the statistics of the file, as keys."""
        numbers = {
            number
            for mapping in self._mappings(tail)
            for number in columns_named(tail, mapping, self.holder.column.name)
        }
        for columns in (tail.file_statistics, *tail.stripe_statistics):
            for number in numbers:
                if number < len(columns):
                    yield from self._bounds_of(columns[number])
        with open_data(storage, file) as source:
            for stripe in tail.stripes:
                for stream in StripeFooter.read(source, tail, stripe).index:
                    if stream.column in numbers and stream.kind == StreamKind.ROW_INDEX:
                        source.seek(stream.offset)
                        index_bytes = source.read(stream.length)
                        index = Message.decode(
                            tail.compression.decompress(index_bytes, _LARGEST_INDEX)
                        )
                        for entry in index.all_data(1):
                            statistics = Message.decode(entry).data(2)
                            if statistics is not None:
                                yield from self._bounds_of(statistics)

    def _bounds_of(self, statistics: bytes) -> Iterator[str]:
        message = Message.decode(statistics)
        for kind, text_of in ((INTEGERS, str), (DATES, date_text)):
            part = message.message(kind)
            for field in (1, 2):
                if part is not None and part.has(field):
                    yield text_of(part.signed(field))
        for kind in (STRINGS, DECIMALS):
            part = message.message(kind)
            for field in (1, 2, 4, 5):
                if part is not None and (data := part.data(field)) is not None:
                    text = data.decode(errors="replace")
                    yield text.rstrip(" ") if self.holder.is_padded else text
                    if kind == DECIMALS and "." in text:
                        yield text.rstrip("0").rstrip(".")


def columns_named(tail: OrcTail, mapping: MappedColumns, name: str) -> Iterator[int]:
    """Yield the numbers of the columns of a file that a name may mean."""
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    numbers = Message.decode(tail.types[root]).all_numbers(TypeField.SUBTYPES)
    for stored, number in zip(mapping.renamed(column_names(tail.types)), numbers, strict=False):
        if stored.lower() == name.lower():
            yield number
