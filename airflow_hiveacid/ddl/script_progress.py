"""Execution of a script's statements in order, continuing after an earlier attempt."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.ddl.tables import find_table
from airflow_hiveacid.errors import (
    ConflictError,
    DataError,
    HiveAcidError,
    ScriptChanged,
    ScriptOvertaken,
    TableNotFound,
    UnprovenRun,
    UserError,
)
from airflow_hiveacid.jobs.definitions.catalog_jobs import (
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
)
from airflow_hiveacid.jobs.definitions.ddl_jobs import CatalogJob
from airflow_hiveacid.jobs.job import ScriptedJob
from airflow_hiveacid.jobs.reports.report import CompactReport, RunReport
from airflow_hiveacid.jobs.reports.script_report import ScriptReport, StatementReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions
from airflow_hiveacid.progress import PhaseObserver
from airflow_hiveacid.records.script_note import DATABASE, BegunStatement, DoneStatement, ScriptNote
from airflow_hiveacid.records.script_notes import ScriptNoteFile, script_home

_Report = RunReport | CompactReport


def run_script(
    client: MetastoreClient,
    script: ScriptJob,
    run_one: Callable[[ScriptedJob, int], _Report],
    was_applied: Callable[[BegunStatement], bool],
    observers: Sequence[PhaseObserver] = (),
) -> ScriptReport:
    """Run the statements of a script, except those that an earlier attempt has completed.

    Args:
        client: The metastore.
        script: The script.
        run_one: Runs a statement, given with its number.
        was_applied: Whether an earlier attempt has applied, or may have applied, the transaction of
            a statement that it had begun.
        observers: Receive the beginnings of statements, and the transactions of statements that are
            not run again.

    Raises:
        ScriptChanged: A completed statement was changed.
        ScriptOvertaken: Another attempt of the script has begun meanwhile.
        UnprovenRun: The completion of a statement is not proven.
    """
    jobs = list(script.runs())
    progress = _progress_of(client, script, jobs)
    done = () if progress is None else progress.done
    reports: list[_Report] = []
    for number, job in enumerate(jobs, start=1):
        if number <= len(done):
            report = done[number - 1].statement.report
            if isinstance(report, RunReport) and report.txn_id is not None:
                for observer in observers:
                    observer.opened(report.txn_id, report.write_ids)
            reports.append(replace(report, already_done=True))
            continue
        try:
            for observer in observers:
                observer.statement()
            found = None if progress is None else progress.begin(job, was_applied)
            reports.append(found or run_one(job, number))
        except HiveAcidError as error:
            if progress is not None:
                progress.fail(error)
            error.what = f"Statement {number} of {len(jobs)}: {error.what}"
            raise
        if reports[-1].error is not None:
            break
        if progress is not None:
            progress.end(job, reports[-1])
    return ScriptReport.of(script.target, reports)


def _progress_of(
    client: MetastoreClient, script: ScriptJob, jobs: Sequence[ScriptedJob]
) -> "_Progress | None":
    home, token = script_home(client, script), script.run_token
    if home is None or token is None:
        return None
    file = ScriptNoteFile(home, token)
    note = file.read() or ScriptNote(run_token=token)
    note.require_same_statements(jobs, file.location)
    return _Progress(client, file, note, is_complete=len(note.done) == len(jobs))


class _Progress:
    """The progress of one attempt of a script.

    The note lists the completed statements and the begun one, so that a kill at any moment leaves
    one statement to be judged. Each attempt gives the note a unique name: an earlier attempt that
    is still running detects this before its next statement.

    Attributes:
        done: The statements that earlier attempts have completed.
    """

    def __init__(
        self, client: MetastoreClient, file: ScriptNoteFile, note: ScriptNote, *, is_complete: bool
    ) -> None:
        self.done = note.done
        self._client = client
        self._file = file
        self._note = replace(note, attempt=uuid.uuid4().hex)
        if not is_complete:
            file.write(self._note)

    def begin(
        self, job: ScriptedJob, was_applied: Callable[[BegunStatement], bool]
    ) -> RunReport | None:
        """Record that a statement is begun, unless an earlier attempt has completed it."""
        begun = self._note.begun
        if begun is not None:
            self._write(self._note)
            # Its locks would be waited for, also where the statement is completed.
            abort_open_transactions(self._client, begun.transaction)
            if begun.token == job.run_token:
                return _completed(self._client, job, begun.identities)
            self._require_not_done(begun, was_applied)
        taken = _taken(self._client, job)
        begun = BegunStatement(
            token=job.known_run_token,
            transaction=job.known_token,
            tables=() if isinstance(job, CatalogJob) else job.tables,
            taken={name: None if each is None else each.text for name, each in taken.items()}
            or None,
        )
        self._write(replace(self._note, begun=begun))
        # After a pause within the write, another attempt may have completed the script.
        self._require_current()
        return None

    def end(self, job: ScriptedJob, report: _Report) -> None:
        """Note that a statement is completed."""
        done = DoneStatement(token=job.known_run_token, statement=StatementReport.of(report))
        self._write(replace(self._note, done=(*self._note.done, done), begun=None))

    def fail(self, error: HiveAcidError) -> None:
        """Record that no statement is begun, after an error without effects.

        Raises:
            ScriptOvertaken: Another attempt has begun, which may have caused the failure.
        """
        undone = isinstance(error, UserError | DataError | ConflictError)
        unclear = not undone or isinstance(error, UnprovenRun | ScriptChanged | ScriptOvertaken)
        try:
            self._write(self._note if unclear else replace(self._note, begun=None))
        except ScriptOvertaken as overtaken:
            raise overtaken from error
        except HiveAcidError:
            return  # The error of the statement is the one to report.

    def _write(self, note: ScriptNote) -> None:
        self._require_current()
        self._file.write(note)
        self._note = note

    def _require_current(self) -> None:
        """Raise ScriptOvertaken if another attempt has begun since."""
        found = self._file.read()
        if found is None or found.attempt != self._note.attempt:
            raise ScriptOvertaken(f"Another attempt has written {self._file.location}.")

    def _require_not_done(
        self, begun: BegunStatement, was_applied: Callable[[BegunStatement], bool]
    ) -> None:
        """Refuse to replace a statement that may be complete."""
        taken = begun.identities
        changed = any(
            not _is_same(was, _identity(self._client, name)) for name, was in taken.items()
        )
        if changed or (begun.tables and was_applied(begun)):
            what = ", ".join(begun.tables or taken)
            raise ScriptChanged(
                f"An earlier attempt had begun another statement here, which has changed {what}, or may "
                "have.",
                remedy="Put the statement back as it was. If the progress of the script, "
                f"{self._file.location}, is deleted, the script begins with its first statement.",
            )


def _taken(client: MetastoreClient, job: ScriptedJob) -> Mapping[str, TableIdentity | None]:
    """The tables, or the database, that a statement takes away; with the identity of each table."""
    if not job.removes:
        return {}
    name = job.target.lower()
    names = (name, *(() if job.tables else _tables_of(client, name)))
    return {each: _identity(client, each) for each in names}


def _completed(
    client: MetastoreClient, job: ScriptedJob, taken: Mapping[str, TableIdentity | None]
) -> RunReport | None:
    """Return the report of a begun statement of an earlier attempt, if it is completed.

    Statements that remove nothing detect an earlier attempt's effects themselves.

    Raises:
        UnprovenRun: The completion cannot be determined.
    """
    if not taken:
        return None
    name = job.target.lower()
    was, now = taken.get(name), _identity(client, name)
    changed = not _is_same(was, now)
    by = "by an earlier attempt"
    match job:
        case DropTableJob() if changed:
            stays = "" if now is None else "; the table that is there now is another one, and stays"
            return _done("drop_table", job, f"{name} was dropped {by}{stays}.")
        case RenameTableJob() if changed:
            if was is not None and _is_same(was, _identity(client, job.new_name)):
                return _done("rename_table", job, f"{job.new_name} was given its name {by}.")
            raise UnprovenRun(
                f"{name} was about to be renamed to {job.new_name} {by}, and now neither is the table "
                "that it was.",
                remedy="Check which tables exist now, and complete the rename if necessary.",
            )
        case DropDatabaseJob() if changed:
            return _done("drop_database", job, f"The database {name} was dropped {by}.")
        case DropDatabaseJob():
            for table in _tables_of(client, name):
                if not _is_same(taken.get(table), _identity(client, table)):
                    raise UnprovenRun(
                        f"The database {name} was about to be dropped {by}, and {table} was created "
                        "since.",
                        remedy="Drop the database by another run if it is to go with that table.",
                    )
    return None


def _done(kind: str, job: ScriptedJob, warning: str) -> RunReport:
    return RunReport(job=kind, target=job.target.lower(), warnings=(warning,), already_done=True)


def _tables_of(client: MetastoreClient, database: str) -> list[str]:
    with suppress(TableNotFound):
        return [TableRef(database, table).full_name for table in client.get_tables(database)]
    return []


def _identity(client: MetastoreClient, name: str) -> TableIdentity | None:
    """Return the identity of a table or a database; None if it does not exist."""
    if "." not in name:
        with suppress(TableNotFound):
            client.get_database(name)
            return DATABASE
        return None
    table = find_table(client, TableRef.parse(name))
    return None if table is None else table.identity


def _is_same(one: TableIdentity | None, other: TableIdentity | None) -> bool:
    return one is other if one is None or other is None else one.is_same(other)
