"""Jobs that change the rows of a table, INSERT to MERGE and restores, and several of them at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields, replace
from itertools import combinations
from typing import ClassVar, TypedDict, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import EmptySource, InvalidJob, UserError
from hiveacid.jobs.checks import QUARANTINE, Check, checks_of, require_checks
from hiveacid.jobs.fields import (
    Parameters,
    awaits_rendering,
    freeze,
    require_alias,
    require_choice,
    require_condition,
    require_list,
    require_mapping,
    require_parameters,
    require_sql,
    require_table,
    require_text,
)
from hiveacid.jobs.job import Access, Job, ScriptedJob
from hiveacid.jobs.quarantine import divided, quarantining
from hiveacid.jobs.run_options import OnEmpty, Place, RunOptions
from hiveacid.jobs.sources import (
    Input,
    QuerySource,
    Source,
    inputs_of,
    query_of,
    require_inputs,
    require_source,
)
from hiveacid.rules.locks import Operation
from hiveacid.rules.merge import Clause, expressions_of, validate_assignments, validate_clauses
from hiveacid.rules.run_tokens import run_of
from hiveacid.rules.sql_tokens import compares_with_itself
from hiveacid.rules.write_ids import AsOf

PartitionSpec = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowJob(ScriptedJob):
    """Base of the jobs that change rows of one table, and that a transaction may contain.

    Attributes:
        run_in: The process that works on the rows. "worker" is the process of the task or command,
            without Spark and Java. "spark" is a Spark application. "auto" is the worker for small
            changes whose results are those of Spark, and Spark for all others.
        on_empty: The handling of a source without rows. By default, paths that match no file or
            only files without bytes are an error, and other sources without rows a warning. "fail"
            makes all of them errors, "ok" none, except a path that does not exist. "skip" changes
            nothing, and skips the task.
        checks: The checks of the written rows, before these become visible.
    """

    run_in: Place | str = "auto"
    on_empty: OnEmpty | str | None = None
    checks: Sequence[Check] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", checks_of(self.checks))

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks, each with its table."""
        return tuple(replace(check, table=check.table or self.target) for check in self.checks)

    @property
    def tables_checked(self) -> tuple[str, ...]:
        """See the base class."""
        changed_tables = [self.target.lower()] if self.changes_rows else []
        return tuple(
            name for check in self.checks for name in check.tables_read(self.target, changed_tables)
        )

    def validate_options(self) -> None:
        """Raise InvalidJob if an option has an invalid value."""
        Job.validate_options(self)
        require_checks(self.checks, self.tables, divides=isinstance(self, SourceJob))
        require_choice(self.run_in, get_args(Place), "run_in")
        if self.on_empty is not None:
            require_choice(self.on_empty, get_args(OnEmpty), "on_empty")

    @property
    def changes_rows(self) -> bool:
        """Whether the job may update or delete existing rows."""
        return True


