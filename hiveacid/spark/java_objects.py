"""The only module that uses members of PySpark and Py4J that are not public.

| Member | Purpose |
|---|---|
| `SparkSession._jvm` | classes of Java by their names |
| `SparkSession._jsparkSession` | the parser, the catalog, settings in one call, copies of a session |
| `SparkContext._jsc` | jars, Hadoop's settings, the records of jobs and stages |
| `SparkContext._gateway` | arrays of Java, tests for a class of Java, and calls by Java |
| `JavaGateway._gateway_client` | the secret of calls by Java |
| `SparkContext._temp_dir` | a folder that Spark removes at its end |
| `DataFrame._jdf` | plans, and projections of many columns in one call |
| `Column._jc` | the expression of a column |
| `StreamingQuery._jsq` | progress reports in one call |
| `SparkSession._activeSession` | frames from rows without a change of the active session |
| `DataFrame._collect_as_arrow`, `SparkContext._serialize_to_jvm` | rows of Arrow in Spark 3.5 |

PySpark has no public members for these, apart from slower ones.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject, is_instance_of
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession

_LOCK = Lock()


class _Kept:
    """The objects for the context that was used last: a process has one at a time."""

    context: object = None
    objects: dict[str, Any] = {}  # noqa: RUF012 - replaced together with the context


def kept_objects(spark: SparkSession) -> dict[str, Any]:
    """Return the objects that this package keeps for a Spark context, by their names."""
    context = spark.sparkContext
    with _LOCK:
        if _Kept.context is not context:
            _Kept.context, _Kept.objects = context, {}
        return _Kept.objects


def java_class(spark: SparkSession, name: str) -> Any:
    """A Java class by its full name.

    If the name is resolved in parts, Java searches all archives for each part.
    """
    return getattr(spark._jvm, name)


def elements(collection: Any) -> list[Any]:
    """Return the elements of a collection of Scala."""
    iterator, found = collection.iterator(), []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def scala_object(spark: SparkSession, name: str) -> Any:
    """An object of Scala by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def java_session(spark: SparkSession) -> Any:
    """The Java object of a session."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> Any:
    """The Java object of the context of a session."""
    context: Any = spark.sparkContext
    return context._jsc


def java_frame(frame: DataFrame) -> Any:
    """The Java object of a frame."""
    return frame._jdf


def java_column(column: Column) -> Any:
    """The Java object of a column."""
    return column._jc


def java_query(query: Any) -> Any:
    """The Java object of a streaming query."""
    return query._jsq


def class_of(node: Any) -> str:
    """Return the name of an object's class; empty for a text, a number or nothing."""
    return str(node.getClass().getName()) if isinstance(node, JavaObject) else ""


def is_instance(spark: SparkSession, node: Any, name: str) -> bool:
    """Whether a Java object is of a class, by its full name."""
    return bool(is_instance_of(_gateway(spark), node, name))


def empty_array(spark: SparkSession, name: str) -> Any:
    """Return an array of Java without elements, of a class by its full name."""
    return _gateway(spark).new_array(java_class(spark, name), 0)


def temporary_folder(spark: SparkSession) -> Path:
    """Return a folder on the driver's machine that Spark removes at its end."""
    context: Any = spark.sparkContext
    return Path(context._temp_dir)


@contextmanager
def kept_active_session() -> Iterator[SparkSession | None]:
    """Yield the active session of Python, and make it active again after the body."""
    before = SparkSession._activeSession
    try:
        yield before
    finally:
        SparkSession._activeSession = before


def collected_batches(frame: DataFrame) -> list[pa.RecordBatch]:
    """Return the rows of a frame of Spark 3.5 as batches of Arrow."""
    rows: Any = frame
    batches: list[pa.RecordBatch] = rows._collect_as_arrow()
    return batches


def java_batches(spark: SparkSession, batches: Sequence[pa.RecordBatch]) -> Any:
    """Return batches of Arrow as an object of Java, for Spark 3.5."""
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    # Spark 3.5 has the Java side of this, which it uses only for rows of pandas.
    context: Any = spark.sparkContext
    return context._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        java_class(spark, "PythonSQLUtils").readArrowStreamFromFile,
        java_class(spark, "ArrowIteratorServer"),
    )


def start_callbacks(spark: SparkSession) -> None:
    """Let Java call objects of this process, with the secret of the connection.

    Spark lets any process on this machine call its program of Python: Java loses the secret.
    """
    gateway = _gateway(spark)
    secret = gateway.gateway_parameters.auth_token
    gateway.callback_server_parameters.auth_token = secret
    start: Any = ensure_callback_server_started
    start(gateway)
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = java_class(spark, "java.lang.Class").forName("py4j.CallbackClient")
    field = field.getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, secret)


def attached_context() -> SparkContext:
    """Return a context for the Spark of the driver that has started this process."""
    launch: Any = launch_gateway
    gateway = launch()
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java.getConf())
    return SparkContext(gateway=gateway, jsc=java, conf=conf)


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway
