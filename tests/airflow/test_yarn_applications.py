"""The REST client of YARN, against answers that a real ResourceManager 3.4.2 has given."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_hiveacid.cluster import yarn
from airflow_hiveacid.cluster import yarn as rest_client
from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.spark_master import applications_of, master_of
from airflow_hiveacid.cluster.yarn import KnownHosts, YarnApplications
from hiveacid.errors import ClusterUnreachable, InvalidConnection

ID = "application_1795191425736_0001"
NOT_FOUND = {
    "RemoteException": {
        "exception": "NotFoundException",
        "message": f"java.lang.Exception: app with id: {ID} not found",
        "javaClassName": "org.apache.hadoop.yarn.webapp.NotFoundException",
    }
}
STANDBY = (
    "Can not find any active RM. Will retry in next 7 seconds.\n"
    "HA Zookeeper Connection State: Could not find leader elector.\n"
)
LOG = """\
Container: container_1795191425736_0001_01_000001 on localhost:22900
LogAggregationType: LOCAL
====================================================================
LogType:stdout
LogLastModifiedTime:Fri Nov 20 16:17:42 +0000 2026
LogLength:{length}
LogContents:
{text}End of LogType:stdout.This log file belongs to a running container (container_\
1795191425736_0001_01_000001) and so may not be complete.
***********************************************************************

"""

Answer = tuple[int, Any]


def app(state: str = "RUNNING", final: str = "UNDEFINED", **fields: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "user": "hive",
        "state": state,
        "finalStatus": final,
        "diagnostics": "",
        "applicationTags": "hiveacid-2689367b205c16ce32ed4200",
        "startedTime": 1795191433780,
    } | fields


class Server:
    """Return the configured answers, and record the requests."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Answer] = {}
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.location = ""
        self.headers: dict[str, str] = {}
        told = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                told.asked.append(f"{self.command} {self.path}")
                if length := int(self.headers.get("Content-Length") or 0):
                    told.bodies.append(json.loads(self.rfile.read(length)))
                where = (self.command, self.path.partition("?")[0])
                status, body = told.answers.get(where, (404, NOT_FOUND))
                content = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                if 300 <= status < 400 and told.location:
                    self.send_header("Location", told.location)
                for header in told.headers.items():
                    self.send_header(*header)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.answer()

            def do_PUT(self) -> None:
                self.answer()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def will(self, status: int, body: Any, path: str = f"/{ID}", method: str = "GET") -> None:
        self.answers[method, f"/ws/v1/cluster/apps{path}"] = status, body

    def will_log(self, name: str, text: str) -> None:
        path = f"/ws/v1/node/containers/container_1795191425736_0001_01_000001/logs/{name}"
        self.answers["GET", path] = 200, LOG.format(length=len(text), text=text)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def servers() -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def start() -> Server:
        started.append(Server())
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def server(servers: Callable[[], Server]) -> Server:
    return servers()


def applications(*servers: Server) -> YarnApplications:
    return YarnApplications([server.url for server in servers], "hive")


@pytest.mark.parametrize(
    ("state", "final", "ours"),
    [
        ("NEW", "UNDEFINED", ApplicationState.PENDING),
        ("NEW_SAVING", "UNDEFINED", ApplicationState.PENDING),
        ("SUBMITTED", "UNDEFINED", ApplicationState.PENDING),
        ("ACCEPTED", "UNDEFINED", ApplicationState.PENDING),
        ("RUNNING", "UNDEFINED", ApplicationState.RUNNING),
        ("RUNNING", "SUCCEEDED", ApplicationState.RUNNING),
        ("FINISHED", "SUCCEEDED", ApplicationState.SUCCEEDED),
        ("FINISHED", "FAILED", ApplicationState.FAILED),
        ("FINISHED", "UNDEFINED", ApplicationState.FAILED),
        ("FINISHED", "KILLED", ApplicationState.KILLED),
        ("FAILED", "FAILED", ApplicationState.FAILED),
        ("KILLED", "KILLED", ApplicationState.KILLED),
    ],
)
def test_an_application_has_succeeded_only_with_a_final_report(
    server: Server, state: str, final: str, ours: ApplicationState
) -> None:
    server.will(200, {"app": app(state, final)})
    application = applications(server).get(ID)
    assert application is not None
    assert application.state is ours
    assert ours.ended == (state in ("FINISHED", "FAILED", "KILLED"))


