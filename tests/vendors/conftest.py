"""A metastore like a vendor's: each test states its profile, and runs on the fake and the real one."""

from collections.abc import Iterator

import pytest

from hiveacid.metastore.client import MetastoreClient
from tests.vendors.profiles import PROFILES
from tests.vendors.proxy import VendorMetastore


@pytest.fixture(params=["fake", pytest.param("hms", marks=pytest.mark.server)])
def kind(request: pytest.FixtureRequest) -> str:
    """The metastore behind the proxy."""
    return str(request.param)


@pytest.fixture(params=sorted(PROFILES))
def vendor(request: pytest.FixtureRequest, kind: str) -> Iterator[VendorMetastore]:
    profile = PROFILES[request.param]
    with VendorMetastore(
        profile, request.getfixturevalue(f"{kind}{profile.apache[0]}")
    ) as metastore:
        yield metastore


@pytest.fixture
def client(vendor: VendorMetastore) -> Iterator[MetastoreClient]:
    """A client that knows nothing of the vendor."""
    with MetastoreClient(vendor.options) as client:
        yield client


@pytest.fixture
def apache(vendor: VendorMetastore) -> Iterator[MetastoreClient]:
    """A client of the metastore behind the proxy."""
    with MetastoreClient(vendor.behind.options) as client:
        yield client
