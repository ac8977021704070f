"""The declarations of a Parquet file, read before its library believes it.

The library makes an object of each column that a footer lists, and memory for each page as its header
says. Both are structs in the compact protocol of Thrift, which are walked over here, and not kept.
"""

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, TooLarge

# Objects of the library, of up to a kilobyte: schema nodes, row groups, and columns of these.
_OBJECTS_OF_NOTHING, _BYTES_OF_AN_OBJECT = 70_000, 64
# Of lists within lists, the inner ones are small.
_LARGE_LEVELS = 2
_DEEPEST = 64
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    *range(1, 11),
    12,
)
_LONGEST_VARINT = 10
_LONG_LIST = 15
# The fields of a footer, and of the elements of its schema.
_SCHEMA, _CHILDREN = 2, 5
# The elements of the lists in a footer by the fields that lead there. The library reads these even if
# the list declares another type.
_ELEMENTS: dict[tuple[int, ...], int] = {
    **dict.fromkeys([(4,), (5,), (7,), (4, 1), (4, 4), (4, 1, 3, 8), (4, 1, 3, 13)], _STRUCT),
    **dict.fromkeys([(4, 1, 3, 16, 2), (4, 1, 3, 16, 3)], _I64),
    **dict.fromkeys([(4, 1, 3, 2), (4, 1, 3, 17, 2)], _I32),
    (4, 1, 3, 3): _BINARY,
}


