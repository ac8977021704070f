"""Files of an S3 store that are all there, and that nobody sees before they are asked to appear.

Such a store cannot rename. What it has instead is the upload in parts: until somebody completes it,
there is no object, whoever has written the parts; and once it was taken back, nobody can complete it.
That is all that a staged file has to be, and it lies where it belongs from the beginning.
"""

import io
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from airflow_hiveacid.errors import PermissionRefused, StorageError
from airflow_hiveacid.storage.filesystems import S3_TRIES, s3_endpoint, s3_place

# The store takes 10,000 parts; parts grow, so that 800 GB fit.
_PART_BYTES = 8 << 20
_PARTS_OF_A_SIZE = 1000
_PARTS_AT_ONCE = 4
_REFUSED = ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_GONE = ("NoSuchUpload", "404", "NoSuchKey")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of which all parts are there.

    Attributes:
        path: Where it will appear, below the location of the uploads.
        id: What the store calls it.
        parts: What the store has said to each part.
    """

    path: str
    id: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that nobody has completed yet.

    Attributes:
        path: Where it would appear, below the location of the uploads.
        id: What the store calls it.
        begun: When it began.
    """

    path: str
    id: str
    begun: datetime


class Uploads:
    """The uploads below a folder of an S3 store."""

    def __init__(self, location: str, client: Any) -> None:
        """Use `of`, which finds the store by itself."""
        self.location = location.rstrip("/")
        bucket, _, prefix = (s3_place(location) or "").partition("/")
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._client = client

    @staticmethod
    def of(location: str) -> "Uploads | None":
        """Those below a location; None where the store is another one, or boto3 is missing."""
        if s3_place(location) is None or find_spec("boto3") is None:
            return None
        return Uploads(location, _client(s3_endpoint(), os.environ.get("AWS_REGION")))

    def begin(self, path: str) -> "UploadedFile":
        """Begin to write a file that will appear at a path."""
        with self._in_our_words(path):
            begun = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key(path))
        return UploadedFile(self, Upload(path, begun["UploadId"]))

    def send(self, upload: Upload, number: int, content: bytes) -> str:
        """Send a part, and return what the store says to it."""
        with self._in_our_words(upload.path):
            sent = self._client.upload_part(
                **self._named(upload), PartNumber=number, Body=content, ContentLength=len(content)
            )
        return str(sent["ETag"])

    def complete(self, upload: Upload) -> None:
        """Let a file appear.

        Raises:
            StorageError: Somebody has taken it back.
        """
        parts = [{"ETag": tag, "PartNumber": n} for n, tag in enumerate(upload.parts, start=1)]
        with self._in_our_words(upload.path):
            try:
                self._client.complete_multipart_upload(
                    **self._named(upload), MultipartUpload={"Parts": parts}
                )
            except self._client.exceptions.NoSuchUpload:
                # A request whose answer got lost is repeated; then it is there, and an upload no more.
                if not self._is_there(upload.path):
                    raise

    def take_back(self, path: str, upload_id: str) -> None:
        """See to it that a file never appears; one that has, or that is unknown, is no error."""
        with self._in_our_words(path, gone_ok=True):
            self._client.abort_multipart_upload(**self._named(Upload(path, upload_id)))

    def create(self, path: str, content: bytes) -> None:
        """Let a small file appear, unless there is one: of several at a time one succeeds.

        Raises:
            StorageError: There is another one.
        """
        named = {"Bucket": self._bucket, "Key": self._key(path)}
        with self._in_our_words(path):
            try:
                self._client.put_object(**named, Body=content, IfNoneMatch="*")
            except self._client.exceptions.ClientError as error:
                if _code(error) not in _TAKEN:
                    raise
                # A request whose answer got lost is repeated.
                if self._client.get_object(**named)["Body"].read() != content:
                    raise StorageError(f"{self.location}/{path} exists already.") from error

    def pending(self) -> list[PendingUpload]:
        """All that nobody has completed yet."""
        prefix = f"{self._prefix}/" if self._prefix else ""
        found = []
        with self._in_our_words(""):
            pages = self._client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                found += [
                    PendingUpload(each["Key"][len(prefix) :], each["UploadId"], each["Initiated"])
                    for each in page.get("Uploads", ())
                ]
        return found

    def _is_there(self, path: str) -> bool:
        from botocore.exceptions import ClientError

        try:
            self._client.head_object(Bucket=self._bucket, Key=self._key(path))
        except ClientError as error:
            if _code(error) in _GONE:
                return False
            raise
        return True

    def _named(self, upload: Upload) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._key(upload.path), "UploadId": upload.id}

    def _key(self, path: str) -> str:
        return "/".join(filter(None, [self._prefix, path]))

    @contextmanager
    def _in_our_words(self, path: str, *, gone_ok: bool = False) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        where = f"{self.location}/{path}"
        try:
            yield
        except ClientError as error:
            code = _code(error)
            if gone_ok and code in _GONE:
                return
            if code in _GONE:
                raise StorageError(
                    f"{where} was taken back before it could appear, as a cleaning does when a"
                    " transaction has ended."
                ) from error
            kind = PermissionRefused if code in _REFUSED else StorageError
            raise kind(f"{where}: {error}.") from error
        except BotoCoreError as error:
            raise StorageError(f"{where}: {error}.") from error


