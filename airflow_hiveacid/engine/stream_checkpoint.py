"""The checkpoint of a query of Structured Streaming, as far as a stream has to know it."""

import json

from airflow_hiveacid.errors import CheckpointMismatch
from airflow_hiveacid.jobs.stream_place import NO_BATCH, CheckpointState
from airflow_hiveacid.storage.folder import ReadOnlyStorage


class StreamCheckpoint:
    """A checkpoint to look at; Spark alone writes it.

    Args:
        location: The folder, with its scheme.
    """

    def __init__(self, location: str) -> None:
        self._storage = ReadOnlyStorage.of(location)

    def state(self) -> CheckpointState:
        """What it says, all of it without a file if there is none.

        Raises:
            CheckpointMismatch: It is there, but does not say of which query it is.
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
                f"{self._storage.location}/metadata does not say the id of a query."
            )
        return CheckpointState(self._storage.location, query_id, planned, done)

    def _last(self, folder: str) -> int:
        names = (file.path for file in self._storage.list_files(folder, missing_ok=True))
        return max((int(name) for name in names if name.isdecimal()), default=NO_BATCH)
