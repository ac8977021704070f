"""The submission of a packaged application by the Spark provider's connection and spark-submit."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, conf
from airflow.sdk import BaseHook

from airflow_hiveacid.cluster.packaged import package_copy, package_zip, spark_app_path
from airflow_hiveacid.cluster.submit_hook import (
    expect_no_exit_code,
    process_of,
    submit_hook,
    watch_output,
)
from hiveacid.drivers.java_start import (
    DIE_WITH_PARENT,
    DRIVER_OPTIONS,
    LAUNCHER_OPTIONS,
    NO_PAGES,
    ClassArchive,
)
from hiveacid.drivers.spark_support import installed_spark, require_supported_spark
from hiveacid.errors import InvalidConnection, InvalidJob, JobFailed, SoftwareMissing
from hiveacid.jobs.fields import awaits_rendering
from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.dev.distribution import JAVA_REMEDY
from hiveacid.metastore.kept_tokens import kept_tokens
from hiveacid.progress import PROGRESS, SUBMITTED_VARIABLE
from hiveacid.rules.exit_status import Memory, explained, signal_of

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection


# Texts that become arguments, environment variables and properties of Spark.
#
# Most of them are templates and may contain untrusted input. Their readers split them into lines:
# a line break in a value would begin another property.


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_KEY = re.compile(r"[^\s=:#!][^\s=:]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SIZE = re.compile(r"\s*[0-9]+(?:b|[kmgtp]b?)?\s*", re.IGNORECASE)
_SIZES = frozenset(
    f"spark.{process}.{size}"
    for process in ("driver", "executor")
    for size in ("memory", "memoryOverhead")
)
# Backslashes, and characters that end a key, in the format of Java's properties.
_SPECIAL = re.compile(r"[\\=:#!]")


def require_lines(field: str, value: Any) -> None:
    """Refuse texts that are not one line.

    :param field: The name of the value, for the error.
    :param value: A text, or a mapping or a list with texts; all other values are valid.
    :raises InvalidJob: A text has a line break or another control character.
    """
    for where, text in _texts(field, value):
        if _CONTROL.search(text):
            raise InvalidJob(
                f"{where} has a line break or another control character.",
                remedy="Spark would read what follows as something else; encode it, as Base64 for "
                "example.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidJob(f"{where} has half of a character.") from None


def require_environment(field: str, variables: Mapping[str, str]) -> None:
    """Refuse environment variables whose text would change their meaning.

    :param field: Their name, for the error.
    :param variables: Name to value.
    :raises InvalidJob: A name is invalid, or a value is not one line.
    """
    _require_names(field, variables, _VARIABLE, "the name of an environment variable")


def require_conf(field: str, conf: Mapping[str, Any]) -> None:
    """Refuse Spark properties whose text would change their meaning.

    :param field: Their name, for the error.
    :param conf: Key to value.
    :raises InvalidJob: A key is invalid, or a value is not one line.
    """
    _require_names(field, conf, _KEY, "the key of a Spark property")


def require_spark_sizes(
    driver_memory: str | None, executor_memory: str | None, conf: Mapping[str, Any] | None
) -> None:
    """Refuse invalid memory sizes while a DAG is parsed.

    :param driver_memory: Memory of the driver.
    :param executor_memory: Memory of each executor.
    :param conf: Spark configuration, whose values may be templates.
    :raises InvalidJob: A value is not a size that Spark can parse.
    """
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidJob(
            f"conf must be a dict, not {conf!r}.",
            remedy='Write conf={"spark.executor.memoryOverhead": "1g"}, for example.',
        )
    sizes = {"driver_memory": driver_memory, "executor_memory": executor_memory}
    for key in _SIZES & (conf or {}).keys():
        sizes[f"conf[{key!r}]"] = (conf or {})[key]
    for field, size in sizes.items():
        if isinstance(size, str) and not awaits_rendering(size) and not _SIZE.fullmatch(size):
            raise InvalidJob(
                f"{field}: {size!r} is no size of memory.",
                remedy="Write a whole number with k, m, g or t, like 4g or 512m.",
            )


def properties(conf: Mapping[str, str]) -> str:
    """Write Spark properties as a file of Java's.

    :param conf: Key to value.
    :raises InvalidJob: A property cannot be passed to Spark unchanged.
    """
    require_conf("conf", conf)
    return "".join(f"{_escaped(key)} {_escaped(value)}\n" for key, value in sorted(conf.items()))


def _require_names(
    field: str, values: Mapping[str, Any], allowed: re.Pattern[str], meaning: str
) -> None:
    for name in values:
        if not isinstance(name, str) or not allowed.fullmatch(name):
            raise InvalidJob(f"{field}: {name!r} cannot be {meaning}.")
        if not isinstance(values[name], str):
            # The value may be a secret.
            kind = type(values[name]).__name__
            raise InvalidJob(f"{field}[{name!r}] must be a text, not one {kind}.")
    require_lines(field, values)


def _escaped(text: str) -> str:
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    # Else it would be taken for a part of the gap before it.
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _texts(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(f"the name {key!r} in {where}", key)
            yield from _texts(f"{where}[{key!r}]", entry)
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from _texts(f"{where}[{number}]", entry)


# Effects of this machine's Spark and Hadoop settings on a driver


_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
_FILES = ("core-site.xml", "spark-defaults.conf")


def uses_local_paths(properties: Iterable[str], env_vars: Mapping[str, str]) -> bool:
    """Whether a path without a scheme is certainly local for a driver on this machine.

    :param properties: The keys of Spark properties, and files with possible further ones.
    :param env_vars: Environment variables of the driver, beside those of this process.
    """
    if any("fs.default" in name or not name.startswith("spark.") for name in properties):
        return False
    environment = {**os.environ, **env_vars}
    folders = [environment[name] for name in _FOLDERS if name in environment]
    if "SPARK_HOME" in environment:
        folders.append(f"{environment['SPARK_HOME']}/conf")
    if "SPARK_DIST_CLASSPATH" in environment:
        return False
    return not any(Path(folder, file).exists() for folder in folders for file in _FILES)


_POLL_SECONDS = 0.2
_LOG_LEVEL = "spark.log.level"
_EXIT_CODE = re.compile(r"Error code is: (-?\d+)\.")
_MORE_MEMORY = "Give the worker more memory, or Spark less: by driver_memory, or by fewer tasks as in local[2]. "
# Beginnings of error messages of Java, Python and spark-submit.
_RAISED = re.compile(
    r"(Exception in thread \S+ |Caused by: )?[\w.$]*(Error|Exception)(: |$)|(\S+ ){0,2}ERROR "
)


class SparkSubmission:
    """Runs spark-submit, and can kill it.

    If the driver runs on this machine, spark-submit is the whole application. If the driver runs in
    the cluster, spark-submit ends once the application is accepted.

    :param hook: Builds the command and runs it.
    :param environment: All variables of spark-submit.
    :param in_cluster: Whether the driver runs in the cluster.
    :param require_active: Raises an error once the task was killed.
    :param on_progress: Function called before a line about progress goes to the log.
    """

    def __init__(
        self,
        hook: "SparkSubmitHook",
        environment: dict[str, str],
        *,
        in_cluster: bool,
        require_active: Callable[[], None],
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        self._hook = hook
        self._environment = environment
        self._in_cluster = in_cluster
        self._require_active = require_active
        self._output = _Output(hook, require_active, on_progress)

    @classmethod
    def of(
        cls,
        job: Job,
        report: str,
        *,
        folder: Path,
        environment: Mapping[str, str],
        connection: "Connection",
        in_cluster: bool,
        options: Mapping[str, Any],
        require_active: Callable[[], None],
        on_progress: Callable[[], None] | None = None,
    ) -> Self:
        """Write the files of a submission, and return it, ready to run.

        :param job: The job.
        :param report: The location of the application's report, see RunFiles.
        :param folder: A folder for files that are needed as long as spark-submit runs.
        :param environment: Variables for spark-submit, and so for a driver on this machine; the
            place for secrets.
        :param connection: The Spark connection, see ``spark_connection``.
        :param in_cluster: Whether the driver runs in the cluster.
        :param options: Further arguments of ``SparkSubmitHook``.
        :param require_active: Raises an error once the task was killed.
        :param on_progress: Function called before a line about progress goes to the log.
        :raises InvalidJob: A text has several lines, which would change its meaning.
        :raises SoftwareMissing: The version of the Spark that spark-submit belongs to is
            unsupported.
        """
        master = connection.host or ""
        # All users of the machine can read the command line, so it contains no secrets. In the
        # cluster, the file lands in the driver's working directory.
        job_file = folder / "job.json"
        arguments = ["--job", job_file.name if in_cluster else str(job_file), "--report", report]
        options = {**options, "conf": _with_log_level(options, master, in_cluster)}
        _require_single_lines(options, arguments, environment)
        variables = {**_environment(None if in_cluster else master), **environment}
        # A local master always has the files of this machine.
        local = not in_cluster and master.startswith("local")
        if local:
            paths = [str(package_copy(folder)), *filter(None, [variables.get("PYTHONPATH")])]
            variables["PYTHONPATH"] = os.pathsep.join(paths)
        _check_programs(connection, variables)
        job_file.touch(mode=0o600)
        job_file.write_text(to_json(job), encoding="utf-8")
        hook = submit_hook(
            conn_id=connection.conn_id,
            application_args=arguments,
            files=str(job_file) if in_cluster else None,
            py_files=None if local else str(package_zip(folder)),
            deploy_mode="cluster" if in_cluster else "client",
            **options,
        )
        if in_cluster:
            expect_no_exit_code(hook)
        return cls(
            hook,
            variables,
            in_cluster=in_cluster,
            require_active=require_active,
            on_progress=on_progress,
        )

    def run(self) -> None:
        """Run spark-submit and wait until it has ended.

        :raises AirflowException: spark-submit ended with an error; the message contains the line
            with the reason.
        :raises TaskKilled: The task was killed before spark-submit had started.
        :raises SoftwareMissing: The Java found is too old to run Spark.
        """
        self._require_active()
        memory = Memory.now()
        try:
            if self._in_cluster:
                self._submit()
            else:
                self._submit_driver()
        except AirflowException as error:
            if "UnsupportedClassVersionError" in str(error):
                raise SoftwareMissing(
                    "The Java that spark-submit found is too old.", remedy=JAVA_REMEDY
                ) from error
            code = _EXIT_CODE.search(str(error))
            status = int(code[1]) if code else 0
            reason = explained(status, memory)
            # The last line of a process that a signal has ended is not its reason; an error may be.
            if why := self._output.raised if reason else self._output.why:
                reason = f"{reason} Its message: {why.rstrip('.')}.".lstrip()
            remedy = _MORE_MEMORY if signal_of(status) is signal.SIGKILL else ""
            failed = ErrorReport(
                id=JobFailed.__name__,
                message=f"spark-submit has failed. {code[0] if code else error} {reason}".rstrip(),
                remedy=f"{remedy}Its complete output is above.",
            )
            # The message of the Spark provider repeats the command, and pages of output.
            raise AirflowException(failed.lines) from None
        finally:
            # Stop all processes after any end of the wait, for example a timeout of the task.
            self.kill()

    def _submit(self) -> None:
        # A session of its own makes the JVM and the Python driver one group that kill() hits.
        self._hook.submit(str(spark_app_path()), env=self._environment, start_new_session=True)

    def _submit_driver(self) -> None:
        """Submit with a driver on this machine, whose Java starts fast."""
        folder = conf.get("hive_acid", "java_archive", fallback="").strip()
        archive = ClassArchive(Path(folder), self._environment) if folder else None
        with archive or contextlib.nullcontext():
            of_driver = [NO_PAGES, DRIVER_OPTIONS, *([archive.options] if archive else [])]
            # The user's settings come last, and take precedence.
            for name, options in (
                ("SPARK_LAUNCHER_OPTS", [LAUNCHER_OPTIONS]),
                ("SPARK_SUBMIT_OPTS", of_driver),
            ):
                theirs = self._environment.get(name, "")
                self._environment[name] = " ".join(filter(None, [*options, theirs]))
            self._environment[SUBMITTED_VARIABLE] = str(time.time())
            self._submit()

    def ends_within(self, seconds: float) -> bool:
        """Whether spark-submit, and a driver on this machine with it, ends by itself in time.

        :param seconds: How long to wait.
        """
        process = process_of(self._hook)
        if process is None:
            return False
        deadline = time.monotonic() + seconds
        while process.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def kill(self) -> None:
        """Kill spark-submit, the driver and their child processes; no effect if all have ended."""
        process = process_of(self._hook)
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # With a limit: called from a signal handler, an endless wait could be one for itself.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        self._hook.on_kill()


def _require_single_lines(
    options: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Refuse texts of several lines, which would change the meaning of the command."""
    for field, value in options.items():
        require_lines(field, value)
    require_conf("conf", options.get("conf") or {})
    require_lines("The command line", arguments)
    require_environment("env_vars", environment)


