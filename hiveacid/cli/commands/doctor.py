"""`hiveacid doctor`: check for obstacles to jobs on this machine before they run."""

import argparse
import json
import os
import platform
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.dataclass import dataclass
from hiveacid.drivers.spark_support import installed_spark, require_supported_spark
from hiveacid.errors import CorruptFile, HiveAcidError, UserError
from hiveacid.jobs import codec
from hiveacid.rules.location import Location
from hiveacid.rules.names import STAGING_PREFIX, Delta, TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import plural

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient

_PACKAGES = ("hiveacid", "airflow-hiveacid", "apache-airflow", "pyspark", "pyarrow", "thrift")
_PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    Attributes:
        name: The checked subject.
        ok: False if jobs cannot run with it, or if the metastore has a known problem.
        found: The finding.
        remedy: The remedy.
        exit_code: The exit status that it makes; 0 if jobs can run nevertheless.
        undetermined: The evidence does not decide.
        title: The known problem in a few words.
        details: The features of the metastore, each with its value and the reason.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""
    exit_code: int = 0
    undetermined: bool = False
    title: str = ""
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The result in a word."""
        if self.undetermined:
            return "?"
        return "ok" if self.ok else "FAILED" if self.exit_code else "WARN"


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_metastore(parser)
    parser.add_argument(
        "--table",
        metavar="DB.TABLE",
        help="also check this table: whether its folder can be written, and whether each of its "
        "files is valid for Hive's readers, byte by byte",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="also start the Spark of this Python, and compare its results with those of the tested "
        "versions, in files of a temporary folder",
    )
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings, check by check.

    Returns:
        0, or the exit code of the first check that failed.
    """
    checks = []
    for check in _checks(arguments):
        checks.append(check)
        if not arguments.json:
            for line in _as_text(check):
                print(line, flush=True)
    if arguments.json:
        descriptions = [codec.encode(check) for check in checks]
        print(json.dumps({"checks": descriptions}, ensure_ascii=False))
    return next((check.exit_code for check in checks if check.exit_code), 0)


COMMAND = Command(
    name="doctor",
    help="check whether jobs can run",
    description="Check the installed packages, Java, the metastore, its features and transactions, known problems "
    "of its release, and write access to the warehouse, from this machine as this user: a Spark job on a "
    "cluster may run on another machine, as another user.",
    configure=_configure,
    run=run,
    action="doctor",
)


def _checks(arguments: argparse.Namespace) -> Iterator[Check]:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.dev.distribution import find_java

    yield _check("packages", _packages)
    yield _spark_check()
    if arguments.spark:
        yield _check("trial of Spark", _trial)
    yield _check("java", find_java)
    try:
        options = target.metastore(arguments)
    except HiveAcidError as error:
        yield _failed("connection", error)
        return
    with closing(MetastoreClient(options)) as client:
        reached = _check("metastore", lambda: _metastore(client))
        yield reached
        if not reached.ok:
            return
        yield _features(client)
        yield _check("transactions", lambda: _transactions(client))
        yield from _known_problems(client)
        if arguments.table is None:
            yield _check("warehouse", lambda: _warehouse(client))
            return
        ref = TableRef.parse(arguments.table)
        yield _check("folder", lambda: _writable([client.get_table(ref).folder]))
        yield _check("files", lambda: _files(client, ref))


def _check(name: str, examine: Callable[[], str]) -> Check:
    try:
        return Check(name, True, examine())
    except HiveAcidError as error:
        return _failed(name, error)


def _known_problems(client: "MetastoreClient") -> Iterator[Check]:
    from hiveacid.upkeep.known_problems import Evidence, Verdict, known_problems

    try:
        findings = known_problems(Evidence.of(client))
    except HiveAcidError as error:
        yield _failed("known problems", error)
        return
    for finding in findings:
        undetermined = finding.verdict is Verdict.UNDETERMINED
        yield Check(
            finding.problem,
            ok=finding.verdict is not Verdict.PRESENT,
            found=f"{'cannot be determined: ' if undetermined else ''}{finding.evidence}",
            remedy=finding.remedy,
            undetermined=undetermined,
            title=finding.title,
        )


