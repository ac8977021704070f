"""Skipping files without certain values, such as the keys of a merge's source.

Files are skipped by the bucket number and by the ranges in their tails, and groups of rows by ORC
itself, for a condition. Each method skips only files that cannot match; in doubt, a file is read.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal as Number
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.orc.format.envelope import with_column_names
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.keys import sorted_distinct
from hiveacid.orc.values.column_bounds import LONG_DIGITS, ColumnRange, ranges_of
from hiveacid.rules.location import Location, below
from hiveacid.rules.schema import (
    BucketColumn,
    BucketLayout,
    Decimal,
    HiveType,
    Primitive,
    parse_type,
)
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.pruning import kind
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import read_layouts
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.tables.visible_files import AcidFile, PartitionFiles

# Values to look up in a column, in the order of its bounds


# Longer lists become a range: ORC compares each value of a list with each group of rows.
MOST_LISTED = 1000
_LONGEST_LIST = 64 << 10
_LONGEST_TEXT = 1 << 10
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class SortedValues:
    """Distinct values of a column in the units of its ranges, compared as by SQL's ``=``.

    Attributes:
        values: Integers, or the bytes of texts.
    """

    values: NDArray[np.int64] | pa.Array

    @classmethod
    def of(cls, values: pa.ChunkedArray, hive_type: HiveType) -> Self | None:
        """Return values for a column of a type; None if ranges cannot exclude them.

        Args:
            values: The values; nulls equal nothing.
            hive_type: The type of the column.
        """
        stored, values = values.type, values.drop_null()
        match hive_type:
            case Primitive(name) if name in _INTEGERS and pa.types.is_signed_integer(stored):
                return cls(sorted_distinct(values.to_numpy().astype(np.int64)))
            case Primitive("date") if pa.types.is_date32(stored):
                return cls(sorted_distinct(values.cast(pa.int32()).to_numpy().astype(np.int64)))
            case Primitive("string") if pa.types.is_string(stored) or pa.types.is_large_string(
                stored
            ):
                try:
                    values.validate(full=True)
                except pa.ArrowInvalid:
                    return None  # Java decodes invalid UTF-8 differently.
                unique = pc.unique(values).cast(pa.large_binary())
                return cls(unique.take(pc.array_sort_indices(unique)))
            case Decimal(precision, scale) if (
                pa.types.is_decimal128(stored)
                and max(precision, stored.precision) <= LONG_DIGITS
                and stored.scale == scale
            ):
                return cls(sorted_distinct(_unscaled(values)))
        return None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Any:
        value = self.values[place]
        return value.as_py() if isinstance(value, pa.Scalar) else int(value)

    def any_in(self, bounds: ColumnRange) -> bool:
        """Return whether one of the values is in a range."""
        place = 0 if bounds.is_empty else bisect_left(self, bounds.low)
        return not bounds.is_empty and place < len(self) and bool(self[place] <= bounds.high)


def _unscaled(values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Decimals of at most 18 digits as integers: the lower halves of their 128 bits."""
    parts: Sequence[pa.Array] = values.chunks
    halves = [
        np.frombuffer(part.buffers()[1], "<i8")[2 * part.offset : 2 * (part.offset + len(part)) : 2]
        for part in parts
        if len(part)
    ]
    return np.concatenate(halves) if halves else np.zeros(0, np.int64)


def _condition(column: str, values: SortedValues, hive_type: HiveType) -> str | None:
    """Return a condition, in SQL, that a column satisfies if it has one of some values.

    Args:
        column: The column, quoted.
        values: The values, as a list or as a range.
        hive_type: The type of the column.
    """
    if not len(values):
        return "FALSE"
    if len(values) <= MOST_LISTED and values.values.nbytes <= _LONGEST_LIST:
        texts = [_literal(values[place], hive_type) for place in range(len(values))]
        return f"{column} IN ({', '.join(texts)})"
    low, high = values[0], values[-1]
    if isinstance(low, bytes) and max(len(low), len(high)) > _LONGEST_TEXT:
        return None
    return f"{column} BETWEEN {_literal(low, hive_type)} AND {_literal(high, hive_type)}"


def _literal(value: Any, hive_type: HiveType) -> str:
    match hive_type:
        case Primitive("string"):
            return f"CAST(X'{value.hex()}' AS STRING)"
        case Primitive("date"):
            return f"date_from_unix_date({value})"
        case Decimal(scale=scale):
            text = f"{Number(value).scaleb(-scale):f}"
            return f"CAST('{text}' AS DECIMAL({LONG_DIGITS}, {scale}))"
    # Without a cast, the lowest value would be the negative of a number that is too large.
    return f"CAST('{value}' AS BIGINT)"


