"""One run of a job as a statement on a server of Spark with the door, by Spark Connect."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from hiveacid.errors import ClusterUnreachable, InvalidConnection, without_secrets
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import Report

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION_TYPE = "spark_connect"
# Longer than the server keeps a stream of answers open.
_STREAM_SECONDS = 150
_SECONDS_TO_ATTACH = 5
_SECONDS_TO_END = 2
_MISSING = ("OPERATION_NOT_FOUND", "SESSION_NOT_FOUND")
_REMEDY = (
    "Its log has more. It needs spark.sql.extensions=org.hiveacid.spark.AcidExtensions, and the engine"
    " of the same version as this provider."
)
# The statements of earlier attempts that a server may remember.
_MOST_STATEMENTS = 100


class ConnectRun:
    """Runs a job as one statement, which survives the worker, and which the next attempt follows.

    The session and the statement have names that the job determines. After the server has forgotten
    the statement, the run token of the job keeps it from being applied twice.

    :param connection: The Spark connection, of the type ``spark_connect``.
    :param job: The job.
    :param log: The logger of the task.
    :param require_active: Raises an error once the task was killed.
    :raises InvalidConnection: The connection has no valid address.
    """

    def __init__(
        self, connection: "Connection", job: Job, log: Any, require_active: Callable[[], None]
    ) -> None:
        # They are heavy, and few tasks need them.
        import grpc
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
        from pyspark.errors import PySparkException
        from pyspark.sql.connect import proto
        from pyspark.sql.connect.client import DefaultChannelBuilder

        from hiveacid.parser.calls import call_text

        try:
            url = SparkConnectHook(connection.conn_id).get_connection_url()
            self._builder = DefaultChannelBuilder(url)
        except (AttributeError, PySparkException, ValueError) as error:
            raise InvalidConnection(
                f"Spark connection {connection.conn_id!r} has no valid address: {error}",
                remedy="Its host and port are those of a server of Spark Connect.",
            ) from error
        self._grpc: Any = grpc
        self._proto: Any = proto
        self._kind = job.report
        # The server has its own metastore.
        self._statement = call_text(replace(job, metastore=None))
        self._log = log
        self._require_active = require_active
        self._number = 0
        self._report: Report | None = None
        # Whether this process has sent the statement.
        self._is_own = False

    @property
    def adopted(self) -> bool:
        """Whether an earlier attempt has sent the statement."""
        return not self._is_own

    @property
    def at_work(self) -> bool:
        """Whether the server has the statement of an earlier attempt, which runs or has succeeded."""
        with self._service() as service, self._translated_errors():
            is_there = self._attach(service, _SECONDS_TO_ATTACH)
        if is_there:
            self._log.info("An earlier attempt has sent the statement %s.", self._id)
        return is_there

    def submit(self, job: Job, options: Mapping[str, Any], env_vars: Mapping[str, str]) -> None:
        """Do nothing: the first poll sends the statement.

        :param job: The job.
        :param options: Nothing that a server would take.
        :param env_vars: Nothing that a server would take.
        """

    def poll(self) -> Application | None:
        """Follow the statement for minutes; send it first if the server does not have it.

        :return: The ended statement; None if it still runs.
        :raises ClusterUnreachable: The server does not answer.
        """
        try:
            with self._service() as service, self._translated_errors():
                if not self._attach(service, _STREAM_SECONDS):
                    self._require_active()
                    self._is_own = True
                    self._read(service.ExecutePlan, self._execution(), _STREAM_SECONDS)
                if self._report is not None:
                    # The server would keep the answers for a while.
                    with suppress(self._grpc.RpcError):
                        self._call(service.ReleaseSession, self._proto.ReleaseSessionRequest())
        except self._grpc.RpcError as error:
            return Application(self._id, ApplicationState.FAILED, error.details() or "")
        if self._report is None:
            return None
        return Application(self._id, ApplicationState.SUCCEEDED)

    def report(self, job: Job) -> Report | None:
        """Return the report of the statement, if any.

        :param job: The job.
        """
        return self._report

    def failure(self, application: Application) -> AirflowException:
        """Return the server's message about a failed statement.

        :param application: As ``poll`` has returned it.
        """
        message = without_secrets(application.diagnostics)
        return AirflowException(f"The statement on the server has failed: {message} {_REMEDY}")

    def ends_within(self, seconds: float) -> bool:
        """Whether the statement ends by itself in time; it is no stream.

        :param seconds: How long to wait.
        """
        return False

    def end(self) -> None:
        """Interrupt the statement, also one that an earlier attempt has sent.

        :raises ClusterUnreachable: The server does not answer.
        """
        request = self._proto.InterruptRequest(
            interrupt_type=self._proto.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
            operation_id=self._id,
        )
        with self._service() as service, self._translated_errors():
            try:
                self._call(service.Interrupt, request)
            except self._grpc.RpcError as error:
                # The statement has ended, and its session with it.
                if "SESSION_CLOSED" not in (error.details() or ""):
                    raise
                return
        self._log.info("Interrupted the statement %s.", self._id)

    @property
    def _id(self) -> str:
        """The name of the session, and of the only statement in it."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._statement} {self._number}"))

    def _attach(self, service: Any, seconds: float) -> bool:
        """Read the answers to the statement; return whether the server has it.

        A statement of an earlier attempt that has failed, or was interrupted, is none.
        """
        while True:
            request = self._proto.ReattachExecuteRequest(operation_id=self._id)
            try:
                self._read(service.ReattachExecute, request, seconds)
                if self._report is None or self._report.error is None or self._is_own:
                    return True
                self._report = None
            except self._grpc.RpcError as error:
                if any(name in (error.details() or "") for name in _MISSING):
                    return False
                # Spark's own errors have this code.
                is_of_spark = error.code() is self._grpc.StatusCode.INTERNAL
                if self._is_own or not is_of_spark or self._number == _MOST_STATEMENTS:
                    raise
            self._number += 1

    def _execution(self) -> Any:
        proto = self._proto
        reattachable = proto.ReattachOptions(reattachable=True)
        return proto.ExecutePlanRequest(
            operation_id=self._id,
            # Spark 3.5 knows this field only.
            plan=proto.Plan(command={"sql_command": {"sql": self._statement}}),
            request_options=[{"reattach_options": reattachable}],
        )

    def _read(self, method: Any, request: Any, seconds: float) -> None:
        """Read answers until the statement or the stream ends."""
        from hiveacid.foreign.arrow import text_of_stream

        try:
            for answer in self._call(method, request, seconds):
                if answer.HasField("sql_command_result"):
                    rows = answer.sql_command_result.relation.local_relation.data
                    text = text_of_stream(rows).encode()
                    self._report = self._kind.from_dict(parse_json(text))
                    return
        except self._grpc.RpcError as error:
            if error.code() is not self._grpc.StatusCode.DEADLINE_EXCEEDED:
                raise

    def _call(self, method: Any, request: Any, seconds: float = _SECONDS_TO_END) -> Any:
        request.session_id = self._id
        request.user_context.user_id = self._builder.userId or ""
        request.client_type = "hiveacid"
        return method(request, timeout=seconds, metadata=self._builder.metadata())

    @contextmanager
    def _service(self) -> Iterator[Any]:
        """Connect; each time anew, as a signal may interrupt another call of the same thread."""
        with self._builder.toChannel() as channel:
            yield self._proto.SparkConnectServiceStub(channel)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate the errors of a server that does not answer, or does not let the client in."""
        try:
            yield
        except self._grpc.RpcError as error:
            server = f"The server of Spark {self._builder.host}"
            match error.code():
                case self._grpc.StatusCode.UNAVAILABLE | self._grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise ClusterUnreachable(
                        f"{server} does not answer: {error.details()}."
                    ) from error
                case (
                    self._grpc.StatusCode.UNAUTHENTICATED | self._grpc.StatusCode.PERMISSION_DENIED
                ):
                    raise InvalidConnection(
                        f"{server} refuses the client: {error.details()}."
                    ) from error
            raise
