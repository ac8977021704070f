"""Job that writes the changes of a table to files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import awaits_rendering, require_choice, require_text
from hiveacid.jobs.job import READ, Access, Job
from hiveacid.jobs.sources import ChangesSource, Source, inputs_of
from hiveacid.rules.consumers import require_consumer

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