def _failed(name: str, error: HiveAcidError) -> Check:
    return Check(name, False, error.what, error.remedy, error.exit_code)


def _packages() -> str:
    versions = [f"Python {platform.python_version()}"]
    installed = [(name, _installed(name)) for name in _PACKAGES]
    versions += [f"{name} {package.version}" for name, package in installed if package is not None]
    return ", ".join(versions)


def _spark_check() -> Check:
    try:
        description, warning = _spark()
    except HiveAcidError as error:
        return _failed("spark", error)
    return Check("spark", warning is None, warning or description)


def _spark() -> tuple[str, str | None]:
    """Find the Spark of this machine, with a warning if it is newer than the tested ones."""
    spark, client = _installed("pyspark"), _installed("pyspark-client")
    if (
        spark is not None
        and client is not None
        and spark.version != client.version
        and spark.locate_file("") == client.locate_file("")
        and "SPARK_HOME" not in os.environ
    ):
        raise UserError(
            f"pyspark {spark.version} and pyspark-client {client.version} are installed in one "
            f"folder, {spark.locate_file('')}, and "
            "overwrite each other's files.",
            remedy="Install a pair of equal versions, such as pyspark==4.1.3 pyspark-client==4.1.3, "
            "or pyspark alone: pip uninstall pyspark-client; pip install --force-reinstall "
            f"pyspark=={spark.version}",
        )
    installation = installed_spark("spark-submit", os.environ)
    if installation is None:
        raise UserError(
            "No Spark is installed.",
            remedy="Name its folder in SPARK_HOME, or pip install --force-reinstall "
            "'hiveacid[spark]'.",
        )
    warning = require_supported_spark(installation[0], str(installation[1]))
    return f"{installation[0]} in {installation[1]}", warning


def _trial() -> str:
    from hiveacid.cli.local_spark import a_spark

    with (
        tempfile.TemporaryDirectory() as folder,
        a_spark("local[1]", "hiveacid doctor") as spark,
    ):
        from hiveacid.spark.trial import run_trial

        run_trial(spark, folder)
        return f"{spark.version} writes and reads files of tables like the tested versions"


def _metastore(client: "MetastoreClient") -> str:
    start = time.monotonic()
    databases = len(client.get_databases())
    took = time.monotonic() - start
    return f"{client.version.name}, {plural(databases, 'database')}, as {client.user}, answered in {1000 * took:.0f} ms"


def _features(client: "MetastoreClient") -> Check:
    """List the features of the metastore, and how each became known."""
    try:
        features, release = client.features, client.release()
    except HiveAcidError as error:
        return _failed("features", error)
    details = {
        name: {"value": value, **codec.encode(features.reasons[name])}
        for name, value in features.values().items()
    }
    summary = f"release {release}, profile {client.options.metastore_profile}"
    return Check("features", True, summary, details=details)


def _transactions(client: "MetastoreClient") -> str:
    from hiveacid.metastore.thrift.answers import TxnType

    txn_id = client.open_txn(client.user, socket.gethostname(), None, TxnType.READ_ONLY)
    client.commit_txn(txn_id)
    answer = client.get_open_txns()
    return f"transaction {txn_id} was opened and ended; {len(answer.open_txns)} open or aborted"


def _warehouse(client: "MetastoreClient") -> str:
    database = client.get_database("default")
    roots = filter(None, (database.location, database.managed_location))
    return _writable([*map(client.allowed_locations.require, roots)])


