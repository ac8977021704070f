"""Clients of object stores in forked processes: two processes never share a connection."""

import pytest

from hiveacid.storage.folder import Storage
from hiveacid.storage.uploads import Uploads
from tests.forks import forked


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    """No store is asked for the region of a bucket."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-west-1")


def test_a_child_opens_the_file_system_of_a_folder_again() -> None:
    storage = Storage.of("s3://bucket/t")
    own = storage._filesystem

    def is_opened_once() -> bool:
        return storage._filesystem is not own and storage._filesystem is storage._filesystem

    assert forked(is_opened_once)
    assert storage._filesystem is own


def test_a_child_has_its_own_client_of_uploads() -> None:
    uploads = Uploads.of("s3://bucket/t")
    assert uploads is not None
    own = uploads._client

    def is_opened_once() -> bool:
        return uploads._client is not own and uploads._client is uploads._client

    assert forked(is_opened_once)
    assert uploads._client is own
