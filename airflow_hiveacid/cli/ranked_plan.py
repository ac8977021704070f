"""The plan of compactions by benefit per cost: `hiveacid plan --budget`."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.acid.compaction_choice import in_threshold_order
from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.authorizer import may_access, system_user
from airflow_hiveacid.cli import policy, target
from airflow_hiveacid.cli.shown_partitions import first_decisions, print_rest
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.errors import DataError
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.job import READ, Access
from airflow_hiveacid.text.quantities import duration_in_words

if TYPE_CHECKING:
    from airflow_hiveacid.compaction.ranking import Ranking

_HEAD = ("rank", "type", "partition", "benefit", "cost", "ratio", "reads/h", "source", "reason")


def print_ranking(arguments: argparse.Namespace, budget: Budget) -> int:
    """Print the compactions of one or several tables in the order of their value.

    Args:
        arguments: The arguments of the command.
        budget: The limits, with one of core-seconds.

    Returns:
        0, or the exit code of unreadable data when a partition cannot be read.
    """
    from airflow_hiveacid.cli.read_sample_file import load_samples, save_samples
    from airflow_hiveacid.compaction.ranking import rank
    from airflow_hiveacid.maintenance.read_evidence import with_sample
    from airflow_hiveacid.maintenance.survey import Survey
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.many_tables import tables_of

    path = arguments.read_samples
    samples = None if path is None else load_samples(path)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        refs = tables_of(client, arguments.table)
        if "*" in arguments.table:
            refs = [
                ref for ref in refs if may_access(system_user(), Access(ref.full_name, None, READ))
            ]
        print(f"hiveacid: measuring {arguments.table} ...", file=sys.stderr, flush=True)
        survey = Survey(client, policy.policy(arguments))
        decisions = survey.survey(refs, target.partitions(arguments))
        if samples is not None:
            samples = with_sample(samples, client, decisions)
            save_samples(path, samples)
        ranking = rank(client, decisions, budget, samples)
    plan = _RankedPlan(ranking, budget)
    for table, reason in ranking.unknown.items():
        print(f"hiveacid: warning: {table} is ranked by its sizes: {reason}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(plan.as_json(arguments.table, arguments.shadow), ensure_ascii=False))
    else:
        plan.print(arguments.table, arguments.shadow, arguments.limit)
    unreadable = any(decision.size.problem is not None for decision in decisions)
    return DataError.exit_code if unreadable else 0


@dataclass
class _RankedPlan:
    """The decisions in the order of their value, and in that of the thresholds.

    Attributes:
        ranking: The decisions.
        budget: The limits.
    """

    ranking: "Ranking"
    budget: Budget

    @property
    def taken(self) -> list[Decision]:
        """The compactions to run now, the most valuable first."""
        return [each for each in self.ranking.decisions if each.type is not None]

    @cached_property
    def shadow(self) -> list[Decision]:
        """The compactions that the order of the thresholds would run with the same budget."""
        necessary = [each for each in self.ranking.decisions if each.value is not None]
        return in_threshold_order(necessary, self.budget.max_core_seconds or 0.0)

    def print(self, name: str, shadow: bool, limit: int) -> None:
        """Print the plan for people."""
        waiting = sum(each.value is not None for each in self.ranking.decisions) - len(self.taken)
        within = duration_in_words(self.budget.max_core_seconds or 0.0)
        print(
            f"{name}: {len(self.taken)} of {len(self.ranking.decisions)} to compact within"
            f" {within}, {waiting} deferred. {_totals(self.taken)}"
        )
        before = {_key(each): str(number) for number, each in enumerate(self.shadow, 1)}
        head = (_HEAD[0], "threshold rank", *_HEAD[1:]) if shadow else _HEAD
        numbers = {_key(each): number for number, each in enumerate(self.ranking.decisions, 1)}
        rows = []
        for decision in first_decisions(self.ranking.decisions, limit):
            now, *others = _row(numbers[_key(decision)], decision)
            own = [before.get(_key(decision), "-")] if shadow else []
            rows.append((now, *own, *others))
        if rows:
            first = 4 if shadow else 3
            print_table(head, rows, right=[0, *range(first, first + 4)])
        print_rest(len(self.ranking.decisions) - len(rows))
        if shadow:
            print(f"In the order of the thresholds: {len(self.shadow)}. {_totals(self.shadow)}")

    def as_json(self, name: str, shadow: bool) -> dict[str, Any]:
        """Return the plan for programs."""
        partitions = []
        for number, decision in enumerate(self.ranking.decisions, 1):
            plain = codec.encode(decision)
            rank = number if decision.type is not None else None
            partitions.append(plain.pop("size") | plain | {"rank": rank})
        plan = {
            "table": name,
            "partitions": partitions,
            "budget": codec.encode(self.budget),
            "rates": codec.encode(self.ranking.rates),
            "past_runs": self.ranking.past_runs,
            "chosen": _sums(self.taken),
        }
        if shadow:
            named = [[each.size.table, each.size.partition] for each in self.shadow]
            plan["shadow"] = _sums(self.shadow) | {"partitions": named}
        return plan


def _row(number: int, decision: Decision) -> tuple[str, ...]:
    size, value = decision.size, decision.value
    place = size.table if size.partition is None else f"{size.table}/{size.partition}"
    type_ = "-" if decision.type is None else decision.type.value
    if value is None:
        return ("-", type_, place, "", "", "", "", "", decision.reason)
    rank = "-" if decision.type is None else "first" if decision.required else str(number)
    return (
        rank,
        type_,
        place,
        f"{value.benefit:,.1f} s",
        f"{value.cost:,.2f} s",
        f"{value.ratio:,.3g}",
        f"{value.reads.per_hour:,.2g}",
        value.reads.source,
        f"{decision.reason} Reads: {value.reads.evidence}.",
    )


def _totals(decisions: Sequence[Decision]) -> str:
    sums = _sums(decisions)
    return f"Readers save {sums['benefit']:,.1f} s for {sums['cost']:,.1f} core-seconds."


def _sums(decisions: Sequence[Decision]) -> dict[str, float]:
    values = [each.value for each in decisions if each.value is not None]
    return {
        "compactions": len(values),
        "benefit": sum(value.benefit for value in values),
        "cost": sum(value.cost for value in values),
    }


def _key(decision: Decision) -> tuple[str, str | None]:
    return decision.size.table, decision.size.partition
