"""Files from an application to its submitter: its started work, and its final report.

Two files suffice for every deploy mode: in a folder of the worker if the driver is on the same
machine, else below the table's folder, which both sides can reach.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.foreign.text import parse_json
from hiveacid.jobs import codec
from hiveacid.jobs.report import Report
from hiveacid.jobs.stream_job import StreamProgress
from hiveacid.rules.formats import Evidence
from hiveacid.rules.location import Location, below, split
from hiveacid.rules.names import LARGEST_NOTE, RUN_NOTES
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# Replaced by the application's id, which its submitter learns only later on.
APPLICATION_ID = "{application_id}"

# One line for each partition of a table of a hundred thousand.
_LARGEST_REPORT = 64 << 20

ReportT = TypeVar("ReportT", bound=Report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Evidence):
    """The work that an application has begun.

    Attributes:
        application_id: Spark's id of the application.
        txn_ids: The transactions it has opened, oldest first, including abandoned ones.
        write_ids: The write id of each written table.
        ui_url: The address of Spark's own page about the application, while it runs.
        stream: The progress of the stream, if it runs one.
    """

    application_id: str
    ui_url: str | None = None
    txn_ids: tuple[int, ...] = ()
    write_ids: Mapping[str, int] = field(default_factory=dict)
    stream: StreamProgress | None = None


class RunFiles:
    """The two files of one application.

    Args:
        location: The location of the report, as a path or a url; the file on started work is beside
            it. It may contain ``{application_id}``, a placeholder for the application's id.
    """

    def __init__(self, location: Location) -> None:
        self._folder, self._name = split(location)

    @staticmethod
    def below(folder: Location, tag: str, notes: str = RUN_NOTES) -> Location:
        """Return the files for a run whose driver and submitter are on different machines.

        Args:
            folder: The folder of the table or of the database.
            tag: The tag that identifies the applications of the run.
            notes: The folder in it that holds the files.
        """
        return below(folder, notes, f"{tag}.{APPLICATION_ID}.json")

    @property
    def is_complete(self) -> bool:
        """Whether the location is complete; false if it lacks the application's id."""
        return APPLICATION_ID not in self._name

    def of(self, application_id: str) -> "RunFiles":
        """The files of the application with this id."""
        name = self._name.replace(APPLICATION_ID, application_id)
        return RunFiles(below(self._folder, name))

    def write_started(self, started: Started) -> None:
        """Write the started work, replacing the previous file."""
        self._write(_started(self._name), codec.to_record(started))

    def write_report(self, report: Report) -> None:
        """Leave the report."""
        self._write(self._name, report.to_dict())

    def read_started(self) -> Started | None:
        """Return the application's started work; None if no valid file exists."""
        data = self._read(_started(self._name), LARGEST_NOTE)
        try:
            return codec.read_evidence(Started, data, "started")
        except InvalidJob:
            return None

    def read_report(self, kind: type[ReportT]) -> ReportT | None:
        """Return the report; None if no valid report exists."""
        data = self._read(self._name, _LARGEST_REPORT)
        try:
            return kind.from_dict(data)
        except InvalidJob:
            return None

    def remove(self) -> None:
        """Remove both files."""
        storage = Storage.of(self._folder)
        for name in (_started(self._name), self._name):
            storage.delete_file(name)

    def _write(self, name: str, data: Any) -> None:
        Storage.of(self._folder).write_file(name, json.dumps(data).encode(), replace=True)

    def _read(self, name: str, limit: int) -> Any:
        content = ReadOnlyStorage.of(self._folder).read_small(name, limit)
        try:
            return None if content is None else parse_json(content)
        except (ValueError, RecursionError):
            return None


def _started(name: str) -> str:
    return f"{name}.started"
