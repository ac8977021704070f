"""Store of records: files that programs leave for one another in hidden folders, written once.

Everyone who can write into such a folder can damage a record, forge one, or add files. So the store reads
each file within a limit, refuses what a newer version has written, verifies the signature and the
owner of the place, and reads the entries of a folder one by one: no entry hides the others.

A new kind is one file of this room: a dataclass below ``Record`` or ``SignedRecord`` with its fields, and its
declaration in ``record_kind``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import ClassVar, Generic, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    HiveAcidError,
    InvalidJob,
    MalformedName,
    NewerRecord,
    NotAFile,
    StorageError,
    TooLarge,
)
from hiveacid.jobs import codec
from hiveacid.records.signatures import Signature, SigningKey
from hiveacid.rules.formats import Obligation
from hiveacid.rules.names import LARGEST_NOTE, UNFINISHED_PREFIX, plain_location
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# The name of a file with a number.
NUMBERED = r"(?:0|[1-9][0-9]{0,17})\.json"
_UNFINISHED = re.compile(rf"{UNFINISHED_PREFIX}(?:[0-9a-f]+_)?")
_UNSOUND = (InvalidJob, MalformedName, MalformedName, NotAFile, OverflowError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Declaration of a kind of records.

    Attributes:
        title: Its name in errors.
        folder: Its folder, below that of the store.
        files: The form of the paths of its files below that folder, for lists.
        is_numbered: Whether its files have numbers, of which only the highest in each folder counts.
        largest: The maximum number of bytes of a file.
        most: The maximum number of files in lists; None reads all.
        remedy: The remedy of a file that cannot be read.
        loss: The consequence of the removal of its folder from a table; empty if it is elsewhere.
    """

    title: str
    folder: str = ""
    files: str = ""
    is_numbered: bool = False
    largest: int = LARGEST_NOTE
    most: int | None = None
    remedy: str = "Restore it from a backup."
    loss: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Obligation):
    """Record of a kind.

    Attributes:
        record_kind: The declaration of the kind.
    """

    record_kind: ClassVar[Kind]

    def require_sound(self, place: str) -> None:
        """Refuse a record that no program leaves at a place.

        Args:
            place: The location of its file.

        Raises:
            ValueError: It belongs to another place, or has impossible values.
        """

    @classmethod
    def signed_place(cls, place: str) -> str:
        """Return the part of a place that the signature of a record covers: it is valid nowhere else."""
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRecord(Record):
    """Record with the signature of the installation, if that has a key.

    Attributes:
        signature: The signature of the place and the other fields.
    """

    signature: Signature | None = field(default=None, compare=False)


RecordT = TypeVar("RecordT", bound=Record)


