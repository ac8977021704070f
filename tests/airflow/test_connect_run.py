"""The statement of a job on a server of Spark Connect, whose answers the tests choose."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.connect import proto

from airflow_hiveacid.cluster.applications import ApplicationState
from airflow_hiveacid.cluster.connect_run import ConnectRun
from airflow_hiveacid.cluster.spark_submission import spark_connection
from hiveacid.errors import ClusterUnreachable, InvalidConnection
from hiveacid.jobs import UpdateJob
from hiveacid.jobs.job_json import from_json
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import ErrorReport, RunReport
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.parser.calls import read_call

JOB = UpdateJob(
    target="d.t",
    set={"v": "'$x'"},
    where="id = 1",
    run_token="d/r/t/-1",
    metastore=MetastoreOptions(uris="thrift://hms:9083"),
)
DONE = RunReport(job="update", target="d.t", rows_updated=1)
FAILED = RunReport(job="update", target="d.t", error=ErrorReport(id="LockTimeout", message="m"))
MISSING = "[INVALID_HANDLE.OPERATION_NOT_FOUND] Operation not found."
ENDED = "[INVALID_HANDLE.OPERATION_ABANDONED] Operation was abandoned."
CLOSED = "[INVALID_HANDLE.SESSION_CLOSED] Session was closed."

# A report, the text of an error of Spark, another error, or the end of a stream without an answer.
Answer: TypeAlias = "RunReport | str | grpc.StatusCode | None"


class Service(proto.SparkConnectServiceServicer):  # type: ignore[misc]
    """A server that gives each request the next answer for its kind; the last one is repeated."""

    def __init__(self) -> None:
        self.attached: Sequence[Answer] = [MISSING]
        self.executed: Sequence[Answer] = [DONE]
        self.requests: list[Any] = []

    def ReattachExecute(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        answer, *others = self.attached
        self.attached = others or [answer]
        return self._answers(answer, request, context)

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        answer, *others = self.executed
        self.executed = others or [answer]
        return self._answers(answer, request, context)

    def ReleaseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        return proto.ReleaseSessionResponse()

    def Interrupt(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        return proto.InterruptResponse()

    @property
    def kinds(self) -> list[str]:
        return [type(request).__name__.removesuffix("Request") for request in self.requests]

    def _answers(self, answer: Answer, request: Any, context: Any) -> Iterator[Any]:
        self.requests.append(request)
        yield proto.ExecutePlanResponse(execution_progress={})
        if isinstance(answer, str):
            context.abort(grpc.StatusCode.INTERNAL, answer)
        elif isinstance(answer, grpc.StatusCode):
            context.abort(answer, "no")
        elif answer is not None:
            table = pa.table({"report": [json.dumps(answer.to_dict())]})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            rows = {"local_relation": {"data": sink.getvalue().to_pybytes()}}
            yield proto.ExecutePlanResponse(sql_command_result={"relation": rows})


@pytest.fixture
def service(connect: Callable[..., None]) -> Iterator[Service]:
    service, port = Service(), free_port()
    server = grpc.server(ThreadPoolExecutor(2))
    proto.add_SparkConnectServiceServicer_to_server(service, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    connect(port=port, login="anna")
    yield service
    server.stop(None)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def connect(**fields: Any) -> None:
        connection = {"conn_type": "spark_connect", "host": "127.0.0.1", **fields}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    return connect


def new_run(require_active: Callable[[], None] = lambda: None) -> ConnectRun:
    log = logging.getLogger(__name__)
    return ConnectRun(spark_connection("spark_default"), JOB, log, require_active)


def state(run: ConnectRun) -> ApplicationState | None:
    ended = run.poll()
    return None if ended is None else ended.state


def test_a_statement_is_sent_once_and_followed(service: Service) -> None:
    run = new_run()
    assert not run.at_work
    service.executed = [None]
    assert run.poll() is None
    # The server ends each stream after a while.
    service.attached = [None, DONE]
    assert run.poll() is None
    assert state(run) is ApplicationState.SUCCEEDED
    assert run.report(JOB) == DONE
    attach = "ReattachExecute"
    assert service.kinds == [attach, attach, "ExecutePlan", attach, attach, "ReleaseSession"]
    sent = service.requests[2]
    assert sent.user_context.user_id == "anna"
    call = read_call(sent.plan.command.sql_command.sql)
    assert call is not None
    job = from_json(call.job)
    # The server has a metastore of its own.
    assert (job.run_token, job.metastore) == (JOB.run_token, None)


def test_the_next_attempt_follows_the_statement(service: Service) -> None:
    service.attached = [DONE]
    run = new_run()
    assert run.at_work
    assert state(run) is ApplicationState.SUCCEEDED
    assert run.adopted
    assert "ExecutePlan" not in service.kinds


@pytest.mark.parametrize("ended", [ENDED, CLOSED, "[DIVIDE_BY_ZERO] Division.", FAILED])
def test_the_next_attempt_does_not_follow_a_failed_statement(
    service: Service, ended: Answer
) -> None:
    service.attached = [ended, MISSING]
    run = new_run()
    assert state(run) is ApplicationState.SUCCEEDED
    assert not run.adopted
    first, *_, sent, _ = service.requests
    # A server refuses the name of an ended statement.
    assert sent.operation_id == sent.session_id != first.operation_id
    assert service.kinds[-2:] == ["ExecutePlan", "ReleaseSession"]


def test_a_server_that_was_restarted_gets_the_statement_again(service: Service) -> None:
    run = new_run()
    service.executed = [grpc.StatusCode.UNAVAILABLE, DONE]
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1 does not answer: no"):
        run.poll()
    assert state(run) is ApplicationState.SUCCEEDED
    assert service.kinds.count("ExecutePlan") == 2


def test_a_failed_statement_has_its_error(service: Service) -> None:
    run = new_run()
    service.executed = [FAILED]
    assert state(run) is ApplicationState.SUCCEEDED
    assert run.report(JOB) == FAILED
    run = new_run()
    service.executed = ["[PARSE_SYNTAX_ERROR] CALL"]
    ended = run.poll()
    assert ended is not None
    assert run.report(JOB) is None
    assert "PARSE_SYNTAX_ERROR" in str(run.failure(ended))
    assert "spark.sql.extensions" in str(run.failure(ended))


def test_a_killed_task_sends_nothing(service: Service) -> None:
    def refuse() -> None:
        raise KeyboardInterrupt

    run = new_run(refuse)
    with pytest.raises(KeyboardInterrupt):
        run.poll()
    run.end()
    assert service.kinds == ["ReattachExecute", "Interrupt"]
    assert service.requests[0].operation_id == service.requests[1].operation_id


def test_a_wrong_connection_is_named(
    service: Service, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.attached = [grpc.StatusCode.UNAUTHENTICATED]
    with pytest.raises(InvalidConnection, match="refuses the client"):
        new_run().poll()
    connect(port=free_port())
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        assert new_run().at_work
    connect(host=None)
    with pytest.raises(InvalidConnection, match="no valid address"):
        new_run()
