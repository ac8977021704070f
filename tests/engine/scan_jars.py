"""The classes of a jar of the scan, loaded apart from those that Spark has."""

import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

CLASS = "org.hiveacid.spark.AcidScan"


def load_all(spark: SparkSession, jar: Path) -> dict[str, Any]:
    """Load, verify, and initialize every class of a jar, and return them by their names."""
    java: Any = spark._jvm
    urls = spark.sparkContext._gateway.new_array(java.java.net.URL, 1)
    urls[0] = java.java.io.File(str(jar)).toURI().toURL()
    parent = spark._jsparkSession.sharedState().jarClassLoader()
    loader = java.org.apache.spark.util.ChildFirstURLClassLoader(urls, parent)
    with zipfile.ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if name.endswith(".class")]
    names = [name.removesuffix(".class").replace("/", ".") for name in files]
    return {name: java.java.lang.Class.forName(name, True, loader) for name in names}


def sources_in(spark: SparkSession, loaded: Any) -> str:
    """Return the digest that a new object of a class reports."""
    reflect: Any = spark._jvm.org.apache.commons.lang3.reflect
    none = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 0)
    scan = reflect.ConstructorUtils.invokeConstructor(loaded, none)
    # Py4J keeps the methods of classes by their names, and Spark has a class of the same name.
    return str(reflect.MethodUtils.invokeMethod(scan, "sources", none))
