"""Content of the note that a run leaves in the folder of each table, for a later attempt."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.reports.report import RunReport
from hiveacid.records.proofs import digest_of
from hiveacid.rules.names import LARGEST_NOTE, Base, Delta
from hiveacid.rules.table_identity import TableIdentity

# One directory of a transaction is as good a proof as all of them.
_MOST_DIRECTORIES = 8
_NO_PARTITIONS = "The names of the partitions were too many to be kept for this try."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """Changes that a transaction is about to commit, as noted in one of its tables.

    Attributes:
        run_token: The run token, as in the names of its transactions.
        txn_id: The transaction.
        write_ids: Its write id for the table; earlier versions noted those of all tables.
        identity: The creation of the table; None in notes of earlier versions.
        directories: Some of its directories in the table: below the table's folder, or as a url.
        operation: The operation.
        time: The time, in ISO format.
        user: The user of the run.
        run_id: The run of the DAG, if once_per replaces it in run_token.
        report: The changes in all tables.
    """

    run_token: str
    txn_id: int
    write_ids: Mapping[str, int]
    report: RunReport
    directories: tuple[str, ...] = ()
    operation: str = ""
    time: str | None = None
    user: str = ""
    run_id: str | None = None
    identity: TableIdentity | None = None

    def write_id_in(self, table: str, identity: TableIdentity) -> int | None:
        """Return the transaction's write id in a table; None if the note is about another table.

        Args:
            table: The full name of the table.
            identity: Its creation.
        """
        if self.identity is None:
            return self.write_ids.get(table)
        # The table may have been renamed since.
        is_same = self.identity.is_same(identity) and len(self.write_ids) == 1
        return next(iter(self.write_ids.values())) if is_same else None

    def to_bytes(self) -> bytes:
        """Return the content of the note's file."""
        few = replace(self, directories=self.directories[:_MOST_DIRECTORIES])
        content = few._encoded()
        if len(content) <= LARGEST_NOTE:
            return content
        tables = tuple(replace(table, partitions=()) for table in few.report.tables)
        warnings = (*few.report.warnings, _NO_PARTITIONS)
        report = replace(few.report, partitions=(), tables=tables, warnings=warnings)
        return replace(few, report=report)._encoded()

    def _encoded(self) -> bytes:
        record = codec.to_record(self)
        for name in ("run_id", "identity"):  # As in notes of earlier versions.
            if record[name] is None:
                del record[name]
        return json.dumps(record, indent=1).encode()

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Parse a note; None if the content is not a note.

        Unknown keys, which a later version may have added, are ignored. A note of a later format is
        read if it has everything that this version needs; else see ``is_of_later_format``.
        """
        try:
            data = json.loads(content)
            if not isinstance(data, dict):
                return None
            data = _of_first_version(data) if "format" not in data else data
            return codec.from_record(cls, data, "note")
        except (ValueError, RecursionError, InvalidJob):
            return None

    @staticmethod
    def is_of_later_format(content: bytes) -> bool:
        """Whether a later version of this package has written the note.

        Such a note must be kept even if unreadable: it may prove that its run was applied.
        """
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            return False
        given = data.get("format") if isinstance(data, dict) else None
        return type(given) is int and given > codec.FORMAT

    def is_of(self, digest: str, txn_id: int | None) -> bool:
        """Whether the note matches the name of its file."""
        return digest_of(self.run_token) == digest and txn_id in (None, self.txn_id)


def _of_first_version(data: dict[str, Any]) -> dict[str, Any]:
    """Convert a note of the first version, which had no format number and no directories."""
    report = data.get("report")
    if not isinstance(report, dict):
        raise InvalidJob("note.report is missing.")
    tables = report.get("tables") or []
    partitions = tables[0].get("partitions") if tables and isinstance(tables[0], dict) else []
    write_id = data.get("write_id")
    if not isinstance(write_id, int) or not isinstance(partitions, list):
        raise InvalidJob("note.write_id is missing.")
    names = (
        Base(write_id).name,
        Delta(write_id, write_id, 0).name,
        Delta(write_id, write_id, 0, is_delete=True).name,
    )
    folders = [f"{name}/" for name in partitions] or [""]
    directories = [f"{folder}{name}" for folder in folders for name in names]
    return {**data, "write_ids": report.get("write_ids"), "directories": directories}


def origin_of(report: RunReport, now: datetime) -> dict[str, str]:
    """Return the fields of a note with the author, the operation and the time.

    All tables of a run have the same time, so that one point in time selects all of them.
    """
    return {
        "operation": report.job,
        "time": now.isoformat(timespec="milliseconds"),
        "user": os.environ.get("USER", ""),
    }
