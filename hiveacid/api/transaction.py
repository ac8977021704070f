"""AcidTransaction: changes of several tables by a program that become visible together."""

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hiveacid.api.changes import TableChanges
from hiveacid.api.engines import Batches, Engines
from hiveacid.api.rows import Rows
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.run_options import OrcCodec, Place
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.write_jobs import RowJob, SourceJob, TransactionJob
from hiveacid.progress import PhaseObserver
from hiveacid.writes.statement import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AcidTransaction:
    """Changes of several tables, or several of one, that become visible together.

    The changes are collected in a ``with`` statement and run in one transaction at its end; if its
    body raises, no change is run. All sources and targets are read as of the beginning of the
    transaction: no change sees the rows of another change. Only one change of a table may update,
    delete, merge or restore.

    Example::

        with AcidTransaction("thrift://hms:9083") as txn:
            customers = txn.table("dw.customers").merge(new_customers, "t.id = s.id")
            customers.when_matched_update_all().when_not_matched_insert_all().execute()
            txn.table("dw.sales").append(sales)
        print(txn.report)

    Args:
        metastore: The metastore's uri, or all its options.
        run_in: Where the changes run; see ``AcidTable``.
        spark: The session, which is not changed; by default the active one, or a new one once it is
            needed.
        options: The options of the write.
        observers: Receive the phases.

    Attributes:
        report: The report on the changes, once they are committed.
    """

    def __init__(
        self,
        metastore: str | MetastoreOptions,
        run_in: Place | str = "auto",
        *,
        spark: "SparkSession | None" = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        self.report: RunReport | None = None
        self._engines = Engines(metastore, spark, run_in, options, observers)
        self._place: Place = "auto"
        self._statements: list[Any] = []
        self._batches: dict[str, Rows] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._engines.client:
            if kind is None and self._statements:
                job = TransactionJob(statements=self._statements, run_in=self._place)
                self.report = self._engines.change(job, self._batches)

    def table(self, name: str, *, orc_codec: OrcCodec | None = None) -> TableChanges[None]:
        """Return a table to change; its methods return nothing, and run at the end.

        Args:
            name: ``"database.table"``.
            orc_codec: The compression of its new files, if it differs from the options'.
        """
        return TableChanges(name, self._engines, self._collect, orc_codec)

    def _collect(self, job: ScriptedJob, batches: Batches) -> None:
        if isinstance(job, RowJob):
            # One statement that requires Spark takes the others with it.
            self._place = "spark" if job.run_in == "spark" else self._place
            job = replace(job, run_in="auto")
        if isinstance(job, SourceJob):
            for rows in batches.values():
                name = f"the rows of statement {len(self._statements) + 1}"
                job = replace(job, source=BatchSource(name))
                self._batches[name] = rows
        self._statements.append(job)
