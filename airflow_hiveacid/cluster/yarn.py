"""The applications of a YARN cluster, through its ResourceManager's REST API."""

import base64
import getpass
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from hiveacid.errors import ClusterUnreachable, InvalidConnection, SoftwareMissing
from hiveacid.foreign.text import parse_json

if TYPE_CHECKING:
    from airflow.sdk import Connection


# HTTP to the services of a cluster, whose answers are not trusted


MOST_BYTES = 16 << 20
_PIECE = 1 << 16


class KnownHosts:
    """The hosts of a cluster, by its connection alone: answers of servers add no hosts."""

    def __init__(self, addresses: Iterable[str], names: Iterable[str] = ()) -> None:
        """Collect the hosts.

        Args:
            addresses: The addresses of servers. Hosts of the same domains are known, too.
            names: More hosts, and domains with all their hosts: ``*.example.com``.
        """
        hosts = {host for address in addresses if (host := host_of(address))}
        domains = {f".{host.partition('.')[2]}" for host in hosts if not _is_ip_address(host)}
        given = {name.lower() for name in names}
        self._hosts = hosts | given
        self._domains = (
            # A domain with one label may be that of all companies, such as .com.
            *(domain for domain in domains if domain.count(".") > 1),
            *(name[1:] for name in given if name.startswith("*.")),
        )

    def has(self, url: object) -> bool:
        """Return whether a text is a printable http or https address on a known host."""
        host = host_of(url) if isinstance(url, str) and url.isprintable() else None
        return host is not None and (host in self._hosts or host.endswith(self._domains))


def host_of(url: str) -> str | None:
    """Return the host of a web address; None for any other text, such as ``file:///etc/passwd``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def _is_ip_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def ask(request: urllib.request.Request, seconds: float, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the whole answer to a request.

    A redirect is not followed: it may lead to another host. A server that asks for Kerberos gets the
    ticket of this process (SPNEGO), so the host has to be a known one.

    Args:
        request: The request, by http or https.
        seconds: How long the whole answer may take.
        most_bytes: How long it may be.

    Raises:
        urllib.error.HTTPError: The status is an error or a redirect.
        OSError: The server does not answer in time, or the address has another scheme.
        http.client.HTTPException: The answer is not HTTP, or too long.
        InvalidConnection: The server asks for Kerberos, and no ticket is available.
    """
    end = time.monotonic() + seconds
    answer = bytearray()
    with _opened(request, seconds) as response:
        while piece := response.read1(_PIECE):
            answer += piece
            if len(answer) > most_bytes:
                raise http.client.HTTPException(f"the answer has more than {most_bytes} bytes")
            if time.monotonic() > end:
                raise TimeoutError("the answer does not end")
    return bytes(answer)


def _opened(request: urllib.request.Request, seconds: float) -> Any:
    try:
        return _OPENER.open(request, timeout=seconds)
    except urllib.error.HTTPError as error:
        challenges = error.headers.get_all("WWW-Authenticate") or []
        if error.code != 401 or not any(
            challenge.lower().startswith("negotiate") for challenge in challenges
        ):
            raise
        error.close()
    proof = base64.b64encode(_ticket_for(host_of(request.full_url) or "")).decode()
    request.add_unredirected_header("Authorization", f"Negotiate {proof}")
    return _OPENER.open(request, timeout=seconds)


def _ticket_for(host: str) -> bytes:
    # This module is imported wherever an operator is, and Kerberos is rarely needed.
    from hiveacid.metastore.sasl.kerberos import GssFailure, SystemContext

    try:
        return SystemContext(f"HTTP@{host}", None, {}).step(b"")
    except (GssFailure, SoftwareMissing) as failure:
        raise InvalidConnection(
            f"{host} asks for Kerberos, and there is no ticket for HTTP@{host}: {failure}.",
            remedy="Run airflow kerberos or kinit for the user of this process, with KRB5CCNAME in its "
            "environment.",
        ) from failure


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A ResourceManager on standby redirects to the active one, by a name only YARN may know."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    # Not build_opener(), which adds files, FTP and data URLs.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _NoRedirects(),
    ):
        opener.add_handler(handler)
    return opener