def _with_log_level(
    options: Mapping[str, Any], master: str, in_cluster: bool
) -> Mapping[str, str] | None:
    """Return the configuration, by which Spark's own log only has warnings in the log of the task.

    On YARN, the hook reads the id of the application from the other lines.
    """
    configured: Mapping[str, str] | None = options.get("conf")
    if in_cluster or master.startswith("yarn") or options.get("properties_file"):
        return configured
    return {_LOG_LEVEL: "WARN", **(configured or {})}


class _Output:
    """The output of spark-submit, forwarded to the log of the task.

    The log folds it into groups, so that the lines about progress are prominent.
    """

    def __init__(
        self,
        hook: "SparkSubmitHook",
        require_active: Callable[[], None],
        on_progress: Callable[[], None] | None,
    ) -> None:
        self._log = hook.log
        self._require_active = require_active
        self._on_progress = on_progress
        self._last = self._raised = ""
        watch_output(hook, self._watch)

    @property
    def raised(self) -> str:
        """Return the line of an error, if any."""
        return self._raised

    @property
    def why(self) -> str:
        """Return the line that best describes the failure."""
        return self._raised or self._last

    def _watch(self, lines: Iterator[str]) -> Iterator[str]:
        # A kill before the hook knew the process has not ended it.
        self._require_active()
        folded = False
        try:
            for line in lines:
                progress = line.startswith(PROGRESS)
                if progress and self._on_progress is not None:
                    self._on_progress()
                if progress is folded:
                    folded = not folded
                    self._log.info("::group::Spark" if folded else "::endgroup::")
                if not progress:
                    self._note(line.strip())
                yield line
        finally:
            if folded:
                self._log.info("::endgroup::")

    def _note(self, line: str) -> None:
        self._last = line or self._last
        # The cause of a cause comes last.
        if _RAISED.match(line):
            self._raised = line.removeprefix("Caused by: ")


