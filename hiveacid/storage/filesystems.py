"""Mapping of locations to file systems, and of their errors to this package's errors.

A location is text from the metastore. It is not url-encoded: a partition folder may really be named
``d=a%2Fb``, so a location is never passed to functions that decode it.
"""

import errno
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, TypeVar

import pyarrow as pa  # noqa: TID253
from pyarrow import fs  # noqa: TID253

from hiveacid.errors import (
    DiskFull,
    PermissionRefused,
    StorageError,
    StorageUnreachable,
    address_without_secrets,
)
from hiveacid.foreign.budget import Threads
from hiveacid.rules.location import Location
from hiveacid.storage.hdfs import HdfsFileSystem, LoginRefused, hdfs_of

# Waiting work in threads, such as listings of folders


# Listing mostly waits for the file system: more threads than cores help.
THREADS = 16
# The seconds of items that do not wait, as on a local disk, where threads would take three times as
# long: of each, of exceptions among them, and of each that computes most of its time.
_SHORT, _SLACK, _COMPUTED = 0.001, 0.005, 0.01

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to many items, in threads if it waits."""
    all_items = list(items)
    results: list[R] = []
    started, computing = perf_counter(), thread_time()
    is_short = len(all_items) > THREADS
    while len(results) < len(all_items) and (is_short or len(all_items) == 1):
        results.append(work(all_items[len(results)]))
        spent, computed = perf_counter() - started, thread_time() - computing
        limit = _COMPUTED if 2 * computed > spent else _SHORT
        is_short = spent < limit * len(results) + _SLACK
    if remaining := all_items[len(results) :]:
        with Threads(min(THREADS, len(remaining))) as pool:
            results += pool.map(work, remaining)
    return results


_LOCATION = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)"
)
_HDFS = ("hdfs", "viewfs")
_S3 = ("s3", "s3a", "s3n")
# So often a request is made that an S3 store refuses for being too busy, with longer and longer
# pauses in between.
S3_TRIES = 10
_AZURE = ("abfs", "abfss")
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)


def filesystem_of(location: Location) -> tuple[fs.FileSystem | HdfsFileSystem, str]:
    """Return the file system of a location, and the path there.

    Raises:
        StorageError: The location is invalid, or on an unsupported file system.
    """
    match = _LOCATION.fullmatch(location)
    if match is None:
        raise StorageError(f"{location!r} is no location.")
    require_no_login(location)
    scheme = (match["scheme"] or "file").lower()
    host, path = match["host"] or "", match["path"]
    with translated_errors(location):
        if scheme == "file":
            if host not in ("", "localhost") or not path.startswith("/"):
                raise StorageError(f"{location!r} is no absolute path on this machine.")
            return fs.LocalFileSystem(), os.path.normpath(path)
        if scheme in _HDFS:
            path = normal_path(path)
            return hdfs_of(f"{scheme}://{host}", path), path
        if scheme in _S3:
            patient = fs.AwsStandardS3RetryStrategy(max_attempts=S3_TRIES)
            store = fs.S3FileSystem(endpoint_override=s3_endpoint(), retry_strategy=patient)
            return store, host + path
        if scheme == "gs":
            return google_store(), host + path
        if scheme in _AZURE and "@" in host:
            container, _, account = host.partition("@")
            azure = fs.AzureFileSystem(account_name=account.split(".")[0])
            return azure, container + path
    raise StorageError(
        f"{location!r} is on a file system that is not supported.",
        remedy="Supported are file, hdfs, viewfs, s3, gs and abfs.",
    )


def require_no_login(location: str) -> None:
    """Refuse a location with a user and a password, or with keys, which others could read there.

    Raises:
        StorageError: The location has them.
    """
    if (address := address_without_secrets(location)) != location:
        raise StorageError(
            f"The location {address} contains credentials.",
            remedy="Remove them, and give the process that opens it a role or keys in its environment.",
        )


def normal_path(path: str) -> str:
    """Remove double slashes, "." and ".." from a path, as Hadoop's clients do: a NameNode refuses them."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def keeps_checksums(location: str) -> bool:
    """Return whether the file system keeps checksums, which Hive uses to identify files."""
    match = _LOCATION.fullmatch(location)
    return match is not None and (match["scheme"] or "").lower() in _HDFS


