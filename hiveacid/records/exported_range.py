"""Content of the file that makes a folder of exported changes valid."""

from dataclasses import dataclass
from typing import Self

from hiveacid.errors import ConsumerMismatch, CorruptFile, InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.reports.report import RunReport
from hiveacid.rules.located_table import LocatedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRange:
    """Changes in a folder.

    Attributes:
        table: The table that they were read from.
        consumer: The consumer that they were exported for; empty without a consumer.
        report: The report of the export, which has the versions.
    """

    table: LocatedTable
    consumer: str
    report: RunReport

    @classmethod
    def parse(cls, content: bytes, path: str) -> Self:
        """Read the content of the file.

        Raises:
            CorruptFile: It lacks the table, its creation, the consumer or the versions.
        """
        try:
            exported = codec.from_bytes(cls, content, "range")
        except InvalidJob as error:
            raise _corrupt(path, str(error)) from error
        if [read.table for read in exported.report.changes] != [exported.table.name]:
            raise _corrupt(path, "its report has not one range of its table")
        return exported

    def require_of(self, table: LocatedTable, consumer: str, after: int, path: str) -> None:
        """Refuse a folder whose changes are not those of an export.

        Args:
            table: The table that the export reads.
            consumer: The consumer of the export.
            after: The version before the changes.
            path: The file, for the error.

        Raises:
            ConsumerMismatch: They belong to another table, creation of the table, or consumer.
            CorruptFile: They begin after a version other than that in the folder's name.
        """
        if not self.table.is_same_as(table):
            raise _mismatch(path, str(self.table), str(table))
        if self.consumer != consumer:
            raise _mismatch(path, _named(self.consumer), _named(consumer))
        if self.report.changes[0].after != after:
            raise _corrupt(path, f"its changes do not begin after version {after}")


def _mismatch(path: str, exported: str, asked: str) -> ConsumerMismatch:
    return ConsumerMismatch(
        f"{path} belongs to an export of {exported}, and this is one of {asked}.",
        remedy="Move that folder away, or export to another path under another name of the consumer.",
    )


def _corrupt(path: str, why: str) -> CorruptFile:
    return CorruptFile(
        f"{path} does not identify the changes of its folder: {why}.",
        remedy="Export to another path, or move that folder away.",
    )


def _named(consumer: str) -> str:
    return f"consumer {consumer!r}" if consumer else "no consumer"