# A tail, or a note, takes a request, 16 at a time, and a millisecond of the driver: some seconds
# for this many files if requests are slow. With more files, Spark's tasks check them individually.
_MOST_TAILS = 1000
# Each literal costs a Java call.
_MOST_LITERALS = 100


@dataclass(frozen=True)
class ColumnValues:
    """The values of a column in the rows to find.

    Values are compared as by SQL's ``=``, and texts by their bytes. Callers that compare by
    ``<=>``, by a collation, or after a conversion of the column must not use this class.

    Attributes:
        column: A column of the table.
        values: The values, possibly with nulls, which equal nothing.
    """

    column: HiveColumn
    values: pa.ChunkedArray

    @cached_property
    def hive_type(self) -> HiveType:
        """The column's type."""
        return parse_type(self.column.type)

    @cached_property
    def sorted(self) -> SortedValues | None:
        """The values in the order of bounds; None if bounds cannot exclude them."""
        return SortedValues.of(self.values, self.hive_type)


def only_with(
    snapshot: AcidSnapshot, values_of_columns: Sequence[ColumnValues]
) -> tuple[AcidSnapshot, str | None]:
    """Skip files without the values, and return a condition that the rows satisfy.

    Delete files are kept, as are files without row ids, because their rows are counted. Partitions
    keep their numbers.

    Args:
        snapshot: The visible files.
        values_of_columns: The values of the rows, for some columns. The n-th values of all columns belong to
            one row; rows with a null are ignored.
    """
    usable = _usable(snapshot, values_of_columns)
    conditions = [
        condition
        for column_values in usable
        if column_values.sorted is not None
        and (
            condition := _condition(
                quoted(column_values.column.name), column_values.sorted, column_values.hive_type
            )
        )
    ]
    return _by_tails(in_buckets(snapshot, usable), usable), " AND ".join(conditions) or None


def values_of(filters: Sequence[Any], columns: Sequence[HiveColumn]) -> list[ColumnValues]:
    """The values that filters of Spark, in Java, allow for columns: by ``=`` and by ``IN``."""
    columns_by_name = {column.name: column for column in columns}
    values_by_column: dict[str, list[Any]] = {}
    for spark_filter in filters:
        values: list[Any] = []
        match kind(spark_filter):
            case "EqualTo":
                values = [spark_filter.value()]
            case "In" if len(spark_filter.values()) <= _MOST_LITERALS:
                values = list(spark_filter.values())
        if values and spark_filter.references()[0] in columns_by_name:
            values_by_column[spark_filter.references()[0]] = values
    while prod(map(len, values_by_column.values())) > MOST_LISTED:
        del values_by_column[max(values_by_column, key=lambda name: len(values_by_column[name]))]
    rows = list(product(*values_by_column.values()))
    arrays = [
        _array(columns_by_name[name], [row[n] for row in rows])
        for n, name in enumerate(values_by_column)
    ]
    columns_and_arrays = zip(values_by_column, arrays, strict=True)
    return [
        ColumnValues(columns_by_name[name], array)
        for name, array in columns_and_arrays
        if array is not None
    ]


def _array(column: HiveColumn, values: Sequence[Any]) -> pa.ChunkedArray | None:
    """Convert Java values, given as Python values, to an array, if their type is simple."""
    arrow_type = {int: pa.int64(), str: pa.string()}.get(type(values[0]))
    if isinstance(values[0], Number):
        match parse_type(column.type):
            case Decimal(precision, scale):
                arrow_type = pa.decimal128(precision, scale)
    try:
        return None if arrow_type is None else pa.chunked_array([pa.array(values, arrow_type)])
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return None


def _usable(
    snapshot: AcidSnapshot, values_of_columns: Sequence[ColumnValues]
) -> list[ColumnValues]:
    columns = {column.name for column in snapshot.table.columns}
    rows = _without_nulls(
        [
            column_values
            for column_values in values_of_columns
            if column_values.column.name in columns
        ]
    )
    return [row for row in rows if row.sorted is not None]


def _without_nulls(values_of_columns: Sequence[ColumnValues]) -> list[ColumnValues]:
    if not any(column_values.values.null_count for column_values in values_of_columns):
        return list(values_of_columns)
    whole = values_of_columns[0].values.is_valid()
    for column_values in values_of_columns[1:]:
        whole = pc.and_(whole, column_values.values.is_valid())
    return [
        replace(column_values, values=column_values.values.filter(whole))
        for column_values in values_of_columns
    ]


