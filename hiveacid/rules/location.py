"""The locations that a process may open.

The type is the permission: only a location of this type can be opened. The few functions that make one
have checked it: the definitions of tables and partitions that the client of the metastore returns,
``AllowedLocations.require``, and the files of an Iceberg catalog. ``tests/test_doors.py`` lists them.
"""

from typing import NewType

from hiveacid.errors import MalformedName

Location = NewType("Location", str)


def below(location: Location, *path: str) -> Location:
    """Return a location inside another one.

    Args:
        location: The other one.
        path: The parts of the path; empty parts are left out.

    Raises:
        MalformedName: The path leads out of it.
    """
    parts = [*filter(None, path)]
    if any(".." in part.split("/") for part in parts):
        raise MalformedName(f"{'/'.join(parts)!r} leaves {location}.")
    return Location("/".join([location.rstrip("/"), *parts])) if parts else location


def split(path: Location) -> tuple[Location, str]:
    """Split the full path of a file in a location into its folder and its name."""
    folder, _, name = path.rpartition("/")
    return Location(folder), name
