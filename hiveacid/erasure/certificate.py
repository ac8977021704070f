"""The certificate of an erasure: JSON with a signature, and the same as text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from hiveacid import __version__
from hiveacid.erasure.delays import Place
from hiveacid.erasure.search import Searched
from hiveacid.errors import CorruptFile, InvalidJob, KeysLeft
from hiveacid.jobs import codec
from hiveacid.records.erasures import Erasure, HeldFile
from hiveacid.records.signatures import Signature, SigningKey, key_of_hashes
from hiveacid.rules.formats import Obligation
from hiveacid.rules.names import TableIdentity, TableRef
from hiveacid.rules.texts import bytes_in_words, folded, plural

_SALTED = "BLAKE2b, 16 bytes, keyed by the salt"
_KEYED = "BLAKE2b, 16 bytes, keyed by the HMAC-SHA256 of the salt with the key of the signature"
_LARGEST_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedTable:
    """A table of a certificate.

    Attributes:
        table: "database.table".
        location: Its folder.
        identity: Its creation.
        column: The column with the keys.
        join: The column of another table of the request whose values are the keys; empty if they are
            those of the request.
        keys: The salted hashes of these values.
        rows_deleted: The number of deleted rows.
        write_id: The write id of the last delete.
        rows_written_later: The number of rows with keys that were written after it.
    """

    table: str
    location: str
    identity: str
    column: str
    join: str = ""
    keys: tuple[str, ...] = ()
    rows_deleted: int
    write_id: int
    rows_written_later: int


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
        tables: The tables.
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
    tables: tuple[CertifiedTable, ...]
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
            found = codec.read_obligation(cls, content, where)
            found._require_sound()
        except (InvalidJob, ValueError) as error:
            raise CorruptFile(f"{where} is not a certificate of an erasure.") from error
        return found

    def _require_sound(self) -> None:
        """Refuse contents that no certificate has.

        Raises:
            ValueError: There are some.
            InvalidJob: The name of a table is invalid.
        """
        # The longest key of BLAKE2b. A certificate of another kind has other fields.
        if not 0 < len(bytes.fromhex(self.salt)) <= 64 or not self.tables:
            raise ValueError("It has no valid salt or no tables.")
        for table in self.tables:
            TableRef.parse(table.table)
            TableIdentity.of_text(table.identity)
            if not 0 <= table.write_id <= _LARGEST_NUMBER:
                raise ValueError(f"{table.write_id} is no write id.")

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

        Args:
            key: The key of the installation: with one, a certificate without a signature is invalid.
        """
        if key is not None:
            return "valid" if key.has_signed(self.signature, self.signed) else "invalid"
        return "unsigned" if self.signature is None else "no key"

    def require_unchanged(self, key: SigningKey | None) -> None:
        """Refuse a certificate that the installation has not signed.

        Args:
            key: See ``signature_state``.

        Raises:
            KeysLeft: It has another signature or none.
        """
        if self.signature_state(key) == "invalid":
            raise KeysLeft(
                f"The certificate of the request {self.request} does not have its signature.",
                remedy="Take the certificate from the folder of requests, or the key that signed it.",
            )

    def key_of_hashes(self, key: SigningKey | None) -> bytes | None:
        """Return the key of its hashes; None if this process does not have it.

        Args:
            key: The key of the installation.
        """
        if self.hash != _KEYED:
            return key_of_hashes(self.salt, None)
        return None if key is None else key_of_hashes(self.salt, key)

    def is_of(self, erasure: Erasure) -> bool:
        """Whether it states what the record of a request states now."""
        other = certificate_of(erasure, {}, (), self.issued_at, None)
        names = ("request", "user", "requested_at", "deadline", "transactions", "salt", "keys")
        return all(getattr(self, name) == getattr(other, name) for name in names) and [
            replace(each, rows_written_later=0) for each in self.tables
        ] == list(other.tables)

    @property
    def text(self) -> str:
        """The same for people, without hashes."""
        return "\n".join(map(folded, _lines(self))) + "\n"


def certificate_of(
    erasure: Erasure,
    searched: Mapping[str, Searched],
    places: Sequence[Place],
    issued_at: str,
    key: SigningKey | None,
) -> Certificate:
    """Return the certificate of a request of which nothing is left, signed if there is a key.

    Args:
        erasure: The request.
        searched: The last search of each table.
        places: The other places.
        issued_at: The time after the search.
        key: The key of the installation, which has keyed the hashes of the request.
    """
    files = sum(each.files for each in searched.values())
    size = sum(each.bytes for each in searched.values())
    later = {name: each.later for name, each in searched.items()}
    what = f"{plural(files, 'file')}, {bytes_in_words(size)}; no key was found."
    everywhere = [
        Place("Data files and delete files of all versions", "searched", what),
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
    ]
    certificate = Certificate(
        request=erasure.request,
        user=erasure.user,
        requested_at=erasure.requested_at,
        deadline=erasure.deadline,
        deleted_at=erasure.deleted_at,
        issued_at=issued_at,
        package=f"hiveacid {__version__}",
        transactions=erasure.txn_ids,
        tables=tuple(
            CertifiedTable(
                table=each.table.name,
                location=each.table.location,
                identity=each.table.identity.text,
                column=each.column,
                join=each.join,
                keys=tuple(each.hashes.split()) if each.join else (),
                rows_deleted=each.rows_deleted,
                write_id=each.write_id or 0,
                rows_written_later=later.get(each.table.name, 0),
            )
            for each in erasure.tables
        ),
        hash=_SALTED if key is None else _KEYED,
        salt=erasure.salt,
        keys=tuple(erasure.hashes.split()),
        files=erasure.files,
        places=(*everywhere, *places),
    )
    return (
        certificate if key is None else replace(certificate, signature=key.sign(certificate.signed))
    )


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
    for table in certificate.tables:
        rows = plural(table.rows_deleted, "row")
        joined = f" = {table.join} of these rows" if table.join else ""
        yield f"  {table.table}, column {table.column}{joined}: {rows} deleted"
        if table.rows_written_later:
            later = plural(table.rows_written_later, "row")
            yield f"    {later} with these keys were written after the erasure"
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
