"""An emulator of Google's object store on this machine, which Go builds once."""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hiveacid.metastore.dev.distribution import cache_folder
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup

VERSION = "v1.56.1"
BUCKET = "lake"
START_SECONDS = 60


@contextmanager
def google_store(directory: Path) -> Iterator[str]:
    """An empty store with one bucket.

    Args:
        directory: Gets its log.

    Yields:
        Return the value of STORAGE_EMULATOR_HOST.
    """
    address = f"{HOST}:{free_port()}"
    host, _, port = address.partition(":")
    group = ProcessGroup(
        [
            *(str(_program()), "-scheme", "http", "-host", host, "-port", port),
            *("-backend", "memory", "-public-host", address),
        ],
        log=directory / "store.log",
        environment=dict(os.environ),
        directory=directory,
    )
    try:

        def has_bucket() -> bool:
            assert not group.ended, group.tail()
            request = urllib.request.Request(
                f"http://{address}/storage/v1/b",
                json.dumps({"name": BUCKET}).encode(),
                {"Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request) as answer:
                    return bool(answer.status == 200)
            except urllib.error.URLError:
                return False

        wait_until("the store has a bucket", has_bucket, START_SECONDS, 0.05)
        yield f"http://{address}"
    finally:
        group.kill()


def _program() -> Path:
    built = cache_folder() / f"fake-gcs-server-{VERSION}" / "fake-gcs-server"
    if not built.exists():
        go = shutil.which("go")
        assert go is not None, "go, to build fake-gcs-server with, has to be on PATH"
        subprocess.run(
            [go, "install", f"github.com/fsouza/fake-gcs-server@{VERSION}"],
            env=os.environ | {"GOBIN": str(built.parent)},
            check=True,
        )
    return built
