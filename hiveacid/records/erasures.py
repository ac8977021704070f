"""Requests to erase keys: one record for each, in a folder outside of all tables.

The record is the only state of a request. It contains salted hashes of the keys, never the keys, and
each step of the request replaces it as a whole.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hiveacid.errors import (
    ConflictError,
    CorruptFile,
    DataError,
    InvalidJob,
    NewerRecord,
    StorageError,
)
from hiveacid.jobs import codec
from hiveacid.jobs.erase_job import EraseReport, Wait, require_folder, require_request
from hiveacid.records.numbered_file import NumberedFile
from hiveacid.rules.formats import Obligation
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import LocatedTable
from hiveacid.storage.folder import ReadOnlyStorage, Storage

CERTIFICATE, CERTIFICATE_TEXT = "certificate.json", "certificate.txt"
_RECORD = "record"
# About four million keys.
_LARGEST_RECORD = 256 << 20
_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTable:
    """A table of a request.

    Attributes:
        table: The table, its creation and its folder.
        column: The column with the keys.
        type: The type of the column.
        join: The column of another table of the request whose values are the keys of this one,
            "database.table.column"; empty if they are those of the request.
        hashes: The salted hashes of these values, from the delete on; see ``Erasure``.
        write_id: The write id of the last delete; None before it.
        rows_deleted: The number of rows that all deletes of the request have removed.
    """

    table: LocatedTable
    column: str
    type: str
    join: str = ""
    hashes: str = ""
    write_id: int | None = None
    rows_deleted: int = 0

    @property
    def key_hashes(self) -> frozenset[str]:
        """The salted hashes of the keys of this table alone."""
        return frozenset(self.hashes.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file that held a key after the delete.

    Attributes:
        table: The table, "database.table".
        partition: The partition; None for a table without partitions, and outside of partitions.
        path: The location of the file.
        bytes: Its size.
        rows: The number of its rows with a key; 0 if these are not known.
        problem: The reason why it counts, if no row with a key was found in it; else empty.
        found_at: The time at which it was found.
        gone_at: The time at which its removal was noticed; None as long as it exists.
        removed_by: The transaction of the cleaning that removed it; None if another one did.
    """

    table: str
    partition: str | None = None
    path: str
    bytes: int
    rows: int = 0
    problem: str = ""
    found_at: str
    gone_at: str | None = None
    removed_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure(Obligation):
    """State of a request.

    Attributes:
        request: Its name.
        user: The user who made it.
        requested_at: The time of the request.
        deadline: The time at which the erasure must be complete.
        retention: See ``EraseJob``.
        mirrors: The folders of mirrors in Iceberg.
        source: A description of the source of the keys, without keys.
        salt: The salt of the hashes, in hexadecimal digits.
        hashes: The salted hashes of the keys, sorted, and separated by spaces: one text is written
            much faster than a list of 100,000.
        tables: The tables.
        run_tokens: The run tokens of the deletes that were begun.
        txn_ids: The transactions of the deletes that were committed.
        deleted_at: The time of the last delete.
        searched_at: The time of the last search over all files.
        statistics_at: The time at which the statistics of columns were replaced.
        statistics: The columns whose statistics were replaced, "database.table/partition: column".
        files: The files that held keys.
        waits: The causes that delay the certificate.
        checked_at: The time at which this was determined.
        certificate: The location of the certificate; None before it is issued.
    """

    request: str
    user: str
    requested_at: str
    deadline: str
    retention: str | None = None
    mirrors: tuple[str, ...] = ()
    source: str
    salt: str
    hashes: str
    tables: tuple[ErasedTable, ...]
    run_tokens: tuple[str, ...] = ()
    txn_ids: tuple[int, ...] = ()
    deleted_at: str | None = None
    searched_at: str | None = None
    statistics_at: str | None = None
    statistics: tuple[str, ...] = ()
    files: tuple[HeldFile, ...] = ()
    waits: tuple[Wait, ...] = ()
    checked_at: str | None = None
    certificate: str | None = None

    @property
    def key_hashes(self) -> frozenset[str]:
        """The salted hashes of the keys."""
        return frozenset(self.hashes.split())

    @property
    def held(self) -> tuple[HeldFile, ...]:
        """The files that still exist."""
        return tuple(file for file in self.files if file.gone_at is None)

    @property
    def needs_delete(self) -> bool:
        """Whether the rows are not deleted yet, or must be deleted once more."""
        return len(self.txn_ids) < max(1, len(self.run_tokens))

    def age(self, now: datetime) -> timedelta:
        """Return the time since the request."""
        return now - datetime.fromisoformat(self.requested_at)

    def left(self, now: datetime) -> timedelta:
        """Return the time until the deadline; negative after it."""
        return datetime.fromisoformat(self.deadline) - now

    def with_files(self, found: Iterable[HeldFile]) -> "Erasure":
        """Add the result of a search."""
        known = {(file.path, file.bytes): file for file in self.files if file.gone_at is None}
        gone = [file for file in self.files if file.gone_at is not None]
        for file in found:
            known.setdefault((file.path, file.bytes), file)
        return replace(self, files=(*gone, *known.values()))

    def report(self, *, dry_run: bool = False) -> EraseReport:
        """Describe the state."""
        held = self.held
        names = {"/".join(filter(None, (file.table, file.partition))) for file in held}
        return EraseReport(
            job="erase",
            target=self.tables[0].table.name,
            request=self.request,
            dry_run=dry_run,
            requested_at=self.requested_at,
            deadline=self.deadline,
            rows_deleted=sum(table.rows_deleted for table in self.tables),
            partitions=tuple(sorted(names)),
            bytes=sum(file.bytes for file in held),
            files=len(held),
            waits=self.waits,
            certificate=self.certificate,
        )


