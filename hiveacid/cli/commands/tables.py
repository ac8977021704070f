"""`hiveacid tables`: the health of all tables."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from hiveacid.cli import target
from hiveacid.cli.bar import Bar
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.errors import DataError
from hiveacid.jobs import codec
from hiveacid.jobs.job import SHOW, Access
from hiveacid.metastore.authorizer import may_access, system_user
from hiveacid.rules.quantities import bytes_in_words, duration_in_words
from hiveacid.upkeep.health_score import TableHealth

if TYPE_CHECKING:
    from hiveacid.upkeep.health import HealthMeter

_HEAD = (
    "score",
    "table",
    "deltas",
    "base",
    "in deltas",
    "deletes",
    "obsolete",
    "oldest",
    "verdict",
)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="DB.TABLE for a table, DB for all transactional tables of a database (default: those "
        "of all databases)",
    )
    target.add_metastore(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the health of every table, the worst first.

    Returns:
        0, or the exit code of unreadable data when a table cannot be measured.
    """
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.health import HealthMeter

    bar = Bar("measuring") if Bar.fits() else None
    measured: list[TableHealth] = []
    worst: TableHealth | None = None
    with bar or nullcontext(), closing(MetastoreClient(target.metastore(arguments))) as client:
        if bar is None:
            print("hiveacid: measuring ...", file=sys.stderr, flush=True)
        for health in _measure(HealthMeter(client), arguments.names):
            if may_access(system_user(), Access(health.table, (), SHOW)):
                measured.append(health)
                worst = health if worst is None else min(worst, health, key=_rank)
            if bar is not None:
                # All tables take minutes in a large installation, and the list begins with the worst.
                so_far = "" if worst is None else f"; worst so far: {worst.table}, {worst.score}"
                bar.step(f"measured {health.table}{so_far}")
                bar.one_more()
    healths = sorted({health.table: health for health in measured}.values(), key=_rank)
    if arguments.json:
        described = [codec.encode(health) for health in healths]
        print(json.dumps({"tables": described}, ensure_ascii=False))
    elif healths:
        print_table(_HEAD, [_row(health) for health in healths], right=[0, 2, 3, 4, 5, 6, 7])
    else:
        print("No transactional table.")
    return DataError.exit_code if any(health.error for health in healths) else 0


COMMAND = Command(
    name="tables",
    help="show the health of all tables, the worst first",
    description="Show for every transactional table its deltas, its base, the files that wait "
    "for cleaning, active readers and writers with their ages, and the decision of a compaction "
    "policy. The score begins at 100; --json lists the reasons for lost points.",
    configure=_configure,
    run=run,
    asks=True,
)


def _measure(meter: "HealthMeter", names: Sequence[str]) -> Iterator[TableHealth]:
    """The health of the tables and databases that are named, or of all."""
    if named := [name for name in names if "." in name]:
        yield from meter.measure(tables=named)
    for database in [name for name in names if "." not in name]:
        yield from meter.measure(database)
    if not names:
        yield from meter.measure()


def _rank(health: TableHealth) -> tuple[int, str]:
    return health.score, health.table


def _row(health: TableHealth) -> tuple[str, ...]:
    txn = health.oldest_txn
    age = ""
    if txn is not None and txn.opened_at is not None:
        age = duration_in_words(health.measured_at - txn.opened_at)
    return (
        str(health.score),
        health.table,
        str(health.deltas),
        bytes_in_words(health.base_bytes),
        bytes_in_words(health.delta_bytes),
        f"{100 * health.delete_ratio:.0f} %",
        bytes_in_words(health.obsolete_bytes),
        age if txn is None or txn.txn_id is None else f"{age} (txn {txn.txn_id})".lstrip(),
        health.verdict,
    )
