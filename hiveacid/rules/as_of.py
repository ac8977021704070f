"""Selection of an earlier version of a table by a write id or by a time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from hiveacid.errors import InvalidJob


@dataclass(frozen=True, slots=True)
class AsOf:
    """Requested version of a table: exactly one of both attributes is set.

    Attributes:
        write_id: The last write id of the version.
        time: A time at which a reader saw the version.
    """

    write_id: int | None = None
    time: datetime | None = None

    @classmethod
    def of(cls, write_id: int | None, time: datetime | str | None) -> Self | None:
        """Return the requested version; None means the newest.

        Args:
            write_id: The last write id.
            time: The moment, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: The arguments are not a version, or both are given.
        """
        if write_id is None and time is None:
            return None
        if write_id is not None and time is not None:
            raise InvalidJob("A version is asked for by a write id and by a time: one is enough.")
        return cls.of_write_id(write_id) if write_id is not None else cls.of_time(time)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a version: a write id, or a time in ISO form.

        Raises:
            InvalidJob: The text is neither.
        """
        number = text.strip()
        return cls.of_write_id(int(number)) if number.isdecimal() else cls.of_time(number)

    @classmethod
    def of_write_id(cls, write_id: object) -> Self:
        """Return a version by its last write id.

        Raises:
            InvalidJob: The value is not a write id.
        """
        if type(write_id) is not int or write_id < 0:
            raise InvalidJob(f"A version must be a whole number, not {write_id!r}.")
        return cls(write_id)

    @classmethod
    def of_time(cls, time: object) -> Self:
        """Return a version by a time, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: The value is not a time.
        """
        known = time
        if isinstance(known, str):
            try:
                known = datetime.fromisoformat(known)
            except ValueError:
                known = None
        if not isinstance(known, datetime):
            raise InvalidJob(
                f"The time of a version cannot be {time!r}.",
                remedy="Write it like 2026-03-01T12:00:00+00:00.",
            )
        return cls(time=known if known.tzinfo else known.replace(tzinfo=UTC))
