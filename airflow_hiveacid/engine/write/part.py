"""A statement of a transaction with staged files."""

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
        context: The context that the statement ran in.
        counts: The numbers of changed rows.
        column_mapping: The mapping of the columns of the rewritten rows, if another mapping would
            read other values.
    """

    statement: Statement
    context: WriteContext
    counts: Counts
    column_mapping: str | None

    @property
    def output(self) -> TableOutput:
        """The staged output."""
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
        """Whether the statement replaces rows without reading them."""
        return self.statement.operation is Operation.OVERWRITE

    @property
    def kind(self) -> WriteKind:
        """The kind of the write, for the conflict matrix."""
        return kind_of(self.statement.operation)

    def moved_to(self, txn: Transaction) -> Self:
        """Return the same part as work of another transaction."""
        output = self.output.moved_to(txn)
        return replace(self, context=replace(self.context, txn=txn, output=output))

    def kept_by(self, taken: TakenFolders) -> Self:
        """Return the part without an owning transaction; see ``TableOutput.kept_by``."""
        return replace(self, context=replace(self.context, output=self.output.kept_by(taken)))

    def made_again_in(self, txn: Transaction) -> Self:
        """Assign a part from ``kept_by`` to a transaction."""
        output = self.output.made_again_in(txn)
        made = replace(self, context=replace(self.context, txn=txn, output=output))
        made.check_counts()
        return made

    def check_counts(self) -> None:
        """Compare the statement's row counts with the contents of its files.

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
        """Return the report on the table's changes."""
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
    """Refuse parts that must not be published, once the written partitions are known.

    Raises:
        PartitionsMoved: A statement has written partitions that are not locked.
        UserError: Two statements write the same partition, and one of them overwrites it: the rows
            of the other statement would be lost.
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
