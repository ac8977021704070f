"""Files of one table or partition, on the file system of its location."""

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from pyarrow import fs  # noqa: TID253

from hiveacid.errors import DirectoryMissing, MalformedName, NotAFile, StorageError
from hiveacid.foreign.budget import spend_text
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    LARGEST_NOTE,
    METADATA_FILE,
    SIDECAR_FILE,
    UNFINISHED_PREFIX,
    is_hidden,
)
from hiveacid.storage.filesystems import filesystem_of, translated_errors, with_directories
from hiveacid.storage.hdfs import HdfsFileSystem
from hiveacid.storage.uploads import Uploads

# There, a directory is only a common prefix of names: it is moved file by file.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
_NOTES = frozenset({METADATA_FILE, SIDECAR_FILE})
# Of the year 9999.
_LAST_SECOND = 253_402_300_799
# File systems without hard links, such as some of object stores that are mounted.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# File systems of the parent of a forked process. They are never freed: that could wait for threads,
# which exist only in the parent.
_inherited: list[object] = []


class ReadOnlyStorage:
    """Read-only access to a folder and its contents.

    All paths are relative to the folder, with slashes; "" is the folder itself.

    An absent object, one that cannot be read, and one that is neither a file nor a directory (a link
    that leads nowhere, a pipe, a device) are three answers: only the first is no error. Under a hidden
    name, where no rows are, listings show the third as a file, so that nobody takes a record for absent.

    Attributes:
        location: The folder, as passed by the caller.
    """

    def __init__(
        self, location: Location, filesystem: fs.FileSystem | HdfsFileSystem, root: str
    ) -> None:
        """Use `of`, which finds the file system by itself."""
        self.location = location
        self._opened = filesystem, os.getpid()
        self._root = root.rstrip("/") or "/"

    @staticmethod
    def of(location: Location) -> "ReadOnlyStorage":
        """Open a location: ``file:/a``, ``file:///a``, ``/a``, ``hdfs://nn:8020/a``, ``s3a://b/a``.

        ``gs:`` and ``abfs:`` are supported, too. Credentials come from the environment, as for each
        file system's own tools; so does the endpoint of an S3 store (``AWS_ENDPOINT_URL``).
        """
        return ReadOnlyStorage(location, *filesystem_of(location))

    @property
    def _filesystem(self) -> Any:
        """The file system, whose connections belong to this process."""
        filesystem, process = self._opened
        if process != os.getpid():
            _inherited.append(filesystem)
            filesystem, _ = filesystem_of(self.location)
            self._opened = filesystem, os.getpid()
        return filesystem

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine, or mounted there."""
        kind: str = self._filesystem.type_name
        return kind == "local"

    def list_files(
        self, path: str = "", *, recursive: bool = False, missing_ok: bool = False
    ) -> list[FileStatus]:
        """List all files in a directory, hidden ones included, by their path relative to it.

        Args:
            path: The directory.
            recursive: Whether to include the directories in it.
            missing_ok: Whether a directory that is missing, or removed meanwhile, counts as an
                empty one.
        """
        return sorted(
            (
                FileStatus(self._below(info.path, path), info.size or 0)
                for info in self._list(path, recursive, missing_ok)
                if info.type != fs.FileType.Directory
            ),
            key=lambda file: file.path,
        )

    def list_directories(self, path: str = "", *, missing_ok: bool = False) -> list[str]:
        """The names of the directories in a directory; see ``list_files``."""
        return sorted(
            info.base_name
            for info in self._list(path, recursive=False, missing_ok=missing_ok)
            if info.type == fs.FileType.Directory
        )

    def exists(self, path: str) -> bool:
        """Return whether anything exists there, even a link that leads nowhere."""
        return bool(self._info(path).type != fs.FileType.NotFound)

    def is_directory(self, path: str) -> bool:
        """Return whether a directory exists; in object stores, one with files."""
        return bool(self._info(path).type == fs.FileType.Directory)

    def require_folder(self, path: str = "") -> None:
        """Refuse a missing folder, whose rows are lost; object stores have no empty folders.

        The metastore and this package make the folder of each table and partition, so that one
        without a write is empty, and not missing.

        Args:
            path: The folder of a partition below this one.

        Raises:
            DirectoryMissing: The folder does not exist.
        """
        if self._filesystem.type_name not in _OBJECT_STORES and not self.exists(path):
            raise DirectoryMissing(
                f"The directory {self._show(path)} does not exist, although the metastore has a table or"
                " a partition there."
            )

    def is_link(self, path: str) -> bool:
        """Return whether the folder, the path or a directory in between is a symbolic link."""
        if not self.is_local:
            return False
        parts = PurePosixPath(path).parts
        return any(
            os.path.islink(self._full("/".join(parts[:depth]))) for depth in range(len(parts) + 1)
        )

    def walk(self, path: str = "") -> Iterator[tuple[str, int | None, int | None]]:
        """Yield all files and directories below a directory, relative to the folder, unordered.

        Made for hundreds of thousands of files, for which ``list_files`` makes too many objects. A
        missing directory counts as an empty one.

        Yields:
            The path, its size (null for a directory), and the time of its last write in nanoseconds
                since 1970, if known.
        """
        begin = len(self._full("").rstrip("/")) + 1
        for info in self._list(path, recursive=True, missing_ok=True):
            size = None if info.type == fs.FileType.Directory else info.size or 0
            yield info.path[begin:], size, info.mtime_ns

    @property
    def renames_at_once(self) -> bool:
        """Return whether renaming a directory is atomic, so that no reader sees a part of it."""
        return self._filesystem.type_name not in _OBJECT_STORES

    def modified(self, path: str) -> datetime | None:
        """Return the time of a file's last write by the clock of the storage, if there is a file."""
        modified_ns = self._info(path).mtime_ns
        if modified_ns is None:
            return None
        # A file system of this machine accepts times outside of the calendar.
        return datetime.fromtimestamp(min(max(modified_ns / 1e9, 0), _LAST_SECOND), UTC)

    def open_input(self, path: str) -> BinaryIO:
        """Open a file for reading at any place."""
        with translated_errors(self._show(path)):
            source = self._filesystem.open_input_file(self._full(path))
        if self._filesystem.type_name in _OBJECT_STORES:
            return ObjectFile.buffered(source)
        return cast(BinaryIO, source)

    def read_small(self, path: str, limit: int = LARGEST_NOTE) -> bytes | None:
        """Read a small file that this package has written.

        Args:
            path: The file.
            limit: The maximum number of bytes.

        Returns:
            Its bytes; None if nothing is there, or a larger file, which is foreign.

        Raises:
            NotAFile: Something else is there.
            TooLarge: It exceeds the budget of the request.
        """
        info = self._info(path)
        if info.type == fs.FileType.NotFound:
            return None
        if info.type != fs.FileType.File:
            raise NotAFile(f"{self._show(path)} is not a file.")
        if info.size > limit:
            return None
        spend_text(info.size, self._show(path))
        try:
            with translated_errors(self._show(path)), self.open_input(path) as source:
                content = source.read(limit + 1)
        except StorageError:
            if self.exists(path):
                raise
            return None  # Removed concurrently.
        return content if len(content) <= limit else None

    def _list(self, path: str, recursive: bool, missing_ok: bool) -> list[Any]:
        with translated_errors(self._show(path)):
            full = self._full(path)
            whole = recursive or self._filesystem.type_name == "gcs"
            selector = fs.FileSelector(full, recursive=whole, allow_not_found=missing_ok)
            infos = list(self._filesystem.get_file_info(selector))
        if self._filesystem.type_name == "gcs":
            return with_directories(infos, full, recursive)
        if self.is_local:
            self._add_broken_links(infos, path, recursive)
        return infos

    def _info(self, path: str) -> Any:
        with translated_errors(self._show(path)):
            full = self._full(path)
            info = self._filesystem.get_file_info(full)
            # Arrow takes a link that leads nowhere, or to itself, for absent.
            if info.type == fs.FileType.NotFound and self.is_local and os.path.islink(full):
                return fs.FileInfo(full, fs.FileType.Unknown)
            return info

    def _add_broken_links(self, infos: list[Any], path: str, recursive: bool) -> None:
        """Add the links to a listing that Arrow omits, and refuse objects that may hide rows.

        Raises:
            NotAFile: It is neither a file nor a directory.
        """
        if not infos and self._info(path).type == fs.FileType.Unknown:
            raise NotAFile(f"{self._show(path)} is not a directory.")
        with translated_errors(self._show(path)):
            infos += [
                fs.FileInfo(link, fs.FileType.Unknown)
                for link in _links(self._full(path), recursive)
                if not os.path.exists(link)
            ]
        for info in infos:
            if info.type == fs.FileType.Unknown:
                name = self._below(info.path, "")
                if not any(map(is_hidden, name.split("/"))):
                    raise NotAFile(f"{self._show(name)} is neither a file nor a directory.")

    def _full(self, path: str) -> str:
        """The path as the file system takes it, provided it stays below the folder."""
        if not path:
            return self._root
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or "\0" in path:
            raise MalformedName(f"{path!r} leaves {self.location}.")
        try:
            path.encode()
        except UnicodeEncodeError:
            raise StorageError(f"{path!r} cannot be the name of a file.") from None
        return "/".join((self._root.rstrip("/"), *parts)) or "/"

    def _below(self, full: str, directory: str) -> str:
        return full[len(self._full(directory).rstrip("/")) + 1 :]

    def _show(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}" if path else self.location


