#!/bin/sh
# Run the master of a Spark standalone cluster in the foreground.
set -eu
export SPARK_CONF_DIR="$(cd "$(dirname "$0")" && pwd)"
exec spark-class org.apache.spark.deploy.master.Master \
  --host "$SPARK_MASTER_HOST" --port "$SPARK_MASTER_PORT" --webui-port "$SPARK_WEBUI_PORT"
