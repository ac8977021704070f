"""Arguments for a command's metastore, table and snapshot."""

import argparse
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, get_args

from hiveacid.errors import InvalidConnection, UserError
from hiveacid.jobs.fields import require_partition_names
from hiveacid.jobs.options import (
    FROM_ENVIRONMENT,
    KERBEROS,
    METASTORE_PROFILES,
    METASTORE_VARIABLE,
    NO_PROOF,
    PROTECTIONS,
    MetastoreOptions,
    settings_of_environment,
)
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import ConflictPolicy
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import AsOf

# Metastore options of an Airflow connection, for commands outside of tasks


# Imported by its name: the library does not depend on the provider.
_HOOK = "airflow_hiveacid.hooks.metastore"


def connection_options(conn_id: str) -> MetastoreOptions:
    """Return the metastore options of an Airflow connection.

    Args:
        conn_id: The connection.

    Raises:
        InvalidConnection: The connection does not exist or is incomplete.
    """
    try:
        hook = import_module(_HOOK).HiveAcidMetastoreHook
    except ModuleNotFoundError as error:
        raise InvalidConnection(
            "A connection needs Airflow and the provider airflow-hiveacid, which are not installed "
            "here.",
            remedy="Use --metastore.",
        ) from error
    # As Airflow's own commands do: connections are read from its database, too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    options: MetastoreOptions = hook(conn_id).options()
    return options


# The metastore's address, unless an argument specifies it.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a table, its metastore and its partitions."""
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    add_metastore(parser)
    add_partitions(parser)
    add_json(parser)


