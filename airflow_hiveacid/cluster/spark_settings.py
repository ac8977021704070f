"""Effects of this machine's Spark and Hadoop settings on a driver."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
_FILES = ("core-site.xml", "spark-defaults.conf")


def uses_local_paths(properties: Iterable[str], env_vars: Mapping[str, str]) -> bool:
    """Whether a path without a scheme is certainly local for a driver on this machine.

    :param properties: The keys of Spark properties, and files with possible further ones.
    :param env_vars: Environment variables of the driver, beside those of this process.
    """
    if any("fs.default" in name or not name.startswith("spark.") for name in properties):
        return False
    environment = {**os.environ, **env_vars}
    folders = [environment[name] for name in _FOLDERS if name in environment]
    if "SPARK_HOME" in environment:
        folders.append(f"{environment['SPARK_HOME']}/conf")
    if "SPARK_DIST_CLASSPATH" in environment:
        return False
    return not any(Path(folder, file).exists() for folder in folders for file in _FILES)
