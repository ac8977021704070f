"""The versions of Hive Metastore that tests run with."""

import os

import pytest

from tests.vendors.profiles import PROFILES

# The profile that all metastores of the tests have: `make vendors`.
VENDOR = PROFILES[os.environ["VENDOR"]] if "VENDOR" in os.environ else None
VERSIONS = ("4.0.1", "3.1.3") if VENDOR is None else (VENDOR.apache,)
# `make metastores` holds the same tests against these; the fake one knows no answers of their own.
NEWER = tuple(pytest.param(version, marks=pytest.mark.metastores) for version in ("4.1.0", "4.2.0"))
REAL_4 = ("4.0.1", *NEWER)
REAL = (*REAL_4, "3.1.3")