def add_actions(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Add the actions of a command, one of them ``list``, which is the one without a name."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parse = parser.parse_known_args

    def parse_with_action(args: Any = None, namespace: Any = None) -> Any:
        has_action = args is None or {*args} & {*actions.choices, "-h", "--help"}
        completes = "_ARGCOMPLETE" in os.environ
        return parse(args if has_action or completes else ["list", *args], namespace)

    parser.parse_known_args = parse_with_action  # type: ignore[method-assign]
    return actions


def add_metastore(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the arguments that name a metastore."""
    parser.add_argument(
        "--metastore",
        metavar="URI",
        help="for example thrift://localhost:9083 (default: the variable HIVEACID_METASTORE)",
    )
    parser.add_argument(
        "--conn-id", metavar="ID", help="an Airflow connection to a metastore, instead of its URI"
    )
    parser.add_argument(
        "--tls", action="store_true", help="TLS for thrift://, by the system's authorities"
    )
    parser.add_argument("--tls-ca-file", metavar="FILE", help="TLS by the authorities in this file")
    parser.add_argument(
        "--column-mapping",
        choices=list(map(str, ColumnMapping)),
        help="how columns are found in ORC files that are older than a change of the columns "
        "(default: as Hive does, where it is known)",
    )
    parser.add_argument(
        "--metastore-profile",
        choices=METASTORE_PROFILES,
        help="the kind of metastore, for features that it cannot be asked for (default: the variable "
        "HIVEACID_METASTORE_PROFILE, or auto)",
    )
    parser.add_argument(
        "--auth-mechanism",
        choices=(NO_PROOF, KERBEROS),
        help="GSSAPI is Kerberos (default of this and of the next ones: the variables "
        "HIVEACID_AUTH_MECHANISM, HIVEACID_KERBEROS_SERVICE_NAME and so on)",
    )
    parser.add_argument(
        "--kerberos-service-name",
        metavar="NAME",
        help="first part of the metastore's principal, or all of it: hive/_HOST@REALM",
    )
    parser.add_argument("--kerberos-principal", metavar="NAME", help="who logs in")
    parser.add_argument("--kerberos-keytab", metavar="FILE", help="the principal's key")
    parser.add_argument(
        "--kerberos-ccache",
        metavar="CACHE",
        help="the location of the ticket, if it is not that of KRB5CCNAME",
    )
    parser.add_argument(
        "--kerberos-min-protection",
        choices=PROTECTIONS,
        help="refuse a connection that is protected less",
    )


def add_snapshot(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a table and a snapshot.

    A table is given by name: then the metastore provides its partitions and the visible data. Or it
    is given as a bare directory with the snapshot as text: then only its files are read.
    """
    by_name = parser.add_argument_group("a table by name")
    by_name.add_argument("table", nargs="?", metavar="DB.TABLE", help="the table's name")
    add_metastore(by_name)
    by_name.add_argument(
        "--as-of",
        type=AsOf.parse,
        metavar="VERSION",
        help="read it as it was after this write id, or at this time: 2026-03-01T12:00:00+00:00, in "
        "UTC if there is no zone",
    )
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
        help="use the view of a reader (the default) or of a compactor",
    )
    parser.add_argument(
        "--rules",
        choices=[rules.value for rules in Rules],
        help="read a directory exactly as this Hive does; by default as the metastore's version or "
        "Hive 4 does, but without the rows that Hive 4.0 shows by mistake: those of an overwrite "
        "that is still open, and of a delta that was compacted onto its own range",
    )


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names partitions."""
    parser.add_argument(
        "--partition",
        dest="partitions",
        action="append",
        metavar="NAME",
        help="only this partition, as the metastore names it: day=2026-03-01/country=de; may be "
        "given several times",
    )


def add_limit(parser: argparse.ArgumentParser, subject: str, default: int | None = 100) -> None:
    """Add the argument that limits the number of printed rows.

    Args:
        parser: The parser of a command.
        subject: The limited rows, for the help.
        default: The number without the argument; None prints all.
    """
    without = "" if default is None else " (default: %(default)s)"
    parser.add_argument(
        "--limit", type=_limit, default=default, metavar="N", help=f"{subject}{without}"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the switch for machine-readable output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_conflict_policy(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the policy on overlapping writers."""
    parser.add_argument(
        "--conflict-policy",
        choices=get_args(ConflictPolicy),
        default="hive",
        help="the outcome if others commit concurrently in the same partitions: the metastore "
        "decides; or it fails also in the cases that `hiveacid plan --conflicts` shows; or changes of "
        "different rows are both applied (default: %(default)s)",
    )


def metastore(arguments: argparse.Namespace) -> MetastoreOptions:
    """Return the options of the metastore.

    Raises:
        InvalidConnection: The Airflow connection cannot be used.
        InvalidJob: The address cannot be read.
        UserError: No metastore is named, or it is named in two ways.
    """
    uris = arguments.metastore
    if not arguments.conn_id:
        uris = uris or os.environ.get(METASTORE_VARIABLE)
    if bool(uris) == bool(arguments.conn_id):
        raise UserError(
            "Name a metastore: --metastore URI, or --conn-id of Airflow.",
            remedy=f"{METASTORE_VARIABLE}=thrift://host:9083 in the environment names it, too.",
        )
    if arguments.conn_id and (
        arguments.tls
        or arguments.tls_ca_file
        or arguments.column_mapping
        or any(getattr(arguments, name) for name in FROM_ENVIRONMENT)
    ):
        raise UserError(
            "--tls, --column-mapping, --metastore-profile and the arguments for Kerberos need --metastore: a connection has"
            " settings of its own."
        )
    if uris:
        return MetastoreOptions.of(
            MetastoreOptions(
                uris=uris,
                tls=arguments.tls,
                tls_ca_file=arguments.tls_ca_file,
                column_mapping=arguments.column_mapping,
                **_of_arguments(arguments),
            )
        )
    return connection_options(arguments.conn_id)


def _of_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the arguments, or else of the environment."""
    argument_values = {name: getattr(arguments, name, None) for name in FROM_ENVIRONMENT}
    return settings_of_environment() | {
        name: value for name, value in argument_values.items() if value
    }


def job_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a job on a table and on some of its partitions.

    Raises:
        InvalidConnection: The Airflow connection cannot be used.
        InvalidJob: The address, or the name of a partition, cannot be read.
        UserError: No metastore is named, or it is named in two ways.
    """
    return {
        "target": TableRef.parse(arguments.table).full_name,
        "metastore": metastore(arguments),
        "partitions": partitions(arguments),
    }


def partitions(arguments: argparse.Namespace) -> Sequence[str] | None:
    """Return the names of the requested partitions; None for all partitions.

    Raises:
        InvalidJob: A name is not the name of a partition.
    """
    if arguments.partitions is not None:
        require_partition_names(arguments.partitions)
    names: Sequence[str] | None = arguments.partitions
    return names


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0.")
    return int(text)
