"""Authentication to an HDFS that requires Kerberos: by a ticket, or in a cluster by a token."""

import errno
import os
import re
import socket
from pathlib import Path

# In a container of YARN: the file with the credentials of its application.
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
# Variables for the user's identity and the configuration of a cluster.
_VARIABLES = (
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER"),
    *(_TOKENS, "KRB5CCNAME", "KRB5_CONFIG"),
)
_SERVER = re.compile(r"hdfs://(?P<host>[^/:]+):(?P<port>\d+)")
# Messages of the client without a ticket, and of the NameNode for an expired token.
_REFUSED = re.compile(
    r"GSSAPIError\(.*, \d+, \"(?P<message>.*)\"\)|SASLError|NoSASLMechanism|^InvalidToken", re.S
)


class LoginRefused(PermissionError):
    """The NameNode rejects the identity of the caller."""


def who() -> tuple[str | None, ...]:
    """Return the variables that identify this process's user; the client keeps its connections."""
    return tuple(map(os.environ.get, _VARIABLES))


def as_in_token(url: str) -> str:
    """Return the NameNode's url with its address, if this process has a token for that address.

    Hadoop issues tokens for addresses, unless hadoop.security.token.service.use_ip is false, and
    the client searches for a token with the text of the url.

    Args:
        url: The file system.
    """
    server, file = _SERVER.fullmatch(url), os.environ.get(_TOKENS)
    if server is None or file is None:
        return url
    try:
        tokens = Path(file).read_bytes()
        address = f"{socket.gethostbyname(server['host'])}:{server['port']}"
    except OSError:
        return url  # The call to the NameNode reports the error.
    # In both formats of the file the text comes after its length.
    return f"hdfs://{address}" if bytes([len(address)]) + address.encode() in tokens else url


def login_refused(message: str) -> LoginRefused | None:
    """Return the error for a failed login, unless the failure has another cause.

    Args:
        message: The message of the client or of the NameNode.
    """
    match = _REFUSED.search(message)
    return None if match is None else LoginRefused(errno.EACCES, match["message"] or message)
