"""The scan of ACID files inside Spark: its jars in this package, and its object in a session.

A session gets the jar at its first use: neither a setting nor a restart is needed.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hiveacid.errors import SoftwareMissing
from hiveacid.spark.java_objects import (
    empty_array,
    java_class,
    java_context,
    java_session,
    kept_objects,
    temporary_folder,
)
from hiveacid.spark.session import session_time_zone

JARS = files("hiveacid.spark") / "jars"
# The entry of a jar with the digest of its sources.
SOURCES = "hiveacid-scan.sources"
# Java refuses a description of a scan in another format.
_FORMAT = 2
_CLASS = "org.hiveacid.spark.AcidScan"
_MUTABLE = "org.apache.spark.util.MutableURLClassLoader"
# The name of the object among those that are kept for a context.
_SCAN = "scan"
_FIRST_USE = Lock()


def jar_name(scala: str) -> str:
    """Return the name of the jar for a line of Scala, such as 2.13."""
    return f"hiveacid-scan_{scala}.jar"


def scan_jar(scala: str) -> bytes:
    """Return the jar for a line of Scala.

    The content, as the package may be in a zip.

    Raises:
        SoftwareMissing: The package lacks it.
    """
    jar = JARS / jar_name(scala)
    try:
        return jar.read_bytes()
    except OSError as error:
        raise SoftwareMissing(
            f"The jar for Spark with Scala {scala} is missing: {jar}.",
            remedy="Install the package from its wheel. In a checkout, run `make setup`, also before "
            "`pip install .`.",
        ) from error


def sources_of(jar: bytes) -> str:
    """Return the digest of the sources from which a jar was compiled."""
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        return archive.read(SOURCES).decode()


def java_scan(spark: SparkSession) -> Any:
    """Return the object of Java that reads ACID files.

    The first call for a context gives the jar to its driver and its executors.

    Raises:
        SoftwareMissing: The package lacks the jar for this Spark; or Spark cannot load the class,
            or has it from a jar of another version.
    """
    attributes = kept_objects(spark)
    if _SCAN not in attributes:
        with _FIRST_USE:
            if _SCAN not in attributes:
                attributes[_SCAN] = _first_use(spark)
    return attributes[_SCAN]


def scan_frame(
    spark: SparkSession,
    *,
    columns: StructType,
    keys: StructType,
    partitions: Sequence[Sequence[str | None]],
    files: Sequence[Sequence[Any]],
    stored_as: str = "orc",
    options: Mapping[str, str] | None = None,
    positions: Sequence[int] | None = None,
    by_position: bool | None = False,
    ids: StructType | None = None,
    searchable: Sequence[str] = (),
    highest: int = 0,
    hidden: Sequence[int] = (),
    deletes: Sequence[Sequence[Sequence[Any]]] = (),
    are_deletes: bool = False,
) -> DataFrame:
    """Return the rows of some files; `ScanPlan.java` describes the arguments."""
    plan = {
        "format": _FORMAT,
        "stored_as": stored_as,
        "options": options or {},
        "columns": columns.jsonValue(),
        "positions": [*range(len(columns))] if positions is None else positions,
        "by_position": by_position,
        "ids": (ids or StructType()).jsonValue(),
        "keys": keys.jsonValue(),
        "zone": session_time_zone(spark),
        "are_deletes": are_deletes,
        "searchable": searchable,
        "highest": highest,
        "hidden": hidden,
        "partitions": partitions,
        "deletes": deletes,
        "files": files,
    }
    return DataFrame(java_scan(spark).frame(java_session(spark), json.dumps(plan)), spark)


def _first_use(spark: SparkSession) -> Any:
    version: str = java_class(spark, "scala.util.Properties").versionNumberString()
    scala = version.rpartition(".")[0]
    jar = scan_jar(scala)
    sources = sources_of(jar)
    # A copy that Spark removes at its end: the package may be replaced while Spark runs. Executors
    # keep jars by their names.
    copy = temporary_folder(spark) / jar_name(f"{scala}-{sources[:16]}")
    copy.write_bytes(jar)
    try:
        loaded = _loaded_class(spark, copy)
        scan = _new_object(spark, loaded)
        matches = scan.sources() == sources
    except Py4JError as error:
        reason = " ".join(str(error).splitlines()[:2])
        raise SoftwareMissing(
            f"Spark cannot load the class {_CLASS}: {reason}",
            remedy=f"Start Spark with {JARS / jar_name(scala)} in spark.jars, and without such a jar "
            "of another version.",
        ) from error
    if not matches:
        place = loaded.getProtectionDomain().getCodeSource().getLocation()
        raise SoftwareMissing(
            f"Spark has loaded the class {_CLASS} from {place}, a jar of another version of this "
            "package.",
            remedy="Remove it from spark.jars, --jars, and the class paths of Spark, then start Spark "
            f"again; or replace it by {JARS / jar_name(scala)}.",
        )
    # Even if the driver had the class before: the executors may lack it.
    java_context(spark).sc().addJar(str(copy))
    return scan


def _loaded_class(spark: SparkSession, jar: Path) -> Any:
    """Load the class, from this jar if the driver lacks the class."""
    loader = java_session(spark).sharedState().jarClassLoader()
    try:
        return loader.loadClass(_CLASS)
    except Py4JJavaError:
        # The parent, if possible: it is also the parent of the loader of a local master's tasks. If
        # each child defined the class, tasks could not use the driver's objects in broadcasts.
        parent = loader.getParent()
        mutable = java_class(spark, "java.lang.Class").forName(_MUTABLE, False, loader)
        target = parent if mutable.isInstance(parent) else loader
        target.addURL(java_class(spark, "java.io.File")(str(jar)).toURI().toURL())
        return loader.loadClass(_CLASS)


def _new_object(spark: SparkSession, loaded: Any) -> Any:
    # By reflection: Java's side of Py4J searches for classes by name in another loader.
    types = empty_array(spark, "java.lang.Class")
    return loaded.getConstructor(types).newInstance(empty_array(spark, "java.lang.Object"))