class RecordStore(Generic[RecordT]):
    """The records of one kind in a folder.

    Args:
        class_: The class of the records.
        storage: The folder, for example of a table; only writes need one with write access.
        key: The key of the installation; without one, signatures do not matter.
    """

    def __init__(
        self, class_: type[RecordT], storage: ReadOnlyStorage, key: SigningKey | None = None
    ) -> None:
        self._class = class_
        self._kind = class_.record_kind
        self._storage = storage
        self._key = key

    def place(self, path: str) -> str:
        """Build the location of a file from its path below the folder of the kind."""
        return _joined(self._storage.location.rstrip("/"), self._below(path))

    def read(self, path: str) -> RecordT | None:
        """Read a record; None without a file.

        Raises:
            CorruptFile: The file is damaged or too large, or the record is forged or of another place.
            NewerRecord: A newer version has written it.
        """
        below, place = self._below(path), self.place(path)
        try:
            content = self._storage.read_small(below, self._kind.largest)
            if content is None and not self._storage.exists(below):
                return None
            record = codec.read_obligation(self._class, content, place)
            if not self._is_authentic(record, place):
                raise ValueError("It lacks the signature of this installation.")
            record.require_sound(place)
        except _UNSOUND as error:
            # Not its text, which may have parts of the record.
            is_signed = self._key is not None and issubclass(self._class, SignedRecord)
            signed = " with the signature of this installation" * is_signed
            raise CorruptFile(
                f"{place} cannot be read as {self._kind.title}{signed}.", remedy=self._kind.remedy
            ) from error
        return record

    def entries(self, folder: str = "") -> dict[str, RecordT | HiveAcidError]:
        """Read all records below a folder of the kind, by path; the error of one hides no others."""
        entries: dict[str, RecordT | HiveAcidError] = {}
        for path in self.paths(folder):
            try:
                record = self.read(path)
            except (CorruptFile, NewerRecord, TooLarge) as error:
                entries[path] = error
                continue
            if record is None:  # Another process has just replaced it.
                return self.entries(folder)
            entries[path] = record
        return entries

    def paths(self, folder: str = "") -> list[str]:
        """List the files that count below a folder of the kind."""
        below = self._below(folder)
        files = self._storage.list_files(below, recursive=True, missing_ok=True)
        paths = [_joined(folder, file.path) for file in files]
        paths = [path for path in paths if re.fullmatch(self._kind.files, path)]
        if self._kind.is_numbered:
            newest = {path.rpartition("/")[0]: path for path in sorted(paths, key=number_of)}
            paths = sorted(newest.values())
        return paths[: self._kind.most]

    def newest(self, folder: str = "") -> tuple[int, RecordT] | None:
        """Read the record with the highest number in a folder, and the number; None without one."""
        while paths := self.paths(folder):
            record = self.read(paths[-1])
            if record is not None:
                return number_of(paths[-1]), record
            # Another process has just replaced this record by a newer one.
        return None

    def content(self, path: str, record: RecordT) -> bytes:
        """Return the content of the file of a record, with its signature."""
        if not isinstance(record, SignedRecord):
            return codec.to_bytes(record)
        key = self._key
        signature = None if key is None else key.sign(_unsigned(record, self.place(path)))
        return codec.to_bytes(replace(record, signature=signature))

    def write(self, path: str, record: RecordT, *, replaces: bool = False) -> None:
        """Write a record at once.

        Args:
            path: Its file.
            record: The record.
            replaces: Whether it may replace another one.

        Raises:
            StorageError: The file exists, or cannot be written.
        """
        content = self.content(path, record)
        self._writable.write_file(self._below(path), content, replace=replaces)

    def succeed(
        self, number: int, record: RecordT, folder: str = "", *, follows: bool = False
    ) -> bool:
        """Write the record with the next number, and remove those before it.

        No record replaces another one in place. So a process that was paused between its read and its
        write cannot undo a later write of another process, and a kill leaves the previous record.

        Args:
            number: Its number, which follows the number of the record that was read.
            record: The record.
            folder: The folder of its file.
            follows: Whether the record that was read must still be there. It is not in a folder that was
                removed and created again since.

        Returns:
            Whether this process has written it. If not, another process has written this number or a
            higher one, or there is no record any more.
        """
        path = _joined(folder, f"{number}.json")
        try:
            self.write(path, record)
        except StorageError:
            # Another process also removes the unfinished files of this one.
            newest = max(map(number_of, self.paths(folder)), default=None)
            has_vanished = newest is None and follows
            if not has_vanished and (newest is None or newest < number):
                raise
            return False
        files = list(self._files(folder))
        others = [number_of(name) for file, name in files if file == name and name != path]
        if any(other > number for other in others) or (follows and not others):
            self.remove(path)
            return False
        self._remove_before(number, files)
        return True

    def remove_before(self, number: int, folder: str) -> None:
        """Remove the records with lower numbers or none, also those that were not finished."""
        self._remove_before(number, self._files(folder))

    def remove(self, path: str) -> None:
        """Remove a record; a missing one is no error."""
        self._writable.delete_file(self._below(path))

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all its records."""
        self._writable.delete_directory(self._below(folder))

    def _remove_before(self, number: int, files: Iterable[tuple[str, str]]) -> None:
        for path, name in files:
            if number_of(name) < number:
                self.remove(path)

    def _is_authentic(self, record: RecordT, place: str) -> bool:
        if self._key is None or not isinstance(record, SignedRecord):
            return True
        return self._key.has_signed(record.signature, _unsigned(record, place))

    @property
    def _writable(self) -> Storage:
        assert isinstance(self._storage, Storage)
        return self._storage

    def _below(self, path: str) -> str:
        return _joined(self._kind.folder, path)

    def _files(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the files of the kind in a folder, each with the path that it has once it is finished."""
        for file in self._storage.list_files(self._below(folder), missing_ok=True):
            name = _joined(folder, _UNFINISHED.sub("", file.path, count=1))
            if re.fullmatch(self._kind.files, name):
                yield _joined(folder, file.path), name


@cache
def table_folders() -> Mapping[str, str]:
    """Return the folders of records in a table, each with the consequence of its removal."""
    room = import_module(__package__)
    for module in iter_modules(room.__path__, f"{room.__name__}."):
        import_module(module.name)
    # A dataclass with slots is defined twice: the first class of a base has no kind, either.
    classes = (*Record.__subclasses__(), *SignedRecord.__subclasses__())
    kinds = [class_.record_kind for class_ in classes if hasattr(class_, "record_kind")]
    return {kind.folder: kind.loss for kind in kinds if kind.loss}


def number_of(path: str) -> int:
    """Return the number in the name of a file; -1 without one."""
    stem = path.rpartition("/")[2].removesuffix(".json")
    return int(stem) if stem.isdecimal() else -1


def _unsigned(record: SignedRecord, place: str) -> bytes:
    """Return the bytes that are signed: the place, and the record without its signature."""
    fields = codec.to_record(replace(record, signature=None))
    named = {"place": plain_location(record.signed_place(place)), "record": fields}
    return json.dumps(named, sort_keys=True, separators=(",", ":")).encode()


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))
