"""Running the statements of a script, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.definition_jobs import CreateTableAsJob, TruncateJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import PhaseObserver
from hiveacid.records.earlier_attempts import require_same_statements
from hiveacid.rules.names import TableRef


def run_script(
    client: MetastoreClient,
    script: ScriptJob,
    run_one: Callable[[ScriptedJob, int], RunReport | CompactReport],
    observers: Sequence[PhaseObserver] = (),
) -> ScriptReport:
    """Run the statements of a script, up to one that fails.

    Args:
        client: The metastore.
        script: The script.
        run_one: Runs a statement, given with its number.
        observers: Receive the beginnings of statements.

    Raises:
        InvalidJob: The script has a run token, and a retry could not run it again.
        UnprovenRun: An earlier attempt has applied a statement that the script no longer contains.
    """
    script.validate()
    if script.run_token is not None:
        _require_same_statements(client, script)
    # A statement may need a lock that an earlier attempt has requested for a later one.
    if script.tokens:
        abort_open_transactions(client, *script.tokens)
    reports: list[RunReport | CompactReport] = []
    for number, job in enumerate(script.runs(), start=script.first + 1):
        try:
            for observer in observers:
                observer.statement()
            reports.append(run_one(job, number))
        except HiveAcidError as error:
            error.what = f"Statement {number} of {len(script.statements)}: {error.what}"
            raise
        if reports[-1].error is not None:
            break
    return ScriptReport.of(script.target, reports)


def _require_same_statements(client: MetastoreClient, script: ScriptJob) -> None:
    writing = (RowJob, TruncateJob, TransactionJob, CreateTableAsJob)
    changes = [run for run in replace(script, first=0).runs() if isinstance(run, writing)]
    tables = dict.fromkeys(TableRef.parse(table) for change in changes for table in change.tables)
    if changes:
        require_same_statements(client, [change.known_token for change in changes], tables)
