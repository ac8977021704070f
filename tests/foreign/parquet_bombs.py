"""Small Parquet files that describe much memory, or work without an end."""

import zlib
from collections.abc import Callable

import pyarrow as pa

from tests.foreign import parquet_pages as pages
from tests.foreign.parquet_pages import Column, Page, file_of, footed, i32, i64, structs, text

_ROWS = 70_000
_HUGE = (1 << 31) - 1


def squeezed(size: int, codec: str) -> bytes:
    return pa.compress(bytes(size), codec, asbytes=True)


def one_page(codec: int, name: str, size: int) -> bytes:
    values = size // 4
    page = Page(squeezed(size, name), values, size)
    return file_of([Column("id", [page], codec=codec, values=values)], values)


def gzipped() -> bytes:
    size = 100 << 20
    stream = zlib.compressobj(wbits=31)
    body = stream.compress(bytes(size)) + stream.flush()
    return file_of([Column("id", [Page(body, 4, size)], codec=pages.GZIP, values=4)], 4)


def many_pages() -> bytes:
    """Columns whose pages are small, and large in all."""
    body = squeezed(16 << 20, "zstd")
    made = [
        Column(f"c{number}", [Page(body, 4 << 20, 16 << 20)], codec=pages.ZSTD, values=4 << 20)
        for number in range(200)
    ]
    return file_of(made, 4 << 20)


def long_dictionary(rows: int, length: int, columns: int = 1) -> bytes:
    word = length.to_bytes(4, "little") + bytes(length)
    body = pa.compress(word, "zstd", asbytes=True)
    numbers = b"\1" + pages.run(rows)
    data = pa.compress(numbers, "zstd", asbytes=True)
    made = [
        Column(
            "id" if columns == 1 else f"c{number}",
            [
                Page(body, 1, len(word), pages.PLAIN, pages.DICTIONARY),
                Page(data, rows, len(numbers), pages.RLE_DICTIONARY),
            ],
            pages.BYTE_ARRAY,
            codec=pages.ZSTD,
            values=rows,
            converted=0,
        )
        for number in range(columns)
    ]
    return file_of(made, rows)


