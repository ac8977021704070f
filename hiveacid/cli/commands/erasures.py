"""`hiveacid erase`, `erasures`, and `verify-erasure`: requests to erase keys, and their certificates."""

import argparse
import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_table, progress_on_stderr
from hiveacid.errors import AccessRefused, HiveAcidError, UserError
from hiveacid.jobs import codec
from hiveacid.jobs.erase_job import WITHIN_DAYS, EraseJob, EraseReport, Wait
from hiveacid.jobs.report import ErrorReport
from hiveacid.jobs.sources import BatchSource
from hiveacid.metastore.authorizer import system_user
from hiveacid.rules.texts import (
    bytes_in_words,
    duration_in_words,
    plural,
    print_lines,
    printable,
)
from hiveacid.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiveacid.erasure.steps import Steps
    from hiveacid.records.erasures import Erasure

# `hiveacid erase`


def _add_mirrors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="URI",
        help="the folder of a mirror of a table in Iceberg, which is searched as well; several times for "
        "more",
    )


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        default="",
        metavar="URI",
        help="the folder of requests and certificates (default: the option erasures of [hive_acid])",
    )


def _add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys",
        metavar="FILE",
        help="a text file of this machine with one key per line; - is stdin",
    )


def _configure_erase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "request", metavar="REQUEST", help="a name, such as a date or a case number"
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="DB.TABLE.COLUMN[=DB.TABLE.COLUMN]",
        help="a table, and its column with the keys, or with values of the erased rows of an earlier "
        "table; several times for more tables",
    )
    _add_keys(parser)
    _add_folder(parser)
    _add_mirrors(parser)
    parser.add_argument(
        "--within-days",
        type=int,
        default=WITHIN_DAYS,
        metavar="N",
        help="the days until the deadline (default: %(default)s)",
    )
    parser.add_argument(
        "--retention",
        metavar="TIME",
        help='keep the files of earlier versions for this time; "0": not at all (default: the '
        "retention of each table)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only report rows, files, and what delays the erasure",
    )
    target.add_metastore(parser)
    target.add_json(parser)


def run_erase(arguments: argparse.Namespace) -> int:
    """Make a request, or continue it, and print its state."""
    from hiveacid.erasure.requests import Eraser
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.locations import require_job_access

    job = EraseJob(
        request=arguments.request,
        keys=BatchSource("keys"),
        columns=dict(map(_column, arguments.column)),
        folder=_folder(arguments),
        mirrors=arguments.mirror,
        within_days=arguments.within_days,
        retention=arguments.retention,
        dry_run=arguments.dry_run,
        metastore=target.metastore(arguments),
    )
    job.validate()
    texts = _keys(arguments.keys)
    with (
        progress_on_stderr(f"hiveacid erase {job.request}") as observers,
        closing(MetastoreClient(job.connection).patient()) as client,
    ):
        require_job_access(client, system_user(), job)
        report = Eraser(client, job.folder, observers, user=system_user()).run(job, texts)
    if arguments.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _print_report(report)
    return 0


ERASE = Command(
    name="erase",
    help="erase persons' data from tables and all their files",
    description="Delete all rows with some keys in one transaction, rewrite and remove the files that "
    "held them, and issue a certificate when no file holds a key. Run it again to continue a request.",
    configure=_configure_erase,
    run=run_erase,
    changes=True,
    asks=True,
)


def _column(text: str) -> tuple[str, str]:
    column_path, equals, joined_column = text.partition("=")
    table, dot, column = column_path.rpartition(".")
    if not dot or "." not in table:
        raise UserError(f"--column {text!r} is not DB.TABLE.COLUMN.")
    return table, f"{column}{equals}{joined_column}"


def _folder(arguments: argparse.Namespace) -> str:
    folder: str = arguments.folder or setting("erasures")
    return folder


def _keys(path: str | None) -> "Sequence[str]":
    """Read keys, one per line; spaces at the ends of lines do not belong to a key."""
    if path is None:
        raise UserError(
            "There are no keys.", remedy="Name a file with one key per line: --keys FILE."
        )
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The keys cannot be read: {error}.") from error
    keys = sorted({line.strip() for line in text.splitlines()} - {""})
    if not keys:
        raise UserError(f"{path} has no keys.")
    return keys


def _print_report(report: EraseReport) -> None:
    rows = plural(report.rows_deleted, "row")
    summary = f"{rows} to delete" if report.dry_run else f"{rows} deleted"
    files = plural(report.files, "file holds", "files hold")
    print(f"{report.request}: {summary}; {files} keys, {bytes_in_words(report.bytes)}")
    print_lines(f"  {printable(name)}" for name in report.partitions)
    if report.certificate:
        print(f"  certificate: {report.certificate}")
    elif not report.dry_run:
        print(f"  deadline: {report.deadline}")
    _print_waits(report.waits)


def _print_waits(waits: "Sequence[Wait]") -> None:
    if waits:
        rows = [tuple(map(printable, (wait.kind, wait.table, wait.reason))) for wait in waits]
        print_table(("waits for", "table", "reason"), rows)


def _configure_erasures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", nargs="?", metavar="REQUEST", help="only this request")
    _add_folder(parser)
    parser.add_argument(
        "--continue",
        dest="advance",
        action="store_true",
        help="continue requests as far as is possible without their keys",
    )
    target.add_metastore(parser)
    target.add_json(parser)