_OPENER = _opener()


ADDRESS_EXTRA = "yarn_resourcemanager_webapp_address"
HOSTS_EXTRA = "yarn_hosts"
TIMEOUT_SECONDS = 10

# Size of the end of a log that is fetched for its last lines.
_LOG_BYTES = 64 * 1024
# Without the server's own header and footer it is no longer than that.
_MOST_LOG_BYTES = 2 * _LOG_BYTES
_CONTAINER = re.compile(r"container_\w+")

_STATES = {
    "NEW": ApplicationState.PENDING,
    "NEW_SAVING": ApplicationState.PENDING,
    "SUBMITTED": ApplicationState.PENDING,
    "ACCEPTED": ApplicationState.PENDING,
    "RUNNING": ApplicationState.RUNNING,
    "FAILED": ApplicationState.FAILED,
    "KILLED": ApplicationState.KILLED,
}
# An application that has FINISHED has reported its result to YARN itself.
_FINAL_STATES = {
    "SUCCEEDED": ApplicationState.SUCCEEDED,
    "KILLED": ApplicationState.KILLED,
}


class YarnApplications:
    """The applications of a YARN cluster.

    :param addresses: The web addresses of the ResourceManagers. Of several, one is active; any may
        be asked.
    :param user: The requesting user, if YARN cannot determine it.
    :param submitters: The users that our applications may run as.
    :param hosts: Hosts of the cluster besides those of the ResourceManagers and of their domains.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        user: str,
        submitters: Collection[str] = (),
        hosts: Collection[str] = (),
    ) -> None:
        self._addresses = [_with_scheme(address) for address in addresses]
        self._known = KnownHosts(self._addresses, hosts)
        self._user = user
        self._submitters = {user, *submitters}

    @classmethod
    def from_connection(cls, connection: "Connection") -> "YarnApplications":
        """Return the applications of a Spark connection whose master is YARN.

        :param connection: Its extra ``yarn_resourcemanager_webapp_address`` holds the addresses,
            separated by commas; ``yarn_hosts`` further hosts. Its login is the user that asks, by
            default the user that submits.
        """
        addresses = _listed(connection, ADDRESS_EXTRA)
        if not addresses:
            raise InvalidConnection(
                f"Spark connection {connection.conn_id!r} has no address of YARN's "
                "ResourceManager.",
                remedy=f"Set its extra {ADDRESS_EXTRA}, for example to http://rm.example.com:8088.",
            )
        submitter = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        # YARN knows a Kerberos principal by its first part.
        principal = re.split("[/@]", str(connection.extra_dejson.get("principal") or ""))[0]
        submitters = [submitter, *([principal] if principal else [])]
        hosts = _listed(connection, HOSTS_EXTRA)
        return cls(addresses, connection.login or submitter, submitters, hosts)

    def find(self, tag: str) -> list[Application]:
        """Return the applications that carry a tag, the oldest first."""
        answer = self._ask("GET", "", {"applicationTags": tag})
        answered_apps = ((answer or {}).get("apps") or {}).get("app") or []
        ours = [app for app in answered_apps if app["user"] in self._submitters]
        return [self._application(app) for app in sorted(ours, key=lambda app: app["startedTime"])]

    def get(self, application_id: str) -> Application | None:
        """Return an application; None if the ResourceManager does not know it."""
        answer = self._ask("GET", f"/{application_id}")
        return None if answer is None else self._application(answer["app"])

    def kill(self, application_id: str) -> None:
        """Ask YARN to end an application; quiet when it has ended or is not known."""
        self._ask("PUT", f"/{application_id}/state", body={"state": "KILLED"})

    def log_tail(self, application_id: str, lines: int = 50) -> list[str]:
        """Return the end of the driver's output, or of Spark's log if the output is empty.

        The log is fetched from the node that ran the driver, or from the server that received the
        node's logs. Both are contacted only on a known host.
        """
        try:
            description = self._ask("GET", f"/{application_id}") or {"app": {}}
            # http://<node>/node/containerlogs/<container>/<user>, once a container exists.
            logs = str(description["app"].get("amContainerLogs") or "")
            node, _, path_in_node = logs.partition("/node/containerlogs/")
            container = path_in_node.partition("/")[0]
            is_known = _CONTAINER.fullmatch(container) and self._known.has(node)
            for name in ("stdout", "stderr") if is_known else ():
                query = urlencode({"size": -_LOG_BYTES, "user.name": self._user})
                url = f"{node}/ws/v1/node/containers/{container}/logs/{name}?{query}"
                if printed := _contents(self._log(url).decode(errors="replace")):
                    return printed[-lines:]
        except (ClusterUnreachable, InvalidConnection, OSError, http.client.HTTPException):
            pass
        return []

    def submit_conf(self, tag: str) -> dict[str, str]:
        """Return Spark settings for a submission that can be found by its tag."""
        return {
            "spark.yarn.tags": tag,
            "spark.yarn.submit.waitAppCompletion": "false",
            # A second driver would run in parallel to Airflow's own retry of the first.
            "spark.yarn.maxAppAttempts": "1",
        }

    def driver_env_conf(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return Spark settings that give the driver environment variables."""
        return {f"spark.yarn.appMasterEnv.{name}": value for name, value in environment.items()}

    def _application(self, app: Mapping[str, Any]) -> Application:
        if app["state"] == "FINISHED":
            state = _FINAL_STATES.get(app["finalStatus"], ApplicationState.FAILED)
        else:
            state = _STATES[app["state"]]
        url = app.get("trackingUrl")
        if not self._known.has(url):
            url = f"{self._addresses[0]}/cluster/app/{quote(app['id'])}"
        return Application(app["id"], state, (app.get("diagnostics") or "").strip(), url)

    def _log(self, url: str) -> bytes:
        """Return a log, also from another known host that has it."""
        try:
            return ask(urllib.request.Request(url), TIMEOUT_SECONDS, _MOST_LOG_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                url = urljoin(url, error.headers.get("Location") or "")
                if not 300 <= error.code < 400 or not self._known.has(url):
                    raise
        return ask(urllib.request.Request(url), TIMEOUT_SECONDS, _MOST_LOG_BYTES)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """Return the answer of the active ResourceManager; None if the object is unknown."""
        trouble = []
        for address in self._addresses:
            arguments = urlencode({**(query or {}), "user.name": self._user})
            request = urllib.request.Request(
                f"{address}/ws/v1/cluster/apps{path}?{arguments}",
                data=None if body is None else json.dumps(body).encode(),
                headers={"Accept": "application/json", "Content-Type": "application/json"},
                method=method,
            )
            try:
                parsed_answer = parse_json(ask(request, TIMEOUT_SECONDS))
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 404:
                        return None
                    if error.code in (401, 403):
                        raise InvalidConnection(
                            f"YARN at {address} refuses the user {self._user!r}: {error}.",
                            remedy="Set a login in the Spark connection that may see and end the "
                            "application; with Kerberos, the ticket decides.",
                        ) from error
                    # A standby redirects, or sends this answer if it knows no active
                    # ResourceManager.
                    standby = 300 <= error.code < 400
                    trouble.append(f"{address}: {'on standby' if standby else error}")
            except (OSError, http.client.HTTPException) as error:
                trouble.append(f"{address}: {error}")
            except ValueError:
                trouble.append(f"{address}: not the answer of a ResourceManager")
            else:
                # The next question goes first to the one that is active.
                self._addresses = [address, *(a for a in self._addresses if a != address)]
                return parsed_answer if isinstance(parsed_answer, dict) else {}
        raise ClusterUnreachable(f"No YARN ResourceManager answers ({'; '.join(trouble)}).")


def _contents(text: str) -> list[str]:
    # YARN 3 puts a header and a footer of its own around a log.
    _, header, content = text.partition("\nLogContents:\n")
    return (content.rpartition("End of LogType:")[0] if header else text).strip().splitlines()


def _listed(connection: "Connection", extra: str) -> list[str]:
    names = str(connection.extra_dejson.get(extra) or "")
    return [part.strip() for part in names.split(",") if part.strip()]


def _with_scheme(address: str) -> str:
    return (address if "://" in address else f"http://{address}").rstrip("/")
