"""Compressed bytes of others, which may be a thousand times as long when they are plain."""

import zlib

_GZIP = 31
_RAW = -15
_CHUNK = 1 << 20


def inflated(data: bytes, limit: int) -> bytes:
    """Decompress deflate without a header.

    Args:
        data: The bytes.
        limit: The length that the plain bytes may have.

    Raises:
        ValueError: They do not decompress, or are longer.
    """
    return _inflated(data, limit, _RAW)[0]


def gunzipped(data: bytes, limit: int) -> bytes:
    """Decompress gzip; see ``inflated``. Bytes behind its end are an error."""
    plain, remainder = _inflated(data, limit, _GZIP)
    if remainder:
        raise ValueError("bytes follow the end of its compressed part")
    return plain


def unzstd(data: bytes, limit: int) -> bytes:
    """Decompress Zstandard; see ``inflated``."""
    # Importing it takes longer than reading most files.
    import pyarrow as pa

    try:
        stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
        # Its method for bytes never frees them after an error.
        return _short(stream.read_buffer(limit + 1).to_pybytes(), limit)
    except OSError as error:
        raise ValueError(f"it does not decompress: {error}") from error


def first_zstd_frame(data: bytes, limit: int) -> bytes:
    """Decompress the part that pyiceberg decompresses, which ends with the first frame; see ``inflated``."""
    from zstandard import ZstdDecompressor, ZstdError

    content = bytearray()
    try:
        with ZstdDecompressor().stream_reader(data) as reader:
            while len(content) <= limit and (part := reader.read(_CHUNK)):
                content += part
    except ZstdError as error:
        raise ValueError(f"it does not decompress: {error}") from error
    return _short(bytes(content), limit)


def unsnapped(data: bytes, size: int) -> bytes:
    """Decompress Snappy.

    Args:
        data: The bytes.
        size: The length of the plain bytes, which the caller has limited.

    Raises:
        ValueError: They do not decompress.
    """
    import pyarrow as pa

    try:
        plain: bytes = pa.decompress(data, size, "snappy", asbytes=True)
    except OSError as error:
        raise ValueError(f"it does not decompress: {error}") from error
    return plain


def _inflated(data: bytes, limit: int, form: int) -> tuple[bytes, bytes]:
    stream = zlib.decompressobj(form)
    try:
        plain = _short(stream.decompress(data, limit + 1), limit)
    except zlib.error as error:
        raise ValueError(f"it does not decompress: {error}") from error
    if not stream.eof:
        raise ValueError("its compressed part is cut short")
    return plain, stream.unused_data


def _short(plain: bytes, limit: int) -> bytes:
    if len(plain) > limit:
        raise ValueError(f"it is too large: more than {limit} bytes without compression")
    return plain
