"""The owners of locations: the registered tables and partitions at, above, or below them.

A name that a user may use can lead to files of another table. So a location is an access to each of
its owners: a location that is read asks for them, and nothing is created, written, or dropped where
another table is registered.
"""

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Self
from urllib.parse import unquote

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AccessRefused,
    InvalidJob,
    SharedLocation,
    TableNotFound,
)
from hiveacid.jobs.definition_jobs import DropDatabaseJob, DropTableJob
from hiveacid.jobs.job import READ, Access, accesses_of, paths_of, paths_read
from hiveacid.metastore.authorizer import authorizer_path, require_access
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import (
    Warehouse,
    all_locations,
    database_locations,
    partition_locations,
)
from hiveacid.metastore.permitted import ask_again, permit
from hiveacid.records.proofs import read_reader_note
from hiveacid.rules.cleaning import ReaderNote, Replacement
from hiveacid.rules.directory import AcidDirectory, FileStatus
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    READER_NOTE_FILE,
    SIDECAR_FILE,
    UNFINISHED_PREFIX,
    Base,
    Delta,
    TableRef,
    is_hidden,
    parse_directory,
    removal_identity,
    same_place,
    split_location,
)
from hiveacid.rules.notes import parse_note, replaced_by
from hiveacid.rules.partitions import find_partitions
from hiveacid.storage.filesystems import hadoop_properties
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# Canonical locations: the directories that a location may mean, and which locations overlap.
#
# One directory has many spellings, and one spelling may have several meanings. A process that
# deletes files must not guess: every meaning counts, and file systems that may be the same count
# as the same.


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

    def may_be_inside(self, other_place: "Place") -> bool:
        """Return whether this may be the other directory, or a directory inside it."""
        if not self._may_share_store(other_place):
            return False
        if self.parts is None or other_place.parts is None:
            return True
        return self.parts[: len(other_place.parts)] == other_place.parts

    def _may_share_store(self, other_place: "Place") -> bool:
        if self.family is None or other_place.family is None:
            return True
        if self.family != other_place.family:
            return False
        return self.store == other_place.store or self.store is None or other_place.store is None


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
        target_locations = []
        for _, link, targets in links:
            root = link.rstrip("/")
            if f"{path}/".startswith(f"{root}/"):
                path_below = path[len(root) :].lstrip("/")
            elif link.startswith(f"{path.rstrip('/')}/"):
                path_below = ""  # A directory above a link contains the target of the link.
            else:
                continue
            target_locations += [
                f"{target.strip().rstrip('/')}/{path_below}" for target in targets.split(",")
            ]
        return target_locations


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
    decoded_path = "/".join(
        unquote(part) if unquote(part) in (".", "..") else part for part in path.split("/")
    )
    return {posixpath.normpath(_absolute(text)) for text in (path, decoded_path)}


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

    def __init__(self, named_places: Iterable[tuple[str, Iterable[Place]]]) -> None:
        """Index the directories.

        Args:
            named_places: The names of the table and its partitions, with the places of each.
        """
        self._at: dict[Parts, list[tuple[str, Place]]] = {}
        self._inside: dict[Parts, list[tuple[str, Place]]] = {}
        self._anywhere: list[tuple[str, Place]] = []
        for name, places_of_name in named_places:
            for place in places_of_name:
                if place.parts is None:
                    self._anywhere.append((name, place))
                    continue
                self._at.setdefault(place.parts, []).append((name, place))
                for depth in range(len(place.parts)):
                    self._inside.setdefault(place.parts[:depth], []).append((name, place))

    def overlapping(self, places: Iterable[Place], besides: str | None = None) -> str | None:
        """Find a directory that may be the same as another one, around it, or inside it.

        Args:
            places: The places of one location.
            besides: The name of a directory that is not compared.

        Returns:
            The name of the directory; None if no directory can overlap.
        """
        overlaps = self.all_overlapping(places)
        return next((name for name in overlaps if name != besides), None)

    def all_overlapping(self, places: Iterable[Place]) -> Iterator[str]:
        """Find all such directories; see ``overlapping``."""
        for place in places:
            for name, own_place in self._candidates(place):
                if own_place.may_be_inside(place) or place.may_be_inside(own_place):
                    yield name

    def _candidates(self, place: Place) -> Iterator[tuple[str, Place]]:
        yield from self._anywhere
        if place.parts is None:
            for entries in self._at.values():
                yield from entries
            return
        yield from self._inside.get(place.parts, ())
        for depth in range(len(place.parts) + 1):
            yield from self._at.get(place.parts[:depth], ())


