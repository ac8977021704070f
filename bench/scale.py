"""Cost of work in large environments: seconds, memory, calls of the metastore.

    PYTHONPATH=. python bench/scale.py --json out.json
    PYTHONPATH=. python bench/scale.py --metastore 4.0.1 --partitions 10000 --tables 1000

Each work is measured with a tenth of everything and with all of it: a table of 100,000 partitions,
a database of 10,000 tables, a partition of 10,000 deltas, and a table of 1,000,000 write ids, every
hundredth of them aborted. The files are real, and empty if no work opens them. `fake` is the
metastore of the tests, which answers as fast as the wire; its own time counts as waiting. Memory is
the peak of Python's allocations, measured in a second run.
"""

import argparse
import gc
import io
import json
import multiprocessing
import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from session import session

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main as command_line
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.locks import MAX_PARTITION_LOCKS, Operation, Target
from hiveacid.rules.names import ACID_VERSION_FILE, Base, BucketFile, Delta, TableRef
from hiveacid.upkeep.compaction_poll import CompactionPoll
from hiveacid.upkeep.survey import Survey
from hiveacid.upkeep.table_cleaning import clean
from tests.fakes.metastore import FakeMetastore
from tests.metastore_calls import DESCRIBED, counted_calls

COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("v", "int")]
DAY = [HiveColumn("day", "string")]
TOUCHED = ("day=1", "day=2", "day=3")
LOCKED = (3, 100, 1000, 10_000)
# Derby's parser is recursive: one call with all partitions would overflow its stack.
PER_CALL = 100
TXNS_PER_CALL = 1000


# Makes write ids of a table, so many, and aborts each so-manieth.
Write = Callable[[TableRef, int, int], None]


