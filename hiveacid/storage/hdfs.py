"""HDFS access from Python: for drivers, executors, workers and the command line.

The only client is hdfs-native: it uses the NameNode's own protocol, so that a rename refuses an
existing target and a missing source, and creating a file refuses an existing one. Publication
depends on that. The alternatives do not guarantee it: over WebHDFS a refused rename looks like a
successful one, and libhdfs, which Arrow would use and which no package provides, replaces the
target. Spark reads and writes with Hadoop's own client, in its JVM.

Calls are repeated while a NameNode starts (``hdfs_calls.py``), and a small file that the client
cannot finish is written again.

If HDFS requires Kerberos, each new connection looks for a delegation token, then for a ticket.
"""

import ctypes
import errno
import gc
import io
import os
import re
import socket
import time
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from pyarrow import fs  # noqa: TID253

from hiveacid.errors import StorageError

# Authentication to an HDFS that requires Kerberos: by a ticket, or in a cluster by a token


# In a container of YARN: the file with the credentials of its application.
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
# Variables for the user's identity and the configuration of a cluster.
_VARIABLES = (
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER"),
    *(_TOKENS, "KRB5CCNAME", "KRB5_CONFIG"),
)
_SERVER = re.compile(r"hdfs://(?P<host>[^/:]+):(?P<port>\d+)")
# Messages of the client without a ticket, and of the NameNode for an expired token.
_REFUSED = re.compile(
    r"GSSAPIError\(.*, \d+, \"(?P<message>.*)\"\)|SASLError|NoSASLMechanism|^InvalidToken", re.S
)


class LoginRefused(PermissionError):
    """The NameNode rejects the identity of the caller."""


def who() -> tuple[str | None, ...]:
    """Return the variables that identify this process's user; the client keeps its connections."""
    return tuple(map(os.environ.get, _VARIABLES))


def as_in_token(url: str) -> str:
    """Return the NameNode's url with its address, if this process has a token for that address.

    Hadoop issues tokens for addresses, unless hadoop.security.token.service.use_ip is false, and
    the client searches for a token with the text of the url.

    Args:
        url: The file system.
    """
    server, file = _SERVER.fullmatch(url), os.environ.get(_TOKENS)
    if server is None or file is None:
        return url
    try:
        tokens = Path(file).read_bytes()
        address = f"{socket.gethostbyname(server['host'])}:{server['port']}"
    except OSError:
        return url  # The call to the NameNode reports the error.
    # In both formats of the file the text comes after its length.
    return f"hdfs://{address}" if bytes([len(address)]) + address.encode() in tokens else url


def login_refused(message: str) -> LoginRefused | None:
    """Return the error for a failed login, unless the failure has another cause.

    Args:
        message: The message of the client or of the NameNode.
    """
    match = _REFUSED.search(message)
    return None if match is None else LoginRefused(errno.EACCES, match["message"] or message)


# Calls of HDFS: conversion of its errors into system errors, and retries of temporary failures.
#
# The client waits for a NameNode that restarts, or for a failover, as long as
# ``dfs.client.failover.*`` of hdfs-site.xml allow, except for the call during which the NameNode
# was killed. That call is repeated here, and safe mode is awaited.


T = TypeVar("T")

# The longest wait for the end of safe mode, and the pause between two checks.
PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.5

_EXCEPTION = re.compile(r'(?:Fatal)?RPCError\("(?:\w+[.$])*(?P<name>\w+)", "(?P<text>.*)"\)', re.S)
_NUMBER = re.compile(r"\(os error (\d+)\)")
_PASSES = frozenset({"SafeModeException", "RetriableException"})
_ERRNO = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
    "FileAlreadyExistsException": errno.EEXIST,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "InvalidPathException": errno.EINVAL,
    # All NameNodes were on standby during the client's attempts.
    "StandbyException": errno.EHOSTDOWN,
    "ObserverRetryOnActiveException": errno.EHOSTDOWN,
}


