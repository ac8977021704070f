"""Verification of a certificate: the search is repeated with the keys themselves."""

from collections.abc import Sequence

from hiveacid.dataclass import dataclass
from hiveacid.erasure.certificate import Certificate
from hiveacid.erasure.copies import Copies
from hiveacid.erasure.keys import KeyHolder, KeySet
from hiveacid.erasure.mirror_search import MirrorSearch
from hiveacid.erasure.requests import require_erasure_access
from hiveacid.erasure.search import TableSearch
from hiveacid.errors import CheckFailed, InvalidJob, UserError
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.records.erasures import HeldFile
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of a verification.

    Attributes:
        request: The request.
        signature: "valid", "unsigned", or "no key".
        keys: The number of keys that were searched.
        unknown_keys: The number of them that are not in the certificate; None if its hashes need the
            key of the installation, which this process does not have.
        files: The number of searched files.
        bytes: Their size.
        rows_written_later: The number of rows with keys that were written after the erasure.
        replaced: The tables that were created again since then.
        held: The files that hold keys.
    """

    request: str
    signature: str
    keys: int
    unknown_keys: int | None
    files: int
    bytes: int
    rows_written_later: int
    replaced: tuple[str, ...]
    held: tuple[HeldFile, ...]

    def require_erased(self) -> None:
        """Make sure that no file holds a key.

        Raises:
            CheckFailed: A file does.
        """
        if self.held:
            first = self.held[0]
            raise CheckFailed(
                f"{plural(len(self.held), 'file holds', 'files hold')} keys of the request"
                f" {self.request}, such as {first.path}"
                + (f": {first.problem}" if first.problem else "."),
                remedy="Find the writer of the named files, and make a new request for these keys.",
            )


def verify_certificate(
    client: MetastoreClient,
    certificate: Certificate,
    texts: Sequence[str],
    mirrors: Sequence[str] = (),
    user: str | None = None,
) -> Verification:
    """Search all remaining files of the tables of a certificate for keys.

    The result tells which values files hold: so the user needs the right to erase each table, and
    those at the locations of their files, and the right to read what has files in a mirror.

    Args:
        client: The metastore.
        certificate: The certificate.
        texts: The keys.
        mirrors: The folders of mirrors in Iceberg, which are searched as well.
        user: The user, as the authorizer knows it; that of the process if None.

    Raises:
        CheckFailed: The certificate does not have the signature of the installation.
        AccessRefused: The user may not know what the files hold, or a location is not allowed.
        InvalidJob: The keys of a table are hashes by a key that this process does not have.
        UnknownColumn: The column with the keys has another name now, or was removed.
        UserError: The folder of a mirror has no files.
    """
    key = SigningKey.configured()
    certificate.require_unchanged(key)
    names = certificate.table_names
    require_erasure_access(client, [user or program_user()], names, mirrors)
    secret = certificate.key_of_hashes(key)
    if secret is None and any(erased.join for erased in certificate.tables):
        raise InvalidJob(
            "The certificate has hashes of keys that nobody can compare without the key of signatures.",
            remedy="Set signing_key_file of [hive_acid] to the file with the key that signed it.",
        )
    # Without the key, the keys themselves are compared.
    keys = KeySet.of(secret or bytes.fromhex(certificate.salt), texts)
    replaced_tables: list[str] = []
    searches: list[TableSearch] = []
    for erased in certificate.tables:
        name, deleted_by = erased.table.name, erased.write_id or 0
        table = existing_table(client, TableRef.parse(name))
        joined = KeySet(keys.salt, erased.key_hashes)
        holder = KeyHolder.of(table, erased.column, joined if erased.join else keys)
        is_same = table.identity.is_same(erased.table.identity)
        replaced_tables += [] if is_same else [name]
        # The write ids of a table that was created again have another meaning.
        searches.append(TableSearch(client, holder, deleted_by if is_same else None))
        sibling_tables = frozenset(names) - {name}
        searches += Copies(client, holder, deleted_by, mirrors, sibling_tables).searches()
    results = [search.run() for search in searches]
    for search, result in zip(searches, results, strict=True):
        if isinstance(search, MirrorSearch) and not result.files:
            raise UserError(
                f"The folder {search.location} has no files, so it is no mirror.",
                remedy="Name the folder of the Iceberg table, or none if the table was dropped.",
            )
    return Verification(
        request=certificate.request,
        signature=certificate.signature_state(key),
        keys=len(keys.hashes),
        unknown_keys=None if secret is None else len(keys.hashes - {*certificate.keys}),
        files=sum(result.files for result in results),
        bytes=sum(result.bytes for result in results),
        rows_written_later=sum(result.later for result in results),
        replaced=tuple(replaced_tables),
        held=tuple(file for result in results for file in result.held),
    )
