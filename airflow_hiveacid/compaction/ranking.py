"""Ranking of the compactions of one or several tables by benefit per cost, with its evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.compaction_choice import choose
from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.acid.compaction_fit import PastRun, fitted_rates
from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.acid.compaction_value import CostRates
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.read_rates import ReadSamples
from airflow_hiveacid.compaction.past_compactions import past_compactions
from airflow_hiveacid.compaction.placement import forecasts_of
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.maintenance.read_evidence import run_reads, with_rate
from airflow_hiveacid.maintenance.survey import compactable
from airflow_hiveacid.metastore.client import MetastoreClient

# The footers of more partitions take longer than the estimates are wrong.
_MOST_FOOTERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Decisions in the order of their value.

    Attributes:
        decisions: All decisions, the compactions to run now first.
        rates: The cost rates.
        past_runs: The number of earlier compactions that the rates were fitted to.
        unknown: The tables whose evidence could not be read, with the reasons.
    """

    decisions: Sequence[Decision]
    rates: CostRates
    past_runs: int
    unknown: Mapping[str, str]


def rank(
    client: MetastoreClient,
    decisions: Sequence[Decision],
    budget: Budget,
    samples: ReadSamples | None = None,
) -> Ranking:
    """Rank compactions by benefit per cost.

    Rates of reads come from the table property, the notes on runs, and samples of locks. The cost
    comes from the footers of the files, and from the notes of earlier compactions.

    Args:
        client: The metastore.
        decisions: The decisions on all partitions of some tables.
        budget: The limits, with one of core-seconds.
        samples: Samples of locks.
    """
    by_table: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_table.setdefault(decision.size.table, []).append(decision)
    ready: list[Decision] = []
    runs: list[PastRun] = []
    unknown: dict[str, str] = {}
    footers = _MOST_FOOTERS
    for name, of_table in by_table.items():
        called = sum(decision.type is not None for decision in of_table)
        if not called:
            ready += of_table
            continue
        try:
            with_evidence, past = _with_evidence(
                client, name, of_table, samples or ReadSamples(), footers=called <= footers
            )
        except HiveAcidError as error:
            # The others are ranked regardless, and this table by its sizes.
            unknown[name] = str(error)
            ready += of_table
            continue
        ready += with_evidence
        runs += past
        footers -= called
    rates = fitted_rates(runs)
    return Ranking(
        decisions=choose(ready, budget, rates),
        rates=rates,
        past_runs=len(runs),
        unknown=unknown,
    )


def _with_evidence(
    client: MetastoreClient,
    name: str,
    decisions: Sequence[Decision],
    samples: ReadSamples,
    *,
    footers: bool,
) -> tuple[list[Decision], list[PastRun]]:
    """Add the rates of reads and the work to the decisions on one table."""
    table = compactable(client, TableRef.parse(name))
    runs = run_reads(client, table)
    ready = [with_rate(decision, samples, runs) for decision in decisions]
    if footers:
        works = forecasts_of(client, table, ready)
        ready = [replace(decision, work=work) for decision, work in zip(ready, works, strict=True)]
    return ready, past_compactions(client, table, [decision.size for decision in decisions])
