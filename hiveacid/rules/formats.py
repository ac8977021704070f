"""Records that programs leave for one another, and the parts that a version must understand.

Several versions of this package work on one warehouse at the same time, and the next one cannot ask the
previous one to respect what it has added. So the base class of each record states the treatment of
parts that a reader does not know:

- An obligation is acted upon: something is done, left undone, or believed because of it. A reader
  understands all of it, or refuses it. Who only lists such records shows that it is of a newer version,
  and goes on; a cleaning keeps it. Nobody writes a successor of a record that it does not understand.
- Evidence is shown or counted, and nothing depends on it. A reader leaves out unknown parts.

An obligation that gets a field or another meaning gets a higher ``record_format``. A new kind of record gets a
folder of its own: an older version removes old files among the notes on runs.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from hiveacid.errors import NewerRecord


class Evidence:
    """Record that is shown or counted only."""

    __slots__ = ()


class Obligation:
    """Record that is acted upon.

    Attributes:
        record_format: The number of its format, which a record states in the key "format".
    """

    __slots__ = ()
    record_format: ClassVar[int] = 1

    @classmethod
    def require_known(
        cls, data: Mapping[str, Any], where: str, keys: Collection[str] | None = None
    ) -> None:
        """Refuse a record of a newer version.

        Args:
            data: The record as plain values.
            where: The record, for the error.
            keys: The keys that this version knows; None if the caller looks for unknown ones.

        Raises:
            ValueError: It states no format, or one of a time before the first version.
            NewerRecord: It has a higher format, or an unknown key.
        """
        version = data.get("format")
        if type(version) is not int or version < 1:
            raise ValueError(f"its format must be a whole number from 1 on, not {version!r}")
        if version > cls.record_format:
            raise NewerRecord(
                f"{where} has the format {version}, and this version knows {cls.record_format}."
            )
        if keys is not None and (unknown_keys := data.keys() - {"format", *keys}):
            raise newer_part(where, version, f"the unknown key {min(unknown_keys)!r}")


def newer_part(where: str, version: int, part: str) -> NewerRecord:
    """Return the error that a record of a known format has a part that no such record has."""
    return NewerRecord(f"{where} has the format {version}, but also {part}.")
