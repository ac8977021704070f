"""Kerberos as a mechanism: negotiation, authentication, and the translation of failures."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import (
    AuthenticationFailed,
    HiveAcidError,
    NoTicket,
    SoftwareMissing,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.sasl import kerberos
from hiveacid.metastore.sasl import kerberos as system_gssapi
from hiveacid.metastore.sasl.channel import Protection
from hiveacid.metastore.sasl.kerberos import GssFailure, Kerberos

OPTIONS = MetastoreOptions(uris="thrift://Hms.Ex:1", auth_mechanism="GSSAPI")
BASE = -1765328384


class Conversation:
    """One side of a conversation: `step` asks and answers, then all is wrapped in brackets."""

    def __init__(self, target: str, principal: str | None, store: dict[str, str]) -> None:
        self.asked = (target, principal, store)
        self.complete = False
        self.principal = "airflow/worker-1@EXAMPLE.COM"
        self.fails: GssFailure | None = None

    def step(self, token: bytes) -> bytes:
        if self.fails is not None:
            raise self.fails
        self.complete = token == b"mutual"
        return b"" if self.complete else b"ticket"

    def wrap(self, data: bytes, encrypt: bool) -> bytes:
        return (b"<%s>" if encrypt else b"[%s]") % data

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        if data[:1] not in (b"<", b"["):
            raise GssFailure(BASE + 31, "Decrypt integrity check failed")
        return data[1:-1], data[:1] == b"<"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Conversation]:
    """All conversations."""
    made: list[Conversation] = []

    def make(*arguments: object) -> Conversation:
        made.append(Conversation(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(kerberos, "SystemContext", make)
    return made


@pytest.fixture
def mechanism(made: list[Conversation]) -> Kerberos:
    """One that has met the metastore, and not agreed on anything."""
    mechanism = Kerberos(OPTIONS, "Hms.Ex", "Hms.Ex:1")
    assert mechanism.step(b"") == b"ticket"
    assert mechanism.step(b"mutual") == b""
    return mechanism


@pytest.mark.parametrize(
    ("offer", "agreed", "size"),
    [
        (1, Protection.AUTH, 0),
        (2, Protection.INTEGRITY, 0xFFFFFF),
        (4, Protection.PRIVACY, 0xFFFFFF),
        (7, Protection.PRIVACY, 0xFFFFFF),
        (3, Protection.INTEGRITY, 0xFFFFFF),
    ],
)
def test_the_strongest_of_what_is_offered_is_agreed(
    mechanism: Kerberos, offer: int, agreed: Protection, size: int
) -> None:
    answer = mechanism.step(b"[" + bytes([offer]) + b"\xff\xff\xff]")
    (word,) = struct.unpack(">I", answer[1:-1])
    assert (mechanism.protection, mechanism.done, mechanism.user) == (agreed, True, "airflow")
    assert Protection(list(Protection)[(word >> 24).bit_length() - 1]) is agreed
    assert word & 0xFFFFFF == size


@pytest.mark.parametrize("offer", [b"[\x00\xff\xff\xff]", b"[\x08\xff\xff\xff]", b"[\x01]", b"[]"])
def test_an_offer_of_nothing_is_refused(mechanism: Kerberos, offer: bytes) -> None:
    with pytest.raises((AuthenticationFailed, ValueError), match="offers no protection"):
        mechanism.step(offer)
    assert not mechanism.done


def test_an_offer_that_is_not_the_metastore_s_is_an_impostor_s(mechanism: Kerberos) -> None:
    with pytest.raises(AuthenticationFailed, match=r"did not prove that it is hive@Hms\.Ex"):
        mechanism.step(b"\x04\xff\xff\xff")


def test_an_answer_that_no_key_of_the_metastore_made_is_an_impostor_s(
    made: list[Conversation],
) -> None:
    mechanism = Kerberos(OPTIONS, "h", "h:1")
    mechanism.step(b"")
    made[0].fails = GssFailure(BASE + 31, "Decrypt integrity check failed")
    with pytest.raises(AuthenticationFailed, match="h:1 did not prove that it is hive@h"):
        mechanism.step(b"whatever")


def test_where_all_is_encrypted_nothing_else_is_taken(mechanism: Kerberos) -> None:
    mechanism.step(b"[\x04\xff\xff\xff]")
    assert mechanism.wrap(b"call") == b"<call>"
    assert mechanism.unwrap(b"<answer>") == b"answer"
    for changed in (b"[answer]", b"answer"):
        with pytest.raises(ValueError, match=r"not encrypted|changed on the way"):
            mechanism.unwrap(changed)


@pytest.mark.parametrize(
    ("fields", "target", "store"),
    [
        ({}, "hive@Hms.Ex", {}),
        ({"kerberos_service_name": "hms"}, "hms@Hms.Ex", {}),
        ({"kerberos_service_name": "hive/_HOST@EX"}, "hive/hms.ex@EX", {}),
        ({"kerberos_ccache": "DIR:/t"}, "hive@Hms.Ex", {"ccache": "DIR:/t"}),
        (
            {"kerberos_keytab": "/k", "kerberos_ccache": "/t", "kerberos_principal": "a@EX"},
            "hive@Hms.Ex",
            {"client_keytab": "/k", "ccache": "/t"},
        ),
    ],
)
def test_settings_contain_the_addresses(
    made: list[Conversation], fields: dict[str, str], target: str, store: dict[str, str]
) -> None:
    options = MetastoreOptions(uris="thrift://h:1", auth_mechanism="GSSAPI", **fields)  # type: ignore[arg-type]
    Kerberos(options, "Hms.Ex", "w").step(b"")
    assert made[0].asked == (target, fields.get("kerberos_principal"), store)


def test_keytabs_have_tickets_of_their_own_in_memory(made: list[Conversation]) -> None:
    for name in ("alice@EX", "alice@EX", "bob@EX"):
        options = MetastoreOptions(
            uris="thrift://h:1",
            auth_mechanism="GSSAPI",
            kerberos_keytab="/k",
            kerberos_principal=name,
        )
        Kerberos(options, "h", "h:1").step(b"")
    caches = [conversation.asked[2]["ccache"] for conversation in made]
    assert all(cache.startswith("MEMORY:") for cache in caches)
    assert caches[0] == caches[1] != caches[2]


def test_a_keytab_that_is_replaced_is_another_login(
    made: list[Conversation], tmp_path: Path
) -> None:
    keytab = tmp_path / "etl.keytab"
    options = replace(OPTIONS, kerberos_keytab=str(keytab))
    for keys in (b"alice", b"bob"):
        new = tmp_path / "new"
        new.write_bytes(keys)
        new.rename(keytab)
        for _ in range(2):
            Kerberos(options, "h", "h:1").step(b"")
    caches = [conversation.asked[2]["ccache"] for conversation in made]
    assert caches[0] == caches[1] != caches[2] == caches[3]


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({"kerberos_keytab": "/k"}, True),
        ({"kerberos_keytab": "/k", "kerberos_ccache": "/t"}, False),
        ({}, False),
    ],
)
def test_tickets_that_are_refused_are_forgotten(
    made: list[Conversation],
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, str],
    own: bool,
) -> None:
    """Our own tickets; other caches have another owner."""
    forgotten: list[str] = []
    monkeypatch.setattr(kerberos, "forget_tickets", forgotten.append)
    mechanism = Kerberos(replace(OPTIONS, **fields), "h", "h:1")  # type: ignore[arg-type]
    mechanism.step(b"")
    mechanism.refused("GSS initiate failed")
    assert forgotten == ([made[0].asked[2]["ccache"]] if own else [])


@pytest.mark.parametrize(("number", "forgets"), [(31, True), (156, False)])
def test_tickets_are_kept_while_the_kdc_is_away(
    made: list[Conversation], monkeypatch: pytest.MonkeyPatch, number: int, forgets: bool
) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(kerberos, "forget_tickets", forgotten.append)

    def no_ticket(self: Conversation, token: bytes) -> bytes:
        raise GssFailure(BASE + number, "What Kerberos says")

    monkeypatch.setattr(Conversation, "step", no_ticket)
    with pytest.raises(AuthenticationFailed):
        Kerberos(replace(OPTIONS, kerberos_keytab="/k"), "h", "h:1").step(b"")
    assert bool(forgotten) is forgets


def logging_in(failure: GssFailure) -> HiveAcidError:
    return failure.login_error("keytab /k", keytab=True)


def meeting(failure: GssFailure) -> HiveAcidError:
    return failure.service_error("hive@h")


@pytest.mark.parametrize(
    ("when", "number", "error", "remedy"),
    [
        (logging_in, 6, NoTicket, "correct kerberos_principal"),
        (logging_in, 24, NoTicket, "export the keytab again"),
        (logging_in, 31, NoTicket, "export the keytab again"),
        (logging_in, 37, AuthenticationFailed, "Set the clocks"),
        (logging_in, 156, NoTicket, "KRB5_CONFIG"),
        (logging_in, 154, NoTicket, "KRB5_CONFIG"),
        (logging_in, 68, NoTicket, "KRB5_CONFIG"),
        (logging_in, 141, NoTicket, "klist -kt"),
        (meeting, 7, AuthenticationFailed, "never its address"),
        (meeting, 32, NoTicket, "kinit"),
        (meeting, 33, AuthenticationFailed, "Set the clocks"),
        (meeting, 37, AuthenticationFailed, "Set the clocks"),
        (meeting, 156, NoTicket, "KRB5_CONFIG"),
        (meeting, 220, NoTicket, "KRB5_CONFIG"),
        (meeting, 60, AuthenticationFailed, ""),
    ],
)
def test_a_failure_contains_the_remedy(
    when: Callable[[GssFailure], HiveAcidError],
    number: int,
    error: type[HiveAcidError],
    remedy: str,
) -> None:
    told = when(GssFailure(BASE + number, "What Kerberos says."))
    assert type(told) is error
    assert "What Kerberos says. " in f"{told} "
    assert remedy in told.remedy


def test_without_a_library_the_package_to_install_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_gssapi, "_LIBRARY", "libgssapi_that_is_not.so.2")
    system_gssapi._library.cache_clear()
    with pytest.raises(SoftwareMissing, match="libgssapi-krb5-2"):
        Kerberos(OPTIONS, "h", "h:1").step(b"")
    system_gssapi._library.cache_clear()
