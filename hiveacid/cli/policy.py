"""The thresholds of automatic compaction on the command line."""

import argparse
from datetime import timedelta
from typing import get_args

from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, Engine, Measure
from hiveacid.rules.texts import parse_duration

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
    budget.add_argument(
        "--max-wait",
        default="7 days",
        metavar="TIME",
        help="compactions that have waited for longer come before more useful ones "
        "(default: %(default)s)",
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
    budget = Budget(
        max_bytes=arguments.max_bytes,
        max_partitions=arguments.max_partitions,
        max_wait_hours=parse_duration(arguments.max_wait, "--max-wait") / timedelta(hours=1),
    )
    budget.validate()
    return budget
