"""Search for keys in every file below the folders of a table, also in hidden and aborted ones.

An ORC file is decoded, whichever transaction wrote it; a file of this package or of Hive beside the
data is searched as text; any other file counts as one that may hold a key.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid.errors import HiveAcidError, MalformedName
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, column_names
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import DATES, DECIMALS, INTEGERS, STRINGS
from hiveacid.orc.format.streams import StreamKind, StripeFooter
from hiveacid.orc.format.tail import OrcTail
from hiveacid.records.erasures import HeldFile, now_text
from hiveacid.records.staged_changes import LARGEST_MANIFEST
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    CONSUMER_CURSORS,
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    MIRROR_NOTES,
    READER_NOTE_FILE,
    RUN_NOTES,
    SIDECAR_FILE,
    STAGED_CHANGES,
    STREAM_PLACES,
    UNFINISHED_PREFIX,
    VIEW_REPORTS,
    Base,
    parse_directory,
)
from hiveacid.rules.schema import (
    AS_STORED,
    Char,
    ColumnMapping,
    MappedColumns,
    TableKind,
    parse_type,
)
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, open_data, read_tail
from hiveacid.storage.uploads import Uploads
from hiveacid.tables.locations import TableFolders
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.upkeep.erasure.key_set import KeySet, key_texts

_SIDE_FILES = frozenset({ACID_VERSION_FILE, METADATA_FILE, SIDECAR_FILE, READER_NOTE_FILE})
_NOTE_FOLDERS = frozenset(
    {RUN_NOTES, STREAM_PLACES, CONSUMER_CURSORS, MIRROR_NOTES, STAGED_CHANGES, VIEW_REPORTS}
)
_ORC, _CHECKSUM = b"ORC", b"crc\0"
_MOST_SEARCHES = 3
# Of the rows of a column in a stripe.
_LARGEST_INDEX = 32 << 20
_UNKNOWN = "It is neither an ORC file nor a file that Hive or this package writes beside the data."
_LINK = "It is, or is behind, a symbolic link, which is not followed."
_BOUND = "Its statistics have a key as the smallest or the largest value."
_NAMED = "A key is in its text."
_VANISHED = "It was removed or renamed while it was searched."
_PENDING = "It is uploaded in parts, and the upload has not ended."


@dataclass(frozen=True, slots=True)
class Searched:
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
class TableSearch:
    """A search of a table for rows that a delete should have removed.

    Attributes:
        client: The metastore.
        table: The table.
        column: The column with the keys.
        keys: The keys.
        after: The write id of the delete; rows with a higher one are new. None counts all rows.
    """

    client: MetastoreClient
    table: HiveTable
    column: HiveColumn
    keys: KeySet
    after: int | None = None

    def run(self) -> Searched:
        """Search all files that the folders of the table have now.

        A file that vanishes meanwhile may have got another name, under which it was not listed. Then
        the search begins again; if files vanish each time, they count as files with keys.
        """
        for _ in range(_MOST_SEARCHES):
            found = self._once()
            if not any(file.problem == _VANISHED for file in found.held):
                break
        return found

    def _once(self) -> Searched:
        held: list[HeldFile] = []
        later = files = size = 0
        for location, partitions in self._roots().items():
            storage = ReadOnlyStorage.of(location)
            paths = sorted(
                (path, bytes_) for path, bytes_, _ in storage.walk() if bytes_ is not None
            )
            for (path, bytes_), each in zip(paths, self._found(storage, paths), strict=True):
                files, size, later = files + 1, size + bytes_, later + each.later
                if each.rows or each.problem:
                    held.append(self._held(location, path, partitions, bytes_, each))
            uploads = Uploads.of(location)
            for pending in () if uploads is None else uploads.pending():
                unfinished = FileFindings(problem=_PENDING)
                held.append(self._held(location, pending.path, partitions, 0, unfinished))
        return Searched(tuple(held), later, files, size)

    def _roots(self) -> Mapping[Location, Sequence[tuple[str, str]]]:
        """Return the folders to walk, each with the partitions below it: the path and the name."""
        table = self.table
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
        path: str,
        partitions: Sequence[tuple[str, str]],
        bytes_: int,
        found: FileFindings,
    ) -> HeldFile:
        inside = [name for top, name in partitions if not top or path.startswith(f"{top}/")]
        return HeldFile(
            table=self.table.ref.full_name,
            partition=inside[0] if inside else None,
            path=f"{location.rstrip('/')}/{path}",
            bytes=bytes_,
            rows=found.rows,
            problem=found.problem,
            found_at=now_text(),
        )

    def _found(
        self, storage: ReadOnlyStorage, paths: Sequence[tuple[str, int]]
    ) -> list[FileFindings]:
        links = self._links(storage, [path for path, _ in paths])
        return in_threads(partial(self._look, storage, links), paths)

    @staticmethod
    def _links(storage: ReadOnlyStorage, paths: Iterable[str]) -> frozenset[str]:
        """Return the files that are links, or in a folder that is one."""
        if not storage.is_local:
            return frozenset()
        folders = {path.rpartition("/")[0] for path in paths}
        linked = {folder for folder in folders if folder and storage.is_link(folder)}
        return frozenset(
            path for path in paths if path.rpartition("/")[0] in linked or storage.is_link(path)
        )

    def _look(
        self, storage: ReadOnlyStorage, links: frozenset[str], listed: tuple[str, int]
    ) -> FileFindings:
        path, size = listed
        if path in links:
            return FileFindings(problem=_LINK)
        try:
            return self._search(storage, path, size)
        except Exception as error:  # noqa: BLE001 - a hostile file must not end the search
            if not storage.exists(path):
                return FileFindings(problem=_VANISHED)
            why = error.what if isinstance(error, HiveAcidError) else repr(error)
            return FileFindings(problem=f"It cannot be searched: {why}")

    def _search(self, storage: ReadOnlyStorage, path: str, size: int) -> FileFindings:
        directory, name = path.rpartition("/")[::2]
        if not size or name.endswith(FLUSH_LENGTH_SUFFIX):
            return FileFindings()
        with storage.open_input(path) as source:
            start = source.read(4)
        if start.startswith(_ORC):
            is_later = self._is_later(directory)
            return self._search_orc(storage, DataFile(path, size, None, None), is_later)
        if start == _CHECKSUM and name.endswith(".crc"):
            return FileFindings()
        plain = name.removeprefix(UNFINISHED_PREFIX)
        is_note = plain in _SIDE_FILES or not _NOTE_FOLDERS.isdisjoint(path.split("/"))
        is_side_file = any(known in plain for known in _SIDE_FILES)
        if not (is_note or is_side_file) or size > LARGEST_MANIFEST:
            return FileFindings(problem=_UNKNOWN)
        content = storage.read_small(path, LARGEST_MANIFEST)
        named = content is not None and self.keys.is_named_in(content)
        return FileFindings(problem=_NAMED if named else "")

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
            return self.table.kind is TableKind.INSERT_ONLY and directory.write_id > self.after
        return directory.min_write_id > self.after

    def _search_orc(self, storage: ReadOnlyStorage, file: DataFile, is_later: bool) -> FileFindings:
        tail = read_tail(storage, file.path, file.size)
        rows = later = 0
        values: set[str] = set()
        for mapping in self._mappings(tail):
            opened = OrcFile(storage, file, mapping)
            for write_ids, column in self._batches(opened, tail):
                hits = self.keys.mask(column, padded=self._is_padded)
                if not hits.any():
                    continue
                new = np.full(len(hits), is_later)
                if not is_later and write_ids is not None and self.after is not None:
                    new = write_ids > self.after
                later += int((hits & new).sum())
                rows += int((hits & ~new).sum())
                texts = key_texts(column.filter(pa.array(hits & new)), padded=self._is_padded)
                values |= {*texts.to_pylist()}
        if rows:
            return FileFindings(rows, later)
        bounds = {text for text in self._bounds(storage, file, tail) if text not in values}
        return FileFindings(0, later, _BOUND if any(text in self.keys for text in bounds) else "")

    def _batches(
        self, file: OrcFile, tail: OrcTail
    ) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.int64]] | None, pa.Array]]:
        name = self.column.name.lower()
        if tail.is_acid:
            for keyed in file.keyed([name]):
                for place, given in enumerate(keyed.columns.schema.names):
                    if given.lower() == name:
                        yield keyed.ids.write_ids, keyed.columns.column(place)
            return
        for batch in file.flat([name]):
            for place, given in enumerate(batch.schema.names):
                if given.lower() == name:
                    yield None, batch.column(place)

    def _mappings(self, tail: OrcTail) -> list[MappedColumns]:
        """Return all rules by which an engine may find the column in a file, if they differ."""
        mapped = self.table.mapped_columns
        mapped = replace(mapped, mapping=mapped.mapping or ColumnMapping.POSITION)
        stored = _stored_names(tail)
        if mapped.renamed(stored) == tuple(stored):
            return [mapped]
        return [mapped, AS_STORED]

    def _bounds(self, storage: ReadOnlyStorage, file: DataFile, tail: OrcTail) -> Iterator[str]:
        """Yield the smallest and largest values in the statistics of the file, as keys."""
        numbers = {
            number
            for mapping in self._mappings(tail)
            for number in _columns_named(tail, mapping, self.column.name)
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
                        encoded = source.read(stream.length)
                        index = Message.decode(tail.compression.decompress(encoded, _LARGEST_INDEX))
                        for entry in index.all_data(1):
                            statistics = Message.decode(entry).data(2)
                            if statistics is not None:
                                yield from self._bounds_of(statistics)

    def _bounds_of(self, statistics: bytes) -> Iterator[str]:
        message = Message.decode(statistics)
        for kind, fields in ((INTEGERS, (1, 2)), (DATES, (1, 2))):
            part = message.message(kind)
            for field in fields:
                if part is not None and part.has(field):
                    bound = part.signed(field)
                    if kind == DATES:
                        days = pa.array([bound], pa.int64()).cast(pa.int32()).cast(pa.date32())
                        yield str(days.cast(pa.string())[0])
                    else:
                        yield str(bound)
        for kind in (STRINGS, DECIMALS):
            part = message.message(kind)
            for field in (1, 2, 4, 5):
                if part is not None and (data := part.data(field)) is not None:
                    text = data.decode(errors="replace")
                    yield text.rstrip(" ") if self._is_padded else text
                    if kind == DECIMALS and "." in text:
                        yield text.rstrip("0").rstrip(".")

    @cached_property
    def _is_padded(self) -> bool:
        return isinstance(parse_type(self.column.type), Char)


def _stored_names(tail: OrcTail) -> list[str]:
    return [*column_names(tail.types)]


def _columns_named(tail: OrcTail, mapping: MappedColumns, name: str) -> Iterator[int]:
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    numbers = Message.decode(tail.types[root]).all_numbers(TypeField.SUBTYPES)
    for given, number in zip(mapping.renamed(_stored_names(tail)), numbers, strict=False):
        if given.lower() == name.lower():
            yield number
