#!/bin/sh
# Run one of Airflow's processes in the foreground: start.sh api-server, start.sh standalone, …
# The one user is called admin; the password is AIRFLOW_ADMIN_PASSWORD.
set -eu
umask 077
python3 -c 'import json, os; print(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))' \
  > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
umask 022
exec airflow "$@"