class Storage(ReadOnlyStorage):
    """A folder with write access; paths outside of it are never changed."""

    @staticmethod
    def of(location: Location) -> "Storage":
        """Open a location; see ``ReadOnlyStorage.of``."""
        filesystem, root = filesystem_of(location)
        kinds = {"local": LocalStorage, "hdfs": HdfsStorage}
        return kinds.get(filesystem.type_name, Storage)(location, filesystem, root)

    def create(self, path: str) -> BinaryIO:
        """Create a file, with the directories above it, and open it for writing."""
        self._refuse_existing(path)
        full = self._full(path)
        with translated_errors(self._show(path)):
            if self._filesystem.type_name not in _OBJECT_STORES:
                self._filesystem.create_dir(full.rpartition("/")[0], recursive=True)
            return cast(BinaryIO, self._filesystem.open_output_stream(full))

    def write_file(self, path: str, content: bytes, *, replace: bool = False) -> None:
        """Write a small file atomically.

        Args:
            path: The file.
            content: Its bytes.
            replace: Whether it may replace another one.
        """
        if not replace:
            if self._filesystem.type_name == "s3" and (uploads := Uploads.of(self.location)):
                uploads.create(path, content)
                return
            self._refuse_existing(path)
        if not self.renames_at_once:  # An object appears at once by itself.
            full = self._full(path)
            with (
                translated_errors(self._show(path)),
                self._filesystem.open_output_stream(full) as sink,
            ):
                sink.write(content)
            return
        folder, _, name = path.rpartition("/")
        unfinished = (
            f"{folder}/" * bool(folder) + f"{UNFINISHED_PREFIX}{uuid.uuid4().hex[:8]}_{name}"
        )
        try:
            self.write_part(unfinished, content)
            (self._replace if replace else self._name)(unfinished, path)
        except StorageError:
            self.delete_file(unfinished)
            raise

    def write_part(self, path: str, content: bytes) -> None:
        """Write a new small file that nobody reads before it, or its directory, gets its name."""
        with translated_errors(self._show(path)), self.create(path) as sink:
            sink.write(content)
            self._flush(sink)

    def _flush(self, sink: BinaryIO) -> None:
        """Flush the bytes to disk, where the file system does not do so itself."""

    def _name(self, source: str, target: str) -> None:
        """Give a complete file its name; of several processes, only one can give it."""
        self.rename(source, target)

    def _replace(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing one."""
        self.delete_file(target)
        self.rename(source, target)

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; keep an existing one unchanged."""
        with translated_errors(self._show(path)):
            self._filesystem.create_dir(self._full(path), recursive=True)

    def take_place(self) -> None:
        """Make the folder itself, where its write permissions depend on its creator."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory; never onto an existing path."""
        self._refuse_existing(target)
        moves = [(source, target)]
        if (
            self._filesystem.type_name in _OBJECT_STORES
            and self._info(source).type == fs.FileType.Directory
        ):
            files = self.list_files(source, recursive=True)
            moves = [(f"{source}/{file.path}", f"{target}/{file.path}") for file in files]
        for old, new in moves:
            with translated_errors(self._show(old)):
                self._filesystem.move(self._full(old), self._full(new))

    def copy(self, source: str, target: str) -> None:
        """Copy a file; never onto an existing path."""
        self._refuse_existing(target)
        with translated_errors(self._show(source)):
            self._filesystem.copy_file(self._full(source), self._full(target))

    def delete_file(self, path: str) -> None:
        """Delete a file; a missing file is no error."""
        with translated_errors(self._show(path)):
            if self.exists(path):
                self._filesystem.delete_file(self._full(path))

    def delete_directory(self, path: str) -> None:
        """Delete a directory with its contents; a missing directory is no error."""
        self._refuse_root(path)
        with translated_errors(self._show(path)):
            count: int | None = None
            while self.exists(path):
                try:
                    self._filesystem.delete_dir(self._full(path))
                    return
                except OSError:
                    # Some object stores keep directories, and refuse to remove a non-empty one.
                    # Arrow names all of them at once, so fewer remain each time.
                    count_before, count = (
                        count,
                        len(self._list(path, recursive=True, missing_ok=True)),
                    )
                    if self._filesystem.type_name not in _OBJECT_STORES or count == count_before:
                        raise

    def _refuse_existing(self, path: str) -> None:
        if self.exists(path):
            raise StorageError(f"{self._show(path)} exists already.")

    def _refuse_root(self, path: str) -> None:
        if not PurePosixPath(path).parts:
            raise MalformedName(f"{self.location} itself is not deleted, only its content.")


class LocalStorage(Storage):
    """A folder of this machine.

    Files are Python's own, so that a copy can be left to the kernel; nothing is changed through a
    symbolic link that leads outside.
    """

    def open_input(self, path: str) -> BinaryIO:
        """Open a file for reading at any place."""
        with translated_errors(self._show(path)):
            return open(self._full(path), "rb")

    def create(self, path: str) -> BinaryIO:
        """Create a file, with the directories above it, and open it for writing."""
        full = self._changeable(path)
        with translated_errors(self._show(path)):
            with suppress(FileNotFoundError):
                return open(full, "xb")
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return open(full, "xb")

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; keep an existing one unchanged."""
        with translated_errors(self._show(path)):
            os.makedirs(self._changeable(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory; never onto an existing path."""
        old, new = self._changeable(source), self._changeable(target)
        self._refuse_existing(target)
        with translated_errors(self._show(source)):
            os.rename(old, new)

    def _flush(self, sink: BinaryIO) -> None:
        sink.flush()
        os.fsync(sink.fileno())

    def _name(self, source: str, target: str) -> None:
        # A rename would replace a file that another process has named after the check.
        old, new = self._changeable(source), self._changeable(target)
        with translated_errors(self._show(target)):
            try:
                os.link(old, new)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self.rename(source, target)
                return
            os.unlink(old)

    def _replace(self, source: str, target: str) -> None:
        old, new = self._changeable(source), self._changeable(target)
        with translated_errors(self._show(target)):
            os.replace(old, new)

    def copy(self, source: str, target: str) -> None:
        """Copy a file; never onto an existing path."""
        address = self._show(target)
        with self.open_input(source) as old, self.create(target) as new, translated_errors(address):
            shutil.copyfileobj(old, new)

    def delete_file(self, path: str) -> None:
        """Delete a file; a missing file is no error."""
        with translated_errors(self._show(path)):
            try:
                os.unlink(self._changeable(path))
            except FileNotFoundError:
                return

    def delete_directory(self, path: str) -> None:
        """Delete a directory with its contents; a missing directory is no error."""
        self._refuse_root(path)
        full = self._changeable(path)
        with translated_errors(self._show(path)):
            if os.path.lexists(full):
                _remove_all_but_notes(full)
                shutil.rmtree(full, onerror=_unless_gone)

    def _changeable(self, path: str) -> str:
        """The path, provided that no link above it leads out of the folder."""
        full = self._full(path)
        folder = self._root
        for name in PurePosixPath(path).parts[:-1]:
            folder = f"{folder.rstrip('/')}/{name}"
            if os.path.islink(folder):
                self._require_inside(path, os.path.dirname(full))
        return full

    def _require_inside(self, path: str, folder: str) -> None:
        root, real = os.path.realpath(self._root), os.path.realpath(folder)
        if os.path.commonpath((root, real)) != root:
            raise MalformedName(f"{self._show(path)} leads through a link to {real}.")


class HdfsStorage(Storage):
    """A folder of HDFS, where the NameNode itself refuses to write or rename onto existing paths."""

    def take_place(self) -> None:
        """Make the folder itself, with the permissions of its parent."""
        self.make_directory("")

    def write_part(self, path: str, content: bytes) -> None:
        """See the base class."""
        with translated_errors(self._show(path)):
            self._filesystem.write_small(self._full(path), content)

    def _replace(self, source: str, target: str) -> None:
        with translated_errors(self._show(target)):
            self._filesystem.replace(self._full(source), self._full(target))


def _links(directory: str, recursive: bool) -> Iterator[str]:
    """Yield the symbolic links in a directory, which may vanish meanwhile."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_symlink():
            yield entry.path
        elif recursive and entry.is_dir():
            yield from _links(entry.path, recursive)


def _remove_all_but_notes(directory: str) -> None:
    """Remove the files that the notes of an ACID directory describe.

    The process may be killed in between: without a note, the remaining files would pass for all.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        for entry in os.scandir(handle):
            if entry.name in _NOTES:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.name, onerror=_unless_gone, dir_fd=handle)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=handle)
    finally:
        os.close(handle)