def s3_endpoint() -> str | None:
    """The endpoint of the S3 store, if it is not Amazon's own.

    Arrow supports the variables of Amazon's tools for credentials and region, but not this one.
    """
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def s3_place(location: str) -> str | None:
    """Return the bucket and path of a location, if it is in an S3 store."""
    match = _LOCATION.fullmatch(location)
    if match is None or (match["scheme"] or "").lower() not in _S3:
        return None
    return (match["host"] or "") + match["path"]


def _storage_error(error: OSError, path: str) -> StorageError:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{path} cannot be written: {reason}.")
    if isinstance(error, LoginRefused):
        return StorageUnreachable(
            f"{path} cannot be reached without logging in: {reason}.",
            remedy="On a worker, run kinit or airflow kerberos, and check KRB5CCNAME. In a cluster,"
            " Spark brings a token for each of spark.kerberos.access.hadoopFileSystems.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionRefused(f"Access to {path} is refused: {reason}.")
    if isinstance(error, ConnectionError | TimeoutError) or error.errno in _UNREACHABLE:
        return StorageUnreachable(f"{path} cannot be reached: {reason}.")
    return StorageError(f"{path}: {reason}.")


@contextmanager
def translated_os_errors(path: str) -> Iterator[None]:
    """Convert system errors in the body of a with statement into errors of this package.

    For callers that read and write opened files themselves; a storage does it itself.
    """
    try:
        yield
    except OSError as error:
        raise _storage_error(error, path) from error


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Convert file system errors in the body of a with statement into errors about a path."""
    try:
        with translated_os_errors(path):
            yield
    except (ValueError, pa.ArrowException) as error:
        # A name that is not UTF-8, for example: any user with write permission for a folder can
        # create one.
        raise StorageError(
            f"{path!r} cannot be looked at: {error}.",
            remedy="Look there for names that are not UTF-8, and rename or remove them.",
        ) from error


# Google's store through Arrow, which omits non-empty directories from listings


def google_store() -> fs.FileSystem:
    """Google's store, or the emulator of it that the variable of Google's own tools names."""
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator is None:
        return fs.GcsFileSystem()
    scheme, _, host = emulator.rpartition("://")
    return fs.GcsFileSystem(anonymous=True, scheme=scheme or "http", endpoint_override=host)


def with_directories(infos: list[Any], top: str, recursive: bool) -> list[Any]:
    """Return the contents of a folder, including its directories.

    Args:
        infos: All that Arrow has found below it, at any depth.
        top: The folder.
        recursive: Whether to include deeper levels.
    """
    infos_by_path = {info.path: info for info in infos}
    begin = len(top.rstrip("/")) + 1
    for info in infos:
        parts = info.path[begin:].split("/")
        for depth in range(1, len(parts)):
            path = info.path[:begin] + "/".join(parts[:depth])
            infos_by_path.setdefault(path, fs.FileInfo(path, fs.FileType.Directory))
    return [info for path, info in infos_by_path.items() if recursive or "/" not in path[begin:]]


# Properties of Hadoop's configuration, as this process finds it


_FILES = ("core-site.xml", "hdfs-site.xml", "viewfs-mount-table.xml")


def hadoop_properties() -> dict[str, str]:
    """Read the properties of HADOOP_CONF_DIR; empty without it.

    Raises:
        StorageError: A file cannot be read.
    """
    from xml.etree import ElementTree as ET

    folder = os.environ.get("HADOOP_CONF_DIR")
    if folder is None and (home := os.environ.get("HADOOP_HOME")):
        folder = str(Path(home, "etc", "hadoop"))
    properties: dict[str, str] = {}
    for file in (Path(folder, name) for name in _FILES) if folder else ():
        if not file.exists():
            continue
        try:
            root = ET.parse(file).getroot()
        except (OSError, ET.ParseError) as error:
            raise StorageError(f"Hadoop's configuration {file} cannot be read: {error}.") from error
        for entry in root.iter("property"):
            name, value = entry.findtext("name"), entry.findtext("value")
            if name and value:
                properties[name.strip()] = value.strip()
    return properties
