"""The certificate of an erasure: JSON with a signature, and the same as text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hiveacid import __version__
from hiveacid.errors import CorruptFile, InvalidJob
from hiveacid.jobs.options import setting
from hiveacid.records.erasures import Erasure, signature_of
from hiveacid.rules.texts import bytes_in_words, folded, plural
from hiveacid.upkeep.erasure.key_set import KeySet
from hiveacid.upkeep.erasure.places import Place
from hiveacid.upkeep.erasure.search import Searched

_FORMAT = 1
_KIND = "certificate of erasure"
_ALGORITHM = "HMAC-SHA256"
_SHORTEST_KEY = 16


def certificate_of(
    erasure: Erasure,
    searched: Mapping[str, Searched],
    places: Sequence[Place],
    issued_at: str,
) -> dict[str, Any]:
    """Return the certificate of a request of which nothing is left, signed if a key is configured.

    Args:
        erasure: The request.
        searched: The last search of each table.
        places: The other places.
        issued_at: The time after the search.
    """
    files = sum(each.files for each in searched.values())
    size = sum(each.bytes for each in searched.values())
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
    certificate: dict[str, Any] = {
        "format": _FORMAT,
        "kind": _KIND,
        "request": erasure.request,
        "user": erasure.user,
        "requested_at": erasure.requested_at,
        "deadline": erasure.deadline,
        "deleted_at": erasure.deleted_at,
        "issued_at": issued_at,
        "package": f"hiveacid {__version__}",
        "transactions": list(erasure.txn_ids),
        "tables": [
            {
                "table": each.table.name,
                "location": each.table.location,
                "identity": each.table.identity.text,
                "column": each.column,
                **({"join": each.join, "keys": each.hashes.split()} if each.join else {}),
                "rows_deleted": each.rows_deleted,
                "write_id": each.write_id,
                "rows_written_later": searched[each.table.name].later,
            }
            for each in erasure.tables
        ],
        "hash": "BLAKE2b, 16 bytes, keyed by the salt",
        "salt": erasure.salt,
        "keys": erasure.hashes.split(),
        "files": [asdict(file) for file in erasure.files],
        "places": [asdict(place) for place in (*everywhere, *places)],
    }
    key = _configured_key()
    if key is not None:
        value = signature_of(key, _signed_bytes(certificate))
        certificate["signature"] = {"algorithm": _ALGORITHM, "value": value}
    return certificate


def certificate_bytes(certificate: Mapping[str, Any]) -> bytes:
    """Return the content of a certificate's file."""
    return json.dumps(certificate, indent=1).encode()


def parse_certificate(content: bytes, where: str) -> dict[str, Any]:
    """Read a certificate.

    Raises:
        CorruptFile: It is not a certificate.
    """
    try:
        certificate = json.loads(content)
        keys = KeySet(bytes.fromhex(certificate["salt"]), frozenset(certificate["keys"]))
        is_one = certificate["kind"] == _KIND and bool(keys.salt)
        tables = [
            (each["table"], each["column"], each["write_id"]) for each in certificate["tables"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        is_one, tables = False, []
    if not is_one or not tables:
        raise CorruptFile(f"{where} is not a certificate of an erasure.")
    found: dict[str, Any] = certificate
    return found


def signature_state(certificate: Mapping[str, Any]) -> str:
    """Return whether a certificate is unchanged: "valid", "invalid", "unsigned", or "no key"."""
    signature = certificate.get("signature")
    if not isinstance(signature, Mapping):
        return "unsigned"
    key = _configured_key()
    if key is None:
        return "no key"
    expected = signature_of(key, _signed_bytes(certificate))
    return "valid" if signature.get("value") == expected else "invalid"


def certificate_text(certificate: Mapping[str, Any]) -> str:
    """Return a certificate as text for people."""
    return "\n".join(map(folded, _lines(certificate))) + "\n"


def _lines(certificate: Mapping[str, Any]) -> Iterator[str]:
    yield f"Certificate of erasure: request {certificate['request']}"
    yield ""
    yield f"Requested at {certificate['requested_at']} by {certificate['user']}"
    yield f"Deleted at   {certificate['deleted_at']} by transaction " + ", ".join(
        map(str, certificate["transactions"])
    )
    yield f"Complete at  {certificate['issued_at']} (deadline {certificate['deadline']})"
    yield f"Issued by    {certificate['package']}"
    yield ""
    yield f"{plural(len(certificate['keys']), 'key')}, by their salted hashes in the JSON file"
    for table in certificate["tables"]:
        rows = plural(table["rows_deleted"], "row")
        joined = f" = {table['join']} of these rows" if "join" in table else ""
        yield f"  {table['table']}, column {table['column']}{joined}: {rows} deleted"
        if table["rows_written_later"]:
            later = plural(table["rows_written_later"], "row")
            yield f"    {later} with these keys were written after the erasure"
    yield ""
    yield f"{plural(len(certificate['files']), 'file')} that held keys, with the times of removal"
    for file in certificate["files"]:
        by = f" by transaction {file['removed_by']}" if file["removed_by"] else ""
        yield f"  {file['gone_at']}{by}  {file['path']}"
    yield ""
    yield "Places"
    for place in certificate["places"]:
        yield f"  {place['state']:<11}  {place['place']}"
        if place["detail"]:
            yield f"               {place['detail']}"
    if signature := certificate.get("signature"):
        yield ""
        yield f"Signature of the JSON file ({signature['algorithm']}): {signature['value']}"


def _signed_bytes(certificate: Mapping[str, Any]) -> bytes:
    unsigned = {name: value for name, value in certificate.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":")).encode()


def _configured_key() -> bytes | None:
    """Return the key of signatures; None if no file with a key is configured.

    Raises:
        InvalidJob: The file cannot be read, or the key is too short.
    """
    path = setting("erasure_key_file")
    if not path:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidJob(
            f"The key of signatures cannot be read: {error}.",
            remedy="Set erasure_key_file of [hive_acid] to a readable file, or remove it.",
        ) from error
    if len(key) < _SHORTEST_KEY:
        raise InvalidJob(f"The key in {path} has less than {_SHORTEST_KEY} bytes.")
    return key
