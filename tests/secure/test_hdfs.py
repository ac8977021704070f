"""Files on an HDFS that asks for Kerberos: with tickets, with delegation tokens, and with nothing."""

import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from hiveacid.errors import StorageUnreachable
from hiveacid.storage.folder import Storage
from tests.hadoop.hdfs import Hdfs
from tests.secure.hadoop import (
    cancel_token,
    delegation_token,
    give_folder,
    logged_in,
    owners,
)
from tests.secure.kdc import Kdc

pytestmark = pytest.mark.secure

TICKET_SECONDS = 15

# The steps of publishing, in a separate process without another login.
_PUBLISH = """\
import sys
from hiveacid.storage.folder import Storage
storage = Storage.of(sys.argv[1])
storage.write_file(".staging/delta_1_1/f", b"1" * 3_000_000)
storage.rename(".staging/delta_1_1", sys.argv[2])
assert storage.read_small(sys.argv[2] + "/f", 1 << 22) == b"1" * 3_000_000
print(len(storage.list_files(sys.argv[2])))
"""


@pytest.fixture
def folder(kept_hdfs: Hdfs, kdc: Kdc, tmp_path: Path) -> str:
    """The location of a folder of alice's."""
    return give_folder(kept_hdfs, kdc, str(tmp_path), "alice")


def publish(folder: str, name: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _PUBLISH, folder, name],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_ticket_determines_the_writer(
    kept_hdfs: Hdfs, folder: str, kdc: Kdc, cache: Path
) -> None:
    kdc.log_in("alice", cache)
    done = publish(folder, "delta_1_1")
    assert done.returncode == 0, done.stderr
    assert owners(kept_hdfs, kdc, folder.removeprefix(kept_hdfs.uri)) == {"alice"}

    with logged_in(kdc, "bob"):
        refused = publish(folder, "delta_2_2")
    assert "PermissionRefused" in refused.stderr
    assert "user=bob" in refused.stderr


def test_without_a_ticket_the_error_says_so(folder: str, cache: Path) -> None:
    assert not cache.exists()
    refused = publish(folder, "delta_1_1")
    assert "StorageUnreachable" in refused.stderr
    assert f"No Kerberos credentials available (default cache: FILE:{cache})" in refused.stderr


def test_in_a_container_a_delegation_token_is_all_that_it_takes(
    kept_hdfs: Hdfs, folder: str, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "container_tokens"
    delegation_token(kept_hdfs, kdc, "alice", file)
    # Hadoop makes it out to an address, and tables are at a name.
    assert b"127.0.0.1:" in file.read_bytes()
    assert "localhost:" in folder
    with monkeypatch.context() as container:
        container.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
        container.delenv("KRB5_CONFIG")
        done = publish(folder, "delta_1_1")
    assert done.returncode == 0, done.stderr
    assert owners(kept_hdfs, kdc, folder.removeprefix(kept_hdfs.uri)) == {"alice"}

    cancel_token(kept_hdfs, kdc, "alice", file)
    with monkeypatch.context() as container:
        container.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
        refused = publish(folder, "delta_2_2")
    assert "StorageUnreachable" in refused.stderr
    assert "token" in refused.stderr.splitlines()[-1]


def test_a_process_survives_its_ticket_if_it_is_renewed(
    kept_hdfs: Hdfs, folder: str, kdc: Kdc, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.short_tickets(TICKET_SECONDS)))
    kdc.log_in("alice", cache)
    storage = Storage.of(folder)
    storage.write_file("first", b"1")
    kept_hdfs.restart_namenode()  # The next client connects again.
    kept_hdfs.wait_until_usable()
    assert not Event().wait(TICKET_SECONDS)
    with pytest.raises(StorageUnreachable, match=r"[Ee]xpired"):
        Storage.of(folder).write_file("second", b"2")
    kdc.log_in("alice", cache)
    storage.write_file("second", b"2")
    assert storage.read_small("first", 10) + storage.read_small("second", 10) == b"12"