def test_an_application_reports_its_cause_and_its_logs(server: Server) -> None:
    said = "User application exited with status 1\n"
    server.will(
        200, {"app": app("FINISHED", "FAILED", diagnostics=said, trackingUrl=f"{server.url}/proxy")}
    )
    assert applications(server).get(ID) == Application(
        ID, ApplicationState.FAILED, "User application exited with status 1", f"{server.url}/proxy"
    )


def test_an_application_without_a_page_yet_has_that_of_the_resource_manager(server: Server) -> None:
    server.will(200, {"app": app("ACCEPTED")})
    application = applications(server).get(ID)
    assert application is not None
    assert application.tracking_url == f"{server.url}/cluster/app/{ID}"


def test_an_unknown_application_is_none(server: Server) -> None:
    assert applications(server).get(ID) is None


def test_applications_are_found_by_tag_the_oldest_first(server: Server) -> None:
    later = app(id="application_1795191425736_10000", startedTime=1795191433790)
    earlier = app("FINISHED", "FAILED", id="application_1795191425736_9999")
    server.will(200, {"apps": {"app": [later, earlier]}}, path="")
    found = applications(server).find("hiveacid-2689367b205c16ce32ed4200")
    assert [a.id.rpartition("_")[2] for a in found] == ["9999", "10000"]
    assert [a.state for a in found] == [ApplicationState.FAILED, ApplicationState.RUNNING]
    assert server.asked == [
        "GET /ws/v1/cluster/apps?applicationTags=hiveacid-2689367b205c16ce32ed4200&user.name=hive"
    ]


def test_applications_that_others_have_given_the_same_tag_are_not_ours(server: Server) -> None:
    server.will(200, {"apps": {"app": [app(user="mallory"), app()]}}, path="")
    assert len(applications(server).find("hiveacid-2689367b205c16ce32ed4200")) == 1


def test_no_application_has_the_tag(server: Server) -> None:
    server.will(200, {"apps": {}}, path="")
    assert applications(server).find("hiveacid-0") == []


@pytest.mark.parametrize(
    "answer", [(202, {"state": "ACCEPTED"}), (200, {"state": "KILLED"}), (404, NOT_FOUND)]
)
def test_killing_is_quiet_when_there_is_nothing_left_to_kill(
    server: Server, answer: Answer
) -> None:
    server.will(*answer, path=f"/{ID}/state", method="PUT")
    applications(server).kill(ID)
    assert server.asked == [f"PUT /ws/v1/cluster/apps/{ID}/state?user.name=hive"]
    assert server.bodies == [{"state": "KILLED"}]


def test_the_active_one_of_several_resource_managers_is_found_and_remembered(
    servers: Callable[[], Server],
) -> None:
    standby, active = servers(), servers()
    standby.will(307, STANDBY)
    active.will(200, {"app": app()})
    both = applications(standby, active)
    assert both.get(ID) is not None
    assert both.get(ID) is not None
    assert len(standby.asked) == 1
    # And after a failover the other way round.
    standby.will(200, {"app": app("FINISHED", "SUCCEEDED")})
    active.close()
    application = both.get(ID)
    assert application is not None
    assert application.state is ApplicationState.SUCCEEDED


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((307, STANDBY), "on standby"),
        ((500, "java.lang.NullPointerException"), "500"),
        ((200, "<html>Cluster</html>"), "not the answer of a ResourceManager"),
        ((200, "{"), "not the answer of a ResourceManager"),
    ],
)
def test_a_cluster_without_a_usable_answer_is_unreachable(
    server: Server, answer: Answer, said: str
) -> None:
    server.will(*answer)
    with pytest.raises(ClusterUnreachable, match=f"{re.escape(server.url)}: .*{said}") as caught:
        applications(server).get(ID)
    assert caught.value.retryable


def test_a_closed_port_is_an_error(server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound but not listening: no other process can listen there.
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match=rf"http://{address}: .*refused"):
            YarnApplications([address], "hive").kill(ID)


def test_a_silent_server_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yarn, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match="timed out"):
            YarnApplications([address], "hive").find("hiveacid-0")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_user_is_not_tried_again(server: Server, status: int) -> None:
    server.will(status, "no", path=f"/{ID}/state", method="PUT")
    with pytest.raises(InvalidConnection, match="refuses the user 'hive'") as caught:
        applications(server).kill(ID)
    assert not caught.value.retryable


