"""Job that erases persons' data from tables, and its report."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import (
    awaits_rendering,
    freeze,
    require_choice,
    require_list,
    require_mapping,
    require_table,
    require_text,
)
from hiveacid.jobs.job import Access, Job
from hiveacid.jobs.report import Report
from hiveacid.jobs.sources import QuerySource, Source, inputs_of, query_of, require_source
from hiveacid.rules.names import plain_location
from hiveacid.rules.run_tokens import marked_token, source_token
from hiveacid.rules.texts import parse_duration
from hiveacid.settings import setting

# A column, alone or with the column of another table that it equals.
_JOINED = re.compile(r"\s*([^=]+?)\s*=\s*([^=.\s]+\.[^=.\s]+)\.([^=.]+?)\s*")
# The time limit of the laws that most requests refer to.
WITHIN_DAYS = 30
# Deletes of one request: a further one follows if a concurrent insert had committed later.
MOST_ROUNDS = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Column with the keys of a table, or with values that the erased rows of another table have.

    Attributes:
        column: The column.
        table: The other table; None if the column has the keys of the request.
        equal: The column of the other table with the same values.
    """

    column: str
    table: str | None = None
    equal: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "customer", or "order_id = sales.orders.id"."""
        match = _JOINED.fullmatch(text)
        return cls(text.strip()) if match is None else cls(match[1], match[2], match[3].strip())

    @property
    def join(self) -> str:
        """The column of the other table, "sales.orders.id"; empty without one."""
        return "" if self.table is None else f"{self.table.lower()}.{self.equal.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Something that delays the certificate of an erasure.

    Attributes:
        kind: "writer", "reader", "retention", "consumer", "staged change", "mirror", "compaction",
            "statistics", "table", or "file".
        table: The table.
        reason: The reason in a sentence.
    """

    kind: str
    table: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport(Report):
    """State of a request after a run.

    Attributes:
        request: The name of the request.
        dry_run: Whether nothing was changed.
        requested_at: The time of the request.
        deadline: The time at which the erasure must be complete.
        rows_deleted: The number of deleted rows; of a dry run, the number of rows to delete.
        partitions: The partitions with files that hold keys, or such tables without partitions.
        bytes: The size of these files; of a dry run, an upper limit of the bytes to rewrite.
        files: The number of files that still hold a key.
        waits: The causes that delay the certificate.
        certificate: The location of the certificate; None before it is issued.
    """

    request: str
    dry_run: bool = False
    requested_at: str = ""
    deadline: str = ""
    rows_deleted: int = 0
    partitions: tuple[str, ...] = ()
    bytes: int = 0
    files: int = 0
    waits: tuple[Wait, ...] = ()
    certificate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseJob(Job):
    """Erase all rows with some keys from tables, their earlier versions, and their files.

    One transaction deletes the rows of all tables. Then their files are rewritten and removed as soon
    as no reader, consumer, or retention needs them. A certificate is issued when no file holds a key.

    Example::

        EraseJob(
            request="2026-03-01",
            keys=TableSource("privacy.requests_of_today"),
            columns={"sales.orders": "customer", "web.visits": "visitor"},
            folder="file:/srv/erasures",
        )

    Attributes:
        request: The name of the request. A run with the same name continues the request.
        keys: The source of the keys: a table, files, or a query, with one column. Values in the
            parameters of a query are not shown.
        columns: The tables, each with the column that holds the keys. A table that has the persons
            only through an earlier one names the equal column: {"sales.orders": "customer",
            "sales.lines": "order_id = sales.orders.id"}.
        folder: The folder of requests and certificates, outside of all tables; the option erasures
            of [hive_acid] by default.
        mirrors: The folders of the mirrors of the tables in Iceberg, which are searched as well.
        within_days: The days after the request in which the erasure must be complete.
        retention: The time in which files are kept for earlier versions, like "7 days"; "0" removes
            them as soon as no open reader needs them. None uses the retention of each table.
        on_empty: "fail" makes a source without keys an error; "skip" skips the task.
        dry_run: Only report the rows, the files, and everything that would delay the erasure.
        target: The first table, which is set automatically.
    """

    tag: ClassVar[str] = "erase"
    report: ClassVar[type[Report]] = EraseReport
    done: ClassVar[str] = "no row had a key"
    effect: ClassVar[str] = "rewrites and removes files that hold the keys"
    affects_files: ClassVar[bool] = True

    target: str = ""
    request: str
    keys: Source
    columns: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    mirrors: Sequence[str] = ()
    within_days: int = WITHIN_DAYS
    retention: str | None = None
    on_empty: str = "fail"
    dry_run: bool = False

    def __post_init__(self) -> None:
        freeze(self, "mirrors")
        if not self.target and isinstance(self.columns, Mapping) and self.columns:
            object.__setattr__(self, "target", next(iter(self.columns)))
        if not self.folder:
            object.__setattr__(self, "folder", setting("erasures"))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables."""
        return tuple(self.columns)

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The source of the keys."""
        return inputs_of(self.keys)

    @property
    def query(self) -> QuerySource | None:
        """The query for the keys, if the source is one."""
        return query_of(self.keys)

    @property
    def paths_read(self) -> tuple[str, ...]:
        """The folders of the mirrors."""
        return tuple(self.mirrors)

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folder of the requests."""
        return (self.folder,) if self.folder else ()

    def own_accesses(self) -> Iterator[Access]:
        """Yield the tables."""
        for table in self.columns:
            yield Access(table.lower(), None, self.tag)

    @property
    def source_token(self) -> str:
        """The name of the transactions that read the keys, and the rows of a dry run."""
        return source_token(marked_token(self._run_token(1), self.tables))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all transactions of the request, which end with the task."""
        tables = (self.tables, *((table,) for table in self.tables))
        tokens = [
            marked_token(self._run_token(number), names)
            for number in range(1, MOST_ROUNDS + 1)
            for names in tables
        ]
        return tuple(
            dict.fromkeys(name for token in tokens for name in (token, source_token(token)))
        )

    def _run_token(self, number: int) -> str:
        return token_of_request(self.folder, self.request, number)

    def _validate_own(self) -> None:
        require_request(self.request)
        require_source(self.keys)
        require_mapping(self.columns, "columns", '{"sales.orders": "customer"}')
        if not self.columns:
            raise InvalidJob(
                "columns is empty.",
                remedy='Name each table and its column: columns={"sales.orders": "customer"}.',
            )
        for table, column in self.columns.items():
            require_table(table, "columns")
            require_text(column, f"columns[{table!r}]")
        self._require_order()
        if self.target != next(iter(self.columns)):
            raise InvalidJob("target of an EraseJob is its first table.", remedy="Omit it.")
        require_folder(self.folder)
        require_list(self.mirrors, "mirrors", 'mirrors=["file:/lake/orders"]')
        for mirror in self.mirrors:
            require_location(mirror, "mirrors")
        require_choice(self.on_empty, ["fail", "skip"], "on_empty")
        if not 1 <= self.within_days <= 3660:
            raise InvalidJob("within_days must be from 1 to 3660.")
        if self.retention is not None:
            require_text(self.retention, "retention")
            if not awaits_rendering(self.retention):
                parse_duration(self.retention, "retention")

    def _require_order(self) -> None:
        """Refuse a table whose keys are in a table that does not stand before it."""
        earlier_tables: set[str] = set()
        for table, text in self.columns.items():
            key_table = KeyColumn.parse(text).table
            if (
                key_table is not None
                and key_table.lower() not in earlier_tables
                and not awaits_rendering(text)
            ):
                raise InvalidJob(
                    f"columns[{table!r}] needs the erased rows of {key_table}, which is not before it.",
                    remedy="Name first the tables that have the keys of the request.",
                )
            earlier_tables.add(table.lower())


