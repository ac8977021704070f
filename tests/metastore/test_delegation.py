"""A driver's delegation token: it is replaced in time, and cancelled."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import AuthenticationFailed, InvalidJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore import delegation
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.delegation import TokenKeeper, new_token
from hiveacid.metastore.sasl.channel import Protection
from tests.fakes.metastore import FakeMetastore
from tests.fakes.sasl import SaslFront

VARIABLE = "HIVEACID_TOKEN_TEST"


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[FakeMetastore]:
    with FakeMetastore("4.0.1", directory=tmp_path) as metastore:
        yield metastore


@pytest.fixture
def options(
    metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MetastoreOptions]:
    front = SaslFront(metastore.uri, metastore.tokens.password, Protection.INTEGRITY)
    metastore.tokens.life, metastore.tokens.most = 1.5, 3.0
    with MetastoreClient(replace(metastore.options, user="alice")) as submitter:
        monkeypatch.setenv(VARIABLE, new_token(submitter))
    kerberos = MetastoreOptions(
        uris=front.uri,
        auth_mechanism="GSSAPI",
        kerberos_keytab="/k",
        kerberos_principal="alice@EX",
        kerberos_ccache="/c",
    )
    yield kerberos.with_delegation_token(VARIABLE)
    front.close()


def connects(options: MetastoreOptions) -> bool:
    with MetastoreClient(options) as client:
        try:
            return client.user == "alice"
        except AuthenticationFailed:
            return False


def test_nothing_of_a_keytab_is_left_in_what_a_driver_gets(options: MetastoreOptions) -> None:
    options.validate()
    kept = (options.kerberos_keytab, options.kerberos_principal, options.kerberos_ccache)
    assert kept == (None, None, None)
    assert options.auth_mechanism == "DIGEST-MD5"


def test_an_unused_token_expires(
    options: MetastoreOptions, eventually: Callable[..., None]
) -> None:
    assert connects(options)
    eventually("the token expires", lambda: not connects(options), 10)


def test_a_kept_token_outlives_its_life_and_is_cancelled_in_the_end(
    options: MetastoreOptions, metastore: FakeMetastore, eventually: Callable[..., None]
) -> None:
    tokens = metastore.tokens
    first = os.environ[VARIABLE]
    with TokenKeeper(options):
        eventually("there are more tokens", lambda: tokens.given > 3, 20)
        assert connects(options)
        assert os.environ[VARIABLE] != first
    assert tokens.cancelled == tokens.given
    assert not connects(options)


def test_a_metastore_that_forgets_renewals_is_supported(
    options: MetastoreOptions, metastore: FakeMetastore, eventually: Callable[..., None]
) -> None:
    # As 3.1 does: it reports another expiry, and keeps the old one.
    tokens = metastore.tokens
    tokens.renew_delegation_token = lambda _: int((time.time() + tokens.life) * 1000)  # type: ignore[method-assign]
    with TokenKeeper(options):
        eventually("there are more tokens", lambda: tokens.given > 3, 20)
        assert connects(options)


@pytest.mark.parametrize("ahead", [-280.0, 280.0])
def test_a_clock_that_goes_wrong_does_not_change_how_long_a_token_lives(
    ahead: float,
    options: MetastoreOptions,
    metastore: FakeMetastore,
    eventually: Callable[..., None],
) -> None:
    with TokenKeeper(options):
        tokens = metastore.tokens
        eventually("the keeper is connected", lambda: tokens.renewed > 0, 20)
        tokens.ahead, tokens.life = ahead, 0.6
        begun, before = time.monotonic(), tokens.given
        eventually("there are more tokens", lambda: tokens.given > before + 3, 20)
        # Neither as fast as it can, nor when it is too late.
        assert time.monotonic() - begun > 2 * tokens.life / 2


@pytest.mark.parametrize("end", [-(2**63), 0, 2**63 - 1])
def test_an_end_that_cannot_be_is_no_end_of_the_keeping(
    end: int,
    options: MetastoreOptions,
    metastore: FakeMetastore,
    eventually: Callable[..., None],
) -> None:
    asked = threading.Event()

    def renew(_: str) -> int:
        asked.set()
        return end

    metastore.tokens.renew_delegation_token = renew  # type: ignore[method-assign]
    with TokenKeeper(options) as keeper:
        assert asked.wait(20)
        if end <= 0:
            eventually("there are more tokens", lambda: metastore.tokens.given > 3, 20)
        assert keeper._thread is not None
        keeper._thread.join(0.3)
        assert keeper._thread.is_alive()
    assert metastore.tokens.cancelled == metastore.tokens.given


def test_an_unreachable_metastore_does_not_fail_running_work(
    options: MetastoreOptions, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "_RETRY_SECONDS", 60.0)
    begun = time.monotonic()
    with TokenKeeper(replace(options, uris="thrift://127.0.0.1:1")):
        done = True
    assert done
    assert time.monotonic() - begun < 60


def test_without_a_token_there_is_nothing_to_keep(metastore: FakeMetastore) -> None:
    before = set(threading.enumerate())
    for options in (None, metastore.options):
        with TokenKeeper(options):
            assert set(threading.enumerate()) <= before


def test_a_driver_without_its_token_fails_at_once(
    options: MetastoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(InvalidJob, match=f"{VARIABLE} holds no delegation token"):
        TokenKeeper(options).__enter__()
