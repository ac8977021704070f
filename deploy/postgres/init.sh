#!/bin/sh
# Run once, when the server is new: a database and a user of its own for the metastore and for
# Airflow.
set -eu

create() {
  psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
    --set name="$1" --set password="$2" <<'SQL'
CREATE USER :"name" PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
SQL
}

create metastore "$METASTORE_DATABASE_PASSWORD"
create airflow "$AIRFLOW_DATABASE_PASSWORD"