def require_request(name: object) -> None:
    """Refuse a text that cannot be the name of a request, which names a folder and transactions."""
    require_text(name, "request")
    if not awaits_rendering(str(name)) and not _NAME.fullmatch(str(name)):
        raise InvalidJob(
            f"request {name!r} is not a name of letters, digits, '.', '_' and '-'.",
            remedy="A date or the number of a case is a good name; a person's name is not.",
        )


def require_folder(folder: str) -> None:
    """Refuse a missing folder of requests."""
    if not folder:
        raise InvalidJob(
            "There is no folder for requests and certificates.",
            remedy="Set folder, or the option erasures of [hive_acid].",
        )
    require_location(folder, "folder")


def require_location(folder: str, subject: str) -> None:
    """Refuse a location without its file system."""
    if ":/" not in folder and not awaits_rendering(folder):
        raise InvalidJob(
            f"{subject} {folder!r} does not name its file system.",
            remedy=f"Write file:{folder}, for example.",
        )


def token_of_request(folder: str, request: str, number: int) -> str:
    """Return the run token of a delete of a request: any process that repeats it finds it.

    Args:
        folder: The folder of the request.
        request: The name of the request.
        number: The number of the delete, from 1 on.
    """
    place = hashlib.sha256(plain_location(folder).encode()).hexdigest()[:12]
    return f"erasure-{request}-{place}-{number}"
