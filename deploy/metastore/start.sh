#!/bin/sh
# Bring the database to the schema of this release, then run the metastore in the foreground.
# METASTORE_HOME is the output of prepare.py; metastore-site.xml lists the other variables.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export METASTORE_CONF_DIR="$here"

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
options="-Xmx${METASTORE_HEAP:-512m} -Dlog4j.configurationFile=$here/log4j2.properties"
classpath="$here:$here/../hadoop:$METASTORE_HOME/lib/*:$METASTORE_HOME/../s3a/*"
schema_tool=org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool

# It prints every statement, which is only useful after a failure.
if ! said=$("$java" $options -cp "$classpath" $schema_tool -dbType postgres -initOrUpgradeSchema 2>&1)
then
  echo "$said" >&2
  exit 1
fi
echo "The schema is there; the metastore listens at port $METASTORE_PORT."
exec "$java" $options -cp "$classpath" org.apache.hadoop.hive.metastore.HiveMetaStore
