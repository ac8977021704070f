"""`hiveacid sql`: run statements of SQL with a Spark of this process."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hiveacid.cli import local_spark, target
from hiveacid.cli.command import Command
from hiveacid.cli.output import outcome_counts, print_report
from hiveacid.cli.selection import print_answer, selected
from hiveacid.errors import InvalidJob, UserError
from hiveacid.foreign.text import parse_json
from hiveacid.jobs import codec
from hiveacid.jobs.fields import ParameterValue, decode_value
from hiveacid.jobs.job import accesses_of
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.authorizer import authorizer_path, require_access, system_user
from hiveacid.rules.texts import bytes_in_words, plural, print_lines

# The reports of these name the partitions that were added or dropped.
_OF_PARTITIONS = ("add_partitions", "drop_partitions", "repair_partitions")

if TYPE_CHECKING:
    from hiveacid.jobs.checks import Check
    from hiveacid.jobs.job import ScriptedJob
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.parser.questions import Explained, Question


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
    target.add_limit(parser, "print N rows of a SELECT that has no LIMIT")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of the parameter :NAME; JSON, or otherwise a text (may be repeated)",
    )
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="let the SQL run scripts (TRANSFORM), call Java and read files by their paths",
    )
    parser.add_argument(
        "--all-rows",
        action="store_true",
        help="let UPDATE and DELETE without WHERE change all rows of a table",
    )
    parser.add_argument(
        "--run-in",
        choices=get_args(Place),
        default="auto",
        help="where INSERT, UPDATE, DELETE and MERGE run. worker: in this process, without Java; spark: "
        "with Spark; auto: without Spark if the change is small and simple (default: %(default)s)",
    )
    parser.add_argument(
        "--checks",
        metavar="FILE",
        help="check the rows that are written before they become visible; a list of checks as JSON",
    )
    target.add_conflict_policy(parser)
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the statements, and print the result or the answer of each.

    Returns:
        0, or the exit code of the error of the statement that failed.
    """
    # Reading SQL takes its parser, which no other command needs.
    from hiveacid.jobs.script_job import checked
    from hiveacid.parser.script import placed, to_steps

    params = dict(map(_parameter, arguments.param))
    steps = to_steps(
        _text(arguments), arguments.database, params, arguments.trusted, arguments.all_rows
    )
    if not steps:
        raise InvalidJob("The script has no statement.")
    steps = checked(placed(steps, arguments.run_in), _checks(arguments.checks))
    for step in steps:
        require_access(system_user(), accesses_of(step))
    if authorizer_path():
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.tables.locations import require_job_access

        with MetastoreClient(target.metastore(arguments)) as client:
            require_job_access(client, system_user(), steps)
    results: list[dict[str, Any]] = []
    try:
        return _run_steps(steps, arguments, results)
    finally:
        # Completed statements are reported also if a later one fails.
        _print_json(results, arguments)


def _run_steps(
    steps: "Sequence[ScriptedJob | Question]",
    arguments: argparse.Namespace,
    results: list[dict[str, Any]],
) -> int:
    """Run the steps up to one that fails, and return the exit code."""
    from hiveacid.jobs.job import ScriptedJob

    number = 1
    for asks, group in groupby(steps, lambda step: not isinstance(step, ScriptedJob)):
        group_steps = list(group)
        if asks:
            for question in group_steps:
                if results and not arguments.json:
                    print()
                _answer(question, arguments, results)  # type: ignore[arg-type]
        elif status := _work(group_steps, number, arguments, results):  # type: ignore[arg-type]
            return status
        number += len(group_steps)
    return 0


COMMAND = Command(
    name="sql",
    help="run SQL: CREATE, ALTER, DROP, SHOW, DESCRIBE, SELECT, INSERT, UPDATE, DELETE, MERGE, ...",
    description="Run statements of SQL on ACID tables one after the other, each in a transaction of "
    "its own, and answer questions: SHOW, DESCRIBE, EXPLAIN and SELECT. Spark starts for statements that work on "
    "rows (see --run-in), for large compactions, and for a SELECT of more than the columns of a table.",
    configure=_configure,
    run=run,
    changes=True,
    asks=True,
    hidden=("sql", "param"),
)


