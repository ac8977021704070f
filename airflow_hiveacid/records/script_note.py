"""The progress of a script, for a later try: its completed statements, and the begun one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.names import LARGEST_NOTE
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.errors import InvalidJob, ScriptChanged
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.report import CompactReport, RunReport
from airflow_hiveacid.jobs.run_token import is_statement_of
from airflow_hiveacid.jobs.script_report import StatementReport

# The metastore of version 3 keeps neither a number nor a time of databases: only their presence counts.
DATABASE = TableIdentity(created=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneStatement:
    """A statement that was completed.

    Attributes:
        token: Its run token, which has a digest of the statement.
        statement: Its report.
    """

    token: str
    statement: StatementReport


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStatement:
    """The statement that was begun last.

    Attributes:
        token: Its run token.
        transaction: The name of its transactions.
        tables: The tables in which notes of runs say whether they were committed.
        taken: The tables that it is about to drop or rename, each with the text of the identity that
            it had; None is a table that was not there. Of a database it may be empty.
    """

    token: str
    transaction: str
    tables: tuple[str, ...] = ()
    taken: Mapping[str, str | None] | None = None

    @property
    def identities(self) -> Mapping[str, TableIdentity | None]:
        """The identities of what it is about to take away.

        Raises:
            ValueError: A text is no identity.
        """
        return {
            name: TableIdentity.of_text(text) if text else None if text is None else DATABASE
            for name, text in (self.taken or {}).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptNote:
    """The progress of a script.

    Attributes:
        run_token: The script.
        attempt: The try that has written the note last; only that one may go on.
        done: The statements that were completed, in order.
        begun: The statement after them, if it was begun and is not known to have failed.
    """

    run_token: str
    attempt: str = ""
    done: tuple[DoneStatement, ...] = ()
    begun: BegunStatement | None = None

    def require_same_statements(self, jobs: Sequence[Job], where: str) -> None:
        """Refuse a script that does not begin with the statements that were completed.

        Args:
            jobs: The statements of the script, with their run tokens.
            where: Where the note is.

        Raises:
            ScriptChanged: Another statement takes the place of one, or none does.
        """
        for number, done in enumerate(self.done, start=1):
            job = jobs[number - 1] if number <= len(jobs) else None
            if job is not None and job.run_token == done.token:
                continue
            report = done.statement.report
            raise ScriptChanged(
                f"Statement {number} of the script was completed by an earlier try as {report.job} of "
                f"{report.target}, and has been changed or removed since.",
                remedy="Leave completed statements as they were: they are not run again. What differs "
                f"in each try, like the time, cannot be part of a statement. If {where} is deleted, "
                "the script begins with its first statement.",
            )

    def to_bytes(self) -> bytes:
        """The content of the note's file."""
        content = self._encoded()
        return content if len(content) <= LARGEST_NOTE else self._without_partitions()._encoded()

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Read a note; None when it is none.

        Transactions of the begun statement are aborted: a note that names those of another run is none.
        """
        try:
            note = codec.from_record(cls, json.loads(content), "note")
            _ = note.begun and note.begun.identities
        except (ValueError, RecursionError, InvalidJob):
            return None
        begun = note.begun and (note.begun.token, note.begun.transaction)
        is_own = all(is_statement_of(token, note.run_token) for token in begun or ())
        return note if is_own else None

    def _encoded(self) -> bytes:
        return json.dumps(codec.to_record(self), indent=1).encode()

    def _without_partitions(self) -> Self:
        done = tuple(
            replace(each, statement=_shortened(each.statement.report)) for each in self.done
        )
        return replace(self, done=done)


def _shortened(report: RunReport | CompactReport) -> StatementReport:
    if isinstance(report, CompactReport):
        return StatementReport.of(replace(report, partitions=()))
    tables = tuple(replace(table, partitions=()) for table in report.tables)
    return StatementReport.of(replace(report, partitions=(), tables=tables))
