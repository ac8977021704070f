"""Requests to erase keys.

A request is its record (``records.erasures``). ``Eraser.advance`` performs each step that is possible
now, and returns the state with everything that the request waits for.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hiveacid.errors import (
    EmptySource,
    InvalidJob,
)
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
from hiveacid.rules.names import TableRef, plain_location
from hiveacid.rules.texts import plural
from hiveacid.tables.locations import require_free
from hiveacid.tables.visible_files import FilesReader
from hiveacid.upkeep.erasure.key_set import KeySet, key_texts
from hiveacid.worker.erased_rows import key_column
from hiveacid.worker.erasure_steps import Steps
from hiveacid.worker.sources import source_of


@dataclass
class Eraser:
    """Works on the requests in a folder.

    Attributes:
        client: The metastore.
        folder: The folder of requests and certificates.
        observers: Observers of the phases.
        clock: The present time; tests replace it.
    """

    client: MetastoreClient
    folder: str
    observers: Sequence[PhaseObserver] = ()
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        folder = self.client.allowed_locations.require(self.folder)
        self._phases = PhaseClock(self.observers)
        self._folder = ErasureFolder(folder)

    def run(self, job: EraseJob, texts: Sequence[str] | None = None) -> EraseReport:
        """Make a request, or continue it, as far as is possible now.

        Args:
            job: The request.
            texts: The keys, if the job names no source of them.

        Raises:
            InvalidJob: The request exists with other keys or tables.
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
        known = record.read()
        if known is None:
            require_free(self.client, [self.folder], "The folder of erasures")
            known = 1, self._new(job, tables, texts)
            record.write(*known)
        number, erasure = known
        keys = KeySet.of(bytes.fromhex(erasure.salt), texts)
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
        return self._steps_of(record, number, erasure, keys).run().report()

    def advance(self, request: str) -> Erasure:
        """Continue a request as far as is possible now.

        Args:
            request: The name of the request.

        Raises:
            InvalidJob: There is no such request.
            ConflictError: Another process works on the request.
        """
        return self._steps(request).run()

    def tables(self, request: str) -> list[str]:
        """Return the names of the tables of a request.

        Raises:
            InvalidJob: There is no such request.
        """
        return [each.table.name for each in self._steps(request).erasure.tables]

    def delays(self, request: str) -> tuple[Wait, ...]:
        """Return what delays a request now, without a change and without a search of files.

        Args:
            request: The name of the request.

        Raises:
            InvalidJob: There is no such request.
        """
        return self._steps(request).delays()

    def _steps(self, request: str) -> Steps:
        record = self._folder.open(request)
        known = record.read()
        if known is None:
            raise InvalidJob(
                f"{self.folder} has no request {request}.",
                remedy="`hiveacid erasures` lists the requests.",
            )
        number, erasure = known
        keys = KeySet(bytes.fromhex(erasure.salt), erasure.key_hashes)
        return self._steps_of(record, number, erasure, keys)

    def _steps_of(
        self, record: ErasureRecord, number: int, erasure: Erasure, keys: KeySet
    ) -> Steps:
        return Steps(
            self.client, self.observers, self.clock, self.folder, record, number, erasure, keys
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
            user=program_user(),
            requested_at=now.isoformat(timespec="seconds"),
            deadline=(now + timedelta(days=job.within_days)).isoformat(timespec="seconds"),
            retention=job.retention,
            mirrors=tuple(map(plain_location, job.mirrors)),
            source=_described(job.keys),
            salt=salt.hex(),
            hashes=" ".join(sorted(KeySet.of(salt, texts).hashes)),
            tables=tuple(tables),
        )

    def _plan(
        self, job: EraseJob, tables: Sequence[ErasedTable], texts: Sequence[str]
    ) -> EraseReport:
        """Report what a request would do, and what would delay it."""
        erasure = self._new(job, tables, texts)
        keys = KeySet.of(bytes.fromhex(erasure.salt), texts)
        steps = self._steps_of(self._folder.open(job.request), 0, erasure, keys)
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
