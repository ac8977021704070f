"""Records and certificates of erasures that somebody else has written into the folder of requests."""

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hiveacid.erasure.certificate import Certificate
from hiveacid.erasure.requests import Eraser
from hiveacid.erasure.verification import verify_certificate
from hiveacid.errors import AccessRefused, CheckFailed, CorruptFile, HiveAcidError, InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.erase_job import token_of_request
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.erasures import ErasedTable, Erasure, ErasureFolder, HeldFile, hash_of_key
from hiveacid.records.known_erasures import KnownErasures
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.names import TableRef
from tests.conftest import KEY_FILE
from tests.erasure.persons import KEYS, Warehouse
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
AUTHORIZER = "AIRFLOW__HIVE_ACID__AUTHORIZER"
REFUSED: set[tuple[str, str]] = set()


def allow(*, user: str, table: str, **_: object) -> bool:
    return (user, table) not in REFUSED


class Folder(Warehouse):
    """A table of persons, and a folder of requests into which others may write."""

    def read(self, request: str = "r1") -> Erasure:
        found = ErasureFolder(f"file:{self.requests}", None).open(request).read()
        assert found is not None
        return found[1]

    def path(self, request: str = "r1") -> Path:
        (path,) = (self.requests / request / "record").iterdir()
        return path

    def forge(self, request: str = "r1", **changes: Any) -> None:
        """Write a request without its author, as far as it looks like one."""
        salt = b"salt of the test"
        table = ErasedTable(
            table=located(self.client.get_table(TableRef.parse(self.t))),
            column="who",
            type="string",
        )
        given: dict[str, Any] = {
            "request": request,
            "user": "os:somebody",
            "requested_at": "2026-03-01T10:00:00+00:00",
            "deadline": "2026-03-31T10:00:00+00:00",
            "retention": "0",
            "source": "The caller",
            "salt": salt.hex(),
            "hashes": " ".join(sorted(hash_of_key(salt, key) for key in KEYS)),
            "tables": (table,),
        }
        path = self.requests / request / "record" / "1.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(codec.to_bytes(Erasure(**{**given, **changes})))

    def forge_deleted(self, request: str = "r1", **changes: Any) -> None:
        """Write a request whose rows seem to be deleted: all of them seem to be later ones."""
        self.forge(request)
        (table,) = self.read(request).tables
        self.forge(
            request,
            tables=(replace(table, write_id=0, rows_deleted=10),),
            run_tokens=(token_of_request(f"file:{self.requests}", request, 1),),
            txn_ids=(1,),
            deleted_at="2026-03-01T10:00:01+00:00",
            searched_at="2026-03-01T10:00:01+00:00",
            statistics_at="2026-03-01T10:00:01+00:00",
            **changes,
        )

    @property
    def persons(self) -> int:
        """The number of visible rows that the request would erase."""
        return sum(row["who"] in KEYS for row in self.rows())


