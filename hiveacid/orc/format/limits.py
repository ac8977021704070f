"""Limits on declared sizes in a file, checked before memory is allocated for them.

A file may come from any user with write permission for the folder of a table. Libraries that read
it trust its numbers, and end the process, or exhaust memory, if these are wrong.
"""

from collections.abc import Sequence
from functools import lru_cache

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message

# Both parts of a tail, in the file and decompressed; the largest ones have a few megabytes.
LARGEST_PART = 64 << 20
# Types within types; readers go through them by recursion.
_DEEPEST = 100
MOST_DIGITS = 38
_MOST_COLUMNS = 1 << 16
_SUBTYPES: dict[int, int] = {TypeKind.LIST: 1, TypeKind.MAP: 2}
_NESTING = (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION)
# A run of equal values, compressed as far as can be, has fewer rows in a byte than this.
_ROWS_OF_A_BYTE = 1 << 16
_ROWS_OF_NOTHING = 1 << 20
_MOST_GROUPS = 1 << 17
# Statistics of this many columns are less useful than the stripes themselves.
_STATISTICS_OF_A_BYTE = 4
_STATISTICS_OF_NOTHING = 250_000


@lru_cache(maxsize=64)
def check_types(types: tuple[bytes, ...]) -> None:
    """Make sure that the types are a tree, no deeper or wider than readers can take.

    Raises:
        CorruptFile: They are not.
    """
    if not 0 < len(types) <= _MOST_COLUMNS:
        raise CorruptFile(f"The ORC file has {len(types)} columns.")
    depths = [0] * len(types)
    for column, type_ in enumerate(types):
        message = Message.decode(type_)
        kind = message.number(TypeField.KIND)
        subtypes = message.all_numbers(TypeField.SUBTYPES)
        wanted = _SUBTYPES.get(kind, len(subtypes) if kind in _NESTING else 0)
        if len(subtypes) != wanted:
            raise CorruptFile(f"The type of column {column} has {len(subtypes)} types within it.")
        for subtype in subtypes:
            # Nested columns come later, and once: a column cannot be a part of itself.
            if not column < subtype < len(types) or depths[subtype]:
                raise CorruptFile(f"The types of columns {column} and {subtype} are no tree.")
            depths[subtype] = depths[column] + 1
            if depths[subtype] > _DEEPEST:
                raise CorruptFile(f"The types are nested more than {_DEEPEST} deep.")
        _check_names(column, message.all_data(TypeField.FIELD_NAMES))
        if kind == TypeKind.STRUCT:
            names = len(message.all_data(TypeField.FIELD_NAMES))
            if names != len(subtypes):
                raise CorruptFile(f"Column {column} has {names} names for {len(subtypes)} types.")
        precision, scale = message.number(TypeField.PRECISION), message.number(TypeField.SCALE)
        if kind == TypeKind.DECIMAL and not scale <= (precision or MOST_DIGITS) <= MOST_DIGITS:
            raise CorruptFile(f"Column {column} is a decimal({precision},{scale}).")


def check_stripes(
    places: Sequence[tuple[int, int, int]], content: int, stride: int, rows: int
) -> None:
    """Make sure that the stripes follow each other within a file, and can hold their rows.

    Args:
        places: Offset, length and rows of each stripe.
        content: The position of the tail.
        stride: Rows of a row group.
        rows: The rows that the file claims to have.

    Raises:
        CorruptFile: They do not, or cannot.
    """
    end = 0
    for offset, length, claimed in places:
        if offset < end:
            raise CorruptFile("The stripes of the ORC file do not follow each other.")
        end = offset + length
        if end > content:
            raise CorruptFile("A stripe of the ORC file reaches into its tail.")
        groups = claimed // stride if stride else 0
        if claimed > most_rows(length) or groups > _MOST_GROUPS:
            raise CorruptFile(f"A stripe of {length} bytes claims to have {claimed} rows.")
    if sum(claimed for _, _, claimed in places) != rows:
        raise CorruptFile(f"The stripes of the ORC file do not have {rows} rows as declared.")


def most_rows(length: int) -> int:
    """More rows, or elements of lists, than a stripe of so many bytes can have."""
    return _ROWS_OF_NOTHING + _ROWS_OF_A_BYTE * length


def check_statistics(file: int, stripes: Sequence[int], columns: int, size: int) -> None:
    """Verify that a file has no more statistics than columns, and room for those of all stripes.

    Stripes without statistics count, too: in memory, each column of a stripe has them.

    Args:
        file: The number of columns in the statistics of the file.
        stripes: The same for each stripe.
        columns: The columns of the file.
        size: The bytes of the file.

    Raises:
        CorruptFile: There are too many statistics, or too many columns of stripes.
    """
    if max([file, *stripes]) > columns:
        raise CorruptFile("The ORC file has statistics of columns that it does not have.")
    if len(stripes) * columns > _STATISTICS_OF_NOTHING + _STATISTICS_OF_A_BYTE * size:
        raise CorruptFile(
            f"A file of {size} bytes has {len(stripes)} stripes with {columns} columns each."
        )


def _check_names(column: int, names: Sequence[bytes]) -> None:
    for name in names:
        try:
            name.decode()
        except UnicodeDecodeError:
            raise CorruptFile(
                f"A name within column {column} of the ORC file is no text: {name!r}."
            ) from None
