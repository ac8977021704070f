#!/bin/sh
# Run a server for clients of SQL in the foreground: "thrift" for JDBC and beeline, or "connect".
set -eu
export SPARK_CONF_DIR="$(cd "$(dirname "$0")" && pwd)"
case "$1" in
  thrift) class=org.apache.spark.sql.hive.thriftserver.HiveThriftServer2 ;;
  connect) class=org.apache.spark.sql.connect.service.SparkConnectServer ;;
esac
jar="$(python3 -c 'from hiveacid.spark.java_scan import JARS, jar_name; print(JARS / jar_name("2.13"))')"
# Spark's own client cannot speak to a Hive Metastore 4.
exec spark-submit --master 'local[2]' --class "$class" --jars "$jar" \
  --conf spark.sql.extensions=org.hiveacid.spark.AcidExtensions \
  --conf spark.sql.catalogImplementation=in-memory \
  --conf "spark.hiveacid.uris=$METASTORE_URI" \
  --conf "spark.hadoop.hive.server2.thrift.port=$SERVER_PORT" \
  --conf "spark.connect.grpc.binding.port=$SERVER_PORT" \
  spark-internal