def in_buckets(snapshot: AcidSnapshot, values_of_columns: Sequence[ColumnValues]) -> AcidSnapshot:
    """Keep only the files of the values' buckets, if all clustering columns are given.

    The bucket definition in the metastore may have changed since a file was written: with the
    table's bucket count, Hive itself then misses rows. So a file is skipped only by the layout in
    its writer's note; files of other engines, and of versions that wrote no layout, are read.
    """
    values_by_column = {
        column_values.column.name.lower(): column_values
        for column_values in _usable(snapshot, values_of_columns)
    }
    files = list(_with_row_ids(snapshot))
    noted = [
        (partition.location, directory)
        for partition in snapshot.partitions
        if partition.clustered_by and values_by_column.keys() >= set(partition.clustered_by)
        for directory in _noted_directories(partition)
    ]
    if len(noted) > _MOST_TAILS:
        return snapshot
    layouts = {
        path: layout
        for thread in in_threads(lambda where: _layouts_in(*where), noted)
        for path, layout in thread.items()
    }
    # A layout must name columns as they are now: by position and by name they must be the same.
    columns = {
        BucketColumn(position, column.name.lower(), column.type.lower())
        for position, column in enumerate(snapshot.table.stored_columns)
    }
    numbers_by_layout: dict[BucketLayout, set[int]] = {}
    for layout in set(layouts.values()):
        names = [column.name for column in layout.columns]
        if columns.issuperset(layout.columns) and values_by_column.keys() >= set(names):
            values = [values_by_column[name] for name in names]
            if not any(isinstance(value.hive_type, Decimal) for value in values):
                numbers_by_layout[layout] = _numbers(values, layout)

    def may_match(file: AcidFile) -> bool:
        layout = layouts.get((file.path, file.size))
        buckets = None if layout is None else numbers_by_layout.get(layout)
        return buckets is None or file.bucket in buckets

    return _keeping(snapshot, list(filter(may_match, files)))


def _noted_directories(partition: PartitionFiles) -> list[str]:
    """The directories with notes that rows are read from."""
    root = f"{partition.location.rstrip('/')}/"
    paths = [file.path.removeprefix(root) for file in partition.inserts if not file.raw]
    return sorted({path.partition("/")[0] for path in paths} & partition.noted)


def _layouts_in(root: Location, directory: str) -> dict[tuple[Location, int], BucketLayout]:
    """The layouts of the files of a directory, by their full paths and sizes."""
    noted = read_layouts(Storage.of(root), directory)
    return {(below(root, path), size): layout for (path, size), layout in noted.items()}


def _numbers(values: Sequence[ColumnValues], layout: BucketLayout) -> set[int]:
    """The buckets that some values belong to."""
    arrays = [value.values for value in values]
    types = [value.hive_type for value in values]
    numbers = bucket_numbers(arrays, types, layout.count, layout.version)
    return set(np.unique(numbers).tolist())


def _by_tails(snapshot: AcidSnapshot, values_of_columns: Sequence[ColumnValues]) -> AcidSnapshot:
    """Keep only the files with a stripe whose ranges contain values of all columns."""
    files = list(_with_row_ids(snapshot))
    if not values_of_columns or not 1 < len(files) <= _MOST_TAILS:
        # ORC itself skips the stripes of a single file.
        return snapshot
    columns = snapshot.table.mapped_columns
    tails = (
        (file, replace(tail, types=with_column_names(tail.types, columns)))
        for file, tail in zip(files, snapshot.tails.of(files), strict=True)
    )
    return _keeping(snapshot, [file for file, tail in tails if _may_hold(tail, values_of_columns)])


def _may_hold(tail: OrcTail, values_of_columns: Sequence[ColumnValues]) -> bool:
    ranges = [
        ranges_of(tail, column_values.column.name, column_values.hive_type)
        for column_values in values_of_columns
    ]
    return any(
        all(map(_may_match, values_of_columns, stripe)) for stripe in zip(*ranges, strict=True)
    )


def _may_match(column_values: ColumnValues, bounds: ColumnRange | None) -> bool:
    return bounds is None or column_values.sorted is None or column_values.sorted.any_in(bounds)


def _with_row_ids(snapshot: AcidSnapshot) -> Iterator[AcidFile]:
    for partition in snapshot.partitions:
        yield from (file for file in partition.inserts if not file.raw)


def _keeping(snapshot: AcidSnapshot, files: Sequence[AcidFile]) -> AcidSnapshot:
    """The snapshot with only the given files, and files without row ids."""
    paths = {file.path for file in files}
    partitions = [
        replace(
            partition,
            inserts=tuple(file for file in partition.inserts if file.raw or file.path in paths),
        )
        for partition in snapshot.partitions
    ]
    return replace(snapshot, partitions=partitions)
