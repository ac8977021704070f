"""A statement of a transaction, once its files are staged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

from airflow_hiveacid.acid.conflicts import WriteKind, kind_of
from airflow_hiveacid.acid.locks import Operation, TableRef
from airflow_hiveacid.engine.write.context import Counts, WriteContext
from airflow_hiveacid.engine.write.statement import Statement
from airflow_hiveacid.engine.write.table_output import TableOutput
from airflow_hiveacid.engine.write.taken_folders import TakenFolders
from airflow_hiveacid.errors import CorruptFile, UserError
from airflow_hiveacid.jobs.report import TableReport
from airflow_hiveacid.metastore.txn.transaction import Transaction


@dataclass(frozen=True)
class Part:
    """A statement of the transaction whose files are staged.

    Attributes:
        statement: The statement.
        context: What it was run with.
        counts: What it did to rows.
        column_mapping: How the columns of the rewritten rows were mapped, if another mapping would
            read other values.
    """

    statement: Statement
    context: WriteContext
    counts: Counts
    column_mapping: str | None

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

    def kept_by(self, taken: TakenFolders) -> Self:
        """The same as nobody's work yet; see ``TableOutput.kept_by``."""
        return replace(self, context=replace(self.context, output=self.output.kept_by(taken)))

    def made_again_in(self, txn: Transaction) -> Self:
        """What ``kept_by`` has made, as the work of a transaction."""
        output = self.output.made_again_in(txn)
        made = replace(self, context=replace(self.context, txn=txn, output=output))
        made.check_counts()
        return made

    def check_counts(self) -> None:
        """Compare what the statement says it did with what stands in its files.

        Raises:
            CorruptFile: They differ.
        """
        output, counts = self.output, self.counts
        wanted = (counts.inserted + counts.updated, counts.updated + counts.deleted)
        if wanted != (output.rows, output.deletes):
            raise CorruptFile(
                f"The statement made {wanted[0]} rows and {wanted[1]} deletes, its files hold "
                f"{output.rows} and {output.deletes}.",
                remedy="Nothing was published; run the job again.",
            )

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
            column_mapping=self.column_mapping,
        )


def require_published_together(parts: Sequence[Part]) -> None:
    """Refuse what must not be published, now that it is known which partitions are written.

    Raises:
        PartitionsMoved: A statement has written partitions that are not locked.
        UserError: Two statements write the same partition, and one of them overwrites it: the
            rows of the other one would vanish.
    """
    for part in parts:
        part.context.require_locked(part.output.partitions)
    for one, other in combinations(parts, 2):
        if one.name != other.name or not (one.overwrites or other.overwrites):
            continue
        shared = one.output.partition_names & other.output.partition_names
        if shared:
            where = min(name or "the whole table" for name in shared)
            raise UserError(
                f"{one.name}: {where} is overwritten and written at the same time by two "
                "statements of one transaction.",
                remedy="Write all its rows by the one statement that overwrites.",
            )
