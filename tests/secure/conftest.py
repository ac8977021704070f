"""A KDC, and metastores that ask for Kerberos: one at a time, of each version and protection."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.hadoop.hdfs import Hdfs
from tests.secure.hadoop import secured_hdfs
from tests.secure.kdc import Kdc
from tests.versions import VERSIONS

PROTECTIONS = ("authentication", "integrity", "privacy")


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
        # No user has logged in here, until a test does it.
        patch.setenv("KRB5CCNAME", f"FILE:{kdc.keytab.parent / 'nobody'}")
        yield kdc


@pytest.fixture(
    scope="session",
    params=[(version, protection) for version in VERSIONS for protection in PROTECTIONS],
    ids="-".join,
)
def secured(
    request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A metastore that asks for Kerberos, once per version and protection."""
    version, protection = request.param
    with EmbeddedMetastore(
        version,
        directory=tmp_path_factory.mktemp("secured"),
        kerberized=kdc.kerberized(protection),
    ) as metastore:
        yield metastore


@pytest.fixture
def alices(secured: EmbeddedMetastore, kdc: Kdc) -> MetastoreOptions:
    """Return alice's options for the metastore, by her key."""
    return replace(
        secured.options,
        kerberos_principal=kdc.principal("alice"),
        kerberos_keytab=str(kdc.keytab),
        read_timeout_seconds=60,
    )


@pytest.fixture
def alice(alices: MetastoreOptions) -> Iterator[MetastoreClient]:
    with MetastoreClient(alices) as client:
        yield client


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of tickets of the test's own, which is empty."""
    cache = tmp_path / "tickets"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    assert os.environ["KRB5CCNAME"]
    return cache


@pytest.fixture(scope="module", params=PROTECTIONS)
def kept_hdfs(
    request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hdfs]:
    """An HDFS that asks for Kerberos, once per protection, whose settings all clients find."""
    directory = tmp_path_factory.mktemp("kept-hdfs")
    with (
        secured_hdfs(kdc, directory, request.param) as hdfs,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
        yield hdfs
