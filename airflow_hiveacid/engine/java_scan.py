"""TEMPORARY."""

from typing import Any

from pyspark.sql import SparkSession


def java_scan(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    known = vars(context).get("_hiveacid_scan")
    if known is None:
        jar = "/tmp/scan_2.13.jar"
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        loader.addURL(spark._jvm.java.io.File(jar).toURI().toURL())
        context._jsc.sc().addJar(jar)
        known = (
            loader.loadClass("org.hiveacid.spark.AcidScan")
            .getDeclaredConstructor(
                spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Class, 0)
            )
            .newInstance(spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 0))
        )
        vars(context)["_hiveacid_scan"] = known
    return known