@contextmanager
def skipping_empty_sources(on_empty: str | None) -> Iterator[None]:
    """Make an empty source a reason to skip the job, if the job says so.

    Args:
        on_empty: See ``RowJob``.

    Raises:
        EmptySource: The source is empty.
    """
    try:
        yield
    except EmptySource as error:
        if on_empty == "skip":
            error.retryable = False
            error.remedy = "Nothing was changed. Clear the task once the rows are there."
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceJob(RowJob):
    """Base of the jobs that write the rows of a source.

    Attributes:
        source: The source of the rows.
        merge_schema: Add columns that only the source has to the table, and widen numbers.
        exclude: Columns of the source that are not part of its rows, such as the ``op`` of a feed.
        quarantine: The table for the rows of the source that violate a check of severity
            "quarantine". It has the columns of the source, and the texts ``failed_checks`` and
            ``run``.
    """

    source: Source
    merge_schema: bool = False
    exclude: Sequence[str] = ()
    quarantine: str | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The target, and the quarantine."""
        return (self.target,) if self.quarantine is None else (self.target, self.quarantine)

    @property
    def parts(self) -> tuple[Job, ...]:
        """The job, or with a quarantine the job for the other rows, and an insert into it."""
        if self.quarantine is None:
            return (self,)
        run = None if self.run_token is None else run_of(self.run_token)
        kept_source, rejected_source = divided(self.source, quarantining(self.checks), run)
        insert = InsertJob(target=self.quarantine, source=rejected_source, on_empty="ok")
        return (replace(self, source=kept_source, quarantine=None, checks=()), insert.bind(self))

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The tables, files, and batches behind the source."""
        return inputs_of(self.source)

    @property
    def query(self) -> QuerySource | None:
        """The source if it is a query."""
        return query_of(self.source)

    @property
    def defines(self) -> tuple[str, ...]:
        """The table if columns may be added to it."""
        return (self.target,) if self.merge_schema else ()

    def _validate_source(self) -> None:
        require_source(self.source)
        quarantine_checks = [check for check in self.checks if check.severity == QUARANTINE]
        if (self.quarantine is None) != (not quarantine_checks) or len(quarantine_checks) > len(
            quarantining(quarantine_checks)
        ):
            raise InvalidJob(
                "quarantine names a table, and at least one check of single rows has the severity"
                " 'quarantine'.",
                remedy='Write quarantine="database.table", and severity="quarantine" for the checks.',
            )
        if self.quarantine is not None:
            require_table(self.quarantine, "quarantine")
            if self.quarantine.lower() == self.target.lower():
                raise InvalidJob("quarantine is the target of the job.")
            divided(self.source, quarantining(self.checks), None)
        require_list(self.exclude, "exclude", 'exclude=["op"]')
        for name in self.exclude:
            require_text(name, "exclude")


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertJob(SourceJob):
    """Append rows, or replace all rows of the table or of some partitions.

    Attributes:
        source: The source of the rows.
        overwrite: Replace instead of append.
        partitions: The written partitions, which an overwrite replaces even without rows. If None,
            an append writes to the partitions of its rows; an overwrite replaces the whole table
            or, if it is partitioned, the partitions for which the source has rows.
        whole_table: Let an overwrite also empty the partitions for which the source has no rows.
        by_position: The source's columns are those of the table in order, as in SQL, with the
            partition keys last; otherwise they are found by name.
        columns: With by_position: the table's columns that the source has, in its order; the
            others get their default value, or null.
        static: Some partition keys with the value for all rows; the source lacks these. Values for
            all keys select the one partition that is written.
        dynamic: The other partition keys, whose values the rows have. They are the last ones of the
            table, in its order; other keys are an error. Without them, no key is compared.
        merge_schema: Add columns that only the source has to the table, and widen numbers.
        exclude: Columns of the source that are not part of its rows.
        defaults: With by_position: the positions, from 0, of columns of the source whose rows can
            get the default value of the table's column instead. For each of them the source has
            another column at its end, which is true in the rows that get it.
    """

    tag: ClassVar[str] = "insert"

    overwrite: bool = False
    partitions: Sequence[PartitionSpec] | None = None
    whole_table: bool = False
    by_position: bool = False
    columns: Sequence[str] | None = None
    static: PartitionSpec | None = None
    dynamic: Sequence[str] = ()
    defaults: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name in ("partitions", "columns", "dynamic", "defaults", "exclude"):
            freeze(self, name)
        RowJob.__post_init__(self)

    @property
    def operation(self) -> Operation:
        """An overwrite replaces rows without reading them."""
        return Operation.OVERWRITE if self.overwrite else Operation.INSERT

    @property
    def changes_rows(self) -> bool:
        """Several statements of a transaction may insert into one table."""
        return False

    def _validate_own(self) -> None:
        self._validate_source()
        if self.partitions is not None:
            _require_partitions(self.partitions)
        if self.static is not None:
            if self.partitions is not None:
                raise InvalidJob("static and partitions exclude each other; name all keys in one.")
            require_mapping(self.static, "static", 'static={"d": "1"}')
            _require_partitions([self.static], "static")
        self._validate_dynamic()
        if self.whole_table and not self.overwrite:
            raise InvalidJob("whole_table extends an overwrite; it needs overwrite=True.")
        if self.whole_table and (self.static or self.dynamic or self.partitions is not None):
            raise InvalidJob("whole_table means all partitions; omit partitions.")
        if self.by_position:
            require_names(self.merge_schema, self.exclude)
            if self.quarantine is not None:
                raise InvalidJob("quarantine finds columns by name; it excludes by_position.")
        if self.defaults and not self.by_position:
            raise InvalidJob("defaults gives places of columns; it needs by_position=True.")
        if len(set(self.defaults)) < len(self.defaults) or min(self.defaults, default=0) < 0:
            raise InvalidJob("defaults has a place twice, or one below 0.")
        if self.columns is not None:
            if not self.by_position:
                raise InvalidJob("columns gives names to positions; it needs by_position=True.")
            require_list(self.columns, "columns", 'columns=["id", "name"]')
            names = [name.lower() for name in self.columns]
            if not names or not all(name.strip() for name in names):
                raise InvalidJob("columns has no name, or an empty one.")
            if len(set(names)) < len(names):
                raise InvalidJob("columns names a column twice.")

    def _validate_dynamic(self) -> None:
        require_list(self.dynamic, "dynamic", 'dynamic=["month"]')
        names = [key.lower() for key in (*(self.static or ()), *self.dynamic)]
        if not all(name.strip() for name in names):
            raise InvalidJob("dynamic has an empty name.")
        if len(set(names)) < len(names):
            raise InvalidJob("static and dynamic name a partition key twice.")
        if self.dynamic and self.partitions is not None:
            raise InvalidJob("dynamic and partitions exclude each other; name all keys in one.")