def logs_of(server: Server) -> dict[str, str]:
    container = "container_1795191425736_0001_01_000001"
    return {"amContainerLogs": f"{server.url}/node/containerlogs/{container}/hive"}


def test_the_log_is_what_the_driver_printed(server: Server) -> None:
    server.will(200, {"app": app(**logs_of(server))})
    server.will_log("stdout", "one\ntwo\nValueError: three\n")
    assert applications(server).log_tail(ID, 2) == ["two", "ValueError: three"]
    assert "size=-65536" in server.asked[-1]


def test_a_driver_that_printed_nothing_shows_the_log_of_spark(server: Server) -> None:
    server.will(200, {"app": app(**logs_of(server))})
    server.will_log("stdout", "")
    server.will_log("stderr", "ERROR ApplicationMaster: no\n")
    assert applications(server).log_tail(ID) == ["ERROR ApplicationMaster: no"]


def test_a_log_without_an_envelope_is_taken_as_it_is(server: Server) -> None:
    server.will(200, {"app": app(**logs_of(server))})
    path = "/ws/v1/node/containers/container_1795191425736_0001_01_000001/logs/stdout"
    server.answers["GET", path] = 200, "one\ntwo\n"
    assert applications(server).log_tail(ID) == ["one", "two"]


def test_a_log_that_cannot_be_had_is_empty(servers: Callable[[], Server]) -> None:
    manager, node = servers(), servers()
    assert applications(manager).log_tail(ID) == []
    manager.will(200, {"app": app("ACCEPTED")})
    assert applications(manager).log_tail(ID) == []
    manager.will(200, {"app": app(**logs_of(node))})
    assert applications(manager).log_tail(ID) == []
    node.close()
    assert applications(manager).log_tail(ID) == []
    manager.close()
    assert applications(manager).log_tail(ID) == []


CONTAINER_LOG = "/ws/v1/node/containers/container_1795191425736_0001_01_000001/logs/stdout"


def test_a_log_is_read_from_no_file_and_no_unknown_host(
    servers: Callable[[], Server], tmp_path: Path
) -> None:
    manager = servers()
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    other = servers()
    other.will_log("stdout", "secret\n")
    unknown = other.url.replace("127.0.0.1", "127.0.0.2")
    container = CONTAINER_LOG.split("/")[5]
    # Text after a # is not part of the path.
    for node in (f"file://{secret}#", f"FILE:{secret}#", unknown, "http://[", ""):
        logs = {"amContainerLogs": f"{node}/node/containerlogs/{container}/hive"}
        manager.will(200, {"app": app(**logs)})
        assert applications(manager).log_tail(ID) == []
    manager.will(200, {"app": app(**logs_of(manager))})
    manager.answers["GET", CONTAINER_LOG] = 307, ""
    manager.location = f"{unknown}{CONTAINER_LOG}"
    assert applications(manager).log_tail(ID) == []
    assert other.asked == []


def test_a_log_is_read_from_a_node_and_from_where_it_has_handed_it_on_to(
    servers: Callable[[], Server],
) -> None:
    manager, node = servers(), servers()
    manager.will(200, {"app": app(**logs_of(node))})
    by_name = node.url.replace("127.0.0.1", "localhost")
    logs = {"amContainerLogs": logs_of(node)["amContainerLogs"].replace(node.url, by_name)}
    manager.will(200, {"app": app(**logs)})
    nodes = {"nodes": {"node": [{"nodeHTTPAddress": by_name.removeprefix("http://")}]}}
    manager.answers["GET", "/ws/v1/cluster/nodes"] = 200, nodes
    assert applications(manager).log_tail(ID) == []
    assert node.asked == []  # A ResourceManager adds no hosts to those of the connection.
    node.answers["GET", CONTAINER_LOG] = 307, ""
    node.location = f"{manager.url}{CONTAINER_LOG}"
    manager.will_log("stdout", "handed on\n")
    known = YarnApplications([manager.url], "hive", hosts=["localhost"])
    assert known.log_tail(ID) == ["handed on"]


