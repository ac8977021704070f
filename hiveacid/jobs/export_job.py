"""Job that writes the changes of a table to files."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import awaits_rendering, require_choice, require_text
from hiveacid.jobs.job import READ, Access, Job
from hiveacid.jobs.report import ChangesRange
from hiveacid.jobs.sources import ChangesSource, Source, inputs_of
from hiveacid.rules.lag import require_consumer

# Versions whose changes a job reads: as requested by the job, or as set for a consumer


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


def reading_changes(value: _Value, start_version: int, up_to: int) -> _Value:
    """Return a copy of a job with the same range in every source of changes.

    Args:
        value: The job, or a part of one.
        start_version: The version before the changes.
        up_to: The version with the last of them.
    """
    rebuilt: Any = value
    if isinstance(value, ChangesSource):
        rebuilt = replace(value, after=str(start_version), up_to=str(up_to))
    elif isinstance(value, Mapping):
        rebuilt = {
            key: reading_changes(entry, start_version, up_to) for key, entry in value.items()
        }
    elif isinstance(value, tuple):
        rebuilt = tuple(reading_changes(entry, start_version, up_to) for entry in value)
    elif is_dataclass(value) and not isinstance(value, type):
        dataclass_value: Any = value
        parts = {
            field.name: reading_changes(getattr(value, field.name), start_version, up_to)
            for field in fields(value)
        }
        rebuilt = replace(dataclass_value, **parts)
    return rebuilt  # type: ignore[no-any-return]


def ranges_of(job: object) -> tuple[ChangesRange, ...]:
    """Return the ranges of versions that a job reads, if it names both ends by their write ids."""
    ranges = []
    for source in changes_in(job):
        start_version, up_to = source.versions
        if start_version.write_id is not None and up_to is not None and up_to.write_id is not None:
            ranges.append(
                ChangesRange(
                    table=source.name.lower(), after=start_version.write_id, up_to=up_to.write_id
                )
            )
    return tuple(dict.fromkeys(ranges))


ExportFormat = Literal["parquet", "json", "csv"]
Envelope = Literal["flat", "debezium"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChangesJob(Job):
    """Write the changes of a table to files, in a folder of its own for each range of versions.

    The folder ``changes_after_3`` appears in one step, with a file ``_range.json`` that contains
    the table, its creation, the consumer and the versions; only one folder begins after version 3,
    and an existing one of another table or consumer is an error. If a store cannot rename a folder
    in one step, the folder is complete as soon as that file exists. The operator
    HiveAcidChangesOperator sets the range.

    Attributes:
        source: The changes.
        path: The folder for these folders, with its scheme, like "hdfs://nn/feeds/orders".
        format: "parquet", "json" or "csv".
        envelope: "flat" has the columns of the changes; "debezium" has a row for each change with the
            fields ``before``, ``after``, ``op`` ("c", "u" or "d"), ``ts_ms`` of the export and
            ``source``, and uses the ``keys`` of the source to detect updates.
        target: The table that is read, which is set automatically.
        consumer: The consumer, which the operator sets.
    """

    tag: ClassVar[str] = "export"

    target: str = ""
    source: ChangesSource
    path: str
    format: ExportFormat | str = "parquet"
    envelope: Envelope | str = "flat"
    consumer: str = ""

    def __post_init__(self) -> None:
        if not self.target and isinstance(self.source, ChangesSource):
            object.__setattr__(self, "target", self.source.name)

    @property
    def tables(self) -> tuple[str, ...]:
        """No table: the job writes a folder."""
        return (self.path,)

    @property
    def inputs_read(self) -> Mapping[str, Source]:
        """The changes."""
        return inputs_of(self.source)

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folder."""
        return (self.path,)

    def own_accesses(self) -> Iterator[Access]:
        """Yield the table that is read: the job writes none."""
        yield Access(self.target.lower(), None, READ)

    def _validate_own(self) -> None:
        if not isinstance(self.source, ChangesSource):
            raise InvalidJob("source must be a ChangesSource.")
        self.source.validate()
        require_text(self.path, "path")
        if ":/" not in self.path and not awaits_rendering(self.path):
            raise InvalidJob(
                f"path {self.path!r} does not name its file system.",
                remedy=f"Write file:{self.path}, for example.",
            )
        require_choice(self.format, get_args(ExportFormat), "format")
        require_choice(self.envelope, get_args(Envelope), "envelope")
        if self.target != self.source.name and not awaits_rendering(self.target):
            raise InvalidJob("target is the table of the source; leave it out.")
        if self.consumer:
            require_consumer(self.consumer)
        if self.envelope == "debezium" and self.format == "csv":
            raise InvalidJob(
                "The envelope debezium has rows in rows, which CSV has no room for.",
                remedy="Write json or parquet, or flat rows.",
            )
