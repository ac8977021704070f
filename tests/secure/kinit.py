"""The program kinit, which `airflow kerberos` runs: that of the system, or Debian's as it is."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from hiveacid.metastore.dev.distribution import cache_folder

_PACKAGES = ("krb5-user", "libkadm5srv-mit12", "libkdb5-10", "libgssrpc4")


def kinit() -> Path:
    """The program, fetched into the cache if there is none on the PATH.

    Raises:
        RuntimeError: There is none, and no way to get one.
    """
    if found := shutil.which("kinit"):
        return Path(found)
    home = cache_folder() / "krb5-user"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="krb5-user.", dir=home.parent) as scratch:
            _fetch(Path(scratch))
            Path(scratch, "root").rename(home)
    return home / "kinit"


def _fetch(scratch: Path) -> None:
    root = scratch / "root"
    download = ["apt-get", "download", *_PACKAGES]
    try:
        subprocess.run(download, cwd=scratch, check=True, capture_output=True)
        for package in scratch.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError("There is no kinit: install krb5-user, or krb5-workstation.") from error
    # With its libraries, wherever it comes to lie.
    program = root / "kinit"
    program.write_text(
        '#!/bin/sh\nhere=$(dirname "$0")\n'
        'LD_LIBRARY_PATH=$(echo "$here"/usr/lib/*) exec "$here"/usr/bin/kinit "$@"\n'
    )
    program.chmod(0o755)