def run_erasures(arguments: argparse.Namespace) -> int:
    """List requests, and what each waits for."""
    from hiveacid.erasure.requests import Eraser
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.signatures import SigningKey

    only, location = arguments.request, _folder(arguments)
    # A list needs no key.
    key = SigningKey.configured() if arguments.advance else SigningKey.readable()
    with closing(MetastoreClient(target.metastore(arguments)).patient()) as client:
        steps, problems = Eraser(client, location, user=system_user(), key=key).requests(only)
        if steps and arguments.advance:
            _continue(steps, problems, recheck=only is not None)
    first = next(iter(problems.values()), None)
    all_refused = not steps and all(
        isinstance(problem, AccessRefused) for problem in problems.values()
    )
    if first is not None and (only is not None or all_refused):
        raise first
    status = first.exit_code if first is not None and arguments.advance else 0
    erasures = [step.erasure for step in steps]
    now = datetime.now(UTC)
    if arguments.json:
        reports = [erasure.report().to_dict() for erasure in erasures]
        reports += [
            {"request": name, "error": codec.encode(ErrorReport.of(error))}
            for name, error in problems.items()
        ]
        print(json.dumps(reports, ensure_ascii=False))
        return status
    names = {erasure.request for erasure in erasures} | problems.keys()
    print(f"{location}: {plural(len(names), 'request')}")
    if erasures:
        head = ("request", "age", "time left", "state", "files left", "tables")
        print_table(head, [_row(erasure, now) for erasure in erasures])
    for erasure in erasures:
        if erasure.waits:
            print()
            print(f"{erasure.request}, at {erasure.checked_at}:")
            _print_waits(erasure.waits)
    print_lines(f"{name}: {printable(str(error))}" for name, error in problems.items())
    return status


def _continue(
    steps: "Sequence[Steps]", problems: "dict[str, HiveAcidError]", *, recheck: bool
) -> None:
    """Continue requests; the error of one does not keep others from being continued.

    Args:
        steps: The requests.
        problems: Receives the errors.
        recheck: Whether to continue a request that is certified, too, which verifies an unsigned record.
    """
    for step in steps:
        if step.erasure.certificate and not recheck:
            continue
        try:
            step.run()
        except HiveAcidError as error:
            problems[step.erasure.request] = error


ERASURES = Command(
    name="erasures",
    help="show requests to erase keys, and what each waits for",
    description="List the requests of a folder with their age, their deadline, and what each waits for: "
    "a reader, a consumer, the retention of versions, a mirror. --continue performs the steps that are "
    "possible now.",
    configure=_configure_erasures,
    run=run_erasures,
    changes=True,
    asks=True,
)


def _row(erasure: "Erasure", now: datetime) -> tuple[str, ...]:
    remaining_seconds = erasure.left(now).total_seconds()
    late = (
        f"{duration_in_words(-remaining_seconds)} ago"
        if remaining_seconds < 0
        else duration_in_words(remaining_seconds)
    )
    kinds = ", ".join(dict.fromkeys(wait.kind for wait in erasure.waits))
    return (
        erasure.request,
        duration_in_words(erasure.age(now).total_seconds()),
        "-" if erasure.certificate else late,
        "erased" if erasure.certificate else f"waits: {kinds}" if kinds else "unfinished",
        str(len(erasure.held)),
        ", ".join(printable(table.table.name) for table in erasure.tables),
    )


def _configure_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificate", metavar="CERTIFICATE", help="the JSON file of a certificate")
    _add_keys(parser)
    _add_mirrors(parser)
    target.add_metastore(parser)
    target.add_json(parser)


def run_verify(arguments: argparse.Namespace) -> int:
    """Search all remaining files for keys that a certificate calls erased."""
    from hiveacid.erasure.certificate import Certificate
    from hiveacid.erasure.verification import verify_certificate
    from hiveacid.metastore.client import MetastoreClient

    texts = _keys(arguments.keys)
    try:
        content = Path(arguments.certificate).read_bytes()
    except OSError as error:
        raise UserError(f"The certificate cannot be read: {error}.") from error
    certificate = Certificate.parse(content, arguments.certificate)
    with closing(MetastoreClient(target.metastore(arguments)).patient()) as client:
        verification = verify_certificate(
            client, certificate, texts, arguments.mirror, system_user()
        )
    if arguments.json:
        print(json.dumps(codec.encode(verification), ensure_ascii=False))
    else:
        comparison = "not compared with"
        if verification.unknown_keys is not None:
            comparison = f"{verification.unknown_keys} of them not in"
        print(
            f"{printable(verification.request)}: {plural(verification.files, 'file')} searched,"
            f" {bytes_in_words(verification.bytes)}; {plural(verification.keys, 'key')}, {comparison} the certificate"
        )
        print(f"  signature: {verification.signature}")
        if verification.rows_written_later:
            print(f"  {plural(verification.rows_written_later, 'row')} written after the erasure")
        print_lines(
            f"  {printable(name)} was created again since then" for name in verification.replaced
        )
        print_lines(
            f"  {printable(file.path)}: {file.problem or plural(file.rows, 'row')}"
            for file in verification.held
        )
    verification.require_erased()
    return 0


VERIFY = Command(
    name="verify-erasure",
    help="search all files for keys that a certificate calls erased",
    description="Decode all remaining files of the tables of a certificate, also hidden and aborted "
    "ones, and search them for the keys in a file. The exit status is 30 if a key is found.",
    configure=_configure_verify,
    run=run_verify,
    asks=True,
)
