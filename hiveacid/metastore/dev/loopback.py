"""Servers for development listen on this machine only: the proof, and what makes Hive 3.1 do so."""

import socket
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from hiveacid.errors import JobFailed

HOST = "127.0.0.1"
_SECONDS = 1


def listens(port: int, address: str = HOST) -> bool:
    """Whether a port answers at an address of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.settimeout(_SECONDS)
            return probe.connect_ex((address, port)) == 0
    except OSError:
        return False


def require_loopback(port: int, server: str) -> None:
    """See to it that a server that has started answers at 127.0.0.1 only.

    Servers for development trust every caller.

    Args:
        port: The port of the server.
        server: The name of the server, for the message.

    Raises:
        JobFailed: Another address of this machine answers at the port. Who catches it ends the server.
    """
    for address in _other_addresses():
        if listens(port, address):
            raise JobFailed(
                f"{server} does not keep to {HOST}: port {port} also answers at {address}, without "
                "authentication.",
                remedy=f"If another program listens at {address}, choose another port. Otherwise "
                "this version of the server must not run on a machine that others can reach.",
            )


def _other_addresses() -> list[str]:
    """Return addresses of this machine; a server on all addresses answers at each of them.

    Linux has the first one on each machine, also on one without any network.
    """
    addresses = ["127.0.0.2"]
    try:
        infos = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        infos = []
    addresses += [str(info[4][0]) for info in infos]
    addresses += filter(None, map(_source, ("192.0.2.1", "2001:db8::1")))
    loopbacks = (HOST, "::1", "0.0.0.0", "::")
    return [address for address in dict.fromkeys(addresses) if address not in loopbacks]


def _source(target: str) -> str | None:
    """Return the address from which this machine would send to a target; nothing is sent."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


# Hive 3.1 ignores the setting of its address, and has no other. So the class that opens its socket
# gets another class of addresses, which are all on loopback.


OPENER = "org/apache/hadoop/hive/metastore/utils/SecurityUtils"
_ADDRESS, _OWN_ADDRESS = "java/net/InetSocketAddress", "hiveacid/LoopbackAddress"


def write_loopback_classes(jar: Path, folder: Path, opener: str = OPENER) -> None:
    """Write the classes with which Hive 3.1 listens on loopback only.

    Args:
        jar: The jar with the class that opens its socket.
        folder: A folder on its class path, before the jar.
        opener: The path of this class.
    """
    for name, content in _loopback_classes(jar, opener):
        file = folder / f"{name}.class"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _loopback_classes(jar: Path, opener: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(jar) as archive:
        content = archive.read(f"{opener}.class")
    parts = content.split(_text(_ADDRESS))
    if len(parts) != 2:
        raise JobFailed(f"{jar} does not open its socket as expected.")
    yield opener, _text(_OWN_ADDRESS).join(parts)
    yield _OWN_ADDRESS, _address_class()


def _text(text: str) -> bytes:
    """Return a text in the pool of constants of a class."""
    return struct.pack(">BH", 1, len(text)) + text.encode()


def _address_class() -> bytes:
    """Return the class of addresses, in Java 8's class file format.

    It is ``class LoopbackAddress extends InetSocketAddress`` with the constructors
    ``(int port) { super("127.0.0.1", port); }`` and ``(String host, int port)``, which does the same.
    """
    texts = (_OWN_ADDRESS, _ADDRESS, "<init>", "(I)V", "(Ljava/lang/String;I)V", "Code", HOST)
    own_name, parent, init, by_port, by_host, code, host = range(1, len(texts) + 1)
    own_class, parent_class, host_constant, name_and_type, parent_init = range(8, 13)
    constants = b"".join(
        (
            *map(_text, texts),
            struct.pack(">BH", 7, own_name),
            struct.pack(">BH", 7, parent),
            struct.pack(">BH", 8, host),
            struct.pack(">BHH", 12, init, by_host),
            struct.pack(">BHH", 10, parent_class, name_and_type),
        )
    )

    def constructor(descriptor: int, load_port: int, variables: int) -> bytes:
        load_this, load_constant, call, end = 0x2A, 0x12, 0xB7, 0xB1
        body = struct.pack(
            ">BBBBBHB", load_this, load_constant, host_constant, load_port, call, parent_init, end
        )
        attribute = struct.pack(">HHI", 3, variables, len(body)) + body + struct.pack(">HH", 0, 0)
        public = 0x0001
        return (
            struct.pack(">HHHH", public, init, descriptor, 1)
            + struct.pack(">HI", code, len(attribute))
            + attribute
        )

    public_super = 0x0021
    return (
        struct.pack(">IHHH", 0xCAFEBABE, 0, 52, parent_init + 1)
        + constants
        + struct.pack(">HHHHH", public_super, own_class, parent_class, 0, 0)
        + struct.pack(">H", 2)
        + constructor(by_port, 0x1B, 2)
        + constructor(by_host, 0x1C, 3)
        + struct.pack(">H", 0)
    )
