"""Scenarios of staged changes: nothing is visible before the publication, and then all of it once."""

from collections.abc import Sequence
from typing import Any

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob, StageJob, StageReport
from tests.faults.after import After
from tests.faults.operations import Rows
from tests.faults.run import Run, silently


class StagingRun(Run):
    """A staging shows no row, and leaves one change, which can be published."""

    @property
    def _stage(self) -> StageJob:
        assert isinstance(self._job, StageJob)
        return self._job

    def _of_change(self, rows: Rows) -> Rows:
        return self._operation.expected(self._stage.change, rows, self.tables)

    def _check_report(self, report: Any) -> None:
        assert isinstance(report, StageReport)
        expected = self._operation.counts(self._stage.change, self._old, self.tables)
        told = (report.rows_inserted, report.rows_updated, report.rows_deleted)
        assert told == expected, f"the report says {told}"
        self._staged = report

    def _finish(self) -> None:
        publication = PublishJob.of(self._staged.to_dict())
        with silently():
            assert not self.tables.run(publication).already_done
            self._old = self._new = self._of_change(self._old)
            self._expect(self._new)
            assert self.tables.run(publication).already_done
        super()._finish()


class PublicationRun(Run):
    """A publication is refused where others have changed the tables since the staging."""

    @property
    def _may_be_refused(self) -> bool:
        return self.scenario.after not in (After.NOTHING, After.EXPIRE)

    @property
    def _final_errors(self) -> Sequence[str]:
        refused = ["StagedChangeRefused"] if self._may_be_refused else []
        return [*super()._final_errors, *refused]

    def _check_refusal(self, error: HiveAcidError) -> None:
        if error.id != "StagedChangeRefused" or not self._may_be_refused or self._done:
            super()._check_refusal(error)
            return
        assert self._rows() == self._old, self._rows()
        self._new = self._old

    def _finish(self) -> None:
        if self._new == self._old:
            assert isinstance(self._job, PublishJob)
            end = DiscardJob(
                target=self._job.target, staged=self._job.staged, others=self._job.others
            )
            with silently():
                self.tables.run(end)
        super()._finish()
