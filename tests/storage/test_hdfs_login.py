"""The user of a process on an HDFS with Kerberos, and the error of a rejected one."""

from pathlib import Path

import pytest

from hiveacid.errors import StorageUnreachable
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.hdfs import as_in_token, login_refused


@pytest.mark.parametrize(
    ("service", "url", "asked"),
    [
        ("127.0.0.1:8020", "hdfs://localhost:8020", "hdfs://127.0.0.1:8020"),
        ("127.0.0.1:8020", "hdfs://localhost:18020", "hdfs://localhost:18020"),
        ("localhost:8020", "hdfs://localhost:8020", "hdfs://localhost:8020"),
        ("ha-hdfs:prod", "hdfs://prod", "hdfs://prod"),
        ("127.0.0.1:8020", "hdfs://no.such.host.invalid:8020", "hdfs://no.such.host.invalid:8020"),
    ],
)
def test_a_namenode_is_asked_as_the_token_calls_it(
    service: str, url: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "container_tokens"
    kind = b"\x15HDFS_DELEGATION_TOKEN"
    file.write_bytes(b"HDTS\x00\x01..." + kind + bytes([len(service)]) + service.encode())
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
    assert as_in_token(url) == asked


@pytest.mark.parametrize("file", [None, "gone"])
def test_without_a_token_the_url_stays(
    file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    if file is not None:
        monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / file))
    assert as_in_token("hdfs://localhost:8020") == "hdfs://localhost:8020"


def test_a_rejected_caller_gets_login_instructions() -> None:
    said = "No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)"
    refused = login_refused(f'GSSAPIError(GssMajorCodes {{ raw: "0x1" }}, 2529639053, "{said}")')
    assert refused is not None
    with pytest.raises(StorageUnreachable) as told, translated_os_errors("hdfs://nn:8020/t"):
        raise refused
    assert told.value.retryable
    assert said in str(told.value)
    assert "GssMajorCodes" not in str(told.value)
    assert "kinit" in str(told.value)
    assert login_refused("InvalidToken: token (token for etl: ...) is expired") is not None
    assert login_refused("AccessControlException: Permission denied: user=bob") is None
