"""Which earlier version of a table is asked for: by a write id, or by a time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from airflow_hiveacid.errors import InvalidJob


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which version of a table is wanted: one of both is given.

    Attributes:
        write_id: The last write id of the version.
        time: When a reader would have seen it.
    """

    write_id: int | None = None
    time: datetime | None = None

    @classmethod
    def of(cls, write_id: int | None, time: datetime | str | None) -> Self | None:
        """A version as it is asked for; None is the newest.

        Args:
            write_id: The last write id.
            time: The moment, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: It is no version, or two.
        """
        if write_id is None and time is None:
            return None
        if write_id is not None and time is not None:
            raise InvalidJob("A version is asked for by a write id and by a time: one is enough.")
        return cls.of_write_id(write_id) if write_id is not None else cls.of_time(time)

    @classmethod
    def parse(cls, text: str) -> Self:
        """A version by a text: a write id, or a time in ISO form.

        Raises:
            InvalidJob: It is neither.
        """
        number = text.strip()
        return cls.of_write_id(int(number)) if number.isdecimal() else cls.of_time(number)

    @classmethod
    def of_write_id(cls, write_id: object) -> Self:
        """A version by its last write id.

        Raises:
            InvalidJob: It is none.
        """
        if type(write_id) is not int or write_id < 0:
            raise InvalidJob(f"A version must be a whole number, not {write_id!r}.")
        return cls(write_id)

    @classmethod
    def of_time(cls, time: object) -> Self:
        """A version by a time, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: It is none.
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
