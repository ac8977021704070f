"""Progress of a script for a later attempt: its completed statements, and the started one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.names import LARGEST_NOTE
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.errors import ScriptChanged
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.options.run_token import is_statement_of
from airflow_hiveacid.jobs.reports.report import CompactReport, RunReport
from airflow_hiveacid.jobs.reports.script_report import StatementReport

# HMS 3 has neither a number nor a time for databases: only their presence counts.
DATABASE = TableIdentity(created=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneStatement:
    """Completed statement.

    Attributes:
        token: Its run token, which contains a digest of the statement.
        statement: Its report.
    """

    token: str
    statement: StatementReport


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStatement:
    """Statement that was started last.

    Attributes:
        token: Its run token.
        transaction: The name of its transactions.
        tables: The tables whose notes of runs show whether they were committed.
        taken: The tables that it is about to drop or rename, each with the text of its identity
            before; None for a missing table. For a database it may be empty.
    """

    token: str
    transaction: str
    tables: tuple[str, ...] = ()
    taken: Mapping[str, str | None] | None = None

    @property
    def identities(self) -> Mapping[str, TableIdentity | None]:
        """The identities of the tables that it is about to drop or rename.

        Raises:
            ValueError: A text is not an identity.
        """
        return {
            name: TableIdentity.of_text(text) if text else None if text is None else DATABASE
            for name, text in (self.taken or {}).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptNote:
    """Progress of a script.

    Attributes:
        run_token: The script.
        attempt: The attempt that wrote the note last; only this attempt may continue.
        done: The completed statements, in order.
        begun: The next statement, if it was started and is not known to have failed.
    """

    run_token: str
    attempt: str = ""
    done: tuple[DoneStatement, ...] = ()
    begun: BegunStatement | None = None

    def require_same_statements(self, jobs: Sequence[Job], where: str) -> None:
        """Refuse a script that does not begin with the completed statements.

        Args:
            jobs: The statements of the script, with their run tokens.
            where: The location of the note.

        Raises:
            ScriptChanged: A completed statement was replaced or removed.
        """
        for number, done in enumerate(self.done, start=1):
            job = jobs[number - 1] if number <= len(jobs) else None
            if job is not None and job.run_token == done.token:
                continue
            report = done.statement.report
            raise ScriptChanged(
                f"Statement {number} of the script was completed by an earlier attempt as {report.job} of "
                f"{report.target}, and has been changed or removed since.",
                remedy="Leave completed statements unchanged: they are not run again. Values that differ "
                f"in each attempt, like the time, cannot be part of a statement. If {where} is deleted, "
                "the script begins with its first statement.",
            )

    def to_bytes(self) -> bytes:
        """Return the content of the note's file."""
        content = codec.to_bytes(self)
        return (
            content if len(content) <= LARGEST_NOTE else codec.to_bytes(self._without_partitions())
        )

    @classmethod
    def parse(cls, content: bytes | None) -> Self | None:
        """Parse a note; None if it is not valid.

        Transactions of the started statement are aborted, so a note that names those of another run
        is not valid.
        """
        note = codec.valid_record(cls, content)
        if note is None:
            return None
        try:
            _ = note.begun and note.begun.identities
        except ValueError:
            return None
        begun = note.begun and (note.begun.token, note.begun.transaction)
        is_own = all(is_statement_of(token, note.run_token) for token in begun or ())
        return note if is_own else None

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
