"""The content of the note that a run leaves in the folder of each table, for a later try."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from airflow_hiveacid.acid.names import LARGEST_NOTE, Base, Delta
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.records.proofs import digest_of

# One directory of a transaction is as good a proof as all of them.
_MOST_DIRECTORIES = 8
_NO_PARTITIONS = "The names of the partitions were too many to be kept for this try."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """What a transaction is about to commit, as the note in one of its tables says.

    Attributes:
        run_token: The run, as its transactions are named.
        txn_id: The transaction.
        write_ids: Its write id for the table; earlier versions noted those of all tables.
        identity: The creation of the table; None in notes of earlier versions.
        directories: Some of its directories in the table: below the table's folder, or as a url.
        operation: What it does.
        time: When, in ISO format.
        user: Who ran it.
        run_id: The run of the DAG, where once_per stands for it in run_token.
        report: What it will have done to all tables.
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
        """Find the write id of the transaction in a table; None if the note is about another one.

        Args:
            table: The full name of the table.
            identity: Its creation.
        """
        if self.identity is None:
            return self.write_ids.get(table)
        # It may have been renamed since.
        is_same = self.identity.is_same(identity) and len(self.write_ids) == 1
        return next(iter(self.write_ids.values())) if is_same else None

    def to_bytes(self) -> bytes:
        """The content of the note's file."""
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
        """Read a note; None when it is none, whatever else it may be.

        Keys that a later version may have added are passed over. A note of a later format is read
        as long as all that this version needs is there; else see ``is_of_later_format``.
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
        """Whether a later version of this package has written it.

        What cannot be read then is no garbage: it may prove that its run was applied.
        """
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            return False
        given = data.get("format") if isinstance(data, dict) else None
        return type(given) is int and given > codec.FORMAT

    def is_of(self, digest: str, txn_id: int | None) -> bool:
        """Whether the name of the file fits."""
        return digest_of(self.run_token) == digest and txn_id in (None, self.txn_id)


def _of_first_version(data: dict[str, Any]) -> dict[str, Any]:
    """A note of the version that had no format number, and did not say where it wrote."""
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
    """The fields of a note that name who writes what, and when.

    All tables of a run have the same time, so that they can be read as of it together.
    """
    return {
        "operation": report.job,
        "time": now.isoformat(timespec="milliseconds"),
        "user": os.environ.get("USER", ""),
    }
