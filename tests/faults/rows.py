"""The rows of the tables with faults, and the changes of a job, in plain Python."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.quarantine import FAILED_CHECKS
from hiveacid.jobs.sources import PathSource, QuerySource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from tests.places import place_of


class Row(NamedTuple):
    """A row of a table partitioned by p."""

    id: int
    v: str
    p: str


@dataclass(frozen=True)
class Change:
    """The changes of a job.

    Attributes:
        gone: The rows that are deleted, or replaced by others.
        come: The rows that are written.
        updated: The number of updates, which count as both.
        replaces: Whether the new rows replace all rows of their partitions.
    """

    gone: Collection[Row] = ()
    come: Sequence[Row] = ()
    updated: int = 0
    replaces: bool = False

    def of(self, rows: Iterable[Row]) -> list[Row]:
        """The rows after the change, in order."""
        emptied = {row.p for row in self.come} if self.replaces else ()
        kept = [row for row in rows if row not in self.gone and row.p not in emptied]
        return sorted([*kept, *self.come])


def change(job: Job, rows: Iterable[Row]) -> Change:
    """Return the changes of a job in a table of these rows."""
    match job:
        case InsertJob():
            return Change(
                come=[Row(*row.values()) for row in _read(job.source)], replaces=job.overwrite
            )
        case UpdateJob(set=values, where=where):
            (text,) = values.values()
            chosen = _chosen(where, rows)
            new = [row._replace(v=text.strip("'")) for row in chosen]
            return Change(chosen, new, updated=len(new))
        case DeleteJob(where=where):
            return Change(_chosen(where, rows))
        case EraseJob():
            return Change([row for row in rows if row.v == ERASED])
        case MergeJob():
            return _merge(_read(job.source), {(row.id, row.p): row for row in rows})
    return Change()


def write_source(path: Path, rows: Iterable[Row]) -> PathSource:
    """A file of rows, as a source."""
    path.write_text("\n".join(json.dumps(row._asdict()) for row in rows))
    # If tables are on HDFS, a bare path refers to HDFS.
    return PathSource(path=f"file:{path}", format="json", schema="id INT, v STRING, p STRING")


def _read(source: object) -> list[dict[str, Any]]:
    if isinstance(source, QuerySource):
        # One half of a source that a quarantine divides.
        (whole,) = source.inputs.values()
        is_rest = FAILED_CHECKS in source.sql
        return [row for row in _read(whole) if (row["id"] > LARGEST) == is_rest]
    assert isinstance(source, PathSource)
    return [json.loads(line) for line in place_of(source.path).read_text().splitlines()]


def _chosen(where: str | None, rows: Iterable[Row]) -> list[Row]:
    """The rows that a condition of the form "id IN (1, 2)" chooses."""
    ids = set(map(int, re.findall(r"\d+", where or "")))
    return sorted(row for row in rows if row.id in ids)


def _merge(source, known) -> Change:
    """Delete the rows that the source marks as deleted, update the common ones, insert the others."""
    gone, come, updated = [], [], 0
    for row in (Row(*each.values()) for each in source):
        old = known.get((row.id, row.p))
        if old is not None:
            gone.append(old)
        if old is None or row.v != DELETED:
            come.append(row)
            updated += old is not None
    return Change(gone, come, updated)


DELETED = "deleted"
# The key of an erasure: a text that each byte of an uncompressed file shows.
ERASED = "inserted last"
# Rows with larger numbers violate the check of a quarantine.
LARGEST = 11
