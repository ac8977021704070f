"""A history from its tables to its end: who takes part, and who is killed."""

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from signal import SIGCONT, SIGSTOP
from typing import Any

from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import TableRef
from tests.faults.rows import write_source
from tests.faults.without_spark import carry_out
from tests.isolation.transactions import Outcome
from tests.isolation.work import first_rows
from tests.isolation.workers import SPARK, Place, Who, work_in_a_process

# Forked from a process that has imported everything.
_FORKED = get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.isolation.workers", "pandas", "pyarrow.dataset"])
# One with a Spark of its own has a new interpreter as well.
_SPAWNED = get_context("spawn")
# The time without a heartbeat after which the metastore aborts a transaction, where some are stopped.
TIMEOUT_SECONDS = 12
# There are so many clients at most.
_MOST_KILLS = 45
_COLUMNS = [HiveColumn("id", "int"), HiveColumn("v", "string")]
_PARTITIONED_BY = [HiveColumn("p", "string")]


@dataclass
class Campaign:
    """A history in a database.

    Attributes:
        client: The metastore.
        place: The environment.
        dice: The victims of kills and stops, and their times.
        killed: The killed workers, by kind.
        stopped: The workers that were stopped for longer than a transaction lives, by kind.
    """

    client: MetastoreClient
    place: Place
    dice: Random
    killed: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._numbers = iter(range(self.place.clients))
        self._over = self.place.folder / "over"

    def begin(self) -> None:
        """Make and fill the tables."""
        for table, rows in first_rows(self.place.lists, self.place.clients).items():
            ref = TableRef(self.place.database, table)
            self.client.create_table(HiveTable.new(ref, _COLUMNS, partition_keys=_PARTITIONED_BY))
            known = self.client.get_table(ref)
            names = sorted({row.p for row in rows})
            self.client.add_partitions(ref, [HivePartition.new(known, [p]) for p in names])
            source = write_source(self.place.folder / f"{table}.json", rows)
            job = InsertJob(target=str(ref), source=source, metastore=self.client.options)
            carry_out(job)

    def run(
        self,
        transactions: int,
        by: str,
        kinds: Mapping[str, int],
        kill_every: float,
        stop_every: float = math.inf,
        seconds: float = math.inf,
    ) -> None:
        """Let processes work, and kill or stop one now and then.

        Args:
            transactions: The number of required commits.
            by: The kind of the clients who commit them.
            kinds: The number of workers of each kind; each killed one is replaced.
            kill_every: After how many seconds, on average, one is killed.
            stop_every: After how many seconds, on average, one is stopped; it goes on when the
                metastore has aborted its transactions.
            seconds: The longest duration.
        """
        end = time.monotonic() + seconds
        self._over.unlink(missing_ok=True)
        everybody = [self._new(kind) for kind, count in kinds.items() for _ in range(count)]
        processes = {who: self._start(who) for who in everybody}
        next_kill = time.monotonic() + kill_every
        next_stop = time.monotonic() + stop_every
        asleep: dict[Who, float] = {}
        try:
            while self._committed(by) < transactions and time.monotonic() < end:
                time.sleep(0.5)
                for who, process in processes.items():
                    assert process.exitcode is None, self._log(who)
                if time.monotonic() > next_kill and self.killed.total() < _MOST_KILLS:
                    next_kill += self.dice.uniform(0.5, 1.5) * kill_every
                    who = self._next_to_die([*processes])
                    process = processes.pop(who)
                    asleep.pop(who, None)
                    process.kill()
                    process.join()
                    self.killed[who.kind] += 1
                    again = self._new(who.kind, who)
                    processes[again] = self._start(again)
                if time.monotonic() > next_stop and len(asleep) < len(processes) // 2:
                    next_stop = time.monotonic() + self.dice.uniform(0.5, 1.5) * stop_every
                    who = self.dice.choice([who for who in processes if who not in asleep])
                    os.kill(processes[who].pid, SIGSTOP)
                    asleep[who] = time.monotonic() + self.dice.uniform(1.5, 3) * TIMEOUT_SECONDS
                    self.stopped[who.kind] += 1
                for who in [who for who, until in asleep.items() if time.monotonic() > until]:
                    del asleep[who]
                    os.kill(processes[who].pid, SIGCONT)
            for who in asleep:
                os.kill(processes[who].pid, SIGCONT)
            self._over.touch()
            for who, process in processes.items():
                process.join(300)
                assert process.exitcode == 0, self._log(who)
        finally:
            for process in processes.values():
                process.kill()
                process.join()

    def abort_what_was_left(self) -> None:
        """End the transactions of those who were killed, as their timeout would."""
        for txn in self.client.get_open_txns_info():
            if txn.state is TxnState.OPEN:
                self.client.abort_txn(txn.txn_id)

    def _new(self, kind: str, before: Who | None = None) -> Who:
        return Who(kind, next(self._numbers), self.dice.randrange(2**32), before)

    def _next_to_die(self, everybody: Sequence[Who]) -> Who:
        # It takes long until there is another Spark.
        weights = [0.2 if who.kind == SPARK else 1 for who in everybody]
        return self.dice.choices(everybody, weights)[0]

    def _start(self, who: Who) -> Any:
        context: Any = _SPAWNED if who.kind == SPARK else _FORKED
        arguments = (who, self.place, self._over)
        process = context.Process(target=work_in_a_process, args=arguments, daemon=True)
        process.start()
        return process

    def _committed(self, kind: str) -> int:
        told = self.place.folder.glob(f"{kind}-*.jsonl")
        return sum(path.read_text().count(f'"outcome": "{Outcome.OK}"') for path in told)

    def _log(self, who: Who) -> str:
        told, said = (self.place.folder / f"{who.name}{end}" for end in (".jsonl", ".log"))
        return "\n".join(path.read_text()[-3000:] for path in (told, said) if path.exists())
