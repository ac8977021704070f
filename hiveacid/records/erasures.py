"""Requests to erase keys: one record for each, in a folder outside of all tables.

The record is the only state of a request. It contains salted hashes of the keys, never the keys, and
each step of the request replaces it as a whole. With a key of the installation, each record is signed
together with its place and its number, so that none can be forged, changed, or used elsewhere.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import ConflictError, HiveAcidError, InvalidJob, StorageError
from hiveacid.jobs.erase_job import (
    MOST_ROUNDS,
    EraseReport,
    Wait,
    require_folder,
    require_location,
    require_request,
    token_of_request,
)
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import NUMBERED, Kind, RecordStore, SignedRecord
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import LocatedTable, TableRef, plain_location, same_place
from hiveacid.rules.texts import parse_duration
from hiveacid.storage.filesystems import filesystem_of
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage, Storage

CERTIFICATE, CERTIFICATE_TEXT = "certificate.json", "certificate.txt"
_LARGEST_RECORD = 256 << 20
_HASH_BYTES = 16
# The longest key of BLAKE2b.
_LONGEST_SALT = 64
_LARGEST_NUMBER = (1 << 63) - 1
# Only the user of the process that wrote it may read a file.
_PRIVATE = 0o600

T = TypeVar("T")


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
class Erasure(SignedRecord):
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
            much faster than a list of 100,000. If the record is signed, the key is a part of the salt.
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

    record_kind = Kind(
        title="the record of a request",
        folder="record",
        files=NUMBERED,
        is_numbered=True,
        # About four million keys.
        largest=_LARGEST_RECORD,
        remedy="It is damaged, forged, or moved, or was written with another key or none:"
        " restore it from a backup, or make the request again under another name.",
    )

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

    def files_elsewhere(self) -> tuple[str, ...]:
        """Return the folders of files outside of those of the tables, as in partitions elsewhere.

        A step opens no folder of a table that is only named here: the metastore must have the same.
        """
        roots = tuple(f"{plain_location(table.table.location)}/" for table in self.tables)
        outer_paths = [file.path for file in self.held if not _is_below(roots, file.path)]
        return tuple(dict.fromkeys(path.rpartition("/")[0] for path in outer_paths))

    def age(self, now: datetime) -> timedelta:
        """Return the time since the request."""
        return now - datetime.fromisoformat(self.requested_at)

    def left(self, now: datetime) -> timedelta:
        """Return the time until the deadline; negative after it."""
        return datetime.fromisoformat(self.deadline) - now

    def with_files(self, held_files: Iterable[HeldFile]) -> "Erasure":
        """Add the result of a search."""
        present_files = {
            (file.path, file.bytes): file for file in self.files if file.gone_at is None
        }
        removed_files = [file for file in self.files if file.gone_at is not None]
        for file in held_files:
            present_files.setdefault((file.path, file.bytes), file)
        return replace(self, files=(*removed_files, *present_files.values()))

    def report(self, *, dry_run: bool = False) -> EraseReport:
        """Describe the state."""
        held_files = self.held
        names = {"/".join(filter(None, (file.table, file.partition))) for file in held_files}
        return EraseReport(
            job="erase",
            target=self.tables[0].table.name,
            request=self.request,
            dry_run=dry_run,
            requested_at=self.requested_at,
            deadline=self.deadline,
            rows_deleted=sum(table.rows_deleted for table in self.tables),
            partitions=tuple(sorted(names)),
            bytes=sum(file.bytes for file in held_files),
            files=len(held_files),
            waits=self.waits,
            certificate=self.certificate,
        )

    def require_sound(self, place: str) -> None:
        """See the base class."""
        location = place.rpartition(f"/{self.record_kind.folder}/")[0]
        folder, _, request = location.rpartition("/")
        times = map(datetime.fromisoformat, (self.requested_at, self.deadline))
        names = [table.table.name for table in self.tables]
        join_tables = (table.join.rpartition(".")[0] for table in self.tables)
        rounds = range(1, len(self.run_tokens) + 1)
        # They name transactions that are aborted, so that only those of the request itself may.
        tokens = tuple(token_of_request(folder, request, number) for number in rounds)
        write_ids = [table.write_id for table in self.tables]
        numbers = (*filter(None, write_ids), *self.txn_ids)
        certificate = self.certificate or f"{location}/{CERTIFICATE}"
        is_sound = (
            self.request == request
            and all(time.tzinfo is not None for time in times)
            and 0 < len(bytes.fromhex(self.salt)) <= _LONGEST_SALT
            and 0 < len(names) == len({*names})
            and all(TableRef.parse(name).full_name == name for name in names)
            and all(
                not join_table or join_table in names[:index]
                for index, join_table in enumerate(join_tables)
            )
            and self.run_tokens == tokens
            and len(self.txn_ids) <= len(tokens) <= MOST_ROUNDS
            and not (self.txn_ids and None in write_ids)
            and all(0 <= number <= _LARGEST_NUMBER for number in numbers)
            and {file.table for file in self.files} <= {*names}
            and same_place(certificate, f"{location}/{CERTIFICATE}")
        )
        if not is_sound:
            raise ValueError("It has contents that no step writes.")
        for mirror in self.mirrors:
            require_location(mirror, "mirrors")
        if self.retention is not None:
            parse_duration(self.retention, "retention")


def _is_below(roots: tuple[str, ...], path: str) -> bool:
    return plain_location(path).startswith(roots) and ".." not in path.split("/")


def hash_of_key(salt: bytes, text: str) -> str:
    """Return the salted hash of a key.

    Args:
        salt: The salt of the request, or the key of its hashes; see ``key_of_hashes``.
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
        key: The key of the installation; without one, records are not verified.
    """

    def __init__(self, location: Location, key: SigningKey | None) -> None:
        require_folder(location)
        self.location = location
        self._key = key

    def names(self) -> list[str]:
        """List the requests."""
        return ReadOnlyStorage.of(self.location).list_directories(missing_ok=True)

    def each(
        self, read: Callable[["ErasureRecord"], T], names: Iterable[str]
    ) -> Iterator[tuple[str, T | HiveAcidError]]:
        """Read requests, each by itself: a damaged or foreign one is an error, and hides no others.

        Args:
            read: Reads one.
            names: The names of the requests.

        Yields:
            The name, and what was read or the error.
        """
        for name in names:
            try:
                record = self.open(name)
            except InvalidJob:
                continue  # A name that no request can have, such as that of a folder for trash.
            try:
                yield name, read(record)
            except HiveAcidError as error:
                yield name, error

    def open(self, request: str) -> "ErasureRecord":
        """Return the record of a request, which need not exist yet."""
        require_request(request)
        return ErasureRecord(below(self.location, request), self._key)


class ErasureRecord:
    """The files of one request.

    Args:
        location: The folder of the request.
        key: See ``ErasureFolder``.
    """

    def __init__(self, location: Location, key: SigningKey | None) -> None:
        self.location = location
        self._storage = Storage.of(location)
        if self._storage.is_local:
            self._storage = _PrivateFolder(location, *filesystem_of(location))
        self._store = RecordStore(Erasure, self._storage, key)

    def read(self) -> tuple[int, Erasure] | None:
        """Read the number and the state of the request; None without a request.

        Raises:
            CorruptFile: The record cannot be read, or is not the one that the installation has signed.
            NewerRecord: A newer version has written it.
        """
        return self._store.newest()

    def write(self, number: int, erasure: Erasure) -> None:
        """Replace the state that has the number before.

        Raises:
            ConflictError: Another process has replaced it meanwhile.
        """
        if not self._store.succeed(number, erasure, follows=number > 1):
            raise ConflictError(
                f"Another process works on the request {erasure.request}.",
                remedy="Run it again; work that is done is not repeated.",
            )

    def certificate(self) -> bytes | None:
        """Return the certificate, or None before it is issued."""
        return self._storage.read_small(CERTIFICATE, _LARGEST_RECORD)

    def issue(self, content: bytes, counts: Callable[[bytes], bool]) -> bytes:
        """Write a certificate unless there is one that counts, which never changes.

        Args:
            content: The certificate.
            counts: Whether another content is a certificate of this request.

        Returns:
            The certificate that counts.
        """
        try:
            self._storage.write_file(CERTIFICATE, content)
        except StorageError:
            issued_content = self.certificate()
            if issued_content is None:
                raise
            if counts(issued_content):
                return issued_content
            self._storage.write_file(CERTIFICATE, content, replace=True)
        return content

    def write_text(self, text: str) -> None:
        """Write the certificate for people; it may be written again."""
        self._storage.write_file(CERTIFICATE_TEXT, text.encode(errors="replace"), replace=True)


class _PrivateFolder(LocalStorage):
    """A local folder whose files only their owner may read; in other stores, their rights decide."""

    def create(self, path: str) -> BinaryIO:
        """Create a file, with the directories above it, and open it for writing."""
        sink = super().create(path)
        os.fchmod(sink.fileno(), _PRIVATE)  # Before it has content.
        return sink
