"""Filters of rows, as expressions of Arrow, and what need not be read because of them.

Arrow decides this itself: each partition or stripe is presented to it as a fragment of a data set,
with bounds of its columns that Arrow may rely on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal as Number
from functools import reduce
from operator import and_
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.dataclass import dataclass
from hiveacid.errors import UserError
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.column_bounds import ColumnRange, ranges_of
from hiveacid.rules.schema import Decimal, HiveType, parse_type
from hiveacid.tables.scan.columns import TableColumns

Expression = Any  # pyarrow has no types.

_FIRST_DAY, _LAST_DAY = -(1 << 31), (1 << 31) - 1


class StripeChoice(Protocol):
    """A choice among the stripes of a file."""

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it is read."""


@dataclass(frozen=True)
class RowFilter:
    """A filter of the rows of a table.

    Attributes:
        condition: The expression; rows for which it is null do not match.
        columns: The columns that it uses, and possibly more.
    """

    condition: Expression
    columns: TableColumns

    @classmethod
    def of(
        cls,
        condition: Expression,
        columns: Sequence[HiveColumn],
        keys: Sequence[HiveColumn],
        unit: str,
    ) -> "RowFilter":
        """Return a filter of a table.

        Args:
            condition: The expression.
            columns: The columns of the table that files hold.
            keys: Its partition keys.
            unit: The unit of timestamps.

        Raises:
            UserError: The expression cannot be evaluated for this table.
        """
        # An expression does not tell its columns. Its text has all their names.
        text = str(condition)
        used_columns = TableColumns(
            [column for column in columns if _may_name(text, column.name)],
            [key for key in keys if _may_name(text, key.name)],
            unit,
        )
        try:
            used_columns.schema.empty_table().filter(condition)
        except (pa.ArrowException, NotImplementedError, TypeError) as error:
            names = ", ".join(column.name for column in (*columns, *keys))
            raise UserError(
                f"The filter {text} cannot be evaluated: {error}",
                remedy=f"Compare columns with values of their types. The columns are {names}.",
            ) from error
        return cls(condition, used_columns)

    def matching(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the matching rows of a batch."""
        return iter(pa.Table.from_batches([batch]).filter(self.condition).to_batches())

    def partitions(self, names: Sequence[Mapping[str, str | None]]) -> list[bool]:
        """Return for each partition whether it may have matching rows.

        Args:
            names: The texts of the partition keys.
        """
        keys = self.columns.keys
        return self._may_match(
            [
                _all_of(
                    _equal(key.name, value)
                    for key, value in zip(keys, self.columns.values(texts), strict=True)
                )
                for texts in names
            ]
        )

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe of a file whether it may have matching rows."""
        conditions: list[list[Expression]] = [[] for _ in tail.stripes]
        schema = self.columns.schema
        for column in self.columns.columns:
            hive_type = parse_type(column.type)
            kind = schema.field(column.name).type
            for about, bounds in zip(
                conditions, ranges_of(tail, column.name, hive_type), strict=True
            ):
                about.extend(_within(column.name, bounds, hive_type, kind))
        return self._may_match(list(map(_all_of, conditions)))

    def _may_match(self, conditions: Sequence[Expression]) -> list[bool]:
        """Return for each of some sets of rows whether it may have matches, if something is known."""
        from pyarrow import dataset, fs

        format, files = dataset.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            format.make_fragment(str(number), files, partition_expression=about)
            for number, about in enumerate(conditions)
        ]
        whole = dataset.FileSystemDataset(fragments, self.columns.schema, format, files)
        matching_numbers = {int(fragment.path) for fragment in whole.get_fragments(self.condition)}
        return [number in matching_numbers for number in range(len(conditions))]


def _may_name(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _all_of(conditions: Iterator[Expression] | Sequence[Expression]) -> Expression:
    return reduce(and_, conditions, pc.scalar(True))


def _equal(name: str, value: pa.Scalar) -> Expression:
    if not value.is_valid:
        return pc.field(name).is_null()
    if pa.types.is_floating(value.type):
        return pc.scalar(True)  # Not a number equals nothing.
    return pc.field(name) == value


def _within(
    name: str, bounds: ColumnRange | None, hive_type: HiveType, kind: pa.DataType
) -> list[Expression]:
    """Return what the range of a column guarantees, in the form that Arrow understands."""
    if bounds is None:
        return []
    field = pc.field(name)
    if bounds.is_empty:
        return [field.is_null()]
    low, high = (_value(bound, hive_type, kind) for bound in (bounds.low, bounds.high))
    if low is None or high is None:
        return []
    return [(field >= low) | field.is_null(), (field <= high) | field.is_null()]


def _value(bound: Any, hive_type: HiveType, kind: pa.DataType) -> pa.Scalar | None:
    try:
        if isinstance(hive_type, Decimal):
            return pa.scalar(Number(bound).scaleb(-hive_type.scale), kind)
        if isinstance(bound, bytes):
            # Writers compare texts in different ways, which agree about these.
            return pa.scalar(bound.decode("ascii"), kind)
        if pa.types.is_date32(kind):
            return pa.scalar(min(max(bound, _FIRST_DAY), _LAST_DAY), pa.int32()).cast(kind)
        return pa.scalar(bound, kind)
    except (pa.ArrowException, OverflowError, UnicodeDecodeError):
        return None
