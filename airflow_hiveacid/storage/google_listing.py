"""Listings of Google's store, in which Arrow leaves out directories that hold something."""

from typing import Any

from pyarrow import fs  # noqa: TID253


def with_directories(found: list[Any], top: str, recursive: bool) -> list[Any]:
    """What is below a folder, with its directories.

    Args:
        found: All that Arrow has found below it, at any depth.
        top: The folder.
        recursive: Whether what lies deeper is wanted, too.
    """
    known = {info.path: info for info in found}
    begin = len(top.rstrip("/")) + 1
    for info in found:
        parts = info.path[begin:].split("/")
        for depth in range(1, len(parts)):
            path = info.path[:begin] + "/".join(parts[:depth])
            known.setdefault(path, fs.FileInfo(path, fs.FileType.Directory))
    return [info for path, info in known.items() if recursive or "/" not in path[begin:]]
