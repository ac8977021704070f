"""Verification of a certificate: the search is repeated with the keys themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hiveacid.errors import KeysLeft
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.records.erasures import HeldFile
from hiveacid.rules.names import TableIdentity, TableRef
from hiveacid.rules.texts import plural
from hiveacid.upkeep.erasure.certificate import signature_state
from hiveacid.upkeep.erasure.key_set import KeySet
from hiveacid.upkeep.erasure.search import TableSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of a verification.

    Attributes:
        request: The request.
        signature: "valid", "invalid", "unsigned", or "no key".
        keys: The number of keys that were searched.
        unknown_keys: The number of them that are not in the certificate.
        files: The number of searched files.
        bytes: Their size.
        rows_written_later: The number of rows with keys that were written after the erasure.
        replaced: The tables that were created again since then.
        held: The files that hold keys.
    """

    request: str
    signature: str
    keys: int
    unknown_keys: int
    files: int
    bytes: int
    rows_written_later: int
    replaced: tuple[str, ...]
    held: tuple[HeldFile, ...]

    def require_erased(self) -> None:
        """Make sure that no file holds a key.

        Raises:
            KeysLeft: A file does, or the certificate was changed.
        """
        if self.signature == "invalid":
            raise KeysLeft(
                f"The certificate of the request {self.request} does not have its signature.",
                remedy="Take the certificate from the folder of requests, or the key that signed it.",
            )
        if self.held:
            first = self.held[0]
            raise KeysLeft(
                f"{plural(len(self.held), 'file holds', 'files hold')} keys of the request"
                f" {self.request}, such as {first.path}"
                + (f": {first.problem}" if first.problem else "."),
            )


def verify_certificate(
    client: MetastoreClient, certificate: Mapping[str, Any], texts: Sequence[str]
) -> Verification:
    """Search all remaining files of the tables of a certificate for keys.

    Args:
        client: The metastore.
        certificate: The certificate; see ``parse_certificate``.
        texts: The keys.
    """
    keys = KeySet.of(bytes.fromhex(certificate["salt"]), texts)
    replaced: list[str] = []
    held: list[HeldFile] = []
    files = size = later = 0
    for table, search in _searches(client, certificate, keys):
        if not search.table.identity.is_same(TableIdentity.of_text(table["identity"])):
            replaced.append(table["table"])
        found = search.run()
        held += found.held
        files, size, later = files + found.files, size + found.bytes, later + found.later
    return Verification(
        request=certificate["request"],
        signature=signature_state(certificate),
        keys=len(keys.hashes),
        unknown_keys=len(keys.hashes - {*certificate["keys"]}),
        files=files,
        bytes=size,
        rows_written_later=later,
        replaced=tuple(replaced),
        held=tuple(held),
    )


def _searches(
    client: MetastoreClient, certificate: Mapping[str, Any], keys: KeySet
) -> Iterator[tuple[Mapping[str, Any], TableSearch]]:
    for table in certificate["tables"]:
        described = existing_table(client, TableRef.parse(table["table"]))
        named = [c for c in described.columns if c.name.lower() == table["column"].lower()]
        if not named:
            continue
        is_same = described.identity.is_same(TableIdentity.of_text(table["identity"]))
        # The write ids of a table that was created again have another meaning.
        after = table["write_id"] if is_same else None
        own = KeySet(keys.salt, frozenset(table["keys"])) if "join" in table else keys
        yield table, TableSearch(client, described, named[0], own, after)