class InsertOptions(TypedDict, total=False):
    """The fields of ``InsertJob`` that are options of a call in Python."""

    by_position: bool
    columns: Sequence[str] | None
    static: PartitionSpec | None
    merge_schema: bool
    exclude: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob(RowJob):
    """Change rows in place.

    Attributes:
        set: Column to SQL expression, or DEFAULT for the column's default value.
        where: The condition for rows, which only ``all_rows`` replaces.
        inputs: The inputs of subqueries: view name to table or files.
        target_alias: The table's name in expressions.
        params: The values of parameters in the condition and the expressions: name to value,
            ``{"id": 7}`` for ``:id``.
        trusted: Whether they may run scripts (TRANSFORM), call Java and read files by
            their paths.
        all_rows: Change all rows of the table. Without it, a missing condition is an error.
    """

    tag: ClassVar[str] = "update"

    set: Mapping[str, str]
    where: str | None = None
    inputs: Mapping[str, Input] = field(default_factory=dict)
    target_alias: str = "t"
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False
    all_rows: bool = False

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The inputs of subqueries."""
        return self.inputs

    @property
    def operation(self) -> Operation:
        """UPDATE."""
        return Operation.UPDATE

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the columns that are set."""
        yield Access(self.target.lower(), tuple(self.set), self.tag)

    @property
    def expressions(self) -> tuple[str, ...]:
        """The condition and the values."""
        return (*_condition(self), *self.set.values())

    def _validate_own(self) -> None:
        validate_assignments(self.set, "set")
        for column, expression in self.set.items():
            require_sql(expression, f"set: the expression of {column}")
        _validate_condition(self, "UPDATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(RowJob):
    """Delete rows.

    Attributes:
        where: The condition for rows, which only ``all_rows`` replaces.
        inputs: The inputs of subqueries: view name to table or files.
        target_alias: The table's name in the condition.
        params: The values of parameters in the condition: name to value,
            ``{"id": 7}`` for ``:id``.
        trusted: Whether it may run scripts (TRANSFORM), call Java and read files by
            their paths.
        all_rows: Delete all rows of the table. Without it, a missing condition is an error.
    """

    tag: ClassVar[str] = "delete"

    where: str | None = None
    inputs: Mapping[str, Input] = field(default_factory=dict)
    target_alias: str = "t"
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False
    all_rows: bool = False

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The inputs of subqueries."""
        return self.inputs

    @property
    def operation(self) -> Operation:
        """DELETE."""
        return Operation.DELETE

    @property
    def expressions(self) -> tuple[str, ...]:
        """The condition."""
        return _condition(self)

    def _validate_own(self) -> None:
        _validate_condition(self, "DELETE FROM")


class RowOptions(TypedDict, total=False):
    """The fields of ``UpdateJob`` and ``DeleteJob`` that are options of a call in Python."""

    all_rows: bool
    inputs: Mapping[str, Input]
    target_alias: str
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreJob(RowJob):
    """Write a new version of a table that is equal to an earlier one.

    Attributes:
        as_of: The earlier version: a write id, or a time in ISO form.
    """

    tag: ClassVar[str] = "restore"

    as_of: str

    def _validate_own(self) -> None:
        require_text(self.as_of, "as_of")
        if self.on_empty is not None:
            raise InvalidJob("on_empty is about a source, which a restore does not have; omit it.")
        if not awaits_rendering(self.as_of):
            AsOf.parse(self.as_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob(SourceJob):
    """Update, delete and insert by comparing a source with the table.

    Attributes:
        source: The source of the changes; evaluated once.
        on: The SQL condition that matches source rows and target rows; without columns, such as
            ``FALSE``, it matches all rows or none.
        when: The clauses; of each kind of clause, the first one that matches is applied.
        source_alias: The source's name in conditions and expressions.
        target_alias: The target's name in conditions and expressions.
        merge_schema: Add columns to the table that only the source has and that a clause uses, and
            widen numbers.
        exclude: Columns of the source that are not part of its rows: a clause for all columns does
            not take them, and ``merge_schema`` does not add them. Conditions and expressions may
            use them.
        params: The values of parameters in ``on`` and ``when``: name to value, ``{"id": 7}`` for
            ``:id``. A query has its own.
        trusted: Whether ``on`` and ``when`` may run scripts (TRANSFORM), call Java and read files by
            their paths.
    """

    tag: ClassVar[str] = "merge"

    on: str
    when: Sequence[Clause]
    source_alias: str = "s"
    target_alias: str = "t"
    params: Parameters = field(default_factory=dict, repr=False)
    trusted: bool = False

    def __post_init__(self) -> None:
        freeze(self, "when")
        freeze(self, "exclude")
        RowJob.__post_init__(self)

    @property
    def operation(self) -> Operation:
        """MERGE."""
        return Operation.MERGE

    @property
    def expressions(self) -> tuple[str, ...]:
        """The condition, and all conditions and values of the clauses."""
        clauses = (text for clause in self.when for _, text in expressions_of(clause, ""))
        return (self.on, *clauses)

    def _validate_own(self) -> None:
        self._validate_source()
        require_sql(self.on, "on")
        _require_comparison(self.on)
        validate_clauses(self.when)
        for index, clause in enumerate(self.when):
            for subject, text in expressions_of(clause, f"when[{index}] ({type(clause).__name__})"):
                require_sql(text, subject)
        require_parameters(self.params, self.expressions, "params")
        for name in ("source_alias", "target_alias"):
            require_alias(getattr(self, name), name)
        if self.source_alias.lower() == self.target_alias.lower():
            raise InvalidJob(f"Source and target have the same alias {self.source_alias!r}.")


class MergeOptions(TypedDict, total=False):
    """The fields of ``MergeJob`` that are options of a call in Python."""

    source_alias: str
    target_alias: str
    merge_schema: bool
    exclude: Sequence[str]
    params: Parameters
    trusted: bool


def require_names(merge_schema: bool, exclude: Sequence[str]) -> None:
    """Raise InvalidJob if an insert by position has an option that finds columns by name."""
    for option, option_value in (("merge_schema", merge_schema), ("exclude", exclude)):
        if option_value:
            raise InvalidJob(f"{option} finds columns by name; it excludes by_position.")


def _require_comparison(on: str) -> None:
    """Refuse the condition of a merge if it is certainly ambiguous."""
    if not awaits_rendering(on) and (column := compares_with_itself(on)) is not None:
        raise InvalidJob(
            f"on compares {column} with itself.",
            remedy='Compare columns of the target and the source by their aliases, like "t.id = s.id".',
        )


def _condition(job: UpdateJob | DeleteJob) -> tuple[str, ...]:
    return () if job.where is None else (job.where,)


def _validate_condition(job: UpdateJob | DeleteJob, change: str) -> None:
    if job.where is not None:
        require_sql(job.where, "where")
    require_parameters(job.params, job.expressions, "params")
    require_inputs(job.inputs, "inputs")
    require_alias(job.target_alias, "target_alias")
    require_condition(job.where, job.all_rows, f"{change} {job.target}")


def _require_partitions(partitions: Sequence[PartitionSpec], subject: str = "partitions") -> None:
    require_list(partitions, subject, 'partitions=[{"d": "1"}]')
    for spec in partitions:
        require_mapping(spec, f"A partition of {subject}", '{"d": "1"}')
    if not partitions:
        raise InvalidJob("partitions is empty; leave it out when they are not known beforehand.")
    specs = [{key.lower(): value for key, value in spec.items()} for spec in partitions]
    for index, (partition, spec) in enumerate(zip(partitions, specs, strict=True)):
        where = f"{subject}[{index}]" if subject == "partitions" else subject
        if not spec or not all(key.strip() for key in spec):
            raise InvalidJob(f"{where} must name every partition key.")
        if len(spec) < len(partition):
            raise InvalidJob(f"{where} names a partition key twice.")
        if spec.keys() != specs[0].keys():
            raise InvalidJob(f"{where} has other keys than partitions[0].")
        if "" in spec.values():
            raise InvalidJob(f"{where} has an empty value; None is the null partition.")
        if spec in specs[:index]:
            raise InvalidJob(f"{where} is there twice.")


# Options of the whole transaction only.
_COMMON = (
    "metastore",
    "run_in",
    *(name.name for name in fields(RunOptions) if name.name != "orc_codec"),
)
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
        is_list = isinstance(statements, tuple) and statements
        if not self.target and is_list and isinstance(statements[0], Job):
            object.__setattr__(self, "target", statements[0].target)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the job writes, by their full names."""
        return tuple(name for statement in self.statements for name in statement.tables)

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
        run_in: See RowJob; all statements run in one process.
        checks: The checks of several tables, beside those of the statements.
    """

    tag: ClassVar[str] = "transaction"

    run_in: Place | str = "auto"
    checks: Sequence[Check] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", checks_of(self.checks))
        StatementsJob.__post_init__(self)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks of the transaction and of its statements, each with its table."""
        own_checks = (replace(check, table=check.table or self.target) for check in self.checks)
        return (
            *own_checks,
            *(check for statement in self.statements for check in statement.all_checks),
        )

    @property
    def tables_checked(self) -> tuple[str, ...]:
        """See the base class."""
        changed_tables = [
            statement.target.lower() for statement in self.statements if statement.changes_rows
        ]
        return tuple(
            name for check in self.checks for name in check.tables_read(self.target, changed_tables)
        )

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
                    remedy=f"Use {' or '.join(kind.__name__ for kind in RowJob.kinds())}.",
                )
        Job.validate(self)
        require_choice(self.run_in, get_args(Place), "run_in")
        require_list(self.checks, "checks", 'checks=[NotNull(columns=["id"])]')
        require_checks(self.checks, self.tables, divides=False)
        require_checks(self.all_checks, self.tables)

    def _validate_own(self) -> None:
        defaults = {field.name: field.default for field in fields(RowJob)}
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
        for first_job, second_job in combinations(self.statements, 2):
            if isinstance(first_job, InsertJob) and isinstance(second_job, InsertJob):
                _require_apart(first_job, second_job)


