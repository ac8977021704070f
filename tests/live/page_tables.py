"""Tables of all sizes in a real metastore; their files have the right sizes, and hold nothing."""

import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from hiveacid.api.table import AcidTable
from hiveacid.erasure.requests import Eraser
from hiveacid.jobs.checks import InRange, NotNull, Unique
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stage_jobs import StageJob
from hiveacid.jobs.stream_job import StreamProgress
from hiveacid.jobs.write_jobs import InsertJob, UpdateJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.table_rules import located
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.mirror_notes import MirrorNote, write_mirror_note
from hiveacid.records.stream_places import StreamState
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import SIDECAR_FILE, Base, Delta, TableRef
from hiveacid.worker.run import change_rows
from hiveacid.worker.staged_changes import stage_change
from tests.places import place_of

DATABASES = ("crm", "finance", "logistics", "sales", "web")
NOUNS = ("clicks", "customers", "invoices", "orders", "payments", "refunds", "stock", "visits")
_THREADS = 4


class PageTable:
    """One table and its operations."""

    def __init__(self, client: MetastoreClient, name: str, partitions: Sequence[str] = ()) -> None:
        self.client = client
        self.ref = TableRef.parse(name)
        keys = [HiveColumn("day", "string")] if partitions else []
        table = HiveTable.new(self.ref, [HiveColumn("id", "bigint")], partition_keys=keys)
        client.create_table(table)
        self.table = client.get_table(self.ref)
        new = [HivePartition.new(self.table, [day]) for day in partitions]
        if new:
            client.add_partitions(self.ref, new)
        self.root = place_of(self.table.folder)

    def write(
        self,
        size: int,
        *,
        deletes: int = 0,
        partition: str | None = None,
        rows: int = 0,
        run: str | None = None,
        at: datetime | None = None,
    ) -> int:
        """Commit a merge; its write id."""
        txn = self.client.open_txn("airflow", "worker-3", run)
        write_id = self.client.allocate_write_id(txn, self.ref)
        told = None
        if at is not None:
            told = {
                "operation": "merge",
                "txn_id": txn,
                "write_id": write_id,
                "run_token": run,
                "user": "airflow",
                "time": at.isoformat(),
                "report": {"rows_inserted": rows},
            }
        self._make(Delta(write_id, write_id, 0).name, partition, size, told, at)
        if deletes:
            self._make(
                Delta(write_id, write_id, 0, is_delete=True).name, partition, deletes, told, at
            )
        self.client.commit_txn(txn)
        return write_id

    def compact(
        self,
        into: Base | Delta,
        size: int,
        partition: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Compact the directories."""
        txn = self.client.open_txn("airflow", "worker-1", None)
        folder = self._make(replace(into, visibility_txn=txn).name, partition, size, None, at)
        if isinstance(into, Base):
            marker = '{"thisFileVersion":"0","dataFormat":"compacted"}'
            (folder / "_metadata_acid").write_text(marker)
        self.client.commit_txn(txn)

    def _make(
        self,
        name: str,
        partition: str | None,
        size: int,
        note: object,
        at: datetime | None,
    ) -> Path:
        folder = self.root / (f"day={partition}" if partition else "") / name
        folder.mkdir(parents=True)
        with (folder / "bucket_00000").open("wb") as file:
            file.truncate(size)
        if at is not None:
            os.utime(folder / "bucket_00000", (at.timestamp(), at.timestamp()))
        if note is not None:
            (folder / SIDECAR_FILE).write_text(json.dumps(note))
        return folder


def make_many(options: MetastoreOptions, count: int, seed: int = 4) -> None:
    """Many tables in a few databases: most are well, some need something."""
    with MetastoreClient(options) as client:
        for database in set(DATABASES) - set(client.get_databases()):
            client.create_database(database)
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(lambda number: _make_one(client, number, seed), range(count)):
                pass


def make_busy(client: MetastoreClient, tables: Sequence[str]) -> None:
    """Requests in the queue for some of the tables."""
    queue = CompactionQueue(client)
    for name in tables:
        queue.request(TableRef.parse(name), None, CompactionType.MAJOR)


@contextmanager
def held(options: MetastoreOptions, *tables: str) -> Iterator[None]:
    """Readers of tables, under the names of tasks."""
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(options))
        for number, table in enumerate(tables):
            task = ("nightly_export", "sync_crm", "dashboards")[number % 3]
            stack.enter_context(
                Transaction(
                    client,
                    reads=[TableRef.parse(table)],
                    run_token=f"{task}/scheduled__2026-11-20T02:00:00+00:00/export/-1",
                )
            )
        yield


def _fail(queue: CompactionQueue) -> None:
    claimed = queue.claim("worker-1-airflow")
    assert claimed is not None
    queue.failed(claimed, "No space left on the file system.")


def _make_one(client: MetastoreClient, number: int, seed: int) -> None:
    dice = random.Random(f"{seed} {number}")
    noun = NOUNS[number // len(DATABASES) % len(NOUNS)]
    name = f"{DATABASES[number % len(DATABASES)]}.{noun}_{number:04d}"
    table = PageTable(client, name)
    base = int(10 ** dice.uniform(5, 10.4))
    write_id = table.write(base)
    if dice.random() < 0.8:
        table.compact(Base(write_id), base)
    # Most tables are at rest; of the others some have been left alone for long.
    deltas = min(40, int(dice.paretovariate(1))) if dice.random() < 0.3 else 0
    for _ in range(deltas):
        part = int(base * dice.random() ** 5 / 4) + 1000
        table.write(part, deletes=part // 5 if dice.random() < 0.5 else 0)


def make_three(client: MetastoreClient) -> None:
    """Three tables with a past: one that needs something, one that waits, one that is well."""
    dice = random.Random(3)
    client.create_database("web")
    hour = datetime.now(UTC).replace(minute=4, second=0, microsecond=0)
    _orders(PageTable(client, "default.orders"), hour - timedelta(hours=46), dice)
    customers = PageTable(client, "default.customers")
    customers.compact(Base(customers.write(48_000_000)), 47_000_000)
    for _ in range(2):
        customers.write(dice.randrange(100_000, 900_000), deletes=20_000)
    days = [(hour - timedelta(days=back)).strftime("%Y-%m-%d") for back in range(3)]
    clicks = PageTable(client, "web.clicks", days)
    for day in days:
        clicks.compact(Base(clicks.write(700_000_000, partition=day)), 690_000_000, day)
        for _ in range(3):
            clicks.write(dice.randrange(1_000_000, 9_000_000), partition=day)
    queue = CompactionQueue(client)
    queue.request(clicks.ref, f"day={days[0]}", CompactionType.MAJOR)
    _fail(queue)
    queue.request(clicks.ref, f"day={days[1]}", CompactionType.MINOR)


def make_checked(client: MetastoreClient) -> TableRef:
    """Make a table whose rows are checked, with a staged change."""
    ref = TableRef("default", "payments")
    columns = [HiveColumn("id", "bigint"), HiveColumn("amount", "int")]
    client.create_table(HiveTable.new(ref, columns))
    checks = [
        NotNull(columns=["id"]),
        Unique(columns=["id"], whole_table=True),
        InRange(column="amount", min=0, severity="warn"),
    ]
    for hour, rows in (("06", "(1, 120), (2, 70)"), ("07", "(3, -45), (4, 300)")):
        job = InsertJob(
            target=ref.full_name,
            source=QuerySource(f"VALUES {rows}"),
            by_position=True,
            checks=checks,
            metastore=client.options,
            run_token=f"load_payments/scheduled__2026-11-29T{hour}:00:00+00:00/load/-1",
        )
        change_rows(client, job)
    correction = UpdateJob(target=ref.full_name, set={"amount": "abs(amount)"}, where="amount < 0")
    token = "correct_payments/manual__2026-11-29T07:31:05+00:00/stage/-1"
    staging = StageJob(
        change=correction, expires_after="3 days", metastore=client.options, run_token=token
    )
    stage_change(client, staging)
    return ref


def make_streams(batch_id: int = 17) -> list[StreamState]:
    """Write the states of four streams: a running one, a dead one, a failed one, and a finished
    one.

    Args:
        batch_id: The last batch of the one that runs.
    """
    now = datetime.now(UTC).timestamp()
    last = StreamProgress(
        name="live_orders",
        query_id="0d5d2e0a-6f0f-4a43-9f7e-0f1f7e3a5a11",
        batch_id=batch_id,
        rows=40_000,
        rows_per_second=15_384.6,
        seconds=2.6,
        latency=10.7,
        backlog=120,
        committed_at=now - 4,
    )
    runs = StreamState(
        name="live_orders",
        run_token="streamed_orders/manual__2026-11-20T02:00:00+00:00/orders/-1",
        trigger="8 s",
        tables=("default.customers", "default.orders"),
        started_at=now - 2500,
        told_at=now - 3,
        batches=batch_id + 1,
        rows=40_000 * (batch_id + 1),
        last=last,
    )
    hourly = replace(
        last,
        batch_id=3,
        rows=5_200,
        rows_per_second=2_000,
        backlog=None,
        latency=None,
        committed_at=now - 905,
    )
    ended = replace(runs, name="hourly_events", trigger="available_now", ended="no more rows")
    return [
        runs,
        replace(ended, last=hourly, batches=1, rows=5_200, told_at=now - 900),
        replace(
            runs, name="payments", last=replace(last, committed_at=now - 3702), told_at=now - 3700
        ),
        replace(
            runs,
            name="visits",
            last=None,
            batches=0,
            rows=0,
            ended="failed",
            error="UnknownColumn",
            told_at=now - 90_000,
        ),
    ]


def make_mirrors(client: MetastoreClient, ref: TableRef) -> None:
    """Write notes on two mirrors of a table: an hourly one, and one that has fallen behind."""
    table = client.get_table(ref)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    for name, catalog, behind, seconds in (
        ("analytics.orders", "polaris", 0, 540),
        ("archive.orders", "s3_archive", 2, 9300),
    ):
        note = MirrorNote(
            mirror=name,
            catalog=catalog,
            location=f"s3://{name.replace('.', '/')}",
            table=located(table),
            write_ids=replace(now, high_watermark=now.high_watermark - behind).format(),
            complete_at=time.time() - seconds,
            run_token="iceberg_mirror/scheduled__2026-11-20T02:00:00+00:00/to_iceberg/-1",
        )
        write_mirror_note(table, note, is_new=True)


def make_erasures(client: MetastoreClient, folder: str, key_file: Path) -> None:
    """Make a request whose keys are erased, and a later one that waits.

    Args:
        client: The metastore.
        folder: The folder of requests.
        key_file: A new file for the key of signatures.
    """
    key_file.write_text("the key of signatures of the tests")
    client.create_database("crm")
    people = pa.table({"id": range(5000), "name": [f"person {id}" for id in range(5000)]})
    visits = pa.table({"person": [id % 5000 for id in range(20000)], "page": ["/"] * 20000})
    for name, rows in (("crm.people", people), ("crm.visits", visits)):
        columns = [
            HiveColumn(each.name, "bigint" if pa.types.is_integer(each.type) else "string")
            for each in rows.schema
        ]
        client.create_table(HiveTable.new(TableRef.parse(name), columns))
        with AcidTable(name, client.options, run_in="worker") as table:
            table.append(rows)
    table = client.get_table(TableRef.parse("crm.visits"))
    mirror = MirrorNote(
        mirror="lake.visits",
        catalog="lake",
        location="file:/lake/visits",
        table=located(table),
        write_ids=f"crm.visits:1:{2**63 - 1}::",
        complete_at=time.time(),
        run_token="iceberg_mirror/scheduled__2026-11-20T02:00:00+00:00/to_iceberg/-1",
    )
    now = datetime.now(UTC)
    job = EraseJob(
        request="2026-03-01",
        keys=BatchSource("keys"),
        columns={"crm.people": "id", "crm.visits": "person"},
        folder=folder,
        retention="0",
    )
    task = {
        "AIRFLOW__HIVE_ACID__SIGNING_KEY_FILE": str(key_file),
        "AIRFLOW_CTX_DAG_ID": "erasure",
    }
    with patch.dict(os.environ, task):
        Eraser(client, folder, clock=lambda: now - timedelta(days=3)).run(job, ["7", "8", "9"])
        write_mirror_note(table, mirror, is_new=True)
        late = replace(job, request="2026-03-02", retention=None, mirrors=[mirror.location])
        with held(client.options, "crm.people"):
            begun = Eraser(client, folder, clock=lambda: now - timedelta(days=26))
            begun.run(late, ["40", "41"])
            Eraser(client, folder).advance(late.request)


def _orders(orders: PageTable, begin: datetime, dice: random.Random) -> None:
    first = orders.write(180_000_000, rows=2_400_000, run="initial_load/manual/load/-1", at=begin)
    for number in range(1, 46):
        at = begin + timedelta(hours=number)
        last = orders.write(
            int(10 ** dice.uniform(5, 6.9)),
            deletes=int(10 ** dice.uniform(4, 5.5)) if number % 3 else 0,
            rows=dice.randrange(200, 60_000),
            run=f"hourly_merge/scheduled__{at:%Y-%m-%dT%H}:00:00+00:00/merge/-1",
            at=at,
        )
        if number in (10, 22, 36):
            orders.compact(Delta(first + 1, last), 14_000_000, at=at)
            orders.compact(Delta(first + 1, last, is_delete=True), 900_000, at=at)
        if number == 24:
            orders.compact(Base(last), 201_000_000, at=at)
            first = last
