"""A newer version of this package, and what each version does with records of the other one.

Run as a program, in the environment of one version, it does to each kind of record what it is told.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns

import hiveacid
from hiveacid.cli.main import main
from hiveacid.erasure.certificate import Certificate
from hiveacid.erasure.requests import Eraser
from hiveacid.erasure.verification import verify_certificate
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stage_jobs import PublishJob, StageJob
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, located
from hiveacid.records.consumers import Consumer
from hiveacid.records.mirror_notes import MirrorNote, write_mirror_note
from hiveacid.records.staged_changes import StagedChangeFolder
from hiveacid.records.stream_places import StreamPlace, StreamPlaces
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.run import change_rows
from hiveacid.worker.staged_changes import publish_change, stage_change

ROOT = Path(__file__).parents[2]
RUN, STAGING = "d/run/t/-1", "d/staging/t/-1"


def newer_version(folder: Path, *, number: int = 2) -> Path:
    """Make a copy of this package that adds a condition to each obligation.

    Args:
        folder: The folder of the copy.
        number: The format of its obligations.
    """
    ignored = ignore_patterns("*.jar", "java", "cli/plans")
    copytree(Path(hiveacid.__file__).parent, folder / "hiveacid", ignore=ignored)
    for path in (folder / "hiveacid").rglob("*.py"):
        text = path.read_text()
        if "(Obligation)" in text:
            path.write_text(_with_conditions(text))
    formats = folder / "hiveacid" / "rules" / "formats.py"
    known = formats.read_text()
    changed = known.replace(
        "record_format: ClassVar[int] = 1", f"record_format: ClassVar[int] = {number}"
    )
    assert number == 1 or changed != known
    formats.write_text(changed)
    return folder


def _with_conditions(text: str) -> str:
    lines = text.splitlines()
    classes = [
        each
        for each in ast.parse(text).body
        if isinstance(each, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Obligation" for base in each.bases)
    ]
    assert classes
    for each in reversed(classes):
        last = [part for part in each.body if isinstance(part, ast.AnnAssign)][-1]
        assert last.end_lineno is not None
        lines.insert(last.end_lineno, '    condition: str = "the moon is full"')
    return "\n".join(lines) + "\n"


@dataclass
class Place:
    """A database with records of all kinds, and a folder of requests."""

    client: MetastoreClient
    database: str
    folder: Path

    @classmethod
    def create(cls, client: MetastoreClient, database: str, folder: Path) -> "Place":
        place = cls(client, database, folder)
        place.sql("CREATE TABLE t (id int, v string); CREATE TABLE old (id int, v string)")
        place.sql("CREATE TABLE waits (who string); CREATE TABLE gone (who string)")
        place.sql(
            "INSERT INTO waits VALUES ('ada'), ('bob'); INSERT INTO gone VALUES ('ada'), ('bob')"
        )
        place.sql("INSERT INTO old VALUES (1, 'a')")
        place.sql("INSERT INTO old VALUES (2, 'b')")
        return place

    @property
    def arguments(self) -> tuple[str, str, str]:
        return self.client.options.uris, self.database, str(self.folder)

    def sql(self, script: str) -> None:
        arguments = ["sql", script, "--database", self.database, "--run-in", "worker"]
        assert main([*arguments, "--metastore", self.client.options.uris]) == 0

    def table(self, name: str = "t") -> HiveTable:
        return existing_table(self.client, TableRef(self.database, name))

    def storage(self) -> Storage:
        return Storage.of(self.table().folder)

    def erasing(self, name: str, column: str | None = None) -> EraseJob:
        table, _, own = (column or f"{name}.who").partition(".")
        return EraseJob(
            request=name,
            keys=BatchSource("keys"),
            columns={f"{self.database}.{table}": own},
            folder=f"file:{self.folder}/erasures",
            retention="0" if name == "gone" else "30 days",
            metastore=self.client.options,
        )

    @property
    def eraser(self) -> Eraser:
        return Eraser(self.client, f"file:{self.folder}/erasures")

    def insert(self) -> None:
        source = QuerySource("VALUES (1, 'a')")
        job = InsertJob(
            target=f"{self.database}.t",
            source=source,
            by_position=True,
            run_in="worker",
            run_token=RUN,
            metastore=self.client.options,
        )
        change_rows(self.client, job)

    def stage(self) -> None:
        change = DeleteJob(target=f"{self.database}.t", where="id = 99", run_in="worker")
        job = StageJob(change=change, run_token=STAGING, metastore=self.client.options)
        stage_change(self.client, job)

    def publish(self) -> None:
        (name,) = StagedChangeFolder(self.table()).names()
        job = PublishJob(target=f"{self.database}.t", staged=name, metastore=self.client.options)
        publish_change(self.client, job)

    def erase(self, name: str) -> None:
        self.eraser.run(self.erasing(name), ["ada"])

    @property
    def certificate(self) -> Path:
        return self.folder / "erasures" / "gone" / "certificate.json"

    def verify(self) -> None:
        certificate = Certificate.parse(self.certificate.read_bytes(), "certificate")
        verify_certificate(self.client, certificate, ["ada"]).require_erased()

    def consume(self, version: int) -> None:
        consumer = Consumer(self.client, f"{self.database}.t", "copy", ["d.copy"])
        consumer.begin(0)
        consumer.advance(version)

    def stream(self, number: int) -> None:
        places = StreamPlaces(self.storage(), "clicks")
        known = places.read()
        assert (-1 if known is None else known.number) == number - 1
        places.write(StreamPlace(name="clicks", query_id="q", batch_id=number, number=number))

    def mirror(self, time: float) -> None:
        note = MirrorNote(
            mirror="ns.t",
            catalog="lake",
            location=f"file:{self.folder}/mirror",
            table=located(self.table()),
            write_ids=f"{self.database}.t:1:9223372036854775807::",
            complete_at=time,
        )
        write_mirror_note(self.table(), note, is_new=False)

    def compact(self) -> None:
        job = CompactJob(target=f"{self.database}.old", type="major", metastore=self.client.options)
        with WorkerScheduler() as scheduler:
            TableCompactor(scheduler, self.client, job).run()

    def directories(self) -> list[str]:
        storage = Storage.of(self.table("old").folder)
        return [name for name in storage.list_directories() if name.startswith("delta")]

    def clean(self, name: str = "old") -> None:
        clean(
            self.client,
            CleanJob(
                target=f"{self.database}.{name}", retention="0", metastore=self.client.options
            ),
        )

    def clean_compacted(self) -> None:
        self.clean()
        if self.directories():
            raise HiveAcidError("The replaced directories are kept.")


# What writes each kind of record, and what acts upon it.
WRITE: dict[str, Callable[[Place], None]] = {
    "run note": Place.insert,
    "staged change": Place.stage,
    "request": lambda place: place.erase("waits"),
    "certificate": lambda place: place.erase("gone"),
    "cursor": lambda place: place.consume(1),
    "stream": lambda place: place.stream(0),
    "mirror": lambda place: place.mirror(1.0),
    "readers": Place.compact,
}
ACT: dict[str, Callable[[Place], object]] = {
    "run note": Place.insert,
    "staged change": Place.publish,
    "request": lambda place: place.eraser.advance("waits"),
    "certificate": Place.verify,
    "cursor": lambda place: place.consume(2),
    "stream": lambda place: place.stream(1),
    "mirror": lambda place: place.mirror(2.0),
    "readers": Place.clean_compacted,
}


def outcomes(place: Place, work: str) -> dict[str, str]:
    """Do the work with each kind of record, and return the errors by kind; "" without one."""
    found = {}
    for kind, do in {"write": WRITE, "act": ACT}[work].items():
        try:
            do(place)
            found[kind] = ""
        except HiveAcidError as error:
            found[kind] = f"{error.id}: {error}"
    return found


def outcomes_of(version: Path, place: Place, work: str) -> dict[str, str]:
    """Return the outcomes of the work in another version; see ``outcomes``."""
    path = os.pathsep.join(map(str, (version, ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "tests.records.newer_version", work, *place.arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=version,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run(work: str, uris: str, database: str, folder: str) -> None:
    assert not Path(hiveacid.__file__).is_relative_to(ROOT / "hiveacid")
    with MetastoreClient(MetastoreOptions(uris=uris)) as client:
        print(json.dumps(outcomes(Place(client, database, Path(folder)), work)))


if __name__ == "__main__":
    _run(*sys.argv[1:])
