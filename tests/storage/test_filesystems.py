import pickle
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from hiveacid.errors import DiskFull, PermissionRefused, StorageError
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import Storage


@pytest.mark.parametrize(
    "location", ["relative/path", "file://elsewhere/a", "ftp://host/a", "file:", "abfs://nothing/a"]
)
def test_an_unusable_location_is_refused(location: str) -> None:
    with pytest.raises(StorageError, match=r"location|file system|absolute path"):
        Storage.of(location)


def test_object_stores_are_found_by_their_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    storage = Storage.of("s3a://bucket/warehouse/t")
    assert storage._filesystem.type_name == "s3"
    assert storage._full("delta_1_1/bucket_00000") == "bucket/warehouse/t/delta_1_1/bucket_00000"
    azure = Storage.of("abfs://container@account.dfs.core.windows.net/t")
    assert azure._filesystem.type_name == "abfs"
    assert azure._full("x") == "container/t/x"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_s3_store_is_asked_at_the_endpoint_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    asked = []

    class Nothing(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), Nothing) as server:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, daemon=True).start()
        with suppress(
            StorageError
        ):  # It answers 404 to everything, so that it has no bucket either.
            Storage.of("s3a://bucket/warehouse/t").exists("base_1")
        server.shutdown()
    assert asked[0].startswith("/bucket/warehouse/t/base_1")


def test_a_full_disk_has_its_own_error() -> None:
    with pytest.raises(DiskFull), translated_os_errors("t"), open("/dev/full", "wb") as full:
        full.write(b"1")


def test_permission_errors_of_every_kind_are_recognised() -> None:
    for code in (1, 13):
        with pytest.raises(PermissionRefused), translated_os_errors("t"):
            raise OSError(code, "no")
    with pytest.raises(StorageError) as other, translated_os_errors("t"):
        raise OSError(5, "broken")
    assert type(other.value) is StorageError


def test_errors_survive_the_way_back_from_a_worker() -> None:
    with pytest.raises(DiskFull) as told, translated_os_errors("t"):
        raise OSError(28, "No space left on device")
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