class UploadedFile(io.RawIOBase):
    """A file to be written, part by part, while the next one is being filled.

    Closing it sends the rest; then ``upload`` is what it takes to let it appear.
    """

    def __init__(self, uploads: Uploads, upload: Upload) -> None:
        """Begin one by ``Uploads.begin``."""
        super().__init__()
        self._uploads = uploads
        self._upload = upload
        self._buffer = bytearray()
        self._sent: list[Future[str]] = []
        self._written = 0
        self._pool = ThreadPoolExecutor(_PARTS_AT_ONCE)

    @property
    def upload(self) -> Upload:
        """The upload, complete once the file is closed."""
        return self._upload

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How much was written."""
        return self._written

    def write(self, content: Any) -> int:
        """Write bytes."""
        view = memoryview(content).cast("B")
        self._buffer += view
        self._written += len(view)
        size = _PART_BYTES * (1 + len(self._sent) // _PARTS_OF_A_SIZE)
        while len(self._buffer) >= size:
            self._send(bytes(self._buffer[:size]))
            del self._buffer[:size]
        return len(view)

    def close(self) -> None:
        """Send what is left, and wait for all of it."""
        if self.closed:
            return
        try:
            if self._buffer or not self._sent:
                self._send(bytes(self._buffer))
            parts = tuple(sent.result() for sent in self._sent)
            self._upload = Upload(self._upload.path, self._upload.id, parts)
        finally:
            self._pool.shutdown(cancel_futures=True)
            super().close()

    def give_up(self) -> None:
        """Take it back."""
        self._pool.shutdown(cancel_futures=True)
        super().close()
        self._uploads.take_back(self._upload.path, self._upload.id)

    def __del__(self) -> None:
        """What nobody has closed is no file: Python would close it, at any moment and in any thread."""

    def _send(self, content: bytes) -> None:
        waiting = len(self._sent) - _PARTS_AT_ONCE
        if waiting >= 0:
            self._sent[waiting].result()
        number = len(self._sent) + 1
        self._sent.append(self._pool.submit(self._uploads.send, self._upload, number, content))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@lru_cache(maxsize=8)
def _client(endpoint: str | None, region: str | None) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "max_attempts": S3_TRIES},
        # Stores that are not Amazon's are found by their own name, and know no newer checksums.
        s3={"addressing_style": "path"} if endpoint else {},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=32,
    )
    return boto3.session.Session().client(
        "s3", endpoint_url=endpoint, region_name=region, config=config
    )
