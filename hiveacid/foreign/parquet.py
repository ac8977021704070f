"""Parquet files of others, decoded within a limited memory.

A small file can describe pages that decompress to gigabytes, a long text that each row repeats by
its number in a dictionary, lists with more elements than any memory, and more rows than time. So its
footer is checked before the library parses it, and the headers of the pages of a row group before the
library decodes them; both say how many rows are decoded at once.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from hiveacid.errors import CorruptFile, DataError, TooLarge, UnsupportedFile
from hiveacid.foreign.budget import require_few_bytes, require_few_rows, spend
from hiveacid.foreign.parquet_sizes import Encoding, Page, Pages, check_footer, rows_begun

MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
# The length of the footer and the magic bytes.
TAIL = 8
_GUESSED_FOOTER = 64 << 10
_LARGEST_FOOTER = 16 << 20
MOST_ROWS = 65_536
# Of a batch of readers of data sets.
_ROWS_OF_OTHERS = 131_072
# The decoded rows of a batch, unless a single row has more.
_BATCH = 32 << 20
# Held at once: pages, dictionaries, and a batch. Large files have large values.
_AT_ONCE, _SHARE_OF_FILE = 64 << 20, 4
# A reader of a column takes as much.
_COLUMN = 4 << 10
# Shorter texts of a dictionary are repeated by the library.
_SHORT = 256 << 10
# Old writers count too few bytes of a column.
_PADDING = 100
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_TEXT = "BYTE_ARRAY"
# Levels of a value, and the offset of a text or its number in a dictionary.
_LEVELS, _OFFSET = 4, 8
_TEXTS = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}

_Numbers = NDArray[np.float64]


class ParquetInput:
    """A Parquet file.

    Args:
        source: The file.
        name: Its location, for errors.

    Attributes:
        size: Its length.
        footer: Its footer, as it is stored.
        metadata: Its footer.

    Raises:
        CorruptFile: It is no Parquet file.
        TooLarge: Its footer needs too much memory, or it has too many rows.
        UnsupportedFile: It is encrypted.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self._source = source
        self._name = name
        self.size = source.seek(0, os.SEEK_END)
        with self._named():
            self.footer = _footer(source, self.size)
            spend(len(self.footer), "The footer of a Parquet file")
            check_footer(self.footer)
        # Most tables have no file of Parquet.
        from pyarrow import parquet

        with self._decoding():
            self.metadata = parquet.read_metadata(pa.BufferReader(framed(self.footer)))
        with self._named():
            require_few_rows(self.metadata.num_rows, self.size)

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns, with the unit of nanoseconds for timestamps of 96 bits."""
        return self._schema("ns")

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        names: list[str] = self.schema.names
        return names

    def batches(
        self, columns: Sequence[str] | None = None, *, rows: int = MOST_ROWS, int96: str = "ns"
    ) -> Iterator[pa.RecordBatch]:
        """Decode rows, in the order of the file.

        Args:
            columns: The names of the columns; by default all.
            rows: The maximum number of rows of a batch. Wide rows make it smaller.
            int96: The unit of timestamps of 96 bits.

        Raises:
            CorruptFile: The file does not decode.
            TooLarge: A row, or a page, needs too much memory.
        """
        schema = self._schema(int96)
        decoded_bytes = 0
        for number in range(len(self._chunks)):
            for batch in self._batches(number, columns, rows, int96):
                decoded_bytes += batch.nbytes + sum(map(_length, batch.columns))
                with self._named():
                    require_few_bytes(decoded_bytes, self.size)
                    parts = _parts(batch, self._limit)
                for part in parts:
                    yield _plain(part, schema)

    def require_small(self, limit: int) -> None:
        """Refuse a file of which a library without limits would hold too much at once.

        Args:
            limit: The most bytes of the columns of a batch, and of the repeated texts of a row group.

        Raises:
            CorruptFile: Its pages are no pages.
            TooLarge: It has more.
        """
        for number in range(len(self._chunks)):
            held_bytes = 0.0
            for leaf, column in enumerate(self._leaves):
                chunk = self._chunk(number, leaf)
                rows = min(self.metadata.row_group(number).num_rows, _ROWS_OF_OTHERS)
                held_bytes += chunk.pages.dictionary + chunk.largest + chunk.held(rows)
                self._require(
                    held_bytes <= limit, f"Its columns need {held_bytes:.0f} bytes at once."
                )
                if not chunk.repeats(rows) or chunk.pages.dictionary * chunk.values <= limit:
                    continue
                # Each text is decoded only once.
                texts = 0
                for batch in self._batches(number, [column.path], MOST_ROWS, "ns"):
                    texts += sum(map(_length, batch.columns))
                    self._require(texts <= limit, f"The texts of {column.path} are too long.")

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise TooLarge(f"{self._name}: {problem}")

    def _schema(self, int96: str) -> pa.Schema:
        from pyarrow import parquet

        with self._decoding():
            return parquet.ParquetFile(
                pa.BufferReader(framed(self.footer)),
                metadata=self.metadata,
                coerce_int96_timestamp_unit=int96,
            ).schema_arrow

    @cached_property
    def _leaves(self) -> list[Any]:
        schema = self.metadata.schema
        return [schema.column(number) for number in range(self.metadata.num_columns)]

    @cached_property
    def _chunks(self) -> list[list[tuple[int, int, int]]]:
        """The positions, lengths, and values of the columns of each row group."""
        with self._decoding():
            groups = list(map(self.metadata.row_group, range(self.metadata.num_row_groups)))
            group_chunks = [
                [_place(group.column(leaf)) for leaf in range(group.num_columns)]
                for group in groups
            ]
        places = [place for chunks in group_chunks for place in chunks]
        rows = [group.num_rows for group in groups]
        if (
            any(len(chunks) != len(self._leaves) for chunks in group_chunks)
            or any(min(place) < 0 or sum(place[:2]) > self.size for place in places)
            or sum(length for _, length, _ in places) > self.size
            or min(rows, default=0) < 0
            or sum(rows) != self.metadata.num_rows
        ):
            raise CorruptFile(f"{self._name} cannot be read as Parquet: its parts do not fit.")
        return group_chunks

    def _chunk(self, number: int, leaf: int) -> "_Chunk":
        begin, length, values = self._chunks[number][leaf]
        self._source.seek(begin)
        content = self._source.read(min(length + _PADDING, self.size - begin))
        codec = self.metadata.row_group(number).column(leaf).compression
        with self._named():
            return _Chunk(begin, content, Pages.of(content, values), self._leaves[leaf], codec)

    def _batches(
        self, number: int, columns: Sequence[str] | None, rows: int, int96: str
    ) -> Iterator[pa.RecordBatch]:
        """Decode rows, of which texts of dictionaries are not repeated yet."""
        from pyarrow import parquet

        column_list = None if columns is None else [*columns]
        names = frozenset(column_list or ())
        leaves = [
            leaf
            for leaf, column in enumerate(self._leaves)
            if column_list is None or not names.isdisjoint(_names_in(column.path))
        ]
        chunks = [self._chunk(number, leaf) for leaf in leaves]
        with self._named():
            require_few_bytes(sum(chunk.plain for chunk in chunks), self.size)
            rows = self._rows_at_once(chunks, rows)
        held_file = _Held(self.size, {chunk.begin: chunk.content for chunk in chunks})
        with self._decoding():
            batches = parquet.ParquetFile(
                pa.PythonFile(held_file, "r"),
                metadata=self.metadata,
                read_dictionary=[chunk.path for chunk in chunks if chunk.repeats(rows)],
                coerce_int96_timestamp_unit=int96,
                pre_buffer=False,
            ).iter_batches(rows, row_groups=[number], columns=column_list, use_threads=False)
        while True:
            with self._decoding():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @property
    def _limit(self) -> int:
        return _AT_ONCE + _SHARE_OF_FILE * self.size

    def _rows_at_once(self, chunks: Sequence["_Chunk"], rows: int) -> int:
        """Return the number of rows whose pages, and values, fit into memory."""
        pages = sum(_COLUMN + chunk.pages.dictionary + chunk.largest for chunk in chunks)
        if pages > self._limit:
            raise TooLarge(f"Its pages need {pages:.0f} bytes at once.")
        if sum(chunk.total + chunk.texts(rows) for chunk in chunks) <= _BATCH:
            return rows
        while (held_bytes := sum(chunk.held(rows) for chunk in chunks)) > _BATCH and rows > 1:
            rows = max(rows // 4, 1)
        if held_bytes > self._limit:
            raise TooLarge(f"{rows} rows need {held_bytes:.0f} bytes.")
        return rows

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the location to errors."""
        try:
            yield
        except CorruptFile as error:
            message = f"{self._name} cannot be read as Parquet: {error.what}"
            raise CorruptFile(message, remedy=error.remedy) from error
        except DataError as error:
            raise type(error)(f"{self._name}: {error.what}", remedy=error.remedy) from error

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """Translate errors of the library, which reads from memory here."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            message = f"{self._name} cannot be read as Parquet: {error}"
            raise CorruptFile(message) from error


def framed(footer: bytes) -> bytes:
    """Return a file without pages that has a footer."""
    return MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC


def _footer(source: BinaryIO, size: int) -> bytes:
    source.seek(max(size - _GUESSED_FOOTER, 0))
    end = source.read(_GUESSED_FOOTER)
    if end[-4:] == _ENCRYPTED:
        raise UnsupportedFile("It is encrypted.")
    length = int.from_bytes(end[-TAIL:-4], "little")
    if len(end) < TAIL or end[-4:] != MAGIC or length + TAIL > size:
        raise CorruptFile("It has no footer.")
    if length > _LARGEST_FOOTER:
        raise TooLarge(f"Its footer has {length} bytes.")
    if length + TAIL > len(end):
        source.seek(size - TAIL - length)
        end = source.read(length + TAIL)
    return end[-TAIL - length : -TAIL]


def _place(chunk: Any) -> tuple[int, int, int]:
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
        begin = chunk.dictionary_page_offset
    return begin, chunk.total_compressed_size, chunk.num_values


def _names_in(path: str) -> list[str]:
    """Return the columns that a path may be a part of; the names of columns may have dots."""
    parts = path.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


class _Chunk:
    """A column of a row group.

    Attributes:
        begin: Its position.
        content: Its bytes.
        pages: Its pages.
        path: Its name, with those of the columns around it.
    """

    def __init__(self, begin: int, content: bytes, pages: Pages, column: Any, codec: str) -> None:
        self.begin = begin
        self.content = content
        self.pages = pages
        self.path: str = column.path
        self._codec = codec
        self._levels = int(column.max_repetition_level).bit_length()
        self._is_text = column.physical_type == _TEXT
        width = _WIDTHS.get(column.physical_type, column.length or 0)
        # Values are converted once.
        self._width = _LEVELS + (_OFFSET if self._is_text else 2 * width)

    @cached_property
    def largest(self) -> int:
        """The plain bytes of its largest page."""
        return max((page.plain for page in self.pages.data), default=0)

    @cached_property
    def plain(self) -> int:
        """The plain bytes of its pages."""
        return sum(page.plain for page in self.pages.data)

    @cached_property
    def values(self) -> int:
        """The number of values in its pages."""
        return sum(page.values for page in self.pages.data)

    @cached_property
    def total(self) -> float:
        """The decoded bytes of all its pages, without the texts that rows repeat."""
        return float(self._costs.sum())

    def texts(self, rows: int) -> int:
        """Return the bytes of texts of so many rows that the library takes from other places."""
        repeated = 0 if self.repeats(rows) or not self._is_text else self.pages.dictionary
        prefixes = 0 if self._levels else self._longest_with_prefix
        return rows * (repeated + prefixes)

    def repeats(self, rows: int) -> bool:
        """Whether rows may repeat so long texts that they are read by their numbers."""
        return self._is_text and rows * self.pages.dictionary > _SHORT

    def held(self, rows: int) -> float:
        """Return the decoded bytes of so many rows in any place."""
        held_bytes = self._in_any_place(rows)
        if not self._levels and not self._is_text:
            held_bytes = min(held_bytes, rows * self._width)
        return held_bytes + self.texts(rows)

    @cached_property
    def _costs(self) -> _Numbers:
        """The decoded bytes of each page."""
        return np.array([self._cost(page) for page in self.pages.data], np.float64)

    def _cost(self, page: Page) -> float:
        if self._levels and self._has_prefixes(page):
            return float(page.values) * (page.plain + self._width)
        return max(float(page.plain), float(page.values) * self._width)

    @cached_property
    def _longest_with_prefix(self) -> int:
        """The longest text that may be a part of the text before it."""
        return max((page.plain for page in self.pages.data if self._has_prefixes(page)), default=0)

    def _has_prefixes(self, page: Page) -> bool:
        return self._is_text and page.encoding == Encoding.DELTA_BYTE_ARRAY

    def _in_any_place(self, rows: int) -> float:
        if not len(self._costs):
            return 0.0
        ends = self._row_ends
        if ends is None:
            return self.total
        sums = np.concatenate([[0.0], np.cumsum(self._costs)])
        last = np.minimum(np.searchsorted(ends, ends + (rows - 1), "right"), len(ends) - 1)
        return float((sums[last + 1] - sums[:-1]).max())

    @cached_property
    def _row_ends(self) -> _Numbers | None:
        """The number of rows that begin until the end of each page; None if it is unknown."""
        if not self._levels:
            return np.cumsum([page.values for page in self.pages.data], dtype=np.float64)
        try:
            rows = [rows_begun(self._repetition(page), self._levels) for page in self.pages.data]
        except (pa.ArrowException, OSError, ValueError, LookupError):
            return None
        return np.cumsum(rows, dtype=np.float64)

    def _repetition(self, page: Page) -> bytes:
        """The levels of repetition of a page."""
        content = self.content[page.begin : page.begin + page.size]
        if page.levels is not None:
            return content[: page.levels]
        if self._codec != "UNCOMPRESSED":
            content = pa.decompress(content, page.plain, _CODECS[self._codec], asbytes=True)
        return content[4 : 4 + int.from_bytes(content[:4], "little")]


class _Held(io.RawIOBase):
    """The columns of a row group whose pages are checked, in the places that they have in the file."""

    def __init__(self, size: int, parts: Mapping[int, bytes]) -> None:
        self._size = size
        self._parts = parts
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read a column from its beginning."""
        part = self._parts.get(self._at)
        if part is None or not 0 <= size <= len(part):
            raise OSError(f"the bytes from {self._at} on are no column")
        self._at += size
        return part[:size]

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + position
        return self._at

    def tell(self) -> int:
        """The current position."""
        return self._at

    def readable(self) -> bool:
        """Report that the columns are readable."""
        return True

    def seekable(self) -> bool:
        """Report that they have places."""
        return True


