"""The locations that a process may open.

The type is the permission: only a location of this type can be opened. The few functions that make one
have checked it: the definitions of tables and partitions that the client of the metastore returns,
``AllowedLocations.require``, and the files of an Iceberg catalog. ``tests/test_doors.py`` lists them.
"""

from typing import NewType

Location = NewType("Location", str)


def below(location: Location, *path: str) -> Location:
    """Return a location inside another one.

    Args:
        location: The other one.
        path: The parts of the path; empty parts are left out.
    """
    return Location("/".join([location.rstrip("/") or "/", *filter(None, path)]))
