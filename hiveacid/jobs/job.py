"""Base classes of all jobs.

DAG authors write jobs, JSON transports them, and the Spark application runs them. A job validates
itself without a server, so that errors are found while a DAG is parsed. Only then
(``before_rendering``) a text with a template is skipped; it is validated after rendering. A job
describes itself: generic code uses its attributes instead of its class.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, InvalidJob, options_without_secrets, without_secrets
from hiveacid.jobs import codec
from hiveacid.jobs.checks import Check
from hiveacid.jobs.fields import require_table
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import Report, RunReport
from hiveacid.jobs.run_options import RunOptions
from hiveacid.jobs.sources import ChangesSource, QuerySource, Source, TableSource
from hiveacid.rules.locks import LockType, Operation
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token, source_token
from hiveacid.rules.texts import did_you_mean

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

    def __new__(cls, *_: Any, **field_values: Any) -> Self:
        """Refuse an unknown field, with a suggestion."""
        field_names = [field.name for field in fields(cls)]
        if unknown_names := [name for name in field_values if name not in field_names]:
            raise InvalidJob(
                f"{cls.__name__} has no field {unknown_names[0]!r}.",
                remedy=did_you_mean(unknown_names[0], field_names)
                or f"Its fields are {', '.join(field_names)}.",
            )
        return object.__new__(cls)

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is defined twice; the second class has the same tag.
        if "tag" in vars(cls):
            Job._concrete[cls.tag] = cls

    @classmethod
    def kinds(cls) -> list[type["Job"]]:
        """Return the concrete jobs of this kind, as far as their modules are imported."""
        return [job_class for job_class in Job._concrete.values() if issubclass(job_class, cls)]

    def __str__(self) -> str:
        """The job as YAML, as Airflow shows it among the rendered templates."""
        # job_text imports this module.

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

    def bind(self, other_job: "Job", **changes: Any) -> Self:
        """Return the job with the metastore and the options of another job.

        Args:
            other_job: The other job.
            changes: Other values of fields.
        """
        return replace(self, **{"metastore": other_job.metastore, **other_job.options, **changes})

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the job writes, by their full names."""
        return (self.target,)

    @property
    def parts(self) -> "tuple[Job, ...]":
        """The jobs with one table each that this job consists of."""
        return (self,)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks of the job and of its statements, each with its table."""
        return ()

    @property
    def tables_checked(self) -> tuple[str, ...]:
        """The tables whose rows the results of checks can show, although the job did not bring them."""
        return ()

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
        own_names = {
            name.lower() for part in (self, *self.parts) for name in (part.target, *part.tables)
        }
        foreign_names = sorted(
            {name for name in report.table_names() if name.lower() not in own_names}
        )
        if foreign_names:
            raise CorruptFile(
                f"The report of the job on {self.target} names {foreign_names[0]!r}, which the job does not"
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

    def is_undone_by(self, later_job: Job) -> bool:
        """Whether the job, if it runs again, destroys what a later statement has done.

        Args:
            later_job: A statement of the same script.
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


# Tables and paths that a job accesses, as far as its fields name them


def accesses_of(job: object) -> tuple[Access, ...]:
    """List the accesses of a job, or of a question in SQL, and of all jobs inside it.

    A query names its inputs; tables that Spark resolves by other names are not included.

    Args:
        job: The job or the question.

    Returns:
        The accesses; an empty tuple for an incomplete job, which ``require_access`` refuses.
    """
    return tuple(dict.fromkeys(_accesses(job)))


def paths_read(job: object) -> tuple[str, ...]:
    """List the locations that a job names, and reads."""
    return _paths(job, "paths_read")


def paths_written(job: object) -> tuple[str, ...]:
    """List the locations that a job names, and creates or writes."""
    return _paths(job, "paths_written")


def paths_of(job: object) -> tuple[str, ...]:
    """List the locations that a job names itself.

    Args:
        job: The job.
    """
    return tuple(dict.fromkeys((*paths_read(job), *paths_written(job))))


def _paths(job: object, name: str) -> tuple[str, ...]:
    paths = (path for part in _parts(job) for path in getattr(part, name, ()))
    return tuple(dict.fromkeys(paths))


