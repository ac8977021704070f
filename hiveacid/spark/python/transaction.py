"""AcidTransaction: the Python interface for changes of several tables that commit together."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.options.run_options import OrcCodec
from hiveacid.jobs.reports.report import RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseObserver
from hiveacid.spark.statements.methods import TableChanges
from hiveacid.spark.write.atomic_write import run_statements
from hiveacid.spark.write.statement import (
    Statement,
    WriteOptions,
    require_statement_access,
)


class TableInTransaction(TableChanges[None]):
    """A table of an AcidTransaction: its methods return nothing, and run later."""

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        orc_codec: str | None,
        statements: list[Statement],
    ) -> None:
        super().__init__(name, spark, orc_codec)
        self._statements = statements

    def _run(self, statement: Statement) -> None:
        self._statements.append(statement)


class AcidTransaction:
    """Changes of several tables, or several of one, that become visible together.

    The changes are collected in a ``with`` statement and run in one transaction at its end; if its
    body raises, no change is run. All sources and targets are read as of the beginning of the
    transaction: no change sees the rows of another change. Only one change of a table may update,
    delete or merge.

    Example::

        with AcidTransaction("thrift://hms:9083", spark=spark) as txn:
            customers = txn.table("dw.customers").merge(new_customers, "t.id = s.id")
            customers.when_matched_update_all().when_not_matched_insert_all().execute()
            txn.table("dw.sales").append(sales)
        print(txn.report)

    Args:
        metastore: The metastore's uri, or all its options.
        spark: The session, which is not changed; by default the active one.
        options: The options of the write.
        observers: Receive the phases.

    Attributes:
        report: The report on the changes, once they are committed.
    """

    def __init__(
        self,
        metastore: str | MetastoreOptions,
        *,
        spark: SparkSession | None = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        self.report: RunReport | None = None
        self._spark = spark or SparkSession.Builder().getOrCreate()
        self._client = MetastoreClient(MetastoreOptions.of(metastore))
        self._options = options or WriteOptions()
        self._observers = observers
        self._statements: list[Statement] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._client:
            if kind is None and self._statements:
                require_statement_access(self._client, self._statements)
                self.report = run_statements(
                    self._spark, self._client, self._options, self._observers, self._statements
                )

    def table(self, name: str, *, orc_codec: OrcCodec | None = None) -> TableInTransaction:
        """Return a table to change.

        Args:
            name: ``"database.table"``.
            orc_codec: The compression of its new files, if it differs from the options'.
        """
        codec = orc_codec or self._options.orc_codec
        return TableInTransaction(name, self._spark, codec, self._statements)