def _unless_gone(_: object, __: str, failure: Any) -> None:
    """Ignore a concurrent deletion of the same directory."""
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]


# An object of a store as a file: read from any place, by few requests


# Most files are read from front to back, in pieces that would be a request each. A task may have
# hundreds of them open, so this is the memory that each of them needs.
_READ_AT_ONCE = 1 << 18


class ObjectFile(io.RawIOBase):
    """Reads ranges of an object. Only reading calls the store; seeking does not."""

    def __init__(self, source: Any) -> None:
        """Use ``buffered``.

        Args:
            source: The object as Arrow opens it.
        """
        super().__init__()
        self._source = source
        self._size = source.size()
        self._at = 0

    @classmethod
    def buffered(cls, source: Any) -> io.BufferedReader:
        """Return the object with a read-ahead buffer."""
        return io.BufferedReader(cls(source), _READ_AT_ONCE)

    def readable(self) -> bool:
        """Report that the object is readable."""
        return True

    def seekable(self) -> bool:
        """Report that the object is seekable."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read; reads beyond the end return no data."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(begin + offset, 0)
        return self._at

    def readinto(self, target: Any) -> int:
        """Read up to the size of the buffer or the end."""
        size = min(len(target), self._size - self._at)
        if size <= 0:
            return 0
        content = self._source.read_at(size, self._at)
        target[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        """Release the store's connection."""
        self._source.close()
        super().close()