def _work(
    jobs: "Sequence[ScriptedJob]",
    number: int,
    arguments: argparse.Namespace,
    results: list[dict[str, Any]],
) -> int:
    """Run statements as a script; the first one has the given number."""
    job = replace(
        ScriptJob.of(jobs),
        metastore=target.metastore(arguments),
        conflict_policy=arguments.conflict_policy,
    )
    job.validate()
    report = local_spark.run_job(job, arguments.master, "hiveacid sql")
    assert isinstance(report, ScriptReport)
    lines = (
        ()
        if arguments.json
        else (
            f"{position}. {_as_text(statement.report)}"
            for position, statement in enumerate(report.statements, start=number)
        )
    )
    results.append(report.to_dict())
    return print_report(report, lines, as_json=False)


def _answer(
    question: "Question", arguments: argparse.Namespace, results: list[dict[str, Any]]
) -> None:
    """Print the answer of a question, or keep it for the end."""
    from hiveacid.api.sql import answered
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.parser import questions
    from hiveacid.records.history_entries import History
    from hiveacid.tables.definitions.answers import Answer
    from hiveacid.upkeep.table_detail import TableDetail

    reply: Answer | History | TableDetail
    if isinstance(question, questions.Select):
        reply = selected(question, arguments)
    else:
        with closing(MetastoreClient(target.metastore(arguments))) as client:
            if isinstance(question, questions.Explain):
                _check(client, question.job, arguments.master)
            reply = answered(client, question)
    print_reply: Callable[[], None]
    if isinstance(reply, Answer):
        results.append(reply.to_dict())
        print_reply = partial(print_answer, reply)
    elif isinstance(question, questions.ShowHistory):
        assert isinstance(reply, History)
        entries = [codec.encode(replace(entry, directories=())) for entry in reply]
        results.append({"table": question.table.full_name, "history": entries})
        from hiveacid.cli.commands.versions import show_history

        print_reply = partial(show_history, reply)
    else:
        results.append(codec.encode(reply))
        print_reply = partial(print_lines, repr(reply).split("\n"))
    if not arguments.json:
        print_reply()


def _check(client: "MetastoreClient", explained: "Explained", master: str) -> None:
    """Raise the error that an explained statement would fail with, if it is certain."""
    from hiveacid.jobs.job import Job
    from hiveacid.parser.questions import Select

    preflight = local_spark.preflight(client, master)
    if isinstance(explained, Job):
        preflight.check(explained)
    elif isinstance(explained, Select):
        preflight.check_query(explained.query)


def _print_json(results: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """One object: the result, or the list of several ones."""
    if arguments.json and results:
        output = results[0] if len(results) == 1 else {"results": results}
        print(json.dumps(output, ensure_ascii=False))


def _parameter(argument: str) -> tuple[str, ParameterValue]:
    """The name and the value of a parameter: a number, true, null, {"date": ...} or a text."""
    name, separator, text = argument.partition("=")
    if not separator:
        raise UserError("--param needs a name and a value.", remedy="Write --param id=7.")
    try:
        data = parse_json(text)
    except json.JSONDecodeError:
        return name, text
    return name, decode_value(data, f"--param {name}")


def _checks(file: str | None) -> "tuple[Check, ...]":
    """The checks in a file, each with the kind and the fields of its class."""
    from hiveacid.jobs.checks import checks_of

    if file is None:
        return ()
    text = _content(file)
    try:
        return checks_of(parse_json(text))
    except json.JSONDecodeError as error:
        raise InvalidJob(f"{file} is not JSON: {error}.") from error


def _text(arguments: argparse.Namespace) -> str:
    if (arguments.sql is None) == (arguments.file is None):
        raise UserError("Give the statements as an argument, or a file with --file.")
    if arguments.file is None:
        return str(arguments.sql)
    if arguments.file == "-":
        return sys.stdin.read()
    return _content(arguments.file)


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from error


def _as_text(report: RunReport | CompactReport) -> str:
    return f"{report.job} {report.target}: {', '.join(_done(report)) or 'done'}"


def _done(report: RunReport | CompactReport) -> Iterator[str]:
    if isinstance(report, CompactReport):
        yield from outcome_counts(report)
        return
    for action in ("inserted", "updated", "deleted"):
        if rows := getattr(report, f"rows_{action}"):
            yield f"{plural(rows, 'row')} {action}"
    if report.job in _OF_PARTITIONS and report.partitions:
        yield f"partitions {', '.join(report.partitions)}"
    if report.files:
        yield f"{plural(report.files, 'file')}, {bytes_in_words(report.bytes)}"
