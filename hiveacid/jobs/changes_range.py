"""Versions whose changes a job reads: as requested by the job, or as set for a consumer."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from hiveacid.jobs.reports.report import ChangesRange
from hiveacid.jobs.sources import ChangesSource

_Value = TypeVar("_Value")


def changes_in(value: object) -> Iterator[ChangesSource]:
    """Yield every source of changes in a job, or in a part of one."""
    if isinstance(value, ChangesSource):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from changes_in(entry)
    elif isinstance(value, tuple):
        for entry in value:
            yield from changes_in(entry)
    elif is_dataclass(value):
        for field in fields(value):
            yield from changes_in(getattr(value, field.name))


def reading_changes(value: _Value, after: int, up_to: int) -> _Value:
    """Return a copy of a job with the same range in every source of changes.

    Args:
        value: The job, or a part of one.
        after: The version before the changes.
        up_to: The version with the last of them.
    """
    rebuilt: Any = value
    if isinstance(value, ChangesSource):
        rebuilt = replace(value, after=str(after), up_to=str(up_to))
    elif isinstance(value, Mapping):
        rebuilt = {key: reading_changes(entry, after, up_to) for key, entry in value.items()}
    elif isinstance(value, tuple):
        rebuilt = tuple(reading_changes(entry, after, up_to) for entry in value)
    elif is_dataclass(value) and not isinstance(value, type):
        known: Any = value
        parts = {
            field.name: reading_changes(getattr(value, field.name), after, up_to)
            for field in fields(value)
        }
        rebuilt = replace(known, **parts)
    return rebuilt  # type: ignore[no-any-return]


def ranges_of(job: object) -> tuple[ChangesRange, ...]:
    """Return the ranges of versions that a job reads, if it names both ends by their write ids."""
    ranges = []
    for source in changes_in(job):
        after, up_to = source.versions
        if after.write_id is not None and up_to is not None and up_to.write_id is not None:
            ranges.append(
                ChangesRange(table=source.name.lower(), after=after.write_id, up_to=up_to.write_id)
            )
    return tuple(dict.fromkeys(ranges))
