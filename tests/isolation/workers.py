"""Those who take part in a history, each in a thread or in a process: clients, and who looks after."""

import json
import os
import sys
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hiveacid.errors import CommitUncertain, HiveAcidError, VersionGone, VersionUnknown
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import TableRef
from hiveacid.spark import run as application
from hiveacid.spark.session import application_session
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.table_cleaning import clean
from tests.clocks import set_clock_of_process
from tests.faults.without_spark import NoSpark, without_spark
from tests.isolation.transactions import Outcome
from tests.isolation.with_spark import SparkClient
from tests.isolation.without_spark import PlainClient
from tests.isolation.work import BANK, JOURNAL, TABLES, Plan, Work

PLAIN, SPARK, HOUSE = "plain", "spark", "house"
_ALL_TABLES = (*TABLES, JOURNAL, "bank", "till", "vault")
_SPARK_DEFAULTS = """\
spark.master                            local[2]
spark.ui.enabled                        false
spark.log.level                         OFF
spark.driver.memory                     700m
spark.sql.shuffle.partitions            2
spark.default.parallelism               2
spark.python.daemon.module              tests.spark_workers
spark.driver.extraJavaOptions           -Duser.timezone=UTC -XX:TieredStopAtLevel=1
"""


@dataclass(frozen=True)
class Place:
    """The environment of a history.

    Attributes:
        metastore: The metastore.
        database: The location of the tables.
        folder: The folder of the workers' reports.
        lists: The number of lists in each table.
        clients: The highest number of clients, including replacements of killed ones.
        retention: The time for which earlier versions can be read.
    """

    metastore: MetastoreOptions
    database: str
    folder: Path
    lists: int = 60
    clients: int = 60
    retention: str = "0"


@dataclass(frozen=True)
class Who:
    """One of those who take part.

    Attributes:
        kind: PLAIN or SPARK, a client without or with Spark, or HOUSE.
        number: Its name.
        seed: Of its random numbers.
        before: The client that it replaces; first it completes that one's work.
    """

    kind: str
    number: int
    seed: int
    before: "Who | None" = None

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.kind}-{self.number}"

    def plan(self, place: "Place") -> Plan:
        """Return its work."""
        plan = Plan(Random(self.seed), self.number, place.lists)
        if self.kind == SPARK:
            # It is slow, and others would mostly wait for its locks.
            plan.policies = ("rows", "rows", "rows", "hive", "strict")
        return plan


