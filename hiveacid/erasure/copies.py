"""The copies of a table that others keep: by consumers of its changes, and mirrors in Iceberg."""

import time
from collections.abc import Iterator, Sequence
from functools import cached_property

from hiveacid.dataclass import dataclass
from hiveacid.erasure.certificate import Place
from hiveacid.erasure.keys import KeyHolder
from hiveacid.erasure.mirror_search import MirrorSearch
from hiveacid.jobs.erase_job import Wait
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.consumers import KnownConsumer, known_consumers
from hiveacid.records.mirror_notes import known_mirrors
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.names import plain_location
from hiveacid.rules.texts import plural
from hiveacid.rules.write_ids import ValidWriteIdList


@dataclass(frozen=True)
class Copies:
    """The copies of a table.

    Attributes:
        client: The metastore.
        holder: The table with the keys.
        deleted_by: The write id of the delete.
        mirrors: The folders of mirrors that the request names. A location in a note is never opened:
            every writer of the table's folder can forge a note.
        others: The other tables of the request.
    """

    client: MetastoreClient
    holder: KeyHolder
    deleted_by: int
    mirrors: Sequence[str] = ()
    others: frozenset[str] = frozenset()

    def lags(self) -> list[Wait]:
        """Return the copies that have not received the delete, without a search of their files."""
        return [*self._late_consumers(), *self._late_mirrors()]

    def look(self) -> tuple[list[Wait], list[Place]]:
        """Return what delays the erasure, and the state of each copy."""
        places = [
            Place(
                f"Copy by consumer {consumer.name} of {self.holder.name}",
                "named",
                f"It has received version {consumer.version}. Its targets are searched only as"
                " tables of a request.",
            )
            for consumer in self._consumers
        ]
        waits = self.lags()
        is_late = any(wait.kind == "mirror" for wait in waits)
        for mirror in self.searches():
            place = f"Mirror of {self.holder.name} in {mirror.location}"
            places.append(Place(place, "searched", "All files below its folder."))
            if not is_late:
                waits += self._held_by(mirror)
        return waits, places

    def searches(self) -> Iterator[MirrorSearch]:
        """Yield a search of each of the mirrors that is one of the table."""
        for location in self.mirrors:
            search = MirrorSearch(
                client=self.client,
                holder=self.holder,
                location=self.client.allowed_locations.require(location),
                deleted_by=self.deleted_by,
                others=self.others,
            )
            if search.is_own:
                yield search

    @cached_property
    def _write_ids(self) -> ValidWriteIdList:
        return Snapshot.take(self.client, [self.holder.table.ref]).write_ids[self.holder.name]

    @cached_property
    def _consumers(self) -> tuple[KnownConsumer, ...]:
        return known_consumers(self.holder.table, self._write_ids, SigningKey.configured())

    def _late_consumers(self) -> Iterator[Wait]:
        for consumer in self._consumers:
            if consumer.problem:
                yield self._wait(
                    "consumer",
                    f"The position of consumer {consumer.name} is unknown: {consumer.problem}",
                )
            elif consumer.version < self.deleted_by:
                yield self._wait(
                    "consumer",
                    f"Consumer {consumer.name} has copied versions up to {consumer.version}, and"
                    f" the delete is version {self.deleted_by}.",
                )

    def _late_mirrors(self) -> Iterator[Wait]:
        key = SigningKey.configured()
        for mirror in known_mirrors(self.holder.table, self._write_ids, time.time(), key):
            if mirror.problem:
                yield self._wait("mirror", mirror.problem)
            elif plain_location(mirror.location) not in self.mirrors:
                yield self._wait(
                    "mirror",
                    f"The request does not name the folder {mirror.location} of the mirror"
                    f" {mirror.name}: make a new request with mirrors=[...]; if it is no mirror any"
                    " more, hiveacid mirrors forget.",
                )
            elif mirror.lag.version < self.deleted_by:
                yield self._wait(
                    "mirror",
                    f"The mirror {mirror.name} has version {mirror.lag.version}, and the delete is"
                    f" version {self.deleted_by}: export the table.",
                )

    def _held_by(self, mirror: MirrorSearch) -> Iterator[Wait]:
        if held_files := mirror.run().held:
            first = held_files[0]
            yield self._wait(
                "mirror",
                f"{plural(len(held_files), 'file')} in the mirror {mirror.location} may hold keys:"
                f" expire the snapshots, and remove orphan files. The first is {first.path}:"
                f" {first.problem or 'It holds keys.'}",
            )

    def _wait(self, kind: str, reason: str) -> Wait:
        return Wait(kind=kind, table=self.holder.name, reason=reason)