# The folders of a table and its partitions, and the check that no other table uses them


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of a partition or of an unpartitioned table.

    Attributes:
        partition: The partition's name; None for a table without partitions.
        location: Its folder, without redundant slashes.
        below: The table's folder if it contains this folder, else this folder.
        path: The relative path from ``below`` to the folder; "" if both are the same.
    """

    partition: str | None
    location: Location
    below: Location
    path: str

    def show(self, name: str) -> str:
        """The path of something in it: relative to the table's folder, or absolute elsewhere."""
        is_inside = self.partition is None or self.path
        parts = [self.path if is_inside else self.location.rstrip("/"), name]
        return "/".join(filter(None, parts)) or "."

    def leads_through_link(self) -> bool:
        """Whether a symbolic link may lead to files that are not the table's."""
        return ReadOnlyStorage.of(self.below).is_link(self.path)


class TableFolders:
    """The folders of a table and its partitions, each in a place of its own.

    Attributes:
        table: The table.
        folders: One folder for each partition, or that of an unpartitioned table.
    """

    def __init__(self, table: HiveTable, locations: Mapping[str, Location]) -> None:
        """Describe the folders.

        Args:
            table: The table.
            locations: The locations of its partitions, by their names.

        Raises:
            SharedLocation: Two partitions may have files in one folder, or one inside the other, or a
                partition has the folder of its table, or one around it.
        """
        self.table = table
        self._locations = locations
        self.folders = [PartitionFolder(None, table.folder, table.folder, "")]
        if table.partition_keys:
            self.folders = [
                folder_of(table.folder, *named_location)
                for named_location in sorted(locations.items())
            ]
        self._places_of = place_resolver()
        root = self._places_of(table.folder)
        places_of_partitions = {
            f"{table.ref}/{folder.partition}": (folder.location, self._places_of(folder.location))
            for folder in self.folders
            if folder.partition is not None
        }
        partitions = {
            name: partition_places for name, (_, partition_places) in places_of_partitions.items()
        }
        own_places = OwnPlaces(partitions.items())
        for name, (location, partition_places) in places_of_partitions.items():
            # Partitions lie inside the folder of their table, never at it or around it.
            if any(
                place.may_be_inside(partition) for place in root for partition in partition_places
            ):
                raise shared_location(name, table.ref.full_name, location)
            if (neighbor := own_places.overlapping(partition_places, besides=name)) is not None:
                raise shared_location(name, neighbor, location)
        self._own = OwnPlaces([(table.ref.full_name, root), *partitions.items()])

    def of_partitions(self, partitions: Sequence[str] | None) -> list[PartitionFolder]:
        """Return the folders of some partitions; a missing partition has none.

        Args:
            partitions: Their names; all partitions, or an unpartitioned table, if None.

        Raises:
            InvalidJob: Partitions are requested of an unpartitioned table.
        """
        if partitions is None:
            return self.folders
        if not self.table.partition_keys:
            raise InvalidJob(f"{self.table.ref} has no partitions.")
        partition_names = [
            folder.partition for folder in self.folders if folder.partition is not None
        ]
        requested_names = {
            *find_partitions(partitions, partition_names, self.table.key_types, lenient=True)
        }
        return [folder for folder in self.folders if folder.partition in requested_names]

    def has(self, folder: PartitionFolder) -> bool:
        """Return whether a partition has a folder, and no other one."""
        location = self._locations.get(folder.partition or "")
        return folder.partition is None or (
            location is not None and same_place(location, folder.location)
        )

    def require_unshared(self, locations: Iterable[tuple[str, str]]) -> None:
        """Check that nothing else uses any of the folders.

        Args:
            locations: The names and locations of all other tables and their partitions.

        Raises:
            SharedLocation: Another table or partition may have its files in a folder, around it or
                inside it.
        """
        for owner, location in locations:
            if (overlapping := self._own.overlapping(self._places_of(location))) is not None:
                raise shared_location(overlapping, owner, location)


