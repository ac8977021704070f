"""A real KDC on this machine: Hadoop's small one, whose principals have their keys in one keytab."""

import os
import re
import struct
from pathlib import Path
from typing import Self

from hiveacid.metastore.dev.distribution import find_java
from hiveacid.metastore.dev.embedded import Kerberized
from hiveacid.metastore.sasl.kerberos import SystemContext
from tests.ivy import fetched
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup

VERSION = "3.4.2"
REALM = "EXAMPLE.COM"
# Services of this machine, and people.
PRINCIPALS = tuple(f"{name}/localhost" for name in ("hive", "airflow", "hdfs", "yarn", "HTTP"))
PRINCIPALS += ("alice", "bob")
_MAIN = "org.apache.hadoop.minikdc.MiniKdc"


class Kdc:
    """A KDC of the realm EXAMPLE.COM.

    Attributes:
        krb5_conf: The configuration for KRB5_CONFIG, and for Java's java.security.krb5.conf.
        keytab: The keys of all principals.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.krb5_conf = self._directory / "krb5.conf"
        self.keytab = self._directory / "all.keytab"
        self._process: ProcessGroup | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and return when it answers; every start creates new keys for all principals."""
        settings = self._directory / "minikdc.properties"
        settings.write_text(
            "kdc.bind.address=localhost\nkdc.port=0\ntransport=TCP\n"
            "org.name=EXAMPLE\norg.domain=COM\ninstance=Small\ndebug=false\n"
            # Clients can request shorter ones, see short_tickets.
            "max.ticket.lifetime=86400000\nmax.renewable.lifetime=604800000\n"
        )
        jars = fetched(f"kdc-{VERSION}", 4, Path(__file__).with_name("kdc-ivy.xml"))
        command = [
            *(find_java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-XX:-UsePerfData", f"-Djava.io.tmpdir={self._directory}"),
            *("-cp", f"{jars}/*", _MAIN, str(self._directory), str(settings), str(self.keytab)),
            *PRINCIPALS,
        ]
        log = self._directory / "kdc.log"
        log.unlink(missing_ok=True)  # An earlier one has answered, too.
        self._process = process = ProcessGroup(command, log=log, environment=os.environ)

        def answers() -> bool:
            assert not process.ended, f"The KDC has ended:\n{process.tail()}"
            return "Do <CTRL-C>" in log.read_text()

        wait_until("the KDC answers", answers, 60, every=0.02)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def principal(self, name: str) -> str:
        """The whole name of a principal."""
        return f"{name}@{REALM}"

    def kerberized(self, protection: str = "authentication") -> Kerberized:
        """Return the settings of a metastore on this machine for Kerberos."""
        return Kerberized(
            krb5_conf=self.krb5_conf,
            principal=self.principal("hive/localhost"),
            keytab=self.keytab,
            protection=protection,
        )

    def short_tickets(self, seconds: int) -> Path:
        """Return a krb5.conf for tickets with a short life."""
        short = f"[libdefaults]\n    ticket_lifetime = {seconds}s\n    clockskew = 1\n"
        conf = re.sub(r"(?m)^\[libdefaults\]\n", short, self.krb5_conf.read_text(), count=1)
        file = self._directory / f"krb5-{seconds}.conf"
        file.write_text(conf)
        return file

    def keytab_of(self, name: str) -> bytes:
        """A keytab with the keys of one principal alone."""
        keys = self.keytab.read_bytes()
        version, at, found = keys[:2], 2, b""
        wanted = struct.pack(">H", len(name)) + name.encode()
        while at < len(keys):
            end = at + 4 + int.from_bytes(keys[at : at + 4], "big")
            if wanted in keys[at:end]:
                found += keys[at:end]
            at = end
        return version + found

    def log_in(self, name: str, cache: Path) -> None:
        """Put a ticket into a cache, as kinit does with a keytab."""
        store = {"client_keytab": str(self.keytab), "ccache": f"FILE:{cache}"}
        SystemContext("hive@localhost", self.principal(name), store).step(b"")
