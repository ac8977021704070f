"""The settings for Kerberos of Hadoop's servers on this machine."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hdfs_native import Client

from tests.hadoop.hdfs import Hdfs
from tests.hadoop.software import java_command
from tests.live.yarn import Yarn
from tests.secure.kdc import Kdc

# A ticket is for a name, and never for an address.
HOST = "localhost"


def core_site(kdc: Kdc, protection: str = "authentication") -> dict[str, str]:
    """Return the settings of all servers and clients in core-site.xml.

    Args:
        kdc: The KDC.
        protection: The protection of calls: authentication, integrity or privacy.
    """
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": protection,
        # A metastore makes folders on behalf of those who ask it to.
        "hadoop.proxyuser.hive.hosts": "*",
        "hadoop.proxyuser.hive.users": "*",
        # No principal here is a user of the operating system.
        "hadoop.user.group.static.mapping.overrides": "airflow=etl;alice=etl;bob=;hdfs=;hive=;yarn=",
    }


def hdfs_site(kdc: Kdc, protection: str = "authentication") -> dict[str, str]:
    """Return the settings for Kerberos of an HDFS, also for its blocks."""
    settings = {
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": protection,
        # The ports of this one are not privileged.
        "ignore.secure.ports.for.testing": "true",
        "dfs.web.authentication.kerberos.principal": kdc.principal(f"HTTP/{HOST}"),
        "dfs.web.authentication.kerberos.keytab": str(kdc.keytab),
    }
    for server in ("namenode", "datanode"):
        settings[f"dfs.{server}.kerberos.principal"] = kdc.principal(f"hdfs/{HOST}")
        settings[f"dfs.{server}.keytab.file"] = str(kdc.keytab)
    return settings


@contextmanager
def secured_hdfs(
    kdc: Kdc,
    directory: Path,
    protection: str = "authentication",
    further: Mapping[str, str] | None = None,
) -> Iterator[Hdfs]:
    """An HDFS that asks for Kerberos, while the body of the with statement runs.

    Args:
        kdc: The KDC of its users.
        directory: Keeps everything that it stores.
        protection: Of calls and of blocks.
        further: More settings of hdfs-site.xml.
    """
    with Hdfs(
        directory,
        host=HOST,
        core=core_site(kdc, protection),
        hdfs=hdfs_site(kdc, protection) | dict(further or {}),
        java_options=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"],
    ) as cluster:
        yield cluster


@contextmanager
def secured_yarn(kdc: Kdc, directory: Path, hdfs: Hdfs) -> Iterator[Yarn]:
    """A YARN that asks for Kerberos, while the body of the with statement runs.

    Its containers run as the user of the NodeManager: other users would require a program that
    belongs to root. To HDFS and to metastores they are who submitted them.

    Args:
        kdc: The KDC of its users.
        directory: Keeps everything that it stores.
        hdfs: Its file system.
    """
    yarn = {}
    for server in ("resourcemanager", "nodemanager"):
        yarn[f"yarn.{server}.principal"] = kdc.principal(f"yarn/{HOST}")
        yarn[f"yarn.{server}.keytab"] = str(kdc.keytab)
    sites = {
        "core-site.xml": core_site(kdc) | {"fs.defaultFS": hdfs.uri},
        "hdfs-site.xml": hdfs_site(kdc),
        "yarn-site.xml": yarn,
    }
    options = [f"-Djava.security.krb5.conf={kdc.krb5_conf}"]
    with Yarn(directory, sites=sites, java_options=options) as started:
        yield started


@contextmanager
def logged_in(kdc: Kdc, name: str) -> Iterator[None]:
    """This process has a user's ticket while the body of the with statement runs."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cache = Path(folder, "tickets")
        kdc.log_in(name, cache)
        patch.setenv("KRB5CCNAME", f"FILE:{cache}")
        yield


def give_folder(hdfs: Hdfs, kdc: Kdc, path: str, owner: str, mode: int = 0o755) -> str:
    """Create a folder with an owner; return its location.

    Args:
        hdfs: Where.
        kdc: The KDC of HDFS's superuser.
        path: The folder.
        owner: The owner.
        mode: Its permissions.
    """
    with logged_in(kdc, f"hdfs/{HOST}"):
        client = Client(hdfs.uri)
        client.mkdirs(path, 0o755, True)
        client.set_permission(path, mode)
        client.set_owner(path, owner, "etl")
    return f"{hdfs.uri}{path}"


def owners(hdfs: Hdfs, kdc: Kdc, path: str) -> set[str]:
    """The owners of all that is in a folder."""
    with logged_in(kdc, f"hdfs/{HOST}"):
        return {status.owner for status in Client(hdfs.uri).list_status(path, True)}


def delegation_token(hdfs: Hdfs, kdc: Kdc, owner: str, file: Path) -> None:
    """Have Hadoop's own client write a delegation token into a file, as it is in a container.

    Args:
        hdfs: The server of the token.
        kdc: The KDC of its owner.
        owner: The user of the token.
        file: The new file.
    """
    _fetch_token(hdfs, kdc, owner, "--renewer", "yarn", str(file))


def cancel_token(hdfs: Hdfs, kdc: Kdc, owner: str, file: Path) -> None:
    """Have the NameNode forget the delegation token in a file, as when its time is over.

    Args:
        hdfs: The server of the token.
        kdc: The KDC of its owner.
        owner: The owner.
        file: The file of ``delegation_token``.
    """
    _fetch_token(hdfs, kdc, owner, "--cancel", str(file))


def _fetch_token(hdfs: Hdfs, kdc: Kdc, owner: str, *arguments: str) -> None:
    fetcher = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
    options = [f"-Djava.security.krb5.conf={kdc.krb5_conf}"]
    command = java_command(hdfs.conf, fetcher, *arguments, options=options)
    with logged_in(kdc, owner):
        subprocess.run(command, env=os.environ, check=True, capture_output=True)
