#!/bin/sh
# Run once before Airflow starts: its database, and a table with a feed of changes to play with.
set -eu
airflow db migrate
python3 "$(dirname "$0")/demo.py"
