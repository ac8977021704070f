"""`hiveacid plan`: the actions of a compaction, and their reasons."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from airflow_hiveacid.acid.compaction_choice import choose
from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.acid.compaction_forecast import Forecast
from airflow_hiveacid.acid.compaction_policy import WorkerLimits
from airflow_hiveacid.acid.conflicts import MATRIX, matrix_rows
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.cli import policy, target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.ranked_plan import print_ranking
from airflow_hiveacid.cli.shown_partitions import first_decisions, print_rest
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.errors import DataError, UserError
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.text.quantities import bytes_in_words


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table",
        nargs="?",
        metavar="DB.TABLE",
        help="the table's name; with --budget also a pattern, like 'sales.*'",
    )
    target.add_metastore(parser)
    target.add_partitions(parser)
    target.add_json(parser)
    policy.add_arguments(parser)
    policy.add_value(parser)
    target.add_limit(parser, "print the first N partitions, of which --json lists all")
    parser.add_argument(
        "--conflicts",
        action="store_true",
        help="show which writers of one partition can overlap with --conflict-policy strict, below "
        "the plan; without a table, only that",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a decision for every partition.

    Returns:
        0, or the exit code of unreadable data when a partition cannot be read.
    """
    from airflow_hiveacid.compaction.placement import forecasts_of
    from airflow_hiveacid.maintenance.survey import Survey, compactable
    from airflow_hiveacid.metastore.client import MetastoreClient

    if arguments.table is None:
        return _print_conflicts(arguments)
    ref = TableRef.parse(arguments.table)
    partitions, budget = target.partitions(arguments), policy.budget(arguments)
    if budget.max_core_seconds is not None:
        return print_ranking(arguments, budget)
    if arguments.shadow or arguments.read_samples:
        raise UserError(
            "--shadow and --read-samples compare compactions by their value.",
            remedy="Set --budget, too.",
        )
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        print(f"hiveacid: measuring {ref} ...", file=sys.stderr, flush=True)
        survey = Survey(client, policy.policy(arguments))
        decisions = choose(survey.survey([ref], partitions), budget)
        # The forecasts of thousands of partitions take minutes.
        shown = decisions if arguments.json else first_decisions(decisions, arguments.limit)
        forecasts = forecasts_of(client, compactable(client, ref), shown)
    if arguments.json:
        described = _as_json(ref, decisions, forecasts)
        if arguments.conflicts:
            described |= _conflicts()
        print(json.dumps(described, ensure_ascii=False))
    else:
        _print(ref, decisions, list(zip(shown, forecasts, strict=True)))
        if arguments.conflicts:
            print()
            _print_matrix()
    unreadable = any(decision.size.problem is not None for decision in decisions)
    return DataError.exit_code if unreadable else 0


COMMAND = Command(
    name="plan",
    help="show the partitions that need a compaction, and why",
    description="Measure the partitions of a table and show which of them need a "
    "compaction, the most useful first, with the reason for every decision. Thresholds in the "
    "properties of the table take precedence over those given here. The footers of the files "
    "show the amount of work, and whether it requires Spark. With --budget, compactions are ranked "
    "by the reading time that they save until the next one is due, for each core-second.",
    configure=_configure,
    run=run,
)


def _print_conflicts(arguments: argparse.Namespace) -> int:
    """Print the writers that can overlap, which are the same for all tables."""
    if not arguments.conflicts:
        raise UserError("hiveacid plan needs a table, or --conflicts.")
    if arguments.json:
        print(json.dumps(_conflicts()))
    else:
        _print_matrix()
    return 0


def _conflicts() -> dict[str, dict[str, list[str]]]:
    return {"conflicts": {first: sorted(then) for first, then in MATRIX.items()}}


def _print_matrix() -> None:
    print("Which of two writers that overlap in a partition succeed by the policy strict:")
    head, *rows = matrix_rows()
    print_table(head, rows)


def _as_json(
    ref: TableRef, decisions: Sequence[Decision], forecasts: Sequence[Forecast | None]
) -> dict[str, Any]:
    partitions = []
    for decision, forecast in zip(decisions, forecasts, strict=True):
        plain = codec.encode(decision)
        work: dict[str, Any] = {"forecast": None, "run_in": None}
        if forecast is not None:
            work = {"forecast": codec.encode(forecast), "run_in": _place(forecast)}
        partitions.append(plain.pop("size") | plain | work)
    return {"table": ref.full_name, "partitions": partitions}


def _place(forecast: Forecast | None) -> str:
    """The processes that a compaction runs in if its job leaves the choice open."""
    if forecast is None:
        return "-"
    return "worker" if forecast.excess(WorkerLimits()) is None else "spark"


def _reason(decision: Decision, forecast: Forecast | None) -> str:
    """The reason for a decision, and for Spark if it is necessary."""
    excess = None if forecast is None else forecast.excess(WorkerLimits())
    return decision.reason if excess is None else f"{decision.reason} On Spark: {excess}"


def _print(
    ref: TableRef,
    decisions: Sequence[Decision],
    shown: Sequence[tuple[Decision, Forecast | None]],
) -> None:
    called = [decision for decision in decisions if decision.type is not None]
    size = bytes_in_words(sum(decision.bytes for decision in called))
    print(f"{ref}: {len(called)} of {len(decisions)} to compact, {size} to read")
    rows = [
        (
            "-" if decision.type is None else decision.type.value,
            decision.size.partition or ref.full_name,
            "" if decision.type is None else bytes_in_words(decision.bytes),
            _place(forecast),
            _reason(decision, forecast),
        )
        for decision, forecast in shown
    ]
    if rows:
        print_table(("type", "partition", "to read", "run in", "reason"), rows, right=[2])
    print_rest(len(decisions) - len(rows))
