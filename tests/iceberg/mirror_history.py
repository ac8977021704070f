"""The random history of a table that a mirror follows, with runs that fail at any step."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from hiveacid.iceberg.attempt import Attempt
from hiveacid.iceberg.export import Export
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergExportReport
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import parse_partition_name
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.histories.history import History
from tests.histories.table_model import row_of, value_of
from tests.iceberg.case import LakeCase
from tests.iceberg.lakes import ServedCatalog

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
    with patch.object(Attempt, "undo", lambda self, used=(): None):
        yield


class MirrorHistory(History):
    """A history whose table is mirrored several times, without Spark.

    Attributes:
        outcomes: The outcomes of the runs.
    """

    def __init__(
        self,
        seed: int,
        client: MetastoreClient,
        database: str,
        keep_house: Callable[[], None] = lambda: None,
        *,
        folder: Path,
        server: ServedCatalog | None = None,
    ) -> None:
        """Create the table; see ``History``.

        Args:
            seed: Decides everything.
            client: The metastore.
            database: The location of the table.
            keep_house: The periodic housekeeping of the metastore.
            folder: The location of the catalog.
            server: Another catalog.
        """
        no_spark: Any = None
        super().__init__(seed, client, no_spark, database, keep_house)
        self._case = LakeCase(client, self._table.ref.full_name, folder, server)
        self._faults = Random(f"mirror {seed}")
        self._file_bytes = self._faults.choice([1, 3000, 256 << 20])
        self._case.format = self._faults.choice([None, "orc", "parquet"])
        self._deletes: list[IcebergDeletes] = self._faults.choice(
            [["apply"], ["positions"], ["positions", "apply"]]
        )
        self.outcomes: Counter[str] = Counter()
        self._steps |= {self._mirror: 10, self._drop_partition: 1}

    def run(self, steps: int) -> None:
        """Let some things happen; errors contain the history."""
        size = f"about {self._file_bytes} bytes"
        self._table.note(f"data files have {size}, and the format {self._case.format}")
        self._table.note(f"deletes are carried out by {self._deletes}")
        with patch.object(Export, "file_bytes", self._file_bytes):
            self._run(steps)

    def _run(self, steps: int) -> None:
        try:
            for _ in range(steps):
                (step,) = self._random.choices(list(self._steps), list(self._steps.values()))
                step()
            self._mirror()
            self._compact(self._random.choice(["minor", "major"]))
            self._mirror()
            self._writers.finish_all()
            self._mirror()
            while self._readers:
                self._close_reader()
            self._clean()
            assert self._case.run().outcome == "unchanged"
        except BaseException as error:
            error.add_note("\n".join(self._table.log))
            raise
        finally:
            self._writers.close()
            for txn, _ in self._readers:
                txn.abort("the history is over")

    def _check_everybody(self) -> None:
        """The mirror is checked instead."""

    def _compact(self, type_: str) -> None:
        names = [name for name in self._table.some_partitions() if name is not None]
        job = CompactJob(
            target=self._table.ref.full_name,
            metastore=self._table.client.options,
            partitions=names or None,
            type=type_,
            lock_wait_seconds=0,
            run_in="worker",
        )
        with WorkerScheduler() as scheduler:
            report = TableCompactor(scheduler, self._table.client, job).run()
        for done in report.partitions:
            self._table.note(f"{type_} of {done.partition}: {done.outcome}, {done.published}")
            assert done.outcome != "failed", done.error

    def _drop_partition(self) -> None:
        """Remove a partition with its rows, and add it again without any."""
        name = self._random.choice(list(self._table.folders))
        if name is None or self._readers:
            return
        self._writers.finish_all()
        folder = self._table.folders[name]
        shutil.rmtree(folder)
        folder.mkdir()
        model = self._table.model
        model.rows = {key: row for key, row in model.rows.items() if key.partition != name}
        self._table.note(f"{name} is dropped, and created again")

    def _mirror(self) -> None:
        self._case.deletes = self._faults.choice(self._deletes)
        if self._faults.random() < 0.4:
            self._mirror_killed()
        report = self._case.run()
        self.outcomes[report.outcome] += 1
        self._table.note(
            f"mirror ({self._case.deletes}): {report.outcome}, {report.files} files added,"
            f" {report.files_kept} kept, {report.files_removed} removed, {report.delete_files} deletes"
        )
        self._check(report)

    def _mirror_killed(self) -> None:
        phase, edge = self._faults.choice(STEPS), self._faults.choice(["before", "after"])
        self._table.note(f"mirror is killed {edge} {phase.value}")
        with without_undo():
            try:
                self._case.run(KilledAt(phase, edge))
            except Killed:
                self._case.let_files_age()
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
        scanned = TableScan(self._case.target, self._case.client.options).to_arrow()
        assert counted(scanned.to_pylist()) == expected
        if report.outcome != "unchanged":
            # A killed attempt without a visible change may be running, for all that is known.
            assert self._case.files() == self._case.used_files()


def parse_partition_value(name: str | None) -> str | None:
    return None if name is None else parse_partition_name(name)[0][1]


def counted(rows: list[Mapping[str, Any]]) -> Counter[Any]:
    """Return the rows in the form of the model."""
    return Counter(
        (row.get("p"), value_of(row_of({name: row[name] for name in row if name != "p"})))
        for row in rows
    )
