"""The certificate of an erasure: JSON with a signature, and the same as text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from hiveacid import __version__
from hiveacid.dataclass import dataclass
from hiveacid.erasure.search import SearchResult
from hiveacid.errors import CheckFailed, CorruptFile, InvalidJob
from hiveacid.jobs import codec
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.write_events import is_replicated
from hiveacid.records.erasures import ErasedTable, Erasure, HeldFile
from hiveacid.records.signatures import Signature, SigningKey, key_of_hashes
from hiveacid.rules.formats import Obligation
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import bytes_in_words, folded, plural

_SALTED = "BLAKE2b, 16 bytes, keyed by the salt"
_KEYED = "BLAKE2b, 16 bytes, keyed by the HMAC-SHA256 of the salt with the key of the signature"
_LARGEST_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """A place in which a key can remain.

    Attributes:
        place: The place.
        state: "searched", "replaced", "named", or "not covered".
        detail: The result of the search, or the time at which values go.
    """

    place: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate(Obligation):
    """The certificate of a request of which nothing is left.

    Attributes:
        request: The request.
        user: The user who made it.
        requested_at: The time of the request.
        deadline: The time at which the erasure had to be complete.
        deleted_at: The time of the last delete.
        issued_at: The time after the last search.
        package: The package and its version.
        transactions: The transactions of the deletes.
        tables: The tables, with the write ids of their last deletes.
        rows_written_later: The number of rows with keys that were written after the delete, by table.
        hash: The function of the hashes.
        salt: Their salt, in hexadecimal digits.
        keys: The salted hashes of the keys.
        files: The files that held keys.
        places: The other places.
        signature: The signature of the rest, if a key was configured.
    """

    kind: ClassVar[str] = "certificate of erasure"

    request: str
    user: str
    requested_at: str
    deadline: str
    deleted_at: str | None
    issued_at: str
    package: str
    transactions: tuple[int, ...]
    tables: tuple[ErasedTable, ...]
    rows_written_later: Mapping[str, int]
    hash: str
    salt: str
    keys: tuple[str, ...]
    files: tuple[HeldFile, ...]
    places: tuple[Place, ...]
    signature: Signature | None = None

    @classmethod
    def parse(cls, content: bytes, where: str) -> Self:
        """Read the file of a certificate.

        Args:
            content: Its content.
            where: Its name in errors.

        Raises:
            CorruptFile: It is not a certificate.
            NewerRecord: A newer version has issued it.
        """
        try:
            certificate = codec.read_obligation(cls, content, where)
            certificate._require_sound()
        except (InvalidJob, ValueError) as error:
            raise CorruptFile(f"{where} is not a certificate of an erasure.") from error
        return certificate

    def _require_sound(self) -> None:
        """Refuse contents that no certificate has.

        Raises:
            ValueError: There are some.
            InvalidJob: The name of a table is invalid.
        """
        # The longest key of BLAKE2b. A certificate of another kind has other fields.
        if not 0 < len(bytes.fromhex(self.salt)) <= 64 or not self.tables:
            raise ValueError("It has no valid salt or no tables.")
        for erased in self.tables:
            TableRef.parse(erased.table.name)
            if erased.write_id is None or not 0 <= erased.write_id <= _LARGEST_NUMBER:
                raise ValueError(f"{erased.write_id} is no write id.")

    @property
    def table_names(self) -> list[str]:
        """The names of the tables."""
        return [erased.table.name for erased in self.tables]

    @property
    def content(self) -> bytes:
        """The content of its file."""
        return codec.to_bytes(self)

    @property
    def signed(self) -> bytes:
        """The bytes that are signed: JSON without the signature, spaces, and with sorted keys."""
        unsigned = {k: value for k, value in codec.to_record(self).items() if k != "signature"}
        return json.dumps(unsigned, sort_keys=True, separators=(",", ":")).encode()

    def signature_state(self, key: SigningKey | None) -> str:
        """Return whether it is unchanged: "valid", "invalid", "unsigned", or "no key".

        With a key of the installation, a certificate without a signature is invalid.
        """
        if key is not None:
            return "valid" if key.has_signed(self.signature, self.signed) else "invalid"
        return "unsigned" if self.signature is None else "no key"

    def require_unchanged(self, key: SigningKey | None) -> None:
        """Refuse a certificate that the installation has not signed.

        Raises:
            CheckFailed: It has another signature or none.
        """
        if self.signature_state(key) == "invalid":
            raise CheckFailed(
                f"The certificate of the request {self.request} does not have its signature.",
                remedy="Take the certificate from the folder of requests, or the key that signed it.",
            )

    def key_of_hashes(self, key: SigningKey | None) -> bytes | None:
        """Return the key of its hashes; None if this process does not have it."""
        if self.hash != _KEYED:
            return key_of_hashes(self.salt, None)
        return None if key is None else key_of_hashes(self.salt, key)

    def is_of(self, erasure: Erasure) -> bool:
        """Whether it states what the record of a request states now."""
        certificate = certificate_of(erasure, {}, (), self.issued_at, None)
        names = ("request", "user", "requested_at", "deadline", "transactions", "salt", "keys")
        return all(getattr(self, name) == getattr(certificate, name) for name in (*names, "tables"))

    @property
    def text(self) -> str:
        """The same for people, without hashes."""
        return "\n".join(map(folded, _lines(self))) + "\n"


def places_of(
    client: MetastoreClient,
    erasure: Erasure,
    results: Sequence[SearchResult],
    copies: Sequence[Place],
) -> tuple[Place, ...]:
    """Return all places in which a key can remain, after searches that have found none."""
    files = plural(sum(result.files for result in results), "file")
    size = bytes_in_words(sum(result.bytes for result in results))
    names = sorted(erased.table.name for erased in erasure.tables)
    replicated = [name for name in names if is_replicated(client, TableRef.parse(name))]
    kept_by = (
        f"The metastore keeps removed files of {', '.join(replicated)} for hive.repl.cm.retain."
        if replicated
        else "No database of the tables is replicated."
    )
    return (
        Place(
            "Data files and delete files of all versions",
            "searched",
            f"{files}, {size}; no key was found.",
        ),
        Place("Aborted, hidden and staged files", "searched", "They are among these files."),
        Place(
            "Statistics and row indexes of ORC files",
            "searched",
            "Bounds were compared; a Bloom filter belongs to rows that were searched.",
        ),
        Place(
            "Notes on runs, positions, reports, and staged changes",
            "searched",
            "As text; in sentences, words of six characters and more.",
        ),
        *copies,
        Place(
            "Column statistics in the metastore",
            "replaced",
            "; ".join(erasure.statistics) or "There were none.",
        ),
        Place(
            "Partition values, names and comments",
            "named",
            "No key column is a partition key; other names and comments are not searched.",
        ),
        Place("Change manager of the metastore (cmroot)", "named", kept_by),
        Place(
            "Events of the metastore (NOTIFICATION_LOG)",
            "named",
            "Those on statistics of columns have bounds until"
            " metastore.event.db.listener.timetolive has passed.",
        ),
        Place("Other columns of rows with other keys", "not covered", ""),
        Place(
            "Quarantine tables, targets of consumers, and tables of reports",
            "named",
            "They are searched as tables of a request.",
        ),
        Place("Source of the keys", "named", f"{erasure.source} holds the keys: remove it."),
        Place(
            "Trash folders and snapshots of HDFS, and versions of objects in a store",
            "not covered",
            "This package moves no file to a trash; snapshots and versions expire by their own rules.",
        ),
        Place("Backups, other systems, and logs of other programs", "not covered", ""),
    )


def certificate_of(
    erasure: Erasure,
    rows_written_later: Mapping[str, int],
    places: Sequence[Place],
    issued_at: str,
    key: SigningKey | None,
) -> Certificate:
    """Return the certificate of a request of which nothing is left, signed if there is a key.

    Args:
        erasure: The request.
        rows_written_later: The number of rows with keys that were written after the delete, by table.
        places: All places in which a key can remain.
        issued_at: The time after the search.
        key: The key of the installation, which has holder the hashes of the request.
    """
    certificate = Certificate(
        request=erasure.request,
        user=erasure.user,
        requested_at=erasure.requested_at,
        deadline=erasure.deadline,
        deleted_at=erasure.deleted_at,
        issued_at=issued_at,
        package=f"hiveacid {__version__}",
        transactions=erasure.txn_ids,
        tables=erasure.tables,
        rows_written_later=rows_written_later,
        hash=_SALTED if key is None else _KEYED,
        salt=erasure.salt,
        keys=tuple(erasure.hashes.split()),
        files=erasure.files,
        places=tuple(places),
    )
    if key is None:
        return certificate
    return replace(certificate, signature=key.sign(certificate.signed))


def _lines(certificate: Certificate) -> Iterator[str]:
    yield f"Certificate of erasure: request {certificate.request}"
    yield ""
    yield f"Requested at {certificate.requested_at} by {certificate.user}"
    yield f"Deleted at   {certificate.deleted_at} by transaction " + ", ".join(
        map(str, certificate.transactions)
    )
    yield f"Complete at  {certificate.issued_at} (deadline {certificate.deadline})"
    yield f"Issued by    {certificate.package}"
    yield ""
    yield f"{plural(len(certificate.keys), 'key')}, by their salted hashes in the JSON file"
    for erased in certificate.tables:
        name, rows = erased.table.name, plural(erased.rows_deleted, "row")
        condition = f" = {erased.join} of these rows" if erased.join else ""
        yield f"  {name}, column {erased.column}{condition}: {rows} deleted"
        if rows_later := certificate.rows_written_later.get(name):
            yield f"    {plural(rows_later, 'row')} with these keys were written after the erasure"
    yield ""
    yield f"{plural(len(certificate.files), 'file')} that held keys, with the times of removal"
    for file in certificate.files:
        by = f" by transaction {file.removed_by}" if file.removed_by else ""
        yield f"  {file.gone_at}{by}  {file.path}"
    yield ""
    yield "Places"
    for place in certificate.places:
        yield f"  {place.state:<11}  {place.place}"
        if place.detail:
            yield f"               {place.detail}"
    if (signature := certificate.signature) is not None:
        yield ""
        yield f"Signature of the JSON file ({signature.algorithm}): {signature.value}"