def hash_of_key(salt: bytes, text: str) -> str:
    """Return the salted hash of a key.

    Args:
        salt: The salt of the request.
        text: The key as text; see ``key_texts``.
    """
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_HASH_BYTES, key=salt)
    return digest.hexdigest()


def now_text() -> str:
    """Return the present time for records."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class ErasureFolder:
    """The folder of requests and certificates.

    Args:
        location: The folder, which the caller has checked by ``allowed_locations``.
    """

    def __init__(self, location: Location) -> None:
        require_folder(location)
        self.location = location

    def names(self) -> list[str]:
        """List the requests."""
        return ReadOnlyStorage.of(self.location).list_directories(missing_ok=True)

    def requests(self) -> tuple[list[Erasure], dict[str, DataError]]:
        """Read all requests.

        Returns:
            The requests, the oldest first, and the errors of those whose records are damaged or of a
            newer version, by name.
        """
        known: list[Erasure] = []
        problems: dict[str, DataError] = {}
        for name in self.names():
            try:
                found = self.open(name).read()
            except InvalidJob:
                continue  # A name that no request can have, such as that of a folder for trash.
            except (CorruptFile, NewerRecord) as error:
                problems[name] = error
                continue
            if found is not None:
                known.append(found[1])
        known.sort(key=lambda erasure: (erasure.requested_at, erasure.request))
        return known, problems

    def open(self, request: str) -> "ErasureRecord":
        """Return the record of a request, which need not exist yet."""
        require_request(request)
        return ErasureRecord(below(self.location, request))


class ErasureRecord:
    """The files of one request.

    Args:
        location: The folder of the request.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self._storage = Storage.of(location)
        self._file = NumberedFile(self._storage, _RECORD, _LARGEST_RECORD)

    def read(self) -> tuple[int, Erasure] | None:
        """Read the number and the state of the request; None without a request.

        Raises:
            CorruptFile: The record cannot be read.
            NewerRecord: A newer version has written it.
        """
        found = self._file.read()
        if found is None:
            return None
        number, content = found
        try:
            where = f"The request in {self.location}"
            return number, codec.read_obligation(Erasure, content, where)
        except InvalidJob as error:
            raise CorruptFile(
                f"{self.location} has no readable record of a request: {error.what}",
                remedy="Restore it from a backup, or make the request again under another name.",
            ) from error

    def write(self, number: int, erasure: Erasure) -> None:
        """Replace the state that has the number before.

        Raises:
            ConflictError: Another process has replaced it meanwhile.
        """
        if not self._file.write(number, codec.to_bytes(erasure), follows=number > 1):
            raise ConflictError(
                f"Another process works on the request {erasure.request}.",
                remedy="Run it again; work that is done is not repeated.",
            )

    def certificate(self) -> bytes | None:
        """Return the certificate, or None before it is issued."""
        return self._storage.read_small(CERTIFICATE, _LARGEST_RECORD)

    def issue(self, content: bytes, text: str) -> bytes:
        """Write a certificate unless there is one; return the one that counts.

        The text of the certificate may be written again, but the certificate never changes.
        """
        try:
            self._storage.write_file(CERTIFICATE, content)
        except StorageError:
            if self.certificate() is None:
                raise
        issued = self.certificate()
        if issued == content:
            self._storage.write_file(CERTIFICATE_TEXT, text.encode(), replace=True)
        assert issued is not None
        return issued


def signature_of(key: bytes, content: bytes) -> str:
    """Return the signature of a certificate by a secret key."""
    return hmac.new(key, content, hashlib.sha256).hexdigest()
