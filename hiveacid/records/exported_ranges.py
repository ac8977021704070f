"""Files that make folders of exported changes valid."""

from hiveacid.dataclass import dataclass
from hiveacid.errors import PositionMismatch
from hiveacid.jobs.report import RunReport
from hiveacid.records.store import Kind, Record
from hiveacid.rules.names import LocatedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRange(Record):
    """Changes in a folder.

    Attributes:
        table: The table that they were read from.
        consumer: The consumer that they were exported for; empty without a consumer.
        report: The report of the export, which has the versions.
    """

    record_kind = Kind(
        title="the description of exported changes",
        remedy="Export to another path, or move that folder away.",
    )

    table: LocatedTable
    consumer: str
    report: RunReport

    def require_sound(self, place: str) -> None:
        """See the base class."""
        (read,) = self.report.changes
        if read.table != self.table.name or not place.endswith(f"/{range_file(read.after)}"):
            raise ValueError("It describes the changes of another folder.")

    def require_of(self, table: LocatedTable, consumer: str, place: str) -> None:
        """Refuse a folder whose changes are not those of an export.

        Args:
            table: The table that the export reads.
            consumer: The consumer of the export.
            place: The file, for the error.

        Raises:
            PositionMismatch: They belong to another table, creation of the table, or consumer.
        """
        if not self.table.is_same_as(table):
            raise _mismatch(place, str(self.table), str(table))
        if self.consumer != consumer:
            raise _mismatch(place, _named(self.consumer), _named(consumer))


def range_folder(after: int) -> str:
    """Name the folder of the changes after a version."""
    return f"changes_after_{after}"


def range_file(after: int) -> str:
    """Return the path of the file that describes these changes; readers of folders ignore its name."""
    return f"{range_folder(after)}/_range.json"


def _mismatch(place: str, exported: str, requested_name: str) -> PositionMismatch:
    return PositionMismatch(
        f"{place} belongs to an export of {exported}, and this is one of {requested_name}.",
        remedy="Move that folder away, or export to another path under another name of the consumer.",
    )


def _named(consumer: str) -> str:
    return f"consumer {consumer!r}" if consumer else "no consumer"
