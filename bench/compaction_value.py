"""The choice of compactions by benefit per cost: a replayed week, its time, and predicted costs.

    PYTHONPATH=. python bench/compaction_value.py --json out.json
    PYTHONPATH=. python bench/compaction_value.py --rounds 0 --decided 0 --real 40 --json real.json

The trace has 500 tables with 20,000 partitions, of which the newest are written most, and reads that
follow Zipf's law over tables and over the partitions of each, independently of writes. Each hour the
partitions above the thresholds are candidates. The same writes and reads are replayed with the order
by value, which knows the reads only from samples of locks, with the order of the thresholds, and
without compactions; both orders have the same budget of core-seconds. The actual cost of a
compaction differs from the predicted one at random.

Real compactions run in the worker, on tables of different sizes and shapes; the metastore is that of
the tests. Costs are predicted from the footers: with the default rates, and with rates that are
fitted to the notes of the first half.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_choice import choose, in_threshold_order, valued
from airflow_hiveacid.acid.compaction_decision import Decision, decide
from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.acid.compaction_value import ReadCosts, hours_until_due, hours_waited
from airflow_hiveacid.acid.partition_size import PartitionSize
from airflow_hiveacid.acid.read_rates import ReadLock, ReadSamples, joint_rate
from airflow_hiveacid.acid.table_identity import TableIdentity

HIVE = CompactionPolicy()
COSTS = ReadCosts()
NOW = datetime(2026, 3, 1, tzinfo=UTC)
IDENTITY = TableIdentity(created=1, id=1)
START = 1_770_000_000.0
READ_SECONDS = 60.0
SAMPLES_PER_HOUR = 6
DELTAS = tuple(f"delta_{number:07d}_{number:07d}_0000" for number in range(1, 4000))
DELETES = tuple(f"delete_delta_{number:07d}_{number:07d}_0000" for number in range(4001, 8000))
ROW_BYTES, EVENT_BYTES, FOOTER_BYTES = 35, 1.3, 1000
CELL_SECONDS = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=168, help="hours; 0: no replay")
    parser.add_argument("--reads-per-hour", type=int, default=5000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.3, 0.5, 0.75])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strict", action="store_true", help="no order may exceed its budget")
    parser.add_argument("--decided", type=int, default=100_000, help="0: do not measure its time")
    parser.add_argument("--real", type=int, default=0, help="the number of real compactions")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    if arguments.rounds:
        result["replay"] = replay(arguments)
    if arguments.decided:
        result["decide"] = decision_time(arguments.decided)
    if arguments.real:
        from bench.compaction_cost import real_costs

        result["cost"] = real_costs(arguments.real)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


@dataclass
class Trace:
    """The writes and the reads of a week, for every partition."""

    table: np.ndarray
    base_bytes: np.ndarray
    writes_per_hour: np.ndarray
    delete_share: np.ndarray
    reads_per_hour: np.ndarray
    seed: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Trace":
        random = np.random.default_rng(arguments.seed)
        tables, partitions = arguments.tables, arguments.partitions
        shares = random.pareto(1.2, tables) + 0.05
        counts = np.maximum(1, np.floor(shares / shares.sum() * partitions)).astype(int)
        while counts.sum() != partitions:
            counts[random.integers(tables)] += 1 if counts.sum() < partitions else 0
            if counts.sum() > partitions:
                counts[counts.argmax()] -= 1
        table = np.repeat(np.arange(tables), counts)
        age = np.concatenate([np.arange(count) for count in counts])
        size = random.lognormal(math.log(50e6), 1.5, tables)
        # The newest partitions are written every hour or so, the others ever more rarely.
        pace = random.lognormal(math.log(1.0), 1.0, tables)
        deletes = random.choice([0.0, 0.3, 1.0], tables, p=[0.5, 0.3, 0.2])
        popular = 1 / (random.permutation(tables) + 1)
        newest = 1 / (age + 1)
        totals = np.bincount(table, newest)
        reads = (popular / popular.sum())[table] * newest / totals[table]
        return cls(
            table=table,
            base_bytes=size[table] * random.lognormal(0, 0.5, partitions),
            writes_per_hour=pace[table] * newest,
            delete_share=deletes[table],
            reads_per_hour=reads * arguments.reads_per_hour,
            seed=arguments.seed,
        )

    def hours(self, rounds: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the inserts, the deletes, the bytes of an insert, and the reads of each hour."""
        random = np.random.default_rng(self.seed + 1)
        for _ in range(rounds):
            inserts = random.poisson(self.writes_per_hour)
            deletes = random.binomial(inserts, self.delete_share)
            size = self.base_bytes * 0.003 * random.lognormal(0, 0.7, len(self.table))
            yield inserts, deletes, size, random.poisson(self.reads_per_hour)

    def samples(self, rounds: int) -> Iterator[tuple[float, list[ReadLock]]]:
        """Yield the locks that are held at each sample, with its time."""
        random = np.random.default_rng(self.seed + 2)
        holder = 0
        for number in range(rounds * SAMPLES_PER_HOUR):
            now = START + 3600 * number / SAMPLES_PER_HOUR
            # Of exponential durations, the time since the acquisition has the same distribution.
            held = random.poisson(self.reads_per_hour * READ_SECONDS / 3600)
            locks = []
            for partition in np.flatnonzero(held):
                for _ in range(held[partition]):
                    holder += 1
                    acquired = now - random.exponential(READ_SECONDS)
                    name = f"db.t{self.table[partition]}"
                    locks.append(ReadLock(name, f"p={partition}", holder, acquired))
            yield now, locks