class NotYet(ConnectionError):
    """The NameNode ended before it answered, or has only just started: a retry is possible."""


def ask(call: Callable[..., T], *arguments: object) -> T:
    """Make an idempotent call to the NameNode; retry while it stops, starts or is in safe mode.

    Args:
        call: A method of the client.
        arguments: The arguments of the method.
    """
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return once(call, *arguments)
        except NotYet:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE_SECONDS)


def once(call: Callable[..., T], *arguments: object) -> T:
    """Make one call to the NameNode that must not be repeated without a check; see ``ask``.

    Raises:
        NotYet: The outcome of the call is unknown, and another call is possible.
    """
    try:
        return call(*arguments)
    except (OSError, RuntimeError) as error:
        raise _in_words(error) from error


def _in_words(error: OSError | RuntimeError) -> OSError:
    """Convert the client's errors into system errors with their numbers."""
    text = str(error)
    if isinstance(error, RuntimeError):
        if match := _EXCEPTION.search(text):
            message = match["text"].replace('\\"', '"').split("\\n")[0]
            message = f"{match['name']}: {message}"
            if match["name"] in _PASSES:
                return NotYet(errno.EIO, message)
            number = _ERRNO.get(match["name"], errno.EIO)
            return login_refused(message) or OSError(number, message)
        return login_refused(text) or OSError(errno.EIO, text)
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, "exists already")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if isinstance(error, IsADirectoryError):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if numbered := _NUMBER.search(text):
        return OSError(int(numbered[1]), text)
    is_disconnected = "RPC listener disconnected" in text
    return NotYet(errno.ECONNABORTED, text) if is_disconnected else error


_READ_AHEAD = 64 << 10
_WRITE_BUFFER = 1 << 20
_COPY_BLOCK = 8 << 20
# Written data up to this size is kept, so that it can be written again.
_KEPT = 8 << 20


def hdfs_of(url: str, folder: str) -> "HdfsFileSystem":
    """The file system of ``hdfs://nn:8020``, ``hdfs://nameservice``, ``hdfs://`` or ``viewfs://``.

    Args:
        url: The file system.
        folder: The folder to open.
    """
    return HdfsFileSystem(_client(as_in_token(url), *who()), folder)


# All clients of this process, so that clients are never freed: see ``_in_child``.
_clients: list[Any] = []


@cache
def _client(url: str, *_: object) -> Any:
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise StorageError(
            f"{url} cannot be opened: the package hdfs-native is not installed here ({error}).",
            remedy="Install hiveacid[hdfs] here and in the environment of the executors.",
        ) from error
    try:
        client = Client(url)
    except (OSError, RuntimeError, ValueError) as error:
        raise StorageError(
            f"{url} cannot be opened: {error}.",
            remedy="Name the NameNode with its port, or in HADOOP_CONF_DIR the folder of "
            "core-site.xml and hdfs-site.xml that describe the cluster.",
        ) from error
    _clients.append(client)
    return client


def _before_fork() -> None:
    if _clients:
        # Writers in garbage must not be collected in the child either.
        gc.freeze()


def _after_fork() -> None:
    if _clients:
        gc.unfreeze()


def _in_child() -> None:
    """Start without clients, and never free those of the parent.

    Freeing a client waits for its threads, which exist only in the parent: the process would never
    end.
    """
    for client in _clients:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _clients.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
os.register_at_fork(after_in_child=_client.cache_clear)