@dataclass(frozen=True)
class Sizes:
    """The size of the environment."""

    partitions: int
    tables: int
    deltas: int
    write_ids: int

    @property
    def tenth(self) -> "Sizes":
        return Sizes(*(each // 10 for each in vars(self).values()))


class Works:
    """Everything that is measured, on a metastore of its own."""

    def __init__(
        self,
        options: MetastoreOptions,
        sizes: Sizes,
        spark: SparkSession,
        write: Write | None,
    ) -> None:
        self._options, self._sizes, self._spark, self._write = options, sizes, spark, write
        self._client = MetastoreClient(options)
        self._batches = 0
        self.measured: dict[str, dict[str, object]] = {}

    def run(self) -> dict[str, dict[str, object]]:
        with self._client:
            self._client.create_database("scale")
            self._of_partitions()
            self._of_deltas()
            self._of_write_ids()
            self._client.create_database("many")
            self._of_tables()
        return self.measured

    def _measure(self, name: str, work: Callable[[], object], *, again: bool = True) -> None:
        with counted_calls() as calls:
            wall, own = time.perf_counter(), time.process_time()
            work()
            wall, own = time.perf_counter() - wall, time.process_time() - own
        told = {"seconds": round(wall, 3), "own_seconds": round(own, 3)}
        if again:
            gc.collect()
            tracemalloc.start()
            work()
            told["peak_mb"] = round(tracemalloc.get_traced_memory()[1] / 2**20, 1)
            tracemalloc.stop()
        self.measured[name] = told | {"calls": dict(sorted(calls.items()))}
        print(name, json.dumps(self.measured[name]), flush=True)

    # A table of many partitions

    def _of_partitions(self) -> None:
        ref = TableRef("scale", "facts")
        table = self._create(ref, DAY)
        named = [HivePartition.new(table, [str(n)]) for n in range(1, self._sizes.partitions + 1)]
        for start in range(0, len(named), PER_CALL):
            self._client.add_partitions(ref, named[start : start + PER_CALL])
        root = _folder(table)
        with AcidTable(ref.full_name, self._options, spark=self._spark, run_in="spark") as acid:
            acid.append(self._rows())  # The first pays for the start of Spark.
            acid.merge(self._rows(), "t.id = s.id").when_matched_update_all().execute()
            for partition in named[len(TOUCHED) :]:
                _fill(root / partition.name, Base(1).name, Delta(2, 2, 0).name)
            self._measure("append to 3 partitions", lambda: acid.append(self._rows()))
            self._measure("merge of 3 partitions", lambda: self._merge(acid))
            days = "day in ('1', '2', '3')"
            self._measure("update of 3 partitions", lambda: acid.update({"v": "v + 1"}, days))
            self._measure("delete in 3 partitions", lambda: acid.delete(f"{days} and id = 1"))
            self._measure(
                "compaction of 3 partitions",
                lambda: acid.compact("minor", partitions=TOUCHED),
                again=False,
            )
        for count in LOCKED:
            names = [partition.name for partition in named[:count]]
            what = f"transaction on {count} partitions"
            self._measure(what, lambda names=names: self._transaction(ref, names))
        self._looks(ref, "the table of partitions")
        survey = Survey(self._client)
        self._measure("compaction plan of 3 partitions", lambda: survey.survey([ref], TOUCHED))
        some, everything = (
            CleanJob(target=ref.full_name, partitions=p, retention="0") for p in (TOUCHED, None)
        )
        self._measure("cleaning of 3 partitions", lambda: clean(self._client, some))
        self._measure("cleaning of all partitions", lambda: clean(self._client, everything))

    def _transaction(self, ref: TableRef, names: list[str]) -> None:
        locked = names if len(names) <= MAX_PARTITION_LOCKS else None
        targets = [Target(ref, Operation.UPDATE, partitioned=True, partitions=locked)]
        with Transaction(self._client, targets=targets) as txn:
            txn.register_partitions(ref, names)
            txn.commit()

    def _merge(self, acid: AcidTable) -> None:
        merge = acid.merge(self._rows(), "t.day = s.day and t.id = s.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _rows(self) -> object:
        self._batches += 1
        rows = [(number + self._batches, number, str(1 + number % 3)) for number in range(300)]
        return self._spark.createDataFrame(rows, "id bigint, v int, day string")

    # A partition of many deltas

    def _of_deltas(self) -> None:
        ref, count = TableRef("scale", "streamed"), self._sizes.deltas
        table = self._create(ref)
        self._write_ids(ref, count + 1)
        names = [Delta(n, n, 0, is_delete=n % 3 == 0).name for n in range(1, count + 1)]
        _fill(_folder(table), *names)
        self._looks(ref, "the table of deltas")
        _fill(_folder(table), Base(count).name, marker="_metadata_acid")
        obsolete = CleanJob(target=ref.full_name, dry_run=True, retention="0")
        self._measure("cleaning plan of all deltas", lambda: clean(self._client, obsolete))
        done = CleanJob(target=ref.full_name, retention="0")
        self._measure("cleaning of all deltas", lambda: clean(self._client, done), again=False)

    # A table with a long past

    def _of_write_ids(self) -> None:
        ref = TableRef("scale", "old")
        table = self._create(ref)
        self._write_ids(ref, self._sizes.write_ids, aborted_each=100)
        _fill(_folder(table), Base(self._sizes.write_ids - 10).name)
        self._measure("snapshot", lambda: Snapshot.take(self._client, [ref]))
        self._looks(ref, "the table of write ids")
        cleaning = CleanJob(target=ref.full_name, dry_run=True, retention="0")
        self._measure("cleaning plan beside aborts", lambda: clean(self._client, cleaning))

    # A metastore of many tables

    def _of_tables(self) -> None:
        refs = [TableRef("many", f"t{number:05}") for number in range(self._sizes.tables)]
        for ref in refs:
            _fill(_folder(self._create(ref)), Delta(1, 1, 0).name)
        for ref in refs:
            self._write_ids(ref, 1)
        name = refs[0].full_name
        self._measure(
            "cleaning of 1 table of many",
            lambda: clean(self._client, CleanJob(target=name, retention="0")),
        )
        self._measure("hiveacid tables, all", lambda: self._command("tables"))
        self._measure("hiveacid tables, 1 of many", lambda: self._command("tables", name))
        poll = CompactionPoll(self._options, CompactionPolicy())
        self._measure("poke of all tables, first", lambda: poll.survey(["many.*"]), again=False)
        self._measure("poke of all tables, unwritten", lambda: poll.survey(["many.*"]))
        self._write_ids(refs[0], 1)
        self._measure("poke of all tables, 1 written", lambda: poll.survey(["many.*"]), again=False)
        with AcidTable(name, self._options, spark=self._spark, run_in="spark") as acid:
            folder = _folder(self._client.get_table(refs[0]))
            shutil.rmtree(folder)
            folder.mkdir()
            row = self._spark.createDataFrame([(1, 1)], "id bigint, v int")
            self._measure("append to 1 table of many", lambda: acid.append(row))

    # The work for every table

    def _looks(self, ref: TableRef, what: str) -> None:
        """Measure the works of a sensor, the command line and the page on it."""
        poll, name = CompactionPoll(self._options, _NO_NEEDS), ref.full_name
        self._measure(f"poke of {what}, first", lambda: poll.survey([name]), again=False)
        self._measure(f"poke of {what}, unwritten", lambda: poll.survey([name]))
        self._write_ids(ref, 1)
        self._measure(f"poke of {what}, written", lambda: poll.survey([name]), again=False)
        self._measure(f"compaction plan of {what}", lambda: Survey(self._client).survey([ref]))
        self._measure(f"hiveacid tables, {what}", lambda: self._command("tables", name))

    def _command(self, *words: str) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            command_line([*words, "--metastore", self._options.uris, "--json"])

    def _create(self, ref: TableRef, keys: list[HiveColumn] | None = None) -> HiveTable:
        self._client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys or []))
        return self._client.get_table(ref)

    def _write_ids(self, ref: TableRef, count: int, aborted_each: int = 0) -> None:
        """Have a table written often, and nothing of it left."""
        if self._write is not None:
            self._write(ref, count, aborted_each)
            return
        done = 0
        while done < count:
            number = min(TXNS_PER_CALL, count - done)
            # Version 4 opens but one in a call when its database is Derby.
            request = idl_txns.OpenTxnRequest(1, "bench", "localhost")
            opened = [self._client.call(idl_txns.open_txns, request) for _ in range(number)]
            txns = [each.txn_ids[0] for each in opened]
            allocated = idl_txns.AllocateTableWriteIdsRequest(ref.database, ref.name, txns)
            self._client.call(idl_txns.allocate_table_write_ids, allocated)
            for txn in txns:
                done += 1
                if aborted_each and done % aborted_each == 0:
                    self._client.abort_txn(txn)
                else:
                    self._client.commit_txn(txn)


# No compaction is due, so that a second poll of the unchanged table lists no directory.
_NO_NEEDS = CompactionPolicy(max_deltas=None, max_delta_ratio=None)


def _folder(table: HiveTable) -> Path:
    return Path(table.folder.removeprefix("file:"))


def _fill(folder: Path, *directories: str, marker: str = ACID_VERSION_FILE) -> None:
    for name in directories:
        directory = folder / name
        directory.mkdir(parents=True)
        (directory / BucketFile(0).name).write_bytes(b"\0" * 100)
        text = '{"thisFileVersion":"0","dataFormat":"compacted"}'
        (directory / marker).write_text("2" if marker == ACID_VERSION_FILE else text)


@contextmanager
def metastore(kind: str, folder: Path) -> Iterator[tuple[MetastoreOptions, Write | None]]:
    """A metastore in a process of its own, whose time and memory are not counted.

    Yields:
        Return the options of the metastore, and a function that creates many write ids at once, if
        available.
    """
    if kind != "fake":
        with EmbeddedMetastore(kind, directory=folder) as real:
            yield real.options, None
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, theirs))
    process.start()
    try:
        uri = ours.recv()

        def write(ref: TableRef, count: int, aborted_each: int) -> None:
            ours.send((ref, count, aborted_each))
            ours.recv()

        yield MetastoreOptions(uris=uri), write
    finally:
        ours.send(None)
        process.join()


