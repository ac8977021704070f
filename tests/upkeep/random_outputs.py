"""Exports, mirrors, and streams into any folder, by the code of the package around the work of Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyarrow import parquet

from hiveacid.iceberg.run import export_to_iceberg
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.sources import BatchSource, ChangesSource
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseClock
from hiveacid.rules.names import TableRef
from hiveacid.spark import streaming
from hiveacid.spark.export import _Export
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import sql_catalog, sql_options

_SOURCE = "mine.source"


class Outputs:
    """Jobs of a table that write into other folders.

    Args:
        client: The metastore.
        world: The folders of all tables.
        directory: A folder outside of the world.
    """

    def __init__(self, client: MetastoreClient, world: Any, directory: Any) -> None:
        self._client = client
        self._directory = directory
        self._count = 0
        self._mirrors: list[IcebergExportJob] = []
        WrittenTable.create(client, _SOURCE).insert(1, 2)
        sql_catalog(directory)
        roots = [each.format("").rstrip("/") for each in world.spellings]
        self._options = {**sql_options(directory), "locations": ",".join(roots)}

    def export(self, location: str) -> None:
        """Export changes."""
        self._count += 1
        job = ExportChangesJob(
            source=ChangesSource(_SOURCE, after="0", up_to=str(self._count)),
            path=location,
            metastore=self._client.options,
        )
        _WithoutSpark(None, self._client, job, PhaseClock()).write()  # type: ignore[arg-type]

    def mirror(self, location: str) -> None:
        """Create a mirror in Iceberg."""
        self._count += 1
        job = IcebergExportJob(
            target=_SOURCE,
            table=f"ns.m{self._count}",
            catalog="lake",
            catalog_options=self._options,
            location=location,
            metastore=self._client.options,
        )
        self._run(job)
        self._mirrors.append(job)

    def mirror_again(self) -> str | None:
        """Update the newest mirror; return its folder."""
        if not self._mirrors:
            return None
        WrittenTable(self._client, TableRef.parse(_SOURCE)).insert(3)
        self._run(self._mirrors[-1])
        return self._mirrors[-1].location

    def _run(self, job: IcebergExportJob) -> None:
        with WorkerScheduler() as scheduler:
            export_to_iceberg(self._client, job, scheduler)

    def stream(self, location: str) -> None:
        """Begin a stream with its checkpoint in a folder."""
        self._stream(f"file:{self._directory}/feed", location, {})

    def stream_moves(self, location: str) -> None:
        """Begin a stream that removes the files that it has read."""
        self._count += 1
        checkpoint = f"file:{self._directory}/checkpoint{self._count}"
        self._stream(location, checkpoint, {"cleanSource": "delete"})

    def _stream(self, path: str, checkpoint: str, options: dict[str, str]) -> None:
        self._count += 1
        job = StreamJob(
            name=f"s{self._count}",
            source=StreamSource("json", {"path": path, **options}, "id int"),
            statements=[InsertJob(target=_SOURCE, source=BatchSource())],
            # Spark's default file system is that of this machine.
            checkpoint=f"file:{checkpoint}" if checkpoint.startswith("/") else checkpoint,
            trigger="available_now",
            metastore=self._client.options,
        )
        with _session(), suppress(_SparkHasDoneItsPart):
            _Stream(SimpleNamespace(), job, self._client.options).run()  # type: ignore[arg-type]


class _WithoutSpark(_Export):
    def _write(self, _: object, path: str) -> int:
        with Storage.of(path).create("part-0.parquet") as sink:
            parquet.write_table(pa.table({"id": [1]}), sink)
        return 1


class _SparkHasDoneItsPart(BaseException):
    """The query of a stream would run from here on."""


class _Stream(streaming.StreamRun):
    def _start(self) -> Any:
        job = self._job
        Storage.of(job.checkpoint).write_file("metadata", b'{"id":"q"}')
        Storage.of(job.checkpoint).write_file("offsets/0", b"v1\n{}\n0")
        if "cleanSource" in job.source.options:
            folder = Storage.of(job.source.options["path"])
            for file in folder.walk():
                if file[1] is not None:
                    folder.delete_file(file[0])
        raise _SparkHasDoneItsPart


@contextmanager
def _session() -> Iterator[None]:
    get: Callable[[str], str] = lambda _: "100"  # noqa: E731
    session = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None, get=get))
    with patch.object(streaming, "scan_session", lambda _: session):
        yield
