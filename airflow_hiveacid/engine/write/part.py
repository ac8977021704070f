"""A statement of a transaction, once its files are staged."""

from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.conflicts import WriteKind, kind_of
from airflow_hiveacid.acid.locks import Operation, TableRef
from airflow_hiveacid.engine.write.context import Counts, WriteContext
from airflow_hiveacid.engine.write.statement import Statement
from airflow_hiveacid.engine.write.table_output import TableOutput
from airflow_hiveacid.jobs.report import TableReport
from airflow_hiveacid.metastore.txn.transaction import Transaction


@dataclass(frozen=True)
class Part:
    """A statement of the transaction whose files are staged.

    Attributes:
        statement: The statement.
        context: What it was run with.
        counts: What it did to rows.
    """

    statement: Statement
    context: WriteContext
    counts: Counts

    @property
    def output(self) -> TableOutput:
        """What it has staged."""
        return self.context.output

    @property
    def name(self) -> str:
        """The full name of the table."""
        return self.ref.full_name

    @property
    def ref(self) -> TableRef:
        """The table."""
        return self.statement.table.ref

    @property
    def overwrites(self) -> bool:
        """Whether it replaces rows without looking at them."""
        return self.statement.operation is Operation.OVERWRITE

    @property
    def kind(self) -> WriteKind:
        """What it is to others who overlap with it."""
        return kind_of(self.statement.operation)

    def moved_to(self, txn: Transaction) -> Self:
        """The same as the work of another transaction."""
        output = self.output.moved_to(txn)
        return replace(self, context=replace(self.context, txn=txn, output=output))

    def report(self) -> TableReport:
        """What it does to the table."""
        return TableReport(
            table=self.name,
            rows_inserted=self.counts.inserted,
            rows_updated=self.counts.updated,
            rows_deleted=self.counts.deleted,
            files=self.output.files,
            bytes=self.output.size,
            partitions=tuple(self.output.partitions),
        )
