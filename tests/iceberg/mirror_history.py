"""The random history of a table that a mirror follows, with runs that fail at any step."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.names import parse_partition_name
from airflow_hiveacid.iceberg.attempt import Attempt
from airflow_hiveacid.jobs.iceberg_report import IcebergExportReport
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.progress import Phase, PhaseObserver
from airflow_hiveacid.scan.table_scan import TableScan
from tests.histories.history import History
from tests.histories.table_model import row_of, value_of
from tests.iceberg.case import LakeCase

STEPS = (Phase.OPEN, Phase.LOCK, Phase.READ, Phase.REGISTER, Phase.WRITE, Phase.COMMIT, Phase.CLEAN)


class Killed(BaseException):
    """The end of a process."""


class KilledAt(PhaseObserver):
    """Ends a run before or after one of its phases."""

    def __init__(self, phase: Phase, edge: str) -> None:
        self._phase, self._edge = phase, edge

    def enter(self, phase: Phase) -> None:
        if (phase, self._edge) == (self._phase, "before"):
            raise Killed

    def leave(self, phase: Phase, seconds: float) -> None:
        if (phase, self._edge) == (self._phase, "after"):
            raise Killed


@contextmanager
def without_undo() -> Iterator[None]:
    """Let the files of an attempt remain, as after the kill of its process."""
    with patch.object(Attempt, "undo", lambda self: None):
        yield


class MirrorHistory(History):
    """A history whose table is mirrored several times.

    Attributes:
        outcomes: The outcomes of the runs.
    """

    def __init__(
        self,
        seed: int,
        client: MetastoreClient,
        spark: SparkSession,
        database: str,
        keep_house: Callable[[], None] = lambda: None,
        *,
        folder: Path,
    ) -> None:
        """Create the table; see ``History``.

        Args:
            seed: Decides everything.
            client: The metastore.
            spark: The place where compactions run.
            database: The location of the table.
            keep_house: The periodic housekeeping of the metastore.
            folder: The location of the catalog.
        """
        super().__init__(seed, client, spark, database, keep_house, restores=0.3)
        self._case = LakeCase(client, self._table.ref.full_name, folder)
        self._faults = Random(f"mirror {seed}")
        self.outcomes: Counter[str] = Counter()
        self._steps[self._mirror] = 10

    def run(self, steps: int) -> None:
        """Run the history, and mirror its last version."""
        super().run(steps)
        self._mirror()
        unchanged = self._case.run()
        assert unchanged.outcome == "unchanged"

    def _mirror(self) -> None:
        if self._faults.random() < 0.4:
            self._mirror_killed()
        report = self._case.run()
        self.outcomes[report.outcome] += 1
        self._table.note(
            f"mirror: {report.outcome}, {report.files} files added, {report.files_kept} kept,"
            f" {report.files_removed} removed"
        )
        self._check(report)

    def _mirror_killed(self) -> None:
        phase, edge = self._faults.choice(STEPS), self._faults.choice(["before", "after"])
        self._table.note(f"mirror is killed {edge} {phase.value}")
        with without_undo():
            try:
                self._case.run(KilledAt(phase, edge))
            except Killed:
                return
        self._table.note("there was nothing to kill it in")

    def _check(self, report: IcebergExportReport) -> None:
        """The mirror has the rows of the model and of this package, and no other file."""
        table = self._case.table()
        assert table is not None
        expected = Counter(
            (parse_partition_value(address.partition), value_of(row))
            for address, row in self._table.model.rows.items()
        )
        found = table.scan().to_arrow().to_pylist()
        assert counted(found) == expected
        assert len(found) == report.rows
        with TableScan(self._case.target, self._case.client.options) as scan:
            assert counted(scan.to_arrow().to_pylist()) == expected
        assert self._case.files() == self._case.used_files()


def parse_partition_value(name: str | None) -> str | None:
    return None if name is None else parse_partition_name(name)[0][1]


def counted(rows: list[Mapping[str, Any]]) -> Counter[Any]:
    """Return the rows in the form of the model."""
    return Counter(
        (row.get("p"), value_of(row_of({name: row[name] for name in row if name != "p"})))
        for row in rows
    )
