"""Which table the commands work on that look after tables."""

import argparse
from collections.abc import Sequence

from airflow_hiveacid.jobs.options import MetastoreOptions, require_partition_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a table, its metastore and its partitions."""
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    parser.add_argument(
        "--metastore", metavar="URI", required=True, help="for example thrift://localhost:9083"
    )
    parser.add_argument(
        "--partition",
        dest="partitions",
        action="append",
        metavar="NAME",
        help="only this partition, as the metastore names it: day=2026-03-01/country=de; may be "
        "given several times",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def metastore(arguments: argparse.Namespace) -> MetastoreOptions:
    """How the metastore is reached.

    Raises:
        InvalidJob: The address cannot be read.
    """
    options = MetastoreOptions(uris=arguments.metastore)
    options.validate()
    return options


def partitions(arguments: argparse.Namespace) -> Sequence[str] | None:
    """The names of the partitions that were asked for; None is all of them.

    Raises:
        InvalidJob: One is not the name of a partition.
    """
    if arguments.partitions is not None:
        require_partition_names(arguments.partitions)
    names: Sequence[str] | None = arguments.partitions
    return names
