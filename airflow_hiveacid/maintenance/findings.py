"""What there is to clean in the folders of a table, found out without a way to change them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_hiveacid.acid.blockers import Blocker
from airflow_hiveacid.acid.cleaning import (
    CleaningPlan,
    Since,
    Stay,
    plan_cleaning,
    stale_staging,
)
from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus, Rules
from airflow_hiveacid.acid.errors import DataError
from airflow_hiveacid.acid.names import RUN_NOTES, SINCE_FILE, is_hidden
from airflow_hiveacid.listing import list_files, read_state
from airflow_hiveacid.maintenance.blockers import blockers_of
from airflow_hiveacid.maintenance.places import Place
from airflow_hiveacid.maintenance.since import read_since
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import ReadOnlyStorage

_NO_CLEANUP = ("no_cleanup", "NO_CLEANUP")


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that may be removed.

    Attributes:
        path: Where it is, below the folder of its place.
        bytes: The size of its files.
        why: What made it useless.
        cover: The directory that must still be there then, because it holds the same.
        is_note: Whether it is a file and no directory.
    """

    path: str
    bytes: int
    why: str
    cover: str | None = None
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What one folder has that no new reader looks at.

    Attributes:
        place: The folder.
        garbage: What may be removed.
        keep: What stays, and why.
        plan: The decision on its ACID directories; None when there was none to be made.
    """

    place: Place
    garbage: tuple[Garbage, ...] = ()
    keep: tuple[Stay, ...] = ()
    plan: CleaningPlan | None = None


class Inspection:
    """One look at a table.

    Attributes:
        txns: Which transactions had ended when it began.
    """

    def __init__(
        self, client: MetastoreClient, table: HiveTable, *, besides: int | None = None
    ) -> None:
        """Take the snapshot that a new reader would take.

        Args:
            client: The metastore.
            table: The table.
            besides: A transaction that is in nobody's way: one's own.
        """
        snapshot = Snapshot.take(client, [table.ref])
        self.txns = snapshot.txns
        self._write_ids = snapshot.write_ids[table.ref.full_name]
        self._client = client
        self._table = table
        self._besides = besides
        self._now = datetime.now(UTC)

    def look(self, place: Place) -> Finding:
        """Find what may be removed from the folder of a partition, or of a table without."""
        if place.leads_through_link():
            return Finding(place, keep=(Stay("", "It lies behind a symbolic link."),))
        storage = ReadOnlyStorage.of(place.location)
        files = list_files(storage)
        names = {file.path.partition("/")[0] for file in files if "/" in file.path}
        try:
            state = read_state(
                storage, files, self._write_ids, self.txns, rules=Rules.HIVE4, strict=True
            )
        except DataError as error:
            return Finding(place, keep=(Stay("", str(error)),))
        plan = self._plan(place, storage, state, names, files)
        staging = self._stale_staging(storage, sorted(names), files)
        garbage = [
            Garbage(each.directory, _size(files, each.directory), each.why, each.cover)
            for each in plan.remove
        ]
        return Finding(place, (*garbage, *staging), plan.keep, plan)

    def look_beside(self, keep_notes_days: float) -> Finding:
        """Find what may be removed beside the data, in the folder of the table.

        Args:
            keep_notes_days: Younger notes on runs stay.
        """
        place = Place(None, self._table.folder, self._table.folder, "")
        if place.leads_through_link():
            return Finding(place)
        storage = ReadOnlyStorage.of(place.location)
        garbage: list[Garbage] = []
        if self._table.partition_keys:
            names = storage.list_directories(missing_ok=True)
            for name in stale_staging(names, self.txns):
                files = storage.list_files(name, recursive=True, missing_ok=True)
                garbage += self._stale_staging(
                    storage,
                    [name],
                    [FileStatus(f"{name}/{file.path}", file.size) for file in files],
                )
        if not storage.is_link(RUN_NOTES):
            oldest = self._now - timedelta(days=keep_notes_days)
            why = f"This note on a run is older than {keep_notes_days:g} days."
            garbage += [
                Garbage(path, size, why, is_note=True)
                for path, size, modified in storage.walk(RUN_NOTES)
                if size is not None and modified is not None and modified < oldest.timestamp() * 1e9
            ]
        return Finding(place, tuple(garbage))

    def _plan(
        self,
        place: Place,
        storage: ReadOnlyStorage,
        state: AcidDirectory,
        names: set[str],
        files: Sequence[FileStatus],
    ) -> CleaningPlan:
        """Decide; the listing was made before anybody is asked who is there."""
        useless = {*state.obsolete, *state.aborted}
        read = {state.base, *state.deltas}
        blockers: list[Blocker] = []
        if useless or any(not is_hidden(name) for name in names - read):
            blockers = blockers_of(
                self._client, self._table.ref, everywhere=True, besides=self._besides
            )
        return plan_cleaning(
            state,
            names,
            write_ids=self._write_ids,
            txns=self.txns,
            since=self._since(storage, files) if state.obsolete else {},
            blockers=blockers,
            forbidden=self._forbidden(place, storage, useless) if useless else {},
            now=self._now,
        )

    def _since(self, storage: ReadOnlyStorage, files: Sequence[FileStatus]) -> dict[str, Since]:
        notes = [file.path for file in files if file.path.endswith(f"/{SINCE_FILE}")]
        directories = [path.removesuffix(f"/{SINCE_FILE}") for path in notes]
        found = {directory: read_since(storage, directory) for directory in directories}
        return {directory: since for directory, since in found.items() if since is not None}

    def _forbidden(
        self, place: Place, storage: ReadOnlyStorage, useless: set[str]
    ) -> dict[str, str]:
        """Which directories must stay although nobody reads them, and why."""
        owners: list[tuple[str, Mapping[str, str]]] = [("table", self._table.parameters)]
        if place.partition is not None:
            found = self._client.get_partitions(self._table.ref, [place.partition])
            owners += [("partition", partition.parameters) for partition in found]
        for owner, parameters in owners:
            for name in _NO_CLEANUP:
                if parameters.get(name, "").lower() == "true":
                    return dict.fromkeys(useless, f"The {owner} has the property {name}.")
        return {name: "It is a symbolic link." for name in useless if storage.is_link(name)}

    def _stale_staging(
        self, storage: ReadOnlyStorage, names: Sequence[str], files: Sequence[FileStatus]
    ) -> list[Garbage]:
        return [
            Garbage(name, _size(files, name), "The transaction that staged it has ended.")
            for name in stale_staging(names, self.txns)
            if not storage.is_link(name)
        ]


def _size(files: Sequence[FileStatus], directory: str) -> int:
    return sum(file.size for file in files if file.path.startswith(f"{directory}/"))