def test_a_server_that_asks_for_kerberos_needs_a_ticket(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    server.will(401, "")
    with pytest.raises(InvalidConnection, match="refuses the user"):
        applications(server).get(ID)
    server.headers = {"WWW-Authenticate": "Negotiate"}
    with pytest.raises(InvalidConnection, match=r"127\.0\.0\.1 asks for Kerberos"):
        applications(server).get(ID)
    assert applications(server).log_tail(ID) == []


def test_an_answer_has_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yarn, "ask", partial(rest_client.ask, most_bytes=1000))
    server.will(200, {"app": app(diagnostics="x" * 10_000)})
    with pytest.raises(ClusterUnreachable, match="more than 1000 bytes"):
        applications(server).get(ID)


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "http://", 7, "//127.0.0.1/1", None),
        *(
            "http://127.0.0.1/\x1b",
            "http://evil/1",
            "http://127.0.0.1.evil/",
            "http://127.0.0.1@evil/",
        ),
    ],
)
def test_only_an_address_on_a_known_host_becomes_a_link(server: Server, url: object) -> None:
    server.will(200, {"app": app(trackingUrl=url)})
    application = applications(server).get(ID)
    assert application is not None
    assert application.tracking_url == f"{server.url}/cluster/app/{ID}"


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("http://rm.prod.example.com:1/x", True),
        ("https://RM.prod.example.com/x", True),
        ("http://node7.prod.example.com:8042/x", True),
        ("http://node7.test.example.com/x", False),
        ("http://prod.example.com.evil/x", False),
        ("http://evilprod.example.com/x", False),
        ("http://10.0.0.7:8088/x", True),
        ("http://10.0.0.8:8088/x", False),
        ("http://rm2.com/x", True),
        ("http://evil.com/x", False),
        ("http://history/x", True),
        ("http://a.b.logs.org/x", True),
        ("http://logs.org/x", False),
        ("ftp://history/x", False),
    ],
)
def test_hosts_are_known_by_the_connection(url: str, known: bool) -> None:
    addresses = ["http://rm.prod.example.com:8088", "http://10.0.0.7:8088", "http://rm2.com:1"]
    assert KnownHosts(addresses, ["History", "*.logs.org"]).has(url) is known


def test_a_submission_is_found_by_its_tag_and_not_waited_for(server: Server) -> None:
    assert applications(server).submit_conf("hiveacid-1") == {
        "spark.yarn.tags": "hiveacid-1",
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.yarn.maxAppAttempts": "1",
    }
    assert applications(server).driver_env_conf({"TZ": "UTC"}) == {
        "spark.yarn.appMasterEnv.TZ": "UTC"
    }


def connection(host: str = "yarn", **fields: Any) -> Connection:
    return Connection(**({"conn_id": "spark_default", "conn_type": "spark", "host": host} | fields))


def test_a_connection_names_all_resource_managers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = f"http://127.0.0.1:9/, {server.url.removeprefix('http://')}"
    extra = json.dumps({"yarn_resourcemanager_webapp_address": addresses})
    server.will(200, {"app": app()})
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert applications_of(connection(extra=extra)).get(ID) is not None
    assert applications_of(connection(extra=extra, login="ops")).get(ID) is not None
    assert [path.rpartition("=")[2] for path in server.asked] == ["etl", "ops"]


def test_a_connection_without_the_address_of_yarn_is_refused() -> None:
    with pytest.raises(InvalidConnection, match="yarn_resourcemanager_webapp_address"):
        applications_of(connection())


@pytest.mark.parametrize("host", ["local[*]", "spark://h:7077"])
def test_unsupported_cluster_modes_are_reported(host: str) -> None:
    with pytest.raises(InvalidConnection, match=re.escape(f"the master {host!r}")):
        applications_of(connection(host))


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        ({"host": "yarn"}, "yarn"),
        ({"host": "local[2]"}, "local[2]"),
        ({"host": "spark://h", "port": 7077}, "spark://h:7077"),
        ({"host": "h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "k8s", "host": "https://h", "port": 6443}, "k8s://https://h:6443"),
    ],
)
def test_the_master_is_the_one_that_spark_submit_gets(fields: dict[str, Any], master: str) -> None:
    assert master_of(connection(**fields)) == master


def test_a_tag_is_the_same_for_every_try_of_a_run_and_for_no_other() -> None:
    tag = application_tag("dag/run/task/-1")
    assert re.fullmatch("hiveacid-[0-9a-f]{24}", tag)
    assert tag == application_tag("dag/run/task/-1")
    assert tag != application_tag("dag/run/task/0")
