"""The run of a job that stages a change: like a write, except that it commits nothing."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from hiveacid.jobs.stage_jobs import StageJob, StageReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseObserver
from hiveacid.records.proofs import digest_of
from hiveacid.records.staged_changes import StagedChangeFolder
from hiveacid.rules.run_tokens import marked_token
from hiveacid.rules.texts import parse_duration
from hiveacid.writes.atomic_write import AtomicWrite, run_statements
from hiveacid.writes.engine import RowEngine
from hiveacid.writes.statement import Statement, WriteOptions


def stage_statements(
    engine: RowEngine,
    client: MetastoreClient,
    job: StageJob,
    observers: Sequence[PhaseObserver],
    statements: Sequence[Statement],
    require_checks: Callable[[WriteOptions, Sequence[Statement]], object],
) -> StageReport:
    """Stage the statements of a change, unless an earlier attempt of its run is published.

    A change that an earlier attempt has staged is discarded.

    Args:
        engine: Evaluates the rows.
        client: The metastore.
        job: The change.
        observers: Receive the phases.
        statements: The statements, in order of execution.
        require_checks: Refuses checks that cannot be evaluated when the change is published.
    """
    work = job.work
    # Without a name of the run, each call stages another change.
    run = work.run_token or f"staged-{uuid.uuid4().hex}"
    token = marked_token(run, work.tables)
    options, digest = WriteOptions.of(work, token), digest_of(token)
    lifetime = parse_duration(job.expires_after, "expires_after")

    def stage(write: AtomicWrite, locks: Sequence[Sequence[str] | None]) -> StageReport:
        require_checks(options, write.statements)
        for table in (statement.table for statement in write.statements):
            folder = StagedChangeFolder(table)
            for name in folder.names():
                if name.startswith(f"{digest}_"):
                    folder.remove(name)
        change = write.stage(locks, lifetime)
        stage_report = StageReport.of(change.report, change.name)
        return replace(
            stage_report, expires=change.expires, run_token=token, seconds=write.phases.seconds
        )

    report = run_statements(engine, client, options, observers, statements, stage)
    if isinstance(report, StageReport):
        return report
    # The name of the change that was published is not known; a publication finds its report.
    return replace(StageReport.of(report, f"{digest}_0"), run_token=token)