@dataclass
class Warehouse:
    """The state of all partitions."""

    trace: Trace
    base: np.ndarray
    inserts: np.ndarray
    deletes: np.ndarray
    delta_bytes: np.ndarray
    delete_bytes: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    # The last decision on a partition, and its state at that time.
    known: dict[int, tuple[tuple[float, ...], Decision]] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace) -> "Warehouse":
        count = len(trace.table)
        zeros = [np.zeros(count) for _ in range(6)]
        return cls(trace, trace.base_bytes.copy(), *zeros)

    def write(self, hour: int, inserts: np.ndarray, deletes: np.ndarray, size: np.ndarray) -> None:
        written = inserts + deletes > 0
        fresh = written & (self.inserts + self.deletes == 0)
        self.oldest[fresh] = hour
        self.newest[written] = hour
        self.inserts += inserts
        self.deletes += deletes
        added = deletes * (FOOTER_BYTES + EVENT_BYTES * size / ROW_BYTES / 2)
        self.delete_bytes += added
        self.delta_bytes += inserts * size + added

    def seconds_per_read(self) -> np.ndarray:
        """The seconds that each read takes more than one of a base alone."""
        count = self.inserts + self.deletes
        data = self.base + self.delta_bytes - self.delete_bytes
        events = np.maximum(
            self.deletes, (self.delete_bytes - self.deletes * FOOTER_BYTES) / EVENT_BYTES
        )
        gone = self.delete_bytes + np.minimum(data, ROW_BYTES * events)
        with_deletes = COSTS.row * data / ROW_BYTES + COSTS.byte * gone
        return COSTS.directory * count + np.where(self.deletes > 0, with_deletes, 0.0)

    def decisions(self, hour: int) -> list[Decision]:
        """The partitions above the thresholds of Hive."""
        count = self.inserts + self.deletes
        above = (count > 10) | (self.delta_bytes > 0.1 * self.base)
        found = []
        for number in map(int, np.flatnonzero(above & (count > 0))):
            state = self._state(number)
            before, decision = self.known.get(number, (None, None))
            ages = {
                "oldest_delta_hours": float(hour - self.oldest[number]),
                "newest_delta_hours": float(hour - self.newest[number]),
            }
            if before == state and decision is not None:
                found.append(_later(decision, ages))
                continue
            size = PartitionSize(
                table=f"db.t{self.trace.table[number]}",
                partition=f"p={number}",
                base="base_0000001",
                base_bytes=int(self.base[number]),
                deltas=DELTAS[: int(self.inserts[number])] + DELETES[: int(self.deletes[number])],
                delta_bytes=int(self.delta_bytes[number]),
                delete_bytes=int(self.delete_bytes[number]),
                base_age_hours=1.0,
                identity=IDENTITY,
                **ages,
            )
            decision = decide(size, HIVE, now=NOW)
            if decision.type is not None:
                self.known[number] = state, decision
                found.append(decision)
        return found

    def _state(self, number: int) -> tuple[float, ...]:
        own = (self.base, self.inserts, self.deletes, self.delta_bytes, self.newest)
        return tuple(float(each[number]) for each in own)

    def compact(self, number: int, type_: CompactionType, hour: int) -> None:
        data = self.delta_bytes[number] - self.delete_bytes[number]
        if type_ is CompactionType.MAJOR:
            self.base[number] += data
            self.inserts[number] = self.deletes[number] = 0
            self.delta_bytes[number] = self.delete_bytes[number] = 0
        else:
            self.inserts[number] = min(1, self.inserts[number])
            self.deletes[number] = min(1, self.deletes[number])
            self.oldest[number] = self.newest[number] = hour