def _serve(folder: Path, channel: "multiprocessing.connection.Connection") -> None:
    with FakeMetastore("4.0.1", directory=folder / "fake") as fake, closing(channel):
        channel.send(fake.uri)
        while (asked := channel.recv()) is not None:
            _write_often(fake, *asked)
            channel.send(None)


def _write_often(fake: FakeMetastore, ref: TableRef, count: int, aborted_each: int) -> None:
    """Have the effect of a million calls, which would take long even here."""
    transactions = next(part for part in fake._parts if hasattr(part, "open_txns"))
    opened = transactions.open_txns(idl_txns.OpenTxnRequest(count, "bench", "localhost")).txn_ids
    allocated = idl_txns.AllocateTableWriteIdsRequest(ref.database, ref.name, opened)
    transactions.allocate_table_write_ids(allocated)
    for number, txn in enumerate(opened, start=1):
        if aborted_each and number % aborted_each == 0:
            transactions.abort_txn(idl_txns.AbortTxnRequest(txn))
        else:
            transactions.commit_txn(idl_txns.CommitTxnRequest(txn))


def table_of(result: dict[str, dict[str, dict]]) -> str:
    """Beside a tenth and beside all: the calls, the seconds, those of Python's own, its memory."""
    columns = [f"{what}, {size}" for what in ("calls", "s", "own s", "MB") for size in result]
    lines = [f"| Work | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for work in result["all"]:
        done = [by_work[work] for by_work in result.values()]
        calls = [
            str(sum(n for name, n in each["calls"].items() if name != DESCRIBED)) for each in done
        ]
        cells = [f"{each[key]:.2f}" for key in ("seconds", "own_seconds") for each in done]
        memory = [f"{each['peak_mb']:.0f}" if "peak_mb" in each else "" for each in done]
        lines.append(f"| {' | '.join([work, *calls, *cells, *memory])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metastore", default="fake", help="fake, 4.0.1 or 3.1.3")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--deltas", type=int, default=10_000)
    parser.add_argument("--write-ids", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sizes = Sizes(arguments.partitions, arguments.tables, arguments.deltas, arguments.write_ids)
    result = {}
    work = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        spark = session(work)
        for label, each in (("a tenth", sizes.tenth), ("all", sizes)):
            folder = work / label.replace(" ", "-")
            folder.mkdir()
            with metastore(arguments.metastore, folder) as (options, write):
                result[label] = Works(options, each, spark, write).run()
        spark.stop()
    finally:
        shutil.rmtree(work)
    print(table_of(result))
    if arguments.json:
        about = {"metastore": arguments.metastore, **vars(sizes)}
        arguments.json.write_text(json.dumps(about | result, indent=2))


if __name__ == "__main__":
    main()
