"""A real Hive Metastore as a child process, for first experiments and for tests.

``hiveacid metastore`` runs one in the foreground.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import JobFailed, MetastoreError
from hiveacid.jobs.options import KERBEROS, NO_PROOF, MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.distribution import (
    Distribution,
    Progress,
    java_command,
    java_environment,
    prepare,
    write_properties,
    write_site,
)
from hiveacid.metastore.dev.loopback import (
    HOST,
    listens,
    require_loopback,
    write_loopback_classes,
)
from hiveacid.metastore.endpoint import Endpoint
from hiveacid.metastore.thrift.session import asked_by_sasl
from hiveacid.rules.metastore_version import BUNDLED

# A temporary server that never outlives the process that has started it


# Standard input is a pipe whose other end only this process holds. When this process ends, for any
# reason, the pipe closes and the watcher kills its whole process group: the server and itself.
_GUARDED = 'exec 3<&0; (read _ <&3; kill -9 0) & exec "$@" 3<&- </dev/null'


class GuardedProcess:
    """Runs a command as the leader of its own session: Ctrl-C reaches only the parent.

    Args:
        command: The program and its arguments.
        log: The file that receives its output, after existing content.
        environment: All of its variables.
        directory: Its working directory; by default the current one.
        user: The user of the process; by default the current user.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        directory: Path | None = None,
        user: str | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, "sh", *command],
                env=dict(environment),
                cwd=directory,
                user=user,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the server, and of its group and its session."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; null while the process runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Signal the server and its group; quiet when all have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End the server and its group at once."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int:
        """Wait until the server ends by itself, and return its exit status."""
        return self._process.wait()

    def tail(self, lines: int = 30) -> str:
        """Return the end of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


START_SECONDS = 180
PROBE_SECONDS = 10
DEFAULT_VERSION = "4.0.1"

# Above the ports of well-known services, and below those that systems assign automatically.
_PORTS = (20_000, 32_000)

# A server that fails to start logs one of these messages and then hangs without its port.
_FAILURES = ("Metastore Thrift Server threw an exception", 'Exception in thread "main"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberized:
    """The Kerberos identity of a metastore.

    Attributes:
        krb5_conf: The configuration file with the address of the KDC.
        principal: The metastore's own, for example hive/localhost@EXAMPLE.COM.
        keytab: The file with its key.
        protection: The required protection: authentication, integrity or privacy.
    """

    krb5_conf: Path
    principal: str
    keytab: Path
    protection: str = "authentication"

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings for the metastore's configuration; both versions support these names."""
        return {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": self.principal,
            "hive.metastore.kerberos.keytab.file": str(self.keytab),
        }

    @property
    def hadoop(self) -> Mapping[str, str]:
        """Settings for Hadoop's configuration."""
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": self.protection,
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options of its Java."""
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)


class EmbeddedMetastore:
    """A Hive Metastore with a Derby database of its own.

    Attributes:
        version: Hive's version number.
        uri: Its address, once started.
        warehouse: The folder of its databases' tables.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        directory: Path,
        port: int = 0,
        warehouse: Path | None = None,
        txn_timeout_seconds: int | None = None,
        kerberized: Kerberized | None = None,
        settings: Mapping[str, str] | None = None,
        hadoop: Mapping[str, str] | None = None,
        libraries: Sequence[Path] = (),
        progress: Progress = print,
    ) -> None:
        """Describe a metastore; start() runs it.

        Args:
            version: One of RELEASES.
            directory: Stores its database, its log and its configuration. A metastore with an
                existing directory continues from its last state.
            port: Its port on this machine; 0 means any free port.
            warehouse: The folder of the tables; by default a folder of the directory.
            txn_timeout_seconds: The time without a heartbeat after which a transaction is aborted;
                by default Hive's 300.
            kerberized: Its Kerberos identity, if it shall require Kerberos from its callers.
            settings: Further settings of the metastore.
            hadoop: Hadoop settings, as in core-site.xml.
            libraries: Further jars, such as those of the tables' file system.
            progress: Receives one line for each slow step.
        """
        self.version = version
        self.warehouse = (warehouse or directory / "warehouse").absolute()
        self._directory = directory.absolute()
        self._port = port
        self._timeout = txn_timeout_seconds
        self._kerberized = kerberized
        self._further = settings or {}
        self._hadoop = hadoop or {}
        self._libraries = libraries
        self._progress = progress
        self._process: GuardedProcess | None = None
        hidden_parts = [part for part in self.warehouse.parts if part.startswith(("_", "."))]
        if hidden_parts:
            raise JobFailed(
                f"Hive and Spark skip folders such as {hidden_parts[0]}, a part of {self.warehouse}.",
                remedy="Choose a warehouse without a leading underscore or dot in its path.",
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id of the running metastore."""
        assert self._process is not None
        return self._process.pid

    @property
    def uri(self) -> str:
        """The thrift uri of the metastore."""
        # A ticket is for a name, and never for an address.
        return f"thrift://{'localhost' if self._kerberized else HOST}:{self._port}"

    @property
    def options(self) -> MetastoreOptions:
        """Options for a client of this package; with Kerberos, it uses the environment's ticket."""
        mechanism = KERBEROS if self._kerberized else NO_PROOF
        return MetastoreOptions(uris=self.uri, auth_mechanism=mechanism)

    @property
    def log(self) -> Path:
        """The log file of the server."""
        return self._directory / "metastore.log"

    def start(self) -> None:
        """Start the server and return when it answers.

        Raises:
            JobFailed: It could not be fetched or did not start; the message ends
                with the end of its log. Or it answers at other addresses of this machine.
            SoftwareMissing: No suitable Java was found.
        """
        if self._process is not None:
            raise JobFailed(f"The metastore at {self.uri} already runs.")
        self._directory.mkdir(parents=True, exist_ok=True)
        self._require_version()
        distribution = prepare(self.version, self._progress)
        self.warehouse.mkdir(parents=True, exist_ok=True)
        if self._port == 0:
            self._port = free_port()
        elif listens(self._port):
            raise JobFailed(f"Another process already listens at {self.uri}.")
        database = self._directory / "metastore_db"
        if not database.exists():
            # Complete or absent: a truncated copy would look like a broken database.
            partial = self._directory / "metastore_db.partial"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(distribution.database, partial)
            partial.rename(database)
        conf = self._directory / "conf"
        write_site(conf, database, self._settings(distribution))
        ours = self._kerberized.hadoop if self._kerberized else {}
        write_properties(conf / "core-site.xml", {**ours, **self._hadoop})
        if distribution.release.opens_all:
            write_loopback_classes(distribution.archive_jar, conf)
        self._process = self._launch(distribution)
        try:
            self._await_answer()
            require_loopback(self._port, f"Metastore {self.version}")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the server at once, as if its machine had failed. Derby recovers by itself."""
        if self._process is None:
            return
        self._process.kill()
        self._process = None

    def restart(self) -> None:
        """End the server and start it again, with the same port and database."""
        self.kill()
        self.start()

    def wait(self) -> int:
        """Wait until the server ends by itself.

        Returns:
            Its exit status.
        """
        assert self._process is not None
        return self._process.wait()

    def require_running(self) -> None:
        """See to it that the server still runs.

        Raises:
            JobFailed: It has ended; the message ends with the end of its log.
        """
        if self._process is not None and self._process.status is not None:
            raise JobFailed(
                f"Metastore {self.version} ended with status {self._process.status}:\n"
                f"{self._process.tail()}"
            )

    def _settings(self, distribution: Distribution) -> dict[str, str]:
        settings = {
            "metastore.thrift.bind.host": HOST,
            "metastore.thrift.port": str(self._port),
            "metastore.warehouse.dir": self.warehouse.as_uri(),
            "metastore.expression.proxy": (
                "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"
            ),
            "hive.support.concurrency": "true",
            "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
            "metastore.server.min.threads": "5",
            "metastore.server.max.threads": "100",
            # Ten by default, two seconds apart. A start that cannot succeed should fail soon, and
            # Derby rejects the conditional ALTER TABLE of version 4, which clients then repeat.
            "metastore.hmshandler.retry.attempts": "2",
            "metastore.hmshandler.retry.interval": "100ms",
            BUNDLED: "true",
            **distribution.release.settings,
        }
        if self._timeout is not None:
            # The time-out depends on the interval of the checks for dead transactions. Versions 4
            # and 3 use different names for it and ignore each other's.
            settings |= {
                "metastore.txn.timeout": f"{self._timeout}s",
                "metastore.acid.housekeeper.interval": "1s",
                "metastore.timedout.txn.reaper.start": "1s",
                "metastore.timedout.txn.reaper.interval": "1s",
            }
        if self._kerberized:
            settings |= self._kerberized.settings
        return {**settings, **self._further}

    def _require_version(self) -> None:
        """See to it that the directory is not that of a metastore of another version."""
        note = self._directory / "version"
        noted_version = note.read_text() if note.exists() else self.version
        if noted_version != self.version:
            raise JobFailed(
                f"{self._directory} has the database of a metastore {noted_version}, not {self.version}.",
                remedy="Start that version, or name another folder.",
            )
        note.write_text(self.version)

    def _launch(self, distribution: Distribution) -> GuardedProcess:
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        options = self._kerberized.java_options if self._kerberized else ()
        # The output of an earlier start is irrelevant for this one.
        self.log.unlink(missing_ok=True)
        return GuardedProcess(
            java_command(
                *(distribution, self._directory, main, "-p", str(self._port)),
                options=options,
                libraries=self._libraries,
            ),
            log=self.log,
            environment=java_environment(distribution, self._directory),
            directory=self._directory,
        )

    def _await_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            answered = self._answers()
            log = self.log.read_text(errors="replace")
            if self._process.status is not None:
                reason = f"ended with status {self._process.status}"
            elif answered:
                return
            elif any(failure in log for failure in _FAILURES):
                reason = "failed to start"
            elif time.monotonic() > deadline:
                reason = f"did not answer within {START_SECONDS} seconds"
            else:
                time.sleep(0.05)
                continue
            tail = self._process.tail()
            raise JobFailed(f"Metastore {self.version} {reason}:\n{tail}")

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        if self._kerberized:
            # The waiting process does not need a ticket.
            options = replace(self.options, auth_mechanism=NO_PROOF)
            endpoint = Endpoint.parse(self.uri)[0]
            return asked_by_sasl(endpoint, options, PROBE_SECONDS) is not None
        client = MetastoreClient(replace(self.options, read_timeout_seconds=PROBE_SECONDS))
        try:
            client.get_databases()
        except MetastoreError:
            return False
        finally:
            client.close()
        return True


def free_port(preferred: int | None = None) -> int:
    """Return a port of this machine without a listener.

    The system assigns ports of its ephemeral range to any process, for example Spark, even between
    this check and the start of the server: so the port is chosen below that range.

    Args:
        preferred: Used if it is free.
    """
    if preferred is not None and not listens(preferred):
        return preferred
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