def _later(decision: Decision, ages: dict[str, float]) -> Decision:
    """The same decision at a later time: only the ages differ."""
    size = replace(decision.size, **ages)
    limits = HIVE.max_deltas, HIVE.max_delta_ratio
    return replace(
        decision,
        size=size,
        waited_hours=hours_waited(size, *limits),
        hours_until_due=hours_until_due(size, *limits),
    )


def number_of(decision: Decision) -> int:
    return int((decision.size.partition or "").removeprefix("p="))


@dataclass
class Outcome:
    """The result of replaying the trace with one order."""

    extra_seconds: float = 0.0
    core_seconds: float = 0.0
    compactions: int = 0
    candidates: int = 0
    left: int = 0
    # Of candidates that are worth their cost, and of all.
    longest_due: int = 0
    longest: int = 0
    due: int = 0
    due_late: int = 0
    huge: int = 0
    # The benefit of the choice in each round, and that of an exact solution.
    of_exact: tuple[tuple[float, float], ...] = ()


def replayed(
    trace: Trace,
    rounds: int,
    order: str,
    budget: Budget | None,
    rates: Sequence[ReadSamples],
    *,
    strict: bool = False,
) -> Outcome:
    warehouse, outcome = Warehouse.of(trace), Outcome()
    limit = math.inf if budget is None else budget.max_core_seconds or 0.0
    noise = np.random.default_rng(trace.seed + 3)
    waits: dict[int, int] = {}
    due_waits: dict[int, int] = {}
    of_exact = []
    for hour, (inserts, deletes, size, reads) in enumerate(trace.hours(rounds)):
        warehouse.write(hour, inserts, deletes, size)
        if order != "none":
            decisions = [_with_reads(each, rates[hour]) for each in warehouse.decisions(hour)]
            outcome.candidates += len(decisions)
            ready = [replace(each, value=valued(each)) for each in decisions]
            # One above the whole budget runs alone, after a longer time, or never.
            fitting = [each for each in ready if each.value.cost <= limit]
            eligible = fitting if strict else ready
            if budget is None:
                taken = ready
            elif order == "value":
                taken = [each for each in choose(eligible, budget) if each.type is not None]
                best = exact_knapsack(eligible, limit)
                of_exact.append((sum(each.value.benefit for each in taken), best))
            elif order == "deadlines":
                taken = in_order_of_deadlines(fitting, due_waits, limit)
            else:
                taken = in_threshold_order(eligible, limit)
            chosen = {number_of(each) for each in taken}
            deferred = [each for each in fitting if number_of(each) not in chosen]
            waits = _deferred_again(waits, deferred)
            due_waits = _deferred_again(due_waits, filter(_is_due, deferred))
            outcome.due += sum(map(_is_due, ready))
            outcome.huge += sum(map(_is_due, ready)) - sum(map(_is_due, fitting))
            outcome.due_late += sum(count > 3 for count in due_waits.values())
            outcome.longest = max(outcome.longest, *waits.values(), 0)
            outcome.longest_due = max(outcome.longest_due, *due_waits.values(), 0)
            outcome.left += len(ready) - len(taken)
            for each in taken:
                warehouse.compact(number_of(each), each.type, hour)
                outcome.core_seconds += each.value.cost * float(noise.lognormal(0, 0.25))
            outcome.compactions += len(taken)
        outcome.extra_seconds += float(reads @ warehouse.seconds_per_read())
    outcome.of_exact = tuple(of_exact)
    return outcome


def _is_due(decision: Decision) -> bool:
    return bool(decision.value.benefit >= decision.value.cost)


def _deferred_again(before: dict[int, int], deferred: Iterable[Decision]) -> dict[int, int]:
    return {number: before.get(number, 0) + 1 for number in map(number_of, deferred)}


def in_order_of_deadlines(
    decisions: Sequence[Decision], deferred: dict[int, int], limit: float
) -> list[Decision]:
    """Take due candidates within the limit, those that have been deferred most often first."""
    due = sorted(
        filter(_is_due, decisions),
        key=lambda each: (-deferred.get(number_of(each), 0), each.value.cost),
    )
    taken, room = [], limit
    for each in due:
        if each.value.cost <= room:
            room -= each.value.cost
            taken.append(each)
    return taken


def _with_reads(decision: Decision, samples: ReadSamples) -> Decision:
    size = decision.size
    known = samples.of(size.table, IDENTITY)
    rate = joint_rate(None, None, None if known is None else known.rate(size.partition))
    return replace(decision, size=replace(size, reads=rate))


def exact_knapsack(decisions: Sequence[Decision], limit: float) -> float:
    """The largest benefit within the limit: exact for costs rounded down to hundredths."""
    cells = int(limit / CELL_SECONDS)
    best = np.zeros(cells + 1)
    for decision in decisions:
        cost = int(decision.value.cost / CELL_SECONDS)
        if cost <= cells:
            with_it = best[: cells + 1 - cost] + decision.value.benefit
            best[cost:] = np.maximum(best[cost:], with_it)
    return float(best[-1])