def _accesses(job: object) -> Iterator[Access]:
    for part in _parts(job):
        if isinstance(part, TableSource | ChangesSource):
            yield Access(part.name.lower(), None, READ)
        elif isinstance(part, TableRef):
            yield Access(part.full_name, None, READ)
        elif (columns_read := getattr(part, "columns_read", None)) is not None:
            for name, columns in columns_read.items():
                yield Access(name.lower(), columns, READ)
        elif (own_accesses := getattr(part, "own_accesses", None)) is not None:
            yield from own_accesses()
            if isinstance(part, Job):
                yield from (Access(name, None, READ) for name in part.tables_checked)


def _parts(value: object) -> Iterator[object]:
    """Yield all dataclasses inside a value, and itself."""
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _parts(entry)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _parts(entry)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))


# Job as readable text: YAML without default values, one clause of a merge per line


_HEADS = {
    MatchedUpdate: "MATCHED",
    MatchedDelete: "MATCHED",
    NotMatchedInsert: "NOT MATCHED",
    NotMatchedBySourceUpdate: "NOT MATCHED BY SOURCE",
    NotMatchedBySourceDelete: "NOT MATCHED BY SOURCE",
}
# Text that YAML parses as a string without quotes.
_PLAIN = re.compile(r"[A-Za-z_/(](?!.*(: |:$| #)).*(?<! )")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def job_text(job: object) -> str:
    """Write a job as YAML.

    Args:
        job: Any job.
    """
    return "\n".join(_lines(_plain(job)))


def _plain(value: Any) -> Any:
    """Convert a value to mappings, lists and texts, without fields that have default values."""
    if isinstance(value, Clause):
        return without_secrets(_clause(value))
    if is_dataclass(value) and not isinstance(value, type):
        field_values = {
            f.name: getattr(value, f.name) for f in fields(value) if not _is_usual(value, f)
        }
        for name in field_values.keys() & {"options", "catalog_options", "properties"}:
            field_values[name] = options_without_secrets(field_values[name])
        if "params" in field_values:
            field_values["params"] = dict.fromkeys(field_values["params"], "***")
        if isinstance(field_values.get("sql"), str):
            # In a DAG file, the text is indented and begins with an empty line.
            field_values["sql"] = textwrap.dedent(field_values["sql"]).strip("\n ")
        return codec.tag_of(value) | {name: _plain(entry) for name, entry in field_values.items()}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return without_secrets(value) if isinstance(value, str) else value


def _is_usual(value: object, field: Field[Any]) -> bool:
    usual = field.default
    if field.default_factory is not MISSING:
        usual = field.default_factory()
    return bool(getattr(value, field.name) == usual)


def _clause(clause: Clause) -> str:
    """Write a clause as SQL."""
    also = "" if clause.condition is None else f" AND {clause.condition}"
    return f"WHEN {_HEADS[type(clause)]}{also} THEN {_action(clause)}"


def _action(clause: Clause) -> str:
    if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
        return "DELETE"
    if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
        if clause.set is None:
            return "UPDATE SET *"
        return f"UPDATE SET {', '.join(f'{name} = {to}' for name, to in clause.set.items())}"
    if clause.row is not None:
        return f"INSERT VALUES ({', '.join(clause.row)})"
    if clause.values is None:
        return "INSERT *"
    return f"INSERT ({', '.join(clause.values)}) VALUES ({', '.join(clause.values.values())})"


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of a mapping or of a list that is not empty."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entry(f"{_text(key)}:", entry)
        return
    for entry in value:
        if isinstance(entry, Mapping | list) and entry:
            first, *further_lines = _lines(entry)
            yield f"- {first}"
            yield from (f"  {line}" for line in further_lines)
        else:
            yield from _entry("-", entry)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list) and value:
        yield head
        inner_lines: Iterator[str] = _lines(value)
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |-"
        inner_lines = iter(value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"
        return
    yield from (f"  {line}" if line else "" for line in inner_lines)


def _is_block(text: str) -> bool:
    """Whether a text of several lines, mostly SQL, can be written unchanged."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and bool(lines[0])
        and bool(lines[-1])
        and not lines[0].startswith(" ")
        and all(line == "" or line.isprintable() for line in lines)
    )


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return _quoted(value) if value.lower() in _WORDS else _text(value)


def _text(text: str) -> str:
    return text if text.isprintable() and _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
