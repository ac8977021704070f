"""Base classes of all jobs.

DAG authors write jobs, JSON transports them, and the Spark application runs them. A job validates
itself without a server, so that errors are found while a DAG is parsed. Only then
(``before_rendering``) a text with a template is skipped; it is validated after rendering. A job
describes itself: generic code uses its attributes instead of its class.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

from hiveacid.errors import CorruptFile, InvalidJob
from hiveacid.jobs.field_checks import require_table
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.options.run_options import RunOptions
from hiveacid.jobs.options.run_token import marked_token, source_token
from hiveacid.jobs.reports.report import Report, RunReport
from hiveacid.jobs.sources import QuerySource, Source
from hiveacid.rules.locks import LockType, Operation
from hiveacid.rules.spelling import did_you_mean

# The action of an access that only reads; other actions are tags of jobs.
READ = "read"
# The action of an access that only shows a table in a list of tables.
SHOW = "show"
# The action of an access that writes something that is no table of the metastore.
WRITE = "write"
# Stands for all tables, where an access cannot be limited to one of them.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Access:
    """One access to a table.

    Attributes:
        table: "database.table", a database, "iceberg:catalog.namespace.table", or "*" for all tables.
        columns: The columns; None means that all may be accessed.
        action: "read", or the tag of the job: "merge", "insert", "clean", "drop_table", ...
    """

    table: str
    columns: tuple[str, ...] | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(RunOptions):
    """A unit of work on one table.

    Class attributes of a concrete job:

    - ``tag`` identifies the class in JSON, records, and audit logs;
    - ``report`` is the type of the report, ``done`` the result in words if no row was changed;
    - ``creates`` states whether the name of the target appears;
    - ``effect`` is the effect on a definition or on files in words, for EXPLAIN; changes of rows,
      which EXPLAIN describes by their operation, have none. ``affects_files`` states whether the
      files of the table are affected.

    Attributes:
        target: The table, "database.table".
        metastore: The metastore; the operator sets it from its Airflow connection.
    """

    tag: ClassVar[str]
    report: ClassVar[type[Report]] = RunReport
    done: ClassVar[str] = "no row changed"
    creates: ClassVar[bool] = False
    effect: ClassVar[str] = ""
    affects_files: ClassVar[bool] = False
    _concrete: ClassVar[dict[str, type["Job"]]] = {}

    target: str
    metastore: MetastoreOptions | None = None

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse an unknown field, with a suggestion."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise InvalidJob(
                f"{cls.__name__} has no field {unknown[0]!r}.",
                remedy=did_you_mean(unknown[0], known) or f"Its fields are {', '.join(known)}.",
            )
        return object.__new__(cls)

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is defined twice; the second class has the same tag.
        if "tag" in vars(cls):
            Job._concrete[cls.tag] = cls

    @classmethod
    def kinds(cls) -> list[type["Job"]]:
        """Return the concrete jobs of this kind, as far as their modules are imported."""
        return [each for each in Job._concrete.values() if issubclass(each, cls)]

    def __str__(self) -> str:
        """The job as YAML, as Airflow shows it among the rendered templates."""
        # job_text imports this module.
        from hiveacid.jobs.job_text import job_text

        return job_text(self)

    def validate(self) -> None:
        """Raise InvalidJob if the job is malformed; contacts no server."""
        self._validate_target()
        if self.metastore is not None:
            self.metastore.validate()
        self.validate_options()
        self._validate_own()

    @property
    def connection(self) -> MetastoreOptions:
        """The metastore of a complete job.

        Raises:
            InvalidJob: The job has no metastore.
        """
        if self.metastore is None:
            raise InvalidJob("The job has no metastore.")
        return self.metastore

    def bind(self, other: "Job", **changes: Any) -> Self:
        """Return the job with the metastore and the options of another job.

        Args:
            other: The other job.
            changes: Other values of fields.
        """
        return replace(self, **{"metastore": other.metastore, **other.options, **changes})

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the job writes, by their full names."""
        return (self.target,)

    @property
    def parts(self) -> "tuple[Job, ...]":
        """The jobs with one table each that this job consists of."""
        return (self,)

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The tables, files, and batches that the job reads, by their names in its expressions."""
        return {}

    @property
    def query(self) -> QuerySource | None:
        """The query whose rows the job writes."""
        return None

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The locations that the job names, and creates or writes."""
        return ()

    @property
    def defines(self) -> tuple[str, ...] | None:
        """The tables whose definitions the job may change; None if these cannot be named."""
        return ()

    @property
    def operation(self) -> Operation:
        """The operation on the target, which determines locks and permitted kinds of tables."""
        return Operation.INSERT

    @property
    def definition_lock(self) -> LockType | None:
        """The lock on the table while its definition changes, or its files; None without a lock."""
        return None

    def own_accesses(self) -> Iterator[Access]:
        """Yield the accesses of the job, without those of its sources and of jobs inside it.

        A job without statements yields at least one, or it is refused.
        """
        for table in self.tables:
            yield Access(table.lower(), None, self.tag)

    @property
    def token(self) -> str | None:
        """The name of the job's transactions: the run token, with a mark of the tables."""
        return self.run_token and marked_token(self.run_token, self.tables)

    @property
    def known_token(self) -> str:
        """The name of the transactions of a job that has a run token.

        Raises:
            InvalidJob: The job has no run token.
        """
        return marked_token(self.known_run_token, self.tables)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all transactions that the job may open, for all of its statements."""
        if self.token is None:
            return ()
        return self.token, source_token(self.token)

    def require_own(self, report: Report) -> None:
        """Refuse a report that names tables of another job.

        A report from the cluster was in a folder of the table, where others may write.

        Raises:
            CorruptFile: It does.
        """
        own = {name.lower() for part in (self, *self.parts) for name in (part.target, *part.tables)}
        others = sorted({name for name in report.table_names() if name.lower() not in own})
        if others:
            raise CorruptFile(
                f"The report of the job on {self.target} names {others[0]!r}, which the job does not"
                " write.",
                remedy="The result of the job is unknown: look whether its rows are there, and who may"
                " write into the folder of the table.",
            )

    def render(self, template: Callable[[str], str]) -> Self:
        """Return a copy with every text (but no key of a mapping) rendered by a template.

        Raises:
            InvalidJob: A template fails; the message names its field.
        """
        rendered: Self = _render(self, template, "job")
        return rendered

    def _validate_target(self) -> None:
        """Check that the target is a table."""
        require_table(self.target, "target")

    def _validate_own(self) -> None:
        """Check the fields of this kind of job."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedJob(Job):
    """Base of the jobs that a script may contain."""

    @property
    def form_to_repeat(self) -> str | None:
        """How the statement begins in a form that an attempt may run again.

        None if the job itself may run again; empty without such a form.
        """
        return None

    def is_undone_by(self, later: Job) -> bool:
        """Whether the job, if it runs again, destroys what a later statement has done.

        Args:
            later: A statement of the same script.
        """
        return False


def _render(value: Any, template: Callable[[str], str], where: str) -> Any:
    if isinstance(value, str):
        try:
            return template(value)
        except Exception as error:
            raise InvalidJob(
                f"{where}: the template {value!r} fails: {type(error).__name__}: {error}"
            ) from error
    if isinstance(value, Mapping):
        return {key: _render(v, template, f"{where}[{key!r}]") for key, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_render(v, template, f"{where}[{index}]") for index, v in enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        rendered = {
            f.name: _render(getattr(value, f.name), template, f"{where}.{f.name}")
            for f in fields(value)
        }
        return replace(value, **rendered)
    return value