def replay(arguments: argparse.Namespace) -> dict[str, Any]:
    trace, rounds = Trace.of(arguments), arguments.rounds
    tables = {f"db.t{number}": IDENTITY for number in range(arguments.tables)}
    began, samples, rates = time.perf_counter(), ReadSamples(), []
    for number, (now, locks) in enumerate(trace.samples(rounds)):
        samples = samples.sampled(locks, tables, now)
        if number % SAMPLES_PER_HOUR == SAMPLES_PER_HOUR - 1:
            rates.append(samples)
    sampling = (time.perf_counter() - began) / (rounds * SAMPLES_PER_HOUR)
    none = replayed(trace, rounds, "none", None, rates)
    unlimited = replayed(trace, rounds, "thresholds", None, rates)
    demand = unlimited.core_seconds / rounds
    result: dict[str, Any] = {
        "seconds_per_sample": round(sampling, 4),
        "core_seconds_per_round_of_all": round(demand, 1),
        "candidates_per_round": round(unlimited.candidates / rounds, 1),
        "saved_by_all_per_core_second": round(_saved(none, unlimited), 1),
        "budgets": {},
    }
    for share in arguments.shares:
        budget = Budget(max_core_seconds=share * demand, max_wait_hours=3.0)
        by_value, before, reference = (
            replayed(trace, rounds, order, budget, rates, strict=arguments.strict)
            for order in ("value", "thresholds", "deadlines")
        )
        result["budgets"][f"{share:.0%}"] = own = {
            "core_seconds_per_round": round(share * demand, 1),
            "saved_per_core_second_by_value": round(_saved(none, by_value), 1),
            "saved_per_core_second_by_thresholds": round(_saved(none, before), 1),
            "times": round(_saved(none, by_value) / _saved(none, before), 2),
            "of_exact_knapsack": round(_of_exact(by_value), 3),
            "of_exact_knapsack_median": round(
                statistics.median(own / best for own, best in by_value.of_exact if best), 3
            ),
            "core_seconds_by_value": round(by_value.core_seconds),
            "core_seconds_by_thresholds": round(before.core_seconds),
            "longest_deferral_of_due": by_value.longest_due,
            "due_deferred_longer_than_3": by_value.due_late,
            "due": by_value.due,
            "due_above_the_whole_budget": by_value.huge,
            "feasible": not reference.due_late,
            "longest_deferral_of_due_by_deadlines": reference.longest_due,
            "due_deferred_longer_than_3_by_deadlines": reference.due_late,
            "saved_per_core_second_by_deadlines": round(_saved(none, reference), 1),
            "longest_deferral": by_value.longest,
            "longest_deferral_of_due_by_thresholds": before.longest_due,
            "left_by_value": round(by_value.left / rounds, 1),
            "left_by_thresholds": round(before.left / rounds, 1),
        }
        print(share, json.dumps(own), flush=True)
    return result


def _saved(none: Outcome, outcome: Outcome) -> float:
    return (none.extra_seconds - outcome.extra_seconds) / outcome.core_seconds


def _of_exact(outcome: Outcome) -> float:
    return sum(own for own, _ in outcome.of_exact) / sum(best for _, best in outcome.of_exact)


def decision_time(count: int) -> dict[str, Any]:
    """The CPU time to decide on partitions that are all above the thresholds."""
    random = Random(1)
    sizes = [
        PartitionSize(
            table=f"db.t{number % 500}",
            partition=f"p={number}",
            base="base_0000001",
            base_bytes=random.randrange(1, 10**9),
            deltas=DELTAS[: random.randrange(11, 20)] + DELETES[:2],
            delta_bytes=random.randrange(1, 10**8),
            delete_bytes=1000,
            oldest_delta_hours=random.uniform(1, 100),
            newest_delta_hours=0.5,
            identity=IDENTITY,
        )
        for number in range(count)
    ]
    decisions, deciding = _timed(lambda: [decide(size, HIVE, now=NOW) for size in sizes])
    _, by_thresholds = _timed(lambda: choose(decisions, Budget(max_partitions=count // 2)))
    budget = Budget(max_core_seconds=600)
    _, by_value = _timed(lambda: choose(decisions, budget))
    return {
        "partitions": count,
        "decide_s": round(deciding, 2),
        "choose_by_thresholds_s": round(by_thresholds, 2),
        "choose_by_value_s": round(by_value, 2),
    }


def _timed(work: Any) -> tuple[Any, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


if __name__ == "__main__":
    main()
