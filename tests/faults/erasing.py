"""Scenarios of erasures: several transactions, and no certificate while a byte of a key is left."""

from collections.abc import Sequence
from typing import Any

from hiveacid.jobs.erase_job import EraseJob, EraseReport
from tests.erasure.remnants import remnants
from tests.faults.driver import Told
from tests.faults.operations import Rows
from tests.faults.rows import ERASED
from tests.faults.run import Run, silently
from tests.places import place_of


class ErasureRun(Run):
    """An erasure may fail after its delete. If its table is created again, it has no certificate."""

    @property
    def _final_errors(self) -> Sequence[str]:
        return [*super()._final_errors, *(["TableReplaced"] if self._is_another else [])]

    @property
    def _is_another(self) -> bool:
        return self.scenario.after.recreates

    def _rows(self) -> Rows:
        if self._is_certified and not self._is_another:
            left = remnants(self._outsiders()[0].root, [ERASED])
            assert not left, f"there is a certificate, and keys in {left}"
        return super()._rows()

    @property
    def _is_certified(self) -> bool:
        job = self._job
        assert isinstance(job, EraseJob)
        return (place_of(job.folder) / job.request / "certificate.json").exists()

    def _check_told(self, told: Told) -> None:
        applied = self._tries == 1 and told.error is not None and self._rows() == self._new
        if not applied:
            super()._check_told(told)

    def _check_report(self, report: Any) -> None:
        assert isinstance(report, EraseReport)
        kinds = {wait.kind for wait in report.waits}
        assert bool(report.certificate) == (not kinds), report
        assert self._is_another or "table" not in kinds, report
        self._report = report

    def _finish(self) -> None:
        super()._finish()
        with silently():
            report = self.tables.run(self._job)
        self._check_report(report)
        assert self._is_another or self._is_certified, report.waits
