"""Canonical locations: the directories that a location may mean, and which locations overlap.

One directory has many spellings, and one spelling may have several meanings. A process that deletes
files must not guess: every meaning counts, and file systems that may be the same count as the same.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

_LOCATION = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL
)
_FAMILIES = {
    "file": "file",
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs", "viewfs"), "hdfs"),
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
    "gs": "gs",
}
_LINK = re.compile(r"fs\.viewfs\.mounttable\.(?P<table>.+?)\.(?P<kind>link\w*)(?:\.(?P<path>/.*))?")
# A link may lead to a path of viewfs again; a cycle ends here.
_MOST_LINKS = 10

Parts = tuple[str, ...]
Resolve = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that a location may mean.

    Attributes:
        family: The kind of file system; None if unknown.
        store: The bucket or container; None if absent or unknown. It is always unknown for HDFS:
            one cluster has the names of its NameNodes, name services, routers and addresses, and
            configurations of machines differ.
        parts: The path, part by part; None if it may be any path.
    """

    family: str | None
    store: str | None
    parts: Parts | None

    def may_be_inside(self, other: "Place") -> bool:
        """Return whether this may be the other directory, or a directory inside it."""
        if not self._may_share_store(other):
            return False
        if self.parts is None or other.parts is None:
            return True
        return self.parts[: len(other.parts)] == other.parts

    def _may_share_store(self, other: "Place") -> bool:
        if self.family is None or other.family is None:
            return True
        if self.family != other.family:
            return False
        return self.store == other.store or self.store is None or other.store is None


class MountTables:
    """The mount tables of viewfs, and the default file system, by Hadoop's configuration."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Read the properties of core-site.xml.

        Args:
            properties: Hadoop's configuration, or an empty mapping.
        """
        self.default = properties.get("fs.defaultFS", "").rstrip("/")
        self._links: dict[str, list[tuple[str, str, str]]] = {}
        for name, targets in properties.items():
            if match := _LINK.fullmatch(name):
                link = (match["kind"], match["path"] or "/", targets)
                self._links.setdefault(match["table"].lower(), []).append(link)

    def targets(self, host: str, path: str) -> list[str]:
        """List the target locations of a viewfs path; empty if they are unknown.

        Args:
            host: The mount table; "" is that of the default file system.
            path: A normal path.
        """
        if not host:
            match = _LOCATION.fullmatch(self.default)
            host = (match and (match["host"] or "").lower()) or "default"
        links = self._links.get(host, [])
        if any(kind == "linkRegex" for kind, _, _ in links):
            return []
        found = []
        for _, link, targets in links:
            root = link.rstrip("/")
            if f"{path}/".startswith(f"{root}/"):
                rest = path[len(root) :].lstrip("/")
            elif link.startswith(f"{path.rstrip('/')}/"):
                rest = ""  # A directory above a link contains the target of the link.
            else:
                continue
            found += [f"{target.strip().rstrip('/')}/{rest}" for target in targets.split(",")]
        return found


def places(location: str, mounts: MountTables, resolve: Resolve) -> frozenset[Place]:
    """List every directory that a location may mean.

    Args:
        location: A location, in the spelling of the metastore.
        mounts: The mount tables of viewfs.
        resolve: Follows the symbolic links of a local path.
    """
    return frozenset(_places(location, mounts, resolve, _MOST_LINKS))


def _places(location: str, mounts: MountTables, resolve: Resolve, links: int) -> Iterator[Place]:
    match = _LOCATION.fullmatch(location)
    assert match is not None, "The pattern fits every text."
    scheme, host = (match["scheme"] or "").lower(), (match["host"] or "").lower()
    family = _FAMILIES.get(scheme)
    readings = _readings(match["path"])
    if scheme in ("", "file"):
        # Hadoop removes ".." before it follows links, other programs afterwards.
        for path in {*readings, _absolute(match["path"])}:
            yield Place(family, None, _parts(resolve(path)))
    if scheme == "viewfs":
        for path in readings:
            targets = mounts.targets(host, path) if links else []
            if not targets:
                yield Place(family, None, None)
            for target in targets:
                yield from _places(target, mounts, resolve, links - 1)
    elif scheme != "file":
        for path in readings:
            yield Place(family, _store(family, host), _parts(path))
    if not scheme and mounts.default and links:
        yield from _places(f"{mounts.default}{match['path']}", mounts, resolve, links - 1)


def _readings(path: str) -> set[str]:
    """The normal paths that a text may mean: literally, and with encoded dots decoded."""
    decoded = "/".join(
        unquote(part) if unquote(part) in (".", "..") else part for part in path.split("/")
    )
    return {posixpath.normpath(_absolute(text)) for text in (path, decoded)}


def _absolute(path: str) -> str:
    return f"/{path.lstrip('/')}"


def _parts(path: str) -> Parts:
    # Names of partitions are encoded once, so that decoded ones of one table still differ.
    return tuple(unquote(part) for part in path.split("/") if part)


def _store(family: str | None, host: str) -> str | None:
    if family == "azure":
        container, _, account = host.partition("@")
        # All endpoints of an account, blob and dfs, show the same containers.
        return f"{container}@{account.split('.')[0]}" if account else None
    if family == "s3" and (host.endswith("-s3alias") or host.startswith("arn:")):
        return None  # An access point, which may be one of any bucket.
    return host if family in ("s3", "gs") else None


class OwnPlaces:
    """The directories of one table, used to find overlapping locations of others."""

    def __init__(self, own: Iterable[tuple[str, Iterable[Place]]]) -> None:
        """Index the directories.

        Args:
            own: The names of the table and its partitions, with the places of each.
        """
        self._at: dict[Parts, list[tuple[str, Place]]] = {}
        self._inside: dict[Parts, list[tuple[str, Place]]] = {}
        self._anywhere: list[tuple[str, Place]] = []
        for name, places_of_name in own:
            for place in places_of_name:
                if place.parts is None:
                    self._anywhere.append((name, place))
                    continue
                self._at.setdefault(place.parts, []).append((name, place))
                for depth in range(len(place.parts)):
                    self._inside.setdefault(place.parts[:depth], []).append((name, place))

    def overlapping(self, others: Iterable[Place], besides: str | None = None) -> str | None:
        """Find a directory that may be the same as another one, around it, or inside it.

        Args:
            others: The places of one location.
            besides: The name of a directory that is not compared.

        Returns:
            The name of the directory; None if no directory can overlap.
        """
        for other in others:
            for name, own in self._candidates(other):
                if name != besides and (own.may_be_inside(other) or other.may_be_inside(own)):
                    return name
        return None

    def _candidates(self, place: Place) -> Iterator[tuple[str, Place]]:
        yield from self._anywhere
        if place.parts is None:
            for entries in self._at.values():
                yield from entries
            return
        yield from self._inside.get(place.parts, ())
        for depth in range(len(place.parts) + 1):
            yield from self._at.get(place.parts[:depth], ())
