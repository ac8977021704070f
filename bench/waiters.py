"""Measure the order and the cost of serving writers that wait for the same rows.

    python bench/waiters.py --version 3.1.3

Some clients change one table over and over. Each transaction is held for a while, as if it worked.
"""

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hiveacid.errors import ConflictError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef

TABLE = TableRef("default", "hot")
AT_ONCE = 0.25


@dataclass
class Turn:
    """One request to change the table, and its result."""

    came: float
    served: float = 0.0
    failed: str = ""
    restarts: int = 0


class Clients:
    """All of them, each with a connection of its own."""

    def __init__(self, metastore: EmbeddedMetastore, arguments: argparse.Namespace) -> None:
        self._options = metastore.options
        self._arguments = arguments
        self._start = threading.Barrier(arguments.clients)
        self.turns: list[Turn] = []

    def run(self) -> None:
        """Let all of them work for the time that is given."""
        with ThreadPoolExecutor(self._arguments.clients) as pool:
            for each in [pool.submit(self._work) for _ in range(self._arguments.clients)]:
                each.result()

    def _work(self) -> None:
        with MetastoreClient(self._options) as client:
            client.get_databases()
            self._start.wait()
            until = time.monotonic() + self._arguments.seconds
            while time.monotonic() < until:
                self._take(client)

    def _take(self, client: MetastoreClient) -> None:
        turn = Turn(time.monotonic())
        self.turns.append(turn)
        transaction = Transaction(
            client,
            targets=[Target(TABLE, Operation.MERGE)],
            lock_wait_seconds=self._arguments.lock_wait,
        )
        try:
            with transaction:
                turn.served = time.monotonic()
                time.sleep(self._arguments.hold)
                transaction.commit()
        except ConflictError as error:
            turn.failed = type(error).__name__
        turn.restarts = transaction.restarts


def overtaken(turn: Turn, turns: list[Turn]) -> int:
    """Return the number of later requests that were served earlier; simultaneous ones do not count."""
    return sum(turn.came + AT_ONCE < other.came and other.served < turn.served for other in turns)


def report(turns: list[Turn], opened: int) -> None:
    """Print the results."""
    done = [turn for turn in turns if not turn.failed]
    failed = [turn.failed for turn in turns if turn.failed]
    waits = [turn.served - turn.came for turn in done]
    passed = [overtaken(turn, done) for turn in done]
    failures = ", ".join(f"{failed.count(name)} {name}" for name in sorted(set(failed))) or "none"
    print(f"commits {len(done)}, failures {failures}")
    print(f"transactions opened {opened}, in vain {opened - len(done)}")
    print(f"waited {statistics.median(waits):.1f} s in the middle, {max(waits):.1f} s at most")
    print(f"overtaken {sum(passed)} times, one of them {max(passed)} times")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="4.0.1", help="of the metastore")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--hold", type=float, default=0.3, help="seconds of work")
    parser.add_argument("--lock-wait", type=float, default=8, help="seconds")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedMetastore(arguments.version, directory=Path(folder)) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "bigint")]))
        before = client.get_open_txns().high_watermark
        clients = Clients(metastore, arguments)
        clients.run()
        report(clients.turns, client.get_open_txns().high_watermark - before)


if __name__ == "__main__":
    main()
