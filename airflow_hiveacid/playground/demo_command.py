"""`hiveacid demo`: a metastore, an Airflow and active tables, for exploration and experiments."""

import argparse
from pathlib import Path

from hiveacid.cli.command import Command, until_ended
from hiveacid.cli.commands.metastore import add_version
from hiveacid.errors import UserError

_LEAST_SECONDS = 5.0


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("hiveacid-demo"),
        metavar="DIR",
        help="keeps everything; given again, the command continues where it stopped (default: %(default)s)",
    )
    parser.add_argument("--fresh", action="store_true", help="empty the folder first")
    add_version(parser)
    parser.add_argument(
        "--port",
        type=int,
        help="of Airflow's page (default: 8080, or another one if that is taken)",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=90.0,
        metavar="SECONDS",
        help="from one load to the next (default: %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo until it is stopped."""
    from airflow_hiveacid.playground.playground import Playground

    if arguments.every < _LEAST_SECONDS:
        raise UserError(f"--every must be at least {_LEAST_SECONDS:g}, not {arguments.every:g}.")
    playground = Playground(
        arguments.folder,
        version=arguments.version,
        port=arguments.port,
        load_seconds=arguments.every,
        fresh=arguments.fresh,
    )
    with until_ended():
        playground.run()
    return 0


COMMAND = Command(
    name="demo",
    help="run a metastore and an Airflow with four example tables, for trying out",
    description="Start a separate Hive Metastore and Airflow, with four different tables, a DAG "
    "that writes to them periodically and one that compacts them when they need it, and stay "
    "in the foreground until Ctrl-C. The command prints the address of the page, and suggestions. It "
    "needs Java 17 to 23; all of its files are in one folder.",
    configure=_configure,
    run=run,
    action="demo",
)
