"""Google's store through Arrow, which omits non-empty directories from listings."""

import os
from typing import Any

from pyarrow import fs  # noqa: TID253


def google_store() -> fs.FileSystem:
    """Google's store, or the emulator of it that the variable of Google's own tools names."""
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator is None:
        return fs.GcsFileSystem()
    scheme, _, host = emulator.rpartition("://")
    return fs.GcsFileSystem(anonymous=True, scheme=scheme or "http", endpoint_override=host)


def with_directories(found: list[Any], top: str, recursive: bool) -> list[Any]:
    """Return the contents of a folder, including its directories.

    Args:
        found: All that Arrow has found below it, at any depth.
        top: The folder.
        recursive: Whether to include deeper levels.
    """
    known = {info.path: info for info in found}
    begin = len(top.rstrip("/")) + 1
    for info in found:
        parts = info.path[begin:].split("/")
        for depth in range(1, len(parts)):
            path = info.path[:begin] + "/".join(parts[:depth])
            known.setdefault(path, fs.FileInfo(path, fs.FileType.Directory))
    return [info for path, info in known.items() if recursive or "/" not in path[begin:]]
