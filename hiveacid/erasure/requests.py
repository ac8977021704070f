"""Requests to erase keys.

A request is its record (``records.erasures``). ``Eraser.advance`` performs each step that is possible
now, and returns the state with everything that the request waits for.

A record is read once, and its steps are only given out after the authorizer was asked for everything
that they open: by the rights of the user who continues the request, and of the one who made it.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hiveacid.erasure.access import require_erasure_access
from hiveacid.erasure.keys import KeySet, key_texts
from hiveacid.erasure.rows import key_column
from hiveacid.erasure.steps import Steps
from hiveacid.errors import EmptySource, HiveAcidError, InvalidJob
from hiveacid.jobs.erase_job import (
    EraseJob,
    EraseReport,
    KeyColumn,
    Wait,
)
from hiveacid.jobs.sources import BatchSource, PathSource, Source, inputs_of
from hiveacid.jobs.write_jobs import skipping_empty_sources
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, located
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.erasures import (
    ErasedTable,
    Erasure,
    ErasureFolder,
    ErasureRecord,
)
from hiveacid.records.signatures import SigningKey, key_of_hashes
from hiveacid.rules.names import TableRef, plain_location
from hiveacid.rules.texts import plural
from hiveacid.tables.locations import require_free
from hiveacid.tables.visible_files import FilesReader
from hiveacid.worker.sources import source_of


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
        if texts is None:
            with self._phases(Phase.READ, "the keys"), skipping_empty_sources(job.on_empty):
                texts = keys_of(self.client, job.keys)
        if job.dry_run:
            return self._plan(job, tables, texts)
        record = self._folder.open(job.request)
        steps = self._known(record)
        if steps is None:
            require_free(self.client, [self.folder], "The folder of erasures")
            erasure = self._new(job, tables, texts)
            record.write(1, erasure)
            steps = self._steps_of(record, 1, erasure)
        steps.require_key()
        erasure, keys = steps.erasure, KeySet.of(steps.keys.salt, texts)
        if keys.hashes != erasure.key_hashes:
            raise InvalidJob(
                f"The keys of the request {job.request} have changed since it was made.",
                remedy="Make another request for other keys, and repeat this one with its own.",
            )
        asked = {(each.table.name, each.column, each.join) for each in tables}
        if {(each.table.name, each.column, each.join) for each in erasure.tables} != asked:
            raise InvalidJob(
                f"The request {job.request} has other tables.",
                remedy="Make another request for other tables.",
            )
        steps.keys = keys
        return steps.run().report()

    def advance(self, request: str) -> Erasure:
        """Continue a request as far as is possible now.

        Args:
            request: The name of the request.

        Raises:
            InvalidJob: There is no such request.
            CorruptFile: Its record was not written by this installation.
            AccessRefused: The user who made it, or the one who continues it, may not erase a table.
            ConflictError: Another process works on the request.
        """
        return self._existing(request).run()

    def delays(self, request: str) -> tuple[Wait, ...]:
        """Return what delays a request now, without a change and without a search of files.

        Args:
            request: The name of the request.

        Raises:
            InvalidJob: There is no such request.
            CorruptFile: Its record was not written by this installation.
            AccessRefused: The user who made it, or the one who looks at it, may not erase a table.
        """
        # No mirror is opened, whose owners only the locations of all tables tell.
        return self._existing(request, with_mirrors=False).delays()

    def _existing(self, request: str, *, with_mirrors: bool = True) -> Steps:
        steps = self._known(self._folder.open(request), with_mirrors=with_mirrors)
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
        known: list[Steps] = []
        problems: dict[str, HiveAcidError] = {}
        names = [name for name in self._folder.names() if only in (None, name)]
        for name, found in self._folder.each(self._known, names):
            if isinstance(found, HiveAcidError):
                problems[name] = found
            elif found is not None:
                known.append(found)
        known.sort(key=lambda steps: (steps.erasure.requested_at, steps.erasure.request))
        return known, problems

    def _known(self, record: ErasureRecord, *, with_mirrors: bool = True) -> Steps | None:
        """Read a request, and ask for its accesses; None without a request."""
        found = record.read()
        if found is None:
            return None
        number, erasure = found
        users = dict.fromkeys((self.user, erasure.user))
        tables = [each.table.name for each in erasure.tables]
        locations = (*erasure.files_elsewhere(), *(erasure.mirrors if with_mirrors else ()))
        for mirror in erasure.mirrors:
            self.client.allowed_locations.require(mirror)
        require_erasure_access(self.client, users, tables, locations)
        return self._steps_of(record, number, erasure)

    def _steps_of(self, record: ErasureRecord, number: int, erasure: Erasure) -> Steps:
        keys = KeySet(key_of_hashes(erasure.salt, self.key), erasure.key_hashes)
        return Steps(
            self.client,
            self.observers,
            self.clock,
            self.folder,
            record,
            number,
            erasure,
            keys,
            self.key,
        )

    def _eraseable(self, name: str, text: str) -> ErasedTable:
        """Describe a table of a request, or refuse it."""
        given = KeyColumn.parse(text)
        table = existing_table(self.client, TableRef.parse(name))
        column = key_column(self.client, table, given.column)
        if given.table is not None:
            other = existing_table(self.client, TableRef.parse(given.table))
            key_column(self.client, other, given.equal)
        return ErasedTable(
            table=located(table), column=column.name, type=column.type, join=given.join
        )

    def _new(self, job: EraseJob, tables: Sequence[ErasedTable], texts: Sequence[str]) -> Erasure:
        salt, now = secrets.token_bytes(16), self.clock()
        return Erasure(
            request=job.request,
            user=self.user,
            requested_at=now.isoformat(timespec="seconds"),
            deadline=(now + timedelta(days=job.within_days)).isoformat(timespec="seconds"),
            retention=job.retention,
            mirrors=tuple(map(plain_location, job.mirrors)),
            source=_described(job.keys),
            salt=salt.hex(),
            hashes=" ".join(sorted(KeySet.of(key_of_hashes(salt.hex(), self.key), texts).hashes)),
            tables=tuple(tables),
        )

    def _plan(
        self, job: EraseJob, tables: Sequence[ErasedTable], texts: Sequence[str]
    ) -> EraseReport:
        """Report what a request would do, and what would delay it."""
        erasure = self._new(job, tables, texts)
        steps = self._steps_of(self._folder.open(job.request), 0, erasure)
        steps.keys = KeySet.of(steps.keys.salt, texts)
        return steps.plan().report(dry_run=True)


def keys_of(client: MetastoreClient, source: Source) -> list[str]:
    """Read keys.

    Args:
        client: The metastore.
        source: A source with one column.

    Raises:
        InvalidJob: The source has other columns.
        EmptySource: It has no keys.
        SparkNeeded: The source is not read without Spark.
    """
    found = source_of(client, source, {})
    if len(found.names) != 1:
        raise InvalidJob(
            f"The source of the keys has {plural(len(found.names), 'column')}.",
            remedy='Select one: QuerySource("SELECT id FROM r", {"r": TableSource("privacy.r")}).',
        )
    with Transaction(client, reads=found.reads) as txn:
        values = found.evaluate(FilesReader(client, txn)).column(0)
    texts = {text for chunk in values.chunks for text in key_texts(chunk).to_pylist()}
    texts.discard(None)
    if not texts:
        raise EmptySource("The source of the keys has no key.")
    return sorted(texts)


def _described(source: Source) -> str:
    """Name a source without its values."""
    names = [
        given.path if isinstance(given, PathSource) else f"table {given.name}"
        for given in inputs_of(source).values()
        if not isinstance(given, BatchSource)
    ]
    return ", ".join(names) or "The caller"
