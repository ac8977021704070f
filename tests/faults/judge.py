"""Scenarios that are carried out and judged, each by the rules of its operation."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import FakeMetastore
from tests.faults.after import After
from tests.faults.definitions import (
    AddPartitionsRun,
    ConversionRun,
    DropPartitionRun,
    RenameColumnRun,
    ViewsRun,
)
from tests.faults.driver import ESCAPED, Told
from tests.faults.erasing import ErasureRun
from tests.faults.mirror import MirrorRun
from tests.faults.operations import FIRST, NEW, SECOND, Rows
from tests.faults.rows import Row, write_source
from tests.faults.run import Run, silently
from tests.faults.scenario import Counts, Scenario
from tests.faults.staging import PublicationRun, StagingRun
from tests.places import place_of
from tests.vendors.proxy import of_vendor


class ExportRun(Run):
    """An export changes no table: the folder has the changes of the table that there is, or none."""

    @property
    def _final_errors(self) -> Sequence[str]:
        """The folder may have the changes of an earlier creation of the table."""
        recreated = self.scenario.after.recreates
        return [*super()._final_errors, *(["PositionMismatch"] if recreated else [])]

    def _check_report(self, report: Any) -> None:
        self._check_exported()

    def _check_told(self, told: Told) -> None:
        super()._check_told(told)
        if told.report is not None:
            self._check_exported()

    def _check_exported(self) -> None:
        job = self._job
        assert isinstance(job, ExportChangesJob)
        lines = (place_of(job.path) / "changes_after_0" / "part-00000.json").read_text()
        changes = [json.loads(line) for line in lines.splitlines()]
        exported = sorted(Row(each["id"], each["v"], each["p"]) for each in changes)
        wanted = self._first
        assert exported == wanted, f"the folder has {exported} instead of {wanted}"

    @property
    def _first(self) -> list[Row]:
        """The rows of the version that is exported, in this creation of the table."""
        rows = self.tables.of_creation([*FIRST, *SECOND])
        return sorted(row for row in rows if row.id != 2)

    def _check_refusal(self, error: HiveAcidError) -> None:
        folder = place_of(self._job.path) / "changes_after_0"  # type: ignore[attr-defined]
        if self.scenario.after.recreates and folder.exists():
            return  # It has the changes of another table.
        super()._check_refusal(error)


class ScriptRun(Run):
    """A script has several transactions: one that has inserted its rows may fail later."""

    # Each transaction has a note.
    _stays = ("_hiveacid_runs/",)

    @property
    def _final_errors(self) -> Sequence[str]:
        """The next attempt may have dropped the table of the script."""
        return [*super()._final_errors, "TableNotFound"]

    def _check_told(self, told: Told) -> None:
        seen = self._rows()
        assert seen in (self._old, self._new), f"neither old nor new rows: {seen}"
        assert told.error != ESCAPED, told.message
        if told.report is not None:
            self._done = True
            assert seen == self._new, f"it reported success, and shows {seen}"

    def _expected(self, rows: Rows) -> Rows:
        return {name: sorted([*own, *NEW]) for name, own in rows.items()}

    def _check_report(self, report: Any) -> None:
        names = self.client.get_tables(self.tables.main.database)
        assert names == ["main"], f"the script has left {names}"


class StreamRun(Run):
    """A stream of three batches: two files come later, and with a copy of the checkpoint the last."""

    # A driver that slept can take its place back from a table that was created again.
    _stays = ("_hiveacid_streams/", "_hiveacid_runs/", "the folder _hiveacid_streams/")

    @property
    def _final_errors(self) -> Sequence[str]:
        """Another driver has gone on, with a copy of the checkpoint, or the table is another one."""
        mismatch = self.scenario.after is After.COPY or self.scenario.after.recreates
        return ("StreamOvertaken", *(["PositionMismatch"] if mismatch else []))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._is_unknown = False  # A try was refused because the table was created again.
        self._copy_is_done = False  # A driver with the copy reported success.
        job = self._job
        assert isinstance(job, StreamJob)
        self._files = place_of(job.source.options["path"])
        self._checkpoint = place_of(job.checkpoint)
        for file in self._files.iterdir():
            file.unlink()
        self._add(0)
        with silently():
            self.tables.run(replace(job, metastore=None))
        if self.scenario.after is After.COPY:
            shutil.copytree(self._checkpoint, self._checkpoint.with_name("copy"))
        self._add(1)
        if self.scenario.after is not After.COPY:
            self._add(2)
        self._old = self._first = self._rows()
        # With the batches of a driver that does not know the last file.
        self._new = self._own = self._all = self._expected(self._old)

    def _add(self, number: int) -> None:
        write_source(self._files / f"{number}.json", [NEW[number]])

    def _expected(self, rows: Rows) -> Rows:
        if not hasattr(self, "_files"):
            return rows
        new = NEW[1 : len(list(self._files.iterdir()))]
        return {name: sorted([*own, *new]) for name, own in rows.items()}

    def _let_others(self) -> None:
        if self.scenario.after is not After.COPY:
            super()._let_others()
            return
        self._time_out()
        self._first, self._done = self._rows(), False
        self._add(2)
        self._new = self._all = self._expected(self._old)

    def _next_job(self) -> Job:
        job = self._job
        assert isinstance(job, StreamJob)
        if self.scenario.after is After.COPY and self._tries > 1:
            return replace(job, checkpoint=f"{job.checkpoint.rpartition('/')[0]}/copy")
        return job

    def _check_told(self, told: Told) -> None:
        # A stream can fail after its batch was committed.
        applied = self._tries == 1 and told.error is not None and self._rows() == self._new
        if not applied and (self.scenario.after is not After.COPY or self._tries == 1):
            super()._check_told(told)
            return
        self._check_zombies(self._rows())
        assert told.error != ESCAPED, told.message
        if told.report is not None:
            self._done = self._copy_is_done = True
            self._expect(self._new)

    def _check_zombies(self, seen: Rows) -> None:
        if self.scenario.after is not After.COPY or self._copy_is_done:
            super()._check_zombies(seen)
            return
        # The first driver goes on where no driver with the copy has taken its place.
        woken = any(told.report is not None for told in self._woken)
        assert seen in self._prefixes[woken:], seen

    @property
    def _prefixes(self) -> Sequence[Rows]:
        """The rows before a driver without the copy went on, with its batches, and with all."""
        return self._first, self._own, self._all

    def _check_refusal(self, error: HiveAcidError) -> None:
        # The first driver has applied batches of which the copy does not know, before the copy was
        # continued or after it had failed; or the table is a new one.
        seen = self._rows()
        refused = self.scenario.after is After.COPY and seen != self._old
        if not refused and not self.scenario.after.recreates:
            raise error
        assert seen in (self._prefixes if refused else (self._old,)), seen
        self._new = seen
        self._is_unknown = not refused

    def _check_report(self, report: Any) -> None:
        """It counts batches; a table that does not know the stream stays incomplete."""
        assert not self._is_unknown, "it reported success, and the table does not know the stream"
        self._copy_is_done = self.scenario.after is After.COPY


_RUNS: dict[str, type[Run]] = {
    "export": ExportRun,
    "mirror": MirrorRun,
    "script": ScriptRun,
    "stream": StreamRun,
    "drop partition": DropPartitionRun,
    "add partitions": AddPartitionsRun,
    "conversion": ConversionRun,
    "rename column": RenameColumnRun,
    "views": ViewsRun,
    "staging": StagingRun,
    "publication": PublicationRun,
    "erasure": ErasureRun,
    "insert-only erasure": ErasureRun,
}


def run_of(
    scenario: Scenario,
    metastore: Any,
    client: MetastoreClient,
    folder: Path,
    spark: bool = False,
    broken: str | None = None,
) -> Run:
    """The run of a scenario; see `Run`."""
    kind = _RUNS.get(scenario.operation, Run)
    return kind(scenario, metastore, client, folder, spark, broken)


def judge_on_fake(
    scenario: Scenario, folder: Path, location: str | None = None, broken: str | None = None
) -> None:
    """Judge a scenario on a metastore that is fast, and forgets nothing by itself.

    Args:
        scenario: The scenario.
        folder: A place for everything.
        location: The other location of the tables, if any.
        broken: The rule that no driver keeps; see `breaks.py`.
    """
    with _fake(scenario, folder, location, broken) as run:
        run.judge()


def count_on_fake(scenario: Scenario, folder: Path, location: str | None = None) -> Counts:
    """Count the places of an operation; see `Run.count`."""
    with _fake(scenario, folder, location) as run:
        return run.count()


@contextlib.contextmanager
def _fake(
    scenario: Scenario, folder: Path, location: str | None, broken: str | None = None
) -> Iterator[Run]:
    sources = folder / "sources"
    sources.mkdir()
    with (
        FakeMetastore(scenario.version, directory=folder, location=location) as fake,
        of_vendor(fake) as metastore,
        MetastoreClient(metastore.options) as client,
        silently(),
    ):
        try:
            yield run_of(scenario, metastore, client, sources, broken=broken)
        except Exception as error:
            error.add_note(f'Again: python -m tests.faults "{scenario}"')
            raise
