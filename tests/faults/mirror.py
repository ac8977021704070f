"""Scenarios of the runs of a mirror: it has the rows of the table at some moment, and none of a later one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from tests.faults.after import After
from tests.faults.catalog import drop_mirror, mirrored_rows
from tests.faults.driver import Told
from tests.faults.operations import FIRST, SECOND
from tests.faults.rows import Row
from tests.faults.run import STRANGERS, Run, silently

_OTHER_RUNS = (After.MIRROR, After.RECREATE_MIRROR)


class MirrorRun(Run):
    """A mirror has all rows of one version of its table, and never an older one than before."""

    _stays = ("_hiveacid_mirrors/", "the folder _hiveacid_mirrors")

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self._job, IcebergExportJob)
        before = sorted(row for row in (*FIRST, *SECOND) if row.id != 2)
        # The versions of the table that the mirror may have, the oldest first.
        self._versions = [before, self._current]
        self._check_mirror()

    @property
    def _current(self) -> list[Row]:
        return self._old[str(self.tables.main)]

    @property
    def _final_errors(self) -> Sequence[str]:
        """A mirror does not follow another table."""
        refused = ["IcebergRefused"] if self.scenario.after.recreates else []
        return [*super()._final_errors, *refused]

    def _next_job(self) -> Job:
        # A scheduled run has its own token, an attempt of the same run has not.
        if self.scenario.after in _OTHER_RUNS and self._tries > 1:
            return replace(self._job, run_token=f"run {self._tries}")
        return self._job

    def _let_others(self) -> None:
        after = self.scenario.after
        if after not in _OTHER_RUNS:
            super()._let_others()
            if self._current != self._versions[-1] and not after.recreates:
                self._versions.append(self._current)
            return
        self._time_out()
        self._write()
        if after is After.RECREATE_MIRROR:
            drop_mirror(self._mirror)
        with silently():
            self.tables.run(replace(self._job, run_token="another run"))
        self._check_mirror(complete=True)
        self._write()

    def _write(self) -> None:
        """Let another writer append rows."""
        with silently():
            self.tables.run(self.tables.insert(self.tables.main, STRANGERS))
        self._expect_strangers(applied=False)
        self._versions.append(self._current)

    @property
    def _mirror(self) -> IcebergExportJob:
        assert isinstance(self._job, IcebergExportJob)
        return self._job

    def _check_mirror(self, *, complete: bool = False) -> None:
        """Compare the mirror with the versions of the table."""
        rows = mirrored_rows(self._mirror)
        assert rows in self._versions, f"the mirror has {rows}, not one of {self._versions}"
        assert not complete or rows == self._current, f"the mirror has {rows}"
        self._versions = self._versions[self._versions.index(rows) :]

    def _check_told(self, told: Told) -> None:
        super()._check_told(told)
        done = told.report is not None and not told.report["already_done"]
        self._check_mirror(complete=done)

    def _check_zombies(self, seen: Any) -> None:
        super()._check_zombies(seen)
        self._check_mirror()

    def _check_report(self, report: Any) -> None:
        self._check_mirror(complete=not report.already_done)

    def _retry(self) -> None:
        # No attempt ends the transaction of an earlier one, which only reads.
        self._time_out()
        super()._retry()

    def _check_refusal(self, error: HiveAcidError) -> None:
        if error.id != "IcebergRefused" or not self.scenario.after.recreates:
            raise error
        self._check_mirror()

    def _finish(self) -> None:
        super()._finish()
        if self.scenario.after.recreates:
            self._check_mirror()
            return
        with silently():
            report = self.tables.run(replace(self._job, run_token="the last run"))
        assert report.error is None, report.error
        self._check_mirror(complete=True)
