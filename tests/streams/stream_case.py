"""A stream of files into tables, and its results there, read without Spark."""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stream_job import AVAILABLE_NOW, StreamJob, StreamReport, StreamSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.spark.run import run
from tests.engine.acid_tables import create
from tests.rows import rows_of

BATCH = QuerySource("SELECT id, v FROM b", {"b": BatchSource()})


def upsert(target: str, rows: str = "b") -> MergeJob:
    """The youngest event of each key counts; v = 'gone' deletes.

    Args:
        target: The table.
        rows: The rows of the batch, with the columns id, v and seq.
    """
    newest = f"""
        SELECT id, v FROM (
          SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS nth FROM {rows}
        ) WHERE nth = 1
    """
    return MergeJob(
        target=target,
        source=QuerySource(newest, {"b": BatchSource()}),
        on="t.id = s.id",
        when=(
            MatchedDelete(condition="s.v = 'gone'"),
            MatchedUpdate(set={"v": "s.v"}),
            NotMatchedInsert(condition="s.v <> 'gone'"),
        ),
    )


@dataclass
class StreamCase:
    """Files with rows of ``id, v, seq``, and the tables ``events`` and ``newest`` of a database.

    Attributes:
        files_per_batch: The highest number of files in a batch.
        written: The rows of all files, in their order.
    """

    spark: Any
    client: MetastoreClient
    database: str
    folder: Path
    files_per_batch: str = "1"
    written: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.time() - 10_000
        self.feed = self.folder / "feed"
        self.feed.mkdir(parents=True, exist_ok=True)
        self.events, self.newest = f"{self.database}.events", f"{self.database}.newest"
        for table in (self.events, self.newest):
            create(self.client, table, {"id": "bigint", "v": "string"})

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def arrive(self, *rows: tuple[int, str]) -> None:
        """Rows come, in a file that appears whole."""
        first = len(self.written)
        new = [{"id": key, "v": v, "seq": first + n} for n, (key, v) in enumerate(rows)]
        hidden = self.feed / f".{first:06d}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in new))
        # Spark orders files by their age, and the clock of files may be too coarse for some.
        os.utime(hidden, (self.began + first, self.began + first))
        hidden.rename(self.feed / f"{first:06d}.json")
        self.written += new

    def job(self, *statements: Any, **more: Any) -> StreamJob:
        """A stream of the files; by default one that appends all and that updates by the key."""
        both = (InsertJob(target=self.events, source=BATCH), upsert(self.newest))
        options = {
            "name": "feed",
            "checkpoint": f"file:{self.checkpoint}",
            "trigger": AVAILABLE_NOW,
            "metastore": self.client.options,
            "source": StreamSource(
                "json",
                {"path": str(self.feed), "maxFilesPerTrigger": self.files_per_batch},
                "id BIGINT, v STRING, seq BIGINT",
            ),
        }
        return StreamJob(**{**options, **more, "statements": statements or both})

    def run(self, *statements: Any, observers: Any = (), **more: Any) -> StreamReport:
        report = run(self.spark, self.job(*statements, **more), observers)
        assert isinstance(report, StreamReport)
        return report

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows that a table shows."""
        return [tuple(row.values()) for row in rows_of(self.client.options.uris, table)]

    @property
    def every(self) -> list[tuple[int, str]]:
        """The rows of all files."""
        return sorted((row["id"], row["v"]) for row in self.written)

    def insert(self, key: int, v: str) -> RunReport:
        source = QuerySource(f"SELECT {key}L AS id, '{v}' AS v")
        job = InsertJob(target=self.events, metastore=self.client.options, source=source)
        report = run(self.spark, job)
        assert isinstance(report, RunReport)
        return report

    def problems(self) -> list[str]:
        """Return the differences if the tables do not have every row once, and the newest of each
        key."""
        youngest = {row["id"]: row["v"] for row in self.written}
        kept = sorted((key, v) for key, v in youngest.items() if v != "gone")
        found = []
        for table, wanted in ((self.events, self.every), (self.newest, kept)):
            if (there := self.rows(table)) != wanted:
                found.append(f"{table}: {there} and not {wanted}")
        return found
