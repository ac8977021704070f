"""What a table should hold: rows by partition and row id, changed commit by commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_hiveacid.acid.row_id import RowId

# The columns that are not null, by their names, and so are nested ones: what older files lack is
# null, wherever it is missing.
Row = Mapping[str, Any]


class RowAddress(NamedTuple):
    """A row id names a row of one partition only."""

    partition: str | None
    row_id: RowId


@dataclass
class Change:
    """What one transaction does when it commits.

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


class TableModel:
    """A table as every new reader should see it.

    Attributes:
        rows: The rows.
        committed: The write ids whose changes are in them.
        deleted_by: The committed write ids that deleted a row; engines may delete one twice.
    """

    def __init__(self) -> None:
        self.rows: dict[RowAddress, Row] = {}
        # Files that are older than every transaction have rows of the write id 0.
        self.committed: set[int] = {0}
        self.deleted_by: dict[RowAddress, set[int]] = {}

    def commit(self, change: Change) -> None:
        self.committed.add(change.write_id)
        for partition in change.replaces:
            old = [
                address
                for address in self.rows
                if address.partition == partition and address.row_id.write_id < change.write_id
            ]
            for address in old:
                del self.rows[address]
        for address in change.deletes:
            self.rows.pop(address, None)
            self.deleted_by.setdefault(address, set()).add(change.write_id)
        self.rows |= change.inserts

    def snapshot(self) -> Mapping[RowAddress, Row]:
        return dict(self.rows)


def row_of(values: Mapping[str, Any]) -> Row:
    """A row with its nulls left out."""
    return {name: _without_nulls(value) for name, value in values.items() if value is not None}


def _without_nulls(value: Any) -> Any:
    return row_of(value) if isinstance(value, dict) else value
