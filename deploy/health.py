"""Whether a service works, by the exit status: ``python deploy/health.py URL [COMPONENT]``.

A metastore (``thrift://…``) has to list its databases, a server of Spark (``tcp://…``) to accept a
connection, anything else to answer at all. COMPONENT is
one of those that an Airflow api-server tells of, for example ``triggerer``.
"""

import json
import socket
import sys
import urllib.request
from urllib.parse import urlsplit

SECONDS = 10


def main(url: str, component: str | None = None) -> None:
    """Return if the service works, fail if not."""
    if url.startswith("thrift:"):
        from hiveacid.jobs.options import MetastoreOptions
        from hiveacid.metastore.client import MetastoreClient

        with MetastoreClient(MetastoreOptions(uris=url, read_timeout_seconds=SECONDS)) as client:
            client.get_databases()
        return
    if url.startswith("tcp:"):
        address = urlsplit(url)
        socket.create_connection((address.hostname, address.port), SECONDS).close()
        return
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        content = answer.read()
    if component is not None and json.loads(content)[component]["status"] != "healthy":
        raise SystemExit(f"{component} is not healthy.")


if __name__ == "__main__":
    main(*sys.argv[1:])
