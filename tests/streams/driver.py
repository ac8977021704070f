"""A stream in a process of its own, which can be killed at any moment."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_hiveacid.cluster.packaged import spark_app_path
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.stream_job import StreamJob

SPARK_DEFAULTS = """\
spark.master                  local[2]
spark.ui.enabled              false
spark.log.level               ERROR
spark.sql.shuffle.partitions  2
spark.ui.showConsoleProgress  false
spark.driver.memory           1g
"""


class Driver:
    """The application of a stream.

    Args:
        job: The stream.
        folder: The folder of its files and its log.
        jars: The additional jars of Spark.
    """

    def __init__(self, job: StreamJob, folder: Path, jars: Sequence[Path] = ()) -> None:
        self._folder = folder
        (folder / "job.json").write_text(to_json(job))
        (folder / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
        self._report = folder / "report.json"
        for name in ("report.json", "report.json.started"):
            (folder / name).unlink(missing_ok=True)
        more = f"--jars {','.join(map(str, jars))}" if jars else ""
        options = f"--properties-file {folder}/spark-defaults.conf {more} pyspark-shell"
        with (folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, spark_app_path(), "--job", "job.json", "--report", "report.json"],
                cwd=folder,
                env=os.environ | {"PYSPARK_SUBMIT_ARGS": options},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of its log, and its exit status."""
        text = (self._folder / "driver.log").read_text()
        return f"{text[-4000:]}\nexit status {self._process.poll()}"

    def has_started(self) -> bool:
        """Return whether it has a session."""
        return (self._folder / "report.json.started").exists()

    def has_told(self, batch_id: int = 0) -> bool:
        """Return whether it has reported a batch, or a later one."""
        with suppress(FileNotFoundError, ValueError):
            told = json.loads((self._folder / "report.json.started").read_text())
            return told["stream"] is not None and told["stream"]["batch_id"] >= batch_id
        return False

    def wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, or the driver has ended, or the time is up."""
        deadline = time.monotonic() + seconds
        while self.runs and time.monotonic() < deadline:
            if holds():
                return True
            time.sleep(0.05)
        return holds()

    def terminate(self) -> None:
        """Ask the Python process to end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, Java and Python."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self, seconds: float = 600) -> dict[str, Any]:
        """Wait for its end; its report."""
        try:
            self._process.wait(seconds)
        finally:
            self.kill()
        assert self._report.exists(), self.log
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report
