"""Runs the snippets of one page, one after the other, like a reader."""

import ast
import contextlib
import io
import json
import re
import runpy
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import airflow.sdk
import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.sql.operators.sql import BaseSQLOperator
from airflow.sdk import DAG, Connection
from airflow.sdk.bases.decorator import DecoratedMappedOperator
from airflow.sdk.bases.sensor import BaseSensorOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.execution_time import macros
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from airflow_hiveacid.cluster.spark_submission import runs_in_cluster
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from airflow_hiveacid.operators.maintenance import HiveAcidMaintainOperator
from airflow_hiveacid.provider_info import PACKAGES
from hiveacid.cli.main import main
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import parse_needs
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_script
from hiveacid.public_names import homes
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from tests.fakes.metastore import FakeMetastore
from tests.snippets.pages import ROOT, Snippet
from tests.snippets.worlds import ADDRESSES, CANNOT_RUN, World

_PROGRAMS = r"(?:airflow|docker|eval|export|hdfs|hiveacid|make|pip|\S*python[\d.]*|taskset|\S+/venv-pack|[A-Z_]+=\S* )"
_COMMAND = re.compile(rf"\$ |{_PROGRAMS}")


class PageRun:
    """The environment of a page, and the objects that its snippets have made so far."""

    def __init__(
        self,
        world: World,
        metastore: FakeMetastore,
        spark: SparkSession,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.metastore, self.spark, self.folder = metastore, spark, folder
        self.environment = monkeypatch
        self.printed = ""
        self._tasks: list[Any] = []
        self._found: dict[str, Any] = {}
        host, port = metastore.uri.removeprefix("thrift://").split(":")
        self._last_sql = ""
        self._addresses = {
            **ADDRESSES,
            "thrift://hms:9083": metastore.uri,
            "thrift://metastore:9083": metastore.uri,
            '"host": "hms", "port": 9083': f'"host": "{host}", "port": {port}',
        }
        connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
        monkeypatch.setenv("HIVEACID_METASTORE", metastore.uri)
        # An object of a page without a session uses the page's own, too.
        monkeypatch.setattr(SparkSession, "_instantiatedSession", spark)
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
        if world.sql:
            run(spark, replace(to_script(world.sql, "sales"), metastore=metastore.options))
        # The run of a task comes after that: of the versions that it asks for, there is one.
        self.start = pendulum.now("UTC")
        for name, text in world.files.items():
            place = json.loads(self.addressed(json.dumps(name))).removeprefix("file:")
            file = folder / self.start.strftime(place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.names: dict[str, Any] = {
            name: getattr(import_module(package), name)
            for package in PACKAGES
            for name in homes(package)
        }
        sdk = {
            name: getattr(airflow.sdk, name) for name in ("DAG", "task", "Asset", "AssetWatcher")
        }
        self.names |= {**sdk, "F": F, "spark": spark, "metastore": metastore.options}
        at_work = (HiveColumn, HiveTable, MetastoreClient, Operation, TableKind)
        at_work += (TableRef, Target, Transaction)
        self.names |= {each.__name__: each for each in at_work}
        with self._page_dag():
            exec(self.addressed(world.code), self.names)
        self._addresses |= self.names.get("replaced", {})
        # The present version is the version of every moment on the page.
        self._addresses |= dict.fromkeys(world.times, str(pendulum.now("UTC")))

    def addressed(self, text: str) -> str:
        """A text with the addresses and paths that there are here."""
        for there, here in self._addresses.items():
            text = text.replace(there, here.replace("FOLDER", str(self.folder)))
        return text

    def run(self, snippet: Snippet) -> None:
        how: dict[str, Callable[[Snippet], None]] = {
            "python": self.python,
            "sql": self.sql,
            "console": self.console,
            "shell": self.console,
            "json": self.json,
        }
        how[snippet.language](snippet)

    # Python

    def python(self, snippet: Snippet) -> None:
        """Run it, then the tasks that it has put into a DAG and the jobs that it has named."""
        if why_not(snippet.text):
            return
        tree = ast.parse(self.addressed(snippet.text), str(snippet))
        ast.increment_lineno(tree, snippet.line - 1)
        self._tasks.clear()
        made: list[Any] = []
        with self._page_dag(), contextlib.redirect_stdout(io.StringIO()):
            for statement in tree.body:
                if isinstance(statement, ast.Expr):
                    code = compile(ast.Expression(statement.value), str(snippet), "eval")
                    made.append(eval(code, self.names))
                else:
                    module = ast.Module([statement], type_ignores=[])
                    exec(compile(module, str(snippet), "exec"), self.names)
                    made.append(self._assigned(statement))
        for task in self._tasks:
            self._run_task(task)
        for value in made:
            if isinstance(value, Job):
                self._run_job(value)

    def _assigned(self, statement: ast.stmt) -> Any:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            return self.names[statement.targets[0].id]
        return None

    @contextlib.contextmanager
    def _page_dag(self) -> Iterator[None]:
        add_task = DAG.add_task

        def noted(dag: DAG, task: Any) -> None:
            add_task(dag, task)
            self._tasks.append(task)

        with patch.object(DAG, "add_task", noted), self._dag():
            yield

    def _dag(self) -> DAG:
        return DAG("page", template_searchpath=[str(self.folder)])

    def _run_job(self, job: Job) -> None:
        """Run a separate job, as the operator of its type runs it."""
        context = self._context(SimpleNamespace(task_id="alone", dag_id="page", outlets=[]))
        templates = self._dag().get_template_env()
        rendered = job.render(lambda text: templates.from_string(text).render(context))
        report = run(self.spark, replace(rendered, metastore=self.metastore.options))
        assert report.error is None

    def _run_task(self, task: Any) -> None:
        if isinstance(task, MappedOperator):
            self._run_mapped(task)
            return
        context = self._context(task)
        task.resolve_template_files()
        task.render_template_fields(context)
        if isinstance(task, BaseSensorOperator):
            found = task.poke(context)
            self._found[task.task_id] = getattr(found, "xcom_value", None) or []
            return
        runnable = HiveAcidJobOperator | HiveAcidMaintainOperator | BaseSQLOperator
        assert isinstance(task, runnable), task
        with (
            patch("airflow_hiveacid.cluster.runs.LocalRun", self._run_here),
            # The Spark of this test also represents a cluster.
            patch("airflow_hiveacid.operators.job.runs_in_cluster", lambda *_: False),
        ):
            self._found[task.task_id] = task.execute(context)

    def _run_mapped(self, task: MappedOperator) -> None:
        """Run one task for each of the values that an earlier one has returned."""
        decorated = isinstance(task, DecoratedMappedOperator)
        mapped_over = task.op_kwargs_expand_input if decorated else task.expand_input
        elements = mapped_over.value
        if isinstance(elements, Mapping):
            ((name, values),) = elements.items()
            if not isinstance(values, Sequence):
                values = self._found[values.operator.task_id]
            elements = [{name: value} for value in values]
        for element in elements:
            self._run_task(task.unmap({"op_kwargs": element} if decorated else element))

    def _run_here(self, *_: object) -> "_Here":
        return _Here(self.spark)

    def _context(self, task: Any) -> dict[str, Any]:
        ti = SimpleNamespace(
            dag_id="page",
            # Each snippet is a run of its own.
            run_id=f"run_{len(self._found)}",
            task_id=task.task_id,
            map_index=-1,
            try_number=1,
            start_date=pendulum.now(UTC),
            xcom_push=lambda key, value: None,
            xcom_pull=lambda **_: None,
        )
        return {
            "ti": ti,
            "task": task,
            "dag": SimpleNamespace(timetable=None),
            "run_id": "hour",
            "ds": self.start.to_date_string(),
            "macros": macros,
            "data_interval_start": self.start,
            "data_interval_end": pendulum.now("UTC"),
            "dag_run": SimpleNamespace(partition_key="2026-11-20"),
            "params": {"customer_id": 7, "seen": "1", "again": "", "countries": "de,fr"},
            "outlet_events": _Events(),
        }

    def close(self) -> None:
        """End the active parts of the page's world."""
        if held := self.names.get("held"):
            held.__exit__(None, None, None)

    # Everything else

    def sql(self, snippet: Snippet) -> None:
        self._last_sql = self.addressed(snippet.text)
        self._hiveacid(["sql", self._last_sql, "--database", "sales"])

    def json(self, snippet: Snippet) -> None:
        """Parse a connection of Airflow, a sensor's result, or an exported record."""
        value = json.loads(snippet.text)
        if "conn_type" in value:
            extra = json.dumps(value.pop("extra"))
            assert runs_in_cluster(Connection(conn_id="c", extra=extra, **value), None)
        elif "reason" in value:
            assert parse_needs(value)[0].table == value["table"]
        else:
            (file, *_) = sorted((self.folder / "s3" / "lake").rglob("part-*.json"))
            record = json.loads(file.read_text().splitlines()[0])
            assert record.keys() == value.keys()
            assert record["source"].keys() == value["source"].keys()

    def console(self, snippet: Snippet) -> None:
        """Run its commands, and compare the beginning of each output with that of the page."""
        for command, shown in commands(snippet):
            if why_not(command):
                continue
            printed = self._run_command(self.addressed(command))
            if shown:
                lines = [_masked(line) for line in printed.splitlines()]
                assert lines[0] == _masked(shown[0]), printed
                # The names of columns are in the first line, or below a line with the number of
                # rows.
                names = [line for line in lines[:2] if not re.search(r"\d", line)]
                assert {*names} <= {_masked(line) for line in shown}, printed

    def _run_command(self, command: str) -> str:
        if exported := re.fullmatch(r"export (\w+)=(.*)", command):
            (value,) = shlex.split(exported[2])
            self.environment.setenv(exported[1], value)
            return ""
        if evaluated := re.fullmatch(r'eval "\$\((.*)\)"', command):
            command = evaluated[1]
        command = re.sub(r"^[A-Z_]+=\S+ ", "", command)
        program, *arguments = shlex.split(command, comments=True)
        if "--file" in arguments:
            at = arguments.index("--file") + 1
            arguments[at] = str(self.folder / arguments[at])
            if self._last_sql:
                # The statements that the page has shown last.
                Path(arguments[at]).write_text(self._last_sql)
        if program == "hiveacid":
            return self._hiveacid(arguments)
        if [program, *arguments][:2] == ["airflow", "hiveacid"]:
            return self._hiveacid([*arguments[1:], "--conn-id", "hive_acid_default"])
        if program == "airflow":
            _read_by_airflow(arguments)
            return ""
        _read_by_a_script([program, *arguments])
        return ""

    def _hiveacid(self, arguments: Sequence[str]) -> str:
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main(arguments)
        assert status == 0, errors.getvalue()
        return output.getvalue()


class _Here:
    """The replacement of LocalRun for an operator, with the Spark of this process."""

    adopted = at_work = False

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._report: Any = None

    def submit(self, job: Job, options: Any, env_vars: Any) -> None:
        self._report = run(self._spark, job)

    def poll(self) -> Application:
        return Application("", ApplicationState.SUCCEEDED)

    def report(self, job: Job) -> Any:
        return self._report

    def failure(self, application: Application) -> AirflowException:
        return AirflowException(f"{application.state}: {self._report}")


class _Events(dict[Any, Any]):
    """The events of outlets, as far as they are written."""

    def __missing__(self, outlet: Any) -> Any:
        self[outlet] = SimpleNamespace(extra={}, add_partitions=lambda keys: None)
        return self[outlet]


def why_not(text: str) -> str | None:
    """Return the reason why a command or a snippet cannot run here; None if it can."""
    return next((why for part, why in CANNOT_RUN.items() if part in text), None)


def commands(snippet: Snippet) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines below that it prints."""
    lines = snippet.text.replace("\\\n", " ").splitlines()
    marked = any(line.startswith("$ ") for line in lines)
    command, shown = "", []
    for line in lines:
        if line.startswith("$ ") if marked else _COMMAND.match(line):
            if command:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        else:
            assert command, f"{snippet}: nobody prints this: {line}"
            shown.append(line)
    yield command, shown


def _masked(line: str) -> str:
    """A line without its figures, units and widths."""
    line = re.sub(r"[\d.,]+( [KMGT]?i?B\b)?", "0", line)
    return re.sub(r"\s+", " ", line).strip()


def _read_by_airflow(arguments: Sequence[str]) -> None:
    """Let Airflow's own parser read a command that would want its database and scheduler."""
    from airflow.cli.cli_parser import get_parser

    parsed = get_parser().parse_args(arguments)
    assert parsed.func


class _Read(Exception):
    """The arguments were taken."""


def _read_by_a_script(words: Sequence[str]) -> None:
    """Let a script of ours take its arguments, without the hour that it measures for."""
    *_, at = [number for number, word in enumerate(words) if re.fullmatch(r"python[\d.]*", word)]
    rest = words[at + 1 :]
    if rest[:2] == ["-m", "pytest"]:
        chosen = [sys.executable, *rest, "--collect-only", "-q"]
        subprocess.run(chosen, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        return
    parse_args = ArgumentParser.parse_args

    def taken(parser: ArgumentParser, *more: Any) -> Any:
        parse_args(parser, *more)
        raise _Read

    with (
        patch.object(ArgumentParser, "parse_args", taken),
        patch.object(sys, "argv", list(rest)),
        patch.object(sys, "path", [str(ROOT / "bench"), *sys.path]),
        pytest.raises(_Read),
    ):
        runpy.run_path(str(ROOT / rest[0]), run_name="__main__")
