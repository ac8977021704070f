"""The Spark application: runs one job, from its file to its report."""

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from pyspark.sql import SparkSession

from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job_json import from_json
from hiveacid.jobs.report import ErrorReport, Report, RunReport
from hiveacid.jobs.stream_job import StreamProgress
from hiveacid.progress import SUBMITTED_VARIABLE, PhaseLog, PhaseObserver
from hiveacid.rules.location import Location
from hiveacid.spark.failures import translate
from hiveacid.spark.session import application_session

# All modules that a job needs; half of an application's imports.
_WORK = "hiveacid.spark.run"


def main(argv: Sequence[str]) -> int:
    """Run the job in a file, whose key ``job`` contains its kind, and write its report.

    Args:
        argv: ``--job FILE --report LOCATION``.

    Returns:
        The exit status: 0, or the status of the error's class.
    """
    start = _Start()
    parser = argparse.ArgumentParser(description="Run a job.")
    parser.add_argument("--job", required=True, type=Path, help="the job, as JSON")
    parser.add_argument(
        "--report", required=True, help="where the report goes: a path or a url, see RunFiles"
    )
    arguments = parser.parse_args(argv)
    location = arguments.report
    # The submitter has chosen it.
    files = RunFiles(Location(location if ":/" in location else str(Path(location).absolute())))
    kind: type[Report] = RunReport
    name, target = "Job", ""
    try:
        job = from_json(arguments.job.read_text())
        kind = job.report
        name, target = type(job).__name__, job.target
        # Java needs time to create a session, during which Python is idle.
        loading = threading.Thread(target=import_module, args=(_WORK,))
        loading.start()
        try:
            spark = application_session(f"{name} {target}")
            start.done("session")
        finally:
            loading.join()
        from hiveacid.metastore.delegation import TokenKeeper
        from hiveacid.spark.run import run

        start.done("import")
        files = files.of(spark.sparkContext.applicationId)
        with TokenKeeper(job.metastore):
            report = run(spark, job, [StartedReporter(files, spark)])
    except Exception as error:  # noqa: BLE001 - the report must contain any error
        ours = error if isinstance(error, HiveAcidError) else translate(error, name)
        if ours is not error:
            traceback.print_exception(error)  # It may be a bug of this package: print its location.
        report = kind(job=name, target=target, error=ErrorReport.of(ours))
    report = replace(report, seconds={**start.seconds, **report.seconds})
    if files.is_complete:
        files.write_report(report)
    if (failure := report.error) is None:
        return 0
    print(f"{failure.id}: {failure.message} {failure.remedy}".strip(), file=sys.stderr, flush=True)
    return failure.exit_code


class _Start:
    """Measures the time before the first phase of a job.

    Attributes:
        seconds: The seconds spent in each step so far: "launch" is the time from its submission
            until Python runs, if that is known.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._log = PhaseLog()
        self._last = time.time()
        with suppress(KeyError, ValueError):
            submitted = float(os.environ[SUBMITTED_VARIABLE])
            self._note("launch", self._last - submitted)

    def done(self, step: str) -> None:
        """Record the end of a step."""
        now = time.time()
        self._note(step, now - self._last)
        self._last = now

    def _note(self, step: str, seconds: float) -> None:
        # The clock may be changed in the meantime.
        self.seconds[step] = round(max(0.0, seconds), 3)
        self._log.note(f"{step} done in {seconds:.2f} s")


class StartedReporter(PhaseObserver):
    """Reports the open transactions of an application to its submitter, before they are used.

    Args:
        files: The files that the submitter reads.
        spark: The session of the application.
    """

    def __init__(self, files: RunFiles, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._files = files
        self._started = Started(application_id=context.applicationId, ui_url=context.uiWebUrl)
        # Several compactions run concurrently.
        self._one_at_a_time = threading.Lock()
        files.write_started(self._started)

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Report one more transaction."""
        with self._one_at_a_time:
            self._started = replace(
                self._started,
                txn_ids=(*self._started.txn_ids, txn_id),
                write_ids={**self._started.write_ids, **write_ids},
            )
            self._files.write_started(self._started)

    def batch(self, progress: object) -> None:
        """Report the progress of a stream, with its last transaction only."""
        assert isinstance(progress, StreamProgress)
        with self._one_at_a_time:
            self._started = replace(
                self._started,
                txn_ids=() if progress.txn_id is None else (progress.txn_id,),
                write_ids=progress.write_ids,
                stream=progress,
            )
            self._files.write_started(self._started)