def _writable(locations: Sequence[Location]) -> str:
    """Test a job's file operations in folders: stage files, and publish them by a rename."""
    from hiveacid.storage.filesystems import translated_os_errors
    from hiveacid.storage.folder import Storage

    writable_locations = []
    for location in locations:
        storage = Storage.of(location)
        # A cleaning removes it, should this process be killed: the transaction 0 has ended.
        staging_folder = f"{STAGING_PREFIX}0_doctor_{uuid.uuid4().hex}"
        try:
            where = f"{location}/{staging_folder}"
            with translated_os_errors(where), storage.create(f"{staging_folder}/a/file") as sink:
                sink.write(b"doctor")
            storage.rename(f"{staging_folder}/a", f"{staging_folder}/b")
        finally:
            storage.delete_directory(staging_folder)
        writable_locations.append(location)
    return f"{', '.join(writable_locations)} may be written"


def _files(client: "MetastoreClient", ref: TableRef) -> str:
    """Compare every file that a reader currently reads with the claims of its name.

    Raises:
        CorruptFile: A file does not match its name.
    """
    from hiveacid.orc.row_keys.verify import verify_file
    from hiveacid.storage.folder import ReadOnlyStorage
    from hiveacid.storage.hidden_folder import TableOfFolder
    from hiveacid.storage.listing import (
        check_notes,
        data_files,
        list_files,
        open_data,
        read_notes,
        read_tail,
    )
    from hiveacid.tables.scan.visible_table import snapshot_of

    count, problems = 0, []
    # Without a transaction: hidden files are named, and not put back.
    owner = TableOfFolder.of(client.get_table(ref))
    with snapshot_of(client, ref) as snapshot:
        if snapshot.partitioned:
            list_files(ReadOnlyStorage.of(client.get_table(ref).folder), owner, missing_ok=True)
        for partition in snapshot.partitions:
            storage = partition.storage
            state = snapshot.state(partition, list_files(storage, owner))
            directories = tuple(filter(None, (state.base, *state.deltas)))
            noted = check_notes(storage, state, read_notes(storage, state, directories))
            if snapshot.kind is TableKind.INSERT_ONLY:
                # Only the notes make claims on its files.
                count += sum(len(state.files(name)) for name in directories)
                continue
            for file in data_files(storage, state):
                # A file without row ids promises nothing.
                if file.raw or file.directory is None:
                    continue
                count += 1
                directory = file.directory
                deletes = isinstance(directory, Delta) and directory.is_delete
                with open_data(storage, file) as source:
                    of_file = verify_file(
                        source,
                        kind="delete" if deletes else "insert",
                        bucket=file.bucket,
                        write_ids=directory.write_ids,
                    )
                noted_rows = noted.get(file.path)
                if noted_rows is not None:
                    rows = read_tail(storage, file.path, file.size).rows
                    if rows != noted_rows:
                        of_file.append(
                            f"It has {plural(rows, 'row')}, and was written with {noted_rows}."
                        )
                problems += [f"{storage.location}/{file.path}: {problem}" for problem in of_file]
    if problems:
        unlisted_count = len(problems) - _PROBLEMS_SHOWN
        problem_text = " ".join(problems[:_PROBLEMS_SHOWN])
        raise CorruptFile(
            f"{plural(len(problems), 'problem')} in {plural(count, 'file')}. {problem_text}"
            f"{f' And {unlisted_count} more.' if unlisted_count > 0 else ''}",
            remedy="Readers may lose rows of these files, or bring back deleted ones.",
        )
    return plural(count, "file is valid", "files are valid")


def _installed(package: str) -> Distribution | None:
    try:
        return distribution(package)
    except PackageNotFoundError:
        return None


def _as_text(check: Check) -> Iterator[str]:
    title = check.title and f" ({check.title})"
    yield f"{check.label:6}  {check.name}{title}: {check.found}"
    if check.remedy:
        yield f"        {check.remedy}"
    for name, detail in check.details.items():
        value = "unknown" if detail["value"] is None else str(detail["value"]).lower()
        yield f"        {name}: {value} ({detail['source']}: {detail['text']})"
