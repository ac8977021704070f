"""The thresholds of automatic compaction on the command line."""

import argparse
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy, Engine, Measure
from airflow_hiveacid.text.quantities import parse_duration

_HIVE = CompactionPolicy()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an argument for each threshold and each limit."""
    policy = parser.add_argument_group("when a partition is worth compacting")
    policy.add_argument(
        "--max-deltas",
        type=int,
        default=_HIVE.max_deltas,
        metavar="N",
        help="above N directories of deltas (default: %(default)s)",
    )
    policy.add_argument(
        "--max-ratio",
        type=float,
        default=_HIVE.max_delta_ratio,
        metavar="R",
        help="above this share of the base in deltas (default: %(default)s)",
    )
    policy.add_argument(
        "--measure",
        choices=get_args(Measure),
        default=_HIVE.measure,
        help="what the share is counted in (default: %(default)s)",
    )
    policy.add_argument(
        "--major-after-hours",
        type=float,
        metavar="H",
        help="when the base is older and there is any delta (default: never)",
    )
    policy.add_argument(
        "--quiet-hours",
        metavar="FROM-TO",
        help="when --major-after-hours may act, in UTC, like 22:00-05:00 (default: any time)",
    )
    policy.add_argument(
        "--right-for",
        choices=get_args(Engine),
        help="compact partitions that this engine misreads (default: do not check)",
    )
    budget = parser.add_argument_group("how much at once, the most useful first")
    budget.add_argument("--max-bytes", type=int, metavar="N", help="read at most N bytes")
    budget.add_argument(
        "--max-partitions", type=int, metavar="N", help="compact at most N partitions"
    )


def add_value(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose compactions by benefit per cost."""
    value = parser.add_argument_group("the choice by benefit per cost, also of several tables")
    value.add_argument(
        "--budget",
        metavar="TIME",
        help="core-seconds for all compactions together, like 10m: rank them by the seconds that "
        "readers save for each core-second",
    )
    value.add_argument(
        "--max-wait",
        default="24h",
        metavar="TIME",
        help="compactions that are worth their cost run before they have waited for longer than "
        "this time, if the budget is sufficient (default: %(default)s)",
    )
    value.add_argument(
        "--every",
        default="1h",
        metavar="TIME",
        help="the time between runs with this budget (default: %(default)s)",
    )
    value.add_argument(
        "--read-samples",
        type=Path,
        metavar="FILE",
        help="add a sample of the locks of readers to this file, and use all samples in it",
    )
    value.add_argument(
        "--shadow", action="store_true", help="compare with the order of the thresholds"
    )


def policy(arguments: argparse.Namespace) -> CompactionPolicy:
    """The thresholds that were asked for.

    Raises:
        InvalidJob: One makes no sense.
    """
    policy = CompactionPolicy(
        max_deltas=arguments.max_deltas,
        max_delta_ratio=arguments.max_ratio,
        measure=arguments.measure,
        major_after_hours=arguments.major_after_hours,
        quiet_hours=arguments.quiet_hours,
        right_for=arguments.right_for,
    )
    policy.validate()
    return policy


def budget(arguments: argparse.Namespace) -> Budget:
    """The limits that were asked for.

    Raises:
        InvalidJob: One makes no sense.
    """
    budget = Budget(max_bytes=arguments.max_bytes, max_partitions=arguments.max_partitions)
    if getattr(arguments, "budget", None) is not None:
        budget = replace(
            budget,
            max_core_seconds=parse_duration(arguments.budget, "--budget").total_seconds(),
            max_wait_hours=parse_duration(arguments.max_wait, "--max-wait") / timedelta(hours=1),
            hours_between_runs=parse_duration(arguments.every, "--every") / timedelta(hours=1),
        )
    budget.validate()
    return budget
