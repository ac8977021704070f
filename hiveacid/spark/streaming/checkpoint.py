"""The checkpoint of a Structured Streaming query, as far as a stream needs it."""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.errors import CheckpointMismatch
from hiveacid.records.stream_place import NO_BATCH, CheckpointState
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.spark_versions import java_class
from hiveacid.storage.folder import ReadOnlyStorage

_COMPACTED = ".compact"
_CHUNK_BYTES = 1 << 20


def with_file_system(spark: SparkSession, location: str) -> str:
    """Return a location with its scheme; a path without one is in Spark's default file system."""
    if not location.startswith("/"):
        return location
    with translated_spark_errors(f"Looking up the file system of {location}"):
        path = java_class(spark, "org.apache.hadoop.fs.Path")(location)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        return str(path.getFileSystem(configuration).makeQualified(path).toString())


class StreamCheckpoint:
    """A read-only checkpoint; only Spark writes it.

    Args:
        location: The folder, with its scheme.
    """

    def __init__(self, location: str) -> None:
        self._storage = ReadOnlyStorage.of(location)

    def state(self) -> CheckpointState:
        """Return the state of the checkpoint, empty if it does not exist.

        Raises:
            CheckpointMismatch: The checkpoint exists, but does not identify its query.
        """
        content = self._storage.read_small("metadata")
        planned, done = self._last("offsets"), self._last("commits")
        if content is None:
            if planned == NO_BATCH:
                return CheckpointState(self._storage.location)
            raise CheckpointMismatch(
                f"The checkpoint {self._storage.location} has batches, but no file metadata."
            )
        try:
            query_id = json.loads(content)["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            query_id = None
        if not isinstance(query_id, str) or not query_id:
            raise CheckpointMismatch(
                f"{self._storage.location}/metadata does not contain the id of a query."
            )
        return CheckpointState(self._storage.location, query_id, planned, done)

    def offsets_digest(self, batch_id: int) -> str:
        """A digest of the rows of a batch: of its offsets, and of the preceding ones.

        The offsets of a source of files only count the entries of a log, so the entries are
        included. Times and settings are excluded: a batch is the same when it is planned again.

        Raises:
            CheckpointMismatch: The checkpoint does not have the offsets.
        """
        until, after = self._offsets(batch_id), self._offsets(batch_id - 1)
        after += [None] * (len(until) - len(after))
        files = [
            self._logged(source, _log_offset(start), _log_offset(end))
            for source, (start, end) in enumerate(zip(after, until, strict=False))
        ]
        text = json.dumps([after, until, files], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _offsets(self, batch_id: int) -> list[Any]:
        """The offset of each source at the end of a batch; empty before the first batch."""
        if batch_id == NO_BATCH:
            return []
        path = f"offsets/{batch_id}"
        # The lines are a version, settings, and an offset for each source.
        if len(lines := [*self._lines(path)]) < 3:
            raise self._unreadable(path)
        return [_offset(line) for line in lines[2:]]

    def _logged(self, source: int, after: int, until: int) -> list[Any]:
        """The files that a source has logged between two offsets.

        Every tenth file of the log repeats all entries before it, and the others are deleted.
        """
        wanted = set(range(after + 1, until + 1))
        if not wanted:
            return []
        folder = f"sources/{source}"
        names = {file.path for file in self._storage.list_files(folder, missing_ok=True)}
        compacted = (int(stem) for name in names if (stem := _compacted(name)) is not None)
        whole = min((number for number in compacted if number > after), default=None)
        rest = sorted(wanted if whole is None else wanted - set(range(whole + 1)))
        paths = [f"{folder}/{number}" for number in rest]
        if whole is not None:
            paths.append(f"{folder}/{whole}{_COMPACTED}")
        entries = []
        for path in paths:
            try:
                for entry in map(json.loads, islice(self._lines(path), 1, None)):
                    if entry["batchId"] in wanted:
                        entries.append([entry["batchId"], entry["path"], entry["timestamp"]])
            except (ValueError, KeyError, TypeError, RecursionError):
                raise self._unreadable(path) from None
        return sorted(entries)

    def _lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a file, which may have millions."""
        if not self._storage.exists(path):
            raise self._unreadable(path)
        left = b""
        with self._storage.open_input(path) as source:
            while chunk := source.read(_CHUNK_BYTES):
                *lines, left = (left + chunk).split(b"\n")
                yield from lines
        if left:
            yield left

    def _unreadable(self, path: str) -> CheckpointMismatch:
        return CheckpointMismatch(
            f"{self._storage.location}/{path} is missing or cannot be read, so the rows of a batch "
            "cannot be compared with those that were applied.",
            remedy="Put the newest checkpoint of the stream there.",
        )

    def _last(self, folder: str) -> int:
        names = (file.path for file in self._storage.list_files(folder, missing_ok=True))
        return max((int(name) for name in names if name.isdecimal()), default=NO_BATCH)


def _offset(line: bytes) -> Any:
    """Parse an offset, so that the order of keys is irrelevant; an invalid one remains text."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode(errors="replace")


def _log_offset(offset: Any) -> int:
    """The number of a source's last log entry; -1 if its offsets do not count entries."""
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if type(number) is int else -1


def _compacted(name: str) -> str | None:
    stem = name.removesuffix(_COMPACTED)
    return stem if stem != name and stem.isdecimal() else None
