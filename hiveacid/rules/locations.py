"""Spelling of locations: equal folders have equal locations, and paths below a folder are relative."""

import re

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*:)(//[^/]+)?)?(.*)", re.DOTALL)


def plain_location(location: str) -> str:
    """Remove the slashes of a location that mean nothing: file:///a//b/ is file:/a/b."""
    match = _PARTS.fullmatch(location)
    assert match is not None
    scheme, authority, path = match.groups("")
    plain = re.sub("/+", "/", path)
    return f"{scheme}{authority}{plain.rstrip('/') or ('' if authority else plain)}"


def same_place(one: str | None, other: str | None) -> bool:
    """Return whether two locations are equal apart from redundant slashes."""
    return plain_location(one or "") == plain_location(other or "")


def split_location(folder: str, location: str) -> tuple[str, str]:
    """Split a location into a folder and the path below it.

    Args:
        folder: A folder, such as that of a table.
        location: A location, such as that of a partition.

    Returns:
        The folder and the path if the location is inside of the folder; else the location and "".
    """
    root, place = plain_location(folder), plain_location(location)
    path = place.removeprefix(f"{root}/")
    return (root, path) if path != place else (place, "")
