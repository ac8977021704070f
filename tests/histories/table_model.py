"""The expected rows of a table by partition and row id, changed commit by commit."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hiveacid.rules.row_id import RowId

# The columns that are not null, by their names, also nested ones: columns that older files lack are
# null at any level.
Row = Mapping[str, Any]


class RowAddress(NamedTuple):
    """A row id names a row of one partition only."""

    partition: str | None
    row_id: RowId


@dataclass
class Change:
    """The changes of one transaction at its commit.

    Attributes:
        write_id: Its write id.
        inserts: The rows it adds and does not delete again.
        deletes: The rows it deletes.
        replaces: The partitions whose older rows are all gone.
    """

    write_id: int
    inserts: dict[RowAddress, Row] = field(default_factory=dict)
    deletes: set[RowAddress] = field(default_factory=set)
    replaces: tuple[str | None, ...] = ()


class Step(NamedTuple):
    """The change of a row between two versions, and its write id.

    Attributes:
        kind: "insert" or "delete".
        write_id: Whose.
        address: The row id.
        row: The row.
    """

    kind: str
    write_id: int
    address: RowAddress
    row: Row


class TableModel:
    """A table as every new reader should see it, and as every earlier one did.

    Attributes:
        rows: The rows.
        changes: The committed changes, by write ids.
        deleted_by: The committed write ids that deleted a row; engines may delete one twice.
    """

    def __init__(self) -> None:
        self.rows: dict[RowAddress, Row] = {}
        # Files that are older than every transaction have rows of the write id 0.
        self.changes: dict[int, Change] = {0: Change(0)}
        self.deleted_by: dict[RowAddress, set[int]] = {}

    @property
    def committed(self) -> Set[int]:
        """The write ids whose changes are in the rows."""
        return self.changes.keys()

    def commit(self, change: Change) -> None:
        self.changes[change.write_id] = change
        for address in _gone(self.rows, change):
            del self.rows[address]
        for address in change.deletes:
            self.deleted_by.setdefault(address, set()).add(change.write_id)
        self.rows |= change.inserts

    def snapshot(self) -> Mapping[RowAddress, Row]:
        return dict(self.rows)

    def seen(self, write_ids: Set[int]) -> dict[RowAddress, Row]:
        """Return the rows of a version, which some committed write ids have made together."""
        rows: dict[RowAddress, Row] = {}
        for _ in self._apply(rows, write_ids):
            pass
        return rows

    def steps(self, then: Set[int], later: Set[int]) -> list[Step]:
        """Return the changes of rows between two versions; the later one sees more."""
        return list(self._apply(self.seen(then), later - then))

    def _apply(self, rows: dict[RowAddress, Row], write_ids: Set[int]) -> Iterator[Step]:
        for write_id in sorted(write_ids):
            change = self.changes[write_id]
            for address in _gone(rows, change):
                yield Step("delete", write_id, address, rows.pop(address))
            for address, row in change.inserts.items():
                yield Step("insert", write_id, address, row)
            rows |= change.inserts


def _gone(rows: Mapping[RowAddress, Row], change: Change) -> list[RowAddress]:
    """The rows that a change takes away."""
    return [
        address
        for address in rows
        if address in change.deletes
        or (address.partition in change.replaces and address.row_id.write_id < change.write_id)
    ]


def row_of(values: Mapping[str, Any]) -> Row:
    """A row with its nulls left out."""
    return {name: _without_nulls(value) for name, value in values.items() if value is not None}


def _without_nulls(value: Any) -> Any:
    return row_of(value) if isinstance(value, dict) else value


def value_of(row: Row) -> Any:
    """Return the values of a row, comparable and hashable, from any source."""
    return tuple(
        (name, value_of(value) if isinstance(value, dict) else value)
        for name, value in sorted(row.items())
    )
