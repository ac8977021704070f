"""Files of a table with the positions and the states of streams."""

import re

from hiveacid.errors import CheckpointMismatch, StorageError, StreamOvertaken
from hiveacid.jobs import codec
from hiveacid.records.numbered_file import NumberedFile
from hiveacid.records.proofs import NoteName, digest_of
from hiveacid.records.stream_place import StreamPlace
from hiveacid.records.stream_state import StreamState
from hiveacid.rules.names import RUN_NOTES, STREAM_PLACES, UNFINISHED_PREFIX
from hiveacid.storage.folder import ReadOnlyStorage, Storage

_STOP = "stop"
_PLACE = re.compile(rf"{STREAM_PLACES}/[^/]+/[0-9]{{1,18}}\.json")
# Real tables have fewer; a hostile folder may have more.
_MOST_STATES = 100


class StreamPlaces:
    """Positions of one stream; the newest one counts.

    Args:
        storage: The folder of the stream's first table.
        name: The stream.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._folder = f"{STREAM_PLACES}/{name}"
        self._file = NumberedFile(storage, self._folder)
        # Outside the folder, where writing a position removes unknown files.
        self._state_path = f"{self._folder}.json"

    def read(self) -> StreamPlace | None:
        """Return the position of the stream; None if the table has none.

        Raises:
            StorageError: The newest position cannot be read.
        """
        found = self._file.read()
        if found is None:
            return None
        number, content = found
        place = codec.valid_record(StreamPlace, content)
        if place is None:
            path = f"{self._storage.location}/{self._file.path(number)}"
            raise StorageError(
                f"{path} cannot be read as the place of a stream.",
                remedy="Restore it; without it the applied batches are unknown.",
            )
        return place

    def known(self) -> StreamPlace:
        """Return the position of a stream that has one.

        Raises:
            CheckpointMismatch: The table no longer has a position of the stream.
        """
        place = self.read()
        if place is None:
            raise CheckpointMismatch(
                f"{self._storage.location}/{self._folder} has vanished.",
                remedy="If the table was created again, give the stream a new checkpoint.",
            )
        return place

    def write(self, place: StreamPlace) -> None:
        """Write a position as the successor of the previous one.

        Raises:
            StreamOvertaken: Another driver has done so.
            CheckpointMismatch: The place before it has vanished with its table.
        """
        if not self._file.write(place.number, codec.to_bytes(place), follows=place.number > 0):
            self.known()
            path = f"{self._storage.location}/{self._file.path(place.number)}"
            raise StreamOvertaken(f"Another driver of stream {place.name} has written {path}.")

    def read_state(self) -> StreamState | None:
        """Return the last state that the stream's driver reported."""
        return _state(self._storage, self._state_path)

    def write_state(self, state: StreamState) -> None:
        """Publish the state of the stream."""
        self._storage.write_file(self._state_path, codec.to_bytes(state), replace=True)

    def ask_to_stop(self) -> None:
        """Request the driver to end the stream after the current batch."""
        self._storage.write_file(f"{self._folder}/{_STOP}", b"", replace=True)

    def is_asked_to_stop(self) -> bool:
        """Whether a stop of the stream is requested."""
        return self._storage.exists(f"{self._folder}/{_STOP}")

    def begin(self) -> None:
        """Remove stop requests to earlier drivers, and unfinished files of killed ones."""
        self._storage.delete_file(f"{self._folder}/{_STOP}")
        for file in self._storage.list_files(STREAM_PLACES, missing_ok=True):
            if file.path.startswith(UNFINISHED_PREFIX) and file.path.endswith(
                f"_{self._name}.json"
            ):
                self._storage.delete_file(f"{STREAM_PLACES}/{file.path}")


def stream_states(storage: ReadOnlyStorage) -> list[StreamState]:
    """Return the states of the streams whose first table this is, as far as reported, by name.

    Args:
        storage: The folder of the table.
    """
    files = storage.list_files(STREAM_PLACES, missing_ok=True)
    names = sorted(file.path for file in files if file.path.endswith(".json"))
    states = {name: _state(storage, f"{STREAM_PLACES}/{name}") for name in names[:_MOST_STATES]}
    # A file whose name does not match its stream was cut off by a kill.
    return [each for name, each in states.items() if each and name == f"{each.name}.json"]


def _state(storage: ReadOnlyStorage, path: str) -> StreamState | None:
    return codec.valid_record(StreamState, storage.read_small(path))


def digests_of_next_batches(storage: ReadOnlyStorage) -> set[str]:
    """Return the digests in the names of notes on batches that streams may retry, even much later.

    With an unreadable position, these may be all notes: once it is restored, its stream continues.

    Args:
        storage: The folder of a table.
    """
    digests = set()
    for path, size, _ in storage.walk(STREAM_PLACES):
        if size is None or not path.endswith(".json"):
            continue
        content = storage.read_small(path)
        place = codec.valid_record(StreamPlace, content)
        if place is not None:
            digests.add(digest_of(place.next_token))
        elif _PLACE.fullmatch(path):
            notes = (
                NoteName.parse(note.rpartition("/")[2]) for note, *_ in storage.walk(RUN_NOTES)
            )
            digests |= {note.digest for note in notes if note is not None}
    return digests