class HdfsFileSystem:
    """The operations of a file system, under their Arrow names.

    New files and directories get the permissions of the opened folder, files without the execute
    permission; default ACLs, if present, take precedence. So users with write permission for a
    table may also clean it, regardless of the umask of the writer.
    """

    type_name = "hdfs"

    def __init__(self, client: Any, folder: str) -> None:
        """Use ``hdfs_of``."""
        self._client = client
        self._folder = folder

    def get_file_info(self, paths: "str | fs.FileSelector") -> "fs.FileInfo | list[fs.FileInfo]":
        """Return information about a path, or about the contents of a directory."""
        if not isinstance(paths, str):
            return self._list(paths)
        try:
            return _info(self._status(paths), paths)
        except FileNotFoundError:
            return fs.FileInfo(paths, fs.FileType.NotFound)

    def open_input_file(self, path: str) -> BinaryIO:
        """Open a file for reading at any place."""
        return cast(BinaryIO, io.BufferedReader(_Input(ask(self._client.read, path)), _READ_AHEAD))

    def open_output_stream(self, path: str) -> BinaryIO:
        """Create a file; never onto an existing path."""
        return self._create(path, overwrite=False)

    def write_small(self, path: str, content: bytes) -> None:
        """Write a file under a unique name, to the disks of its machines."""
        self.create_dir(path.rpartition("/")[0])
        # The client retries after a lost answer, and must not fail because of its own file.
        with self._create(path, overwrite=True) as sink:
            sink.write(content)
            sink.flush()
            cast(Any, sink).raw.sync()

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Make a directory and its parents; keep an existing one unchanged."""
        missing = []
        while path.strip("/") and not self._is_directory(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        for directory in reversed(missing):
            ask(self._client.mkdirs, directory, self._mode & 0o1777, False)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a directory; never onto an existing path."""
        self._rename(source, target, overwrite=False)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing one."""
        self._rename(source, target, overwrite=True)

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file; never onto something that exists."""
        with self.open_input_file(source) as old, self.open_output_stream(target) as new:
            while block := old.read(_COPY_BLOCK):
                new.write(block)

    def delete_file(self, path: str) -> None:
        """Delete a file, and not into the trash."""
        ask(self._client.delete, path, False)

    def delete_dir(self, path: str) -> None:
        """Delete a directory with all that is in it, and not into the trash."""
        ask(self._client.delete, path, True)

    def _create(self, path: str, *, overwrite: bool) -> BinaryIO:
        output = _Output(self._client, path, self._mode & 0o666, overwrite=overwrite)
        return cast(BinaryIO, _Collected(output, _WRITE_BUFFER))

    @cached_property
    def _mode(self) -> int:
        """The permissions of the folder, or of its nearest existing parent."""
        folder = self._folder.rstrip("/")
        while folder and not self._is_directory(folder):
            folder = folder.rpartition("/")[0]
        acl = ask(self._acl_of, folder or "/")
        if acl is None:
            return int(self._status(folder or "/").permission)
        if any(entry.scope == "default" for entry in acl.entries):
            return 0o777  # The NameNode removes permissions that they do not grant.
        mode = int(acl.permission)
        for entry in acl.entries:
            if entry.type == "group" and not entry.name:
                # With ACLs the bits of the group are the most that any of them grants.
                rights = sum({"r": 4, "w": 2, "x": 1}.get(right, 0) for right in entry.permissions)
                mode = mode & ~0o070 | rights << 3
        return mode

    def _acl_of(self, folder: str) -> Any:
        try:
            return self._client.get_acl_status(folder)
        except RuntimeError as error:
            if "AclException" in str(error):
                return None  # ACLs are disabled on the NameNode.
            raise

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        identity = _identity(self._status(source))

        def rename() -> None:
            try:
                once(self._client.rename, source, target, overwrite)
            except OSError:
                # After a retry by the client or here because of a lost answer, the source is
                # missing, or the target exists, although the rename succeeded.
                if not self._is(target, identity) or self._is(source, identity):
                    raise

        ask(rename)

    def _is(self, path: str, identity: tuple[object, ...]) -> bool:
        try:
            return _identity(self._status(path)) == identity
        except FileNotFoundError:
            return False

    def _is_directory(self, path: str) -> bool:
        try:
            return bool(self._status(path).isdir)
        except FileNotFoundError:
            return False

    def _status(self, path: str) -> Any:
        return ask(self._client.get_file_info, path)

    def _list(self, selector: "fs.FileSelector") -> list["fs.FileInfo"]:
        infos, folders = [], [selector.base_dir.rstrip("/") or "/"]
        while folders:
            folder = folders.pop()
            try:
                entries = ask(lambda: list(self._client.list_status(folder, False)))  # noqa: B023
            except FileNotFoundError:
                if selector.allow_not_found:
                    continue  # Removed concurrently.
                raise
            for entry in entries:
                path = f"{folder.rstrip('/')}/{entry.path.rpartition('/')[2]}"
                if not entry.isdir and entry.path.rstrip("/") == folder:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
                infos.append(_info(entry, path))
                if entry.isdir and selector.recursive:
                    folders.append(path)
        return infos


