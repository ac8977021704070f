"""Who somebody is to an HDFS that asks for Kerberos: by a ticket, or in a cluster by a token."""

import errno
import os
import re
import socket
from pathlib import Path

# In a container of YARN: the file of what its application may log in with.
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
# Who somebody is, and where a cluster is described.
_VARIABLES = (
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER"),
    *(_TOKENS, "KRB5CCNAME", "KRB5_CONFIG"),
)
_SERVER = re.compile(r"hdfs://(?P<host>[^/:]+):(?P<port>\d+)")
# What the client says without a ticket, and the NameNode to those with an old token.
_REFUSED = re.compile(
    r"GSSAPIError\(.*, \d+, \"(?P<said>.*)\"\)|SASLError|NoSASLMechanism|^InvalidToken", re.S
)


class LoginRefused(PermissionError):
    """The NameNode does not know who calls."""


def who() -> tuple[str | None, ...]:
    """All that decides as whom this process asks for files; the client keeps its connections."""
    return tuple(map(os.environ.get, _VARIABLES))


def as_in_token(url: str) -> str:
    """The NameNode by its address, where this process has a delegation token for that.

    Hadoop makes out tokens to addresses, unless hadoop.security.token.service.use_ip is false, and
    the client looks for one that has what stands in the url.

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
        return url  # Whoever asks the NameNode hears what is wrong.
    # In both formats of the file the text comes after its length.
    return f"hdfs://{address}" if bytes([len(address)]) + address.encode() in tokens else url


def login_refused(said: str) -> LoginRefused | None:
    """The error of somebody who was not let in; None where it is about something else.

    Args:
        said: The words of the client, or of the NameNode.
    """
    match = _REFUSED.search(said)
    return None if match is None else LoginRefused(errno.EACCES, match["said"] or said)
