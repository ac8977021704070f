"""`hiveacid metastore`: a Hive Metastore of one's own, for trying and testing."""

import argparse
from pathlib import Path

from hiveacid.cli.command import Command, until_ended
from hiveacid.jobs.options import METASTORE_VARIABLE
from hiveacid.metastore.dev.distribution import RELEASES


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the version of the started metastore."""
    parser.add_argument(
        "--version",
        choices=RELEASES,
        default=next(iter(RELEASES)),
        help="of the Hive Metastore, which is fetched once (default: %(default)s)",
    )


def _configure(parser: argparse.ArgumentParser) -> None:
    add_version(parser)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("hiveacid-metastore"),
        metavar="DIR",
        help="keeps its database, its log and its tables; given again, the command continues "
        "where it stopped (default: %(default)s)",
    )
    parser.add_argument(
        "--warehouse",
        type=Path,
        metavar="DIR",
        help="where tables go (default: a folder of the first one)",
    )
    parser.add_argument(
        "--port", type=int, default=9083, help="0 means any free port (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the metastore until it is stopped.

    Raises:
        JobFailed: The metastore did not start, or has ended by itself.
    """
    from hiveacid.metastore.dev.embedded import EmbeddedMetastore

    with (
        until_ended(),
        EmbeddedMetastore(
            arguments.version,
            directory=arguments.folder,
            port=arguments.port,
            warehouse=arguments.warehouse,
        ) as metastore,
    ):
        print(f"Hive Metastore {metastore.version}, in the folder {arguments.folder.absolute()}")
        print("Ctrl-C ends it. Connect the other commands to it:")
        print()
        print(f"export {METASTORE_VARIABLE}={metastore.uri}", flush=True)
        metastore.wait()
        metastore.require_running()
    return 0


COMMAND = Command(
    name="metastore",
    help="run a Hive Metastore on this machine, for trying out",
    description="Run a real Hive Metastore with its own database in the foreground until Ctrl-C. "
    "It needs Java 17 to 23, and version 4.2.0 needs 21, but no installation of Hive or Hadoop. It "
    "listens on this machine only, and accepts every local caller without authentication: use it "
    "for trials and tests only.",
    configure=_configure,
    run=run,
    action="metastore",
)
