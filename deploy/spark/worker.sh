#!/bin/sh
# Run a worker of a Spark standalone cluster in the foreground. Executors take over its environment:
# where Python and the S3 store are.
set -eu
export SPARK_CONF_DIR="$(cd "$(dirname "$0")" && pwd)"
exec spark-class org.apache.spark.deploy.worker.Worker \
  --cores "$SPARK_WORKER_CORES" --memory "$SPARK_WORKER_MEMORY" \
  --work-dir "$SPARK_WORKER_DIR" --webui-port "$SPARK_WEBUI_PORT" \
  "spark://$SPARK_MASTER_HOST:$SPARK_MASTER_PORT"
