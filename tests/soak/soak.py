"""A soak test: its processes, kills, lost answers, and the comparison with the models."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.tables.scan.table_scan import TableScan
from tests.faults.rows import Row
from tests.soak.actors import (
    ACCOUNTS,
    EVENTS,
    KINDS,
    Appender,
    Copier,
    House,
    Place,
    Planned,
    Writer,
    act,
    tables,
)
from tests.soak.processes import Sample, sampled

# Forked from a process that has imported everything.
_FORKED = get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.soak.actors", "pandas", "pyarrow.dataset"])
_COLUMNS = [HiveColumn("id", "int"), HiveColumn("v", "string")]
_PARTITIONED_BY = [HiveColumn("p", "string")]
_SAMPLE_SECONDS = 1.0


@dataclass
class Soak:
    """A soak test on one metastore.

    Attributes:
        client: The metastore.
        place: The environment of the processes.
        server: The name and the id of the metastore's process, if it has one.
        killed: The number of kills.
        samples: The resources of the processes so far.
    """

    client: MetastoreClient
    place: Place
    server: int | None = None
    killed: int = 0
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._processes: dict[tuple[str, int], Any] = {}
        self._dice = Random(1)

    def begin(self) -> None:
        """Create the tables."""
        numbers = {ACCOUNTS: self.place.writers, EVENTS: 1}
        for ref in tables(self.place):
            self.client.create_table(HiveTable.new(ref, _COLUMNS, partition_keys=_PARTITIONED_BY))
            table = self.client.get_table(ref)
            names = map(str, range(numbers[ref.name]))
            self.client.add_partitions(ref, [HivePartition.new(table, [p]) for p in names])

    def run(self, seconds: float, kill_every: float) -> None:
        """Let all processes work for some time.

        Args:
            seconds: The time.
            kill_every: The mean time between two kills. The first of each kind is never killed:
                its resources are compared over time.
        """
        kinds = [(Writer.kind, n) for n in range(self.place.writers)]
        kinds += [(Appender.kind, 0), (House.kind, 0), (House.kind, 1)]
        kinds += [(Copier.kind, 0), (Copier.kind, 1)]
        for kind, number in kinds:
            self._start(kind, number)
        started = time.monotonic()
        next_kill, next_sample = started + kill_every, started
        try:
            while (now := time.monotonic()) < started + seconds:
                for (kind, number), process in self._processes.items():
                    assert process.exitcode is None, self._log(kind, number)
                if now >= next_sample:
                    next_sample += _SAMPLE_SECONDS
                    self._sample(now - started)
                if now >= next_kill:
                    next_kill += self._dice.uniform(0.5, 1.5) * kill_every
                    self._kill()
                time.sleep(0.1)
            self.place.over.touch()
            for (kind, number), process in self._processes.items():
                process.join(300)
                assert process.exitcode == 0, self._log(kind, number)
        finally:
            for process in self._processes.values():
                process.kill()
                process.join()

    def verify(self) -> Counter[str]:
        """Compare the tables with the models.

        Returns:
            The number of jobs, of changed rows, and of other works.
        """
        self._end_lost_transactions()
        counts: Counter[str] = Counter(kills=self.killed)
        models: dict[str, list[Row]] = {ACCOUNTS: [], EVENTS: []}
        for name, kind, number in self._planned():
            actor = KINDS[kind](self.place, number)
            assert isinstance(actor, Planned)
            done = [line["done"] for line in actor.recorded() if "done" in line]
            assert done == [*range(len(done))], f"{kind}-{number} repeated a job: {done}"
            models[name] += actor.rows()
        for name, expected in models.items():
            rows = TableScan(self.place.table(name), self.client.options).to_arrow().to_pylist()
            found = sorted(Row(row["id"], row["v"], row["p"]) for row in rows)
            assert found == sorted(expected), name
        for line in self._lines():
            assert "wrong" not in line, line
            counts["jobs"] += "done" in line
            counts["rows"] += line["rows"] if "done" in line else 0
            counts["copies"] += "copied" in line
            counts["maintained"] += "maintained" in line
            if "failed" in line:
                counts[f"failed: {line['failed']}"] += 1
        return +counts

    def write_samples(self, path: Path) -> None:
        """Write the samples as lines of JSON, which bench/soak_chart.py draws."""
        path.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in self.samples))

    def _planned(self) -> Iterator[tuple[str, str, int]]:
        for number in range(self.place.writers):
            yield ACCOUNTS, Writer.kind, number
        yield EVENTS, Appender.kind, 0

    def _lines(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.place.folder.glob("*.jsonl")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield json.loads(line)

    def _start(self, kind: str, number: int) -> None:
        process = _FORKED.Process(target=act, args=(kind, number, self.place), daemon=True)
        process.start()
        self._processes[kind, number] = process

    def _kill(self) -> None:
        mortal: Sequence[tuple[str, int]] = [each for each in self._processes if each[1]]
        if not mortal:
            return
        kind, number = self._dice.choice(mortal)
        process = self._processes[kind, number]
        process.kill()
        process.join()
        self.killed += 1
        self._start(kind, number)

    def _sample(self, seconds: float) -> None:
        pids = {f"{kind}-{n}": p.pid for (kind, n), p in self._processes.items() if not n}
        if self.server is not None:
            pids["metastore"] = self.server
        for name, pid in pids.items():
            if (sample := sampled(seconds, name, pid)) is not None:
                self.samples.append(sample)

    def _end_lost_transactions(self) -> None:
        """End the transactions of those who were killed, as their timeout would."""
        for txn in self.client.get_open_txns_info():
            if txn.state is TxnState.OPEN:
                self.client.abort_txn(txn.txn_id)

    def _log(self, kind: str, number: int) -> str:
        return (self.place.folder / f"{kind}-{number}.log").read_text()[-4000:]
