"""Drivers in processes of their own, which can be killed, stopped and waited for."""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.spark.run import run
from hiveacid.spark.session import application_session
from tests.clocks import set_clock_of_process
from tests.faults.breaks import RULES
from tests.faults.catalog import watch_catalog
from tests.faults.effects import Effects, Strike
from tests.faults.s3_client import WatchedStore
from tests.faults.submitted_driver import SPARK_DEFAULTS
from tests.faults.without_spark import carry_out

# Forked from a process that has imported everything: a driver is there in a few milliseconds.
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.faults.driver",
        "hiveacid.iceberg.export",
        "pandas",
        "pyarrow.dataset",
        "pyiceberg.catalog.sql",
        "thrift.protocol.fastbinary",
    ]
)
_SECONDS = 60
# One with a Spark of its own has a new interpreter as well.
_SPARK_CONTEXT = get_context("spawn")
_SPARK_SECONDS = 300
# The error of a driver that ended by one that is not one of the tree's.
ESCAPED = "escaped"


@dataclass(frozen=True)
class Told:
    """A driver's report on its work; a killed one leaves none.

    Attributes:
        status: Its exit status.
        report: The report of a job that it calls done.
        error: The class of the error.
        message: The text of the error.
        retryable: Whether the error declares that another attempt can help.
        changes: Its changes, in words.
        after_pauses: Its calls after each of its pauses, up to the next change of a file.
        reads: The number of files that it read, and of folders that it listed.
        answers: The number of answers that it received.
    """

    status: int
    report: dict[str, Any] | None = None
    error: str | None = None
    message: str = ""
    retryable: bool = False
    changes: tuple[str, ...] = ()
    after_pauses: tuple[str, ...] = ()
    reads: int = 0
    answers: int = 0


class Driver:
    """A process that carries out a job."""

    def __init__(
        self,
        job: Job,
        folder: Path,
        strike: Strike | None = None,
        below: str = "/",
        *,
        spark: bool = False,
        broken: str | None = None,
        clock: object = None,
    ) -> None:
        """Start it.

        Args:
            job: The job.
            folder: Receives its output and its report.
            strike: The fault that hits it.
            below: The folder whose changes count.
            spark: Whether it works with Spark.
            broken: The rule that it does not keep.
            clock: The seed of its wrong clock; None for a right one.
        """
        self._seconds = _SPARK_SECONDS if spark else _SECONDS
        self._told = folder / f"told-{os.urandom(4).hex()}.json"
        self.log = self._told.with_suffix(".log")
        # The place of an object store; this is not the process that the driver is forked from.
        store = {name: text for name, text in os.environ.items() if name.startswith("AWS_")}
        # The worker runs a mirror itself: such a job is never sent as JSON.
        sent = job if isinstance(job, IcebergExportJob) else to_json(job)
        arguments = (sent, str(self._told), str(self.log), strike, below, store, broken, clock)
        context = _SPARK_CONTEXT if spark else _CONTEXT
        target = _drive_spark if spark else _drive
        self._process = context.Process(target=target, args=arguments, daemon=True)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def wait(self) -> Told:
        """Wait for its end."""
        self._process.join(self._seconds)
        late = self._process.exitcode is None
        assert not late, f"it did not end in {self._seconds} s:\n{self.log.read_text()}"
        if not self._told.exists():
            return Told(self._process.exitcode)
        return Told(self._process.exitcode, **json.loads(self._told.read_text()))

    def ends_within(self, seconds: float) -> bool:
        """Return whether it ends within a time."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def wait_until_paused(self) -> bool:
        """Wait until it has stopped itself; False when it was over before."""
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            if self._process.exitcode is not None:
                return False
            if self._is_stopped():
                return True
            time.sleep(0.002)
        raise AssertionError(f"it neither stopped nor ended:\n{self.log.read_text()}")

    def _is_stopped(self) -> bool:
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False  # It has just ended.
        return stat.rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        """Let it go on."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)


def drive(
    job: Job, folder: Path, strike: Strike | None = None, below: str = "/", *, spark: bool = False
) -> Told:
    """Carry out a job in a process of its own, and wait for its end."""
    with Driver(job, folder, strike, below, spark=spark) as driver:
        return driver.wait()


def _drive_spark(
    job: str | Job,
    told: str,
    log: str,
    strike: Strike | None,
    below: str,
    store: Mapping[str, str],
    broken: str | None,
    clock: object,
) -> None:
    os.environ["SPARK_CONF_DIR"] = os.path.dirname(told)
    Path(told).with_name("spark-defaults.conf").write_text(SPARK_DEFAULTS)

    def carry_out_by_spark(job: Job) -> Any:
        return run(application_session("a driver"), job)

    _drive(job, told, log, strike, below, store, broken, clock, carry_out_by_spark)


def _drive(
    job: str | Job,
    told: str,
    log: str,
    strike: Strike | None,
    below: str,
    store: Mapping[str, str],
    broken: str | None,
    clock: object,
    carry_out: Callable[[Job], Any] = carry_out,
) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if broken is not None:
        RULES[broken].remove()
    if clock is not None:
        set_clock_of_process(clock)
    effects = Effects(strike, below)
    effects.watch()
    if isinstance(job, IcebergExportJob):
        watch_catalog(effects)
    os.environ.update(store)
    if (endpoint := store.get("AWS_ENDPOINT_URL")) is not None:
        os.environ["AWS_ENDPOINT_URL"] = WatchedStore(effects, endpoint).__enter__().uri
    try:
        done = carry_out(from_json(job) if isinstance(job, str) else job)
        failure = done.error
        said = (
            {"report": done.to_dict()}
            if failure is None
            else {"error": failure.id, "message": failure.message, "retryable": failure.retryable}
        )
    except HiveAcidError as error:
        said = {"error": error.id, "message": str(error), "retryable": error.retryable}
    except Exception:  # noqa: BLE001 - the judge must hear of it
        said = {"error": ESCAPED, "message": traceback.format_exc()}
    finally:
        effects.end()
    sys.stdout.flush()
    counts = {
        "changes": effects.seen,
        "after_pauses": effects.after_pauses,
        "reads": effects.reads,
        "answers": effects.answers,
    }
    Path(told).write_text(json.dumps(said | counts))
