"""Comparison of the folders of two locations."""

import posixpath
import re

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
# Different names of one kind of store.
_KINDS = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_HADOOP = ("hdfs", "viewfs")
_LOCAL_HOSTS = ("", "localhost")


def overlap(one: str, other: str) -> bool:
    """Return whether one folder is the other one, or inside of it.

    Args:
        one: A location; links are not resolved.
        other: Another location.
    """
    (kind, host, path), (other_kind, other_host, other_path) = map(_parts, (one, other))
    # The configuration of Hadoop may determine a missing host.
    unknown = kind in _HADOOP and "" in (host, other_host)
    if kind != other_kind or not (host == other_host or unknown):
        return False
    shorter, longer = sorted((path, other_path), key=len)
    return longer == shorter or longer.startswith(f"{shorter.rstrip('/')}/")


def is_inside(location: str, folder: str) -> bool:
    """Return whether a location is a folder, or inside of it.

    A location without a host, whose host the configuration of Hadoop determines, is inside of a folder
    with any host; but a location with a host is not inside of a folder without one.

    Args:
        location: A location; links are not resolved.
        folder: A folder.
    """
    (kind, host, path), (folder_kind, folder_host, folder_path) = map(_parts, (location, folder))
    is_default = kind in _HADOOP and not host
    if kind != folder_kind or not (host == folder_host or is_default):
        return False
    return path == folder_path or path.startswith(f"{folder_path.rstrip('/')}/")


def local_path(location: str) -> str | None:
    """Return the path of a location on this machine; None if it is elsewhere."""
    kind, host, path = _parts(location)
    return path if kind == "file" and not host else None


def _parts(location: str) -> tuple[str, str, str]:
    match = _LOCATION.fullmatch(location)
    assert match is not None
    scheme, host, path = match.groups(default="")
    kind = scheme.lower() or "file"
    if kind == "file" and host in _LOCAL_HOSTS:
        host = ""
    return _KINDS.get(kind, kind), host.lower(), posixpath.normpath(f"/{path.lstrip('/')}")
