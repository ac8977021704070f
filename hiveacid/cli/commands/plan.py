"""`hiveacid plan`: the actions of a compaction, and their reasons."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hiveacid.cli import policy, target
from hiveacid.cli.command import Command
from hiveacid.cli.output import first_decisions, print_rest, print_table
from hiveacid.errors import DataError, HiveAcidError, UserError
from hiveacid.jobs import codec
from hiveacid.jobs.job import READ, Access
from hiveacid.jobs.table_properties import ORC_COMPRESS
from hiveacid.metastore.authorizer import may_access, system_user
from hiveacid.rules.compaction import Forecast
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.locks import MATRIX, matrix_rows
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import bytes_in_words

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table",
        nargs="?",
        metavar="DB.TABLE",
        help="a table, or a pattern of transactional tables, like 'sales.*'",
    )
    target.add_metastore(parser)
    target.add_partitions(parser)
    target.add_json(parser)
    policy.add_arguments(parser)
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
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import tables_of
    from hiveacid.upkeep.survey import Survey

    if arguments.table is None:
        return _print_conflicts(arguments)
    name = TableRef.parse(arguments.table).full_name
    partitions, budget = target.partitions(arguments), policy.budget(arguments)
    survey_policy = policy.policy(arguments)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        print(f"hiveacid: measuring {name} ...", file=sys.stderr, flush=True)
        refs = tables_of(client, name)
        if "*" in name:
            user = system_user()
            refs = [ref for ref in refs if may_access(user, Access(ref.full_name, None, READ))]
        decisions = rank(Survey(client, survey_policy).survey(refs, partitions), budget)
        # The forecasts of thousands of partitions take minutes.
        listed_decisions = (
            decisions if arguments.json else first_decisions(decisions, arguments.limit)
        )
        forecasts = _forecasts(client, listed_decisions)
        advice = None if "*" in name else _advice(client, refs[0])
    if arguments.json:
        description = _as_json(name, decisions, forecasts) | {"advice": advice}
        if arguments.conflicts:
            description |= _conflicts()
        print(json.dumps(description, ensure_ascii=False))
    else:
        _print(name, decisions, list(zip(listed_decisions, forecasts, strict=True)))
        if advice:
            print(advice)
        if arguments.conflicts:
            print()
            _print_matrix()
    unreadable = any(decision.size.problem is not None for decision in decisions)
    return DataError.exit_code if unreadable else 0


COMMAND = Command(
    name="plan",
    help="show the partitions that need a compaction, and why",
    description="Measure the partitions of one or several tables and show which of them need a "
    "compaction, the most useful first, with the reason for every decision. Thresholds in the "
    "properties of a table take precedence over those given here. The footers of the files "
    "show the amount of work, and whether it requires Spark.",
    configure=_configure,
    run=run,
)


def _advice(client: "MetastoreClient", ref: TableRef) -> str | None:
    """Recommend a better codec where Hive is known to read it."""
    table = client.get_table(ref)
    if (
        table.format.name != "ORC"
        or ORC_COMPRESS in table.parameters
        or not client.features.reads_zstd
    ):
        return None
    return (
        f"{ref} states no codec. Files with zstd are smaller and written faster than with zlib, and"
        " this Hive reads them. If all other readers do, too: ALTER TABLE"
        f" {ref} SET TBLPROPERTIES ('{ORC_COMPRESS}' = 'ZSTD')."
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
    return {"conflicts": {first: sorted(later_jobs) for first, later_jobs in MATRIX.items()}}


def _print_matrix() -> None:
    print("Which of two writers that overlap in a partition succeed by the policy strict:")
    head, *rows = matrix_rows()
    print_table(head, rows)


def _forecasts(client: "MetastoreClient", decisions: Sequence[Decision]) -> list[Forecast | None]:
    """Predict the work of compactions; the failure of one of several tables is a warning."""
    from hiveacid.upkeep.compaction.placement import forecasts_of
    from hiveacid.upkeep.survey import compactable

    by_table: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_table.setdefault(decision.size.table, []).append(decision)
    forecasts_by_id: dict[int, Forecast | None] = {}
    for name, table_decisions in by_table.items():
        if all(decision.type is None for decision in table_decisions):
            continue
        try:
            forecasts = forecasts_of(
                client, compactable(client, TableRef.parse(name)), table_decisions
            )
        except HiveAcidError as error:
            if len(by_table) == 1:
                raise
            print(f"hiveacid: warning: the work on {name} is unknown: {error}", file=sys.stderr)
            continue
        forecasts_by_id |= {
            id(decision): forecast
            for decision, forecast in zip(table_decisions, forecasts, strict=True)
        }
    return [forecasts_by_id.get(id(decision)) for decision in decisions]


def _as_json(
    name: str, decisions: Sequence[Decision], forecasts: Sequence[Forecast | None]
) -> dict[str, Any]:
    partitions = []
    for decision, forecast in zip(decisions, forecasts, strict=True):
        plain = codec.encode(decision)
        work: dict[str, Any] = {"forecast": None, "run_in": None}
        if forecast is not None:
            work = {"forecast": codec.encode(forecast), "run_in": _place(forecast)}
        partitions.append(plain.pop("size") | plain | work)
    return {"table": name, "partitions": partitions}


def _place_of(decision: Decision, name: str) -> str:
    """The partition, with its table if several are planned."""
    table, partition = decision.size.table, decision.size.partition
    if partition is None:
        return table
    return partition if table == name else f"{table}/{partition}"


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
    name: str,
    decisions: Sequence[Decision],
    forecast_pairs: Sequence[tuple[Decision, Forecast | None]],
) -> None:
    called = [decision for decision in decisions if decision.type is not None]
    size = bytes_in_words(sum(decision.bytes for decision in called))
    waiting = sum(decision.deferred for decision in decisions)
    waits = f", {waiting} deferred" if waiting else ""
    print(f"{name}: {len(called)} of {len(decisions)} to compact, {size} to read{waits}")
    rows = [
        (
            "-" if decision.type is None else decision.type.value,
            _place_of(decision, name),
            "" if decision.type is None else bytes_in_words(decision.bytes),
            _place(forecast),
            _reason(decision, forecast),
        )
        for decision, forecast in forecast_pairs
    ]
    if rows:
        print_table(("type", "partition", "to read", "run in", "reason"), rows, right=[2])
    print_rest(len(decisions) - len(rows))