def spark_connection(conn_id: str) -> "Connection":
    """Return a Spark connection.

    :raises InvalidConnection: No connection has that name.
    """
    # SparkSubmitHook takes an unknown connection for "yarn" without a word.
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise InvalidConnection(
            f"There is no Spark connection {conn_id!r}.",
            remedy="Create it with type spark and the master as host, for example local[*].",
        ) from error


def runs_in_cluster(connection: "Connection", deploy_mode: str | None) -> bool:
    """Whether the driver runs in the cluster instead of the Airflow task's machine.

    :param connection: The Spark connection.
    :param deploy_mode: The operator's setting; the connection's setting if None.
    """
    return (deploy_mode or connection.extra_dejson.get("deploy-mode")) == "cluster"


def _environment(master_of_driver: str | None) -> dict[str, str]:
    """The environment of spark-submit.

    :param master_of_driver: The master, when the driver runs on this machine.
    """
    environment = os.environ | kept_tokens()
    if master_of_driver is not None:
        environment[DIE_WITH_PARENT] = str(os.getpid())
        # Spark writes timestamps by the clock of its JVM, and Hive's have no zone.
        environment["TZ"] = "UTC"
        # The driver needs this package and its dependencies: the interpreter we run in has them.
        environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if master_of_driver.startswith("local"):
            environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # An Airflow started by its full path has the spark-submit next to it off the PATH.
    programs = [environment.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    environment["PATH"] = os.pathsep.join(programs)
    return environment


def _check_programs(connection: "Connection", environment: Mapping[str, str]) -> None:
    path = environment["PATH"]
    binary = connection.extra_dejson.get("spark-binary") or "spark-submit"
    if shutil.which(binary, path=path) is None:
        raise InvalidConnection(
            f"Spark connection {connection.conn_id!r} needs {binary!r}, which is not on the PATH.",
            remedy="Install Spark on the worker, or pip install 'airflow-hiveacid[spark]'.",
        )
    if (spark := installed_spark(binary, environment)) is not None:
        require_supported_spark(spark[0], str(spark[1]))
    java_home = environment.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else "java"
    if shutil.which(java, path=path) is None:
        raise SoftwareMissing(f"There is no {java!r}, and Spark needs Java.", remedy=JAVA_REMEDY)
