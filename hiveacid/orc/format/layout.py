"""The layout of a file: the common properties of its stripes, and the stripes that match it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile
from hiveacid.orc.format.compression import Codec, Compression
from hiveacid.orc.format.envelope import (
    TypeField,
    TypeKind,
    envelope_root,
    is_envelope,
    kind_of,
)
from hiveacid.orc.format.protobuf import VARINT, Message
from hiveacid.orc.format.statistics import COUNT, DATES, TIMESTAMPS
from hiveacid.orc.format.tail import (
    WRITER_JAVA,
    WRITER_VERSION_ORC_135,
    FooterField,
    OrcTail,
    PostScriptField,
)

Writer = tuple[int, int]

# ORC's number of the calendar with leap days every four years before 1582.
JULIAN = 1
_CALENDAR_KINDS = (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_TEXT_KINDS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
# From here on the calendars agree: 15 October 1582, and for timestamps in any time zone the 17th.
_REFORM_DAY = -141_427
_REFORM_MILLIS = (_REFORM_DAY + 2) * 86_400_000


@dataclass(frozen=True, slots=True)
class Layout:
    """The properties on which the stripes of a file depend.

    Attributes:
        types: The serialized types, the root first.
        codec: The compression of all streams.
        block_size: The plain bytes that a compressed chunk may hold.
        stride: Rows of a row group; 0 for a file without row indexes.
        calendar: ORC's number of the calendar; null without columns of dates.
    """

    types: tuple[bytes, ...]
    codec: Codec
    block_size: int
    stride: int
    calendar: int | None

    @classmethod
    def joint(
        cls,
        files: Sequence[tuple[str, OrcTail]],
        like: OrcTail,
        types: tuple[bytes, ...] | None = None,
    ) -> "Layout":
        """Return a layout for the stripes of several files.

        Args:
            files: The names and the tails of the files.
            like: The file that determines codec and row groups.
            types: The types of the layout, possibly different from those of the files. By default,
                the types common to all files.

        Raises:
            UnsupportedFile: Two files have different calendars, or incompatible types.
        """
        if types is None:
            types = _common_types(files)
        ancient: tuple[str, int] | None = None
        for name, tail in files:
            calendar = needed_calendar(tail)
            if ancient is not None and calendar not in (None, ancient[1]):
                raise UnsupportedFile(
                    f"{ancient[0]} and {name} have dates before 1582 in different calendars."
                )
            if calendar is not None:
                ancient = ancient or (name, calendar)
        layout = cls(
            types,
            like.codec,
            like.block_size,
            like.stride,
            _calendar(like) if ancient is None else ancient[1],
        )
        fitting = [tail.block_size for _, tail in files if not layout.differences(tail)]
        return replace(layout, block_size=max([like.block_size, *fitting]))

    @property
    def is_acid(self) -> bool:
        """Return whether the file belongs to a full ACID table."""
        return is_envelope(self.types)

    def differences(self, tail: OrcTail) -> list[str]:
        """Return the properties that prevent copying the stripes of a file into this layout."""
        different = [] if self.codec is tail.codec else ["codec"]
        different += [] if self.stride == tail.stride else ["row group size"]
        different += [] if needed_calendar(tail) in (None, self.calendar) else ["calendar"]
        return different + ([] if self.stores_as(tail.types) else ["types"])

    def stores_as(self, types: tuple[bytes, ...]) -> bool:
        """Return whether columns of these types have the same bytes as those of the layout."""
        return _store_alike(self.types, types)

    def tail(self, block_size: int, writer: Writer) -> OrcTail:
        """The tail of a file of this layout without stripes."""
        types = (envelope_root(), *self.types[1:]) if self.is_acid else self.types
        tail = OrcTail.new(types, Compression(self.codec, block_size), self.stride)
        writer_id, version = writer
        footer = {FooterField.WRITER: writer_id}
        if self.calendar is not None:
            footer[FooterField.CALENDAR] = self.calendar
        return replace(
            tail,
            footer=tail.footer.with_numbers(footer),
            postscript=tail.postscript.with_numbers({PostScriptField.WRITER_VERSION: version}),
        )


def writer_of(tail: OrcTail) -> Writer:
    """Return the software and the version that wrote a file."""
    return (
        tail.footer.number(FooterField.WRITER),
        tail.postscript.number(PostScriptField.WRITER_VERSION),
    )


def is_old(writer: Writer) -> bool:
    """Return whether readers treat the files of a writer specially."""
    return writer[1] < WRITER_VERSION_ORC_135


def joint_writer(writers: set[Writer]) -> Writer:
    """The writer to declare; readers derive their expectations from it."""
    # Of the writers that may be mixed, this much holds for all.
    return writers.pop() if len(writers) == 1 else (WRITER_JAVA, WRITER_VERSION_ORC_135)


def _common_types(files: Sequence[tuple[str, OrcTail]]) -> tuple[bytes, ...]:
    (first_name, first), *other_files = files
    types = first.types
    for name, tail in other_files:
        common = joint_types(types, tail.types)
        if common is None:
            raise UnsupportedFile(f"{first_name} and {name} have rows of different types.")
        types = common
    return types


# Thousands of files have the same types.
@lru_cache(maxsize=64)
def _store_alike(first_types: tuple[bytes, ...], second_types: tuple[bytes, ...]) -> bool:
    return joint_types(first_types, second_types) is not None and all(
        # Texts of such columns are padded with blanks to a fixed length, also in searches.
        _char_length(first_type) == _char_length(second_type)
        for first_type, second_type in zip(first_types, second_types, strict=True)
    )


def joint_types(
    first_types: Sequence[bytes], second_types: Sequence[bytes]
) -> tuple[bytes, ...] | None:
    """Return types common to the columns of two files, unless they are incompatible.

    All kinds of text have the same bytes. Names may differ by case, as they do in Hive.
    """
    joint = []
    for first_type, second_type in zip_longest(first_types, second_types):
        common = (
            first_type
            if first_type == second_type
            else _joint_type(first_type or b"", second_type or b"")
        )
        if common is None:
            return None
        joint.append(common)
    return tuple(joint)


def _joint_type(first_type: bytes, second_type: bytes) -> bytes | None:
    first, second = Message.decode(first_type), Message.decode(second_type)
    if not first_type or not second_type or _shape(first) != _shape(second):
        return None
    kinds = {message.number(TypeField.KIND) for message in (first, second)}
    if len(kinds) > 1:
        other_fields = first.without(TypeField.KIND, TypeField.MAXIMUM_LENGTH)
        return Message([(TypeField.KIND, VARINT, TypeKind.STRING), *other_fields.fields]).encode()
    length = max(message.number(TypeField.MAXIMUM_LENGTH) for message in (first, second))
    if not length or length == first.number(TypeField.MAXIMUM_LENGTH):
        return first_type
    return first.with_numbers({TypeField.MAXIMUM_LENGTH: length}).encode()


def _shape(type_: Message) -> tuple[object, ...]:
    """Return the properties that determine the bytes of a column, in normalized form."""
    kind = type_.number(TypeField.KIND)
    return (
        TypeKind.STRING if kind in _TEXT_KINDS else kind,
        type_.all_numbers(TypeField.SUBTYPES),
        [_folded(name) for name in type_.all_data(TypeField.FIELD_NAMES)],
        type_.number(TypeField.PRECISION),
        type_.number(TypeField.SCALE),
    )


def _folded(name: bytes) -> str:
    return name.decode(errors="surrogateescape").lower()


def _calendar(tail: OrcTail) -> int | None:
    if all(kind_of(type_) not in _CALENDAR_KINDS for type_ in tail.types):
        return None
    # Writers without a declaration use the older calendar.
    return tail.footer.number(FooterField.CALENDAR) or JULIAN


def needed_calendar(tail: OrcTail) -> int | None:
    """Return ORC's number of the calendar of a file, if another calendar would change its dates.

    Hive and Trino declare different calendars, and both write into the same tables.
    """
    columns = zip(tail.types, tail.file_statistics, strict=True)
    if all(_is_modern(kind_of(type_), statistics) for type_, statistics in columns):
        return None
    return _calendar(tail)


def _is_modern(kind: int, encoded_statistics: bytes) -> bool:
    if kind not in _CALENDAR_KINDS:
        return True
    statistics = Message.decode(encoded_statistics)
    if statistics.number(COUNT, -1) == 0:
        return True
    if kind == TypeKind.DATE:
        days = statistics.message(DATES)
        return days is not None and days.has(1) and days.signed(1) >= _REFORM_DAY
    millis = statistics.message(TIMESTAMPS)
    return millis is not None and millis.has(3) and millis.signed(3) >= _REFORM_MILLIS


def _char_length(type_: bytes) -> int | None:
    """Return the length of the texts of a column, if it is a CHAR column."""
    message = Message.decode(type_)
    is_char = message.number(TypeField.KIND) == TypeKind.CHAR
    return message.number(TypeField.MAXIMUM_LENGTH) if is_char else None