# Texts that rows repeat by their numbers in a dictionary


def _parts(batch: pa.RecordBatch, limit: int) -> list[pa.RecordBatch]:
    """Split a batch so that the texts of each part fit into memory."""
    size = sum(map(_length, batch.columns))
    if size <= _BATCH:
        return [batch]
    if batch.num_rows > 1:
        half = batch.num_rows // 2
        return [*_parts(batch.slice(0, half), limit), *_parts(batch.slice(half), limit)]
    if size > limit:
        raise TooLarge(f"A row has texts of {size} bytes.")
    return [batch]


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Replace the numbers of texts by the texts, where the schema has none."""
    fields = iter(schema)
    kinds = [
        next(field.type for field in fields if field.name == name) for name in batch.schema.names
    ]
    if kinds == batch.schema.types:
        return batch
    columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _length(array: Any) -> int:
    return sum(map(_length_of_texts, _texts(array)))


def _texts(array: Any) -> Iterator[Any]:
    """Yield the texts inside of an array, encoded by their dictionary."""
    if isinstance(array, pa.StructArray):
        for field in array.flatten():
            yield from _texts(field)
    elif isinstance(array, pa.MapArray):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for part in (array.keys, array.items):
            yield from _texts(part.slice(begin, end - begin))
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _texts(array.flatten())
    elif isinstance(array, pa.DictionaryArray):
        yield array


def _length_of_texts(texts: pa.DictionaryArray) -> int:
    if not any(is_kind(texts.type.value_type) for is_kind in _TEXTS):
        return 0
    lengths = pc.binary_length(texts.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(texts.indices)).as_py() or 0
