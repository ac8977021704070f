"""The places where a key can remain besides the files of its table, and what delays their end."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hiveacid.erasure.keys import KeySet
from hiveacid.erasure.mirror_search import MirrorSearch
from hiveacid.jobs.erase_job import Wait
from hiveacid.jobs.report import KeptDirectory
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import WORKING, CompactionQueue
from hiveacid.metastore.table_rules import column_of
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.write_events import is_replicated
from hiveacid.records.consumers import KnownConsumer, known_consumers
from hiveacid.records.erasures import Erasure, HeldFile
from hiveacid.records.mirror_notes import KnownMirror, known_mirrors
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.names import plain_location, same_place
from hiveacid.rules.texts import plural
from hiveacid.rules.write_ids import ValidWriteIdList


@dataclass(frozen=True, slots=True)
class Place:
    """A place in which a key can remain, for the certificate.

    Attributes:
        place: The place.
        state: "searched", "replaced", "named", or "not covered".
        detail: The result of the search, or the time at which values go.
    """

    place: str
    state: str
    detail: str


def waits_of_writers(
    table: HiveTable, write_ids: ValidWriteIdList, deleted_by: int
) -> Iterator[Wait]:
    """Yield the writers that began before the delete and may still add rows that it did not see.

    Args:
        table: The table.
        write_ids: A fresh list.
        deleted_by: The write id of the delete.
    """
    if open_ := [write_id for write_id in write_ids.open if write_id < deleted_by]:
        listed = ", ".join(map(str, open_[:3]))
        yield Wait(
            kind="writer",
            table=table.ref.full_name,
            reason=f"Writers that began before the delete have not ended: write id {listed}.",
        )


def waits_of_compactors(client: MetastoreClient, table: HiveTable) -> Iterator[Wait]:
    """Yield the compactions at work: a compactor of Hive 3 has no transaction that shows it."""
    for entry in CompactionQueue(client).live(table.ref):
        if entry.state == WORKING:
            yield Wait(
                kind="compaction",
                table=table.ref.full_name,
                reason=f"Another compactor may be copying keys: {entry}.",
            )


def waits_of_files(
    table: HiveTable, held: Iterable[HeldFile], kept: Sequence[KeptDirectory]
) -> Iterator[Wait]:
    """Yield the reasons why a cleaning keeps files that hold keys.

    Args:
        table: The table.
        held: The files.
        kept: The directories that the cleaning has kept.
    """
    folder = table.folder.rstrip("/")
    causes = {
        (each.path if ":/" in each.path else f"{folder}/{each.path}"): (
            each.waits_for or "file",
            each.reason,
        )
        for each in kept
    }
    found: dict[tuple[str, str], str] = {}
    for file in held:
        above = [path for path in causes if f"{file.path}/".startswith(f"{path}/")]
        cause = causes[max(above, key=len)] if above else ("file", file.problem)
        if cause[1]:
            found.setdefault(cause, file.path.removeprefix(f"{folder}/"))
    for (kind, reason), path in found.items():
        yield Wait(kind=kind, table=table.ref.full_name, reason=f"{path}: {reason}")


def files_outside(
    table: HiveTable, held: Iterable[HeldFile], paths: Sequence[str]
) -> list[HeldFile]:
    """Return the files that are in none of some directories.

    Args:
        table: The table.
        held: The files.
        paths: The directories, as in the report of a cleaning.
    """
    folder = table.folder.rstrip("/")
    places = [path if ":/" in path else f"{folder}/{path}" for path in paths]
    return [
        file
        for file in held
        if not any(f"{file.path}/".startswith(f"{place}/") for place in places)
    ]


@dataclass(frozen=True)
class Copies:
    """The copies of a table that others keep: by consumers of its changes, and mirrors in Iceberg.

    Attributes:
        client: The metastore.
        table: The table.
        column: The name of the column with the keys.
        keys: The keys.
        deleted_by: The write id of the delete.
        mirrors: The folders of mirrors that the request names. A location in a note is never opened:
            every writer of the table's folder can forge a note.
        others: The other tables of the request.
    """

    client: MetastoreClient
    table: HiveTable
    column: str
    keys: KeySet
    deleted_by: int
    mirrors: Sequence[str] = ()
    others: frozenset[str] = frozenset()

    def lags(self) -> list[Wait]:
        """Return the copies that have not received the delete, without a search of their files."""
        return [*self._late_consumers(), *self._late_mirrors()]

    def look(self) -> tuple[list[Wait], list[Place]]:
        """Return what delays the erasure, and the state of each copy."""
        name = self.table.ref.full_name
        places = [
            Place(
                f"Copy by consumer {consumer.name} of {name}",
                "named",
                f"It has received version {consumer.version}. Its targets are searched only as"
                " tables of a request.",
            )
            for consumer in self._consumers
        ]
        waits = self.lags()
        is_late = any(wait.kind == "mirror" for wait in waits)
        for mirror in self.searches():
            place = f"Mirror of {name} in {mirror.location}"
            places.append(Place(place, "searched", "All files below its folder."))
            if not is_late:
                waits += self._held_by(mirror)
        return waits, places

    @cached_property
    def _now(self) -> ValidWriteIdList:
        ref = self.table.ref
        return Snapshot.take(self.client, [ref]).write_ids[ref.full_name]

    @cached_property
    def _consumers(self) -> tuple[KnownConsumer, ...]:
        return known_consumers(self.table, self._now, SigningKey.configured())

    @cached_property
    def _mirrors(self) -> tuple[KnownMirror, ...]:
        return known_mirrors(self.table, self._now, time.time(), SigningKey.configured())

    def _late_consumers(self) -> Iterator[Wait]:
        for consumer in self._consumers:
            if consumer.problem:
                reason = f"The position of consumer {consumer.name} is unknown: {consumer.problem}"
                yield Wait(kind="consumer", table=self.table.ref.full_name, reason=reason)
            elif consumer.version < self.deleted_by:
                yield Wait(
                    kind="consumer",
                    table=self.table.ref.full_name,
                    reason=f"Consumer {consumer.name} has copied versions up to"
                    f" {consumer.version}, and the delete is version {self.deleted_by}.",
                )

    def _late_mirrors(self) -> Iterator[Wait]:
        for mirror in self._mirrors:
            if mirror.problem:
                yield Wait(kind="mirror", table=self.table.ref.full_name, reason=mirror.problem)
            elif plain_location(mirror.location) not in self.mirrors:
                yield Wait(
                    kind="mirror",
                    table=self.table.ref.full_name,
                    reason=f"The request does not name the folder {mirror.location} of the mirror"
                    f" {mirror.name}: make a new request with mirrors=[...]; if it is no mirror any"
                    " more, hiveacid mirrors forget.",
                )
            elif mirror.lag.version < self.deleted_by:
                yield Wait(
                    kind="mirror",
                    table=self.table.ref.full_name,
                    reason=f"The mirror {mirror.name} has version {mirror.lag.version}, and the"
                    f" delete is version {self.deleted_by}: export the table.",
                )

    def searches(self) -> Iterator[MirrorSearch]:
        """Yield a search of each of the mirrors that is one of the table."""
        column = column_of(self.table, self.column)
        for location in self.mirrors:
            allowed = self.client.allowed_locations.require(location)
            search = MirrorSearch(
                client=self.client,
                table=self.table,
                column=column,
                keys=self.keys,
                location=allowed,
                deleted_by=self.deleted_by,
                others=self.others,
            )
            if search.is_own:
                yield search

    def _held_by(self, mirror: MirrorSearch) -> Iterator[Wait]:
        if held := mirror.run().held:
            first = held[0]
            yield Wait(
                kind="mirror",
                table=self.table.ref.full_name,
                reason=f"{plural(len(held), 'file')} in the mirror {mirror.location} may hold keys:"
                f" expire the snapshots, and remove orphan files. The first is {first.path}:"
                f" {first.problem or 'It holds keys.'}",
            )


def waits_of_tables(erasure: Erasure, tables: Mapping[str, HiveTable | None]) -> Iterator[Wait]:
    """Yield the tables of a request that were dropped, moved, or created again.

    Args:
        erasure: The request.
        tables: The tables that have the names now.
    """
    for each in erasure.tables:
        name, now = each.table.name, tables[each.table.name]
        if now is None:
            reason = "It was dropped or renamed: its files cannot be found by its name."
        elif not now.identity.is_same(each.table.identity):
            reason = f"It was created again: it was {each.table.identity}, and is {now.identity}."
        elif not same_place(now.location, each.table.location):
            reason = f"It was moved from {each.table.location} to {now.location}."
        else:
            continue
        yield Wait(
            kind="table",
            table=name,
            reason=f"{reason} Remove what is left of it, and make a new request for the rest.",
        )


def other_places(
    client: MetastoreClient, erasure: Erasure, tables: Sequence[HiveTable]
) -> list[Place]:
    """Return the places that are named in a certificate, besides files and copies."""
    replicated = sorted(t.ref.full_name for t in tables if is_replicated(client, t.ref))
    kept_by = (
        f"The metastore keeps removed files of {', '.join(replicated)} for hive.repl.cm.retain."
        if replicated
        else "No database of the tables is replicated."
    )
    replaced = "; ".join(erasure.statistics) or "There were none."
    return [
        Place("Column statistics in the metastore", "replaced", replaced),
        Place(
            "Partition values, names and comments",
            "named",
            "No key column is a partition key; other names and comments are not searched.",
        ),
        Place("Change manager of the metastore (cmroot)", "named", kept_by),
        Place(
            "Events of the metastore (NOTIFICATION_LOG)",
            "named",
            "Those on statistics of columns have bounds until"
            " metastore.event.db.listener.timetolive has passed.",
        ),
        Place("Other columns of rows with other keys", "not covered", ""),
        Place(
            "Quarantine tables, targets of consumers, and tables of reports",
            "named",
            "They are searched as tables of a request.",
        ),
        Place("Source of the keys", "named", f"{erasure.source} holds the keys: remove it."),
        Place(
            "Trash folders and snapshots of HDFS, and versions of objects in a store",
            "not covered",
            "This package moves no file to a trash; snapshots and versions expire by their own rules.",
        ),
        Place("Backups, other systems, and logs of other programs", "not covered", ""),
    ]
