"""Random histories of a table while persons are erased: a certificate means that no byte is left."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from hiveacid.errors import ConflictError
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.run import change_rows
from tests.erasure.persons import KEYS, LAYOUTS, Warehouse, person
from tests.fakes.metastore import FakeMetastore
from tests.observers import At
from tests.versions import VERSIONS

ROWS, STEPS = 30, 12
ERASED = KEYS[: ROWS // 3]
SEEDS = range(int(os.environ.get("ERASURES", "60")))


class History:
    """A table whose rows are known, and a request that is made at some point."""

    def __init__(self, client: MetastoreClient, folder: Path, random: Random) -> None:
        self.client, self.random = client, random
        client.create_database("d")
        self.warehouse = Warehouse(client, "d", folder)
        self.layout = random.choice([name for name in LAYOUTS if name != "dictionary"])
        self.warehouse.fill(self.layout, ROWS)
        self.is_flat = "insert-only" in self.layout
        self.ref = TableRef.parse(self.warehouse.t)
        self.rows = {row["id"]: row["who"] for row in self.warehouse.rows()}
        self.is_requested = False
        self.readers: list[ExitStack] = []
        self.done: list[str] = []

    def step(self, *, nested: bool = False) -> None:
        """Do something, and look for bytes where there is a certificate."""
        steps: list[Callable[[], None]] = [self.insert, self.compact, self.clean, self.erase]
        if not nested:
            steps += [self.begin_to_read, self.end_to_read, self.abort]
            steps += [] if self.is_flat else [self.update, self.insert_beside_others]
        step = self.random.choice(steps)
        self.done.append(step.__name__)
        step()
        self.check()

    def check(self) -> None:
        if self.warehouse.certificate() is not None:
            assert self.warehouse.left(keys=ERASED) == set()

    def insert(self, who: str = "", actions: At | None = None) -> None:
        number = len(self.done) * 1000 + self.random.randrange(1000)
        row = f"('{who or person(number)}', {number}, 'later'"
        row += (
            f", {number % 3})" if "partitioned" in self.layout or "bucketed" in self.layout else ")"
        )
        job = InsertJob(
            target=str(self.ref),
            source=QuerySource(f"VALUES {row}"),
            by_position=True,
            run_in="worker",
            metastore=self.client.options,
        )
        with MetastoreClient(self.client.options) as writer:
            change_rows(writer, job, [] if actions is None else [actions])
        if not who:
            self.rows[number] = person(number)

    def insert_beside_others(self) -> None:
        """Insert a person who is erased, and let others work before the commit."""
        who = "" if self.is_requested else self.random.choice(ERASED)
        steps = self.random.randrange(1, 4)
        self.insert(
            who, At(Phase.PUBLISH, lambda: [self.step(nested=True) for _ in range(steps)] and None)
        )

    def update(self) -> None:
        low = self.random.randrange(ROWS)
        self.warehouse.sql(f"UPDATE t SET note = concat(who, '?') WHERE id < {low}")

    def compact(self) -> None:
        type_ = self.random.choice(["minor", "major"])
        job = CompactJob(target=str(self.ref), type=type_, metastore=self.client.options)
        with WorkerScheduler() as scheduler:
            TableCompactor(scheduler, self.client, job).run()

    def clean(self) -> None:
        clean(self.client, CleanJob(target=str(self.ref), retention="0"))

    def erase(self) -> None:
        """Make the request with its keys, or continue it without them."""
        if self.is_flat:
            # An overwrite waits for the readers.
            while self.readers:
                self.end_to_read()
        if self.is_requested and self.random.random() < 0.5:
            self.warehouse.eraser().advance("r1")
        else:
            self.is_requested = True
            self.warehouse.erase(self.warehouse.job(self.warehouse.keys_file(ERASED)))

    def begin_to_read(self) -> None:
        stack = ExitStack()
        stack.enter_context(Transaction(self.client, reads=[self.ref]))
        self.readers.append(stack)

    def end_to_read(self) -> None:
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers))).close()

    def abort(self) -> None:
        """Leave the files of a writer that dies, with persons who are erased."""

        def die() -> None:
            raise ConflictError("The writer dies.")

        who = "" if self.is_requested else self.random.choice(ERASED)
        known = dict(self.rows)
        with pytest.raises(ConflictError):
            self.insert(who, At(Phase.COMMIT, die))
        self.rows = known

    def end(self) -> None:
        """After the last reader, the request is completed, and other rows are as before."""
        for reader in self.readers:
            reader.close()
        self.is_requested or self.erase()
        report = self.warehouse.eraser().advance("r1").report()
        assert report.certificate, report.waits
        self.check()
        kept = {number: who for number, who in self.rows.items() if who not in ERASED}
        assert {row["id"]: row["who"] for row in self.warehouse.rows()} == kept


@pytest.mark.sampled(6)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_random_history_a_certificate_means_that_no_byte_is_left(
    seed: int, version: str, tmp_path: Path
):
    with (
        FakeMetastore(version, directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        history = History(client, tmp_path, Random(f"{version} {seed}"))
        try:
            for _ in range(STEPS):
                history.step()
            history.end()
        except BaseException as error:
            error.add_note(f"{history.layout}: {', '.join(history.done)}")
            raise
