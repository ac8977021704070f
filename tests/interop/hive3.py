"""Hive 3.1.3's own classes, which read the files of a table."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hiveacid.metastore.dev.distribution import find_java, spark_jars
from tests.interop.engines import OPENS
from tests.ivy import fetched

_HERE = Path(__file__).parent


def hive3_classpath() -> str:
    """The class path of Hive 3.1.3, fetched the first time."""
    jars = fetched("hive-exec-3.1.3", 41, _HERE / "hive3-ivy.xml")
    return os.pathsep.join([str(jars / "*"), str(spark_jars("hadoop-client-api")[0].parent / "*")])


def read_with_hive3(
    classpath: str, table: Path, columns: Mapping[str, str], *settings: str
) -> list[str]:
    """Return the rows of a full ACID table as the classes print them.

    Args:
        classpath: The class path of Hive 3.1.3.
        table: The folder of the table.
        columns: Hive's types of the columns by their names.
        settings: Settings, each as "name=value"; "search=column=value" is a condition, by which the
            classes skip row groups.
    """
    answer = subprocess.run(
        [
            *(find_java(), *OPENS, "-Duser.timezone=UTC", "-cp", classpath),
            *(str(_HERE / "java" / "Hive3Reader.java"), str(table)),
            *(",".join(columns), ":".join(columns.values())),
            *("default.t:1:9223372036854775807::", *settings),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return [line for line in answer.stdout.splitlines() if line.startswith("{")]