class Log:
    """The reports of one worker, line by line; written lines survive the worker."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def tell(self, **what: Any) -> None:
        """Add a line."""
        self._file.write(json.dumps(what | {"at": time.monotonic()}) + "\n")


@dataclass(frozen=True)
class Client:
    """Runs one transaction after the other.

    Attributes:
        runner: The runner.
        kind: The same in words.
        plan: The kind of its work.
        log: The log of the reports.
    """

    runner: PlainClient | SparkClient
    kind: str
    plan: Plan
    log: Log

    def step(self) -> None:
        """Run the next transaction."""
        work = self.plan.draw()
        self.log.tell(
            begin=work.name,
            kind=self.kind,
            policy=work.policy if work.writes else "",
            keys=[*work.keys],
            appends=[[append.key, append.element] for append in work.appends],
        )
        self.run(work)

    def run(self, work: Work) -> None:
        """Run a transaction, perhaps repeatedly, and report it."""
        said: dict[str, Any] = {"outcome": Outcome.OK}
        try:
            if work.writes:
                self.runner.run(work)
            else:
                said["rows"] = self.runner.read(work.keys)
        except CommitUncertain:
            said = {"outcome": Outcome.UNKNOWN}
        except HiveAcidError as error:
            said = {"outcome": Outcome.FAILED, "error": type(error).__name__, "message": str(error)}
        self.log.tell(end=work.name, **said)


@dataclass(frozen=True)
class House:
    """Compacts and cleans all tables, and reads earlier versions.

    Attributes:
        client: The metastore.
        database: The location of the tables.
        dice: The source of random choices.
        log: The log of the reports.
        retention: The time for which earlier versions can be read.
    """

    client: MetastoreClient
    database: str
    dice: Random
    log: Log
    retention: str

    def step(self) -> None:
        """Do something."""
        table = f"{self.database}.{self.dice.choice(_ALL_TABLES)}"
        options: dict[str, Any] = {"target": table, "metastore": self.client.options}
        try:
            match self.dice.choice(["minor", "major", "clean", "clean", "travel"]):
                case "clean":
                    removed = clean(
                        self.client, CleanJob(**options, retention=self.retention)
                    ).removed
                    self.log.tell(done="clean", count=len(removed))
                case "travel":
                    self._travel()
                case kind:
                    names = self.client.get_partition_names(TableRef.parse(table))
                    session: Any = NoSpark()
                    job = CompactJob(
                        **options,
                        type=kind,
                        partitions=[self.dice.choice(names)],
                        lock_wait_seconds=5,
                        # The transactions of killed clients end with the next compaction.
                        run_token="isolation/house",
                    )
                    report = application.run(session, job)
                    done = [each for each in report.partitions if each.outcome == "compacted"]
                    self.log.tell(done=kind, count=len(done))
        except HiveAcidError as error:
            self.log.tell(refused=type(error).__name__, message=str(error))

    def _travel(self) -> None:
        """Read the accounts as they were a while ago, or any table if no version may be gone."""
        tables = ("bank",) if self.retention == "0" else _ALL_TABLES
        ref = TableRef(self.database, self.dice.choice(tables))
        newest = Snapshot.take(self.client, [ref]).write_ids[ref.full_name].high_watermark
        version = max(1, newest - self.dice.randrange(6))
        scan = TableScan(ref.full_name, self.client.options, as_of_write_id=version)
        try:
            rows = scan.to_arrow().to_pylist()
        except (VersionGone, VersionUnknown) as gone:
            if isinstance(gone, VersionGone) and self.retention != "0":
                raise
            self.log.tell(done=type(gone).__name__, count=1)
            return
        if ref.name != "bank":
            self.log.tell(done="travel to rows", count=len(rows))
            return
        accounts = [(f"bank/{row['id']}", row["v"]) for row in rows]
        assert len(accounts) == len(BANK), accounts
        self.log.tell(done="travel", count=1, version=version, rows=accounts)


def worker(who: Who, place: Place, stack: ExitStack) -> Client | House:
    """One of those who take part.

    Args:
        who: Its name.
        place: Its environment.
        stack: Is closed when it is done.
    """
    log = Log(place.folder / f"{who.name}.jsonl")
    plan = who.plan(place)
    if who.kind == SPARK:
        os.environ["SPARK_CONF_DIR"] = str(place.folder)
        (place.folder / "spark-defaults.conf").write_text(_SPARK_DEFAULTS)
        session = application_session("a client")
        stack.callback(session.stop)
        return Client(SparkClient(session, place.metastore, place.database), SPARK, plan, log)
    client = stack.enter_context(MetastoreClient(place.metastore))
    if who.kind == HOUSE:
        return House(client, place.database, Random(who.seed), log, place.retention)
    return Client(PlainClient(client, place.database), PLAIN, plan, log)


def undone(who: Who, place: Place) -> Work | None:
    """Return the unfinished work of a client."""
    file = place.folder / f"{who.name}.jsonl"
    # A client can be killed before it reports anything.
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("\n")]
    begun = [line["begin"] for line in told if "begin" in line]
    if not begun or any(line.get("end") == begun[-1] for line in told):
        return None
    plan = who.plan(place)
    return next(work for work in iter(plan.draw, None) if work.name == begun[-1])


def work_in_a_process(who: Who, place: Place, over: Path) -> None:
    """Take part in a history until a file exists; report errors."""
    output = os.open(place.folder / f"{who.name}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    log = Log(place.folder / f"{who.name}.jsonl")
    set_clock_of_process(who.seed)
    try:
        with ExitStack() as stack:
            if who.kind != SPARK:
                stack.enter_context(without_spark())
            each = worker(who, place, stack)
            if who.before is not None and isinstance(each, Client):
                again = undone(who.before, place)
                if again is not None:
                    each.run(again)
            while not over.exists():
                each.step()
    except BaseException:
        log.tell(escaped=traceback.format_exc())
        raise
    sys.stdout.flush()