def repeated(*, inside: bool = False) -> bytes:
    """Return a file in which each row repeats a long text."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4096, pa.int32()), ["x" * (1 << 20)])
    if inside:
        texts = pa.ListArray.from_arrays(pa.array(range(4097), pa.int32()), texts)
    return pages.written(pa.table({"id": texts}), dictionary_pagesize_limit=1 << 22)


def prefixes() -> bytes:
    """Texts of 500 kB that are the ones before them."""
    length, rows = 500_000, 60_001
    first, others = _block(length), _block(0)
    lengths = _DELTAS + pages.varint(rows) + b"\0" + first + others * (rows // 128)
    suffixes = (
        _DELTAS
        + pages.varint(rows)
        + pages.varint(length << 1)
        + _block(-length)
        + (others * (rows // 128))
    )
    plain = lengths + suffixes + b"x" * length
    body = pa.compress(plain, "zstd", asbytes=True)
    page = Page(body, rows, len(plain), pages.DELTA_BYTE_ARRAY)
    column = Column("id", [page], pages.BYTE_ARRAY, codec=pages.ZSTD, values=rows, converted=0)
    return file_of([column], rows)


# Blocks of 128 differences, in four parts.
_DELTAS = pages.varint(128) + pages.varint(4)


def _block(first: int) -> bytes:
    """A block with a first difference, and no others."""
    least = min(first, 0)
    values = [first - least] + [-least] * 127
    if not first:
        return bytes(5)
    sizes = [32] * 4 if least else [32, 0, 0, 0]
    stored = values if least else values[:32]
    zigzag = pages.varint(least * -2 - 1 if least else 0)
    return zigzag + bytes(sizes) + b"".join(each.to_bytes(4, "little") for each in stored)


def nulls(rows: int, *, length: int | None = None) -> bytes:
    kind = pages.INT32 if length is None else pages.FIXED
    column = Column(
        "id", [Page(pages.levels(rows), rows)], kind, length, values=rows, optional=True
    )
    return file_of([column], rows)


def long_list(elements: int) -> bytes:
    """A row with many elements, each a null or the same number."""
    repetition = pages.varint(1 << 1) + b"\0" + pages.run(elements - 1, 1)
    body = (
        len(repetition).to_bytes(4, "little")
        + repetition
        + pages.levels(elements, 1)
        + b"\1"
        + pages.run(elements)
    )
    word = Page((7).to_bytes(4, "little"), 1, kind=pages.DICTIONARY)
    data = Page(body, elements, encoding=pages.RLE_DICTIONARY)
    return file_of([Column("id", [word, data], values=elements, repeated=True)], 1)


def lying(values: int, plain: int) -> bytes:
    page = Page(bytes(400), values, plain)
    return file_of([Column("id", [page], codec=pages.ZSTD, values=100)], 100)


def forged(number: int) -> bytes:
    """Return a file whose footer claims another number of rows and values."""
    file = pages.written(pa.table({"id": pa.array([1] * _ROWS)}))
    length = int.from_bytes(file[-8:-4], "little")
    old, new = (pages.varint(value << 1) for value in (_ROWS, number))
    return footed(file[: -8 - length], file[-8 - length : -8].replace(old, new))


def wide() -> bytes:
    schema = pa.schema([(f"c{number}", pa.int8()) for number in range(9_000)])
    return pages.written(schema.empty_table(), store_schema=False)


def wide_rows() -> bytes:
    made = [Column(f"c{number}", [Page(bytes(4), 1)]) for number in range(8_000)]
    return file_of(made, 1)


def chunks_of_nothing() -> bytes:
    """A row group of columns of three bytes."""
    group = {1: structs([{2: i64(0)}] * 200_000), 2: i64(0), 3: i64(1)}
    columns = [pages.root(1), Column("id").schema()]
    footer = {1: i32(1), 2: structs(columns), 3: i64(1), 4: structs([group])}
    return footed(pages.MAGIC, pages.encoded(footer))


def nested(depth: int) -> bytes:
    groups = [{4: text("g"), 5: i32(1), 3: i32(0)}] * depth
    columns = [pages.root(1), *groups, Column("id").schema()]
    footer = {1: i32(1), 2: structs(columns), 3: i64(0), 4: structs([])}
    return footed(pages.MAGIC, pages.encoded(footer))


def deep_structs() -> bytes:
    return footed(pages.MAGIC, b"\xfc" * 500_000)


def hidden_columns() -> bytes:
    """A list of bytes in the place of a list of row groups, which the library reads as these."""
    group = pages.encoded({1: structs([{2: i64(0)}] * 200_000), 2: i64(0), 3: i64(1)})
    columns = [pages.root(1), Column("id").schema()]
    begin = pages.encoded({1: i32(1), 2: structs(columns), 3: i64(1)})[:-1]
    return footed(pages.MAGIC, begin + b"\x19\x13" + group + b"\0")


def shared_pages() -> bytes:
    """Row groups with the same pages."""
    size = 4 << 20
    page = Page(squeezed(size, "zstd"), size // 4, size)
    return file_of([Column("id", [page], codec=pages.ZSTD, values=size // 4)], size // 4, 5_000)


def long_count() -> bytes:
    return footed(pages.MAGIC, b"\x15\2\x19\xfc" + pages.varint(_HUGE) + bytes(1000))


BOMBS: dict[str, Callable[[], bytes]] = {
    "a page of Zstandard": lambda: one_page(pages.ZSTD, "zstd", 300 << 20),
    "a page of Brotli": lambda: one_page(pages.BROTLI, "brotli", 300 << 20),
    "a page of gzip": gzipped,
    "pages of many columns": many_pages,
    "a page that is longer than it is": lambda: lying(100, _HUGE),
    "a page with more values than bytes": lambda: lying(_HUGE, 400),
    "a long text in a dictionary": lambda: long_dictionary(4, 300 << 20),
    "a text that rows repeat": repeated,
    "a text that lists repeat": lambda: repeated(inside=True),
    "texts that columns repeat": lambda: long_dictionary(200_000, 200_000, 500),
    "texts with long prefixes": prefixes,
    "rows of nothing": lambda: nulls(_HUGE),
    "wide nulls": lambda: nulls(1 << 20, length=1 << 20),
    "a list without an end": lambda: long_list(_HUGE),
    "more rows than time": lambda: forged(1 << 50),
    "more values than bytes": lambda: forged(1 << 30),
    "negative rows": lambda: forged((1 << 62) - 5),
    "columns of columns": lambda: nested(20_000),
    "structs within structs": deep_structs,
    "columns of three bytes": chunks_of_nothing,
    "columns in a list of bytes": hidden_columns,
    "pages of many row groups": shared_pages,
    "a list of two billion": long_count,
    "a footer of zeros": lambda: footed(pages.MAGIC, bytes(900_000)),
}
# Valid files, if unusual ones: they are read.
READ: dict[str, Callable[[], bytes]] = {
    "no rows in many columns": wide,
    "a row of many columns": wide_rows,
    "many rows of nothing": lambda: nulls(1 << 26),
}
