"""Requests to erase keys.

A request is its record (``records.erasures``). ``Eraser.advance`` performs each step that is possible
now, and returns the state with everything that the request waits for.

A record is read once, and its steps are only given out after the authorizer was asked for everything
that they open: by the rights of the user who continues the request, and of the one who made it.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.erasure.keys import KeySet, keys_of, keys_of_program
from hiveacid.erasure.rows import key_column
from hiveacid.erasure.steps import Steps
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.erase_job import EraseJob, EraseReport, KeyColumn, Wait
from hiveacid.jobs.job import Access
from hiveacid.jobs.sources import BatchSource, PathSource, Source, inputs_of
from hiveacid.jobs.write_jobs import skipping_empty_sources
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, located
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.erasures import ErasedTable, Erasure, ErasureFolder, ErasureRecord
from hiveacid.records.signatures import SigningKey, key_of_hashes
from hiveacid.rules.names import TableRef, plain_location
from hiveacid.tables.locations import require_free, require_job_access


def erase_keys(
    client: MetastoreClient,
    table: TableRef,
    column: str,
    keys: Any,
    observers: Sequence[PhaseObserver],
    **options: Any,
) -> EraseReport:
    """Erase the rows of a table with some keys, for the Python interfaces of tables.

    Args:
        client: The metastore.
        table: The table.
        column: The column with the keys.
        keys: Values, or their source; see ``AcidTable.erase``.
        observers: Receive the phases.
        options: Other fields of ``EraseJob``.
    """
    is_source = isinstance(keys, Source)
    job = EraseJob(
        keys=keys if is_source else BatchSource("keys"),
        columns={table.full_name: column},
        metastore=client.options,
        **options,
    )
    job.validate()
    require_job_access(client, program_user(), job)
    texts = None if is_source else keys_of_program(keys)
    return Eraser(client, job.folder, observers).run(job, texts)


@dataclass
class Eraser:
    """Works on the requests in a folder.

    Attributes:
        client: The metastore.
        folder: The folder of requests and certificates.
        observers: Observers of the phases.
        clock: The present time; tests replace it.
        user: The user who makes or continues requests, as the authorizer knows it.
        key: The key of the installation, if one is configured; None in a process that only looks.
    """

    client: MetastoreClient
    folder: str
    observers: Sequence[PhaseObserver] = ()
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    user: str = field(default_factory=program_user)
    key: SigningKey | None = field(default_factory=SigningKey.configured)

    def __post_init__(self) -> None:
        folder = self.client.allowed_locations.require(self.folder)
        self._phases = PhaseClock(self.observers)
        self._folder = ErasureFolder(folder, self.key)

    def run(self, job: EraseJob, texts: Sequence[str] | None = None) -> EraseReport:
        """Make a request, or continue it, as far as is possible now.

        Args:
            job: The request.
            texts: The keys, if the job names no source of them.

        Raises:
            InvalidJob: The request exists with other keys or tables.
            CorruptFile: Its record was not written by this installation.
            AccessRefused: The user who made it, or the one who continues it, may not erase a table.
            UnsupportedTable: Rows of a table cannot be deleted, or its keys cannot be compared.
            ConflictError: Another process works on the request.
        """
        job.validate()
        tables = [self._eraseable(name, text) for name, text in job.columns.items()]
        if not job.dry_run:
            # The reader of a killed attempt would delay the certificate.
            abort_open_transactions(self.client, job.source_token)
        if texts is None:
            with self._phases(Phase.READ, "the keys"), skipping_empty_sources(job.on_empty):
                texts = keys_of(self.client, job.keys, job.source_token)
        record = self._folder.open(job.request)
        if job.dry_run:
            planned = self._steps_of(record, 0, self._new(job, tables, texts))
            planned.keys = KeySet.of(planned.keys.salt, texts)
            return planned.plan(job.source_token).report(dry_run=True)
        steps = self._read(record)
        if steps is None:
            require_free(self.client, [self.folder], "The folder of erasures")
            erasure = self._new(job, tables, texts)
            record.write(1, erasure)
            steps = self._steps_of(record, 1, erasure)
        steps.require_key()
        keys = KeySet.of(steps.keys.salt, texts)
        if keys.hashes != steps.erasure.key_hashes:
            raise InvalidJob(
                f"The keys of the request {job.request} have changed since it was made.",
                remedy="Make another request for other keys, and repeat this one with its own.",
            )
        if _columns(steps.erasure.tables) != _columns(tables):
            raise InvalidJob(
                f"The request {job.request} has other tables.",
                remedy="Make another request for other tables.",
            )
        steps.keys = keys
        return steps.run().report()

    def advance(self, request: str) -> Erasure:
        """Continue a request as far as is possible now; see ``run``.

        Raises:
            InvalidJob: There is no such request.
        """
        return self._existing(request).run()

    def delays(self, request: str) -> tuple[Wait, ...]:
        """Return what delays a request now, without a change and without a search of files.

        Raises:
            InvalidJob: There is no such request.
            CorruptFile: Its record was not written by this installation.
            AccessRefused: The user who made it, or the one who looks at it, may not erase a table.
        """
        # No mirror is opened, whose owners only the locations of all tables tell.
        return self._existing(request, with_mirrors=False).delays()

    def _existing(self, request: str, *, with_mirrors: bool = True) -> Steps:
        steps = self._read(self._folder.open(request), with_mirrors=with_mirrors)
        if steps is None:
            raise InvalidJob(
                f"{self.folder} has no request {request}.",
                remedy="`hiveacid erasures` lists the requests.",
            )
        return steps

    def requests(self, only: str | None = None) -> tuple[list[Steps], dict[str, HiveAcidError]]:
        """Read all requests.

        Args:
            only: The name of one, which need not exist; None reads all.

        Returns:
            The steps of each, the oldest request first, and the errors of those that are damaged, forged,
            of a newer version, or of tables that the user may not erase, by name.
        """
        readable: list[Steps] = []
        problems: dict[str, HiveAcidError] = {}
        names = [name for name in self._folder.names() if only in (None, name)]
        for name, steps in self._folder.each(self._read, names):
            if isinstance(steps, HiveAcidError):
                problems[name] = steps
            elif steps is not None:
                readable.append(steps)
        readable.sort(key=lambda steps: (steps.erasure.requested_at, steps.erasure.request))
        return readable, problems

    def _read(self, record: ErasureRecord, *, with_mirrors: bool = True) -> Steps | None:
        """Read a request, and ask for its accesses; None without a request."""
        state = record.read()
        if state is None:
            return None
        number, erasure = state
        users = dict.fromkeys((self.user, erasure.user))
        tables = [erased.table.name for erased in erasure.tables]
        locations = (*erasure.files_elsewhere(), *(erasure.mirrors if with_mirrors else ()))
        for mirror in erasure.mirrors:
            self.client.allowed_locations.require(mirror)
        require_erasure_access(self.client, users, tables, locations)
        return self._steps_of(record, number, erasure)

    def _steps_of(self, record: ErasureRecord, number: int, erasure: Erasure) -> Steps:
        keys = KeySet(key_of_hashes(erasure.salt, self.key), erasure.key_hashes)
        return Steps(
            client=self.client,
            observers=self.observers,
            clock=self.clock,
            folder=self.folder,
            record=record,
            number=number,
            erasure=erasure,
            keys=keys,
            key=self.key,
        )

    def _eraseable(self, name: str, text: str) -> ErasedTable:
        """Describe a table of a request, or refuse it."""
        wanted = KeyColumn.parse(text)
        table = existing_table(self.client, TableRef.parse(name))
        column = key_column(self.client, table, wanted.column)
        if wanted.table is not None:
            other_table = existing_table(self.client, TableRef.parse(wanted.table))
            key_column(self.client, other_table, wanted.equal)
        return ErasedTable(
            table=located(table), column=column.name, type=column.type, join=wanted.join
        )

    def _new(self, job: EraseJob, tables: Sequence[ErasedTable], texts: Sequence[str]) -> Erasure:
        salt, now = secrets.token_bytes(16).hex(), self.clock()
        keys = KeySet.of(key_of_hashes(salt, self.key), texts)
        return Erasure(
            request=job.request,
            user=self.user,
            requested_at=now.isoformat(timespec="seconds"),
            deadline=(now + timedelta(days=job.within_days)).isoformat(timespec="seconds"),
            retention=job.retention,
            mirrors=tuple(map(plain_location, job.mirrors)),
            source=_description(job.keys),
            salt=salt,
            hashes=keys.record,
            tables=tuple(tables),
        )


def _columns(tables: Iterable[ErasedTable]) -> set[tuple[str, str, str]]:
    return {(erased.table.name, erased.column, erased.join) for erased in tables}


def _description(source: Source) -> str:
    """Name a source without its values."""
    names = [
        read.path if isinstance(read, PathSource) else f"table {read.name}"
        for read in inputs_of(source).values()
        if not isinstance(read, BatchSource)
    ]
    return ", ".join(names) or "The caller"


@dataclass(frozen=True)
class _Opened:
    """What a record or a certificate names, in the form of a job."""

    tables: Sequence[str]
    paths_read: Sequence[str]

    def own_accesses(self) -> Iterator[Access]:
        for table in self.tables:
            yield Access(table.lower(), None, EraseJob.tag)


def require_erasure_access(
    client: MetastoreClient, users: Iterable[str], tables: Sequence[str], locations: Sequence[str]
) -> None:
    """Ask the authorizer whether users may erase tables, and read locations outside of them.

    Raises:
        AccessRefused: A location is not allowed, or the authorizer refuses an access of a user.
    """
    for user in users:
        require_job_access(client, user, _Opened(tables, locations))
