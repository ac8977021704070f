"""`hiveacid plan`: the actions of a compaction, and their reasons."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from airflow_hiveacid.acid.compaction_decision import Decision, choose
from airflow_hiveacid.acid.conflicts import MATRIX, matrix_rows
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cli import policy, target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.errors import DataError
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.text.quantities import bytes_in_words


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_arguments(parser)
    policy.add_arguments(parser)
    parser.add_argument(
        "--conflicts",
        action="store_true",
        help="show which writers of one partition can overlap with --conflict-policy strict, below "
        "the plan",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a decision for every partition.

    Returns:
        0, or the exit code of unreadable data when a partition cannot be read.
    """
    from airflow_hiveacid.maintenance.survey import Survey
    from airflow_hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    partitions, budget = target.partitions(arguments), policy.budget(arguments)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        print(f"hiveacid: measuring {ref} ...", file=sys.stderr, flush=True)
        survey = Survey(client, policy.policy(arguments))
        decisions = choose(survey.survey([ref], partitions), budget)
    if arguments.json:
        shown = _as_json(ref, decisions)
        if arguments.conflicts:
            shown["conflicts"] = {first: sorted(then) for first, then in MATRIX.items()}
        print(json.dumps(shown, ensure_ascii=False))
    else:
        _print(ref, decisions)
        if arguments.conflicts:
            print(
                "\nWhich of two writers that overlap in a partition succeed by the policy strict:"
            )
            head, *rows = matrix_rows()
            print_table(head, rows)
    unreadable = any(decision.size.problem is not None for decision in decisions)
    return DataError.exit_code if unreadable else 0


COMMAND = Command(
    name="plan",
    help="show what is worth compacting, and why",
    description="Measure the partitions of a table and show which of them are worth "
    "compacting, the most useful first, with a reason for every yes and every no. Thresholds "
    "that the table sets for itself come before those given here.",
    configure=_configure,
    run=run,
)


def _as_json(ref: TableRef, decisions: Sequence[Decision]) -> dict[str, Any]:
    partitions = []
    for decision in decisions:
        plain = codec.encode(decision)
        partitions.append(plain.pop("size") | plain)
    return {"table": ref.full_name, "partitions": partitions}


def _print(ref: TableRef, decisions: Sequence[Decision]) -> None:
    called = [decision for decision in decisions if decision.type is not None]
    size = bytes_in_words(sum(decision.bytes for decision in called))
    print(f"{ref}: {len(called)} of {len(decisions)} to compact, {size} to read")
    rows = [
        (
            "-" if decision.type is None else decision.type.value,
            decision.size.partition or ref.full_name,
            "" if decision.type is None else bytes_in_words(decision.bytes),
            decision.reason,
        )
        for decision in decisions
    ]
    if rows:
        print_table(("type", "partition", "to read", "reason"), rows, right=[2])
