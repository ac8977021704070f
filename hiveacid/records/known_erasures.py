"""Requests to erase keys in lists: without hashes, of which a record may have millions."""

from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.erase_job import Wait
from hiveacid.records.erasures import ErasedTable, Erasure, ErasureFolder, ErasureRecord
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownErasedTable:
    """A table of a request.

    Attributes:
        table: The table, "database.table".
        column: The column with the keys.
        join: The column of another table of the request whose values are the keys; empty if they are
            those of the request.
        rows_deleted: The number of deleted rows.
    """

    table: str
    column: str
    join: str
    rows_deleted: int

    @classmethod
    def of(cls, erased: ErasedTable) -> Self:
        """Summarize a table of a record."""
        return cls(
            table=erased.table.name,
            column=erased.column,
            join=erased.join,
            rows_deleted=erased.rows_deleted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownErasure:
    """A request.

    Attributes:
        request: Its name.
        user: The user who made it.
        requested_at: The time of the request, in ISO format.
        deadline: The time at which the erasure must be complete.
        keys: The number of keys.
        tables: The tables.
        files: The number of files that still hold a key.
        bytes: Their size.
        waits: The causes that delay the certificate.
        checked_at: The time at which these were determined, and of the certificate once it is issued;
            None before.
        is_certified: Whether its certificate is issued.
        problem: The reason why nothing else is known of the request, or else "".
    """

    request: str
    user: str = ""
    requested_at: str = ""
    deadline: str = ""
    keys: int = 0
    tables: tuple[KnownErasedTable, ...] = ()
    files: int = 0
    bytes: int = 0
    waits: tuple[Wait, ...] = ()
    checked_at: str | None = None
    is_certified: bool = False
    problem: str = ""

    @classmethod
    def of(cls, erasure: Erasure) -> Self:
        """Summarize a record."""
        held_files = erasure.held
        return cls(
            request=erasure.request,
            user=erasure.user,
            requested_at=erasure.requested_at,
            deadline=erasure.deadline,
            keys=len(erasure.key_hashes),
            tables=tuple(map(KnownErasedTable.of, erasure.tables)),
            files=len(held_files),
            bytes=sum(file.bytes for file in held_files),
            waits=erasure.waits,
            checked_at=erasure.checked_at,
            is_certified=erasure.certificate is not None,
        )


class KnownErasures:
    """The requests in a folder, for a process that lists them again and again.

    A request with a certificate does not change: its record is read once.

    Args:
        location: The folder, which the caller has checked by ``allowed_locations``.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._certified: dict[str, KnownErasure] = {}

    def read(self) -> list[KnownErasure]:
        """Return unreadable requests, waiting ones by deadline, and then those with a certificate."""
        folder = ErasureFolder(self._location, SigningKey.readable())
        names = folder.names()
        erasures_by_name = {
            name: self._certified[name] for name in names if name in self._certified
        }
        for name, erasure in folder.each(
            _known, (name for name in names if name not in erasures_by_name)
        ):
            if isinstance(erasure, HiveAcidError):
                # It must not hide the deadlines of others.
                erasures_by_name[name] = KnownErasure(request=name, problem=erasure.what)
            elif erasure is not None:
                erasures_by_name[name] = erasure
                if erasure.is_certified:
                    # At once: if a slow store ends this call, the next one has less to read.
                    self._certified[name] = erasure
        self._certified = {
            name: erasures_by_name[name]
            for name in erasures_by_name
            if erasures_by_name[name].is_certified
        }
        waiting = [each for each in erasures_by_name.values() if not each.is_certified]
        waiting.sort(key=lambda each: (each.deadline, each.request))
        certified = [each for each in erasures_by_name.values() if each.is_certified]
        certified.sort(key=lambda each: (each.checked_at or "", each.request), reverse=True)
        return waiting + certified


def _known(record: ErasureRecord) -> KnownErasure | None:
    numbered_erasure = record.read()
    return None if numbered_erasure is None else KnownErasure.of(numbered_erasure[1])
