"""A real S3 store on this machine, behind a proxy that counts, and those who work on it."""

import os
import re
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.deploy.software import jars, s3_store
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup
from tests.places import BUCKETS
from tests.s3.counting_proxy import CountingProxy

START_SECONDS = 60
BUCKET = "lake"
_KEY, _SECRET, _REGION = "hiveacid", "a secret of tests", "us-east-1"


class S3Store:
    """A store with one bucket, whose objects are files of a folder.

    Attributes:
        proxy: The address for all clients.
        uri: The location of the bucket.
    """

    def __init__(self, directory: Path) -> None:
        """Describe one; nothing runs before it is entered.

        Args:
            directory: A new one.
        """
        self._directory = directory
        self._port = free_port()
        self.proxy = CountingProxy(self._port)
        self.uri = f"s3a://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the address and the credentials of the store for Arrow, boto3 and Hadoop."""
        return {
            "AWS_ENDPOINT_URL": self.proxy.uri,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def hadoop(self) -> dict[str, str]:
        """The settings of Hadoop's file system for it."""
        return {
            "fs.s3a.endpoint": self.proxy.uri,
            "fs.s3a.endpoint.region": _REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": _KEY,
            "fs.s3a.secret.key": _SECRET,
        }

    @property
    def libraries(self) -> list[Path]:
        """The jars of Hadoop's file system for it."""
        return sorted((jars() / "s3a").glob("*.jar"))

    @property
    def spark_settings(self) -> dict[str, str]:
        """Return the settings of Spark for reads and writes there."""
        import pyspark  # Not every test starts Spark, and all know this file.

        settings = {f"spark.hadoop.{key}": value for key, value in self.hadoop.items()}
        # Ahead of Spark's own jars, where an older Netty would take the place of its own.
        own = {_artifact(jar) for jar in Path(pyspark.__file__).parent.glob("jars/*.jar")}
        lacking = [str(jar) for jar in self.libraries if _artifact(jar) not in own]
        return settings | {"spark.driver.extraClassPath": os.pathsep.join(lacking)}

    def uploads(self, location: str) -> list[str]:
        """Return uploads below a location that were never completed."""
        import boto3  # Not every test has it, and all know this file.

        client = boto3.client("s3", endpoint_url=self.proxy.uri)
        prefix = location.removeprefix(f"{self.uri}/")
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=BUCKET, Prefix=prefix
        )
        return [each["Key"] for page in pages for each in page.get("Uploads", ())]

    def __enter__(self) -> Self:
        BUCKETS[BUCKET] = self._directory / "data" / BUCKET
        BUCKETS[BUCKET].mkdir(parents=True)
        self._group = ProcessGroup(
            [
                *(str(s3_store()), "--port", f"{HOST}:{self._port}", "--quiet"),
                *("posix", str(self._directory / "data")),
            ],
            log=self._directory / "store.log",
            environment=os.environ | {"ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET},
            directory=self._directory,
        )

        def listens() -> bool:
            assert not self._group.ended, self._group.tail()
            with socket.socket() as probe:
                return probe.connect_ex((HOST, self._port)) == 0

        wait_until("the store listens", listens, START_SECONDS, 0.05)
        self.proxy.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.proxy.__exit__(kind, error, traceback)
        self._group.kill()
        del BUCKETS[BUCKET]


def _artifact(jar: Path) -> str:
    return re.sub(r"-[0-9].*", "", jar.name)
