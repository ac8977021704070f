"""A metastore of Hive 2.3, which Spark has among its jars, is refused before anything is done."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hiveacid.errors import MetastoreUnreachable, UnsupportedMetastore
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.distribution import find_java, spark_jars, write_properties
from hiveacid.metastore.dev.embedded import GuardedProcess, free_port
from hiveacid.metastore.dev.loopback import HOST, require_loopback, write_loopback_classes

# The class of Hive 2.3 that opens a socket.
_OPENER = "org/apache/hadoop/hive/common/auth/HiveAuthUtils"
pytestmark = [pytest.mark.metastores, pytest.mark.server]


@pytest.fixture
def old_metastore(tmp_path: Path) -> Iterator[tuple[str, GuardedProcess]]:
    """Its future address, and its process."""
    (jar,) = spark_jars("hive-metastore")
    assert jar.name.startswith("hive-metastore-2.3.")
    conf = tmp_path / "conf"
    conf.mkdir()
    write_properties(
        conf / "hive-site.xml",
        {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path}/db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": (tmp_path / "warehouse").as_uri(),
            # It would take a library that Spark does not have.
            "hive.async.log.enabled": "false",
        },
    )
    write_loopback_classes(spark_jars("hive-common")[0], conf, _OPENER)
    (conf / "hive-log4j2.properties").write_text("rootLogger.level = OFF\n")
    port = free_port()
    process = GuardedProcess(
        [
            *(find_java(), "-Xmx512m", "-cp", f"{conf}:{jar.parent}/*"),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
        ],
        log=tmp_path / "log",
        environment=os.environ,
        directory=tmp_path,
    )
    yield f"thrift://{HOST}:{port}", process
    process.kill()


def test_it_is_refused_by_its_version(
    old_metastore: tuple[str, GuardedProcess], eventually: Callable[..., None]
) -> None:
    uri, process = old_metastore
    refusals: list[UnsupportedMetastore] = []

    def refuses() -> bool:
        assert process.status is None, process.tail()
        with MetastoreClient(MetastoreOptions(uris=uri)) as client:
            try:
                client.get_databases()
            except MetastoreUnreachable:
                return False
            except UnsupportedMetastore as refused:
                refusals.append(refused)
        return True

    eventually("it answers", refuses)
    require_loopback(int(uri.rpartition(":")[2]), "Hive 2.3")
    (refused,) = refusals
    assert "is older than version 3" in str(refused)
    assert "3.1 or newer" in refused.remedy
