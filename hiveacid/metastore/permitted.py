"""The locations of tables for which this process has asked the authorizer.

A name is permitted together with the locations to which it leads at that time. A table that is moved
afterwards, or gets a partition elsewhere, would lead to files for which nobody was asked.
"""

from collections.abc import Iterable
from threading import Lock

from hiveacid.errors import AccessRefused
from hiveacid.rules.names import TableRef, plain_location, split_location

_LOCK = Lock()
# By the addresses of a metastore, and a table in it.
_PERMITTED: dict[tuple[str, TableRef], frozenset[str]] = {}


def permit(uris: str, ref: TableRef, locations: Iterable[str]) -> None:
    """Permit a table at its present locations, and no others.

    Args:
        uris: The addresses of the metastore.
        ref: The table.
        locations: Its folder, and the folders of its partitions that are elsewhere.
    """
    with _LOCK:
        _PERMITTED[uris, ref] = frozenset(map(plain_location, locations))


def ask_again(uris: str, ref: TableRef) -> None:
    """Forget the permission of a table, before it is asked for, or after the table was created.

    Args:
        uris: The addresses of the metastore.
        ref: The table.
    """
    with _LOCK:
        _PERMITTED.pop((uris, ref), None)


def require_permitted(uris: str, ref: TableRef, location: str) -> None:
    """Refuse a location that a permitted table did not have.

    Args:
        uris: The addresses of the metastore.
        ref: The table; one that nobody has asked for is not checked.
        location: The folder of the table, or of one of its partitions.

    Raises:
        AccessRefused: The location is another one.
    """
    with _LOCK:
        permitted = _PERMITTED.get((uris, ref))
    if permitted is None or plain_location(location) in permitted:
        return
    if any(split_location(folder, location)[1] for folder in permitted):
        return
    raise AccessRefused(
        f"{ref} leads to {location}, and did not when the access was permitted.",
        remedy="Run the job again, which asks for the tables there, too.",
    )