class _Input(io.RawIOBase):
    """A file, open for reading. The client's own file fails on reads beyond the end."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._length = len(reader)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        if start + position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = start + position
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._length - self._position)
        if size <= 0:
            return 0
        data = ask(self._reader.read_range, self._position, size)
        if len(data) != size:
            raise OSError(errno.EIO, f"{size} bytes were requested, {len(data)} were received")
        buffer[:size] = data
        self._position += size
        return size


class _Output(io.RawIOBase):
    """A new file, open for writing.

    The client cannot continue a file if a NameNode fails meanwhile, or is in safe mode. A small
    file is then written again completely.
    """

    def __init__(self, client: Any, path: str, permission: int, *, overwrite: bool) -> None:
        self._client = client
        self._path = path
        self._permission = permission
        self._writer = self._create(overwrite=overwrite)
        self._kept: bytearray | None = bytearray()
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        block = bytes(data)
        self._patiently("write", block)
        self._position += len(block)
        if self._kept is not None:
            self._kept = None if self._position > _KEPT else self._kept + block
        return len(block)

    def sync(self) -> None:
        """Make written data survive a failure of its machines."""
        self._patiently("hsync")

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._patiently("close")

    def __del__(self) -> None:
        """Discard an unclosed file: Python would close it, in any thread, and wait for HDFS."""

    def _create(self, *, overwrite: bool) -> Any:
        from hdfs_native import WriteOptions

        options = WriteOptions(
            permission=self._permission, overwrite=overwrite, create_parent=False
        )
        if not overwrite and self._exists():
            raise FileExistsError(errno.EEXIST, "exists already")
        try:
            return ask(self._client.create, self._path, options)
        except FileExistsError as error:
            # Retried after a lost answer, by the client at another NameNode or here.
            raise ConnectionAbortedError(
                errno.ECONNABORTED,
                "it appeared while it was created, by this process, whose answer was lost, or by another",
            ) from error

    def _exists(self) -> bool:
        try:
            ask(self._client.get_file_info, self._path)
        except FileNotFoundError:
            return False
        return True

    def _patiently(self, method: str, *arguments: bytes) -> None:
        """Call a method of the client's writer; if necessary, of a new writer at the same position."""
        calls, give_up = [(method, arguments)], time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                for name, given in calls:
                    once(getattr(self._writer, name), *given)
                return
            except NotYet:
                if self._kept is None or time.monotonic() > give_up:
                    raise
                calls = [("write", (bytes(self._kept),)), (method, arguments)]
            # The file belongs to this writer: the name was free.
            self._writer = self._create(overwrite=True)


class _Collected(io.BufferedWriter):
    """Buffers data for an ``_Output``."""

    def __del__(self) -> None:
        """See ``_Output``."""


def _info(status: Any, path: str) -> "fs.FileInfo":
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory)
    mtime = int(status.modification_time) * 1_000_000
    return fs.FileInfo(path, fs.FileType.File, size=int(status.length), mtime_ns=mtime)


def _identity(status: Any) -> tuple[object, ...]:
    """Return properties that a rename preserves and that rarely match those of any other file."""
    return status.isdir, status.length, status.modification_time, status.owner, status.permission
