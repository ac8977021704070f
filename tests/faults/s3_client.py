"""All requests of this process to an S3 store, so that a fault can strike there.

Whichever client makes it: those of Arrow, of boto3 and of Hadoop have nothing else in common.
"""

import errno
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hiveacid.rules.names import STAGING_PREFIX
from tests.s3.counting_proxy import ARRIVES, BUSY, CountingProxy, Fate

if TYPE_CHECKING:
    from tests.faults.effects import Effects

# The equivalent of each kind of request on a file system.
_CHANGES = {
    "PutObject": "open",
    "CopyObject": "open",
    "CreateMultipartUpload": "open",
    "UploadPart": "open",
    "UploadPartCopy": "open",
    "CompleteMultipartUpload": "os.rename",
    "AbortMultipartUpload": "os.remove",
    "DeleteObject": "os.remove",
    "DeleteObjects": "os.remove",
}
_UNANSWERED = Fate(is_answered=False)


class WatchedStore(CountingProxy):
    """Precedes the store in this process: each request with a change is a place."""

    def __init__(self, effects: "Effects", endpoint: str) -> None:
        """Describe it.

        Args:
            effects: Counts the changes, and has the fault.
            endpoint: The location of the store.
        """
        port = urlsplit(endpoint).port
        assert port is not None
        super().__init__(port)
        self._effects = effects
        self._endpoint = endpoint

    def arrived(self, kind: str, path: str, size: int) -> Fate:
        """Count a request, and let the fault strike if it is its turn."""
        change = _CHANGES.get(kind)
        try:
            if change is not None and self._effects.strikes_twice(change, f"{kind} {path}"):
                return _UNANSWERED
            if kind == "GetObject":
                self._effects.refuse("read")
        except OSError as error:
            return Fate(403, "QuotaExceeded" if error.errno == errno.ENOSPC else "AccessDenied")
        return BUSY if self._effects.is_busy() else ARRIVES

    def carried_out(self, kind: str, path: str, query: Mapping[str, Sequence[str]]) -> None:
        """Record the last write without a publication."""
        if kind == "UploadPart":
            self._effects.wrote(partial(self._lose, path, query["uploadId"][0]))
        elif kind in _CHANGES:
            staged = STAGING_PREFIX in path and _CHANGES[kind] != "os.remove"
            self._effects.wrote(partial(self._lose, path) if staged else None)

    def _lose(self, path: str, upload: str | None = None) -> None:
        """Let an upload or an object go, as a rule of the bucket does."""
        import boto3

        bucket, _, key = unquote(path).lstrip("/").partition("/")
        client = boto3.client("s3", endpoint_url=self._endpoint)
        if upload is None:
            client.delete_object(Bucket=bucket, Key=key)
        else:
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