class _Thrift:
    """Walks over structs.

    Attributes:
        at: The position of the next byte.
        objects: The number of large elements of lists that are behind it.
    """

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.at = position
        self.objects = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers and types of the fields of a struct; the caller passes their values."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def integer(self) -> int:
        """Read a signed number."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def list(self) -> tuple[int, int]:
        """Pass the head of a list, and return the number and the type of its elements."""
        head = self._byte()
        count = head >> 4
        return (self.varint() if count == _LONG_LIST else count), head & 15

    def count(self, elements: int) -> None:
        """Count elements of lists, before their objects are made."""
        self.objects += elements
        if self.objects > _OBJECTS_OF_NOTHING + len(self._data) // _BYTES_OF_AN_OBJECT:
            raise TooLarge(f"A Parquet footer of {len(self._data)} bytes has too many columns.")

    def skip(self, kind: int, path: tuple[int, ...] = (), lists: int = 0, depth: int = 0) -> None:
        """Pass a value.

        Args:
            kind: Its type.
            path: The fields of a footer that lead to it.
            lists: The number of lists around it.
            depth: The number of values around it.
        """
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if kind in (_I16, _I32, _I64):
            self.varint()
        elif kind == _BINARY:
            size = self.varint()
            self.at += size
            if self.at > len(self._data):
                raise ValueError("it is cut short")
        elif kind == _STRUCT:
            for number, element_kind in self.fields():
                self.skip(element_kind, (*path, number), lists, depth + 1)
        elif kind in (_LIST, _SET):
            count, element_kind = self.list()
            if (
                count > len(self._data) - self.at
                or _ELEMENTS.get(path, element_kind) != element_kind
            ):
                raise ValueError("it has a list of other values")
            if lists < _LARGE_LEVELS:
                self.count(count)
            for _ in range(count):
                # The elements of a list of booleans are bytes.
                inner = _BYTE if element_kind in (_TRUE, _FALSE) else element_kind
                self.skip(inner, path, lists + 1, depth + 1)
        elif kind == _BYTE:
            self._byte()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind not in (_TRUE, _FALSE):
            raise ValueError(f"it has no type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        """Read a number of a variable length."""
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")


def check_footer(footer: bytes) -> None:
    """Make sure that a footer has no more, and no deeper columns than its library can take.

    Raises:
        CorruptFile: It is no footer, or too deep.
        TooLarge: It has too many columns.
    """
    thrift = _Thrift(footer)
    try:
        for number, kind in thrift.fields():
            if (number, kind) == (_SCHEMA, _LIST):
                _check_schema(thrift)
            else:
                thrift.skip(kind, (number,))
    except (IndexError, ValueError) as error:
        raise CorruptFile(f"The footer of the Parquet file cannot be read: {error}.") from error


def _check_schema(thrift: _Thrift) -> None:
    count, kind = thrift.list()
    thrift.count(count)
    if kind != _STRUCT:
        raise ValueError("its schema is no list of structs")
    # The numbers of nodes that are still to come, of the groups around a node.
    open_groups: list[int] = []
    for _ in range(count):
        while open_groups and not open_groups[-1]:
            open_groups.pop()
        if open_groups:
            open_groups[-1] -= 1
        children = 0
        for number, field_kind in thrift.fields():
            if (number, field_kind) == (_CHILDREN, _I32):
                children = thrift.integer()
            else:
                thrift.skip(field_kind)
        if children > 0:
            open_groups.append(children)
        if len(open_groups) > _DEEPEST:
            raise ValueError("its columns are nested too deeply")


class Encoding(IntEnum):
    """Encodings of values whose pages do not tell how long these are."""

    DELTA_BYTE_ARRAY = 7


class _PageKind(IntEnum):
    DATA = 0
    DICTIONARY = 2
    DATA_V2 = 3


# The fields of the header of a page, and of the struct for each kind.
_KIND, _PLAIN_SIZE, _SIZE = 1, 2, 3
_STRUCTS = {_PageKind.DATA: 5, _PageKind.DICTIONARY: 7, _PageKind.DATA_V2: 8}
_VALUES, _ENCODING, _ENCODING_V2, _LEVELS_LENGTH = 1, 2, 4, 6


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a column.

    Attributes:
        begin: The position of its content.
        size: The length of its content.
        plain: Its length without compression.
        values: The number of its values, with nulls.
        encoding: The number of their encoding.
        levels: The length of the levels of repetition in front of a page of version 2; None for
            others.
    """

    begin: int
    size: int
    plain: int
    values: int
    encoding: int
    levels: int | None


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a column in a row group.

    Attributes:
        dictionary: The plain length of its dictionary, or 0.
        data: The other ones.
    """

    dictionary: int
    data: tuple[Page, ...]

    @classmethod
    def of(cls, chunk: bytes, values: int) -> "Pages":
        """Read the headers.

        Args:
            chunk: The pages of the column, and maybe bytes behind them.
            values: The number of the values of the column, after which no page is read.

        Raises:
            CorruptFile: They are no pages.
        """
        pages: list[Page] = []
        position = value_count = dictionary = 0
        try:
            while value_count < values:
                kind, page = _page(chunk, position)
                position = page.begin + page.size
                if page.size < 0 or page.plain < 0 or page.values < 0 or position > len(chunk):
                    raise ValueError("a page has a wrong length")
                if kind == _PageKind.DICTIONARY:
                    dictionary = max(dictionary, page.plain)
                elif kind is not None:
                    pages.append(page)
                    value_count += page.values
        except (IndexError, ValueError) as error:
            raise CorruptFile(f"A column of the Parquet file cannot be read: {error}.") from error
        return cls(dictionary, tuple(pages))


def _page(chunk: bytes, position: int) -> tuple[_PageKind | None, Page]:
    """Read a header: its kind decides which of its structs counts."""
    thrift = _Thrift(chunk, position)
    numbers: dict[int, int] = {}
    structs: dict[int, dict[int, int]] = {}
    for number, kind in thrift.fields():
        if kind == _I32:
            numbers[number] = thrift.integer()
        elif kind == _STRUCT:
            structs[number] = _numbers(thrift)
        else:
            thrift.skip(kind)
    page_kind = next(
        (candidate for candidate in _PageKind if candidate == numbers.get(_KIND)), None
    )
    page_fields = structs.get(_STRUCTS[page_kind], {}) if page_kind is not None else {_VALUES: 0}
    is_new = page_kind is _PageKind.DATA_V2
    page = Page(
        thrift.at,
        numbers.get(_SIZE, -1),
        numbers.get(_PLAIN_SIZE, -1),
        page_fields.get(_VALUES, -1),
        page_fields.get(_ENCODING_V2 if is_new else _ENCODING, -1),
        page_fields.get(_LEVELS_LENGTH, 0) if is_new else None,
    )
    return page_kind, page


def _numbers(thrift: _Thrift) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for number, kind in thrift.fields():
        if kind == _I32:
            numbers[number] = thrift.integer()
        else:
            thrift.skip(kind)
    return numbers


def rows_begun(levels: bytes, width: int) -> int:
    """Return the number of levels of repetition that are 0, each of which begins a row.

    Args:
        levels: The levels, in the hybrid of runs and packed bits.
        width: The bits of a level.

    Raises:
        IndexError: They are cut short.
    """
    thrift = _Thrift(levels)
    size = (width + 7) // 8
    rows = 0
    while thrift.at < len(levels):
        head = thrift.varint()
        if head & 1:
            end = thrift.at + (head >> 1) * width
            packed: NDArray[np.uint8] = np.frombuffer(levels, np.uint8)[thrift.at : end]
            bits = np.unpackbits(packed, bitorder="little")
            whole = len(bits) // width * width
            rows += int((~bits[:whole].reshape(-1, width).any(axis=1)).sum())
            thrift.at = end
        else:
            rows += (head >> 1) * (not any(levels[thrift.at : thrift.at + size]))
            thrift.at += size
    return rows
