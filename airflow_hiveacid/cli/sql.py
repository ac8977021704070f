"""`hiveacid sql`: run statements of SQL with a Spark of this process."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.quantities import bytes_in_words
from airflow_hiveacid.cli import local_spark, target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.history import print_history
from airflow_hiveacid.cli.output import outcome_counts, print_report
from airflow_hiveacid.errors import UserError
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.report import CompactReport, RunReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.jobs.script_report import ScriptReport

if TYPE_CHECKING:
    from airflow_hiveacid.sql.commands import Question


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sql", nargs="?", metavar="SQL", help="the statements, separated by semicolons"
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="take the statements from a file; - is stdin"
    )
    parser.add_argument(
        "--database",
        default="default",
        metavar="DB",
        help="where tables are that are named without a database (default: %(default)s)",
    )
    target.add_conflict_policy(parser)
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the statements and print what each has done, or what the one has asked.

    Returns:
        0, or the exit code of the error of the statement that failed.
    """
    # Reading SQL takes its parser, which no other command needs.
    from airflow_hiveacid.sql.script import to_question, to_script

    text = _text(arguments)
    question = to_question(text, arguments.database)
    if question is not None:
        return _answer(question, arguments)
    job = to_script(text, arguments.database)
    job = replace(
        job,
        metastore=target.metastore(arguments),
        conflict_policy=arguments.conflict_policy,
    )
    job.validate()
    report = _run(job, arguments.master)
    lines = (
        f"{number}. {_as_text(statement.report)}"
        for number, statement in enumerate(report.statements, start=1)
    )
    return print_report(report, lines, as_json=arguments.json)


COMMAND = Command(
    name="sql",
    help="run SQL: INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE TABLE, CONVERT, COMPACT",
    description="Run statements of SQL on ACID tables with Spark, one after the other, each in a "
    "transaction of its own; or answer SHOW HISTORY db.t [LIMIT n] or DESCRIBE DETAIL db.t, without.",
    configure=_configure,
    run=run,
    changes=True,
)


def _answer(question: "Question", arguments: argparse.Namespace) -> int:
    from airflow_hiveacid.maintenance.table_detail import table_detail
    from airflow_hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(question.table)
    if question.limit is not None:
        return print_history(ref, arguments, limit=question.limit)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        detail = table_detail(client, ref)
    print(json.dumps(codec.encode(detail), ensure_ascii=False) if arguments.json else detail)
    return 0


def _text(arguments: argparse.Namespace) -> str:
    if (arguments.sql is None) == (arguments.file is None):
        raise UserError("Give the statements as an argument, or a file with --file.")
    if arguments.file is None:
        return str(arguments.sql)
    if arguments.file == "-":
        return sys.stdin.read()
    try:
        return Path(arguments.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{arguments.file} cannot be read: {error}.") from error


def _run(job: ScriptJob, master: str) -> ScriptReport:
    if job.needs_spark:
        report = local_spark.run_on_spark(job, master, "hiveacid sql")
        assert isinstance(report, ScriptReport)
        return report
    from airflow_hiveacid.ddl import run_script_of_ddl
    from airflow_hiveacid.metastore.client import MetastoreClient

    assert job.metastore is not None
    with MetastoreClient(job.metastore) as client:
        return run_script_of_ddl(client, job)


def _as_text(report: RunReport | CompactReport) -> str:
    return f"{report.job} {report.target}: {', '.join(_done(report)) or 'done'}"


def _done(report: RunReport | CompactReport) -> Iterator[str]:
    if isinstance(report, CompactReport):
        yield from outcome_counts(report)
        return
    for what in ("inserted", "updated", "deleted"):
        if rows := getattr(report, f"rows_{what}"):
            yield f"{rows} rows {what}"
    if report.files:
        yield f"{report.files} files, {bytes_in_words(report.bytes)}"