@pytest.fixture
def folder(client: MetastoreClient, database: str, tmp_path: Path) -> Folder:
    found = Folder(client, database, tmp_path)
    found.fill("plain", 30)
    return found


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The users and tables that the authorizer refuses, which a test adds."""
    monkeypatch.setenv(AUTHORIZER, f"{__name__}.allow")
    yield REFUSED
    REFUSED.clear()


# With a key


@pytest.mark.parametrize("forge", [Folder.forge, Folder.forge_deleted])
def test_a_record_without_the_signature_of_the_installation_is_invalid(
    folder: Folder, signing_key: Path, forge: Callable[[Folder], None]
) -> None:
    forge(folder)
    for work in (folder.eraser().advance, folder.eraser().delays):
        with pytest.raises(CorruptFile, match="with the signature of this installation"):
            work("r1")
    with pytest.raises(CorruptFile, match="with the signature of this installation"):
        folder.erase()
    (shown,) = KnownErasures(f"file:{folder.requests}").read()
    assert "with the signature of this installation" in shown.problem
    assert (folder.persons, folder.certificate()) == (10, None)


def test_a_signed_record_counts_only_in_its_place_and_in_its_order(
    folder: Folder, signing_key: Path, tmp_path: Path
) -> None:
    with Transaction(folder.client, reads=[TableRef.parse(folder.t)]):
        folder.erase()
    assert folder.eraser().delays("r1") == ()
    own = folder.path()
    signed = json.loads(own.read_bytes())
    assert signed["signature"]["algorithm"] == "HMAC-SHA256"
    own.rename(own.with_name("99.json"))
    with pytest.raises(CorruptFile, match="signature"):
        folder.eraser().delays("r1")
    own.with_name("99.json").rename(own)
    own.write_text(json.dumps({**signed, "retention": "30 days"}))
    with pytest.raises(CorruptFile, match="signature"):
        folder.eraser().delays("r1")
    own.write_text(json.dumps({**signed, "signature": {"algorithm": "none", "value": "\ud800"}}))
    with pytest.raises(CorruptFile, match="signature"):
        folder.eraser().delays("r1")
    own.write_text(json.dumps(signed))
    copy = tmp_path / "copied"
    shutil.copytree(folder.requests, copy)
    with pytest.raises(CorruptFile):
        Eraser(folder.client, f"file:{copy}").delays("r1")
    assert folder.eraser().advance("r1").certificate


def test_a_signed_request_is_not_continued_without_the_key(
    folder: Folder, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Transaction(folder.client, reads=[TableRef.parse(folder.t)]):
        folder.erase()
    monkeypatch.delenv(KEY_FILE)
    for work in (lambda: folder.eraser().advance("r1"), folder.erase):
        with pytest.raises(InvalidJob, match="is signed, and this process has no key"):
            work()
    # It may be looked at.
    assert folder.eraser().delays("r1") == ()


def test_hashes_of_keys_cannot_be_guessed_from_the_files(folder: Folder, signing_key: Path) -> None:
    report = folder.erase()
    folder.require_erased(report)
    certificate = folder.certificate()
    assert certificate is not None
    files = [path for path in (folder.requests / "r1").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    for text in (folder.path().read_text(), json.dumps(certificate)):
        salt = bytes.fromhex(json.loads(text)["salt"])
        assert not any(hash_of_key(salt, person) in text for person in KEYS)
    parsed = Certificate.parse(json.dumps(certificate).encode(), "certificate")
    found = verify_certificate(folder.client, parsed, KEYS)
    assert (found.signature, found.unknown_keys) == ("valid", 0)


def test_a_forged_certificate_does_not_end_a_request(folder: Folder, signing_key: Path) -> None:
    folder.sql(f"CREATE TABLE u (who string); INSERT INTO u VALUES ('{KEYS[0]}')")
    folder.erase(folder.job(request="r2", columns={f"{folder.database}.u": "who"}))
    place = folder.requests / "r1" / "certificate.json"
    stolen = json.loads((folder.requests / "r2" / "certificate.json").read_text())
    with Transaction(folder.client, reads=[TableRef.parse(folder.t)]):
        folder.erase()
        for forged in (stolen, {**stolen, "request": "r1"}, {**stolen, "signature": None}, {}):
            place.write_text(json.dumps(forged))
            assert folder.eraser().advance("r1").certificate is None
    folder.require_erased(folder.eraser().advance("r1").report())
    parsed = Certificate.parse(place.read_bytes(), "certificate")
    assert (parsed.request, parsed.signature_state(SigningKey.configured())) == ("r1", "valid")


def test_a_certificate_without_its_signature_is_invalid_with_a_key(
    folder: Folder, signing_key: Path
) -> None:
    folder.erase()
    certificate = folder.certificate()
    assert certificate is not None
    for forged in (None, {"algorithm": "none", "value": ""}):
        content = json.dumps({**certificate, "signature": forged}).encode()
        parsed = Certificate.parse(content, "certificate")
        assert parsed.signature_state(SigningKey.configured()) == "invalid"
        with pytest.raises(CheckFailed, match="does not have its signature"):
            verify_certificate(folder.client, parsed, KEYS)


# Without a key


def test_rows_that_a_record_calls_deleted_are_looked_for(folder: Folder) -> None:
    folder.forge_deleted()
    assert folder.persons == 10
    folder.require_erased(folder.eraser().advance("r1").report())
    assert folder.persons == 0
    certificate = folder.certificate()
    assert certificate is not None
    assert certificate["rows_written_later"] == {folder.t: 0}


def test_a_record_that_is_called_certified_is_verified_again(folder: Folder) -> None:
    shutil.copytree(folder.place(), folder.folder / "backup")
    folder.require_erased(folder.erase())
    kept = (folder.requests / "r1" / "certificate.json").read_bytes()
    assert folder.erase().certificate
    assert (folder.requests / "r1" / "certificate.json").read_bytes() == kept
    # As if the certificate was written while the rows are there.
    shutil.copytree(folder.folder / "backup", folder.place(), dirs_exist_ok=True)
    assert folder.left()
    folder.require_erased(folder.erase())
    assert folder.persons == 0


def test_an_unsigned_certificate_is_replaced_if_it_is_of_another_request(folder: Folder) -> None:
    folder.forge_deleted(certificate=f"file:{folder.requests}/r1/certificate.json")
    folder.erase(folder.job(request="r2", columns={folder.t: "note"}))
    stolen = json.loads((folder.requests / "r2" / "certificate.json").read_text())
    place = folder.requests / "r1" / "certificate.json"
    place.write_text(json.dumps({**stolen, "request": "r1"}))
    folder.require_erased(folder.eraser().advance("r1").report())
    assert json.loads(place.read_text())["tables"][0]["column"] == "who"


# Accesses


def test_a_step_needs_the_rights_of_the_author_and_of_who_continues_it(
    folder: Folder, refused: set[tuple[str, str]]
) -> None:
    folder.forge()
    for user in ("os:somebody", "dag:cleaning"):
        refused.add((user, folder.t))
        eraser = Eraser(folder.client, f"file:{folder.requests}", user="dag:cleaning")
        for work in (eraser.advance, eraser.delays):
            with pytest.raises(AccessRefused, match=f"{user} may not erase {folder.t}"):
                work("r1")
        known, problems = eraser.requests()
        assert (known, [*problems]) == ([], ["r1"])
        refused.clear()
    assert folder.persons == 10


SWAPPED: list[Callable[[], object]] = []


def swap(**_: object) -> bool:
    while SWAPPED:
        SWAPPED.pop()()
    return True


def test_the_record_that_was_asked_for_is_the_one_that_is_used(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sql(f"CREATE TABLE u (who string); INSERT INTO u VALUES ('{KEYS[0]}')")
    other = located(folder.client.get_table(TableRef(folder.database, "u")))
    folder.forge()
    (table,) = folder.read().tables
    monkeypatch.setenv(AUTHORIZER, f"{__name__}.swap")
    SWAPPED.append(lambda: folder.forge(tables=(replace(table, table=other),)))
    erasure = folder.eraser().advance("r1")
    assert [each.table.name for each in erasure.tables] == [folder.t]
    assert [row["who"] for row in folder.rows("u")] == [KEYS[0]]


@pytest.mark.parametrize("where", ["mirrors", "files"])
def test_a_record_leads_to_no_other_host(folder: Folder, tmp_path: Path, where: str) -> None:
    file = HeldFile(
        table=folder.t, path="hdfs://other:8020/w/x", bytes=1, found_at="2026-03-01T10:00:00+00:00"
    )
    more: dict[str, Any] = {"mirrors": ("hdfs://other:8020/w",), "files": (file,)}
    folder.forge_deleted(**{where: more[where]})
    options = replace(folder.client.options, allowed_locations="file")
    with MetastoreClient(options) as client:
        eraser = Eraser(client, f"file:{folder.requests}")
        for work in (eraser.delays, eraser.advance):
            with pytest.raises(AccessRefused, match="hdfs://other:8020/w"):
                work("r1")
        _, problems = eraser.requests()
        assert isinstance(problems["r1"], AccessRefused)


def test_files_at_the_location_of_another_table_need_its_access(
    folder: Folder, refused: set[tuple[str, str]]
) -> None:
    folder.sql("CREATE TABLE u (who string)")
    other = f"{folder.database}.u"
    path = f"file:{folder.place('u')}/delta_0000001_0000001_0000/bucket_00000"
    found_at = "2026-03-01T10:00:00+00:00"
    file = HeldFile(table=folder.t, path=path, bytes=1, found_at=found_at)
    folder.forge_deleted(files=(file,))
    refused.add(("os:somebody", other))
    with pytest.raises(AccessRefused, match=f"may not read {other}"):
        folder.eraser().delays("r1")


def test_a_verification_needs_the_accesses_of_mirrors_and_of_locations(
    folder: Folder, refused: set[tuple[str, str]]
) -> None:
    folder.erase()
    certificate = folder.certificate()
    assert certificate is not None
    parsed = Certificate.parse(json.dumps(certificate).encode(), "certificate")
    folder.sql("CREATE TABLE secret (who string); INSERT INTO secret VALUES ('ada')")
    place, other = folder.place("secret"), f"{folder.database}.secret"
    name = f"{folder.database}.mine"
    mine = AcidFolders.create(folder.client, name, location=f"file:{place}")
    refused |= {("os:me", other)}
    with pytest.raises(AccessRefused, match=f"may not read {other}"):
        verify_certificate(folder.client, parsed, ["ada"], [f"file:{place}"], "os:me")
    table = replace(
        parsed.tables[0], table=replace(parsed.tables[0].table, name=mine.ref.full_name)
    )
    with pytest.raises(AccessRefused, match=f"may not erase {other}"):
        verify_certificate(folder.client, replace(parsed, tables=(table,)), ["ada"], user="os:me")
    assert verify_certificate(folder.client, parsed, ["ada"], user="os:me").held == ()


# Damaged and hostile contents

VALUES: tuple[Any, ...] = (None, "", "\ud800/../x:/", -1, 1 << 70, 0.5, True, [], {"": [[]]})


def mutations(value: Any) -> Iterator[Any]:
    """Yield copies of parsed JSON with one part replaced or left out."""
    yield from VALUES
    if isinstance(value, dict):
        for name, part in value.items():
            yield {other: each for other, each in value.items() if other != name}
            yield from ({**value, name: other} for other in mutations(part))
        yield {**value, "surprise": 1}
    if isinstance(value, list):
        yield [*value, *value]
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in mutations(part))


def test_hostile_records_are_errors_of_this_package(folder: Folder) -> None:
    file = HeldFile(table=folder.t, path=f"file:{folder.folder}/x", bytes=1, found_at="2026")
    folder.forge_deleted(files=(file,), mirrors=("file:/lake/x",))
    path = folder.path()
    whole = json.loads(path.read_bytes())
    folder.forge("good")
    # Nobody waits for a host here.
    folder.client = MetastoreClient(replace(folder.client.options, allowed_locations="file"))
    seen = 0
    for hostile in mutations(whole):
        path.write_text(json.dumps(hostile))
        steps, problems = folder.eraser().requests()
        assert "good" in {each.erasure.request for each in steps}
        assert len(steps) + len(problems) == 2
        seen += len(problems)
        for each in steps:
            each.erasure.report()
            each.erasure.left(datetime.now(UTC))
            if each.erasure.request == "r1":
                with suppress(HiveAcidError):
                    each.delays()
    assert seen > 100
    assert folder.persons == 10


def test_hostile_certificates_are_errors_of_this_package(folder: Folder) -> None:
    folder.erase()
    whole = folder.certificate()
    assert whole is not None
    whole |= {name: whole[name][:1] for name in ("files", "places", "keys")}
    contents = [b"", b"[" * 100_000, b"\xff", b'{"format":' + b"9" * 5000 + b"}"]
    contents += [json.dumps(each).encode() for each in mutations(whole)]
    seen = 0
    for content in contents:
        try:
            certificate = Certificate.parse(content, "certificate")
            assert certificate.text
            certificate.signature_state(SigningKey(b"0123456789abcdef"))
            verify_certificate(folder.client, certificate, KEYS[:2])
        except HiveAcidError:
            seen += 1
    assert seen > 100


def test_one_damaged_entry_hides_no_other_request(folder: Folder) -> None:
    folder.forge("good")
    requests = folder.requests
    for number, damage in enumerate(
        (
            lambda path: path.write_text("{"),
            lambda path: (shutil.rmtree(path.parent), path.parent.write_text("{}")),
            lambda path: (path.unlink(), path.symlink_to(path)),
            lambda path: path.write_text(path.read_text().replace("2026-03-31T", "2026-99-31T")),
        )
    ):
        folder.forge(f"bad{number}")
        damage(folder.path(f"bad{number}"))
    shutil.copytree(requests / "good", requests / "copied")
    (requests / "not a name").mkdir()
    steps, problems = folder.eraser().requests()
    assert [each.erasure.request for each in steps] == ["good"]
    assert sorted(problems) == ["bad0", "bad1", "bad2", "bad3", "copied"]
    shown = {each.request: bool(each.problem) for each in KnownErasures(f"file:{requests}").read()}
    assert shown == {"good": False, **dict.fromkeys(problems, True)}