def require_one_change(statements: Iterable[tuple[str, bool]]) -> None:
    """Refuse two statements that may both delete a row, which can be deleted only once.

    Args:
        statements: The table of each, and whether it changes existing rows.

    Raises:
        InvalidJob: Two of them change one table.
    """
    changed_tables = [
        table for table, changes in statements if changes and not awaits_rendering(table)
    ]
    for table in changed_tables:
        if changed_tables.count(table) > 1:
            raise InvalidJob(
                f"{table} is changed by {changed_tables.count(table)} statements of one transaction, none "
                "of which would see the other's rows.",
                remedy="Make them one MERGE, or run them in transactions of their own.",
            )


def _require_apart(first_insert: InsertJob, second_insert: InsertJob) -> None:
    """Refuse an overwrite of a known partition that the other statement writes."""
    if first_insert.target.lower() != second_insert.target.lower() or not (
        first_insert.overwrite or second_insert.overwrite
    ):
        return
    if first_insert.partitions is None or second_insert.partitions is None:
        return  # A conflict is detected when the rows are known.
    shared = [
        spec
        for spec in first_insert.partitions
        if _lower(spec) in map(_lower, second_insert.partitions)
    ]
    if shared:
        raise InvalidJob(
            f"{first_insert.target} is overwritten and written at the same time in {dict(shared[0])}.",
            remedy="Write all rows by the one statement that overwrites.",
        )


def _lower(spec: PartitionSpec) -> Mapping[str, str | None]:
    return {key.lower(): value for key, value in spec.items()}
