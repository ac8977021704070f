"""Files of an S3 store that are complete but stay invisible until they are published.

Such a store cannot rename. Its alternative is the multipart upload: the object does not exist until
a client completes the upload, regardless of the writer of the parts; and after an abort, no client
can complete the upload. This meets all requirements on a staged file, which is at its final
location from the beginning.
"""

import io
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import PermissionRefused, StorageError
from hiveacid.foreign.budget import Threads
from hiveacid.rules.location import Location
from hiveacid.storage.filesystems import S3_TRIES, s3_endpoint, s3_place

# The store takes 10,000 parts; parts grow, so that 800 GB fit.
_PART_BYTES = 8 << 20
_PARTS_OF_A_SIZE = 1000
_PARTS_AT_ONCE = 4
_REFUSED = ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_GONE = ("NoSuchUpload", "404", "NoSuchKey")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file whose parts are all uploaded.

    Attributes:
        path: The final path, below the location of the uploads.
        id: Its id in the store.
        parts: The store's entity tag of each part.
    """

    path: str
    id: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An incomplete upload.

    Attributes:
        path: The final path, below the location of the uploads.
        id: Its id in the store.
        begun: The time of its beginning.
    """

    path: str
    id: str
    begun: datetime


class Uploads:
    """The uploads below a folder of an S3 store."""

    def __init__(self, location: Location, endpoint: str | None, region: str | None) -> None:
        """Use `of`, which finds the store by itself."""
        self.location = location.rstrip("/")
        bucket, _, prefix = (s3_place(location) or "").partition("/")
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._store = endpoint, region

    @staticmethod
    def of(location: Location) -> "Uploads | None":
        """Return the uploads below a location, if it is in an S3 store and boto3 is installed."""
        if s3_place(location) is None or find_spec("boto3") is None:
            return None
        return Uploads(location, s3_endpoint(), os.environ.get("AWS_REGION"))

    @property
    def _client(self) -> Any:
        """The client of this process: two processes cannot share a connection to the store."""
        return _client(*self._store, os.getpid())

    def begin(self, path: str) -> "UploadedFile":
        """Begin to write a file that will appear at a path."""
        with self._translated_errors(path):
            answer = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key(path))
        return UploadedFile(self, Upload(path, answer["UploadId"]))

    def send(self, upload: Upload, number: int, content: bytes) -> str:
        """Send a part, and return its entity tag."""
        with self._translated_errors(upload.path):
            answer = self._client.upload_part(
                **self._named(upload), PartNumber=number, Body=content, ContentLength=len(content)
            )
        return str(answer["ETag"])

    def complete(self, upload: Upload) -> None:
        """Publish a file.

        Raises:
            StorageError: The upload was aborted.
        """
        parts = [{"ETag": tag, "PartNumber": n} for n, tag in enumerate(upload.parts, start=1)]
        with self._translated_errors(upload.path):
            try:
                self._client.complete_multipart_upload(
                    **self._named(upload), MultipartUpload={"Parts": parts}
                )
            except self._client.exceptions.NoSuchUpload:
                # A request with a lost answer is repeated; then the file exists and the upload does
                # not.
                if not self._is_there(upload.path):
                    raise

    def now(self) -> datetime:
        """Return the present time by the clock of the store, which dates every answer."""
        with self._translated_errors(""):
            answer = self._client.list_objects_v2(Bucket=self._bucket, MaxKeys=1)
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])

    def take_back(self, path: str, upload_id: str) -> None:
        """Abort an upload; a completed or an unknown one is no error."""
        with self._translated_errors(path, gone_ok=True):
            self._client.abort_multipart_upload(**self._named(Upload(path, upload_id)))

    def create(self, path: str, content: bytes) -> None:
        """Publish a small file unless it exists: of several concurrent calls one succeeds.

        Raises:
            StorageError: Another file exists.
        """
        object_name = {"Bucket": self._bucket, "Key": self._key(path)}
        with self._translated_errors(path):
            try:
                self._client.put_object(**object_name, Body=content, IfNoneMatch="*")
            except self._client.exceptions.ClientError as error:
                if _code(error) not in _TAKEN:
                    raise
                # A request with a lost answer is repeated.
                if self._client.get_object(**object_name)["Body"].read() != content:
                    raise StorageError(f"{self.location}/{path} exists already.") from error

    def pending(self) -> list[PendingUpload]:
        """List all incomplete uploads."""
        prefix = f"{self._prefix}/" if self._prefix else ""
        uploads = []
        with self._translated_errors(""):
            pages = self._client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                uploads += [
                    PendingUpload(
                        upload["Key"][len(prefix) :], upload["UploadId"], upload["Initiated"]
                    )
                    for upload in page.get("Uploads", ())
                ]
        return uploads

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
    def _translated_errors(self, path: str, *, gone_ok: bool = False) -> Iterator[None]:
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
    """A file that is written part by part, while the next part is being filled.

    Closing it sends the rest; then ``upload`` contains the data for its publication.
    """

    def __init__(self, uploads: Uploads, upload: Upload) -> None:
        """Use ``Uploads.begin`` instead."""
        super().__init__()
        self._uploads = uploads
        self._upload = upload
        self._buffer = bytearray()
        self._sent: list[Future[str]] = []
        self._written = 0
        self._pool = Threads(_PARTS_AT_ONCE)

    @property
    def upload(self) -> Upload:
        """The upload, complete once the file is closed."""
        return self._upload

    def writable(self) -> bool:
        """Report that the file is writable."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
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
        """Send the remaining data, and wait for all of it."""
        if self.closed:
            return
        try:
            if self._buffer or not self._sent:
                self._send(bytes(self._buffer))
            parts = tuple(future.result() for future in self._sent)
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
        """Discard an unclosed file: Python would close it, at any moment and in any thread."""

    def _send(self, content: bytes) -> None:
        waiting = len(self._sent) - _PARTS_AT_ONCE
        if waiting >= 0:
            self._sent[waiting].result()
        number = len(self._sent) + 1
        self._sent.append(self._pool.submit(self._uploads.send, self._upload, number, content))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@lru_cache(maxsize=8)
def _client(endpoint: str | None, region: str | None, _process: int) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "max_attempts": S3_TRIES},
        # Stores other than Amazon's are addressed by their own host name, and do not support newer
        # checksums.
        s3={"addressing_style": "path"} if endpoint else {},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=32,
    )
    return boto3.session.Session().client(
        "s3", endpoint_url=endpoint, region_name=region, config=config
    )
