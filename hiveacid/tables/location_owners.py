"""The owners of locations: the registered tables and partitions at, above, or below them.

A name that a user may use can lead to files of another table. So a location is an access to each of
its owners: a location that is read asks for them, and nothing is created, written, or dropped where
another table is registered.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hiveacid.errors import AccessRefused, SharedLocation, TableNotFound
from hiveacid.jobs.accesses import accesses_of, paths_of, paths_read
from hiveacid.jobs.definitions.catalog_jobs import DropDatabaseJob, DropTableJob
from hiveacid.jobs.job import READ, Access
from hiveacid.metastore.authorizer import authorizer_path, require_access
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import all_locations, partition_locations
from hiveacid.rules.locations import same_place, split_location
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import Storage
from hiveacid.tables.canonical_locations import OwnPlaces
from hiveacid.tables.partition_folders import place_resolver, shared_location

# Characters that make a path a pattern for Hadoop.
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


def require_job_access(
    client: MetastoreClient, user: str, job: object, named: Sequence[Access] = ()
) -> None:
    """Ask the authorizer for the tables that a job accesses by names, locations, and databases.

    Without an authorizer, this makes no call.

    Args:
        client: The metastore.
        user: The user, as the authorizer knows it.
        job: A job, a question in SQL, a table, or a list of them.
        named: The accesses by names, if the job does not describe them itself.

    Raises:
        AccessRefused: A location is not allowed, or the authorizer refuses an access.
    """
    for path in paths_of(job):
        client.allowed_locations.require(path)
    named = named or accesses_of(job)
    require_access(user, named)
    if authorizer_path() and (found := [*_accesses_by_location(client, job, named)]):
        require_access(user, found)


def require_known_tables(job: object) -> None:
    """Refuse a job for a driver without an authorizer that accesses tables that nobody has checked.

    A database may get tables after the check of the job, and a cluster has no setting of Airflow.

    Args:
        job: The job of a driver in a cluster.

    Raises:
        AccessRefused: The driver would find tables by itself.
    """
    if authorizer_path() and (dropped := [*_dropped_databases(job)]):
        raise AccessRefused(
            f"A driver in a cluster would drop all tables of {dropped[0]}, and cannot ask for new ones.",
            remedy="Write DROP DATABASE ... CASCADE into a script of its own, which the worker runs.",
        )


def require_free(
    client: MetastoreClient,
    locations: Iterable[str],
    purpose: str,
    *,
    tolerated: Callable[[str], bool] = lambda _: False,
) -> None:
    """Refuse locations at, above, or below a registered table or partition.

    Args:
        client: The metastore: two calls per database and 200 tables, and one for each table with
            partitions.
        locations: The locations that will be created or written.
        purpose: The object that will be there, for the message.
        tolerated: Receives "database.table" of an owner, and returns whether it may share a location.

    Raises:
        AccessRefused: A location is not allowed.
        SharedLocation: A table or a partition is registered there.
    """
    wanted = tuple(locations)
    for location in wanted:
        client.allowed_locations.require(location)
        _require_absolute(location)
    for location, owner, registered in _owners(client, wanted):
        if not tolerated(owner.partition("/")[0]):
            raise SharedLocation(
                f"{purpose} in {location} would share files with {owner} in {registered}.",
                remedy="Choose a folder that no table has, and that is in no folder of a table.",
            )


def require_free_folder(client: MetastoreClient, table: HiveTable) -> None:
    """Refuse a new table in a location of another one, with few calls for an unused default folder.

    Args:
        client: The metastore.
        table: The description of the table.

    Raises:
        AccessRefused: The location is not allowed.
        SharedLocation: Another table or partition is registered there.
    """
    purpose = f"The table {table.ref.full_name}"
    if table.location is not None:
        require_free(client, [table.location], purpose)
        return
    folder = default_folders(client, table.ref)[0]
    client.allowed_locations.require(folder)
    # The metastore creates the folders of tables and partitions, so that none of them is at a missing
    # one, or below it. An object store need not keep an empty folder.
    storage = Storage.of(folder)
    may_be_used = not storage.renames_at_once or storage.exists("")
    for _, owner, registered in _owners(client, [folder], partitions=may_be_used):
        raise SharedLocation(
            f"{purpose} in {folder} would share files with {owner} in {registered}.",
            remedy="Choose another folder with LOCATION.",
        )


def require_unshared(client: MetastoreClient, tables: Sequence[HiveTable]) -> None:
    """Refuse to drop or move tables if another table has files in their folders.

    Args:
        client: The metastore; see ``require_free``.
        tables: The tables; views, and external tables whose files remain, have no folders.

    Raises:
        SharedLocation: Another table or partition is registered in a folder, around it or inside it.
    """
    owning = [table for table in tables if table.location and not _keeps_files(table)]
    if not owning:
        return
    own = {
        name: location
        for table in owning
        for name, location in ((table.ref.full_name, table.folder), *_partitions(client, table))
    }
    places_of = place_resolver()
    folders = OwnPlaces((name, places_of(location)) for name, location in own.items())
    dropped = {table.ref.full_name for table in tables}
    for other, location in all_locations(client):
        if other.partition("/")[0] in dropped:
            continue
        if (overlapping := folders.overlapping(places_of(location))) is not None:
            raise shared_location(overlapping, other, location)


def default_folders(client: MetastoreClient, ref: TableRef) -> list[str]:
    """Return the folder of a new transactional table without LOCATION, then that of other tables."""
    database = client.get_database(ref.database)
    roots = dict.fromkeys(filter(None, (database.managed_location, database.location)))
    return [f"{root.rstrip('/')}/{ref.name}" for root in roots]


def _accesses_by_location(
    client: MetastoreClient, job: object, named: Iterable[Access]
) -> Iterator[Access]:
    """Yield the accesses that only the metastore knows."""
    # The locations by their action, and by the table that a name leads to.
    opened: dict[tuple[str, str | None], list[str]] = {}
    for path in paths_read(job):
        _require_absolute(path)
        opened.setdefault((READ, None), []).append(_fixed_part(path))
    for access in named:
        if "." in access.table and ":" not in access.table:
            for location in _foreign_locations(client, TableRef.parse(access.table)):
                opened.setdefault((access.action, access.table), []).append(location)
    places_of = place_resolver()
    places = [
        (action, name, OwnPlaces((each, places_of(each)) for each in locations))
        for (action, name), locations in opened.items()
    ]
    for owner, registered in all_locations(client) if places else ():
        table, found = owner.partition("/")[0], places_of(registered)
        for action, name, folders in places:
            if table != name and folders.overlapping(found) is not None:
                yield Access(table, None, action)
    if dropped := set(_dropped_databases(job)):
        for database in sorted(dropped & set(client.get_databases())):
            for table in sorted(client.get_tables(database)):
                yield Access(f"{database}.{table}", None, DropTableJob.tag)


def _dropped_databases(job: object) -> Iterator[str]:
    if isinstance(job, DropDatabaseJob) and job.cascade:
        yield job.target.lower()
    parts = job if isinstance(job, tuple | list) else getattr(job, "statements", ())
    for part in parts:
        yield from _dropped_databases(part)


def _foreign_locations(client: MetastoreClient, ref: TableRef) -> Iterator[str]:
    """Yield the locations of a table and its partitions outside of the folder with its name."""
    try:
        table = client.get_table(ref)
        folders = default_folders(client, ref)
    except TableNotFound:
        return  # The job creates it, or fails.
    if not table.location:
        return
    if not any(same_place(table.location, folder) for folder in folders):
        yield table.location
    for _, location in _partitions(client, table):
        if split_location(table.location, location)[1] == "":
            yield location


def _partitions(client: MetastoreClient, table: HiveTable) -> list[tuple[str, str]]:
    if not table.partition_keys:
        return []
    found: Mapping[str, str] = partition_locations(client, table)
    return [(f"{table.ref}/{name}", location) for name, location in found.items()]


def _owners(
    client: MetastoreClient, locations: Iterable[str], *, partitions: bool = True
) -> Iterator[tuple[str, str, str]]:
    """Yield the owners of locations: the location, the owner's name, and its registered location."""
    places_of = place_resolver()
    wanted = OwnPlaces((location, places_of(location)) for location in locations)
    for owner, registered in all_locations(client, partitions=partitions):
        if (location := wanted.overlapping(places_of(registered))) is not None:
            yield location, owner, registered


def _keeps_files(table: HiveTable) -> bool:
    """Return whether the metastore keeps the files of a table that is dropped."""
    external = table.parameters.get("EXTERNAL", "").lower() == "true"
    return external and table.parameters.get("external.table.purge", "").lower() != "true"


def _fixed_part(path: str) -> str:
    """Return the folder above everything that a pattern may match, or the path itself."""
    match = _PATTERN.search(path)
    return path if match is None else path[: path.rfind("/", 0, match.start()) + 1] or "/"


def _require_absolute(path: str) -> None:
    if not _ABSOLUTE.match(path):
        raise AccessRefused(
            f"{path!r} is relative to the folder of a process, so its owner is unknown.",
            remedy="Write an absolute path, with its scheme.",
        )
