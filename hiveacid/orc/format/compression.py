"""ORC's compression: a stream is a row of chunks, each with a header of three bytes."""

import io
import os
import zlib
from collections.abc import Iterator
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any, Protocol

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.foreign.compressed import inflated, unsnapped, unzstd
from hiveacid.orc.format.protobuf import read_varint
from hiveacid.rules.row_id import RowId

# The two ends of a copy: the source of the bytes and their destination


_COPY_BLOCK = 8 << 20
_LOCAL_BLOCK = 1 << 20


class Source(Protocol):
    """A seekable binary file, open for reading."""

    def read(self, size: int = ..., /) -> bytes:
        """Read up to `size` bytes."""

    def seek(self, position: int, whence: int = ..., /) -> int:
        """Move to a position."""

    def tell(self) -> int:
        """The current position."""


class Sink(Protocol):
    """Anything that takes bytes."""

    def write(self, data: bytes, /) -> Any:
        """Write all of `data`, or, like a raw file, return the number of bytes written."""


def read_exactly(source: Source, offset: int, length: int) -> bytes:
    """Read a range that must exist."""
    source.seek(offset)
    data = source.read(length)
    while len(data) < length:
        chunk = source.read(length - len(data))
        if not chunk:
            raise CorruptFile(f"The file ends before byte {offset + length}, which it refers to.")
        data += chunk
    return data


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of a new file.

    Attributes:
        rows: Its rows.
        bytes: Its length.
        key_index: For each stripe the row id of its last row.
    """

    rows: int
    bytes: int
    key_index: tuple[RowId, ...]


class Output:
    """Counts the bytes written to a sink, and copies ranges into it without decoding."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.position = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.position += len(data)
        while data:
            byte_count = self._sink.write(data)
            if not isinstance(byte_count, int) or byte_count >= len(data):
                return
            data = data[byte_count:]

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file."""
        copied = self._copy_locally(source, offset, length)
        while copied < length:
            block = read_exactly(source, offset + copied, min(length - copied, _COPY_BLOCK))
            self.write(block)
            copied += len(block)

    def _copy_locally(self, source: Source, offset: int, length: int) -> int:
        """Copy between plain local files through one buffer, and return the number of bytes.

        ``os.copy_file_range`` takes a third more processor time: the kernel moves single pages, and
        ranges of stripes do not begin at pages, so that it cannot share them either.
        """
        source_file, sink_file = _local_file(source), _local_file(self._sink)
        if source_file is None or sink_file is None or not hasattr(os, "preadv"):
            return 0
        sink: Any = self._sink
        sink.flush()
        buffer = memoryview(bytearray(min(length, _LOCAL_BLOCK)))
        copied = 0
        while copied < length:
            # The position of the source remains, as its other readers expect.
            window = buffer[: length - copied]
            step = os.preadv(source_file.fileno(), [window], offset + copied)
            if step == 0:
                break
            written_bytes = 0
            while written_bytes < step:
                written_bytes += os.write(sink_file.fileno(), buffer[written_bytes:step])
            copied += step
        self.position += copied
        return copied


def _local_file(file: object) -> io.FileIO | None:
    # Some file objects (for example gzip) have a fileno() whose bytes differ from those that they
    # read.
    raw = getattr(file, "raw", file)
    return raw if isinstance(raw, io.FileIO) else None


LARGEST_BLOCK = 1 << 23
_LARGEST_CHUNK = LARGEST_BLOCK - 1
# All streams that are read are shorter than this, and memory holds no more of a stream.
LARGEST_STREAM = 128 << 20


class Codec(IntEnum):
    """Compression kinds with the numbers of the ORC format."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5

    @classmethod
    def named(cls, name: str) -> "Codec":
        """Find a codec by the name that the table property `orc.compress` uses."""
        try:
            return cls[name.strip().upper()]
        except KeyError:
            codec_names = ", ".join(codec.name.lower() for codec in cls)
            raise UnsupportedFile(f"ORC has no codec '{name}'; it has {codec_names}.") from None

    @classmethod
    def stated(cls, name: str | None) -> "Codec | None":
        """Return the codec that the table property states; None without one that can be written."""
        codec = cls.__members__.get((name or "").strip().upper())
        return None if codec is cls.LZO else codec


