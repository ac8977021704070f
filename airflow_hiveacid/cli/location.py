"""Which directories a command looks at, and with which snapshot.

A table is given by name: then the metastore says where its partitions are and what is visible. Or
it is given as a bare directory with the snapshot as text: then nothing but the files is needed.
"""

import argparse

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.cli import target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a table and a snapshot."""
    by_name = parser.add_argument_group("a table by name")
    by_name.add_argument("table", nargs="?", metavar="DB.TABLE", help="the table's name")
    target.add_metastore(by_name)
    by_path = parser.add_argument_group("a bare directory, no metastore needed")
    by_path.add_argument(
        "--path", metavar="DIR", help="folder of a table or of one partition, or its URI"
    )
    by_path.add_argument(
        "--write-ids",
        metavar="LIST",
        help="the snapshot, as Hive writes it: table:high watermark:lowest open:open:aborted, "
        "for example 'db.t:5:9223372036854775807::'",
    )
    by_path.add_argument(
        "--txns", metavar="LIST", help="the transactions that _v<txn> directories are checked with"
    )
    by_path.add_argument(
        "--write-id-kind",
        choices=("reader", "compactor"),
        default="reader",
        help="see what a reader (the default) or a compactor sees",
    )
    parser.add_argument(
        "--rules",
        type=Rules,
        choices=tuple(Rules),
        help="read a directory exactly as this Hive does; by default as the metastore's version or "
        "Hive 4 does, but without the rows that Hive 4.0 shows by mistake: those of an overwrite "
        "that is still open, and of a delta that was compacted onto its own range",
    )
