"""Job that changes several tables in one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import ClassVar

from hiveacid.errors import InvalidJob, UserError
from hiveacid.jobs.field_checks import awaits_rendering, freeze, require_list
from hiveacid.jobs.job import Access, Job, ScriptedJob
from hiveacid.jobs.options.run_options import RunOptions
from hiveacid.jobs.write_jobs import InsertJob, PartitionSpec, RowJob

# Options of the whole transaction only.
_COMMON = ("metastore", *(name.name for name in fields(RunOptions) if name.name != "orc_codec"))
# The maximum number of statement ids in a row id.
MAX_STATEMENTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementsJob(Job):
    """Base of the jobs that consist of several statements in one transaction.

    Attributes:
        statements: The jobs of the transaction.
        target: The table of the first statement, which is set automatically.
    """

    target: str = ""
    statements: Sequence[RowJob]

    def __post_init__(self) -> None:
        freeze(self, "statements")
        statements = self.statements
        # validate() reports all other values.
        listed = isinstance(statements, tuple) and statements
        if not self.target and listed and isinstance(statements[0], Job):
            object.__setattr__(self, "target", statements[0].target)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the job writes, by their full names."""
        return tuple(statement.target for statement in self.statements)

    @property
    def parts(self) -> tuple[Job, ...]:
        """The statements."""
        return tuple(part for statement in self.statements for part in statement.parts)

    @property
    def defines(self) -> tuple[str, ...]:
        """The tables whose definitions a statement may change."""
        return tuple(name for part in self.parts for name in part.defines or ())

    def own_accesses(self) -> Iterator[Access]:
        """Yield nothing: all accesses are those of the statements."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionJob(StatementsJob, ScriptedJob):
    """Change several tables, or one by several statements; the changes become visible together.

    All sources are read as of the beginning of the transaction: no statement sees the changes of
    another one. Several statements can insert into a table, but only one may update, delete, merge
    or restore it. Options of all statements (metastore, waiting, codec) are set here.

    Attributes:
        statements: The jobs, in the order of their statement numbers in Hive.
        target: The table of the first statement, which is set automatically.
    """

    tag: ClassVar[str] = "transaction"

    def validate(self) -> None:
        """Raise InvalidJob if the job is malformed; contacts no server."""
        require_list(self.statements, "statements", "statements=[InsertJob(...)]")
        if not self.statements:
            raise InvalidJob("statements is empty.")
        if len(self.statements) > MAX_STATEMENTS:
            raise InvalidJob(f"statements has more than {MAX_STATEMENTS} entries.")
        for index, statement in enumerate(self.statements):
            if not isinstance(statement, RowJob):
                raise InvalidJob(
                    f"statements[{index}]: {statement!r} cannot be part of a transaction.",
                    remedy=f"Use {' or '.join(each.__name__ for each in RowJob.kinds())}.",
                )
        Job.validate(self)

    def _validate_own(self) -> None:
        defaults = {field.name: field.default for field in fields(Job)}
        for index, statement in enumerate(self.statements):
            where = f"statements[{index}]"
            try:
                statement.validate()
            except UserError as error:
                raise type(error)(f"{where}: {error.what}", remedy=error.remedy) from error
            for name in _COMMON:
                if getattr(statement, name) != defaults[name]:
                    raise InvalidJob(
                        f"{where}.{name} is that of the whole transaction.",
                        remedy=f"Give {name} to the TransactionJob.",
                    )
        if self.target != self.statements[0].target:
            raise InvalidJob(f"target is the table of statements[0], not {self.target!r}.")
        require_one_change((job.target.lower(), job.changes_rows) for job in self.statements)
        for one, other in combinations(self.statements, 2):
            if isinstance(one, InsertJob) and isinstance(other, InsertJob):
                _require_apart(one, other)


def require_one_change(statements: Iterable[tuple[str, bool]]) -> None:
    """Refuse two statements that may both delete a row, which can be deleted only once.

    Args:
        statements: The table of each, and whether it changes existing rows.

    Raises:
        InvalidJob: Two of them change one table.
    """
    changed = [table for table, changes in statements if changes and not awaits_rendering(table)]
    for table in changed:
        if changed.count(table) > 1:
            raise InvalidJob(
                f"{table} is changed by {changed.count(table)} statements of one transaction, none "
                "of which would see the other's rows.",
                remedy="Make them one MERGE, or run them in transactions of their own.",
            )


def _require_apart(one: InsertJob, other: InsertJob) -> None:
    """Refuse an overwrite of a known partition that the other statement writes."""
    if one.target.lower() != other.target.lower() or not (one.overwrite or other.overwrite):
        return
    if one.partitions is None or other.partitions is None:
        return  # A conflict is detected when the rows are known.
    shared = [spec for spec in one.partitions if _lower(spec) in map(_lower, other.partitions)]
    if shared:
        raise InvalidJob(
            f"{one.target} is overwritten and written at the same time in {dict(shared[0])}.",
            remedy="Write all rows by the one statement that overwrites.",
        )


def _lower(spec: PartitionSpec) -> Mapping[str, str | None]:
    return {key.lower(): value for key, value in spec.items()}
