"""The Spark application of InsertJob: `spark-submit insert.py --job FILE --report FILE`."""

import sys

from airflow_hiveacid.engine.run import main
from airflow_hiveacid.jobs.die_with_parent import die_with_parent
from airflow_hiveacid.jobs.write_jobs import InsertJob

if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1:], InsertJob))
