"""Keys that are replaced while a process runs, which has tickets for the old ones in its memory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import AuthenticationFailed, NoTicket
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.secure.kdc import Kdc
from tests.versions import VERSIONS

pytestmark = pytest.mark.secure


@pytest.fixture
def own_kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    """A KDC without other users."""
    with Kdc(tmp_path / "kdc") as kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
        yield kdc


@pytest.fixture(params=VERSIONS)
def metastore(
    request: pytest.FixtureRequest, own_kdc: Kdc, tmp_path: Path
) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(
        request.param, directory=tmp_path / "metastore", kerberized=own_kdc.kerberized("integrity")
    ) as metastore:
        yield metastore


def connect(options: MetastoreOptions) -> str:
    with MetastoreClient(options) as client:
        client.get_databases()
        return client.user


def test_a_process_outlives_new_keys(
    metastore: EmbeddedMetastore, own_kdc: Kdc, tmp_path: Path
) -> None:
    """By its keytab; a ticket in a cache is renewed by another process."""
    alices = replace(
        metastore.options,
        kerberos_principal=own_kdc.principal("alice"),
        kerberos_keytab=str(own_kdc.keytab),
    )
    # So that its tickets survive any change of the file, as when only the metastore gets another
    # key.
    kept = replace(alices, kerberos_keytab=f"FILE:{own_kdc.keytab}")
    own_kdc.log_in("bob", tmp_path / "tickets")
    with MetastoreClient(alices) as old:
        assert [old.user, connect(kept), connect(metastore.options)] == ["alice", "alice", "bob"]
        before = own_kdc.keytab.read_bytes()
        own_kdc.kill()
        own_kdc.start()
        assert own_kdc.keytab.read_bytes() != before
        # Open connections continue.
        old.get_databases()
        assert connect(alices) == connect(kept) == "alice"
    with pytest.raises(AuthenticationFailed, match="refuses bob"):
        connect(metastore.options)
    # Like kinit, which keeps nothing of the old cache.
    (tmp_path / "tickets").unlink()
    own_kdc.log_in("bob", tmp_path / "tickets")
    assert connect(metastore.options) == "bob"


@pytest.mark.parametrize("secured", [("4.0.1", "privacy")], indirect=True, ids="-".join)
def test_another_s_keytab_in_the_same_place_is_another_login(
    secured: EmbeddedMetastore, kdc: Kdc, tmp_path: Path
) -> None:
    """Without a principal, the file determines the caller; also while the old ticket is valid."""
    place = tmp_path / "etl.keytab"
    options = replace(secured.options, kerberos_keytab=str(place))
    for name in ("alice", "bob"):
        place.write_bytes(kdc.keytab_of(name))
        assert connect(options) == name
    place.unlink()
    with pytest.raises(NoTicket, match=str(place)):
        connect(options)