def folder_of(table: Location, partition: str | None, location: Location) -> PartitionFolder:
    """Return the folder of a partition, from its table's folder and its own location."""
    return PartitionFolder(partition, location, *split_location(table, location))


def place_resolver() -> Callable[[str], frozenset[Place]]:
    """Return a function that lists every directory that a location may mean."""
    mounts = MountTables(hadoop_properties())
    # Most partitions lie in few directories, whose links are followed once.
    real_directory = lru_cache(maxsize=1000)(os.path.realpath)

    def resolve(path: str) -> str:
        parent, name = os.path.split(path)
        try:
            real = os.path.join(real_directory(parent), name)
            if name in ("", ".", "..") or os.path.islink(real):
                return os.path.realpath(path)
        except ValueError:  # It holds a null character, which no directory can have.
            return path
        return real

    return lambda location: places(location, mounts, resolve)


def shared_location(first_name: str, second_name: str, where: str) -> SharedLocation:
    """Return the error that two names have, or may have, files in one directory."""
    return SharedLocation(
        f"{first_name} and {second_name} have, or may have, files in one directory: {where}."
    )


# The files of a folder as a cleaning sees them: read, pending removal, and described by notes


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of a folder, and their state for a new reader.

    Attributes:
        folder: The folder's location.
        storage: The opened folder.
        files: All files.
        state: The ACID state for a new reader.
    """

    folder: PartitionFolder
    storage: ReadOnlyStorage
    files: Sequence[FileStatus]
    state: AcidDirectory

    @property
    def names(self) -> set[str]:
        """The directories in the folder."""
        return {file.path.partition("/")[0] for file in self.files if "/" in file.path}

    @property
    def removals(self) -> list[str]:
        """The folders with files whose removal was not verified."""
        removal_names = {name for name in self.names if removal_identity(name) is not None}
        return sorted(name for name in removal_names if not self.storage.is_link(name))

    @property
    def awaiting_removal(self) -> set[str]:
        """The directories that wait for removal."""
        return {*self.state.obsolete, *self.state.aborted}

    @property
    def unread(self) -> set[str]:
        """The directories that a new reader does not open."""
        visible_names = {name for name in self.names if not is_hidden(name)}
        originals = {path.partition("/")[0] for path in self.state.originals}
        return (visible_names | self.awaiting_removal) - {
            self.state.base,
            *self.state.deltas,
            *originals,
        }

    @property
    def unfinished(self) -> list[FileStatus]:
        """Unfinished notes in directories; a process that still writes one does not need it."""
        return [
            file
            for file in self.files
            if file.path.rpartition("/")[2].startswith(UNFINISHED_PREFIX)
            and file.path.endswith(READER_NOTE_FILE)
            and parse_directory(file.path.partition("/")[0]) is not None
        ]

    def reader_notes(self) -> dict[str, ReaderNote]:
        """Return the directories' notes on the readers at the time of their publication.

        Raises:
            NewerRecord: A newer version has written one.
        """
        paths = [file.path for file in self.files if file.path.endswith(f"/{READER_NOTE_FILE}")]
        directories = [path.removesuffix(f"/{READER_NOTE_FILE}") for path in paths]
        notes = {directory: read_reader_note(self.storage, directory) for directory in directories}
        return {directory: note for directory, note in notes.items() if note is not None}

    @property
    def paths(self) -> set[str]:
        """All files and directories."""
        return {file.path.rstrip("/") for file in self.files} | self.names

    def replacements(self) -> list[Replacement]:
        """Return the directories whose notes list the directories they replaced, read or not."""
        noted = {file.path for file in self.files if file.path.endswith(f"/{SIDECAR_FILE}")}
        directories = filter(None, (self.state.base, *self.state.deltas, *self.state.obsolete))
        found = []
        for name in directories:
            directory = None if f"{name}/{SIDECAR_FILE}" not in noted else parse_directory(name)
            if isinstance(directory, Base) or (
                isinstance(directory, Delta) and directory.statement_id is None
            ):
                content = self.storage.read_small(f"{name}/{SIDECAR_FILE}")
                note = None if content is None else parse_note(content)
                replaced_names = None if note is None else replaced_by(note)
                if replaced_names is not None:
                    # The clock of the writer may have been wrong.
                    time = self.storage.modified(f"{name}/{SIDECAR_FILE}")
                    found.append(Replacement(name, replaced_names, time))
        return found


# Characters that make a path a pattern for Hadoop.
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


def require_job_access(
    client: MetastoreClient, user: str, job: object, accesses_by_name: Sequence[Access] = ()
) -> None:
    """Ask the authorizer for the tables that a job accesses by names, locations, and databases.

    Without an authorizer, this makes no call.

    Args:
        client: The metastore.
        user: The user, as the authorizer knows it.
        job: A job, a question in SQL, a table, or a list of them.
        accesses_by_name: The accesses by names, if the job does not describe them itself.

    Raises:
        AccessRefused: A location is not allowed, or the authorizer refuses an access.
    """
    for path in paths_of(job):
        client.allowed_locations.require(path)
    accesses_by_name = accesses_by_name or accesses_of(job)
    require_access(user, accesses_by_name)
    if authorizer_path():
        led = _Led.of(client, accesses_by_name)
        if accesses := [*_accesses_by_location(client, job, led)]:
            require_access(user, accesses)
        for led_table in led:
            permit(client.options.uris, led_table.ref, led_table.locations)


def shared_tables(client: MetastoreClient) -> dict[str, frozenset[str]]:
    """Return the tables in folders that somebody has chosen, each with the others that are there.

    A list shows such a table only to users who may see the others, too. Without an authorizer, nobody
    is asked, and this makes no call.

    Args:
        client: The metastore: two calls per database and 200 tables, and one for each table with
            partitions.

    Returns:
        The names of the other tables, and of the databases whose folders are there, by the table.
    """
    if not authorizer_path():
        return {}
    warehouse, places_of = Warehouse(client), place_resolver()
    locations = [*all_locations(client)]
    folders = {name: location for name, location in locations if "/" not in name}
    chosen_places: list[tuple[str, Iterable[Place]]] = []
    for name, location in locations:
        table, _, partition = name.partition("/")
        if partition:
            is_own = table in folders and bool(split_location(folders[table], location)[1])
        else:
            is_own = warehouse.chooses(TableRef.parse(table), location)
        if not is_own:
            chosen_places.append((table, places_of(location)))
    shared: dict[str, set[str]] = {}
    places = OwnPlaces(chosen_places)
    for name, location in locations if chosen_places else ():
        neighbour = name.partition("/")[0]
        for table in {*places.all_overlapping(places_of(location))} - {neighbour}:
            shared.setdefault(table, set()).add(neighbour)
    for database, location in _database_folders(client) if chosen_places else ():
        for table in places.all_overlapping(places_of(location)):
            if TableRef.parse(table).database != database:
                shared.setdefault(table, set()).add(database)
    return {table: frozenset(neighbours) for table, neighbours in shared.items()}


def require_files_access(
    client: MetastoreClient, user: str, locations: Iterable[str], readable_names: Collection[str]
) -> None:
    """Ask the authorizer for the tables whose folders hold files that a foreign record names.

    Without an authorizer, this makes no call.

    Args:
        client: The metastore.
        user: The user, as the authorizer knows it.
        locations: The files, or the folders that contain them.
        readable_names: The names of the tables that the user may read.

    Raises:
        AccessRefused: The authorizer refuses a table.
    """
    if authorizer_path():
        owners = {owner.partition("/")[0] for _, owner, _ in _owners(client, locations)}
        if owners_of_files := sorted(owners - {*readable_names}):
            require_access(user, [Access(name, None, READ) for name in owners_of_files])


def require_known_tables(job: object) -> None:
    """Refuse a job for a driver without an authorizer that accesses tables that nobody has checked.

    A database may get tables after the check of the job, and a cluster has no setting of Airflow.

    Args:
        job: The job of a driver in a cluster.

    Raises:
        AccessRefused: The driver would find tables by itself.
    """
    if authorizer_path() and (databases := [*_dropped_databases(job)]):
        raise AccessRefused(
            f"A driver in a cluster would drop all tables of {databases[0]}, and cannot ask for new ones.",
            remedy="Write DROP DATABASE ... CASCADE into a script of its own, which the worker runs.",
        )


def require_free(
    client: MetastoreClient,
    locations: Iterable[str],
    purpose: str,
    *,
    tolerated: Callable[[str], bool] = lambda _: False,
    partitions: bool = True,
) -> None:
    """Refuse locations at, above, or below a registered table or partition.

    Args:
        client: The metastore: two calls per database and 200 tables, and one for each table with
            partitions.
        locations: The locations that will be created or written.
        purpose: The object that will be there, for the message.
        tolerated: Receives "database.table" of an owner, and returns whether it may share a location.
        partitions: Whether the partitions of other tables count, too.

    Raises:
        AccessRefused: A location is not allowed.
        SharedLocation: A table or a partition is registered there.
    """
    wanted_locations = tuple(locations)
    for location in wanted_locations:
        client.allowed_locations.require(location)
        _require_absolute(location)
    for location, owner, registered in _owners(client, wanted_locations, partitions=partitions):
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
    folder = client.allowed_locations.require(default_folders(client, table.ref)[0])
    # The metastore creates the folders of tables and partitions, so that none of them is at a missing
    # one, or below it. An object store need not keep an empty folder.
    storage = Storage.of(folder)
    may_be_used = not storage.renames_at_once or storage.exists("")
    for _, owner, registered in _owners(client, [folder], partitions=may_be_used):
        raise SharedLocation(
            f"{purpose} in {folder} would share files with {owner} in {registered}.",
            remedy="Choose another folder with LOCATION.",
        )


def default_folders(client: MetastoreClient, ref: TableRef) -> list[str]:
    """Return the folder of a new transactional table without LOCATION, then that of other tables."""
    database = client.get_database(ref.database)
    roots = dict.fromkeys(filter(None, (database.managed_location, database.location)))
    return [f"{root.rstrip('/')}/{ref.name}" for root in roots]


@dataclass(frozen=True)
class _Led:
    """The locations to which the name of a table leads.

    Attributes:
        ref: The table.
        actions: The actions that are asked for.
        locations: Its folder, and the folders of its partitions that are elsewhere.
        chosen: Those of them that somebody has chosen.
    """

    ref: TableRef
    actions: Sequence[str]
    locations: Sequence[str]
    chosen: Sequence[str]

    @classmethod
    def of(cls, client: MetastoreClient, accesses_by_name: Iterable[Access]) -> list[Self]:
        """Look up the tables of accesses; those that do not exist lead nowhere."""
        actions: dict[TableRef, list[str]] = {}
        for access in accesses_by_name:
            if "." in access.table and ":" not in access.table:
                actions.setdefault(TableRef.parse(access.table), []).append(access.action)
        warehouse = cache(lambda: Warehouse(client))
        led_tables = []
        for ref, actions_of_table in actions.items():
            ask_again(client.options.uris, ref)
            try:
                table = client.get_table(ref)
            except TableNotFound:
                continue  # The job creates it, or fails.
            if table.location:
                partitions = [location for _, location in _partitions(client, table)]
                elsewhere = [
                    partition
                    for partition in partitions
                    if not split_location(table.location, partition)[1]
                ]
                chosen_folders = (
                    [] if warehouse().chooses(ref, table.location) else [table.location]
                )
                locations = [table.location, *elsewhere]
                led_tables.append(
                    cls(ref, actions_of_table, locations, [*chosen_folders, *elsewhere])
                )
        return led_tables


def _accesses_by_location(
    client: MetastoreClient, job: object, led: Sequence[_Led]
) -> Iterator[Access]:
    """Yield the accesses that only the metastore knows."""
    # The locations by their action, and by the table whose name leads there.
    locations_by_action: dict[tuple[str, TableRef | None], list[str]] = {}
    for path in paths_read(job):
        _require_absolute(path)
        locations_by_action.setdefault((READ, None), []).append(_fixed_part(path))
    locations_by_action |= {
        (action, led_table.ref): [*led_table.chosen]
        for led_table in led
        if led_table.chosen
        for action in led_table.actions
    }
    places_of = place_resolver()
    places = [
        (action, ref, OwnPlaces((location, places_of(location)) for location in locations))
        for (action, ref), locations in locations_by_action.items()
    ]
    for owner, registered in all_locations(client) if places else ():
        table, owner_places = owner.partition("/")[0], places_of(registered)
        for action, ref, folders in places:
            if (ref is None or table != ref.full_name) and folders.overlapping(
                owner_places
            ) is not None:
                yield Access(table, None, action)
    by_names = [(action, ref, folders) for action, ref, folders in places if ref is not None]
    for database, folder in _database_folders(client) if by_names else ():
        owner_places = places_of(folder)
        for action, ref, folders in by_names:
            if ref.database != database and folders.overlapping(owner_places) is not None:
                yield Access(database, None, action)
    if databases := set(_dropped_databases(job)):
        for database in sorted(databases & set(client.get_databases())):
            for table in sorted(client.get_tables(database)):
                yield Access(f"{database}.{table}", None, DropTableJob.tag)


def _database_folders(client: MetastoreClient) -> Iterator[tuple[str, str]]:
    """Yield the folders of databases, without those that contain all databases."""
    roots = Warehouse(client).roots
    for database, folder in database_locations(client):
        if not any(same_place(folder, root) for root in roots):
            yield database, folder


def _dropped_databases(job: object) -> Iterator[str]:
    if isinstance(job, DropDatabaseJob) and job.cascade:
        yield job.target.lower()
    parts = job if isinstance(job, tuple | list) else getattr(job, "statements", ())
    for part in parts:
        yield from _dropped_databases(part)


def _partitions(client: MetastoreClient, table: HiveTable) -> list[tuple[str, str]]:
    if not table.partition_keys:
        return []
    locations: Mapping[str, str] = partition_locations(client, table)
    return [(f"{table.ref}/{name}", location) for name, location in locations.items()]


def _owners(
    client: MetastoreClient, locations: Iterable[str], *, partitions: bool = True
) -> Iterator[tuple[str, str, str]]:
    """Yield the owners of locations: the location, the owner's name, and its registered location."""
    places_of = place_resolver()
    wanted_places = OwnPlaces((location, places_of(location)) for location in locations)
    for owner, registered in all_locations(client, partitions=partitions):
        if (location := wanted_places.overlapping(places_of(registered))) is not None:
            yield location, owner, registered


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
