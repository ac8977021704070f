"""The folders of tables as tests look at them: on this machine, on HDFS, or on an S3 store of ours.

All by the same methods: the objects of that store are files of a folder.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import fsspec
from upath import UPath

from hiveacid.storage.filesystems import normal_path

# The usual one would want a libhdfs.
fsspec.register_implementation("hdfs", "hdfs_native.fsspec.HdfsFileSystem", clobber=True)

# Forked processes forget the instances of fsspec. To free a client there waits for threads of the
# parent, for ever.
_KEPT: list[object] = []


def _keep_clients() -> None:
    if (module := sys.modules.get("hdfs_native.fsspec")) is not None:
        _KEPT.extend(module.HdfsFileSystem._cache.values())


os.register_at_fork(before=_keep_clients)

# The current addresses of buckets' objects.
BUCKETS: dict[str, Path] = {}


def place_of(location: str) -> Path:
    """The folder that a location of the metastore names."""
    if location.startswith("hdfs:"):
        return cast(
            Path, UPath(f"{'/'.join(location.split('/')[:3])}{normal_path(path_on_hdfs(location))}")
        )
    if location.startswith("s3a:"):
        bucket, _, path = location.removeprefix("s3a://").partition("/")
        return BUCKETS[bucket] / path
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def path_on_hdfs(location: str) -> str:
    """Return the path after the NameNode."""
    return "/" + location.split("/", 3)[3]


def copy_all(source: Path, target: Path) -> None:
    """Copy the files of a folder, between any two places."""
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / str(path.relative_to(source))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def remove_all(place: Path) -> None:
    """Remove a folder with all that is in it; one that is gone already is no error."""
    if isinstance(place, UPath):
        with suppress(FileNotFoundError):
            place.fs.rm(place.path, recursive=True)
    else:
        shutil.rmtree(place, ignore_errors=True)