# The names of codecs in Arrow.
_ARROW_NAMES = {Codec.SNAPPY: "snappy", Codec.LZ4: "lz4_raw", Codec.ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class Chunks:
    """A compressed stream together with the places where its chunks start."""

    data: bytes
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression of one file: a codec, and the maximum plain data of one chunk."""

    codec: Codec
    block_size: int

    def __post_init__(self) -> None:
        if self.codec is not Codec.NONE and not 1 <= self.block_size <= LARGEST_BLOCK:
            raise CorruptFile(f"A compressed ORC file has blocks of {self.block_size} bytes.")

    @property
    def chunk_size(self) -> int:
        """The plain bytes that are put into a chunk; its length must fit the header."""
        return min(self.block_size, _LARGEST_CHUNK)

    def chunks(self, plain: bytes) -> Chunks:
        """Compress a stream and remember the chunk starts, which row index positions need."""
        if self.codec is Codec.NONE:
            return Chunks(plain, (0,))
        parts: list[bytes | memoryview] = []
        starts = []
        position = 0
        view = memoryview(plain)
        for offset in range(0, len(plain), self.chunk_size):
            starts.append(position)
            block = view[offset : offset + self.chunk_size]
            compressed = self._compress_block(block)
            # A block that does not shrink is stored unchanged. That is valid for every codec, so
            # rare codecs need no compressor.
            original = len(compressed) >= len(block)
            body = block if original else compressed
            parts += [(len(body) << 1 | original).to_bytes(3, "little"), body]
            position += 3 + len(body)
        return Chunks(b"".join(parts), tuple(starts))

    def compress(self, plain: bytes) -> bytes:
        """Compress a stream."""
        return self.chunks(plain).data

    def decompress(self, encoded_stream: bytes, limit: int = LARGEST_STREAM) -> bytes:
        """Read a whole stream back.

        Args:
            encoded_stream: The stream.
            limit: The maximum number of bytes.

        Raises:
            CorruptFile: The stream does not decode, or one of its chunks is longer than the file
                allows.
            UnsupportedFile: The stream is too long for memory.
        """
        if self.codec is Codec.NONE:
            return encoded_stream
        plain: list[bytes] = []
        size = 0
        for block in self._plain_blocks(encoded_stream):
            size += len(block)
            if size > limit:
                raise UnsupportedFile(f"A part of the ORC file is longer than {limit >> 20} MB.")
            plain.append(block)
        return b"".join(plain)

    def plain_limit(self, encoded_stream: bytes) -> int:
        """Return the maximum number of bytes of a decompressed stream."""
        if self.codec is Codec.NONE:
            return len(encoded_stream)
        limit = position = 0
        while position < len(encoded_stream):
            header = int.from_bytes(encoded_stream[position : position + 3], "little")
            limit += header >> 1 if header & 1 else self.block_size
            position += 3 + (header >> 1)
        return limit

    def position(self, chunks: Chunks, offset: int) -> list[int]:
        """Return the row index positions of the byte `offset` of the plain stream."""
        if self.codec is Codec.NONE:
            return [offset]
        if not chunks.starts:
            return [0, 0]
        # A position at the end of the last chunk has no next chunk.
        chunk = min(offset // self.chunk_size, len(chunks.starts) - 1)
        return [chunks.starts[chunk], offset - chunk * self.chunk_size]

    def _plain_blocks(self, encoded_stream: bytes) -> Iterator[bytes]:
        position = 0
        while position < len(encoded_stream):
            header = int.from_bytes(encoded_stream[position : position + 3], "little")
            position += 3
            body = encoded_stream[position : position + (header >> 1)]
            if len(body) < header >> 1:
                raise CorruptFile("A compressed part of an ORC file is cut short.")
            position += len(body)
            block = body if header & 1 else self._decompress_block(body)
            if len(block) > self.block_size:
                raise CorruptFile(
                    f"A compressed part of an ORC file is longer than {self.block_size} bytes, "
                    "which the file allows."
                )
            yield block

    def _compress_block(self, block: memoryview) -> bytes | memoryview:
        if len(block) <= _TINY:
            return _compressed_tiny(self.codec, bytes(block))
        return _compressed(self.codec, block)

    def _decompress_block(self, body: bytes) -> bytes:
        """Decode a chunk; an oversized one yields hardly more than one block."""
        plain: bytes
        try:
            if self.codec is Codec.ZLIB:
                plain = inflated(body, self.block_size)
            elif self.codec is Codec.SNAPPY:
                size, _ = read_varint(body, 0)
                if size > self.block_size:
                    raise ValueError(f"it claims to have {size} bytes")
                plain = unsnapped(body, size)
            elif self.codec is Codec.ZSTD:
                plain = unzstd(body, self.block_size)
            elif self.codec is Codec.LZ4:
                plain = _decompress_lz4(body, self.block_size + 1)
            else:
                raise UnsupportedFile(f"ORC files compressed with {self.codec.name} are not read.")
        except (ValueError, IndexError) as error:
            raise CorruptFile(
                f"A compressed part of an ORC file does not decode: {error}."
            ) from error
        return plain


def _compressed(codec: Codec, block: bytes | memoryview) -> bytes | memoryview:
    if codec is Codec.ZLIB:
        return _deflated(block)
    if codec in _ARROW_NAMES:
        compressed: bytes = _pyarrow().compress(block, _ARROW_NAMES[codec], asbytes=True)
        return compressed
    return block


# Most blocks of small files are tiny, and the same in all of them: those of columns of nulls, and
# of row indexes. A compressor takes as much time to start as for thousands of bytes.
_TINY = 512
_compressed_tiny = lru_cache(maxsize=1024)(_compressed)


@cache
def fast_zlib() -> Any:
    """ISA-L's implementation of zlib, which is several times as fast, if it is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return isal_zlib


def _deflated(block: bytes | memoryview) -> bytes:
    isal = fast_zlib()
    if isal is not None:
        compressed: bytes = isal.compress(block, wbits=-zlib.MAX_WBITS)
        return compressed
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(block) + deflate.flush()


def _pyarrow() -> Any:
    # Only some codecs need it, and importing it takes longer than rewriting most files.
    import pyarrow as pa

    return pa


def _decompress_lz4(body: bytes, limit: int) -> bytes:
    # The block lacks the length of its plain form, which library calls require.
    plain = bytearray()
    position = 0
    while position < len(body) and len(plain) < limit:
        token = body[position]
        literals, position = _lz4_length(body, position + 1, token >> 4)
        if literals > len(body) - position:
            raise ValueError("lz4 ends in the middle of a text")
        plain += body[position : position + literals]
        position += literals
        if position >= len(body):
            break
        distance = int.from_bytes(body[position : position + 2], "little")
        length, position = _lz4_length(body, position + 2, token & 0x0F)
        length = min(length + 4, limit)
        start = len(plain) - distance
        if start < 0 or distance == 0:
            raise ValueError("lz4 refers to data before the block")
        # The copy may overlap the appended data: the pattern then repeats.
        pattern = bytes(plain[start : start + length])
        plain += (pattern * (length // len(pattern) + 1))[:length]
    return bytes(plain)


def _lz4_length(body: bytes, position: int, nibble: int) -> tuple[int, int]:
    length = nibble
    while nibble == 15:
        extra = body[position]
        position += 1
        length += extra
        if extra != 255:
            break
    return length, position
