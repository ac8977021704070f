"""The supported versions of Spark and of the Python packages of drivers, checked without Spark."""

import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from hiveacid.errors import SoftwareMissing

# The first and the last of the tested minor versions, and the first one that is refused again: those in
# between may work, as the trial of `hiveacid doctor --spark` determines.
OLDEST, NEWEST, REFUSED = (3, 5), (4, 3), (5, 0)
SUPPORTED_TEXT = "Spark 3.5, 4.0, 4.1, 4.2, and 4.3"
# The oldest versions of the packages that drivers and executors need; `make oldest` tests them.
OLDEST_PACKAGES = {"numpy": (1, 26), "pyarrow": (19, 0), "thrift": (0, 22), "sqlglot": (30, 0)}
_CORE = re.compile(r"spark-core_2\.1[23]-(\d+\.\d+\S*)\.jar")


def require_supported_spark(version: str, where: str) -> str | None:
    """Refuse an unsupported version of Spark.

    Args:
        version: The version, for example "3.5.9".
        where: The place of this Spark, for the message.

    Returns:
        A warning if the version is newer than those that are tested.

    Raises:
        SoftwareMissing: The version is unsupported.
    """
    parts = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not OLDEST <= parts < REFUSED:
        raise SoftwareMissing(
            f"{where} is Spark {version}; this package supports {SUPPORTED_TEXT}.",
            remedy="Name the folder of a supported Spark in SPARK_HOME, or pip install "
            "'hiveacid[spark]'.",
        )
    if parts <= NEWEST:
        return None
    return (
        f"{where} is Spark {version}, which is newer than the tested {SUPPORTED_TEXT}. Try it by"
        " `hiveacid doctor --spark`."
    )


def require_supported_packages() -> None:
    """Refuse to run beside missing or older packages than those that are tested.

    Packages that are sent to a cluster may lack their metadata, so that the modules are imported.

    :raises SoftwareMissing: A package is missing, or its version is unsupported.
    """
    for name, oldest in OLDEST_PACKAGES.items():
        requirement = f"{name} {'.'.join(map(str, oldest))} or later"
        remedy = (
            f"Install {requirement} for the Python in spark.pyspark.python, or send an environment that "
            "contains it in spark.archives."
        )
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise SoftwareMissing(
                f"The driver's Python cannot import {name}: {error}.", remedy=remedy
            ) from error
        version = getattr(module, "__version__", None)
        # Some packages state their version only in their metadata.
        if (
            version is not None
            and tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < oldest
        ):
            raise SoftwareMissing(
                f"The driver has {name} {version}; this package needs {requirement}.", remedy=remedy
            )


def installed_spark(program: str, environment: Mapping[str, str]) -> tuple[str, Path] | None:
    """Find the version and the folder of the Spark that a program belongs to, without Java.

    Args:
        program: The name or the path of spark-submit.
        environment: The variables that it runs with.

    Returns:
        The version and the folder; None if the folder of its jars cannot be found.
    """
    for home in _homes(program, environment):
        for jar in sorted((home / "jars").glob("spark-core_*.jar")):
            if match := _CORE.fullmatch(jar.name):
                return match[1], home
    return None


def _homes(program: str, environment: Mapping[str, str]) -> list[Path]:
    """The folders that spark-submit regards as its own, in its order."""
    if home := environment.get("SPARK_HOME"):
        return [Path(home)]
    executable = shutil.which(program, path=environment.get("PATH", os.defpath))
    homes = [] if executable is None else [Path(executable).resolve().parent.parent]
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        homes.append(Path(spec.origin).parent)
    return homes
