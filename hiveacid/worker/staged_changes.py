"""Staging of a change for the approval of a person, and its publication or its end."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from hiveacid.errors import SparkNeeded, StagedChangeRefused, TableNotFound
from hiveacid.jobs.checks import Check
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob, StageJob, StageReport
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.proofs import RunOutcome, digest_of
from hiveacid.records.run_notes import RunNoteFolder
from hiveacid.records.staged_changes import StagedChange, StagedChangeFolder
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.locations import require_job_access
from hiveacid.worker.engine import ArrowEngine
from hiveacid.worker.run import reasons_of, statements_of
from hiveacid.writes.atomic_write import AtomicWrite
from hiveacid.writes.checks import WriteChecks
from hiveacid.writes.stage import stage_statements
from hiveacid.writes.staged_change import StagedWork, restored_parts, restored_statements
from hiveacid.writes.statement import (
    Preparation,
    Statement,
    WriteOptions,
    accesses_of_checks,
)

# Staging


def stage_change(
    client: MetastoreClient, job: StageJob, observers: Sequence[PhaseObserver] = ()
) -> StageReport:
    """Write the files of a change, and leave them for ``publish_change`` or ``discard_change``.

    Afterwards no transaction and no lock is left.

    Args:
        client: The metastore.
        job: The change.
        observers: Observers of the phases.

    Raises:
        SparkNeeded: A part of it requires Spark; nothing is left.
    """
    job.validate()
    work = job.work
    if work.run_in == "spark":
        raise SparkNeeded("The job asks for it with run_in='spark'.")
    engine = ArrowEngine(work.run_in == "auto")

    def require_checks(options: WriteOptions, prepared: Sequence[Statement]) -> None:
        WriteChecks(client, engine.checks(client), options.checks, prepared)

    with reasons_of(work):
        statements = statements_of(work)
        return stage_statements(engine, client, job, observers, statements, require_checks)


def publish_change(
    client: MetastoreClient, job: PublishJob, observers: Sequence[PhaseObserver] = ()
) -> RunReport:
    """Commit a staged change, exactly once.

    Args:
        client: The metastore.
        job: The name of the staged change.
        observers: Observers of the phases.

    Raises:
        StagedChangeRefused: It has expired or was discarded, its files are damaged, or something
            that matters has changed since then.
        OverlapRefused: With the policy rows, others have changed the same rows since then.
        CheckFailed: The rows violate a check.
        NewerRecord: A newer version has staged it.
    """
    job.validate()
    phases, engine = PhaseClock(observers), ArrowEngine()
    tables = _tables(client, job)
    try:
        change = _found(client, job, tables)
        earlier = _attempts(client, tables, change.run_token)
        earlier.end()
        # After the search, which looks for a publication that has removed the change.
        confirm = partial(_require_live, tables[0], job.staged)
        try:
            confirm()
        except StagedChangeRefused:
            _require_unpublished(client, tables, job.staged)
            raise
        options = _options(job, change)
        checks = tuple(change.checks)
        statements = restored_statements(change)
        _require_check_access(client, checks, statements)
        preparation = Preparation(engine, client, options, phases)
        with preparation.stack:
            for statement in statements:
                statement.prepare(preparation)
            evaluated = WriteChecks(client, engine.checks(client), checks, statements)
            parts = restored_parts(engine, client, phases, change, statements)
            work = StagedWork(client, options, phases, change.snapshot, parts, change, confirm)
            write = AtomicWrite(
                engine, client, options, phases, statements, earlier, None, evaluated
            )
            locks = [statement.locks for statement in statements]
            report = write.publish(locks, work)
    except AlreadyApplied as outcome:
        report = replace(outcome.report, already_done=True)
    return _removed(tables, job.staged, report)


def _options(job: PublishJob, change: StagedChange) -> WriteOptions:
    return WriteOptions(
        run_token=change.run_token,
        run_id=change.run_id,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        conflict_policy=change.conflict_policy,
        checks=change.checks,
    )


def _require_check_access(
    client: MetastoreClient, checks: Sequence[Check], statements: Sequence[Statement]
) -> None:
    """Ask for the tables that checks read: the user may not be the one who staged the change."""
    if accesses := accesses_of_checks(checks, statements):
        require_job_access(client, program_user(), tuple(checks), accesses)


def _require_live(table: HiveTable, name: str) -> None:
    """Make sure that a staged change is there, and has not expired."""
    folder = StagedChangeFolder(table)
    age, change = folder.age(name), folder.find(name)
    if age is None or change is None:
        raise _missing(table, name)
    if change.is_expired(age):
        raise StagedChangeRefused(
            f"The staged change {name} of {table.ref} has expired at {change.expires}."
        )


def _removed(tables: Sequence[HiveTable], name: str, report: RunReport) -> RunReport:
    """Remove the folders of a published change; a cleaning removes those that remain."""
    warnings = []
    for table in tables:
        try:
            StagedChangeFolder(table).remove(name)
        except Exception as error:  # noqa: BLE001 - the change is committed.
            warnings.append(f"Could not remove the staged files of {table.ref}: {error}")
    return replace(report, warnings=(*report.warnings, *warnings))


# The end of a change that is not approved


def discard_change(client: MetastoreClient, job: DiscardJob) -> RunReport:
    """Remove a staged change, so that it can certainly not be published.

    Args:
        client: The metastore.
        job: The name of the staged change.

    Raises:
        StagedChangeRefused: It has been published.
        NewerRecord: A newer version has staged it.
    """
    job.validate()
    tables = []
    for name in dict.fromkeys(job.tables):
        with suppress(TableNotFound):  # Its folder is gone, with all files.
            tables.append(existing_table(client, TableRef.parse(name)))
    folders = [StagedChangeFolder(table) for table in tables]
    try:
        change = _to_discard(client, job, tables)
        # In this order: a publication confirms the manifest after its transaction is open.
        was_there = [folder.withdraw(job.staged) for folder in folders]
        if change is not None:
            _attempts(client, tables, change.run_token).end()
    except AlreadyApplied as outcome:
        for folder in folders:
            folder.remove(job.staged)
        raise StagedChangeRefused(
            f"The staged change {job.staged} of {job.target} was published by transaction"
            f" {outcome.report.txn_id}.",
            remedy=f"To undo it: RESTORE TABLE {job.target} TO VERSION AS OF an earlier version.",
        ) from outcome
    for folder in folders:
        folder.remove(job.staged)
    return RunReport(job=job.tag, target=job.target, already_done=not any(was_there))


def _to_discard(
    client: MetastoreClient, job: DiscardJob, tables: Sequence[HiveTable]
) -> StagedChange | None:
    """Read a staged change, also one that an earlier attempt began to discard.

    Returns:
        None if it is missing, or if its manifest is damaged: then no publication can begin.
    """
    if not tables or tables[0].ref != TableRef.parse(job.target):
        return None
    folder = StagedChangeFolder(tables[0])
    try:
        change = folder.find(job.staged) or folder.find(job.staged, withdrawn=True)
    except StagedChangeRefused:
        return None
    if change is None:
        _require_unpublished(client, tables, job.staged)
        return None
    _require_named(change, job)
    return change


def staged_changes(client: MetastoreClient, table: str) -> list[StagedChange]:
    """List the staged changes of a table, the oldest first, without those that cannot be read.

    Args:
        client: The metastore.
        table: "database.table".
    """
    return StagedChangeFolder(existing_table(client, TableRef.parse(table))).changes()[0]


def _tables(client: MetastoreClient, job: PublishJob) -> list[HiveTable]:
    tables = []
    for name in dict.fromkeys(job.tables):
        try:
            tables.append(existing_table(client, TableRef.parse(name)))
        except TableNotFound as missing:
            raise StagedChangeRefused(f"{name}, which was to be changed, was dropped.") from missing
    return tables


def _found(client: MetastoreClient, job: PublishJob, tables: Sequence[HiveTable]) -> StagedChange:
    """Read the manifest of a staged change.

    Raises:
        AlreadyApplied: The change is missing because it was published.
        StagedChangeRefused: It is missing for another reason, or changes other tables.
    """
    change = StagedChangeFolder(tables[0]).find(job.staged)
    if change is None:
        _require_unpublished(client, tables, job.staged)
        raise _missing(tables[0], job.staged)
    _require_named(change, job)
    return change


def _require_unpublished(client: MetastoreClient, tables: Sequence[HiveTable], name: str) -> None:
    """Search for the publication of a staged change that is missing.

    Raises:
        AlreadyApplied: It was published.
    """
    digest = name.partition("_")[0]
    # In all tables: one may have been created again since then.
    for table in tables:
        notes = RunNoteFolder(client, ReadOnlyStorage.of(table.folder), table)
        note_files = [
            file
            for file in notes.of_digest(digest)
            if file.note is not None and digest_of(file.note.run_token) == digest
        ]
        for token in {file.note.run_token for file in note_files if file.note is not None}:
            _attempts(client, tables, token).end()
        # A run that changed no row may be applied again, but this change is not there any more.
        snapshot = Snapshot.take(client, [table.ref])
        for file in note_files:
            outcome = notes.judge(file, snapshot.txns, snapshot.write_ids[table.ref.full_name])
            if file.note is not None and outcome is RunOutcome.APPLIED:
                raise AlreadyApplied(file.note.report)


def _require_named(change: StagedChange, job: PublishJob | DiscardJob) -> None:
    """Refuse a staged change of other tables than those that the authorizer was asked for."""
    names = [TableRef.parse(name).full_name for name in job.tables]
    if change.tables[0] != names[0] or {*change.tables} != {*names}:
        raise StagedChangeRefused(
            f"The staged change {change.name} changes {', '.join(change.tables)}, and not only"
            f" {', '.join(names)}.",
            remedy=f"Name {change.tables[0]} as its table, and the others.",
        )


def _missing(table: HiveTable, name: str) -> StagedChangeRefused:
    return StagedChangeRefused(
        f"{table.ref} has no staged change {name}: it was discarded, or has expired."
    )


def _attempts(client: MetastoreClient, tables: Sequence[HiveTable], token: str) -> EarlierAttempts:
    return EarlierAttempts(client, [table.ref for table in tables], token)
